//! The raw records: little-endian, each with a header of 16 bytes (type, length, sequence number, time).

use std::io::{ErrorKind, Read};

use super::{ImportError, ImportErrorKind};

/// The frame of a record: type u16, length u16 (with this frame), sequence number u32, time ns u64.
pub(super) const FRAME: usize = 16;

/// One raw record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) index: u64,
    pub(super) byte: u64,
    pub(super) time_ns: u64,
    pub(super) body: Body,
}

/// What a record tells.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Enqueue(Box<RawEnqueue>),
    EnqueueReturn(Box<RawEnqueueReturn>),
    Dequeue { qlen: u32, backlog: u32 },
    DequeueReturn(Box<RawDequeueReturn>),
    Clock { value: u64, caller: u64, preemption: u32 },
    Draw { value: u64, bits: u64 },
    DrawBytes { count: u64, bytes: [u8; 64] },
    FlowHash { value: u32, keys: Box<[u8; 96]> },
    PacketHash,
    Drop { packet: u64, code: u32 },
    Correction { packets: i32, bytes: i32 },
    Watchdog { expires_ns: u64, slack_ns: u64 },
    CakeHash { flow: u32, mode: u64, overrides: u64 },
    Snapshot { what: u32, bytes: Vec<u8> },
    Timer { jiffies: u64 },
    Early { dropped: bool, backlog_bytes: u32, packet_bytes: u32 },
    Hook(Box<RawHook>),
    HookReturn(Box<RawHook>),
}

#[derive(Clone, Debug)]
pub(super) struct RawEnqueue {
    pub(super) packet: u64,
    pub(super) len: u32,
    pub(super) data_len: u32,
    pub(super) truesize: u32,
    pub(super) priority: u32,
    pub(super) mark: u32,
    pub(super) hash: u32,
    pub(super) protocol: u16,
    pub(super) network_offset: u16,
    pub(super) transport_offset: u16,
    pub(super) gso_size: u16,
    pub(super) gso_segments: u16,
    pub(super) gso_kind: u32,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) control_block: [u8; 48],
    pub(super) data: [u8; 96],
}

#[derive(Clone, Debug)]
pub(super) struct RawEnqueueReturn {
    pub(super) packet: u64,
    pub(super) code: u32,
    pub(super) hash: u32,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) control_block: [u8; 48],
    pub(super) freed_count: u32,
    pub(super) freed: [u64; 8],
}

#[derive(Clone, Debug)]
pub(super) struct RawDequeueReturn {
    pub(super) packet: u64,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) len: u32,
    pub(super) data: [u8; 64],
}

/// A congestion-control hook, before or after.
#[derive(Clone, Debug)]
pub(super) struct RawHook {
    pub(super) function: u32,
    pub(super) arguments: [u64; 4],
    pub(super) result: u64,
    pub(super) socket: u64,
    pub(super) jiffies: u64,
    /// 28 fields, in the order of `layout::CONNECTION`.
    pub(super) words: [u32; 28],
    pub(super) longs: [u64; 8],
    pub(super) pacing_status: u32,
    pub(super) state: u32,
    pub(super) ports: [u16; 2],
    pub(super) is_cwnd_limited: bool,
    pub(super) sample_bytes: u32,
    pub(super) sample: [u8; 80],
    pub(super) private: [u8; 104],
}

/// Reads records off a decompressed recording.
pub(super) struct Records<R> {
    input: R,
    index: u64,
    byte: u64,
    sequence: Option<u32>,
    /// Records out of sequence: written by one interrupting the other, not lost.
    pub(super) out_of_sequence: u64,
}

impl<R: Read> Records<R> {
    pub(super) const fn new(input: R) -> Self {
        Self { input, index: 0, byte: 0, sequence: None, out_of_sequence: 0 }
    }

    /// The next record, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record>, ImportError> {
        let (index, byte) = (self.index, self.byte);
        let fail = |kind| ImportError { record: index, byte, kind };
        let mut frame = [0; FRAME];
        match read_up_to(&mut self.input, &mut frame).map_err(|error| fail(error.into()))? {
            0 => return Ok(None),
            FRAME => {}
            _ => return Err(fail(ImportErrorKind::Truncated)),
        }
        let mut fields = Fields(&frame);
        let (kind, length, sequence, time_ns) = (fields.u16(), fields.u16(), fields.u32(), fields.u64());
        let expected = least_length(kind).ok_or_else(|| fail(ImportErrorKind::UnknownType(kind)))?;
        if length < expected {
            return Err(fail(ImportErrorKind::Length { kind, found: length, expected }));
        }
        let mut body = vec![0; usize::from(length) - FRAME];
        self.input.read_exact(&mut body).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => fail(ImportErrorKind::Truncated),
            _ => fail(error.into()),
        })?;
        let body = parse(kind, &body).map_err(fail)?;
        if self.sequence.is_some_and(|last| sequence != last.wrapping_add(1)) {
            self.out_of_sequence += 1;
        }
        self.sequence = Some(sequence);
        self.index += 1;
        self.byte += u64::from(length);
        Ok(Some(Record { index, byte, time_ns, body }))
    }
}

