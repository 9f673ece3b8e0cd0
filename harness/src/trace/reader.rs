use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use super::columns::{ColumnReader, FIXED_COLUMNS};
use super::decode::Decoder;
use super::frame::{
    BLOCK, BLOCK_BYTES, HEADER_BYTES, MAGIC, MAX_BLOCK, MAX_EVENTS, MAX_HEADER, TRAILER, TRAILER_BYTES, VERSION,
    checksum, u32_at, u64_at,
};
use super::state::CodingState;
use super::{Event, Header, Position, TraceError, TraceErrorKind};

/// Reads a trace: an iterator over its events, which ends after the first error.
///
/// Only when it ended without one was the trace whole: the trailer comes last.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: R,
    header: Header,
    header_crc: u32,
    fixed_columns: usize,
    state: CodingState,
    block: Option<OpenBlock>,
    at: Position,
    next_byte: u64,
    ended: bool,
}

#[derive(Debug)]
struct OpenBlock {
    columns: ColumnReader,
    events_left: u32,
}

impl Reader<BufReader<File>> {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and if the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|error| TraceError { at: Position::default(), kind: error.into() })?;
        Self::new(BufReader::new(file))
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// Not a trace, a newer version, a damaged or contradictory header, records lost.
    pub fn new(mut input: R) -> Result<Self, TraceError> {
        let at = Position::default();
        match read_header(&mut input) {
            Ok(start) => Ok(Self {
                input,
                state: CodingState::new(&start.header.schemas),
                header: start.header,
                header_crc: start.crc,
                fixed_columns: start.fixed_columns,
                block: None,
                at: Position { byte: start.bytes, ..at },
                next_byte: start.bytes,
                ended: false,
            }),
            Err(kind) => Err(TraceError { at, kind }),
        }
    }

    /// What the trace says of itself.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Packets that have arrived so far.
    pub const fn packets(&self) -> u64 {
        self.state.next_packet
    }

    /// Where the reader is: the next event's place.
    pub const fn place(&self) -> Position {
        self.at
    }

    fn advance(&mut self) -> Result<Option<Event>, TraceErrorKind> {
        loop {
            if let Some(block) = &mut self.block {
                if block.events_left > 0 {
                    let event = Decoder { input: &mut block.columns, state: &mut self.state }.event()?;
                    block.events_left -= 1;
                    self.at.event += 1;
                    return Ok(Some(event));
                }
                block.columns.finished()?;
                self.block = None;
                self.at.block += 1;
                self.state.start_block();
            }
            self.at.byte = self.next_byte;
            let [tag] = self.read_array("trace before its trailer")?;
            match tag {
                BLOCK => self.block = Some(self.read_block()?),
                TRAILER => return self.read_trailer().map(|()| None),
                _ => return Err(field("a frame's tag", tag, "'B' or 'E'")),
            }
        }
    }

    fn read_block(&mut self) -> Result<OpenBlock, TraceErrorKind> {
        let fields: [u8; BLOCK_BYTES] = self.read_array("block")?;
        let [crc] = [self.read_array("block")?].map(u32::from_le_bytes);
        let compressed = u32_at(&fields, 0);
        let decompressed = u32_at(&fields, 4);
        let events_left = u32_at(&fields, 8);
        for (name, length) in [("a block's length", compressed), ("a block's decompressed length", decompressed)] {
            if length as usize > MAX_BLOCK {
                return Err(field(name, length, "at most 8388608 bytes"));
            }
        }
        if !(1..=MAX_EVENTS).contains(&events_left) || events_left > decompressed {
            return Err(field("a block's event count", events_left, "at least 1 and at most 2^20 or a byte each"));
        }
        let payload = read_counted(&mut self.input, compressed as usize, "block")?;
        self.next_byte += u64::from(compressed);
        if checksum(self.header_crc, self.at.block, BLOCK, &fields, &payload) != crc {
            return Err(TraceErrorKind::Checksum { part: "block" });
        }
        let columns = decompress(&payload, decompressed as usize)?;
        Ok(OpenBlock {
            columns: ColumnReader::new(columns, self.fixed_columns, self.state.value_columns())?,
            events_left,
        })
    }

    fn read_trailer(&mut self) -> Result<(), TraceErrorKind> {
        let fields: [u8; TRAILER_BYTES] = self.read_array("trailer")?;
        let [crc] = [self.read_array("trailer")?].map(u32::from_le_bytes);
        if checksum(self.header_crc, self.at.block, TRAILER, &fields, &[]) != crc {
            return Err(TraceErrorKind::Checksum { part: "trailer" });
        }
        let counts = [
            ("blocks", u64::from(u32_at(&fields, 0)), u64::from(self.at.block)),
            ("events", u64_at(&fields, 4), self.at.event),
            ("packets", u64_at(&fields, 12), self.state.next_packet),
        ];
        for (what, expected, found) in counts {
            if expected != found {
                return Err(TraceErrorKind::Totals { what, expected, found });
            }
        }
        match u64_at(&fields, 20) {
            0 => {}
            lost => return Err(TraceErrorKind::RecordsLost(lost)),
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(TraceErrorKind::TrailingBytes),
            Err(error) => Err(error.into()),
        }
    }

    fn read_array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], TraceErrorKind> {
        let mut bytes = [0; N];
        read_all(&mut self.input, &mut bytes, part)?;
        self.next_byte += N as u64;
        Ok(bytes)
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.advance() {
            Ok(Some(event)) => Some(Ok(event)),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(kind) => {
                self.ended = true;
                Some(Err(TraceError { at: self.at, kind }))
            }
        }
    }
}

