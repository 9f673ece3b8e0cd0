//! Damaged, hostile and foreign files.

use super::generate::Choices;
use super::*;
use crate::trace::columns::FIXED_COLUMNS;
use crate::trace::frame::{BLOCK, checksum};

fn kind(bytes: &[u8]) -> TraceErrorKind {
    read(bytes).expect_err("this trace must be refused").kind
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = written(&sample());
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= change;
            assert!(read(&bad).is_err(), "byte {at} changed by {change:#x}");
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = written(&sample());
    for len in 0..bytes.len() {
        let kind = kind(&bytes[..len]);
        let named = match len {
            ..8 => matches!(kind, TraceErrorKind::NotATrace),
            _ => matches!(kind, TraceErrorKind::Truncated { .. }),
        };
        assert!(named, "{len} bytes: {kind:?}");
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    bolero::check!().with_iterations(5000).for_each(|bytes: &[u8]| {
        let _ = read(bytes);
        // Behind a good start, too.
        let empty = written(&Trace { header: header(), events: vec![] });
        let start = &empty[..empty.len() - 33];
        assert!(read(&[start, bytes].concat()).is_err());
    });
}

/// The start of a file up to the first block, and the header's checksum.
fn start() -> (Vec<u8>, u32) {
    let bytes = written(&Trace { header: header(), events: vec![] });
    let crc = u32::from_le_bytes(bytes[16..20].try_into().unwrap());
    (bytes[..bytes.len() - 33].to_vec(), crc)
}

/// A file whose one block has a sound checksum and holds this payload.
fn with_payload(payload: &[u8], events: u32) -> Vec<u8> {
    let (mut bytes, header_crc) = start();
    let compressed = zstd::bulk::compress(payload, 1).unwrap();
    let mut fields = Vec::new();
    for number in [compressed.len() as u32, payload.len() as u32, events] {
        fields.extend_from_slice(&number.to_le_bytes());
    }
    let crc = checksum(header_crc, 0, BLOCK, &fields, &compressed);
    bytes.push(BLOCK);
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&compressed);
    bytes
}

/// The decompressed payload of the only block of a trace.
fn payload(trace: &Trace) -> Vec<u8> {
    let bytes = written(trace);
    let block = start().0.len() + 1;
    let compressed = u32::from_le_bytes(bytes[block..block + 4].try_into().unwrap()) as usize;
    let decompressed = u32::from_le_bytes(bytes[block + 4..block + 8].try_into().unwrap()) as usize;
    zstd::bulk::decompress(&bytes[block + 16..block + 16 + compressed], decompressed).unwrap()
}

#[test]
fn arbitrary_columns_never_panic() {
    bolero::check!().with_iterations(400).with_max_len(4096).for_each(|bytes: &[u8]| {
        let (count, bytes) = bytes.split_first().unwrap_or((&1, &[]));
        assert!(read(&with_payload(bytes, (*count).into())).is_err());
        // Columns that are at least split rightly: all bytes in one.
        let columns = FIXED_COLUMNS + 9;
        for column in 0..columns {
            let mut table = vec![0; columns];
            if bytes.len() < 128 {
                table[column] = bytes.len() as u8;
                let _ = read(&with_payload(&[&table, bytes].concat(), (*count).into()));
            }
        }
    });
}

#[test]
fn changed_columns_never_panic() {
    bolero::check!().with_iterations(2000).with_max_len(2048).for_each(|bytes: &[u8]| {
        let events = if bytes.len() % 2 == 0 { sample().events } else { Choices::new(bytes).events() };
        if events.is_empty() {
            return;
        }
        let count = events.len() as u32;
        let mut payload = payload(&Trace { header: header(), events });
        for change in bytes.chunks_exact(3).take(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % payload.len();
            payload[at] ^= change[2];
        }
        let _ = read(&with_payload(&payload, count));
    });
}

#[test]
fn an_error_names_the_block_and_the_event() {
    let mut payload = payload(&sample());
    let last_text = payload.windows(6).position(|bytes| bytes == b"qdisc\n").unwrap();
    payload[last_text] = 0xff;
    let bytes = with_payload(&payload, sample().events.len() as u32);
    let error = read(&bytes).unwrap_err();
    assert!(matches!(error.kind, TraceErrorKind::Malformed(Fault::Text)), "{error:?}");
    assert_eq!(error.at, Position { byte: start().0.len() as u64, block: 0, event: 10 });
    assert_eq!(error.to_string(), format!("byte {} (block 0, event 10): a text is not UTF-8", start().0.len()));
}

#[test]
fn newer_files_are_refused_by_name() {
    let mut bytes = written(&sample());
    bytes[8] = 2;
    assert!(matches!(kind(&bytes), TraceErrorKind::FutureVersion { found: 2, supported: 1 }));
    let mut bytes = written(&sample());
    bytes[10] = FIXED_COLUMNS as u8 + 1;
    assert!(matches!(kind(&bytes), TraceErrorKind::Field { field: "the number of columns", .. }));
}

