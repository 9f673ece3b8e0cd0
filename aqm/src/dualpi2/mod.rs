//! DualPI2: the dual-queue coupled AQM for low latency, low loss and scalable throughput (spec/dualpi2.md, RFC 9332).
//!
//! Linux has it from 7.2 on, but no Debian kernel is built with it. This port is therefore held against an
//! independent model's vector file, worked numbers and invariants, not against a kernel's own answers.

mod arrival;
mod config;
mod departure;
mod probability;
mod qdisc;
mod stats;
#[cfg(test)]
mod tests;

pub use config::{Config, Parameters, StepThreshold};
pub use probability::BaseProbability;
pub use qdisc::DualPi2;
pub use stats::{Stats, Timestamps};
