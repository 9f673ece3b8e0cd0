use crate::codel::{Controller, Source};
use crate::flow_list::Linked;
use crate::slab::{Fifo, NIL, Slab};
use crate::{Counters, DropReason, Environment, Packet, Storage};

/// What fq_codel remembers of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meta {
    /// Enqueue time, CoDel time.
    pub(super) stamp: u32,
    /// Memory charged for it.
    pub(super) memory: u32,
}

/// One bucket. Its byte backlog stands apart, so that the victim search reads one dense array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) fifo: Fifo,
    next: u32,
    pub(super) listed: bool,
    pub(super) deficit: i32,
    pub(super) controller: Controller,
}

impl Flow {
    pub(super) const EMPTY: Self = Self {
        fifo: Fifo::EMPTY,
        next: NIL,
        listed: false,
        deficit: 0,
        controller: Controller {
            count: 0,
            lastcount: 0,
            dropping: false,
            rec_inv_sqrt: 0,
            first_above_time: 0,
            drop_next: 0,
            ldelay: 0,
        },
    };
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

/// One bucket as CoDel's source.
pub(super) struct Bucket<'a, P, S: Storage, E: ?Sized> {
    pub(super) slab: &'a mut Slab<P, Meta, S>,
    pub(super) fifo: &'a mut Fifo,
    pub(super) backlog: &'a mut u32,
    pub(super) memory_usage: &'a mut u32,
    pub(super) freed_late: Option<&'a mut Fifo>,
    pub(super) counters: &'a mut Counters,
    pub(super) cx: &'a mut E,
}

impl<P: Packet, S: Storage, E: Environment<P> + ?Sized> Source for Bucket<'_, P, S, E> {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.cx.now_ns()
    }

    #[inline]
    fn take(&mut self) -> u32 {
        let Some(at) = self.slab.pop_front(self.fifo) else { return NIL };
        let slot = self.slab.slot(at);
        *self.backlog = self.backlog.wrapping_sub(slot.len);
        *self.memory_usage = self.memory_usage.wrapping_sub(slot.meta.memory);
        self.counters.sub_queued(slot.len);
        at
    }

    #[inline]
    fn backlog_bytes(&self) -> u32 {
        self.counters.backlog_bytes
    }

    #[inline]
    fn len_and_stamp(&self, at: u32) -> (u32, u32) {
        let slot = self.slab.slot(at);
        (slot.len, slot.meta.stamp)
    }

    fn try_mark_ce(&mut self, at: u32) -> bool {
        self.slab.slot_mut(at).packet.as_mut().is_some_and(P::try_mark_ce)
    }

    fn ds_field(&self, at: u32) -> Option<u8> {
        self.slab.slot(at).packet.as_ref()?.ds_field()
    }

    fn discard(&mut self, at: u32) {
        self.counters.count_drops(1);
        match &mut self.freed_late {
            Some(list) => self.slab.push_front(list, at),
            None => {
                if let Some(packet) = self.slab.remove(at) {
                    self.cx.dropped(packet, DropReason::Codel);
                }
            }
        }
    }
}
