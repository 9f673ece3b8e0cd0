//! Fetching kernels.

/// File that marks a completely unpacked kernel.
pub(crate) const COMPLETE: &str = ".complete";
