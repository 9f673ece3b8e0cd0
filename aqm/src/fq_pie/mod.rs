//! fq_pie: flow queueing with a PIE controller per flow (spec/fq_pie.md).

mod config;
mod qdisc;
mod stats;
#[cfg(test)]
mod tests;

pub use config::{Config, Parameters};
pub use qdisc::FqPie;
pub use stats::{FlowState, Stats};
