//! sfq: stochastic fairness queueing with longest-queue drop, perturbed hashing and, on request, RED per flow
//! (spec/sfq.md). All versions of Linux behave alike.

mod config;
mod perturb;
mod qdisc;
mod slots;
mod stats;
#[cfg(test)]
mod tests;

pub use config::{Config, Parameters, Red};
pub use qdisc::Sfq;
pub use stats::{ClassStats, SlotState, Stats};
