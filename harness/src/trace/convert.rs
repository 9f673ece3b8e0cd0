//! Traces as JSON lines: the header, the events, the end.

use std::io::{BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use super::{Event, Header, Position, Reader, Trace, TraceError, TraceErrorKind};

/// One line of a trace in JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<H, E> {
    /// The first line.
    Header(H),
    /// Every other line.
    Event(E),
    /// The last line.
    End {
        /// Event lines before it.
        events: u64,
    },
}

/// Writes a trace as JSON lines: `{"header":…}`, then one `{"event":…}` per event, then `{"end":{"events":n}}`.
///
/// # Errors
///
/// A trace that is not whole (what was read before the fault has been written), or errors of the output.
pub fn to_json_lines<R: Read>(mut reader: Reader<R>, output: &mut impl Write) -> Result<(), TraceError> {
    put(output, &Line::<_, ()>::Header(reader.header())).map_err(|kind| fail(0, kind))?;
    let mut events = 0;
    for event in reader.by_ref() {
        put(output, &Line::<(), _>::Event(event?)).map_err(|kind| fail(events, kind))?;
        events += 1;
    }
    put(output, &Line::<(), ()>::End { events }).map_err(|kind| fail(events, kind))
}

fn put(output: &mut impl Write, line: &impl Serialize) -> Result<(), TraceErrorKind> {
    let mut text = serde_json::to_string(line).map_err(|source| TraceErrorKind::Json { line: 0, source })?;
    text.push('\n');
    Ok(output.write_all(text.as_bytes())?)
}

const fn fail(event: u64, kind: TraceErrorKind) -> TraceError {
    TraceError { at: Position { byte: 0, block: 0, event }, kind }
}

/// Reads what [`to_json_lines`] wrote. Whether the events make a valid trace, [`Trace::write`] will say.
///
/// # Errors
///
/// A line that is not what belongs there, with its number; a missing or wrong end.
pub fn from_json_lines(input: impl BufRead) -> Result<Trace, TraceError> {
    let mut header: Option<Header> = None;
    let mut events: Vec<Event> = Vec::new();
    let mut end = None;
    for (number, text) in (1u64..).zip(input.lines()) {
        let at = events.len() as u64;
        let text = text.map_err(|error| fail(at, error.into()))?;
        let wrong = |what: &str| {
            let source = serde::de::Error::custom(what);
            fail(at, TraceErrorKind::Json { line: number, source })
        };
        let line =
            serde_json::from_str(&text).map_err(|source| fail(at, TraceErrorKind::Json { line: number, source }))?;
        match line {
            _ if end.is_some() => return Err(wrong("a line after the end")),
            Line::Header(first) if header.is_none() => header = Some(first),
            Line::Header(_) => return Err(wrong("a second header")),
            _ if header.is_none() => return Err(wrong("the first line must be the header")),
            Line::Event(event) => events.push(event),
            Line::End { events: count } => end = Some(count),
        }
    }
    let found = events.len() as u64;
    match (header, end) {
        (Some(header), Some(expected)) if expected == found => Ok(Trace { header, events }),
        (Some(_), Some(expected)) => Err(fail(found, TraceErrorKind::Totals { what: "events", expected, found })),
        _ => Err(fail(found, TraceErrorKind::Truncated { part: "JSON lines" })),
    }
}
