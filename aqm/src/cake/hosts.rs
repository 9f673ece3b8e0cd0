//! Fairness between hosts: slots, loads and the quantum (spec/cake.md §9.4, §9.5 and §10).

use super::config::FlowMode;
use super::queue::{Queue, QueueState};
use super::storage::Storage;
use crate::net::HostHashes;

/// A slot of the host table. Its two halves are independent: different hosts may own them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSlot {
    /// Hash of the source host.
    pub source_tag: u32,
    /// Hash of the destination host.
    pub destination_tag: u32,
    /// Bulk queues of the source host.
    pub source_bulk: u16,
    /// Bulk queues of the destination host.
    pub destination_bulk: u16,
}

/// The largest load that is counted, as many as there are queues in a tin of Linux's.
const MAX_LOAD: u16 = 1024;

/// The queues' ways: how many places a hash may go to.
pub(super) const WAYS: usize = 8;

/// 65535 divided by a load of 0 to 1024.
static QUOTIENTS: [u16; MAX_LOAD as usize + 1] = {
    let mut table = [65535; MAX_LOAD as usize + 1];
    let mut load = 1;
    while load < table.len() {
        table[load] = 65535 / load as u16;
        load += 1;
    }
    table
};

/// The share of one queue of a host with `load` bulk queues, with 16 random bits deciding the fraction.
#[inline]
pub(super) fn quantum(flow_quantum: u16, load: u16, random: u16) -> u16 {
    let share = u32::from(flow_quantum) * u32::from(QUOTIENTS[usize::from(load.min(MAX_LOAD))]);
    ((share + u32::from(random)) >> 16) as u16
}

/// The host load of a queue, at least 1.
#[inline]
pub(super) fn load(hosts: &[HostSlot], queue: &Queue, mode: FlowMode) -> u16 {
    let mut load = 1;
    if mode.source_fairness() {
        load = load.max(hosts[usize::from(queue.source_slot)].source_bulk);
    }
    if mode.destination_fairness() {
        load = load.max(hosts[usize::from(queue.destination_slot)].destination_bulk);
    }
    load
}

/// The queue became bulk: its hosts have one more.
#[inline]
pub(super) fn add_bulk(hosts: &mut [HostSlot], queue: &Queue, mode: FlowMode) {
    add_source_bulk(hosts, queue, mode);
    add_destination_bulk(hosts, queue, mode);
}

#[inline]
fn add_source_bulk(hosts: &mut [HostSlot], queue: &Queue, mode: FlowMode) {
    if mode.source_fairness() {
        let bulk = &mut hosts[usize::from(queue.source_slot)].source_bulk;
        *bulk += u16::from(*bulk < MAX_LOAD);
    }
}

#[inline]
fn add_destination_bulk(hosts: &mut [HostSlot], queue: &Queue, mode: FlowMode) {
    if mode.destination_fairness() {
        let bulk = &mut hosts[usize::from(queue.destination_slot)].destination_bulk;
        *bulk += u16::from(*bulk < MAX_LOAD);
    }
}

/// The queue is no longer bulk.
#[inline]
pub(super) fn sub_bulk(hosts: &mut [HostSlot], queue: &Queue, mode: FlowMode) {
    if mode.source_fairness() {
        let bulk = &mut hosts[usize::from(queue.source_slot)].source_bulk;
        *bulk = bulk.saturating_sub(1);
    }
    if mode.destination_fairness() {
        let bulk = &mut hosts[usize::from(queue.destination_slot)].destination_bulk;
        *bulk = bulk.saturating_sub(1);
    }
}

/// The slot for a host: the first way with its tag, else the first without bulk queues, else the home slot.
#[inline]
fn find<S: Storage>(hash: u32, tag: impl Fn(usize) -> u32, bulk: impl Fn(usize) -> u16) -> usize {
    let home = hash as usize % S::HOSTS;
    let (set, first) = (home - home % WAYS, home % WAYS);
    let ways = || (0..WAYS).map(|way| set + (first + way) % WAYS);
    ways().find(|&way| tag(way) == hash).or_else(|| ways().find(|&way| bulk(way) == 0)).unwrap_or(home)
}

