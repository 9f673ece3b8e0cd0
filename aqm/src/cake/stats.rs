use super::cobalt::{Cobalt, CobaltParameters};
use super::queue::QueueState;
use super::rate::TimePerByte;
use super::tin::{Delays, Lookups};
use super::tins::MAX_TINS;

/// What `tc -s qdisc show` prints for cake besides the [`Counters`](crate::Counters) (spec/cake.md §17.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Estimated bandwidth, bytes per second: the one given at creation, unless autorate runs.
    pub capacity_estimate: u64,
    /// Memory that queued packets may be charged, bytes.
    pub memory_limit_bytes: u32,
    /// The most memory that was charged, bytes.
    pub memory_used_bytes: u32,
    /// Mean offset of the network header, bytes.
    pub network_offset_mean: u32,
    /// Longest packet, counted from where the configuration says.
    pub network_max: u16,
    /// Longest packet with overhead.
    pub adjusted_max: u16,
    /// Shortest packet; 65535 before the first.
    pub network_min: u16,
    /// Shortest packet with overhead; 65535 before the first.
    pub adjusted_min: u16,
    /// Children of `cake_mq` that shared the bandwidth at the last look; 0 outside. Only 7.2 reports it.
    pub active_queues: u32,
    pub(super) tins: [TinStats; MAX_TINS],
    pub(super) tin_count: usize,
}

impl Stats {
    /// The tins in use, in display order (bulk first in diffserv3 and diffserv4).
    pub fn tins(&self) -> &[TinStats] {
        &self.tins[..self.tin_count]
    }

    /// The same statistics with these tins, at most 8, in display order: for those who have them from elsewhere.
    #[must_use]
    pub fn with_tins(mut self, tins: &[TinStats]) -> Self {
        self.tin_count = tins.len().min(MAX_TINS);
        self.tins[..self.tin_count].copy_from_slice(&tins[..self.tin_count]);
        self
    }
}

/// One tin's statistics (spec/cake.md §17.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TinStats {
    /// Threshold rate, bytes per second.
    pub threshold_rate: u64,
    /// Bytes enqueued, also those dropped later.
    pub sent_bytes: u64,
    /// Bytes queued.
    pub backlog_bytes: u32,
    /// COBALT's target, µs.
    pub target_us: u32,
    /// COBALT's interval, µs.
    pub interval_us: u32,
    /// Packets enqueued, GSO packets that were split by their segments.
    pub sent_packets: u32,
    /// Packets dropped by COBALT and for memory.
    pub drops: u32,
    /// Packets marked.
    pub ecn_marks: u32,
    /// Packets removed by the ACK filter.
    pub ack_drops: u32,
    /// Delay, µs: a mean that rises fast and falls slowly.
    pub peak_delay_us: u32,
    /// Delay, µs: a plain mean.
    pub avg_delay_us: u32,
    /// Delay, µs: a mean that falls fast and rises slowly.
    pub base_delay_us: u32,
    /// Lookups that found the flow away from its home.
    pub way_indirect_hits: u32,
    /// Lookups that gave a new flow a free queue.
    pub way_misses: u32,
    /// Lookups that had to share a queue.
    pub way_collisions: u32,
    /// Queues that are sparse or decaying.
    pub sparse_flows: u32,
    /// Queues that are bulk.
    pub bulk_flows: u32,
    /// Queues whose BLUE is active.
    pub unresponsive_flows: u32,
    /// Longest packet, wire bytes; of GSO packets the whole.
    pub max_packet_bytes: u32,
    /// Quantum of a queue whose host has no other, bytes.
    pub flow_quantum: u32,
}

/// One queue as `tc -s class show` prints it (spec/cake.md §17.5); queues are classes while they are on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassStats {
    /// Minor number: 1024 times the tin's place in display order, plus the queue, plus 1.
    pub minor: u32,
    /// Packets queued.
    pub qlen: u32,
    /// Wire bytes queued.
    pub backlog_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Bytes the queue may still send in this round.
    pub deficit_bytes: i32,
    /// COBALT's count.
    pub count: u32,
    /// Is the delay above target?
    pub dropping: bool,
    /// While it is: time since the next signal was due, µs; negative while that is to come.
    pub drop_next_us: Option<i32>,
    /// While BLUE is active: time since its probability changed, µs.
    pub blue_timer_us: Option<i32>,
    /// BLUE's drop probability, a fraction of 2^32.
    pub p_drop: u32,
}

/// One queue's whole state, for those who compare states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Where it stands.
    pub state: QueueState,
    /// The flow hash that owns it.
    pub tag: u32,
    /// Wire bytes queued.
    pub backlog_bytes: u32,
    /// Bytes it may still send in this round.
    pub deficit_bytes: i32,
    /// Packets dropped.
    pub dropped: u32,
    /// Its source's slot in the host table.
    pub source_slot: u16,
    /// Its destination's slot in the host table.
    pub destination_slot: u16,
    /// Its place in the drop heap.
    pub heap_place: u16,
    /// Its controller.
    pub cobalt: Cobalt,
}

/// One tin's state besides its queues, hosts and statistics, for those who compare states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinSnapshot {
    /// Until when the tin has used up its share.
    pub next_ns: i64,
    /// How long a byte lasts.
    pub time: TimePerByte,
    /// Threshold rate, bytes per second.
    pub rate: u64,
    /// Bytes the tin may send in a round without a rate.
    pub quantum: u16,
    /// What is left of it; charged in any case.
    pub deficit_bytes: i32,
    /// COBALT's parameters.
    pub cobalt: CobaltParameters,
    /// Sparse queues, without the decaying.
    pub sparse: u16,
    /// Bulk queues.
    pub bulk: u16,
    /// Decaying queues.
    pub decaying: u16,
    /// Queues whose BLUE is active.
    pub unresponsive: u16,
    /// Wire bytes queued.
    pub backlog_bytes: u32,
    /// Means of the delay.
    pub delays: Delays,
    /// How lookups went.
    pub lookups: Lookups,
}
