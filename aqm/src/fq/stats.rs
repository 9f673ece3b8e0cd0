/// What `tc -s qdisc show` prints for fq besides the [`Counters`](crate::Counters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Idle flows forgotten.
    pub gc_flows: u64,
    /// Packets that took the fast path; before 6.12 packets of control priority.
    pub fastpath_packets: u64,
    /// Times a flow was held back.
    pub throttled: u64,
    /// Packets dropped because their flow was full.
    pub flows_plimit: u64,
    /// Packets whose transmission at the flow's rate would take more than a second.
    pub pkts_too_long: u64,
    /// Flows that fixed storage had no room for; their packets took the fast path (Linux: without memory).
    pub allocation_errors: u64,
    /// Time to the next departure of a held flow, with the timer's slack, ns; meaningless if none is held.
    pub time_next_delayed_flow_ns: i64,
    /// Flows that are remembered.
    pub flows: u32,
    /// Of these without packets (before 6.12: on no list).
    pub inactive_flows: u32,
    /// Of these held back.
    pub throttled_flows: u32,
    /// How late held flows were let go, a moving average, ns.
    pub unthrottle_latency_ns: u64,
    /// Packets later than `ce_threshold`: attempts to mark, not successes.
    pub ce_mark: u64,
    /// Packets dropped beyond the horizon.
    pub horizon_drops: u64,
    /// Packets moved to the horizon.
    pub horizon_caps: u64,
    /// Packets dropped at a band's limit.
    pub band_drops: [u64; 3],
    /// Packets in each band; those on the fast path are in none.
    pub band_pkt_count: [u32; 3],
}

/// Where a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStatus {
    /// On no list, since this jiffy (made odd).
    Detached(u64),
    /// On one of the lists of its band.
    Listed,
    /// Held back until its next departure.
    Throttled,
}

/// One flow's state, for those who compare states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// The socket's id, or the masked hash times two plus one.
    pub key: u64,
    /// The connection's hash when the flow was last claimed.
    pub socket_hash: u32,
    /// Packets.
    pub qlen: u32,
    /// Bytes it may still send in this round.
    pub credit_bytes: i32,
    /// Its band.
    pub band: u8,
    /// Earliest time of its next packet, ns; 0 at the start.
    pub next_departure_ns: u64,
    /// Where it stands.
    pub status: FlowStatus,
}
