//! fq: fair queueing of sockets with pacing, by rate and by departure time (spec/fq.md).

mod config;
mod dequeue;
mod enqueue;
mod flow;
mod lookup;
mod paced;
mod pending;
mod qdisc;
mod stats;
#[cfg(test)]
mod tests;

pub use config::{Config, Parameters};
pub use paced::Paced;
pub use qdisc::Fq;
pub use stats::{FlowState, FlowStatus, Stats};
