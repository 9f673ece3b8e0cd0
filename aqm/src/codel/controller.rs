use super::Law;
use crate::arith::{after, after_eq, before};
use crate::slab::NIL;
use crate::time;

/// State of one CoDel controller (spec/codel.md §2). Times are CoDel time, units of 1024 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// Drops or marks since the dropping state was entered, with the re-entry rule's memory.
    pub count: u32,
    /// `count` at the last entry into the dropping state.
    pub lastcount: u32,
    /// Is the controller in the dropping state?
    pub dropping: bool,
    /// Reciprocal square root of `count`, a fraction of 2^16.
    pub rec_inv_sqrt: u16,
    /// When the delay will have been above target for an interval; 0 means "not above".
    pub first_above_time: u32,
    /// When the next drop is due.
    pub drop_next: u32,
    /// Sojourn time of the last packet looked at.
    pub ldelay: u32,
}

/// What all controllers of one qdisc share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Largest packet seen by CoDel, bytes.
    pub maxpacket_bytes: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Packets marked by `ce_threshold`.
    pub ce_mark: u32,
    /// Drops of the current call, handed to the ancestors and cleared after it.
    pub(crate) drop_count: u32,
    pub(crate) drop_bytes: u32,
}

/// What the controller sees of its queue. Slots are slab indices.
pub(crate) trait Source {
    /// The clock, nanoseconds.
    fn now_ns(&mut self) -> u64;
    /// Takes the head off the FIFO and off all accounts; [`NIL`] if it is empty.
    fn take(&mut self) -> u32;
    /// Bytes queued in the whole qdisc.
    fn backlog_bytes(&self) -> u32;
    /// The packet's length, and its enqueue time in CoDel time.
    fn len_and_stamp(&self, at: u32) -> (u32, u32);
    /// Marks CE if the packet is ECN-capable.
    fn try_mark_ce(&mut self, at: u32) -> bool;
    /// The packet's DS field.
    fn ds_field(&self, at: u32) -> Option<u8>;
    /// Drops the packet, counting it in the qdisc's `drops`.
    fn discard(&mut self, at: u32);
}

/// Drops in one call after which 7.2 gives up (spec/codel.md §4.4).
const MAX_DROPS_PER_CALL: u32 = 256;

