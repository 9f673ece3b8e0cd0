//! A congestion control's hooks as events. The importer of the harness merges the twin records; here is only chosen
//! which of them belong to the subject.

use debloat_harness::import::{self, Meta};
use debloat_harness::trace::{CcSubject, Subject, Trace};

use super::{bad, header};
use crate::error::Error;
use crate::raw::{Raw, Record, kind};
use crate::recording::Recording;

/// Hooks of the algorithm itself; higher numbers are the core's own steps, for which the trace format has no event.
const HOOKS: std::ops::RangeInclusive<u32> = 1..=10;
/// Where a hook's record has the name of the connection's congestion control: its last 16 bytes.
const NAME: usize = 16;

pub(super) fn trace(raw: &Raw, recording: &Recording) -> Result<Trace, Error> {
    let scenario = &recording.scenario;
    let Some(name) = scenario.congestion_controls().first().map(|&n| n.to_owned()) else {
        return bad(0, "no congestion control was recorded");
    };
    let subject = CcSubject { name: name.clone(), options: String::new(), parameters: Default::default() };
    let made = header(raw, recording, Subject::CongestionControl(subject));
    let meta = Meta {
        kernel: made.kernel.clone(),
        subject: made.subject.clone(),
        description: made.description.clone(),
        records_lost: 0,
    };
    let mut chosen = Vec::new();
    for record in raw.records().filter(|r| is_of(r, &name)) {
        chosen.extend_from_slice(record.bytes);
    }
    let mut trace = import::congestion_control(chosen.as_slice(), &meta)
        .map_err(|e| Error::Raw { offset: e.byte as usize, message: format!("among the hooks of {name}: {e}") })?;
    trace.header.tool = made.tool;
    Ok(trace)
}

fn is_of(record: &Record<'_>, name: &str) -> bool {
    match record.kind {
        kind::RND => true,
        kind::CC | kind::CCR => {
            let function = record.bytes.get(16..20).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let text = &record.bytes[record.bytes.len().saturating_sub(NAME)..];
            let own = text.split(|b| *b == 0).next() == Some(name.as_bytes());
            own && HOOKS.contains(&(function & 0xffff))
        }
        _ => false,
    }
}
