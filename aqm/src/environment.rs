use core::net::IpAddr;

use crate::net::SipKey;

/// What a qdisc reads from the world, and where its side effects go.
///
/// Linux reads its clock and draws random numbers at exact points, sometimes more than once in a call; the ports do
/// the same through this trait, so that a replay can feed recorded values. A caller with one `now` per call uses
/// [`Context::at`](crate::Context::at).
///
/// `P` is the caller's packet type.
pub trait Environment<P> {
    /// The monotonic clock, nanoseconds. Linux's own is the time since boot; ports expect that it is far from 0
    /// (seconds, better hours: spec/cake.md §3.2, spec/fq_codel.md §9.6).
    fn now_ns(&mut self) -> u64;

    /// The same clock where Linux looks at its tick counter (`jiffies`) instead of the clock: to arm coarse timers.
    fn coarse_now_ns(&mut self) -> u64 {
        self.now_ns()
    }

    /// One uniform 32-bit draw.
    fn random_u32(&mut self) -> u32;

    /// One uniform 8-bit draw.
    fn random_u8(&mut self) -> u8 {
        self.random_u32() as u8
    }

    /// One uniform 16-bit draw, independent of the 32-bit ones.
    fn random_u16(&mut self) -> u16 {
        self.random_u32() as u16
    }

    /// One uniform 64-bit draw.
    fn random_u64(&mut self) -> u64 {
        u64::from(self.random_u32()) << 32 | u64::from(self.random_u32())
    }

    /// The secret of the flow hash (spec/common.md §8.3): in Linux random per boot.
    fn flow_secret(&self) -> SipKey;

    /// Takes back a dropped packet. Every packet which a qdisc does not deliver comes through here, once.
    fn dropped(&mut self, packet: P, reason: DropReason);

    /// A correction for every ancestor qdisc; a root qdisc's goes nowhere (the default).
    fn correct_tree(&mut self, correction: TreeCorrection) {
        let _ = correction;
    }

    /// The verdict of the tc filters attached to the qdisc; none are attached by default.
    fn classify(&mut self, packet: &P) -> Classified {
        let _ = packet;
        Classified::NoFilters
    }

    /// The connection-tracking entry's original tuple, for cake's `nat` option (spec/cake.md Appendix B).
    fn conntrack(&mut self, packet: &P) -> Option<NatTuple> {
        let _ = packet;
        None
    }
}

impl<P, E: Environment<P> + ?Sized> Environment<P> for &mut E {
    fn now_ns(&mut self) -> u64 {
        (**self).now_ns()
    }
    fn coarse_now_ns(&mut self) -> u64 {
        (**self).coarse_now_ns()
    }
    fn random_u32(&mut self) -> u32 {
        (**self).random_u32()
    }
    fn random_u8(&mut self) -> u8 {
        (**self).random_u8()
    }
    fn random_u16(&mut self) -> u16 {
        (**self).random_u16()
    }
    fn random_u64(&mut self) -> u64 {
        (**self).random_u64()
    }
    fn flow_secret(&self) -> SipKey {
        (**self).flow_secret()
    }
    fn dropped(&mut self, packet: P, reason: DropReason) {
        (**self).dropped(packet, reason);
    }
    fn correct_tree(&mut self, correction: TreeCorrection) {
        (**self).correct_tree(correction);
    }
    fn classify(&mut self, packet: &P) -> Classified {
        (**self).classify(packet)
    }
    fn conntrack(&mut self, packet: &P) -> Option<NatTuple> {
        (**self).conntrack(packet)
    }
}

/// Addresses and ports of a flow before address translation, as connection tracking knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatTuple {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Port of the sender, host order.
    pub source_port: u16,
    /// Port of the receiver, host order.
    pub destination_port: u16,
}

/// A correction that a qdisc owes its ancestors after it removed packets outside the enqueue-return protocol
/// (spec/common.md §5): `qlen -= packets`, `backlog -= bytes`, `drops += max(packets, 0)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeCorrection {
    /// Packets to subtract; negative adds.
    pub packets: i32,
    /// Bytes (qdisc length) to subtract; negative adds.
    pub bytes: i32,
    /// The qdisc's queue length was 0 at this moment: the parent's class is told that it became empty.
    pub emptied: bool,
}

/// What the filters attached to a qdisc say of a packet (spec/common.md §8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classified {
    /// No filter is attached: the qdisc uses the packet's priority, then its hash.
    NoFilters,
    /// A filter matched this class (`handle:minor`) or, for cake, gave this flow.
    Class(u32),
    /// No filter matched.
    NoMatch,
    /// An action took the packet (stolen, queued or trapped).
    Stolen,
    /// An action refused the packet (shot).
    Shot,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue was full and the arriving packet did not fit (tail drop).
    TailDrop,
    /// Removed to make room: the packet limit was exceeded.
    OverLimit,
    /// Removed to make room: the memory limit was exceeded.
    OverMemory,
    /// CoDel's control law, at dequeue.
    Codel,
    /// An early, random drop by PIE's or RED's probability.
    Early,
    /// Cake's BLUE, or DualPI2's overload drop.
    Overload,
    /// A redundant ACK removed by cake's ACK filter.
    AckFilter,
    /// One flow's own limit was exceeded (fq, sfq).
    FlowLimit,
    /// The departure time lies beyond fq's horizon.
    Horizon,
    /// A filter refused the packet, or none gave a class.
    Classify,
    /// A filter's action took the packet over.
    Stolen,
    /// The packet is larger than the qdisc can ever send (tbf, bfifo).
    TooBig,
    /// A GSO packet could not be split.
    SplitFailed,
    /// Removed by a change of the configuration.
    Change,
    /// Removed by a reset.
    Reset,
    /// Not Linux: the fixed storage of a build without heap is full.
    StorageFull,
}

impl DropReason {
    /// A short name, such as `codel`, stable for tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TailDrop => "tail_drop",
            Self::OverLimit => "over_limit",
            Self::OverMemory => "over_memory",
            Self::Codel => "codel",
            Self::Early => "early",
            Self::Overload => "overload",
            Self::AckFilter => "ack_filter",
            Self::FlowLimit => "flow_limit",
            Self::Horizon => "horizon",
            Self::Classify => "classify",
            Self::Stolen => "stolen",
            Self::TooBig => "too_big",
            Self::SplitFailed => "split_failed",
            Self::Change => "change",
            Self::Reset => "reset",
            Self::StorageFull => "storage_full",
        }
    }
}

impl core::fmt::Display for DropReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
