//! Dequeue (spec/cake.md §15).

use super::cobalt::Judgement;
use super::heap::Place;
use super::hosts;
use super::qdisc::Cake;
use super::queue::QueueState;
use super::shaper::Fate;
use super::storage::Storage;
use crate::{DropReason, Environment, Linux, Packet};

/// What came of serving one queue.
enum Served {
    /// Its next packet, in this slot.
    Packet(u32),
    /// It is empty: choose anew, gate and all.
    Empty,
    /// It lost a packet in ingress mode: choose another queue of the tin.
    Retry,
}

impl<P: Packet, S: Storage> Cake<P, S> {
    pub(super) fn dequeue_at<E: Environment<P> + ?Sized>(&mut self, now_ns: u64, cx: &mut E) -> Option<P> {
        let now_ns = now_ns as i64;
        if self.timer_ns.is_some_and(|at| at <= now_ns) {
            self.timer_ns = None;
        }
        let packet = self.next_packet(now_ns, cx);
        if !self.freed_late.is_empty() {
            self.hand_back(cx);
        }
        packet
    }

    fn next_packet<E: Environment<P> + ?Sized>(&mut self, now_ns: i64, cx: &mut E) -> Option<P> {
        let mut first = true;
        loop {
            if self.counters.qlen == 0 {
                return None;
            }
            if self.shaper.holds_back(now_ns) {
                self.counters.overlimits = self.counters.overlimits.wrapping_add(1);
                self.arm(self.shaper.wake_ns());
                return None;
            }
            let tin = if self.shaper.time.is_unlimited() { self.tin_in_turn()? } else { self.tin_on_schedule(now_ns)? };
            while let Some(queue) = self.queue_in_turn(tin, &mut first, cx) {
                let place = Place { tin, queue };
                match self.serve(place, now_ns, cx) {
                    Served::Packet(at) => return self.deliver(place, at, now_ns),
                    Served::Empty => break,
                    Served::Retry => {}
                }
            }
        }
    }

    /// §15.3: the tin with the highest index that is on schedule; else the one that is due soonest.
    #[inline]
    fn tin_on_schedule(&mut self, now_ns: i64) -> Option<u16> {
        let (mut best, mut pick) = (i64::MAX, 0);
        let tins = &self.tins.as_ref()[..self.layout.tins.into()];
        for (index, tin) in tins.iter().enumerate() {
            if tin.is_active() {
                let due = tin.clock.next_ns.wrapping_sub(now_ns);
                if due <= 0 || due <= best {
                    (best, pick) = (due, index);
                }
            }
        }
        self.current_tin = pick as u16;
        tins[pick].is_active().then_some(pick as u16)
    }

    /// §15.4 and §15.5: the first queue of the lists that has a deficit left. `None` if there is no queue.
    #[inline]
    fn queue_in_turn<E: Environment<P> + ?Sized>(&mut self, index: u16, first: &mut bool, cx: &mut E) -> Option<u16> {
        let mode = self.parameters.flow_mode;
        let tin = &mut self.tins.as_mut()[usize::from(index)];
        loop {
            let ahead = if *first { tin.decaying.first() } else { None };
            let at = ahead.or(tin.new.first()).or(tin.old.first()).or(tin.decaying.first())?;
            self.current_queue = at;
            *first = false;
            let queues = tin.queues.as_mut();
            let queue = &mut queues[usize::from(at)];
            if queue.deficit > 0 {
                return Some(at);
            }
            let state = queue.state;
            if state == QueueState::Sparse {
                if queue.fifo.is_empty() {
                    queue.state = QueueState::SparseWait;
                } else {
                    queue.state = QueueState::Bulk;
                    tin.sparse = tin.sparse.wrapping_sub(1);
                    tin.bulk = tin.bulk.wrapping_add(1);
                    hosts::add_bulk(tin.hosts.as_mut(), queue, mode);
                }
            }
            let load = hosts::load(tin.hosts.as_ref(), queue, mode);
            let quantum = hosts::quantum(tin.flow_quantum, load, cx.random_u16());
            queue.deficit = queue.deficit.wrapping_add(quantum.into());
            match state {
                QueueState::Sparse => tin.new.remove(queues, at),
                QueueState::Decaying => tin.decaying.remove(queues, at),
                _ => tin.old.remove(queues, at),
            }
            tin.old.push_back(queues, at);
        }
    }

