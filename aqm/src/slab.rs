//! Packets wait in one slab with index links: cost and memory stay flat as the number of flows grows.

use crate::{CapacityError, Slots, Storage};

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

/// A packet, or a free slot, with the link to its neighbour in whichever list it is on.
pub(crate) struct Slot<P, M> {
    pub(crate) packet: Option<P>,
    next: u32,
    /// The packet's qdisc length in bytes, read once at enqueue.
    pub(crate) len: u32,
    /// What the qdisc remembers of the packet.
    pub(crate) meta: M,
}

/// A first-in-first-out list of slab slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL };

    /// The first slot, if there is one.
    #[inline]
    pub(crate) const fn head(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The last slot; of an empty list, any.
    #[inline]
    pub(crate) const fn last(&self) -> u32 {
        self.tail
    }

    /// The last slot, if there is one.
    #[inline]
    pub(crate) const fn tail(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.tail) }
    }
}

/// The slab: slots, and the free ones chained.
pub(crate) struct Slab<P, M, S: Storage> {
    slots: S::Packets<Slot<P, M>>,
    free: u32,
    used_ever: u32,
}

impl<P, M: Copy + Default, S: Storage> Slab<P, M, S> {
    pub(crate) fn new(expected: usize) -> Result<Self, CapacityError> {
        Ok(Self { slots: S::Packets::reserved(expected, Self::vacant)?, free: NIL, used_ever: 0 })
    }

    fn vacant() -> Slot<P, M> {
        Slot { packet: None, next: NIL, len: 0, meta: M::default() }
    }

    /// Puts a packet into a free slot; gives it back if the storage is fixed and full.
    #[inline]
    pub(crate) fn insert(&mut self, packet: P, len: u32, meta: M) -> Result<u32, P> {
        if self.free == NIL && !self.make_room() {
            return Err(packet);
        }
        let at = self.free;
        let slot = &mut self.slots.as_mut()[at as usize];
        self.free = slot.next;
        *slot = Slot { packet: Some(packet), next: NIL, len, meta };
        Ok(at)
    }

    /// Makes one more slot free: one that was never used, or a new one.
    #[cold]
    fn make_room(&mut self) -> bool {
        let at = self.used_ever;
        if at as usize >= self.slots.as_ref().len() && (at == NIL || !self.slots.grow(Self::vacant())) {
            return false;
        }
        self.used_ever += 1;
        self.free = at;
        true
    }

    #[inline]
    pub(crate) fn slot(&self, at: u32) -> &Slot<P, M> {
        &self.slots.as_ref()[at as usize]
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, at: u32) -> &mut Slot<P, M> {
        &mut self.slots.as_mut()[at as usize]
    }

    /// All slots, for other structures than lists through them.
    #[inline]
    pub(crate) fn slots(&self) -> &[Slot<P, M>] {
        self.slots.as_ref()
    }

    #[inline]
    pub(crate) fn slots_mut(&mut self) -> &mut [Slot<P, M>] {
        self.slots.as_mut()
    }

    /// Frees the slot, which is on no list, and returns its packet.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<P> {
        let free = self.free;
        let slot = &mut self.slots.as_mut()[at as usize];
        slot.next = free;
        self.free = at;
        slot.packet.take()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, fifo: &mut Fifo, at: u32) {
        let slots = self.slots.as_mut();
        slots[at as usize].next = NIL;
        if fifo.head == NIL {
            fifo.head = at;
        } else {
            slots[fifo.tail as usize].next = at;
        }
        fifo.tail = at;
    }

    #[inline]
    pub(crate) fn push_front(&mut self, fifo: &mut Fifo, at: u32) {
        self.slots.as_mut()[at as usize].next = fifo.head;
        if fifo.head == NIL {
            fifo.tail = at;
        }
        fifo.head = at;
    }

    /// Takes the first slot off the list; it stays occupied.
    #[inline]
    pub(crate) fn pop_front(&mut self, fifo: &mut Fifo) -> Option<u32> {
        let at = fifo.head;
        if at == NIL {
            return None;
        }
        fifo.head = self.slots.as_ref()[at as usize].next;
        Some(at)
    }

    /// Takes a slot out of the middle of a list: the one after `previous`, or the first if that is [`NIL`].
    pub(crate) fn unlink(&mut self, fifo: &mut Fifo, previous: u32, at: u32) {
        let slots = self.slots.as_mut();
        let next = slots[at as usize].next;
        match previous {
            NIL => fifo.head = next,
            previous => slots[previous as usize].next = next,
        }
        if next == NIL {
            fifo.tail = previous;
        }
    }

    /// The slots of a list, in order.
    pub(crate) fn iter(&self, fifo: &Fifo) -> impl Iterator<Item = u32> {
        let mut at = fifo.head;
        core::iter::from_fn(move || {
            let slot = self.slots.as_ref().get(at as usize)?;
            Some(core::mem::replace(&mut at, slot.next))
        })
    }

    /// Is the storage fixed, and no slot free?
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        !S::Packets::<Slot<P, M>>::GROWS && self.free == NIL && self.used_ever as usize >= self.slots.as_ref().len()
    }

    /// Takes the last slot off the list, where `before` is the one before it; it stays occupied.
    #[inline]
    pub(crate) fn pop_back(&mut self, fifo: &mut Fifo, before: Option<u32>) -> Option<u32> {
        let at = fifo.tail()?;
        match before {
            Some(before) => {
                self.slots.as_mut()[before as usize].next = NIL;
                fifo.tail = before;
            }
            None => *fifo = Fifo::EMPTY,
        }
        Some(at)
    }

    /// Packets on the list; walks it.
    pub(crate) fn len(&self, fifo: &Fifo) -> u32 {
        let (mut at, mut len) = (fifo.head, 0);
        while at != NIL {
            len += 1;
            at = self.slots.as_ref()[at as usize].next;
        }
        len
    }

    /// Bytes the slots take.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(self.slots.as_ref())
    }
}
