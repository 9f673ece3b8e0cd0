//! One queue of a tin, and the lists on which queues stand.

use super::cobalt::Cobalt;
use crate::slab::Fifo;

/// Where a queue stands in the round robin (spec/cake.md §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueState {
    /// On no list.
    #[default]
    Idle,
    /// On the list of new queues.
    Sparse,
    /// On the list of old queues, because its deficit ran out while it was empty; still counts as sparse.
    SparseWait,
    /// On the list of old queues, and counted in its hosts' load.
    Bulk,
    /// Empty, on the list of decaying queues while its controller calms down.
    Decaying,
}

/// One queue. What is looked at without the rest (tag, byte backlog, place in the drop heap) stands in rows of its own.
///
/// One cache line each.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Queue {
    pub(super) fifo: Fifo,
    pub(super) cobalt: Cobalt,
    pub(super) deficit: i32,
    pub(super) dropped: u32,
    pub(super) source_slot: u16,
    pub(super) destination_slot: u16,
    previous: u16,
    next: u16,
    pub(super) state: QueueState,
}

const NONE: u16 = u16::MAX;

impl Queue {
    pub(super) const EMPTY: Self = Self {
        fifo: Fifo::EMPTY,
        cobalt: Cobalt {
            next_signal_ns: 0,
            blue_changed_ns: 0,
            count: 0,
            inverse_sqrt: 0,
            p_drop: 0,
            signalling: false,
            marked: false,
        },
        deficit: 0,
        dropped: 0,
        source_slot: 0,
        destination_slot: 0,
        previous: NONE,
        next: NONE,
        state: QueueState::Idle,
    };
}

/// A list of queues by index, added to at the back. A queue stands on one list at most, and can leave from anywhere.
#[derive(Clone, Copy)]
pub(super) struct List {
    head: u16,
    tail: u16,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    /// The first queue.
    #[inline]
    pub(super) const fn first(&self) -> Option<u16> {
        if self.head == NONE { None } else { Some(self.head) }
    }

    #[inline]
    pub(super) fn push_back(&mut self, queues: &mut [Queue], at: u16) {
        let queue = &mut queues[usize::from(at)];
        queue.previous = self.tail;
        queue.next = NONE;
        match self.tail {
            NONE => self.head = at,
            tail => queues[usize::from(tail)].next = at,
        }
        self.tail = at;
    }

    /// Takes a queue off this list, on which it must stand.
    #[inline]
    pub(super) fn remove(&mut self, queues: &mut [Queue], at: u16) {
        let Queue { previous, next, .. } = queues[usize::from(at)];
        match previous {
            NONE => self.head = next,
            previous => queues[usize::from(previous)].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => queues[usize::from(next)].previous = previous,
        }
    }

    /// The queues on the list, in order.
    pub(super) fn iter<'a>(&self, queues: &'a [Queue]) -> impl Iterator<Item = u16> + use<'a> {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let queue = queues.get(usize::from(at))?;
            Some(core::mem::replace(&mut at, queue.next))
        })
    }
}

const _: () = assert!(size_of::<Queue>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_leave_from_anywhere() {
        let mut queues = [Queue::EMPTY; 5];
        let mut list = List::EMPTY;
        for at in 0..5 {
            list.push_back(&mut queues, at);
        }
        for (leaves, left) in [(2, &[0, 1, 3, 4][..]), (4, &[0, 1, 3]), (0, &[1, 3]), (3, &[1]), (1, &[])] {
            list.remove(&mut queues, leaves);
            assert!(list.iter(&queues).eq(left.iter().copied()));
            assert_eq!(list.first(), left.first().copied());
        }
        list.push_back(&mut queues, 3);
        assert!(list.iter(&queues).eq([3]));
    }
}
