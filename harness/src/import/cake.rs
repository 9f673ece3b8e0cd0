//! What is special about cake's recordings: queues whose packets are segments, and drops without a record.

use super::fifos::{Entry, Fifos, ethertype, tcp_sequence};
use super::layout::{CAKE_CURRENT_QUEUE, CAKE_MEMORY_USED};
use super::packets::Packets;
use super::record::{RawDequeueReturn, RawEnqueue};
use super::{ImportErrorKind, expect_equal};
use crate::trace::{Arrival, Delivered, DropCause, PacketRef, Schema, Snapshot, Step, ds_field};

/// cake's queues as an import follows them.
#[derive(Debug, Default)]
pub(super) struct Cake {
    fifos: Fifos,
    /// Drops that have no record of their own (7.2) and were seen by their tree correction.
    pub(super) inferred_drops: u64,
    /// Packets that were split.
    pub(super) split_packets: u64,
}

impl Cake {
    /// Follows an enqueue: the packet, or its segments if the call corrected the ancestors for a split. Returns
    /// whether it was split.
    pub(super) fn enqueued(
        &mut self,
        raw: &RawEnqueue,
        arrival: &mut Arrival,
        steps: &[Step],
        lookup: Option<u64>,
        packets: &mut Packets,
    ) -> Result<bool, ImportErrorKind> {
        let no_lookup = ImportErrorKind::Order { found: "an enqueue's return", expected: "the queue lookup before it" };
        let queue = lookup.ok_or(no_lookup)?;
        let split = steps.iter().find_map(|step| match step {
            Step::Correction { packets, bytes, .. } if *packets <= 0 => Some((*packets, *bytes)),
            _ => None,
        });
        let Some((correction, bytes)) = split.filter(|_| arrival.gso.is_some()) else {
            self.fifos.push(queue, arrival);
            return Ok(false);
        };
        packets.forget(raw.packet);
        let count = u16::try_from(1i64 - i64::from(correction)).map_err(|_| ImportErrorKind::Field {
            field: "the segments of a split packet",
            value: i64::from(correction).unsigned_abs(),
            allowed: "at most 65535",
        })?;
        arrival.segments = self.fifos.push_segments(queue, arrival, count)?;
        let sum: u32 = arrival.segments.iter().map(|segment| segment.len_bytes).sum();
        let expected = u64::from(arrival.len_bytes).wrapping_sub(i64::from(bytes) as u64);
        expect_equal("the length of all segments", sum.into(), expected)?;
        self.split_packets += 1;
        Ok(true)
    }

    /// Follows a dequeue that delivered something: names what came out and what was dropped before it.
    pub(super) fn delivered(
        &mut self,
        raw: &RawDequeueReturn,
        snapshots: &[Snapshot],
        steps: &mut Vec<Step>,
        unnamed: &[(usize, u64)],
        packets: &mut Packets,
    ) -> Result<Delivered, ImportErrorKind> {
        let unknown = || ImportErrorKind::UnknownPacket(raw.packet);
        let queue = qdisc_value(snapshots, CAKE_CURRENT_QUEUE)?;
        let (mut taken, delivered) = match packets.find(raw.packet) {
            Some(packet) => (self.fifos.take_packet(queue, packet).ok_or_else(unknown)?, packets.deliver(raw)?),
            None => {
                let (sequence, _) = tcp_sequence(&raw.data).ok_or_else(unknown)?;
                let taken = self.fifos.take_segment(queue, sequence, raw.len).ok_or_else(unknown)?;
                let packet = taken.last().map_or_else(PacketRef::default, |entry| entry.packet);
                let protocol = ethertype(&raw.data).unwrap_or(0);
                let ds_field = ds_field(protocol, 14, &raw.data);
                (taken, Delivered { packet, buffer_bytes: raw.len, ds_field, changed: Vec::new() })
            }
        };
        taken.pop();
        self.name_drops(&taken, steps, unnamed, packets)?;
        expect_equal("memory in use", qdisc_value(snapshots, CAKE_MEMORY_USED)?, self.fifos.memory.into())?;
        Ok(delivered)
    }

    /// Gives the drops of a call their packets: those that lay ahead of the delivered one.
    fn name_drops(
        &mut self,
        dropped: &[Entry],
        steps: &mut Vec<Step>,
        unnamed: &[(usize, u64)],
        packets: &mut Packets,
    ) -> Result<(), ImportErrorKind> {
        if unnamed.is_empty() && !dropped.is_empty() {
            // 7.2: the tree correction stands for the drop.
            let mut rest = dropped.iter();
            let mut named = Vec::with_capacity(steps.len() + dropped.len());
            for step in steps.drain(..) {
                let entry = if matches!(step, Step::Correction { .. }) { rest.next() } else { None };
                named.push(step);
                named.extend(entry.map(|entry| Step::Drop { packet: Some(entry.packet), cause: DropCause::UNKNOWN }));
            }
            *steps = named;
            expect_equal("drops without a tree correction", rest.len() as u64, 0)?;
            self.inferred_drops += dropped.len() as u64;
        } else {
            expect_equal("dropped packets", unnamed.len() as u64, dropped.len() as u64)?;
            for ((at, address), entry) in unnamed.iter().zip(dropped) {
                if let Some(packet) = packets.find(*address) {
                    expect_equal("a dropped packet", packet.id, entry.packet.id)?;
                }
                if let Some(Step::Drop { packet, .. }) = steps.get_mut(*at) {
                    *packet = Some(entry.packet);
                }
            }
        }
        for entry in dropped.iter().filter(|entry| entry.packet.segment == 0) {
            packets.drop_packet(entry.packet.id);
        }
        let corrected = steps.iter().filter_map(|step| match step {
            Step::Correction { bytes, .. } => Some(*bytes as u32),
            _ => None,
        });
        for (entry, bytes) in dropped.iter().zip(corrected) {
            expect_equal("the length of a dropped packet", bytes.into(), entry.len.into())?;
        }
        Ok(())
    }
}

/// A value of the snapshot of the qdisc, the last that is taken in a call.
fn qdisc_value(snapshots: &[Snapshot], index: usize) -> Result<u64, ImportErrorKind> {
    let missing = ImportErrorKind::Order { found: "a packet", expected: "the state behind it" };
    snapshots.last().and_then(|qdisc| qdisc.values.get(index)).copied().ok_or(missing)
}

/// Gives the snapshot of the served queue its key, and the qdisc's the key 0: the recorder tells the tin with the
/// latter.
pub(super) fn name_served_queue(snapshots: &mut [Snapshot], schemas: &[Schema]) {
    let is = |snapshot: &Snapshot, name: &str| {
        schemas.get(usize::from(snapshot.schema)).is_some_and(|schema| schema.name == name)
    };
    if let [.., served, qdisc] = snapshots
        && is(served, "cake.queue")
        && is(qdisc, "cake.qdisc")
    {
        let queue = qdisc.values.get(CAKE_CURRENT_QUEUE).copied().unwrap_or(0);
        served.key = std::mem::take(&mut qdisc.key) << 16 | queue;
    }
}
