use serde::Serialize;
use std::fmt;

use crate::tc::BuildError;

/// What a replay compared, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Events of the trace.
    pub events: u64,
    /// Packets that arrived (qdiscs), or hook calls (congestion controls).
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked CE.
    pub marks: u64,
    /// Clock reads fed.
    pub clock_reads: u64,
    /// Random draws fed.
    pub draws: u64,
    /// Private-state values compared.
    pub state_values: u64,
    /// Flow hashes recomputed from packet bytes.
    pub hashes: u64,
    /// Values where two were possible and either was accepted (a jiffy tick inside a hook).
    pub ambiguous: u64,
    /// Events in which something differed.
    pub divergences: u64,
    /// The first of them.
    pub first: Option<Divergence>,
}

/// The first event in which port and kernel differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Number of the event in the trace, from 0.
    pub event: u64,
    /// Time of the event on the recorder's clock, ns.
    pub time_ns: u64,
    /// The event, on one line.
    pub what: String,
    /// What differs.
    pub differences: Vec<Difference>,
    /// The last events before it, oldest first.
    pub before: Vec<String>,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub what: String,
    /// The kernel's.
    pub expected: String,
    /// The port's.
    pub actual: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "event {} at {} ns: {}", self.event, self.time_ns, self.what)?;
        let width = |text: fn(&Difference) -> &str, title: &str| {
            self.differences.iter().map(|d| text(d).chars().count()).max().unwrap_or(0).max(title.len())
        };
        let (what, expected) = (width(|d| &d.what, "what"), width(|d| &d.expected, "kernel"));
        writeln!(f, "  {:what$}  {:expected$}  port", "what", "kernel")?;
        for d in &self.differences {
            writeln!(f, "  {:what$}  {:expected$}  {}", d.what, d.expected, d.actual)?;
        }
        if !self.before.is_empty() {
            writeln!(f, "  the events before it:")?;
        }
        for line in &self.before {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

/// A trace that cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The kernel's series is none of the ports' versions.
    #[error("kernel series {series}: the ports know 6.1, 6.12 and 7.2")]
    UnknownKernel {
        /// The series.
        series: String,
    },
    /// The ports have no such qdisc or congestion control.
    #[error("{name}: no port of this name")]
    UnknownSubject {
        /// Its name.
        name: String,
    },
    /// The header's options are refused.
    #[error("the header's options: {0}")]
    Options(#[from] BuildError),
    /// A snapshot shows a state which the port cannot show.
    #[error("event {event}: {schema}.{field} of object {key} is unknown to the port")]
    UnknownState {
        /// The event.
        event: u64,
        /// The snapshot's schema.
        schema: String,
        /// The field.
        field: String,
        /// The object.
        key: u64,
    },
    /// A snapshot names a schema that the header does not have, or has another number of values.
    #[error("event {event}: snapshot of schema {schema} does not fit the header")]
    BadSnapshot {
        /// The event.
        event: u64,
        /// Its number.
        schema: u16,
    },
    /// A parameter of a congestion control that the port does not have, or not with this value.
    #[error("parameter {name}={value} is unknown to the port")]
    Parameter {
        /// Its name.
        name: String,
        /// Its value.
        value: i64,
    },
    /// A hook call that cannot be made.
    #[error("event {event}: {what}")]
    BadHook {
        /// The event.
        event: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// An event of a kind that does not belong to the subject.
    #[error("event {event}: a {kind} does not belong into a trace of {subject}")]
    WrongEvent {
        /// The event.
        event: u64,
        /// Its kind.
        kind: &'static str,
        /// The subject.
        subject: String,
    },
}
