//! The specification's worked examples and reference runs, and the known faults of the field.

mod examples;
mod reference_runs;
mod sharing;
pub(super) mod support;
