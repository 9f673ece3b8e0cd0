//! Packets in the order of their departure times (spec/fq.md §2).

use crate::Storage;
use crate::rb_tree::{Links, Node, Side, Tree};
use crate::slab::{Fifo, Slab, Slot};

/// What fq remembers of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meta {
    /// When it may leave, ns.
    pub(super) time: u64,
    links: Links,
    /// The band it is counted in.
    pub(super) band: u8,
    /// Did the packet come with a departure time?
    pub(super) stamped: bool,
}

impl Meta {
    pub(super) const fn new(time: u64, stamped: bool) -> Self {
        Self { time, links: Links::NONE, band: 0, stamped }
    }
}

#[derive(Debug)]
pub(super) struct ByTime;

impl<P> Node<ByTime> for Slot<P, Meta> {
    fn links(&self) -> &Links {
        &self.meta.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.meta.links
    }
}

/// Packets that came in order wait in a list; those that came late, with an earlier time, in a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    list: Fifo,
    tree: Tree<ByTime>,
}

impl Pending {
    pub(super) const EMPTY: Self = Self { list: Fifo::EMPTY, tree: Tree::EMPTY };

    /// Adds a packet that is in the slab.
    #[inline]
    pub(super) fn insert<P, S: Storage>(&mut self, slab: &mut Slab<P, Meta, S>, at: u32) {
        let time = slab.slot(at).meta.time;
        if self.list.tail().is_none_or(|tail| time >= slab.slot(tail).meta.time) {
            slab.push_back(&mut self.list, at);
        } else {
            let side = |other: &Slot<P, Meta>| if time < other.meta.time { Side::Left } else { Side::Right };
            self.tree.insert(slab.slots_mut(), at, side);
        }
    }

    /// The packet that leaves next, and whether it is in the tree.
    #[inline]
    fn head<P, S: Storage>(&self, slab: &Slab<P, Meta, S>) -> Option<(u32, bool)> {
        if self.tree.is_empty() {
            return Some((self.list.head()?, false));
        }
        let late = self.tree.first(slab.slots())?;
        match self.list.head() {
            Some(head) if slab.slot(late).meta.time >= slab.slot(head).meta.time => Some((head, false)),
            _ => Some((late, true)),
        }
    }

    /// The packet that leaves next.
    #[inline]
    pub(super) fn peek<P, S: Storage>(&self, slab: &Slab<P, Meta, S>) -> Option<u32> {
        Some(self.head(slab)?.0)
    }

    /// Takes the packet that leaves next out; it stays in the slab.
    #[inline]
    pub(super) fn pop<P, S: Storage>(&mut self, slab: &mut Slab<P, Meta, S>) -> Option<u32> {
        let (at, in_tree) = self.head(slab)?;
        if in_tree {
            self.tree.remove(slab.slots_mut(), at);
        } else {
            slab.pop_front(&mut self.list);
        }
        Some(at)
    }

    /// Takes any packet out, those of the tree first: for a purge.
    pub(super) fn purge<P, S: Storage>(&mut self, slab: &mut Slab<P, Meta, S>) -> Option<u32> {
        match self.tree.first(slab.slots()) {
            Some(at) => {
                self.tree.remove(slab.slots_mut(), at);
                Some(at)
            }
            None => slab.pop_front(&mut self.list),
        }
    }
}
