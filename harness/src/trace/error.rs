use std::io;

/// A trace that cannot be read or written, and where.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct TraceError {
    /// Where.
    pub at: Position,
    /// What is wrong.
    pub kind: TraceErrorKind,
}

/// A place in a trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes from the start of the file to the frame in question: the header, a block, or the trailer.
    pub byte: u64,
    /// The block, counted from 0; blocks before it were sound.
    pub block: u32,
    /// The event, counted from 0 over the whole trace; events before it were sound.
    pub event: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {} (block {}, event {})", self.byte, self.block, self.event)
    }
}

/// What is wrong with a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceErrorKind {
    /// The file could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not begin as a trace does.
    #[error("not a trace: it does not begin with \"DBLTRACE\"")]
    NotATrace,
    /// Made by a newer version of the format.
    #[error("made by version {found} of the format; this program reads up to version {supported}")]
    FutureVersion {
        /// The file's.
        found: u16,
        /// The newest that is read.
        supported: u16,
    },
    /// A field that must hold another value.
    #[error("{field} is {found}, which must be {allowed}")]
    Field {
        /// Which.
        field: &'static str,
        /// The value found.
        found: u64,
        /// What is allowed, in words.
        allowed: &'static str,
    },
    /// The file ends too early.
    #[error("the file ends inside the {part}")]
    Truncated {
        /// The header, a block, the trailer, or before the trailer.
        part: &'static str,
    },
    /// The checksum of a part does not match.
    #[error("the checksum of the {part} does not match: the file is damaged")]
    Checksum {
        /// The header, a block, or the trailer.
        part: &'static str,
    },
    /// The header's JSON is not a header.
    #[error("the header: {0}")]
    Header(#[source] serde_json::Error),
    /// A header that contradicts itself.
    #[error("the header: {0}")]
    BadHeader(String),
    /// The recorder lost records: the trace shows less than what happened.
    #[error("{0} records were lost while recording: such a trace proves nothing")]
    RecordsLost(u64),
    /// A block does not decompress.
    #[error("a block does not decompress: {0}")]
    Decompress(#[source] io::Error),
    /// An event's columns hold something impossible.
    #[error("{0}")]
    Malformed(#[from] Fault),
    /// The trailer counts other numbers of things than were read.
    #[error("the trailer counts {expected} {what}, the blocks hold {found}")]
    Totals {
        /// Events, packets or blocks.
        what: &'static str,
        /// The trailer's count.
        expected: u64,
        /// The count read.
        found: u64,
    },
    /// Bytes follow the trailer.
    #[error("bytes follow the trailer")]
    TrailingBytes,
    /// A line of JSON that is not what belongs there.
    #[error("line {line}: {source}")]
    Json {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// What is wrong inside an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A column ends too early.
    #[error("column {column} ends too early")]
    ColumnEnds {
        /// The column's number.
        column: u16,
    },
    /// A column holds more than its events need.
    #[error("column {column} has {left} bytes too many")]
    ColumnLeft {
        /// The column's number.
        column: u16,
        /// Unread bytes.
        left: usize,
    },
    /// The columns' lengths do not add up to the block's.
    #[error("the columns' lengths do not fit the block")]
    ColumnTable,
    /// A number that its field cannot hold.
    #[error("{what} does not hold {value:#x}")]
    Value {
        /// The field.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// More of something than one event may have.
    #[error("{count} {what} in one event; at most {limit} are allowed")]
    TooMany {
        /// What.
        what: &'static str,
        /// How many.
        count: u64,
        /// The limit.
        limit: u64,
    },
    /// Text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A snapshot that does not fit its schema.
    #[error("a snapshot has {found} values; schema {schema} has {fields} fields")]
    Schema {
        /// The schema's number.
        schema: u16,
        /// Fields in the schema.
        fields: usize,
        /// Values in the snapshot.
        found: usize,
    },
    /// Packets are numbered one after the other.
    #[error("packet {found} follows where packet {expected} must")]
    PacketNumber {
        /// The number due.
        expected: u64,
        /// The number given.
        found: u64,
    },
    /// A packet is named that has not arrived yet.
    #[error("packet {0} is named but has not arrived")]
    UnknownPacket(u64),
    /// One event takes more room than a block has.
    #[error("the event takes {0} bytes, more than a block holds")]
    EventTooLarge(usize),
}
