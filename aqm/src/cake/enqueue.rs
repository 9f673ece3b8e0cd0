//! Enqueue (spec/cake.md §12) and what happens at the memory limit (§12.9, §14.3).

use super::ack_filter;
use super::config::AckFilter;
use super::heap::Place;
use super::hosts;
use super::meta::Meta;
use super::qdisc::Cake;
use super::queue::QueueState;
use super::shaper::Fate;
use super::storage::Storage;
use crate::{DropReason, Environment, Linux, Packet, Verdict};

impl<P: Packet, S: Storage> Cake<P, S> {
    pub(super) fn offer<E: Environment<P> + ?Sized>(&mut self, mut packet: P, cx: &mut E) -> Verdict {
        let now_ns = cx.now_ns() as i64;
        let place = match self.classify(&mut packet, cx) {
            Ok(place) => place,
            Err(refused) => {
                if refused.verdict == Verdict::Bypassed {
                    self.counters.count_drops(1);
                }
                cx.dropped(packet, refused.reason);
                return refused.verdict;
            }
        };
        let wire_len = packet.len_bytes();
        self.refresh_clocks(place.tin, now_ns);
        let counts = &mut self.tins.as_mut()[usize::from(place.tin)].counts;
        counts.longest = counts.longest.max(wire_len);

        let gso = packet.gso();
        let is_gso = if self.linux >= Linux::V7_2 { gso.segments > 1 } else { gso.segment_bytes != 0 };
        if is_gso && self.parameters.split_gso {
            if !self.insert_segments(packet, wire_len, place, now_ns, cx) {
                return Verdict::Dropped;
            }
        } else if !self.insert_whole(packet, wire_len, place, now_ns, cx) {
            return Verdict::Dropped;
        }

        if self.heap.is_live() {
            self.heap.grew(self.tins.as_mut(), place);
        }
        if !self.parameters.autorate_ingress {
            self.autorate.idle(now_ns);
        } else if let Some(bandwidth) = self.autorate.on_arrival(now_ns, self.linux) {
            self.parameters.bandwidth = bandwidth;
            self.reconfigure(cx);
        }
        self.wake_queue(place, cx);
        self.memory.peak = self.memory.peak.max(self.memory.used);
        if self.is_overloaded() {
            return self.relieve(place, wire_len, cx);
        }
        Verdict::Queued
    }

    /// A clock that fell behind while nothing was queued starts at the present (§12.2).
    #[inline]
    fn refresh_clocks(&mut self, tin: u16, now_ns: i64) {
        let tin = &mut self.tins.as_mut()[usize::from(tin)];
        if tin.backlog != 0 {
            return;
        }
        tin.clock.next_ns = tin.clock.next_ns.max(now_ns);
        if self.counters.qlen != 0 {
            return;
        }
        if self.shaper.next_ns < now_ns {
            self.shaper.next_ns = now_ns;
            self.shaper.failsafe_ns = now_ns;
        } else if self.shaper.holds_back(now_ns) {
            self.counters.overlimits = self.counters.overlimits.wrapping_add(1);
            self.arm(self.shaper.wake_ns());
        }
    }

    /// §12.5. False if there is no room (only in fixed storage without any).
    #[inline]
    fn insert_whole<E: Environment<P> + ?Sized>(
        &mut self,
        packet: P,
        wire_len: u32,
        place: Place,
        now_ns: i64,
        cx: &mut E,
    ) -> bool {
        let adjusted_len = self.lengths.adjusted_len(&packet, wire_len, &self.parameters, self.linux);
        let truesize = packet.truesize_bytes();
        let at = match self.slab.insert(packet, wire_len, Meta { enqueued_ns: now_ns, adjusted_len, truesize }) {
            Ok(at) => at,
            Err(packet) => {
                self.counters.count_drops(1);
                cx.dropped(packet, DropReason::StorageFull);
                return false;
            }
        };
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        let queue = &mut tin.queues.as_mut()[usize::from(place.queue)];
        self.slab.push_back(&mut queue.fifo, at);
        let mut grows = wire_len;
        let filtered = match self.parameters.ack_filter {
            AckFilter::Off => None,
            mode => ack_filter::filter(&mut self.slab, &mut queue.fifo, mode, self.linux),
        };
        match filtered {
            Some(ack) => grows = grows.wrapping_sub(self.drop_ack(ack, truesize, place, now_ns, cx)),
            None => {
                self.counters.qlen = self.counters.qlen.wrapping_add(1);
                self.memory.used = self.memory.used.wrapping_add(truesize);
            }
        }
        self.account(place, 1, grows);
        true
    }

