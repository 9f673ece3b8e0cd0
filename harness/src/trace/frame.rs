//! The frames of a trace file: header, blocks, trailer.

/// What every trace begins with.
pub(super) const MAGIC: [u8; 8] = *b"DBLTRACE";
/// The version that is written, and the newest that is read.
pub(super) const VERSION: u16 = 1;
/// Magic, version, number of fixed columns, JSON length; the checksum follows, then the JSON.
pub(super) const HEADER_BYTES: usize = 16;
/// The longest JSON header.
pub(super) const MAX_HEADER: usize = 1 << 20;
/// The largest block, compressed or not.
pub(super) const MAX_BLOCK: usize = 8 << 20;
/// The writer ends a block when its columns hold this much.
pub(super) const FULL_BLOCK: usize = 4 << 20;
/// The largest event: what an almost full block still takes, with its column table.
pub(super) const MAX_EVENT: usize = MAX_BLOCK - FULL_BLOCK - (1 << 16);
/// Most events in a block.
pub(super) const MAX_EVENTS: u32 = 1 << 20;

/// First byte of a block.
pub(super) const BLOCK: u8 = b'B';
/// First byte of the trailer.
pub(super) const TRAILER: u8 = b'E';

/// What follows a block's tag: compressed length, decompressed length, events; the checksum follows, then the payload.
pub(super) const BLOCK_BYTES: usize = 12;
/// What follows the trailer's tag: blocks, events, packets, records lost; the checksum follows.
pub(super) const TRAILER_BYTES: usize = 28;

/// The checksum of a frame behind the header: it also covers which trace and which place in it the frame belongs to.
pub(super) fn checksum(header_crc: u32, index: u32, tag: u8, fields: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header_crc.to_le_bytes());
    crc.update(&index.to_le_bytes());
    crc.update(&[tag]);
    crc.update(fields);
    crc.update(payload);
    crc.finalize()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].iter().take(4).rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
