use crate::red::Average;

/// What `tc -s qdisc show` prints for sfq besides the [`Counters`](crate::Counters): the work of RED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Drops between the thresholds.
    pub prob_drop: u32,
    /// Drops at an average above the upper threshold.
    pub forced_drop: u32,
    /// Arriving packets marked between the thresholds.
    pub prob_mark: u32,
    /// Arriving packets marked above the upper threshold.
    pub forced_mark: u32,
    /// Head packets marked between the thresholds, with `headdrop`.
    pub prob_mark_head: u32,
    /// Head packets marked above the upper threshold, with `headdrop`.
    pub forced_mark_head: u32,
}

/// One row as `tc -s class show` prints it; a row is a class while it has packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassStats {
    /// Minor number: row + 1.
    pub minor: u32,
    /// Bytes the flow may still send in this round.
    pub allot_bytes: i32,
    /// Packets.
    pub qlen: u32,
    /// Bytes.
    pub backlog_bytes: u32,
}

/// One slot's whole state, for those who compare states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// The row of the hash table that it serves or last served.
    pub row: u32,
    /// Packets.
    pub qlen: u32,
    /// Bytes.
    pub backlog_bytes: u32,
    /// Bytes it may still send in this round.
    pub allot_bytes: i32,
    /// The slot served after it; meaningful while it has packets.
    pub ring_next: Option<u32>,
    /// RED's average.
    pub average: Average,
}