impl Controller {
    /// One Newton step towards 1/√count (spec/codel.md §3). Wraps as Linux's does.
    #[inline]
    pub(super) fn newton_step(&mut self) {
        let inv = u32::from(self.rec_inv_sqrt) << 16;
        let squared = (u64::from(inv) * u64::from(inv)) >> 32;
        let mut value = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(squared));
        value >>= 2;
        value = value.wrapping_mul(u64::from(inv)) >> 31;
        self.rec_inv_sqrt = (value >> 16) as u16;
    }

    /// `time` + interval/√count.
    #[inline]
    fn control_law(&self, time: u32, law: &Law) -> u32 {
        let step = ((u64::from(law.interval) * (u64::from(self.rec_inv_sqrt) << 16)) >> 32) as u32;
        time.wrapping_add(if law.bounded { step.max(1) } else { step })
    }

    /// spec/codel.md §3, the should-drop test on a packet that was already taken.
    #[inline]
    fn should_drop<S: Source>(&mut self, at: u32, now: u32, law: &Law, shared: &mut Shared, source: &S) -> bool {
        if at == NIL {
            self.first_above_time = 0;
            return false;
        }
        let (len, stamp) = source.len_and_stamp(at);
        self.ldelay = now.wrapping_sub(stamp);
        shared.maxpacket_bytes = shared.maxpacket_bytes.max(len);
        if before(self.ldelay, law.target) || source.backlog_bytes() <= law.mtu {
            self.first_above_time = 0;
            return false;
        }
        if self.first_above_time == 0 {
            self.first_above_time = now.wrapping_add(law.interval);
            return false;
        }
        after(now, self.first_above_time)
    }

    /// Drops `at` and looks at the packet behind it.
    fn drop_and_take<S: Source>(
        &mut self,
        at: u32,
        now: u32,
        law: &Law,
        shared: &mut Shared,
        source: &mut S,
    ) -> (u32, bool) {
        shared.drop_bytes = shared.drop_bytes.wrapping_add(source.len_and_stamp(at).0);
        shared.drop_count += 1;
        source.discard(at);
        let next = source.take();
        let drop = self.should_drop(next, now, law, shared, source);
        (next, drop)
    }

    /// The dropping state's loop (§4.4): drops or marks what is due.
    #[cold]
    fn drop_due<S: Source>(&mut self, mut at: u32, now: u32, law: &Law, shared: &mut Shared, source: &mut S) -> u32 {
        let mut iterations = 0;
        while self.dropping && after_eq(now, self.drop_next) {
            iterations += 1;
            if law.bounded && iterations > MAX_DROPS_PER_CALL {
                self.drop_next = self.control_law(now, law);
                break;
            }
            self.count = self.count.wrapping_add(1);
            self.newton_step();
            if law.ecn && source.try_mark_ce(at) {
                shared.ecn_mark = shared.ecn_mark.wrapping_add(1);
                self.drop_next = self.control_law(self.drop_next, law);
                break;
            }
            let (next, drop) = self.drop_and_take(at, now, law, shared, source);
            at = next;
            if drop {
                self.drop_next = self.control_law(self.drop_next, law);
            } else {
                self.dropping = false;
            }
        }
        at
    }

    /// Entry into the dropping state (§4.5).
    #[cold]
    fn enter_dropping<S: Source>(
        &mut self,
        mut at: u32,
        now: u32,
        law: &Law,
        shared: &mut Shared,
        source: &mut S,
    ) -> u32 {
        if law.ecn && source.try_mark_ce(at) {
            shared.ecn_mark = shared.ecn_mark.wrapping_add(1);
        } else {
            (at, _) = self.drop_and_take(at, now, law, shared, source);
        }
        self.dropping = true;
        // The drop rate that controlled the queue last time is a good start, if that was not long ago.
        let delta = self.count.wrapping_sub(self.lastcount);
        if delta > 1 && before(now.wrapping_sub(self.drop_next), law.interval.wrapping_mul(16)) {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.rec_inv_sqrt = u16::MAX;
        }
        self.lastcount = self.count;
        self.drop_next = self.control_law(now, law);
        at
    }

    /// `drop_next` as Linux dumps it: µs from now, 0 when not dropping.
    pub(crate) fn drop_next_us(&self, now_ns: u64) -> i32 {
        if !self.dropping {
            return 0;
        }
        let delta = self.drop_next.wrapping_sub(time::codel_time(now_ns)) as i32;
        let us = time::codel_to_us(delta.unsigned_abs()) as i32;
        if delta >= 0 { us } else { us.wrapping_neg() }
    }
}

/// CoDel's dequeue (spec/codel.md §4): the slot to deliver, already off the FIFO and the accounts, or [`NIL`].
#[inline]
pub(crate) fn dequeue<S: Source>(controller: &mut Controller, law: &Law, shared: &mut Shared, source: &mut S) -> u32 {
    let mut at = source.take();
    if at == NIL {
        controller.first_above_time = 0;
        controller.dropping = false;
        return NIL;
    }
    let now = time::codel_time(source.now_ns());
    let drop = controller.should_drop(at, now, law, shared, source);
    if controller.dropping {
        if !drop {
            controller.dropping = false;
        } else if after_eq(now, controller.drop_next) {
            at = controller.drop_due(at, now, law, shared, source);
        }
    } else if drop {
        at = controller.enter_dropping(at, now, law, shared, source);
    }
    if at != NIL
        && after(controller.ldelay, law.ce_threshold)
        && (law.mask == 0 || source.ds_field(at).is_some_and(|ds| ds & law.mask == law.selector))
        && source.try_mark_ce(at)
    {
        shared.ce_mark = shared.ce_mark.wrapping_add(1);
    }
    at
}
