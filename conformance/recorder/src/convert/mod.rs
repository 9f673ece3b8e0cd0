//! From raw records to the project's trace format.

mod congestion;
mod fields;
mod packets;
mod qdisc;
mod schema;
mod statistics;

use std::collections::BTreeMap;

use debloat_harness::trace::{self, Header, Origin, Subject, Trace};

use crate::error::Error;
use crate::raw::{Raw, kind};
use crate::recording::Recording;
use crate::scenario::{Record, Scenario};

pub(crate) use statistics::Reading;

/// The trace of a recording.
///
/// # Errors
/// [`Error::Raw`] for records that contradict each other, with the byte where; [`Error::Guest`] for statistics that
/// do not belong to the recording.
pub fn trace(recording: &Recording) -> Result<Trace, Error> {
    let Some(raw) = &recording.raw else {
        return Err(Error::Raw { offset: 0, message: "this scenario records nothing".into() });
    };
    match recording.scenario.record {
        Record::Congestion => congestion::trace(raw, recording),
        _ => qdisc::trace(raw, recording),
    }
}

/// The header, but for its subject, schemas and remarks.
fn header(raw: &Raw, recording: &Recording, subject: Subject) -> Header {
    let scenario = &recording.scenario;
    Header {
        kernel: trace::Kernel {
            series: recording.release.splitn(3, '.').take(2).collect::<Vec<_>>().join("."),
            release: recording.release.clone(),
            package: recording.package.clone(),
            hz: ticks_per_second(raw),
        },
        subject,
        origin: Origin::Recorded,
        tool: concat!("debloat ", env!("CARGO_PKG_VERSION"), " record").into(),
        description: format!("{}: {}", scenario.name, scenario.about),
        records_lost: 0,
        remarks: BTreeMap::new(),
        schemas: Vec::new(),
    }
}

/// The rate at which the jiffy counter ran, rounded to one that Linux can be built with.
fn ticks_per_second(raw: &Raw) -> u32 {
    let jiffies = |record: &crate::raw::Record<'_>| {
        let at = match record.kind {
            kind::DEQ => 32,
            kind::TIMER => 32,
            kind::CC => 72,
            _ => return None,
        };
        let bytes = record.bytes.get(at..at + 8)?;
        Some((record.at_ns, u64::from_le_bytes(bytes.try_into().ok()?)))
    };
    let mut seen = raw.records().filter_map(|r| jiffies(&r));
    let (Some(first), Some(last)) = (seen.next(), seen.last()) else { return 250 };
    let (time, ticks) = (last.0.saturating_sub(first.0), last.1.saturating_sub(first.1));
    let measured = u128::from(ticks) * 1_000_000_000 / u128::from(time.max(1));
    [100, 250, 300, 1000]
        .into_iter()
        .min_by_key(|&hz| u128::from(hz).abs_diff(measured) * 1000 / u128::from(hz))
        .unwrap_or(250)
}

fn bad<T>(offset: usize, message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Raw { offset, message: message.into() })
}

/// The subject of a queue discipline's trace; the rest of it is filled in from its creation.
fn qdisc_subject(scenario: &Scenario) -> (String, String) {
    let command = scenario.qdisc.command.get_ref().trim();
    let (name, options) = command.split_once(' ').unwrap_or((command, ""));
    (name.to_owned(), options.trim().to_owned())
}
