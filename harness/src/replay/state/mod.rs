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

use crate::trace::Field;

/// Shows private state by name, for comparison with a trace's snapshots.
pub trait Probe {
    /// One value of the object `key` of the schema, as its bits sign-extended to 64; `None` if there is no such
    /// value.
    fn probe(&self, schema: &str, key: u64, field: &str) -> Option<u64>;

    /// The values of all these fields, in order: for those who can show many as cheaply as one.
    fn probe_all(&self, schema: &str, key: u64, fields: &[Field], values: &mut Vec<Option<u64>>) {
        values.extend(fields.iter().map(|field| self.probe(schema, key, &field.name)));
    }
}