fn read_header(input: &mut impl Read) -> Result<Start, TraceErrorKind> {
    let mut start = [0; HEADER_BYTES];
    read_all(input, &mut start[..8], "header").map_err(|error| match error {
        TraceErrorKind::Truncated { .. } => TraceErrorKind::NotATrace,
        other => other,
    })?;
    if start[..8] != MAGIC {
        return Err(TraceErrorKind::NotATrace);
    }
    read_all(input, &mut start[8..], "header")?;
    let version = u16::from_le_bytes([start[8], start[9]]);
    if version > VERSION {
        return Err(TraceErrorKind::FutureVersion { found: version, supported: VERSION });
    }
    if version == 0 {
        return Err(field("the version", version, "1"));
    }
    let fixed_columns = u16::from_le_bytes([start[10], start[11]]);
    if fixed_columns == 0 || usize::from(fixed_columns) > FIXED_COLUMNS {
        return Err(field("the number of columns", fixed_columns, "at least 1 and no more than this program knows"));
    }
    let length = u32_at(&start, 12);
    if length as usize > MAX_HEADER {
        return Err(field("the header's length", length, "at most 1048576 bytes"));
    }
    let mut crc = [0; 4];
    read_all(input, &mut crc, "header")?;
    let crc = u32::from_le_bytes(crc);
    let json = read_counted(input, length as usize, "header")?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&start);
    hasher.update(&json);
    if hasher.finalize() != crc {
        return Err(TraceErrorKind::Checksum { part: "header" });
    }
    let header: Header = serde_json::from_slice(&json).map_err(TraceErrorKind::Header)?;
    if let Some(contradiction) = header.contradiction() {
        return Err(TraceErrorKind::BadHeader(contradiction));
    }
    if header.records_lost != 0 {
        return Err(TraceErrorKind::RecordsLost(header.records_lost));
    }
    Ok(Start { header, crc, fixed_columns: fixed_columns.into(), bytes: (HEADER_BYTES + 4 + json.len()) as u64 })
}

/// What is read before the first block.
struct Start {
    header: Header,
    crc: u32,
    fixed_columns: usize,
    bytes: u64,
}

fn decompress(payload: &[u8], length: usize) -> Result<Vec<u8>, TraceErrorKind> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(payload).map_err(TraceErrorKind::Decompress)?;
    // No window may be larger than the largest block.
    decoder.window_log_max(MAX_BLOCK.ilog2()).map_err(TraceErrorKind::Decompress)?;
    let mut bytes = Vec::new();
    decoder.take(length as u64 + 1).read_to_end(&mut bytes).map_err(TraceErrorKind::Decompress)?;
    if bytes.len() != length {
        return Err(field("a block's decompressed length", length as u64, "what the block decompresses to"));
    }
    Ok(bytes)
}

/// Reads a stated number of bytes; memory grows only with bytes that are really there.
fn read_counted(input: &mut impl Read, length: usize, part: &'static str) -> Result<Vec<u8>, TraceErrorKind> {
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(TraceErrorKind::Truncated { part }) }
}

fn read_all(input: &mut impl Read, bytes: &mut [u8], part: &'static str) -> Result<(), TraceErrorKind> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => TraceErrorKind::Truncated { part },
        _ => error.into(),
    })
}

fn field(field: &'static str, found: impl Into<u64>, allowed: &'static str) -> TraceErrorKind {
    TraceErrorKind::Field { field, found: found.into(), allowed }
}
