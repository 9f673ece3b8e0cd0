use crate::codel::Controller;

/// What `tc -s qdisc show` prints for fq_codel besides the [`Counters`](crate::Counters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Largest packet seen by CoDel, bytes.
    pub maxpacket_bytes: u32,
    /// Packets dropped in batches, for either limit.
    pub drop_overlimit: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Times a flow joined the list of new flows.
    pub new_flow_count: u32,
    /// Length of the list of new flows now.
    pub new_flows_len: u32,
    /// Length of the list of old flows now.
    pub old_flows_len: u32,
    /// Packets marked by `ce_threshold`.
    pub ce_mark: u32,
    /// Memory charged to the queued packets, bytes.
    pub memory_usage_bytes: u32,
    /// Packets dropped in batches while over the memory limit.
    pub drop_overmemory: u32,
}

/// One flow as `tc -s class show` prints it; flows are classes only while they are on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassStats {
    /// Minor number: bucket + 1.
    pub minor: u32,
    /// Bytes the flow may still send in this round; negative after a large packet.
    pub deficit_bytes: i32,
    /// Sojourn time of the last packet looked at, µs.
    pub ldelay_us: u32,
    /// The controller's count.
    pub count: u32,
    /// Count at the last entry into the dropping state.
    pub lastcount: u32,
    /// Is the controller in the dropping state?
    pub dropping: bool,
    /// Time to the next drop, µs; negative if overdue, 0 when not dropping.
    pub drop_next_us: i32,
    /// Packets in the bucket.
    pub qlen: u32,
    /// Bytes in the bucket.
    pub backlog_bytes: u32,
}

/// One bucket's whole state, for those who compare states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// The bucket's controller.
    pub controller: Controller,
    /// Bytes the flow may still send in this round.
    pub deficit_bytes: i32,
    /// Bytes in the bucket.
    pub backlog_bytes: u32,
}