fn read_up_to(input: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The length of a record of a type, frame included; snapshots are longer by their bytes.
const fn least_length(kind: u16) -> Option<u16> {
    Some(match kind {
        1 => 240,
        2 => 168,
        3 => 32,
        4 => 160,
        5 | 6 | 9..=13 | 15 | 19 => 40,
        7 => 88,
        8 => 120,
        14 => 24,
        17 | 18 => 464,
        _ => return None,
    })
}

/// `least_length` has been checked: the fields are all there.
fn parse(kind: u16, bytes: &[u8]) -> Result<Body, ImportErrorKind> {
    let mut f = Fields(bytes);
    Ok(match kind {
        1 => Body::Enqueue(Box::new(enqueue(f))),
        2 => Body::EnqueueReturn(Box::new(enqueue_return(f))),
        3 => {
            let _qdisc = f.u64();
            Body::Dequeue { qlen: f.u32(), backlog: f.u32() }
        }
        4 => Body::DequeueReturn(Box::new(dequeue_return(f))),
        5 => Body::Clock { value: f.u64(), caller: f.u64(), preemption: f.u64() as u32 },
        6 => Body::Draw { value: f.u64(), bits: f.u64() },
        7 => Body::DrawBytes { count: f.u64(), bytes: f.array() },
        8 => Body::FlowHash { value: f.u64() as u32, keys: Box::new(f.array()) },
        9 => Body::PacketHash,
        10 => Body::Drop { packet: f.u64(), code: f.u64() as u32 },
        11 => {
            f.u64();
            Body::Correction { packets: f.u64() as i32, bytes: f.u64() as i32 }
        }
        12 => Body::Watchdog { expires_ns: f.u64(), slack_ns: f.u64() },
        13 => Body::CakeHash { flow: f.u64() as u32, mode: f.u64(), overrides: f.u64() },
        14 => {
            let (what, count) = (f.u32(), f.u32());
            let bytes = f.0.get(..count as usize).ok_or(ImportErrorKind::Field {
                field: "the length of a state",
                value: count.into(),
                allowed: "what the record holds",
            })?;
            Body::Snapshot { what, bytes: bytes.to_vec() }
        }
        15 => {
            let (_backlog, _controller) = (f.u64(), f.u64());
            Body::Timer { jiffies: f.u64() }
        }
        17 => Body::Hook(Box::new(hook(f))),
        18 => Body::HookReturn(Box::new(hook(f))),
        19 => Body::Early { dropped: f.u64() != 0, backlog_bytes: f.u64() as u32, packet_bytes: f.u64() as u32 },
        _ => return Err(ImportErrorKind::UnknownType(kind)),
    })
}

fn enqueue(mut f: Fields<'_>) -> RawEnqueue {
    let (packet, _qdisc) = (f.u64(), f.u64());
    let [len, data_len, truesize, priority, mark, hash] = std::array::from_fn(|_| f.u32());
    let [protocol, network_offset, transport_offset, gso_size, gso_segments, _tc_index] =
        std::array::from_fn(|_| f.u16());
    let [gso_kind, qlen, backlog] = std::array::from_fn(|_| f.u32());
    // Only fq reads the departure time, and it was no subject.
    let _timestamp = f.u64();
    let control_block = f.array();
    let _flags: [u8; 8] = f.array();
    RawEnqueue {
        packet,
        len,
        data_len,
        truesize,
        priority,
        mark,
        hash,
        // The field is in network order.
        protocol: protocol.swap_bytes(),
        network_offset,
        transport_offset,
        gso_size,
        gso_segments,
        gso_kind,
        qlen,
        backlog,
        control_block,
        data: f.array(),
    }
}

fn enqueue_return(mut f: Fields<'_>) -> RawEnqueueReturn {
    let (packet, _qdisc) = (f.u64(), f.u64());
    let [code, hash, qlen, backlog] = std::array::from_fn(|_| f.u32());
    let control_block = f.array();
    let (freed_count, _) = (f.u32(), f.u32());
    let freed = std::array::from_fn(|_| f.u64());
    RawEnqueueReturn { packet, code, hash, qlen, backlog, control_block, freed_count, freed }
}

fn dequeue_return(mut f: Fields<'_>) -> RawDequeueReturn {
    let (_qdisc, packet) = (f.u64(), f.u64());
    let [qlen, backlog, len, _hash] = std::array::from_fn(|_| f.u32());
    let _control_block: [u8; 48] = f.array();
    RawDequeueReturn { packet, qlen, backlog, len, data: f.array() }
}

fn hook(mut f: Fields<'_>) -> RawHook {
    let (function, _) = (f.u32(), f.u32());
    let arguments = std::array::from_fn(|_| f.u64());
    let (result, socket, jiffies) = (f.u64(), f.u64(), f.u64());
    let words = std::array::from_fn(|_| f.u32());
    let longs = std::array::from_fn(|_| f.u64());
    let (pacing_status, state) = (f.u32(), f.u32());
    let ports = [f.u16(), f.u16()];
    let [is_cwnd_limited, ..]: [u8; 4] = f.array();
    let sample_bytes = f.u32();
    RawHook {
        function,
        arguments,
        result,
        socket,
        jiffies,
        words,
        longs,
        pacing_status,
        state,
        ports,
        is_cwnd_limited: is_cwnd_limited != 0,
        sample_bytes,
        sample: f.array(),
        private: f.array(),
    }
}

/// Takes little-endian fields off a record; bytes beyond its end read as 0.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        bytes[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        bytes
    }
    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }
    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }
    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}
