//! Statistics (spec/cake.md §17), and the whole state for those who compare states.

use super::autorate::Autorate;
use super::config::Parameters;
use super::hosts::HostSlot;
use super::overhead::LengthRecords;
use super::qdisc::{Cake, Memory, Sharing};
use super::queue::{Queue, QueueState};
use super::shaper::Shaper;
use super::stats::{ClassStats, QueueSnapshot, Stats, TinSnapshot, TinStats};
use super::storage::Storage;
use super::tin::Tin;
use crate::{Environment, Packet};

/// Nanoseconds to the microseconds that Linux reports: it divides them as signed numbers.
const fn us(ns: u64) -> u32 {
    (ns.cast_signed() / 1000) as u32
}

impl<S: Storage> Tin<S> {
    fn stats(&self) -> TinStats {
        TinStats {
            threshold_rate: self.rate,
            sent_bytes: self.counts.bytes,
            backlog_bytes: self.backlog,
            target_us: us(self.cobalt.target_ns),
            interval_us: us(self.cobalt.interval_ns),
            sent_packets: self.counts.packets,
            drops: self.counts.drops,
            ecn_marks: self.counts.marks,
            ack_drops: self.counts.ack_drops,
            peak_delay_us: us(self.delays.peak_ns),
            avg_delay_us: us(self.delays.mean_ns),
            base_delay_us: us(self.delays.base_ns),
            way_indirect_hits: self.lookups.hits,
            way_misses: self.lookups.misses,
            way_collisions: self.lookups.collisions,
            sparse_flows: u32::from(self.sparse) + u32::from(self.decays),
            bulk_flows: self.bulk.into(),
            unresponsive_flows: self.unresponsive.into(),
            max_packet_bytes: self.counts.longest,
            flow_quantum: self.flow_quantum.into(),
        }
    }

    fn snapshot(&self) -> TinSnapshot {
        TinSnapshot {
            next_ns: self.clock.next_ns,
            time: self.clock.time,
            rate: self.rate,
            quantum: self.quantum,
            deficit_bytes: self.deficit,
            cobalt: self.cobalt,
            sparse: self.sparse,
            bulk: self.bulk,
            decaying: self.decays,
            unresponsive: self.unresponsive,
            backlog_bytes: self.backlog,
            delays: self.delays,
            lookups: self.lookups,
        }
    }
}

