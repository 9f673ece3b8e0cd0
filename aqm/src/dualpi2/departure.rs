use super::DualPi2;
use super::probability::{Class, Decision};
use super::qdisc::Meta;
use crate::{DropReason, Environment, Packet, Storage, TreeCorrection};

/// Drops of one dequeue, for the tree correction at its end.
#[derive(Default)]
pub(super) struct Deferred {
    packets: u32,
    bytes: u32,
}

impl<P: Packet, S: Storage> DualPi2<P, S> {
    fn qlen_classic(&self) -> u32 {
        let parked = u32::from(self.parked.is_some());
        self.counters.qlen.wrapping_sub(self.low_latency_counters.qlen).wrapping_sub(parked)
    }

    /// Marks a packet that waits in a slot; true if it now carries CE.
    fn mark_at(&mut self, at: u32) -> bool {
        let marked = self.slab.slot_mut(at).packet.as_mut().is_some_and(P::try_mark_ce);
        self.ecn_mark = self.ecn_mark.wrapping_add(u32::from(marked));
        marked
    }

    /// Takes the head of the queue whose turn it is, and what its departure will change the credit by. With both
    /// queues empty the credit starts anew.
    fn select(&mut self) -> Option<(u32, i32)> {
        let (classic, low_latency) = (self.qlen_classic(), self.low_latency_counters.qlen);
        let from_low_latency = low_latency > 0 && (classic == 0 || self.credit <= 0);
        let (fifo, head_ns) = match from_low_latency {
            true => (&mut self.low_latency, &mut self.heads.low_latency_ns),
            false => (&mut self.classic, &mut self.heads.classic_ns),
        };
        let Some(at) = self.slab.pop_front(fifo) else {
            self.credit = self.law.credit_init();
            return None;
        };
        *head_ns = fifo.head().map_or(0, |head| self.slab.slot(head).meta.time_ns);
        let slot = self.slab.slot(at);
        let weighted = |weight: u8| i32::from(weight).wrapping_mul(slot.len as i32);
        let credit = match from_low_latency {
            true if classic > 0 => weighted(self.law.classic_weight),
            false if low_latency > 0 => weighted(self.law.low_latency_weight()).wrapping_neg(),
            _ => 0,
        };
        self.memory_used = self.memory_used.wrapping_sub(slot.meta.memory);
        self.counters.sub_queued(slot.len);
        if from_low_latency {
            self.low_latency_counters.sub_queued(slot.len);
        }
        Some((at, credit))
    }

    /// The step of the low-latency queue: does this packet exceed it?
    fn exceeds_step(&self, meta: &Meta, now: u64) -> bool {
        let distance = match self.law.step_in_packets {
            true => self.low_latency_counters.qlen.into(),
            false => now.wrapping_sub(meta.time_ns),
        };
        meta.step_applies && distance > u64::from(self.law.step_thresh)
    }

    pub(super) fn dequeue_inner<E: Environment<P> + ?Sized>(
        &mut self,
        deferred: &mut Deferred,
        cx: &mut E,
    ) -> Option<P> {
        let now = cx.now_ns();
        loop {
            let (at, credit) = self.select()?;
            let meta = self.slab.slot(at).meta;
            if !self.law.drop_early {
                match self.decide(meta.class, meta.ect, cx) {
                    Decision::Pass => {}
                    Decision::Mark => drop(self.mark_at(at)),
                    decision @ (Decision::Drop | Decision::DropOverloaded) => {
                        self.discard(at, decision.reason(), deferred, cx);
                        continue;
                    }
                }
            }
            if meta.class != Class::Classic {
                if self.exceeds_step(&meta, now) {
                    if meta.ect == 0 {
                        self.low_latency_counters.count_drops(1);
                        self.discard(at, DropReason::Early, deferred, cx);
                        continue;
                    }
                    let marked = self.mark_at(at);
                    self.step_marks = self.step_marks.wrapping_add(u32::from(marked));
                }
                self.count_sent_low_latency(at);
            }
            self.credit = self.credit.wrapping_add(credit);
            let len = self.slab.slot(at).len;
            let packet = self.slab.remove(at)?;
            self.counters.count_sent(len, packet.gso().segments);
            return Some(packet);
        }
    }

    fn count_sent_low_latency(&mut self, at: u32) {
        let slot = self.slab.slot(at);
        let segments = slot.packet.as_ref().map_or(1, |packet| packet.gso().segments);
        self.low_latency_counters.count_sent(slot.len, segments);
    }

    fn discard<E: Environment<P> + ?Sized>(
        &mut self,
        at: u32,
        reason: DropReason,
        deferred: &mut Deferred,
        cx: &mut E,
    ) {
        self.counters.count_drops(1);
        deferred.packets += 1;
        deferred.bytes = deferred.bytes.wrapping_add(self.slab.slot(at).len);
        if self.frees_late {
            self.slab.slot_mut(at).meta.dropped_for = Some(reason);
            self.slab.push_front(&mut self.freed_late, at);
        } else if let Some(packet) = self.slab.remove(at) {
            cx.dropped(packet, reason);
        }
    }

    /// What follows each dequeue: the tree correction for its drops, and late frees.
    pub(super) fn settle<E: Environment<P> + ?Sized>(&mut self, deferred: &Deferred, cx: &mut E) {
        if deferred.packets == 0 {
            return;
        }
        cx.correct_tree(TreeCorrection {
            packets: deferred.packets as i32,
            bytes: deferred.bytes as i32,
            emptied: self.counters.qlen == 0,
        });
        while let Some(at) = self.slab.pop_front(&mut self.freed_late) {
            let reason = self.slab.slot(at).meta.dropped_for.unwrap_or(DropReason::Early);
            if let Some(packet) = self.slab.remove(at) {
                cx.dropped(packet, reason);
            }
        }
    }
}
