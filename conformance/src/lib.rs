//! The evidence that the ports are exact: recorded traces and their replay, and the kernel oracle's comparisons.

pub mod conform;
pub mod diff;