impl<P: Packet, S: Storage> Cake<P, S> {
    /// The parameters in force.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The statistics.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            capacity_estimate: self.autorate.capacity,
            memory_limit_bytes: self.memory.limit,
            memory_used_bytes: self.memory.peak,
            network_offset_mean: self.lengths.network_offset_mean.wrapping_add(1 << 15) >> 16,
            network_max: self.lengths.network_max,
            adjusted_max: self.lengths.adjusted_max,
            network_min: self.lengths.network_min,
            adjusted_min: self.lengths.adjusted_min,
            active_queues: self.sharing.active,
            tin_count: self.layout.tins.into(),
            ..Stats::default()
        };
        for (to, tin) in stats.tins.iter_mut().zip(self.layout.in_display_order()) {
            *to = self.tins.as_ref()[usize::from(tin)].stats();
        }
        stats
    }

    /// The queues that are classes now, by minor number; reads the clock for each.
    pub fn classes<E: Environment<P> + ?Sized>(&self, cx: &mut E) -> impl Iterator<Item = ClassStats> {
        let listed = self.layout.in_display_order().zip(0..).flat_map(|(index, place)| {
            let tin = &self.tins.as_ref()[usize::from(index)];
            let queues = tin.queues.as_ref().iter().zip(tin.backlogs.as_ref()).zip(place * 1024 + 1..);
            queues.filter(|((queue, _), _)| queue.state != QueueState::Idle)
        });
        listed.map(|((queue, &backlog), minor)| self.class(queue, backlog, minor, cx.now_ns() as i64))
    }

    fn class(&self, queue: &Queue, backlog_bytes: u32, minor: u32, now_ns: i64) -> ClassStats {
        let since_us = |then_ns: i64| (now_ns.wrapping_sub(then_ns) / 1000) as i32;
        let cobalt = &queue.cobalt;
        ClassStats {
            minor,
            qlen: self.slab.len(&queue.fifo),
            backlog_bytes,
            drops: queue.dropped,
            deficit_bytes: queue.deficit,
            count: cobalt.count,
            dropping: cobalt.signalling,
            drop_next_us: cobalt.signalling.then(|| since_us(cobalt.next_signal_ns)),
            blue_timer_us: (cobalt.p_drop != 0).then(|| since_us(cobalt.blue_changed_ns)),
            p_drop: cobalt.p_drop,
        }
    }

    /// The shaper's clock.
    pub const fn shaper(&self) -> &Shaper {
        &self.shaper
    }

    /// Memory charged to queued packets.
    pub const fn memory(&self) -> Memory {
        self.memory
    }

    /// The bandwidth estimator.
    pub const fn autorate(&self) -> &Autorate {
        &self.autorate
    }

    /// What packet lengths were seen.
    pub const fn lengths(&self) -> &LengthRecords {
        &self.lengths
    }

    /// What a child of `cake_mq` knows of the others.
    pub const fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The tin and queue where the scan stands.
    pub const fn scan_position(&self) -> (u16, u16) {
        (self.current_tin, self.current_queue)
    }

    /// The number of tins in use.
    pub const fn tins_in_use(&self) -> u16 {
        self.layout.tins
    }

    /// A tin's state, by index; `None` if it was never in use.
    pub fn tin(&self, tin: usize) -> Option<TinSnapshot> {
        self.made().get(tin).map(Tin::snapshot)
    }

    /// A tin's statistics, by index; `None` if it was never in use.
    pub fn tin_stats(&self, tin: usize) -> Option<TinStats> {
        self.made().get(tin).map(Tin::stats)
    }

    /// The queues of a tin on its lists, in order: new, old, decaying.
    pub fn lists(&self, tin: usize) -> Option<[impl Iterator<Item = u16>; 3]> {
        let tin = self.made().get(tin)?;
        Some([tin.new, tin.old, tin.decaying].map(|list| list.iter(tin.queues.as_ref())))
    }

    /// A queue's state; `None` if its tin was never in use.
    pub fn queue(&self, tin: usize, queue: usize) -> Option<QueueSnapshot> {
        let tin = self.made().get(tin)?;
        let &Queue { state, deficit, dropped, source_slot, destination_slot, cobalt, .. } =
            tin.queues.as_ref().get(queue)?;
        Some(QueueSnapshot {
            state,
            tag: tin.tags.as_ref()[queue],
            backlog_bytes: tin.backlogs.as_ref()[queue],
            deficit_bytes: deficit,
            dropped,
            source_slot,
            destination_slot,
            heap_place: tin.heap_places.as_ref()[queue],
            cobalt,
        })
    }

    /// The packets of a queue, in order.
    pub fn packets(&self, tin: usize, queue: usize) -> impl Iterator<Item = &P> {
        let queue = self.made().get(tin).and_then(|tin| tin.queues.as_ref().get(queue));
        queue
            .into_iter()
            .flat_map(|queue| self.slab.iter(&queue.fifo))
            .filter_map(|at| self.slab.slot(at).packet.as_ref())
    }

    /// The host table of a tin; empty if no mode needed it yet.
    pub fn hosts(&self, tin: usize) -> &[HostSlot] {
        self.made().get(tin).map_or(&[], |tin| tin.hosts.as_ref())
    }

    /// The drop heap, as pairs of tin and queue.
    pub fn heap_order(&self) -> impl Iterator<Item = (u16, u16)> {
        self.heap.order().map(|place| (place.tin, place.queue))
    }

    /// Deliveries left until the drop heap is no longer kept up to date.
    pub const fn heap_lifetime(&self) -> u16 {
        self.heap.lifetime
    }

    /// Bytes this instance takes: itself, its tins and the packet slots it has made so far.
    pub fn memory_bytes(&self) -> usize {
        let tins: usize = self.tins.as_ref().iter().map(Tin::memory_bytes).sum();
        size_of::<Self>() + tins + self.heap.memory_bytes() + self.slab.memory_bytes()
    }

    fn made(&self) -> &[Tin<S>] {
        &self.tins.as_ref()[..self.made_tins]
    }
}
