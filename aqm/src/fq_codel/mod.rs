//! fq_codel: flow queueing with a CoDel controller per flow (spec/fq_codel.md, RFC 8290).

mod config;
mod overload;
mod qdisc;
mod source;
mod stats;
#[cfg(test)]
mod tests;

pub use config::{Config, Parameters, Selector};
pub use qdisc::FqCodel;
pub use stats::{ClassStats, FlowState, Stats};
