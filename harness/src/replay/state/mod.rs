//! The ports' private state under the names which the trace schemas use.

mod cake;
mod codel;
mod dualpi2;
mod fifo;
mod fq;
mod fq_codel;
mod fq_pie;
mod pie;
mod red;
mod sfq;

/// Shows private state by name, for comparison with a trace's snapshots.
pub trait Probe {
    /// One value of the object `key` of the schema, as its bits sign-extended to 64; `None` if there is no such
    /// value.
    fn probe(&self, schema: &str, key: u64, field: &str) -> Option<u64>;
}
