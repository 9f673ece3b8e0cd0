//! PIE: the core controller, shared with fq_pie, and the plain `pie` qdisc (spec/pie.md, RFC 8033).

mod config;
mod controller;
mod qdisc;
#[cfg(test)]
mod tests;

pub use config::{Config, Parameters};
pub use controller::{Controller, MAX_PROBABILITY, UNSET};
pub use qdisc::{Pie, Stats};

pub(crate) use config::Law;
