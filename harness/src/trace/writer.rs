use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::columns::{ColumnWriter, FIXED_COLUMNS};
use super::encode::Encoder;
use super::frame::{BLOCK, FULL_BLOCK, MAGIC, MAX_EVENT, MAX_EVENTS, MAX_HEADER, TRAILER, VERSION, checksum};
use super::state::CodingState;
use super::{Event, Fault, Header, Position, TraceError, TraceErrorKind};

/// The zstd level of committed traces.
const LEVEL: i32 = 19;

/// Writes a trace, event by event; memory use does not grow with the trace.
///
/// A trace without its trailer is refused by the reader: end with [`finish`](Self::finish).
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    level: i32,
    header_crc: u32,
    columns: ColumnWriter,
    state: CodingState,
    at: Position,
    block_events: u32,
    records_lost: u64,
    /// Set by an event that was too large: its columns are half written.
    broken: Option<Fault>,
}

impl Writer<BufWriter<File>> {
    /// Writes a new file.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and if the file cannot be made.
    pub fn create(path: impl AsRef<Path>, header: &Header) -> Result<Self, TraceError> {
        let file = File::create(path).map_err(|error| TraceError { at: Position::default(), kind: error.into() })?;
        Self::new(BufWriter::new(file), header)
    }
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// A header that contradicts itself or is longer than 1 MiB; errors of the output.
    pub fn new(mut output: W, header: &Header) -> Result<Self, TraceError> {
        let at = Position::default();
        let fail = |kind| TraceError { at, kind };
        if let Some(contradiction) = header.contradiction() {
            return Err(fail(TraceErrorKind::BadHeader(contradiction)));
        }
        let json = serde_json::to_vec(header).map_err(|error| fail(TraceErrorKind::Header(error)))?;
        let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= MAX_HEADER).ok_or_else(|| {
            fail(TraceErrorKind::Field {
                field: "the header's length",
                found: json.len() as u64,
                allowed: "at most 1048576 bytes",
            })
        })?;
        let mut start = Vec::with_capacity(json.len() + 20);
        start.extend_from_slice(&MAGIC);
        start.extend_from_slice(&VERSION.to_le_bytes());
        start.extend_from_slice(&(FIXED_COLUMNS as u16).to_le_bytes());
        start.extend_from_slice(&length.to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&start);
        crc.update(&json);
        let header_crc = crc.finalize();
        start.extend_from_slice(&header_crc.to_le_bytes());
        start.extend_from_slice(&json);
        output.write_all(&start).map_err(|error| fail(error.into()))?;
        let state = CodingState::new(&header.schemas);
        Ok(Self {
            output,
            level: LEVEL,
            header_crc,
            columns: ColumnWriter::new(state.value_columns()),
            state,
            at: Position { byte: start.len() as u64, ..at },
            block_events: 0,
            records_lost: header.records_lost,
            broken: None,
        })
    }

    /// Sets the zstd level, for traces that are not kept: 1 is fast.
    pub const fn with_level(mut self, level: i32) -> Self {
        self.level = level;
        self
    }

    /// Writes the next event.
    ///
    /// # Errors
    ///
    /// An event that the format does not allow (the trace stays good, without it) or that is larger than 4 MiB (the
    /// trace cannot be ended then); errors of the output.
    pub fn write(&mut self, event: &Event) -> Result<(), TraceError> {
        self.check_whole()?;
        self.state.admit(event).map_err(|fault| self.fail(fault.into()))?;
        let before = self.columns.bytes();
        Encoder { out: &mut self.columns, state: &mut self.state }.event(event);
        let took = self.columns.bytes() - before;
        if took > MAX_EVENT {
            self.broken = Some(Fault::EventTooLarge(took));
        }
        self.check_whole()?;
        self.at.event += 1;
        self.block_events += 1;
        if self.columns.bytes() >= FULL_BLOCK || self.block_events == MAX_EVENTS {
            self.end_block()?;
        }
        Ok(())
    }

    /// Notes that the recorder lost records; the trace will be refused by readers.
    pub const fn lost(&mut self, records: u64) {
        self.records_lost = self.records_lost.saturating_add(records);
    }

    /// Writes what is left and the trailer, and gives the output back.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.check_whole()?;
        if self.block_events != 0 {
            self.end_block()?;
        }
        let mut fields = Vec::with_capacity(28);
        fields.extend_from_slice(&self.at.block.to_le_bytes());
        fields.extend_from_slice(&self.at.event.to_le_bytes());
        fields.extend_from_slice(&self.state.next_packet.to_le_bytes());
        fields.extend_from_slice(&self.records_lost.to_le_bytes());
        self.frame(TRAILER, &fields, &[])?;
        self.output.flush().map_err(|error| self.fail(error.into()))?;
        Ok(self.output)
    }

    fn end_block(&mut self) -> Result<(), TraceError> {
        let payload = self.columns.take_payload();
        let compressed = zstd::bulk::compress(&payload, self.level).map_err(|error| self.fail(error.into()))?;
        let mut fields = Vec::with_capacity(12);
        for number in [compressed.len() as u32, payload.len() as u32, self.block_events] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        self.frame(BLOCK, &fields, &compressed)?;
        self.at.block += 1;
        self.block_events = 0;
        self.state.start_block();
        Ok(())
    }

    fn frame(&mut self, tag: u8, fields: &[u8], payload: &[u8]) -> Result<(), TraceError> {
        let crc = checksum(self.header_crc, self.at.block, tag, fields, payload).to_le_bytes();
        for part in [&[tag], fields, &crc, payload] {
            self.output.write_all(part).map_err(|error| self.fail(error.into()))?;
            self.at.byte += part.len() as u64;
        }
        Ok(())
    }

    fn check_whole(&self) -> Result<(), TraceError> {
        self.broken.map_or(Ok(()), |fault| Err(self.fail(fault.into())))
    }

    fn fail(&self, kind: TraceErrorKind) -> TraceError {
        TraceError { at: self.at, kind }
    }
}
