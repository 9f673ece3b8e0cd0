use crate::pie::Controller;

/// What `tc -s qdisc show` prints for fq_pie besides the [`Counters`](crate::Counters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets queued so far.
    pub packets_in: u32,
    /// Packets dropped on arrival, for either reason.
    pub dropped: u32,
    /// Packets that met a full queue.
    pub overlimit: u32,
    /// Packets that arrived above the memory limit; they are treated like any other.
    pub overmemory: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Times a flow joined the list of new flows.
    pub new_flow_count: u32,
    /// Length of the list of new flows now.
    pub new_flows_len: u32,
    /// Length of the list of old flows now.
    pub old_flows_len: u32,
    /// Memory charged to the queued packets, bytes.
    pub memory_usage_bytes: u32,
}

/// One bucket's whole state, for those who compare states. Length and backlog of a bucket that is on no list are
/// stale after a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// The bucket's controller.
    pub controller: Controller,
    /// Bytes the flow may still send in this round.
    pub deficit_bytes: i32,
    /// Bytes in the bucket.
    pub backlog_bytes: u32,
    /// Packets in the bucket.
    pub qlen: u32,
}
