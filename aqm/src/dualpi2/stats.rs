/// What `tc -s qdisc show` prints for dualpi2 besides the [`Counters`](crate::Counters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Base probability, of 2^32 − 1.
    pub prob: u32,
    /// Age of the classic queue's head, µs.
    pub delay_c_us: u32,
    /// Age of the low-latency queue's head, µs.
    pub delay_l_us: u32,
    /// Packets queued so far in the classic queue.
    pub packets_in_c: u32,
    /// Packets queued so far in the low-latency queue.
    pub packets_in_l: u32,
    /// Longest queue that an arriving packet found.
    pub maxq: u32,
    /// Packets marked; one packet can count twice, for the coupled AQM and for the step.
    pub ecn_mark: u32,
    /// Packets marked by the step.
    pub step_marks: u32,
    /// Credit of the scheduler: at 0 or below, the low-latency queue's turn.
    pub credit: i32,
    /// Memory charged to the queued packets, bytes.
    pub memory_used_bytes: u32,
    /// The most that was ever charged, bytes.
    pub max_memory_used_bytes: u32,
    /// The memory limit, bytes.
    pub memory_limit_bytes: u32,
}

/// Enqueue times of the two heads, ns, as the qdisc keeps them: 0 stands for an empty queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// The classic queue's.
    pub classic_ns: u64,
    /// The low-latency queue's.
    pub low_latency_ns: u64,
}
