//! From a packet to its flow (spec/fq.md §3).

use core::marker::PhantomData;

use super::config::{Limits, refuse};
use super::flow::{ByKey, Flow};
use super::{FlowState, FlowStatus};
use crate::flow_list::FlowList;
use crate::rb_tree::{Side, Tree};
use crate::{ConfigError, Linux, Slots, Storage};

/// Flows that a lookup may forget at once before 7.2.
const MOST_FORGOTTEN: usize = 8;
/// The longest way down a tree with fewer than 2^32 nodes, so an array of it never overflows.
const LONGEST_WAY: usize = 64;

/// The flows, in a table of search trees.
pub(super) struct FlowTable<S: Storage> {
    flows: S::Flows<Flow>,
    trees: S::Flows<Tree<ByKey>>,
    buckets: u32,
    free: FlowList,
    used_ever: u32,
    /// Flows in the table.
    pub(super) len: u32,
    /// Where to look for a flow to forget when fixed storage is full.
    sweep: u32,
    storage: PhantomData<S>,
}

/// What a lookup found, or why it found nothing.
pub(super) enum Found {
    /// A flow that was there.
    Known(u32),
    /// A flow that was made for it, in the place of `instead` (0 or 1) other ones.
    New { at: u32, instead: u32 },
    /// Fixed storage has no room for another flow.
    Full,
}

impl<S: Storage> FlowTable<S> {
    pub(super) fn new(buckets: u32) -> Result<Self, ConfigError> {
        let too_many = |_| refuse("buckets", buckets.into(), "at most the flows which the storage holds");
        Ok(Self {
            flows: S::Flows::reserved(buckets as usize, || Flow::VACANT).map_err(too_many)?,
            trees: Self::trees(buckets)?,
            buckets,
            free: FlowList::EMPTY,
            used_ever: 0,
            len: 0,
            sweep: 0,
            storage: PhantomData,
        })
    }

    fn trees(buckets: u32) -> Result<S::Flows<Tree<ByKey>>, ConfigError> {
        S::Flows::filled(buckets as usize, || Tree::EMPTY)
            .map_err(|_| refuse("buckets", buckets.into(), "at most the flows which the storage holds"))
    }

    #[inline]
    pub(super) fn all(&self) -> &[Flow] {
        self.flows.as_ref()
    }

    #[inline]
    pub(super) fn all_mut(&mut self) -> &mut [Flow] {
        self.flows.as_mut()
    }

    #[inline]
    pub(super) fn flow(&self, at: u32) -> &Flow {
        &self.flows.as_ref()[at as usize]
    }

    #[inline]
    pub(super) fn flow_mut(&mut self, at: u32) -> &mut Flow {
        &mut self.flows.as_mut()[at as usize]
    }

    /// The bucket of a key: the high bits of its product with the golden ratio.
    #[inline]
    fn bucket(&self, key: u64) -> usize {
        (key.wrapping_mul(0x61c8_8646_80b5_83eb) >> (64 - self.buckets.trailing_zeros())) as usize
    }

