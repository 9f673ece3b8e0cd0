//! CoDel: the core controller, shared with fq_codel, and the plain `codel` qdisc (spec/codel.md).

mod config;
mod controller;
mod qdisc;
#[cfg(test)]
mod tests;

pub use config::{Config, Parameters};
pub use controller::{Controller, Shared};
pub use qdisc::{Codel, Stats};

pub(crate) use config::Law;
pub(crate) use controller::{Source, dequeue};
