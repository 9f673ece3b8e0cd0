//! Comparisons of the ports with the kernel's own code: random operations on both, states compared after each.

pub mod cake;