    /// §15.7: takes packets from the queue until COBALT lets one pass.
    #[inline]
    fn serve<E: Environment<P> + ?Sized>(&mut self, place: Place, now_ns: i64, cx: &mut E) -> Served {
        loop {
            let Some(at) = self.take_head(place) else {
                let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
                tin.retire(place.queue, now_ns, &self.law, self.parameters.flow_mode);
                return Served::Empty;
            };
            let ingress = self.parameters.ingress;
            let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
            let queue = &mut tin.queues.as_mut()[usize::from(place.queue)];
            let slot = self.slab.slot_mut(at);
            let sojourn_ns = now_ns.wrapping_sub(slot.meta.enqueued_ns) as u64;
            let bulk = if ingress { tin.bulk } else { 0 };
            let packet = &mut slot.packet;
            let judgement = queue.cobalt.on_packet(now_ns, sojourn_ns, bulk, &tin.cobalt, &self.law, cx, || {
                packet.as_mut().is_some_and(P::try_mark_ce)
            });
            let reason = match judgement {
                Judgement::Deliver => return Served::Packet(at),
                _ if queue.fifo.is_empty() => return Served::Packet(at),
                Judgement::Codel => DropReason::Codel,
                Judgement::Blue => DropReason::Overload,
            };
            self.drop_at_head(place, at, reason, now_ns, cx);
            if ingress {
                return Served::Retry;
            }
        }
    }

    #[cold]
    fn drop_at_head<E: Environment<P> + ?Sized>(
        &mut self,
        place: Place,
        at: u32,
        reason: DropReason,
        now_ns: i64,
        cx: &mut E,
    ) {
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        let queue = &mut tin.queues.as_mut()[usize::from(place.queue)];
        let slot = self.slab.slot_mut(at);
        let (len, adjusted_len) = (slot.len, slot.meta.adjusted_len);
        slot.meta.set_reason(reason);
        if self.parameters.ingress {
            self.shaper.charge(&mut tin.clock, adjusted_len, now_ns, Fate::Dropped);
            queue.deficit = queue.deficit.wrapping_sub(adjusted_len as i32);
            tin.deficit = tin.deficit.wrapping_sub(adjusted_len as i32);
        }
        queue.dropped = queue.dropped.wrapping_add(1);
        tin.counts.drops = tin.counts.drops.wrapping_add(1);
        self.notify(1, len, cx);
        self.counters.count_drops(1);
        if self.frees_late {
            self.slab.push_front(&mut self.freed_late, at);
        } else if let Some(packet) = self.slab.remove(at) {
            cx.dropped(packet, reason);
        }
    }

    /// §15.8.
    #[inline]
    fn deliver(&mut self, place: Place, at: u32, now_ns: i64) -> Option<P> {
        let slot = self.slab.slot(at);
        let (len, meta) = (slot.len, slot.meta);
        let packet = self.slab.remove(at)?;
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        let queue = &mut tin.queues.as_mut()[usize::from(place.queue)];
        tin.counts.marks = tin.counts.marks.wrapping_add(queue.cobalt.marked.into());
        let gso = packet.gso();
        let counted = self.linux >= Linux::V7_2 || gso.segment_bytes != 0;
        self.counters.count_sent(len, if counted { gso.segments } else { 1 });
        self.sharing.last_active_ns = now_ns as u64;
        tin.delays.record(now_ns.wrapping_sub(meta.enqueued_ns) as u64);
        self.shaper.charge(&mut tin.clock, meta.adjusted_len, now_ns, Fate::Sent);
        queue.deficit = queue.deficit.wrapping_sub(meta.adjusted_len as i32);
        tin.deficit = tin.deficit.wrapping_sub(meta.adjusted_len as i32);
        if self.shaper.next_ns > now_ns && self.counters.qlen != 0 {
            self.arm(self.shaper.wake_ns());
        } else if self.counters.qlen == 0 {
            self.wake_for_decay(now_ns);
        }
        self.heap.lifetime = self.heap.lifetime.saturating_sub(1);
        Some(packet)
    }

    /// An empty qdisc with decaying queues looks again after a target.
    #[inline]
    fn wake_for_decay(&mut self, now_ns: i64) {
        let tins = &self.tins.as_ref()[..self.layout.tins.into()];
        if let Some(tin) = tins.iter().find(|tin| tin.decays != 0) {
            self.timer_ns = Some(now_ns.wrapping_add(tin.cobalt.target_ns as i64));
        }
    }
}
