//! What classful qdiscs share: the inner qdisc, and the accounting between it and its parent (spec/common.md §5).

use crate::fifo::{self, Bfifo};
use crate::net::SipKey;
use crate::{
    Classified, Configure, Counters, DropReason, Environment, Event, Host, NatTuple, Packet, Qdisc, Storage,
    TreeCorrection, Verdict,
};

/// The environment that a parent passes to its child: what the child owes its ancestors, the parent settles first.
pub(crate) struct Below<'a, E: ?Sized> {
    cx: &'a mut E,
    parent: &'a mut Counters,
    /// The child is being replaced: what it drops, it drops for that reason.
    replacing: bool,
}

impl<'a, E: ?Sized> Below<'a, E> {
    pub(crate) const fn new(parent: &'a mut Counters, cx: &'a mut E) -> Self {
        Self { cx, parent, replacing: false }
    }
}

impl<P, E: Environment<P> + ?Sized> Environment<P> for Below<'_, E> {
    fn now_ns(&mut self) -> u64 {
        self.cx.now_ns()
    }
    fn coarse_now_ns(&mut self) -> u64 {
        self.cx.coarse_now_ns()
    }
    fn random_u32(&mut self) -> u32 {
        self.cx.random_u32()
    }
    fn random_u8(&mut self) -> u8 {
        self.cx.random_u8()
    }
    fn random_u16(&mut self) -> u16 {
        self.cx.random_u16()
    }
    fn random_u64(&mut self) -> u64 {
        self.cx.random_u64()
    }
    fn flow_secret(&self) -> SipKey {
        self.cx.flow_secret()
    }
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.cx.dropped(packet, if self.replacing { DropReason::Change } else { reason });
    }
    fn correct_tree(&mut self, correction: TreeCorrection) {
        self.parent.correct(&correction);
        self.cx.correct_tree(TreeCorrection { emptied: self.parent.qlen == 0, ..correction });
    }
    fn classify(&mut self, packet: &P) -> Classified {
        self.cx.classify(packet)
    }
    fn conntrack(&mut self, packet: &P) -> Option<NatTuple> {
        self.cx.conntrack(packet)
    }
}

/// The inner qdisc of a classful one that starts with a bfifo of its own.
#[allow(clippy::large_enum_variant, reason = "there is one per parent, and without heap no box to put it in")]
pub(crate) enum Child<P, S: Storage, C> {
    /// Nothing is attached: every packet is lost.
    Nothing,
    /// The bfifo made from the parent's `limit`.
    Own(Bfifo<P, S>),
    /// What the user attached.
    Attached(C),
}

impl<P: Packet, S: Storage, C: Qdisc<P>> Child<P, S, C> {
    /// The child that a parent's `limit` asks for; 0 asks for none.
    pub(crate) fn with_limit(limit: u32, host: &Host) -> Result<Self, crate::ConfigError> {
        if limit == 0 {
            return Ok(Self::Nothing);
        }
        let config = fifo::Config { limit: Some(limit) };
        Ok(Self::Own(Bfifo::in_storage(config.on_host(*host))?))
    }

    /// Puts another child in place of this one, which is emptied first; what it held, the ancestors give up.
    pub(crate) fn replace<E: Environment<P> + ?Sized>(&mut self, new: Self, parent: &mut Counters, cx: &mut E) {
        let mut below = Below { cx, parent, replacing: true };
        let Counters { qlen, backlog_bytes, .. } = self.totals();
        self.reset(&mut below);
        if qlen != 0 || backlog_bytes != 0 {
            let correction = TreeCorrection { packets: qlen as i32, bytes: backlog_bytes as i32, emptied: true };
            below.correct_tree(correction);
        }
        *self = new;
    }

    /// The child's counters; without a child all are 0.
    #[inline]
    pub(crate) fn totals(&self) -> Counters {
        match self {
            Self::Nothing => Counters::default(),
            Self::Own(fifo) => *fifo.counters(),
            Self::Attached(child) => *child.counters(),
        }
    }

    /// Bytes queued in the child.
    #[inline]
    pub(crate) fn backlog_bytes(&self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Own(fifo) => fifo.counters().backlog_bytes,
            Self::Attached(child) => child.counters().backlog_bytes,
        }
    }

    #[inline]
    pub(crate) fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        match self {
            Self::Nothing => {
                cx.dropped(packet, DropReason::TailDrop);
                Verdict::Congested
            }
            Self::Own(fifo) => fifo.enqueue(packet, cx),
            Self::Attached(child) => child.enqueue(packet, cx),
        }
    }

    #[inline]
    pub(crate) fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        match self {
            Self::Nothing => None,
            Self::Own(fifo) => fifo.peek(cx),
            Self::Attached(child) => child.peek(cx),
        }
    }

    #[inline]
    pub(crate) fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        match self {
            Self::Nothing => None,
            Self::Own(fifo) => fifo.dequeue_peeked(cx),
            Self::Attached(child) => child.dequeue_peeked(cx),
        }
    }

    pub(crate) fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        match self {
            Self::Nothing => {}
            Self::Own(fifo) => fifo.reset(cx),
            Self::Attached(child) => child.reset(cx),
        }
    }

    pub(crate) fn next_event(&self) -> Option<Event> {
        match self {
            Self::Nothing | Self::Own(_) => None,
            Self::Attached(child) => child.next_event(),
        }
    }

    pub(crate) fn on_timer<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        if let Self::Attached(child) = self {
            child.on_timer(cx);
        }
    }
}
