use super::qdisc::FqCodel;
use crate::slab::Fifo;
use crate::{DropReason, Environment, Packet, Storage};

/// What one batch drop removed.
pub(super) struct Batch {
    pub(super) victim: u32,
    pub(super) packets: u32,
    pub(super) bytes: u32,
}

/// The first bucket with the strictly largest backlog.
fn fattest(backlogs: &[u32]) -> (u32, u32) {
    // The maximum first: a plain reduction, which the compiler vectorises.
    let max = backlogs.iter().copied().fold(0, u32::max);
    let at = backlogs.iter().position(|&bytes| bytes == max).unwrap_or(0);
    (at as u32, max)
}

impl<P: Packet, S: Storage> FqCodel<P, S> {
    /// Drops half of the fattest bucket's backlog, but at most `drop_batch` packets, from its head
    /// (spec/fq_codel.md §3.6). Newest first, as Linux hands them back.
    #[cold]
    pub(super) fn drop_batch<E: Environment<P> + ?Sized>(&mut self, reason: DropReason, cx: &mut E) -> Batch {
        let (victim, max) = fattest(&self.backlogs.as_ref()[..self.buckets as usize]);
        let flow = &mut self.flows.as_mut()[victim as usize];
        let (mut packets, mut bytes, mut memory) = (0u32, 0u32, 0u32);
        let mut batch = Fifo::EMPTY;
        while let Some(at) = self.slab.pop_front(&mut flow.fifo) {
            let slot = self.slab.slot(at);
            bytes = bytes.wrapping_add(slot.len);
            memory = memory.wrapping_add(slot.meta.memory);
            packets += 1;
            self.slab.push_front(&mut batch, at);
            if packets >= self.limits.drop_batch || bytes >= max >> 1 {
                break;
            }
        }
        flow.controller.count = flow.controller.count.wrapping_add(packets);
        let backlog = &mut self.backlogs.as_mut()[victim as usize];
        *backlog = backlog.wrapping_sub(bytes);
        self.memory_usage = self.memory_usage.wrapping_sub(memory);
        self.counters.count_drops(packets);
        self.counters.backlog_bytes = self.counters.backlog_bytes.wrapping_sub(bytes);
        self.counters.qlen = self.counters.qlen.wrapping_sub(packets);
        self.hand_back(batch, reason, cx);
        Batch { victim, packets, bytes }
    }

    /// Gives a list of slots back to the caller.
    pub(super) fn hand_back<E: Environment<P> + ?Sized>(&mut self, mut list: Fifo, reason: DropReason, cx: &mut E) {
        while let Some(at) = self.slab.pop_front(&mut list) {
            if let Some(packet) = self.slab.remove(at) {
                cx.dropped(packet, reason);
            }
        }
    }
}
