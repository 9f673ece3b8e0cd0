/// The counters that every qdisc has (spec/common.md §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets queued now; a GSO packet counts once.
    pub qlen: u32,
    /// Bytes queued now, in qdisc lengths.
    pub backlog_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Times the qdisc held back, marked or dropped for its rate or limit.
    pub overlimits: u32,
    /// Packets which the driver refused and which were put back.
    pub requeues: u32,
    /// Bytes delivered, in qdisc lengths.
    pub sent_bytes: u64,
    /// Wire segments delivered.
    pub sent_packets: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn add_queued(&mut self, len: u32) {
        self.qlen = self.qlen.wrapping_add(1);
        self.backlog_bytes = self.backlog_bytes.wrapping_add(len);
    }

    #[inline]
    pub(crate) fn sub_queued(&mut self, len: u32) {
        self.qlen = self.qlen.wrapping_sub(1);
        self.backlog_bytes = self.backlog_bytes.wrapping_sub(len);
    }

    #[inline]
    pub(crate) fn count_sent(&mut self, len: u32, segments: u16) {
        self.sent_bytes = self.sent_bytes.wrapping_add(u64::from(len));
        self.sent_packets = self.sent_packets.wrapping_add(u64::from(segments));
    }

    /// What a child's correction does to its ancestor's counters.
    pub(crate) fn correct(&mut self, correction: &crate::TreeCorrection) {
        self.qlen = self.qlen.wrapping_sub(correction.packets as u32);
        self.backlog_bytes = self.backlog_bytes.wrapping_sub(correction.bytes as u32);
        self.drops = self.drops.wrapping_add(correction.packets.max(0) as u32);
    }

    #[inline]
    pub(crate) fn count_drops(&mut self, n: u32) {
        self.drops = self.drops.wrapping_add(n);
    }
}
