//! What is in cake's queues: it splits GSO packets, whose segments have new addresses.
//!
//! A queue is a FIFO, so a delivered segment is found by its TCP sequence number, and whatever lies ahead of it was
//! dropped in that call (spec/recording.md, pitfall 7).

use std::collections::{HashMap, VecDeque};

use super::ImportErrorKind;
use crate::trace::{Arrival, PacketRef, SegmentInfo};

/// The queues by number, and the packets or segments in each.
#[derive(Debug, Default)]
pub(super) struct Fifos {
    queues: HashMap<u64, VecDeque<Entry>>,
    /// Memory charged for all of them.
    pub(super) memory: u32,
}

/// A packet or a segment in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) packet: PacketRef,
    /// Bytes with link header.
    pub(super) len: u32,
    truesize: u32,
    /// A segment's TCP sequence number.
    sequence: Option<u32>,
}

impl Fifos {
    /// Queues a whole packet.
    pub(super) fn push(&mut self, queue: u64, arrival: &Arrival) {
        let packet = PacketRef::whole(arrival.id);
        let (len, truesize) = (arrival.len_bytes, arrival.truesize_bytes);
        self.push_entry(queue, Entry { packet, len, truesize, sequence: None });
    }

    /// Queues the segments of a split packet. The recorder did not see their memory charges: each is the packet's
    /// less the payload that the segment does not have, which the recorded memory in use confirms.
    pub(super) fn push_segments(
        &mut self,
        queue: u64,
        arrival: &Arrival,
        count: u16,
    ) -> Result<Vec<SegmentInfo>, ImportErrorKind> {
        let unsplittable = ImportErrorKind::Field {
            field: "the segments of a split packet",
            value: count.into(),
            allowed: "at least one, of a TCP packet whose headers were recorded",
        };
        let (Some(gso), Some((first, header))) = (arrival.gso, tcp_sequence(&arrival.bytes)) else {
            return Err(unsplittable);
        };
        let all = arrival.buffer_bytes.saturating_sub(header);
        let (mut left, mut sequence) = (all, first);
        let mut segments = Vec::new();
        for segment in 1..=count {
            let payload = left.min(gso.segment_bytes.into());
            if payload == 0 {
                return Err(unsplittable);
            }
            let (len, truesize) = (header + payload, arrival.truesize_bytes.saturating_sub(all - payload));
            let packet = PacketRef { id: arrival.id, segment };
            self.push_entry(queue, Entry { packet, len, truesize, sequence: Some(sequence) });
            segments.push(SegmentInfo { len_bytes: len, truesize_bytes: truesize });
            left -= payload;
            sequence = sequence.wrapping_add(payload);
        }
        if left == 0 { Ok(segments) } else { Err(unsplittable) }
    }

    fn push_entry(&mut self, queue: u64, entry: Entry) {
        self.memory = self.memory.wrapping_add(entry.truesize);
        self.queues.entry(queue).or_default().push_back(entry);
    }

    /// Takes a delivered packet out of its queue, with all that lay ahead of it.
    pub(super) fn take_packet(&mut self, queue: u64, packet: PacketRef) -> Option<Vec<Entry>> {
        self.take(queue, |entry| entry.packet == packet)
    }

    /// Takes a delivered segment out of its queue, with all that lay ahead of it.
    pub(super) fn take_segment(&mut self, queue: u64, sequence: u32, len: u32) -> Option<Vec<Entry>> {
        self.take(queue, |entry| entry.sequence == Some(sequence) && entry.len == len)
    }

    fn take(&mut self, queue: u64, is_it: impl Fn(&Entry) -> bool) -> Option<Vec<Entry>> {
        let queue = self.queues.get_mut(&queue)?;
        let position = queue.iter().position(is_it)?;
        let taken: Vec<Entry> = queue.drain(..=position).collect();
        self.memory = taken.iter().fold(self.memory, |memory, entry| memory.wrapping_sub(entry.truesize));
        Some(taken)
    }
}

/// The TCP sequence number in an untagged Ethernet frame, and where the payload begins.
pub(super) fn tcp_sequence(frame: &[u8]) -> Option<(u32, u32)> {
    let (protocol, at) = match ethertype(frame)? {
        0x0800 => (*frame.get(23)?, 14 + usize::from(frame[14] & 15) * 4),
        0x86dd => (*frame.get(20)?, 54),
        _ => return None,
    };
    let header = frame.get(at..at + 13)?;
    let sequence = header[4..8].iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
    (protocol == 6).then_some((sequence, at as u32 + u32::from(header[12] >> 4) * 4))
}

/// The EtherType of an untagged Ethernet frame.
pub(super) fn ethertype(frame: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]))
}
