//! What drives the ports: traces of real kernels, their import and replay, tc syntax and statistics output.

pub mod cc;
pub mod import;
pub mod replay;
pub mod tc;
pub mod trace;