#[test]
fn an_older_file_with_fewer_columns_is_read() {
    // A column of the end that is not in the table: its length byte goes, the header says one column less.
    let trace = Trace { header: header(), events: sample().events[..1].to_vec() };
    let mut payload = payload(&trace);
    assert_eq!(payload.remove(FIXED_COLUMNS - 1), 0, "the last column is empty");
    let mut bytes = with_payload(&payload, 1);
    let (header, crc) = start();
    // The number of columns is under the header's checksum, which is under the block's.
    let block = bytes.split_off(header.len());
    bytes[10..12].copy_from_slice(&(FIXED_COLUMNS as u16 - 1).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..16]);
    hasher.update(&bytes[20..]);
    let new_crc = hasher.finalize();
    assert_ne!(crc, new_crc);
    bytes[16..20].copy_from_slice(&new_crc.to_le_bytes());
    let fields = &block[1..13];
    let block_crc = checksum(new_crc, 0, BLOCK, fields, &block[17..]);
    bytes.push(BLOCK);
    bytes.extend_from_slice(fields);
    bytes.extend_from_slice(&block_crc.to_le_bytes());
    bytes.extend_from_slice(&block[17..]);
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), trace.events[0]);
    assert!(matches!(reader.next().unwrap().unwrap_err().kind, TraceErrorKind::Truncated { .. }));
}

#[test]
fn lost_records_are_refused() {
    let mut lossy = header();
    lossy.records_lost = 3;
    let bytes = Writer::new(Vec::new(), &lossy).unwrap().finish().unwrap();
    assert!(matches!(kind(&bytes), TraceErrorKind::RecordsLost(3)));
    // Known only at the end of the recording.
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    writer.lost(5);
    assert!(matches!(kind(&writer.finish().unwrap()), TraceErrorKind::RecordsLost(5)));
}

#[test]
fn frames_in_another_place_are_refused() {
    let one = written(&sample());
    let empty = start().0.len();
    let block = &one[empty..one.len() - 33];
    let trailer = &one[one.len() - 33..];
    // Twice the same block, no block, bytes behind the trailer.
    assert!(matches!(
        kind(&[&one[..empty], block, block, trailer].concat()),
        TraceErrorKind::Checksum { part: "block" }
    ));
    assert!(matches!(kind(&[&one[..empty], trailer].concat()), TraceErrorKind::Checksum { part: "trailer" }));
    assert!(matches!(kind(&[&one[..], &[0]].concat()), TraceErrorKind::TrailingBytes));
    // A block of another trace.
    let mut other = sample();
    other.header.tool = "other".into();
    let other = written(&other);
    let other_start = other.len() - block.len() - 33;
    assert!(matches!(
        kind(&[&other[..other_start], block, trailer].concat()),
        TraceErrorKind::Checksum { part: "block" }
    ));
}

#[test]
fn hostile_lengths_are_refused_before_anything_is_allocated() {
    let (start, _) = start();
    let block = |numbers: [u32; 3]| {
        let mut bytes = start.clone();
        bytes.push(BLOCK);
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend_from_slice(&[0; 4]);
        bytes
    };
    assert!(matches!(kind(&block([u32::MAX, 1, 1])), TraceErrorKind::Field { field: "a block's length", .. }));
    assert!(matches!(kind(&block([1, u32::MAX, 1])), TraceErrorKind::Field { .. }));
    assert!(matches!(kind(&block([1, 100, 101])), TraceErrorKind::Field { field: "a block's event count", .. }));
    assert!(matches!(kind(&block([1, 100, 0])), TraceErrorKind::Field { field: "a block's event count", .. }));
    assert!(matches!(kind(&block([8 << 20, 100, 1])), TraceErrorKind::Truncated { part: "block" }));
    let mut long_header = start.clone();
    long_header[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(kind(&long_header), TraceErrorKind::Field { field: "the header's length", .. }));
    // A block that decompresses to more than it says, and one of less.
    for change in [1u32.wrapping_neg(), 1] {
        let mut bytes = with_payload(&[0; 1000], 1);
        let at = start.len() + 5;
        let said = 1000u32.wrapping_add(change).to_le_bytes();
        bytes[at..at + 4].copy_from_slice(&said);
        let (_, crc) = self::start();
        let fields: Vec<u8> = bytes[start.len() + 1..start.len() + 13].to_vec();
        let crc = checksum(crc, 0, BLOCK, &fields, &bytes[start.len() + 17..]);
        bytes[start.len() + 13..start.len() + 17].copy_from_slice(&crc.to_le_bytes());
        assert!(matches!(kind(&bytes), TraceErrorKind::Field { field: "a block's decompressed length", .. }));
    }
}

#[test]
fn counts_beyond_their_limits_are_refused() {
    // A call whose steps are said to be 2^20 + 1: the column of counts holds that number, nothing else matters.
    let hook = Event::Hook(Hook {
        time_ns: 0,
        connection: 0,
        hook: HookKind::Init,
        arguments: vec![],
        result: None,
        jiffies: [0; 2],
        steps: vec![],
        snapshots: vec![],
    });
    let mut payload = payload(&Trace { header: header(), events: vec![hook] });
    // The table entry of the column of step counts, and the one byte in it.
    let (step_count, columns) = (crate::trace::columns::Column::StepCount as usize, FIXED_COLUMNS + 9);
    let before: usize = payload[..step_count].iter().map(|length| usize::from(*length)).sum();
    payload[step_count] = 3;
    let at = columns + before;
    payload.splice(at..=at, [0x81, 0x80, 0x40]);
    let error = kind(&with_payload(&payload, 1));
    let expected = Fault::TooMany { what: "steps", count: (1 << 20) + 1, limit: 1 << 20 };
    assert!(matches!(error, TraceErrorKind::Malformed(fault) if fault == expected), "{error:?}");
}
