//! Ordered lists of flows (the NEW and OLD lists of the deficit round robin), linked through the flows themselves.

use crate::slab::NIL;

/// A flow that can stand on one list at a time.
pub(crate) trait Linked {
    /// The index of the next flow on the list.
    fn next(&self) -> u32;
    /// Sets that link.
    fn set_next(&mut self, next: u32);
}

/// A list of flows, by index: taken from the front, added at the back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowList {
    head: u32,
    tail: u32,
}

impl FlowList {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL };

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The first flow, or [`NIL`].
    #[inline]
    pub(crate) const fn head(&self) -> u32 {
        self.head
    }

    #[inline]
    pub(crate) fn push_back<F: Linked>(&mut self, flows: &mut [F], at: u32) {
        flows[at as usize].set_next(NIL);
        if self.head == NIL {
            self.head = at;
        } else {
            flows[self.tail as usize].set_next(at);
        }
        self.tail = at;
    }

    /// Takes the first flow off the list, if there is one.
    #[inline]
    pub(crate) fn pop_front<F: Linked>(&mut self, flows: &[F]) -> Option<u32> {
        let at = self.head;
        if at == NIL {
            return None;
        }
        self.head = flows[at as usize].next();
        Some(at)
    }

    /// The flows on the list, in order.
    pub(crate) fn iter<'a, F: Linked>(&self, flows: &'a [F]) -> impl Iterator<Item = u32> + use<'a, F> {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let flow = flows.get(at as usize)?;
            Some(core::mem::replace(&mut at, flow.next()))
        })
    }
}

/// The lists of new and of old flows of the deficit round robin that fq_codel and fq_pie share (RFC 8290 §4.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) new: FlowList,
    pub(crate) old: FlowList,
}

impl Rounds {
    pub(crate) const EMPTY: Self = Self { new: FlowList::EMPTY, old: FlowList::EMPTY };

    /// The flow whose turn it is, or [`NIL`]; and whether it is a new one.
    #[inline]
    pub(crate) const fn head(&self) -> (u32, bool) {
        if self.new.is_empty() { (self.old.head(), false) } else { (self.new.head(), true) }
    }

    /// The head has used up its deficit: to the end of the old flows.
    #[inline]
    pub(crate) fn turn_over<F: Linked>(&mut self, flows: &mut [F], from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        if let Some(head) = list.pop_front(flows) {
            self.old.push_back(flows, head);
        }
    }

    /// The head has run empty. It leaves its list; from NEW it passes once through OLD, if OLD has others, so that a
    /// sparse flow cannot hold the others off by coming back at once. True if it is now on no list.
    #[inline]
    pub(crate) fn retire<F: Linked>(&mut self, flows: &mut [F], from_new: bool) -> bool {
        if from_new && !self.old.is_empty() {
            self.turn_over(flows, true);
            return false;
        }
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.pop_front(flows);
        true
    }
}