    /// Takes an ACK that the packet just queued made redundant off the accounts; returns its length.
    #[cold]
    fn drop_ack<E: Environment<P> + ?Sized>(
        &mut self,
        ack: u32,
        truesize: u32,
        place: Place,
        now_ns: i64,
        cx: &mut E,
    ) -> u32 {
        let slot = self.slab.slot(ack);
        let (len, meta) = (slot.len, slot.meta);
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        tin.counts.ack_drops = tin.counts.ack_drops.wrapping_add(1);
        tin.counts.bytes = tin.counts.bytes.wrapping_add(len.into());
        self.counters.count_drops(1);
        self.memory.used = self.memory.used.wrapping_add(truesize).wrapping_sub(meta.truesize);
        if self.parameters.ingress {
            self.shaper.charge(&mut tin.clock, meta.adjusted_len, now_ns, Fate::Dropped);
        }
        self.notify(1, len, cx);
        if let Some(packet) = self.slab.remove(ack) {
            cx.dropped(packet, DropReason::AckFilter);
        }
        len
    }

    /// §12.4. False if the packet cannot be split.
    fn insert_segments<E: Environment<P> + ?Sized>(
        &mut self,
        packet: P,
        wire_len: u32,
        place: Place,
        now_ns: i64,
        cx: &mut E,
    ) -> bool {
        let Some(first) = packet.segment(0) else {
            self.counters.count_drops(1);
            cx.dropped(packet, DropReason::SplitFailed);
            return false;
        };
        let (mut segments, mut bytes) = (0u32, 0u32);
        let rest = (1..).map_while(|index| packet.segment(index));
        for segment in core::iter::once(first).chain(rest) {
            let len = segment.buffer_bytes();
            let adjusted_len = self.lengths.adjusted_len(&segment, len, &self.parameters, self.linux);
            let truesize = segment.truesize_bytes();
            match self.slab.insert(segment, len, Meta { enqueued_ns: now_ns, adjusted_len, truesize }) {
                Ok(at) => {
                    let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
                    self.slab.push_back(&mut tin.queues.as_mut()[usize::from(place.queue)].fifo, at);
                    self.counters.qlen = self.counters.qlen.wrapping_add(1);
                    self.memory.used = self.memory.used.wrapping_add(truesize);
                    segments += 1;
                    bytes = bytes.wrapping_add(len);
                }
                Err(segment) => {
                    self.counters.count_drops(1);
                    cx.dropped(segment, DropReason::StorageFull);
                }
            }
        }
        self.account(place, segments, bytes);
        self.notify(1i32.wrapping_sub(segments as i32), wire_len.wrapping_sub(bytes), cx);
        true
    }

    /// Counts packets of together `bytes` (which may be negative) as queued.
    #[inline]
    fn account(&mut self, place: Place, packets: u32, bytes: u32) {
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        let signed = i64::from(bytes as i32) as u64;
        tin.counts.packets = tin.counts.packets.wrapping_add(packets);
        tin.counts.bytes = tin.counts.bytes.wrapping_add(signed);
        tin.backlog = tin.backlog.wrapping_add(bytes);
        let backlog = &mut tin.backlogs.as_mut()[usize::from(place.queue)];
        *backlog = backlog.wrapping_add(bytes);
        self.counters.backlog_bytes = self.counters.backlog_bytes.wrapping_add(bytes);
        self.autorate.window_bytes = self.autorate.window_bytes.wrapping_add(signed);
    }

