//! The drop heap of memory overload, exactly as it behaves (spec/cake.md §14): its sift-down keeps the wrong key after
//! a swap, so that it only approximates a heap, and the root is not always the longest queue.

use super::storage::Storage;
use super::tin::Tin;
use crate::{CapacityError, Slots};

/// Deliveries after the last overload drop during which the heap is kept up to date.
const LIFETIME: u16 = 65535;

/// All queues of all tins, by backlog. A queue is named `queue * TINS + tin`, which is its place at the start.
pub(super) struct DropHeap<S: Storage> {
    names: S::AllQueues<u16>,
    /// Deliveries left until the heap is no longer kept up to date.
    pub(super) lifetime: u16,
}

/// A queue in its tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) tin: u16,
    pub(super) queue: u16,
}

impl Place {
    #[inline]
    const fn of_name<S: Storage>(name: u16) -> Self {
        Self { tin: name % S::TINS as u16, queue: name / S::TINS as u16 }
    }
}

/// The backlog of the queue with this name; tins that were never used have none.
#[inline]
fn key<S: Storage>(tins: &[Tin<S>], name: u16) -> u32 {
    let Place { tin, queue } = Place::of_name::<S>(name);
    tins.get(usize::from(tin)).map_or(0, |tin| tin.backlogs.as_ref()[usize::from(queue)])
}

impl<S: Storage> DropHeap<S> {
    const SIZE: usize = S::TINS * S::QUEUES;

    pub(super) fn new() -> Result<Self, CapacityError> {
        let mut name = 0u16;
        let names = Slots::filled(Self::SIZE, || {
            let this = name;
            name = name.wrapping_add(1);
            this
        })?;
        Ok(Self { names, lifetime: 0 })
    }

    /// Tells the queues of a new tin where they stand.
    pub(super) fn introduce(&self, tins: &mut [Tin<S>], tin: usize) {
        for (place, &name) in self.names.as_ref().iter().enumerate() {
            let found = Place::of_name::<S>(name);
            if usize::from(found.tin) == tin {
                tins[tin].heap_places.as_mut()[usize::from(found.queue)] = place as u16;
            }
        }
    }

    /// The names in heap order, for those who compare states.
    pub(super) fn order(&self) -> impl Iterator<Item = Place> {
        self.names.as_ref().iter().map(|&name| Place::of_name::<S>(name))
    }

    /// Bytes the heap takes outside the qdisc.
    pub(super) fn memory_bytes(&self) -> usize {
        if S::AllQueues::<u16>::GROWS { size_of_val(self.names.as_ref()) } else { 0 }
    }

    /// Is the heap kept up to date at the moment?
    #[inline]
    pub(super) const fn is_live(&self) -> bool {
        self.lifetime != 0
    }

    /// The queue at the root. A heap that was not kept up to date is rebuilt first.
    pub(super) fn root(&mut self, tins: &mut [Tin<S>]) -> Place {
        if self.lifetime == 0 {
            for place in (0..Self::SIZE / 2).rev() {
                self.sift_down(tins, place);
            }
        }
        self.lifetime = LIFETIME;
        Place::of_name::<S>(self.names.as_ref()[0])
    }

    /// The root lost a packet.
    pub(super) fn root_shrank(&mut self, tins: &mut [Tin<S>]) {
        self.sift_down(tins, 0);
    }

    /// A queue got longer.
    pub(super) fn grew(&mut self, tins: &mut [Tin<S>], place: Place) {
        let at = tins[usize::from(place.tin)].heap_places.as_ref()[usize::from(place.queue)];
        self.sift_up(tins, at.into());
    }

    /// A queue got shorter.
    pub(super) fn shrank(&mut self, tins: &mut [Tin<S>], place: Place) {
        let at = tins[usize::from(place.tin)].heap_places.as_ref()[usize::from(place.queue)];
        self.sift_down(tins, at.into());
    }

    fn sift_up(&mut self, tins: &mut [Tin<S>], mut at: usize) {
        while at > 0 {
            let parent = (at - 1) >> 1;
            let names = self.names.as_ref();
            if key(tins, names[at]) <= key(tins, names[parent]) {
                break;
            }
            self.swap(tins, at, parent);
            at = parent;
        }
    }

    fn sift_down(&mut self, tins: &mut [Tin<S>], mut at: usize) {
        let mut largest = key(tins, self.names.as_ref()[at]);
        loop {
            let mut largest_at = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < Self::SIZE {
                    let key = key(tins, self.names.as_ref()[child]);
                    if key > largest {
                        (largest, largest_at) = (key, child);
                    }
                }
            }
            if largest_at == at {
                break;
            }
            self.swap(tins, at, largest_at);
            // `largest` stays the key of the child that moved up, not of the queue that moves down.
            at = largest_at;
        }
    }

    #[inline]
    fn swap(&mut self, tins: &mut [Tin<S>], a: usize, b: usize) {
        self.names.as_mut().swap(a, b);
        for at in [a, b] {
            let Place { tin, queue } = Place::of_name::<S>(self.names.as_ref()[at]);
            if let Some(tin) = tins.get_mut(usize::from(tin)) {
                tin.heap_places.as_mut()[usize::from(queue)] = at as u16;
            }
        }
    }
}
