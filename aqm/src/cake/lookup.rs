//! From a flow's hash to its queue: sets of eight ways (spec/cake.md §9.3).

use super::config::FlowMode;
use super::hosts::{self, WAYS};
use super::queue::QueueState;
use super::storage::Storage;
use super::tin::Tin;
use crate::net::HostHashes;

impl<S: Storage> Tin<S> {
    /// The queue of a flow, which becomes the owner of a free queue, or of its home queue if the set is full.
    #[inline]
    pub(super) fn look_up(&mut self, hash: u32, hosts: HostHashes, mode: FlowMode) -> u16 {
        let home = hash as usize % S::QUEUES;
        if self.tags.as_ref()[home] == hash && self.queues.as_ref()[home].state != QueueState::Idle {
            self.lookups.direct = self.lookups.direct.wrapping_add(1);
            return home as u16;
        }
        self.probe(home, hash, hosts, mode)
    }

    fn probe(&mut self, home: usize, hash: u32, hosts: HostHashes, mode: FlowMode) -> u16 {
        let (set, first) = (home - home % WAYS, home % WAYS);
        let ways = || (0..WAYS).map(|way| set + (first + way) % WAYS);
        let (tags, queues) = (self.tags.as_mut(), self.queues.as_mut());
        let found = if let Some(way) = ways().find(|&way| tags[way] == hash) {
            self.lookups.hits = self.lookups.hits.wrapping_add((way != home).into());
            if queues[way].state != QueueState::Idle {
                return way as u16;
            }
            way
        } else if let Some(way) = ways().find(|&way| queues[way].state == QueueState::Idle) {
            self.lookups.misses = self.lookups.misses.wrapping_add(1);
            way
        } else {
            self.lookups.collisions = self.lookups.collisions.wrapping_add(1);
            if queues[home].state == QueueState::Bulk {
                hosts::sub_bulk(self.hosts.as_mut(), &queues[home], mode);
            }
            home
        };
        tags[found] = hash;
        hosts::assign::<S>(self.hosts.as_mut(), &mut queues[found], hosts, mode);
        found as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;
    use crate::cake::tin::Lookups;

    fn tin() -> Tin<Heap> {
        let mut tin = Tin::vacant();
        assert!(tin.make_queues());
        tin
    }

    /// spec/cake.md §23.8.
    #[test]
    fn worked_example() {
        let mut tin = tin();
        let mut look_up = |hash| {
            let queue = tin.look_up(hash, HostHashes::default(), FlowMode::FLOWS);
            tin.queues.as_mut_slice()[usize::from(queue)].state = QueueState::Sparse;
            queue
        };
        let eight: [u32; 8] = core::array::from_fn(|n| 1029 + 1024 * n as u32);
        assert_eq!(eight.map(&mut look_up), [5, 6, 7, 0, 1, 2, 3, 4]);
        assert_eq!([9221, 1029, 9221, 4101].map(&mut look_up), [5, 5, 5, 0]);
        assert_eq!(tin.lookups, Lookups { direct: 0, hits: 1, misses: 8, collisions: 3 });
        assert_eq!(tin.tags[5], 9221);
    }

    /// §22.19: a tag hit on an idle queue is a hit only if it is indirect, and never a miss.
    #[test]
    fn tags_survive_idleness() {
        let mut tin = tin();
        tin.tags[5] = 5;
        tin.tags[6] = 1029;
        assert_eq!(tin.look_up(5, HostHashes::default(), FlowMode::FLOWS), 5);
        assert_eq!(tin.look_up(1029, HostHashes::default(), FlowMode::FLOWS), 6);
        assert_eq!(tin.lookups, Lookups { hits: 1, ..Lookups::default() });
    }
}
