//! What follows from the parameters: tins, rates, limits (spec/cake.md §6.8).

use super::Parameters;
use super::config::refuse;
use super::heap::Place;
use super::meta::Meta;
use super::qdisc::Cake;
use super::storage::Storage;
use super::tin::Tin;
use super::tins::{Layout, MAX_TINS};
use crate::{ConfigError, DropReason, Environment, Linux, Packet, Slots};

impl<P: Packet, S: Storage> Cake<P, S> {
    /// Allocates what a configuration needs: its tins, and the host tables if it isolates hosts. Nothing is ever
    /// given back, since a tin's state outlives its use.
    pub(super) fn make_tins(&mut self, parameters: &Parameters) -> Result<(), ConfigError> {
        let wanted = usize::from(Layout::of(parameters.diffserv).tins);
        let no_room = || refuse("diffserv tins", wanted as u64, "at most the tins which the storage holds");
        if wanted > S::TINS {
            return Err(no_room());
        }
        while self.made_tins < wanted {
            let tin = self.made_tins;
            if tin >= self.tins.as_ref().len() && !self.tins.grow(Tin::vacant()) {
                return Err(no_room());
            }
            if !self.tins.as_mut()[tin].make_queues() {
                return Err(no_room());
            }
            self.heap.introduce(self.tins.as_mut(), tin);
            self.made_tins += 1;
        }
        let mode = parameters.flow_mode;
        if (mode.source_fairness() || mode.destination_fairness())
            && !self.tins.as_mut()[..self.made_tins].iter_mut().all(Tin::make_hosts)
        {
            return Err(no_room());
        }
        Ok(())
    }

    /// Puts the parameters in force; what they need is allocated already.
    pub(super) fn reconfigure<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        self.derive();
        for tin in self.layout.tins..self.made_tins as u16 {
            self.purge(tin, DropReason::Change, cx);
        }
        self.leave_scan();
    }

    /// Leaves the scan where purging the unused tins leaves it, whether they were made or not.
    pub(super) fn leave_scan(&mut self) {
        if usize::from(self.layout.tins) < MAX_TINS {
            (self.current_tin, self.current_queue) = (MAX_TINS as u16 - 1, S::QUEUES as u16);
        }
    }

    /// All that is computed from the parameters.
    pub(super) fn derive(&mut self) {
        self.layout = Layout::of(self.parameters.diffserv);
        self.mark_shift = match self.parameters.fwmark {
            0 => 0,
            mask => mask.trailing_zeros(),
        };
        self.share_rate(self.parameters.bandwidth);
        if self.linux < Linux::V7_2 || self.frame_bytes != 0 {
            for tin in &mut self.tins.as_mut()[..usize::from(self.layout.tins)] {
                tin.set_cobalt(&self.parameters, self.frame_bytes);
            }
        }
        let (used, unused) = self.tins.as_mut().split_at_mut(self.layout.tins.into());
        for tin in unused {
            tin.cobalt.mtu_time_ns = used[0].cobalt.mtu_time_ns;
        }
        self.memory.limit = self.parameters.memory_limit(self.frame_bytes);
    }

    /// Divides a rate (bytes per second, 0 for none) among the tins. All that `cake_mq` changes when it shares.
    pub(super) fn share_rate(&mut self, rate: u64) {
        let tins = self.tins.as_mut();
        for (tin, share) in tins.iter_mut().zip(self.layout.shares(rate)) {
            tin.set_rate(share);
        }
        self.shaper.time = tins[0].clock.time;
    }

    /// Removes all packets of a tin. No counter of drops and no ancestor hears of it, and the states of its queues
    /// stay as they are.
    pub(super) fn purge<E: Environment<P> + ?Sized>(&mut self, tin: u16, reason: DropReason, cx: &mut E) {
        for queue in 0..S::QUEUES as u16 {
            while let Some(at) = self.take_head(Place { tin, queue }) {
                if let Some(packet) = self.slab.remove(at) {
                    cx.dropped(packet, reason);
                }
            }
        }
    }

    /// Takes the first packet of a queue off all accounts. Its slot stays occupied.
    #[inline]
    pub(super) fn take_head(&mut self, place: Place) -> Option<u32> {
        let tin = &mut self.tins.as_mut()[usize::from(place.tin)];
        let at = self.slab.pop_front(&mut tin.queues.as_mut()[usize::from(place.queue)].fifo)?;
        let slot = self.slab.slot(at);
        let (len, Meta { truesize, .. }) = (slot.len, slot.meta);
        let backlog = &mut tin.backlogs.as_mut()[usize::from(place.queue)];
        *backlog = backlog.wrapping_sub(len);
        tin.backlog = tin.backlog.wrapping_sub(len);
        self.memory.used = self.memory.used.wrapping_sub(truesize);
        self.counters.sub_queued(len);
        if self.heap.is_live() {
            self.heap.shrank(self.tins.as_mut(), place);
        }
        Some(at)
    }
}
