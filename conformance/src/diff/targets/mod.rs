//! The qdiscs that can be compared: one line each.

mod codel;
mod fq_codel;

use super::target::Target;

/// All targets.
pub const TARGETS: &[&dyn Target] = &[&codel::Codel, &fq_codel::FqCodel];

/// The target of a tc name.
pub fn find(kind: &str) -> Option<&'static dyn Target> {
    TARGETS.iter().copied().find(|target| target.kind() == kind)
}
