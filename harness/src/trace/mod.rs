//! The trace format: what a kernel's queue discipline or congestion control read and did, call by call.
//!
//! [`Writer`] streams events into a file, [`Reader`] is an iterator over a file's events. The file layout is described
//! in the project's `docs/trace-format.md`.

mod cause;
mod columns;
mod convert;
mod decode;
mod display;
mod encode;
mod error;
mod event;
mod frame;
mod header;
mod hex;
mod reader;
mod snapshot;
mod state;
mod summary;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;

pub use cause::DropCause;
pub use convert::{from_json_lines, to_json_lines};
pub use error::{Fault, Position, TraceError, TraceErrorKind};
pub(crate) use event::ds_field;
pub use event::{
    Arrival, ByteChange, Call, Delivered, Event, GsoInfo, Hook, HookKind, NamedValue, Operation, Outcome, PacketRef,
    SegmentInfo, State, Statistics, Step, VlanTag,
};
pub use header::{CcSubject, Device, Hashes, Header, Kernel, Origin, QdiscSubject, Subject};
pub use reader::Reader;
pub use snapshot::{Field, Moment, Schema, Snapshot};
pub use summary::Summary;
pub use writer::Writer;

/// A whole trace in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What it says of itself.
    pub header: Header,
    /// Its events, in order.
    pub events: Vec<Event>,
}

impl Trace {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Whatever makes [`Reader`] refuse the file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let reader = Reader::open(path)?;
        let header = reader.header().clone();
        Ok(Self { header, events: reader.collect::<Result<_, _>>()? })
    }

    /// Writes a file, as small as it gets.
    ///
    /// # Errors
    ///
    /// Whatever [`Writer`] refuses to write.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), TraceError> {
        let mut writer = Writer::create(path, &self.header)?;
        self.events.iter().try_for_each(|event| writer.write(event))?;
        writer.finish().map(drop)
    }
}
