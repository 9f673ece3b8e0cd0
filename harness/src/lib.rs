//! What drives the debloat ports: the trace format and its replay, tc syntax and statistics output.

pub mod tc;
