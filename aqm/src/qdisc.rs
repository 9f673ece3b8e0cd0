use crate::{Counters, Environment, Packet};

/// The result of an enqueue: Linux's code, of which the low four bits are the verdict and the others are hints for
/// a parent qdisc (spec/common.md §5).
///
/// Whenever the packet was not queued it has been handed to [`Environment::dropped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Verdict {
    /// Code 0: queued.
    Queued,
    /// Code 1: this packet was dropped.
    Dropped,
    /// Code 2 (CN): some packet of the same flow was dropped, maybe this one. A parent does not add the packet to its
    /// own sums; a sender slows down.
    Congested,
    /// Code 0x10000: a filter's action took the packet; not a drop.
    Stolen,
    /// Code 0x20000: swallowed by a filter; counts as a drop for parents.
    Bypassed,
}

impl Verdict {
    /// Linux's numeric code.
    pub const fn code(self) -> u32 {
        match self {
            Self::Queued => 0,
            Self::Dropped => 1,
            Self::Congested => 2,
            Self::Stolen => 0x10000,
            Self::Bypassed => 0x20000,
        }
    }

    /// The verdict of a numeric code, or `None` for one that no qdisc returns.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Queued),
            1 => Some(Self::Dropped),
            2 => Some(Self::Congested),
            0x10000 => Some(Self::Stolen),
            0x20000 => Some(Self::Bypassed),
            _ => None,
        }
    }

    /// Must a parent add the packet to its own queue length and backlog?
    pub const fn adds_to_parent(self) -> bool {
        matches!(self, Self::Queued)
    }

    /// Must a parent count a drop?
    pub const fn counts_as_drop(self) -> bool {
        matches!(self, Self::Dropped | Self::Congested | Self::Bypassed)
    }
}

/// When a qdisc next wants to be called, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Absolute time on the environment's clock, nanoseconds.
    pub at_ns: u64,
    /// What to call.
    pub kind: EventKind,
}

/// What a deadline asks of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Call [`Qdisc::dequeue`] on the root again.
    Watchdog,
    /// Call [`Qdisc::on_timer`].
    Timer,
}

/// A queue discipline over the caller's packet type `P`.
///
/// Conservation holds after every call: packets in = delivered + dropped + queued, in packets and bytes.
pub trait Qdisc<P: Packet> {
    /// Offers a packet. See [`Verdict`].
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict;

    /// Takes the next packet to send, if one may be sent now.
    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P>;

    /// Shows the packet which [`dequeue_peeked`](Self::dequeue_peeked) will deliver. For an AQM this runs the whole
    /// dequeue (its clock reads, drops and marks happen now) and parks the packet (spec/common.md §5).
    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P>;

    /// Takes the parked packet, or dequeues if none is parked. What a parent calls after a peek.
    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P>;

    /// Empties the qdisc as Linux does when its device goes down; cumulative counters stay. Packets come back with
    /// [`DropReason::Reset`](crate::DropReason::Reset).
    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E);

    /// The queue length, backlog and cumulative counters which every qdisc has.
    fn counters(&self) -> &Counters;

    /// When this qdisc next wants a call without an arrival, if ever.
    fn next_event(&self) -> Option<Event> {
        None
    }

    /// Runs the periodic update whose deadline [`next_event`](Self::next_event) gave.
    fn on_timer<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let _ = cx;
    }

    /// May a packet skip this qdisc when it is the empty root of an idle device (spec/common.md §6)?
    fn can_bypass(&self) -> bool {
        false
    }
}

/// [`Qdisc`] behind a pointer, for parents whose children are of any kind; implemented for every qdisc.
#[cfg(feature = "alloc")]
pub trait DynQdisc<P: Packet> {
    /// See [`Qdisc::enqueue`].
    fn dyn_enqueue(&mut self, packet: P, cx: &mut dyn Environment<P>) -> Verdict;
    /// See [`Qdisc::dequeue`].
    fn dyn_dequeue(&mut self, cx: &mut dyn Environment<P>) -> Option<P>;
    /// See [`Qdisc::peek`].
    fn dyn_peek(&mut self, cx: &mut dyn Environment<P>) -> Option<&P>;
    /// See [`Qdisc::dequeue_peeked`].
    fn dyn_dequeue_peeked(&mut self, cx: &mut dyn Environment<P>) -> Option<P>;
    /// See [`Qdisc::reset`].
    fn dyn_reset(&mut self, cx: &mut dyn Environment<P>);
    /// See [`Qdisc::counters`].
    fn dyn_counters(&self) -> &Counters;
    /// See [`Qdisc::next_event`].
    fn dyn_next_event(&self) -> Option<Event>;
    /// See [`Qdisc::on_timer`].
    fn dyn_on_timer(&mut self, cx: &mut dyn Environment<P>);
    /// See [`Qdisc::can_bypass`].
    fn dyn_can_bypass(&self) -> bool;
}

#[cfg(feature = "alloc")]
impl<P: Packet, Q: Qdisc<P>> DynQdisc<P> for Q {
    fn dyn_enqueue(&mut self, packet: P, cx: &mut dyn Environment<P>) -> Verdict {
        self.enqueue(packet, cx)
    }
    fn dyn_dequeue(&mut self, cx: &mut dyn Environment<P>) -> Option<P> {
        self.dequeue(cx)
    }
    fn dyn_peek(&mut self, cx: &mut dyn Environment<P>) -> Option<&P> {
        self.peek(cx)
    }
    fn dyn_dequeue_peeked(&mut self, cx: &mut dyn Environment<P>) -> Option<P> {
        self.dequeue_peeked(cx)
    }
    fn dyn_reset(&mut self, cx: &mut dyn Environment<P>) {
        self.reset(cx);
    }
    fn dyn_counters(&self) -> &Counters {
        self.counters()
    }
    fn dyn_next_event(&self) -> Option<Event> {
        self.next_event()
    }
    fn dyn_on_timer(&mut self, cx: &mut dyn Environment<P>) {
        self.on_timer(cx);
    }
    fn dyn_can_bypass(&self) -> bool {
        self.can_bypass()
    }
}

#[cfg(feature = "alloc")]
impl<P: Packet> Qdisc<P> for alloc::boxed::Box<dyn DynQdisc<P>> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, mut cx: &mut E) -> Verdict {
        (**self).dyn_enqueue(packet, &mut cx)
    }
    fn dequeue<E: Environment<P> + ?Sized>(&mut self, mut cx: &mut E) -> Option<P> {
        (**self).dyn_dequeue(&mut cx)
    }
    fn peek<E: Environment<P> + ?Sized>(&mut self, mut cx: &mut E) -> Option<&P> {
        (**self).dyn_peek(&mut cx)
    }
    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, mut cx: &mut E) -> Option<P> {
        (**self).dyn_dequeue_peeked(&mut cx)
    }
    fn reset<E: Environment<P> + ?Sized>(&mut self, mut cx: &mut E) {
        (**self).dyn_reset(&mut cx);
    }
    fn counters(&self) -> &Counters {
        (**self).dyn_counters()
    }
    fn next_event(&self) -> Option<Event> {
        (**self).dyn_next_event()
    }
    fn on_timer<E: Environment<P> + ?Sized>(&mut self, mut cx: &mut E) {
        (**self).dyn_on_timer(&mut cx);
    }
    fn can_bypass(&self) -> bool {
        (**self).dyn_can_bypass()
    }
}
