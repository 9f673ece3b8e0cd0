//! Slots hold the flows' packets; they stand in lists by length, and those with packets in a service ring
//! (spec/sfq.md §2).

use super::config::MAX_DEPTH;
use crate::red::Average;
use crate::slab::Fifo;
use crate::{CapacityError, Slots, Storage};

/// No slot, no row.
pub(super) const NONE: u16 = u16::MAX;

/// One flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) fifo: Fifo,
    /// Bytes.
    pub(super) backlog: u32,
    pub(super) allot: i32,
    pub(super) average: Average,
    pub(super) row: u16,
    /// The slot served next.
    pub(super) ring_next: u16,
    /// Neighbours among the slots of the same length.
    before: u16,
    after: u16,
    pub(super) qlen: u8,
}

impl Slot {
    const EMPTY: Self = Self {
        fifo: Fifo::EMPTY,
        backlog: 0,
        allot: 0,
        average: Average::START,
        row: 0,
        ring_next: NONE,
        before: NONE,
        after: NONE,
        qlen: 0,
    };
}

/// The slots, listed by length, and the ring.
pub(super) struct Table<S: Storage> {
    slots: S::Flows<Slot>,
    /// The first slot of each length: the one whose length changed last.
    first: [u16; MAX_DEPTH as usize + 1],
    /// The largest length there is.
    longest: u8,
    /// The slot served last; the ring starts after it. [`NONE`] if no slot has packets.
    pub(super) tail: u16,
}

impl<S: Storage> Table<S> {
    pub(super) fn new(flows: u16) -> Result<Self, CapacityError> {
        let mut table = Self {
            slots: S::Flows::filled(flows.into(), || Slot::EMPTY)?,
            first: [NONE; MAX_DEPTH as usize + 1],
            longest: 0,
            tail: NONE,
        };
        // In index order: the free list starts with the highest.
        (0..flows).for_each(|at| table.link(at));
        Ok(table)
    }

    #[inline]
    pub(super) fn slot(&self, at: u16) -> &Slot {
        &self.slots.as_ref()[usize::from(at)]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, at: u16) -> &mut Slot {
        &mut self.slots.as_mut()[usize::from(at)]
    }

    /// A slot without packets, if there is one.
    #[inline]
    pub(super) const fn free(&self) -> Option<u16> {
        let at = self.first[0];
        if at == NONE { None } else { Some(at) }
    }

    /// Among the longest slots the one whose length changed last, if that length is above 1.
    #[inline]
    pub(super) const fn fattest(&self) -> Option<u16> {
        if self.longest > 1 { Some(self.first[self.longest as usize]) } else { None }
    }

    /// The largest length.
    pub(super) const fn longest(&self) -> u32 {
        self.longest as u32
    }

    fn link(&mut self, at: u16) {
        let length = usize::from(self.slot(at).qlen);
        let after = self.first[length];
        let slot = self.slot_mut(at);
        (slot.before, slot.after) = (NONE, after);
        if after != NONE {
            self.slot_mut(after).before = at;
        }
        self.first[length] = at;
    }

    fn unlink(&mut self, at: u16) {
        let Slot { before, after, qlen, .. } = *self.slot(at);
        match before {
            NONE => self.first[usize::from(qlen)] = after,
            _ => self.slot_mut(before).after = after,
        }
        if after != NONE {
            self.slot_mut(after).before = before;
        }
    }

    /// A packet was added to the slot. The first one puts it at the end of the ring, with a fresh allotment.
    #[inline]
    pub(super) fn grew(&mut self, at: u16, quantum: u32) {
        self.unlink(at);
        let slot = self.slot_mut(at);
        slot.qlen += 1;
        let qlen = slot.qlen;
        self.link(at);
        self.longest = self.longest.max(qlen);
        if qlen == 1 {
            self.join_ring(at, quantum);
        }
    }

    /// A packet was taken from the slot.
    #[inline]
    pub(super) fn shrank(&mut self, at: u16) {
        self.unlink(at);
        let slot = self.slot_mut(at);
        let length = slot.qlen;
        slot.qlen -= 1;
        if self.first[usize::from(length)] == NONE && self.longest == length {
            self.longest -= 1;
        }
        self.link(at);
    }

    fn join_ring(&mut self, at: u16, quantum: u32) {
        let next = match self.tail {
            NONE => at,
            tail => core::mem::replace(&mut self.slot_mut(tail).ring_next, at),
        };
        let slot = self.slot_mut(at);
        slot.ring_next = next;
        slot.allot = quantum as i32;
        self.tail = at;
    }

    /// The slot whose turn it is, if any has packets.
    #[inline]
    pub(super) fn turn(&self) -> Option<u16> {
        if self.tail == NONE { None } else { Some(self.slot(self.tail).ring_next) }
    }

    /// Takes the slot whose turn it is out of the ring.
    #[inline]
    pub(super) fn leave_ring(&mut self, at: u16) {
        let next = self.slot(at).ring_next;
        if next == at {
            self.tail = NONE;
        } else {
            let tail = self.tail;
            self.slot_mut(tail).ring_next = next;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.slots.as_ref())
    }
}