/// Gives the queue the slots of its hosts, as far as the mode is fair between them.
#[inline]
pub(super) fn assign<S: Storage>(hosts: &mut [HostSlot], queue: &mut Queue, hashes: HostHashes, mode: FlowMode) {
    let HostHashes { source, destination } = hashes;
    if mode.source_fairness() {
        let slot = find::<S>(source, |way| hosts[way].source_tag, |way| hosts[way].source_bulk);
        hosts[slot].source_tag = source;
        queue.source_slot = slot as u16;
        if queue.state == QueueState::Bulk {
            add_source_bulk(hosts, queue, mode);
        }
    }
    if mode.destination_fairness() {
        let slot = find::<S>(destination, |way| hosts[way].destination_tag, |way| hosts[way].destination_bulk);
        hosts[slot].destination_tag = destination;
        queue.destination_slot = slot as u16;
        if queue.state == QueueState::Bulk {
            add_destination_bulk(hosts, queue, mode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;

    fn hashes(source: u32, destination: u32) -> HostHashes {
        HostHashes { source, destination }
    }

    /// spec/cake.md §23.5.
    #[test]
    fn quanta() {
        for (flow_quantum, load, expected) in [
            (300, 1, [299, 299, 300, 300]),
            (300, 3, [99, 99, 100, 100]),
            (300, 1024, [0, 0, 0, 1]),
            (610, 2, [304, 304, 305, 305]),
            (1514, 1, [1513, 1513, 1514, 1514]),
            (1514, 7, [216, 216, 216, 217]),
        ] {
            assert_eq!([0, 1, 32768, 65535].map(|random| quantum(flow_quantum, load, random)), expected);
        }
    }

    /// §9.4: a tag counts whatever the load; then a slot without load; then the home slot is shared.
    #[test]
    fn slots_of_hosts() {
        let mode = FlowMode::DUAL_SRCHOST;
        let mut hosts = [HostSlot::default(); 1024];
        let mut place = |hash: u32| {
            let mut queue = Queue::EMPTY;
            queue.state = QueueState::Bulk;
            assign::<Heap>(&mut hosts, &mut queue, hashes(hash, 99), mode);
            queue.source_slot
        };
        let eight: [u32; 8] = core::array::from_fn(|n| 1029 + 1024 * n as u32);
        assert_eq!(eight.map(&mut place), [5, 6, 7, 0, 1, 2, 3, 4]);
        assert_eq!(place(eight[3]), 0, "its tag is there");
        assert_eq!(place(9221), 5, "all eight have load: home");
        assert_eq!((hosts[5].source_tag, hosts[5].source_bulk, hosts[0].source_bulk), (9221, 2, 2));
        assert!(hosts.iter().all(|host| (host.destination_tag, host.destination_bulk) == (0, 0)));
        hosts[6].source_bulk = 0;
        let mut queue = Queue::EMPTY;
        assign::<Heap>(&mut hosts, &mut queue, hashes(2053, 0), mode);
        assert_eq!((queue.source_slot, hosts[6].source_bulk), (6, 0), "a tag without load still owns its slot");
    }

    #[test]
    fn counts_stay_in_range() {
        let mode = FlowMode::TRIPLE_ISOLATE;
        let mut hosts = [HostSlot { source_bulk: 1024, ..HostSlot::default() }; 8];
        let queue = Queue::EMPTY;
        add_bulk(&mut hosts, &queue, mode);
        assert_eq!((hosts[0].source_bulk, hosts[0].destination_bulk, load(&hosts, &queue, mode)), (1024, 1, 1024));
        sub_bulk(&mut hosts, &queue, mode);
        sub_bulk(&mut hosts, &queue, mode);
        assert_eq!((hosts[0].source_bulk, hosts[0].destination_bulk), (1022, 0));
        assert_eq!(load(&hosts, &queue, FlowMode::FLOWS), 1);
    }
}
