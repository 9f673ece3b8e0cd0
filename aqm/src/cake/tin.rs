//! One tin: queues, hosts, lists, and its share of the rate.

use super::cobalt::{Cobalt, CobaltParameters, Law};
use super::config::{FlowMode, Parameters};
use super::hosts::{self, HostSlot};
use super::queue::{List, Queue, QueueState};
use super::rate::{TimePerByte, flow_quantum};
use super::shaper::TinClock;
use super::storage::Storage;
use crate::Slots;
use crate::arith::ewma;

/// A tin's state. Names and initial values: spec/cake.md §5.
pub(super) struct Tin<S: Storage> {
    pub(super) queues: S::Flows<Queue>,
    /// The flow hash that owns each queue.
    pub(super) tags: S::Flows<u32>,
    /// Wire bytes in each queue; the key of the drop heap.
    pub(super) backlogs: S::Flows<u32>,
    /// Where each queue stands in the drop heap.
    pub(super) heap_places: S::Flows<u16>,
    /// The host table; not allocated before a mode needs it.
    pub(super) hosts: S::Hosts<HostSlot>,
    pub(super) new: List,
    pub(super) old: List,
    pub(super) decaying: List,
    pub(super) clock: TinClock,
    pub(super) rate: u64,
    pub(super) flow_quantum: u16,
    /// Bytes the tin may send in a round when there is no rate to share.
    pub(super) quantum: u16,
    pub(super) deficit: i32,
    pub(super) cobalt: CobaltParameters,
    pub(super) sparse: u16,
    pub(super) bulk: u16,
    pub(super) decays: u16,
    pub(super) unresponsive: u16,
    pub(super) backlog: u32,
    pub(super) counts: TinCounts,
    pub(super) delays: Delays,
    pub(super) lookups: Lookups,
}

/// What a tin counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TinCounts {
    pub(super) packets: u32,
    pub(super) bytes: u64,
    pub(super) drops: u32,
    pub(super) marks: u32,
    pub(super) ack_drops: u32,
    pub(super) longest: u32,
}

/// How the packets of a tin found their queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// The queue at home had the packet's hash.
    pub direct: u32,
    /// Another of the eight ways had it.
    pub hits: u32,
    /// None had it, and one was free.
    pub misses: u32,
    /// All eight were taken by others.
    pub collisions: u32,
}

/// Means of the delay of the packets delivered, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Plain mean.
    pub mean_ns: u64,
    /// Mean that rises fast and falls slowly.
    pub peak_ns: u64,
    /// Mean that falls fast and rises slowly.
    pub base_ns: u64,
}

impl Delays {
    #[inline]
    pub(super) fn record(&mut self, delay_ns: u64) {
        self.mean_ns = ewma(self.mean_ns, delay_ns, 8);
        self.peak_ns = ewma(self.peak_ns, delay_ns, if delay_ns > self.peak_ns { 2 } else { 8 });
        self.base_ns = ewma(self.base_ns, delay_ns, if delay_ns < self.base_ns { 2 } else { 8 });
    }
}

impl<S: Storage> Tin<S> {
    /// A tin without queues, which allocates nothing.
    pub(super) fn vacant() -> Self {
        const { assert!(S::QUEUES > 0 && S::QUEUES <= 1024 && S::QUEUES % 8 == 0, "queues: 8, 16 … 1024") };
        const { assert!(S::HOSTS > 0 && S::HOSTS <= 1024 && S::HOSTS % 8 == 0, "hosts: 8, 16 … 1024") };
        const { assert!(S::TINS > 0 && S::TINS <= 8, "tins: 1 to 8") };
        Self {
            queues: Slots::vacant(|| Queue::EMPTY),
            tags: Slots::vacant(|| 0),
            backlogs: Slots::vacant(|| 0),
            heap_places: Slots::vacant(|| 0),
            hosts: Slots::vacant(HostSlot::default),
            new: List::EMPTY,
            old: List::EMPTY,
            decaying: List::EMPTY,
            clock: TinClock::default(),
            rate: 0,
            flow_quantum: 0,
            quantum: 0,
            deficit: 0,
            cobalt: CobaltParameters::default(),
            sparse: 0,
            bulk: 0,
            decays: 0,
            unresponsive: 0,
            backlog: 0,
            counts: TinCounts::default(),
            delays: Delays::default(),
            lookups: Lookups::default(),
        }
    }

    /// Makes the queues, if they are not there yet. False if the storage has no room for them.
    pub(super) fn make_queues(&mut self) -> bool {
        self.queues.grow_to(S::QUEUES, || Queue::EMPTY)
            && self.tags.grow_to(S::QUEUES, || 0)
            && self.backlogs.grow_to(S::QUEUES, || 0)
            && self.heap_places.grow_to(S::QUEUES, || 0)
    }

    /// Makes the host table, if it is not there yet. False if the storage has no room for it.
    pub(super) fn make_hosts(&mut self) -> bool {
        self.hosts.grow_to(S::HOSTS, HostSlot::default)
    }

