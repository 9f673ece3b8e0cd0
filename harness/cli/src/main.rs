//! The debloat command.
fn main() {}