    /// Finds a key's flow.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let flows = self.flows.as_ref();
        let mut at = self.trees.as_ref()[self.bucket(key)].root();
        while let Some(here) = at {
            let there = flows[here as usize].key;
            if there == key {
                return Some(here);
            }
            at = Tree::<ByKey>::child(flows, here, side(key, there));
        }
        None
    }

    /// Finds a key's flow or makes one.
    #[inline]
    pub(super) fn find_or_insert(&mut self, key: u64, jiffy: &mut impl FnMut() -> u64, limits: &Limits) -> Found {
        match self.find(key) {
            Some(at) => Found::Known(at),
            None => self.insert(key, jiffy(), limits),
        }
    }

    #[cold]
    fn insert(&mut self, key: u64, jiffy: u64, limits: &Limits) -> Found {
        let before = self.len;
        let Some(at) = self.vacant(jiffy, limits) else { return Found::Full };
        let instead = before - self.len;
        *self.flow_mut(at) = Flow::new(key, limits.initial_quantum, jiffy);
        self.link(key, at);
        self.len += 1;
        Found::New { at, instead }
    }

    fn link(&mut self, key: u64, at: u32) {
        let bucket = self.bucket(key);
        self.trees.as_mut()[bucket].insert(self.flows.as_mut(), at, |there| side(key, there.key));
    }

    /// A free slot. Fixed storage that is full looks for a flow that has been idle for long.
    fn vacant(&mut self, jiffy: u64, limits: &Limits) -> Option<u32> {
        if let Some(at) = self.free.pop_front(self.flows.as_ref()) {
            return Some(at);
        }
        let at = self.used_ever;
        if (at as usize) < self.flows.as_ref().len() || self.flows.grow(Flow::VACANT) {
            self.used_ever += 1;
            return Some(at);
        }
        for _ in 0..MOST_FORGOTTEN {
            let at = self.sweep;
            self.sweep = (at + 1) % self.used_ever;
            if self.is_stale(at, jiffy, limits) {
                self.forget(at);
                return self.free.pop_front(self.flows.as_ref());
            }
        }
        None
    }

    /// Has a flow been idle for more than three seconds?
    fn is_stale(&self, at: u32, jiffy: u64, limits: &Limits) -> bool {
        match self.flow(at).status {
            FlowStatus::Detached(since) => after(jiffy, since.wrapping_add(3 * u64::from(limits.jiffies.hz()))),
            FlowStatus::Listed | FlowStatus::Throttled => false,
        }
    }

    fn forget(&mut self, at: u32) {
        let bucket = self.bucket(self.flow(at).key);
        self.trees.as_mut()[bucket].remove(self.flows.as_mut(), at);
        self.flow_mut(at).status = FlowStatus::Listed;
        self.free.push_back(self.flows.as_mut(), at);
        self.len -= 1;
    }

    /// Forgets the stale flows that a search for a key meets; how many. Asks for the jiffy if it meets an idle one.
    pub(super) fn collect(&mut self, key: u64, jiffy: &mut impl FnMut() -> u64, limits: &Limits) -> u32 {
        let most = if limits.linux >= Linux::V7_2 { LONGEST_WAY } else { MOST_FORGOTTEN };
        let mut stale = [0; LONGEST_WAY];
        let mut n = 0;
        let mut at = self.trees.as_ref()[self.bucket(key)].root();
        while let Some(here) = at {
            let there = self.flow(here).key;
            if there == key {
                break;
            }
            if matches!(self.flow(here).status, FlowStatus::Detached(_)) && self.is_stale(here, jiffy(), limits) {
                stale[n] = here;
                n += 1;
                if n == most {
                    break;
                }
            }
            at = Tree::<ByKey>::child(self.flows.as_ref(), here, side(key, there));
        }
        stale[..n].iter().rev().for_each(|&at| self.forget(at));
        n as u32
    }

    /// Another number of buckets, which storage must hold. Stale flows are forgotten on the way; how many.
    pub(super) fn resize(&mut self, buckets: u32, jiffy: u64, limits: &Limits) -> Result<u32, ConfigError> {
        let old = core::mem::replace(&mut self.trees, Self::trees(buckets)?);
        self.buckets = buckets;
        let mut forgotten = 0;
        for mut tree in old.as_ref().iter().copied() {
            while let Some(at) = tree.first(self.flows.as_ref()) {
                tree.remove(self.flows.as_mut(), at);
                if self.is_stale(at, jiffy, limits) {
                    self.flow_mut(at).status = FlowStatus::Listed;
                    self.free.push_back(self.flows.as_mut(), at);
                    self.len -= 1;
                    forgotten += 1;
                } else {
                    self.link(self.flow(at).key, at);
                }
            }
        }
        Ok(forgotten)
    }

    /// The first flow of the first bucket that has one, taken out of the table: for a purge.
    pub(super) fn take_any(&mut self, from_bucket: &mut usize) -> Option<u32> {
        while let Some(tree) = self.trees.as_ref()[..self.buckets as usize].get(*from_bucket) {
            if let Some(at) = tree.first(self.flows.as_ref()) {
                self.forget(at);
                return Some(at);
            }
            *from_bucket += 1;
        }
        None
    }

    /// The flows in the table, bucket by bucket.
    pub(super) fn states(&self) -> impl Iterator<Item = FlowState> {
        let flows = self.flows.as_ref();
        self.trees.as_ref()[..self.buckets as usize]
            .iter()
            .flat_map(|tree| core::iter::successors(tree.first(flows), |&at| Tree::<ByKey>::next(flows, at)))
            .map(|at| flows[at as usize].state())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.flows.as_ref()) + size_of_val(self.trees.as_ref())
    }
}

/// On which side of a flow another key lies.
#[inline]
const fn side(key: u64, there: u64) -> Side {
    if key < there { Side::Left } else { Side::Right }
}

/// Serial comparison of jiffies.
#[inline]
pub(super) const fn after(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) > 0
}
