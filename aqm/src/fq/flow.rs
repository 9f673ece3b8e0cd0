use super::pending::Pending;
use super::{FlowState, FlowStatus};
use crate::flow_list::{FlowList, Linked};
use crate::rb_tree::{Links, Node};
use crate::slab::NIL;

/// One socket's, or one masked hash's, packets and pacing state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) packets: Pending,
    pub(super) qlen: u32,
    pub(super) credit: i32,
    /// Earliest time of the next packet, ns.
    pub(super) next_departure: u64,
    pub(super) key: u64,
    pub(super) socket_hash: u32,
    /// The next flow on its list, or the next free slot.
    next: u32,
    pub(super) status: FlowStatus,
    by_key: Links,
    by_departure: Links,
    pub(super) band: u8,
}

impl Flow {
    pub(super) const VACANT: Self = Self {
        packets: Pending::EMPTY,
        qlen: 0,
        credit: 0,
        next_departure: 0,
        key: 0,
        socket_hash: 0,
        next: NIL,
        status: FlowStatus::Listed,
        by_key: Links::NONE,
        by_departure: Links::NONE,
        band: 0,
    };

    /// A flow of this name that has not sent yet.
    pub(super) const fn new(key: u64, credit: u32, jiffy: u64) -> Self {
        Self { key, credit: credit as i32, status: FlowStatus::Detached(jiffy | 1), ..Self::VACANT }
    }

    pub(super) const fn state(&self) -> FlowState {
        FlowState {
            key: self.key,
            socket_hash: self.socket_hash,
            qlen: self.qlen,
            credit_bytes: self.credit,
            band: self.band,
            next_departure_ns: self.next_departure,
            status: self.status,
        }
    }
}

impl Linked for Flow {
    #[inline]
    fn next(&self) -> u32 {
        self.next
    }
    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// The flow table's trees.
pub(super) struct ByKey;

impl Node<ByKey> for Flow {
    #[inline]
    fn links(&self) -> &Links {
        &self.by_key
    }
    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.by_key
    }
}

/// The tree of flows that are held back.
pub(super) struct ByDeparture;

impl Node<ByDeparture> for Flow {
    #[inline]
    fn links(&self) -> &Links {
        &self.by_departure
    }
    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.by_departure
    }
}

/// One priority band: its flows, and the bytes that it may still send in this round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) new: FlowList,
    pub(super) old: FlowList,
    pub(super) credit: i32,
}

impl Band {
    pub(super) const EMPTY: Self = Self { new: FlowList::EMPTY, old: FlowList::EMPTY, credit: 0 };
}
