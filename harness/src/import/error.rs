use std::io;

/// A raw recording that cannot be imported, and where.
#[derive(Debug, thiserror::Error)]
#[error("record {record} at byte {byte}: {kind}")]
pub struct ImportError {
    /// The record, counted from 0.
    pub record: u64,
    /// Where it begins in the decompressed recording.
    pub byte: u64,
    /// What is wrong.
    pub kind: ImportErrorKind,
}

/// What is wrong with a raw recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportErrorKind {
    /// The recording could not be read or decompressed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The recording ends inside a record.
    #[error("the recording ends inside the record")]
    Truncated,
    /// A record type that this importer does not know.
    #[error("record type {0} is unknown")]
    UnknownType(u16),
    /// A record of the wrong length.
    #[error("a record of type {kind} has {found} bytes; {expected} are due")]
    Length {
        /// Its type.
        kind: u16,
        /// The length in it.
        found: u16,
        /// The length due, at least.
        expected: u16,
    },
    /// A return without a call, or a call inside a call.
    #[error("{found} where {expected} is due")]
    Order {
        /// What came.
        found: &'static str,
        /// What is due.
        expected: &'static str,
    },
    /// A field with a value that cannot be.
    #[error("{field} is {value:#x}, which must be {allowed}")]
    Field {
        /// Which.
        field: &'static str,
        /// The value.
        value: u64,
        /// What is allowed, in words.
        allowed: &'static str,
    },
    /// A buffer comes out, or is dropped, that is not queued.
    #[error("the buffer at {0:#x} is not queued")]
    UnknownPacket(u64),
    /// A recorded effect that contradicts the recorded cause: an event is missing or foreign.
    #[error("{what}: {found} recorded, {expected} follows from the rest of the call")]
    Contradiction {
        /// What was compared.
        what: &'static str,
        /// The recorded value.
        found: u64,
        /// The value due.
        expected: u64,
    },
    /// More packets were freed in one call than a record lists.
    #[error("{0} packets were freed in one call; the record lists at most 8")]
    TooManyFreed(u32),
    /// A snapshot of an unknown kind.
    #[error("state of kind {0:#x} is unknown for this subject")]
    UnknownSnapshot(u32),
    /// No importer for this subject.
    #[error("recordings of {0} cannot be imported")]
    UnknownSubject(String),
    /// A line of the symbol list that is not "start end name".
    #[error("line {0} of the symbol list is not \"start end name\"")]
    Symbol(usize),
}
