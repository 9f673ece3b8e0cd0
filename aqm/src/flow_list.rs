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
