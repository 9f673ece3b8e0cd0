//! What drives the ports: traces of real kernels and their import, replay, tc syntax and output.

pub mod trace;
