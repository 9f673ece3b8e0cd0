//! The raw record stream as the loader wrote it: framing, head and end, and whether anything was lost.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Error;

/// Record types, as in `bpf/record.h`.
#[allow(missing_docs)]
pub mod kind {
    pub const ENQ: u16 = 1;
    pub const ENQR: u16 = 2;
    pub const DEQ: u16 = 3;
    pub const DEQR: u16 = 4;
    pub const KTIME: u16 = 5;
    pub const RND: u16 = 6;
    pub const RNDBYTES: u16 = 7;
    pub const FLOWHASH: u16 = 8;
    pub const SKBHASH: u16 = 9;
    pub const DROP: u16 = 10;
    pub const REDUCE: u16 = 11;
    pub const WATCHDOG: u16 = 12;
    pub const CAKEHASH: u16 = 13;
    pub const SNAP: u16 = 14;
    pub const TIMER: u16 = 15;
    pub const TIMERR: u16 = 16;
    pub const CC: u16 = 17;
    pub const CCR: u16 = 18;
    pub const EARLY: u16 = 19;
    pub const HEAD: u16 = 20;
    pub const END: u16 = 21;
    pub const CONF: u16 = 22;
    pub const CONFR: u16 = 23;
    pub const STATS: u16 = 24;
    pub const STATSR: u16 = 25;
    pub const FREED: u16 = 26;
    pub const STATE: u16 = 27;
    pub const PEEK: u16 = 28;
    pub const TUPLE: u16 = 29;
    pub const SEGS: u16 = 30;
}

const HEADER: usize = 16;

/// One record: its header's fields and the whole record's bytes.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// One of [`kind`].
    pub kind: u16,
    /// Position in the order of recording.
    pub seq: u32,
    /// Monotonic nanoseconds.
    pub at_ns: u64,
    /// The record with its header.
    pub bytes: &'a [u8],
}

/// A whole stream.
#[derive(Debug)]
pub struct Raw {
    bytes: Vec<u8>,
    /// Offsets of the records.
    index: Vec<usize>,
    head: BTreeMap<String, String>,
    end: BTreeMap<String, String>,
    /// State records' names: kind → (name, names of the numbers).
    states: BTreeMap<u32, (String, Vec<String>)>,
}

impl Raw {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Raw`].
    pub fn read(path: &Path) -> Result<Raw, Error> {
        Raw::parse(std::fs::read(path).map_err(Error::io(path))?)
    }

    /// Finds the records in a stream, and reads its head and end.
    ///
    /// # Errors
    /// [`Error::Raw`] for damaged framing or a stream without a head.
    pub fn parse(bytes: Vec<u8>) -> Result<Raw, Error> {
        let mut index = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let bad = |message: &str| Error::Raw { offset: at, message: message.into() };
            if bytes.len() - at < HEADER {
                return Err(bad("half a record header"));
            }
            let len = usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
            if len < HEADER || len > bytes.len() - at {
                return Err(bad("a record longer than what is left"));
            }
            index.push(at);
            at += len;
        }
        let mut raw = Raw { bytes, index, head: BTreeMap::new(), end: BTreeMap::new(), states: BTreeMap::new() };
        let (mut head, mut end) = (Vec::new(), Vec::new());
        for record in raw.records() {
            match record.kind {
                kind::HEAD => head = pairs(record.bytes),
                kind::END => end = pairs(record.bytes),
                _ => {}
            }
        }
        if head.is_empty() {
            return Err(Error::Raw { offset: 0, message: "no head record".into() });
        }
        raw.end = end.into_iter().collect();
        for (key, value) in head {
            if key == "state" {
                let mut words = value.split(' ');
                let name = words.next().unwrap_or_default().to_owned();
                let kind = words.next().and_then(|w| w.parse().ok()).unwrap_or_default();
                raw.states.insert(kind, (name, words.map(str::to_owned).collect()));
            } else {
                raw.head.insert(key, value);
            }
        }
        Ok(raw)
    }

    /// Refuses a recording in which an event is missing.
    ///
    /// # Errors
    /// [`Error::Lost`] with what was lost where.
    pub fn check(&self) -> Result<(), Error> {
        let Some(sequence) = self.end_number("sequence") else {
            return Err(Error::Lost("the recorder did not end properly: there is no end record".into()));
        };
        for (key, what) in [("lost", "events found no room in the ring"), ("missed", "calls were not seen")] {
            let count = self.end_number(key).unwrap_or(u64::MAX);
            if count != 0 {
                return Err(Error::Lost(format!("{count} {what}")));
            }
        }
        let mut sequences: Vec<u32> =
            self.records().filter(|r| r.kind != kind::HEAD && r.kind != kind::END).map(|r| r.seq).collect();
        sequences.sort_unstable();
        let gap = sequences.iter().enumerate().find(|(i, seq)| *i as u64 != u64::from(**seq));
        if let Some((i, seq)) = gap {
            return Err(Error::Lost(format!("record {i} is missing (found {seq})")));
        }
        if sequences.len() as u64 != sequence {
            return Err(Error::Lost(format!("{} of {sequence} records are there", sequences.len())));
        }
        Ok(())
    }

    /// Every record in the order of the stream.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.index.iter().map(|&at| {
            let b = &self.bytes[at..];
            let word = |i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
            let mut seq = [0; 4];
            seq.copy_from_slice(&b[4..8]);
            let mut ts = [0; 8];
            ts.copy_from_slice(&b[8..16]);
            Record {
                kind: word(0),
                seq: u32::from_le_bytes(seq),
                at_ns: u64::from_le_bytes(ts),
                bytes: &b[..usize::from(word(2))],
            }
        })
    }

    /// How many records there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.index.len()
    }

    /// The whole stream.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A value of the head, for example `release`.
    #[must_use]
    pub fn head(&self, key: &str) -> Option<&str> {
        self.head.get(key).map(String::as_str)
    }

    /// A value of the end, for example `hashrnd`.
    #[must_use]
    pub fn end(&self, key: &str) -> Option<&str> {
        self.end.get(key).map(String::as_str)
    }

    fn end_number(&self, key: &str) -> Option<u64> {
        self.end(key)?.parse().ok()
    }

    /// The boot's flow-hash secret: 16 bytes, two little-endian words; `None` if no hash was computed in that boot.
    #[must_use]
    pub fn hash_secret(&self) -> Option<[u8; 16]> {
        let hex = self.end("hashrnd")?;
        let mut out = [0; 16];
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        (out != [0; 16]).then_some(out)
    }

    /// Name of a state record's kind, and the names of its numbers.
    #[must_use]
    pub fn state_names(&self, kind: u32) -> Option<(&str, &[String])> {
        self.states.get(&kind).map(|(name, names)| (name.as_str(), names.as_slice()))
    }
}

fn pairs(record: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(&record[HEADER..]);
    text.trim_end_matches('\0')
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