    /// A queue turned out empty: it leaves its list, or joins the decaying ones until its controller has calmed down
    /// (§15.7 step 1).
    pub(super) fn retire(&mut self, at: u16, now_ns: i64, law: &Law, mode: FlowMode) {
        let queues = self.queues.as_mut();
        let queue = &mut queues[usize::from(at)];
        if queue.cobalt.on_empty(now_ns, &self.cobalt, law) {
            self.unresponsive = self.unresponsive.wrapping_sub(1);
        }
        let Cobalt { p_drop, count, next_signal_ns, .. } = queue.cobalt;
        let decays = p_drop != 0 || count != 0 || now_ns < next_signal_ns;
        let next = if decays { QueueState::Decaying } else { QueueState::Idle };
        let list = match core::mem::replace(&mut queue.state, next) {
            state @ (QueueState::Sparse | QueueState::SparseWait) => {
                self.sparse = self.sparse.wrapping_sub(1);
                if state == QueueState::Sparse { &mut self.new } else { &mut self.old }
            }
            QueueState::Bulk => {
                self.bulk = self.bulk.wrapping_sub(1);
                hosts::sub_bulk(self.hosts.as_mut(), queue, mode);
                &mut self.old
            }
            // Idle queues are on no list and never get here.
            QueueState::Decaying | QueueState::Idle => {
                self.decays = self.decays.wrapping_sub(1);
                &mut self.decaying
            }
        };
        list.remove(queues, at);
        if decays {
            self.decays = self.decays.wrapping_add(1);
            self.decaying.push_back(queues, at);
        }
    }

    /// Bytes the tin takes.
    pub(super) fn memory_bytes(&self) -> usize {
        if S::Flows::<u32>::GROWS {
            size_of::<Self>()
                + size_of_val(self.queues.as_ref())
                + size_of_val(self.tags.as_ref())
                + size_of_val(self.backlogs.as_ref())
                + size_of_val(self.heap_places.as_ref())
                + size_of_val(self.hosts.as_ref())
        } else {
            // All of it is inside the qdisc.
            0
        }
    }

    /// Has the tin queues that wait to be served?
    #[inline]
    pub(super) const fn is_active(&self) -> bool {
        self.sparse != 0 || self.bulk != 0
    }

    /// Takes its share of the rate: a threshold rate in bytes per second, and a tin quantum.
    pub(super) fn set_rate(&mut self, (rate, quantum): (u64, u16)) {
        self.rate = rate;
        self.clock.time = TimePerByte::of(rate);
        self.flow_quantum = flow_quantum(rate);
        self.quantum = quantum;
    }

    /// Derives COBALT's parameters from the tin's rate (§6.5).
    pub(super) fn set_cobalt(&mut self, parameters: &Parameters, frame_bytes: u32) {
        let mtu_time_ns = self.clock.time.duration_ns(frame_bytes);
        let target = u64::from(parameters.target_us) * 1000;
        let interval = u64::from(parameters.rtt_us) * 1000;
        let target_ns = (mtu_time_ns.wrapping_mul(3) / 2).max(target);
        self.cobalt = CobaltParameters {
            target_ns,
            interval_ns: interval.wrapping_add(target_ns).wrapping_sub(target).max(target_ns.wrapping_mul(2)),
            mtu_time_ns,
            p_increment: 1 << 24,
            p_decrement: 1 << 20,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;

    fn derived(rate: u64, rtt_us: u32, target_us: u32) -> (u64, u64, u64) {
        let mut tin = Tin::<Heap>::vacant();
        tin.set_rate((rate, 1));
        tin.set_cobalt(&Parameters { rtt_us, target_us, ..Parameters::default() }, 1514);
        (tin.cobalt.mtu_time_ns, tin.cobalt.target_ns, tin.cobalt.interval_ns)
    }

    /// spec/cake.md §23.2, both parts; CK-27.
    #[test]
    fn targets_and_intervals() {
        for (rate, mtu_time, target, interval) in [
            (8_000, 189_250_000, 283_875_000, 567_750_000),
            (500, 3_028_000_000, 4_542_000_000, 9_084_000_000),
            (125_000, 12_112_000, 18_168_000, 113_168_000),
            (7_812, 193_804_403, 290_706_604, 581_413_208),
            (31_250, 48_448_000, 72_672_000, 167_672_000),
            (250_000, 6_056_000, 9_084_000, 104_084_000),
            (625_000, 2_422_400, 5_000_000, 100_000_000),
            (312_500, 4_844_800, 7_267_200, 102_267_200),
            (2_500_000, 605_600, 5_000_000, 100_000_000),
            (156_250, 9_689_600, 14_534_400, 109_534_400),
            (1_250_000, 1_211_200, 5_000_000, 100_000_000),
            (781_250, 1_937_920, 5_000_000, 100_000_000),
            (16_000, 94_625_000, 141_937_500, 283_875_000),
            (0, 0, 5_000_000, 100_000_000),
        ] {
            assert_eq!(derived(rate, 100_000, 5_000), (mtu_time, target, interval), "{rate} B/s");
        }
        for (rtt_us, target_us, target, interval) in [
            (100, 5, 908_400, 1_816_800),
            (1_000, 50, 908_400, 1_858_400),
            (10_000, 500, 908_400, 10_408_400),
            (30_000, 1_500, 1_500_000, 30_000_000),
            (1_000_000, 50_000, 50_000_000, 1_000_000_000),
            (1_000_000_000, 50_000_000, 50_000_000_000, 1_000_000_000_000),
        ] {
            assert_eq!(derived(2_500_000, rtt_us, target_us), (605_600, target, interval), "rtt {rtt_us} µs");
        }
    }

    /// spec/cake.md §23.6, last line.
    #[test]
    fn delay_means() {
        let mut delays = Delays::default();
        for (delay, mean_ns, peak_ns, base_ns) in [
            (5_000_000, 19_531, 1_250_000, 19_531),
            (7_000_000, 46_798, 2_687_500, 46_798),
            (3_000_000, 58_334, 2_765_625, 58_334),
            (3_000_000, 69_825, 2_824_219, 69_825),
        ] {
            delays.record(delay);
            assert_eq!(delays, Delays { mean_ns, peak_ns, base_ns });
        }
    }
}