    /// §12.8: a queue that has no place on a list gets one.
    #[inline]
    fn wake_queue<E: Environment<P> + ?Sized>(&mut self, place: Place, cx: &mut E) {
        let mode = self.parameters.flow_mode;
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        let queues = tin.queues.as_mut();
        let queue = &mut queues[usize::from(place.queue)];
        match queue.state {
            QueueState::Idle | QueueState::Decaying => {
                let was_decaying = queue.state == QueueState::Decaying;
                queue.state = QueueState::Sparse;
                let load = hosts::load(tin.hosts.as_ref(), queue, mode);
                queue.deficit = hosts::quantum(tin.flow_quantum, load, cx.random_u16()).into();
                if was_decaying {
                    tin.decays = tin.decays.wrapping_sub(1);
                    tin.decaying.remove(queues, place.queue);
                }
                tin.new.push_back(queues, place.queue);
                tin.sparse = tin.sparse.wrapping_add(1);
            }
            QueueState::SparseWait => {
                queue.state = QueueState::Bulk;
                tin.sparse = tin.sparse.wrapping_sub(1);
                tin.bulk = tin.bulk.wrapping_add(1);
                hosts::add_bulk(tin.hosts.as_mut(), queue, mode);
            }
            QueueState::Sparse | QueueState::Bulk => {}
        }
    }

    #[inline]
    fn is_overloaded(&self) -> bool {
        self.memory.used > self.memory.limit || self.slab.is_full()
    }

    /// Drops from the root of the heap until the memory limit is kept (and a fixed storage has a free slot).
    #[cold]
    fn relieve<E: Environment<P> + ?Sized>(&mut self, place: Place, wire_len: u32, cx: &mut E) -> Verdict {
        let (packets, bytes) = (self.counters.qlen, self.counters.backlog_bytes);
        let (mut hit_this, mut misses) = (false, 0);
        loop {
            let reason = if self.memory.used > self.memory.limit {
                DropReason::OverMemory
            } else if self.slab.is_full() && self.freed_late.is_empty() {
                DropReason::StorageFull
            } else {
                break;
            };
            let before = self.counters.qlen;
            hit_this |= self.drop_from_root(reason, cx) == place;
            misses = if self.counters.qlen == before { misses + 1 } else { 0 };
            if misses > 1 {
                // Not even a new heap has bytes at its root: all that is queued is packets of length 0. Linux, which
                // knows none, would go on forever.
                break;
            }
        }
        let packets = packets.wrapping_sub(self.counters.qlen) as i32;
        let bytes = bytes.wrapping_sub(self.counters.backlog_bytes);
        if hit_this {
            // The parent does not add a packet that met congestion, so it must not subtract it either.
            self.notify(packets.wrapping_sub(1), bytes.wrapping_sub(wire_len), cx);
            return Verdict::Congested;
        }
        self.notify(packets, bytes, cx);
        Verdict::Queued
    }

    /// §14.3. Drops the first packet of the queue at the heap's root and returns that queue. If the queue is empty,
    /// the heap was out of date: nothing is dropped, and the next call rebuilds it.
    fn drop_from_root<E: Environment<P> + ?Sized>(&mut self, reason: DropReason, cx: &mut E) -> Place {
        let now_ns = cx.now_ns() as i64;
        let place = self.heap.root(self.tins.as_mut());
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        let queue = &mut tin.queues.as_mut()[usize::from(place.queue)];
        let Some(at) = self.slab.pop_front(&mut queue.fifo) else {
            self.heap.lifetime = 0;
            return place;
        };
        if queue.cobalt.on_overload(now_ns, &tin.cobalt) {
            tin.unresponsive = tin.unresponsive.wrapping_add(1);
        }
        queue.dropped = queue.dropped.wrapping_add(1);
        let slot = self.slab.slot_mut(at);
        let (len, Meta { adjusted_len, truesize, .. }) = (slot.len, slot.meta);
        slot.meta.set_reason(reason);
        self.memory.used = self.memory.used.wrapping_sub(truesize);
        tin.backlog = tin.backlog.wrapping_sub(len);
        let backlog = &mut tin.backlogs.as_mut()[usize::from(place.queue)];
        *backlog = backlog.wrapping_sub(len);
        tin.counts.drops = tin.counts.drops.wrapping_add(1);
        if self.parameters.ingress {
            self.shaper.charge(&mut tin.clock, adjusted_len, now_ns, Fate::Dropped);
        }
        self.counters.sub_queued(len);
        self.counters.count_drops(1);
        self.slab.push_front(&mut self.freed_late, at);
        self.heap.root_shrank(self.tins.as_mut());
        place
    }
}
