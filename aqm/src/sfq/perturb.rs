use super::qdisc::Sfq;
use super::slots::NONE;
use crate::net::SipKey;
use crate::slab::Fifo;
use crate::{Classified, DropReason, Environment, Packet, Storage, TreeCorrection};

impl<P: Packet, S: Storage> Sfq<P, S> {
    /// The timer's work (spec/sfq.md §8).
    #[cold]
    pub(super) fn perturb<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        self.key = Some(SipKey([cx.random_u64(), cx.random_u64()]));
        if self.hashes(cx) {
            self.rehash(cx);
        }
        let period = self.parameters.perturb_s * self.timer.jiffies().hz();
        self.timer.arm(cx.coarse_now_ns(), period);
    }

    /// Are there packets, and is it the hash (not filters) that gives them their row?
    fn hashes<E: Environment<P> + ?Sized>(&self, cx: &mut E) -> bool {
        let Some(at) = self.table.turn() else { return false };
        let head = self.table.slot(at).fifo.head().and_then(|head| self.slab.slot(head).packet.as_ref());
        head.is_some_and(|packet| cx.classify(packet) == Classified::NoFilters)
    }

    fn rehash<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let mut all = self.drain();
        let (mut packets, mut bytes) = (0u32, 0u32);
        while let Some(packet) = self.slab.pop_front(&mut all) {
            if self.readmit(packet, cx) {
                continue;
            }
            let len = self.slab.slot(packet).len;
            self.counters.backlog_bytes = self.counters.backlog_bytes.wrapping_sub(len);
            packets += 1;
            bytes = bytes.wrapping_add(len);
            if let Some(packet) = self.slab.remove(packet) {
                cx.dropped(packet, DropReason::FlowLimit);
            }
        }
        self.counters.qlen = self.counters.qlen.wrapping_sub(packets);
        cx.correct_tree(TreeCorrection {
            packets: packets as i32,
            bytes: bytes as i32,
            emptied: self.counters.qlen == 0,
        });
    }

    /// Takes all packets out, slot by slot. The counters still include them.
    fn drain(&mut self) -> Fifo {
        let mut all = Fifo::EMPTY;
        for at in 0..self.parameters.flows as u16 {
            if self.table.slot(at).qlen == 0 {
                continue;
            }
            while let Some(packet) = self.take_head(at) {
                self.table.shrank(at);
                self.slab.push_back(&mut all, packet);
            }
            let slot = self.table.slot_mut(at);
            slot.backlog = 0;
            slot.average.restart();
            let row = slot.row;
            self.rows.as_mut()[usize::from(row)] = NONE;
        }
        self.table.tail = NONE;
        all
    }

    /// Puts a packet into the row that it now belongs to; false if there is no room for it.
    fn readmit<E: Environment<P> + ?Sized>(&mut self, packet: u32, cx: &mut E) -> bool {
        let divisor = self.parameters.divisor;
        let Some(bytes) = self.slab.slot_mut(packet).packet.as_mut() else { return true };
        let row = Self::row_of(&mut self.key, divisor, bytes, cx);
        let mut at = self.rows.as_ref()[row as usize];
        if at == NONE {
            let Some(free) = self.table.free() else { return false };
            at = free;
            self.rows.as_mut()[row as usize] = at;
            self.table.slot_mut(at).row = row as u16;
        } else if u32::from(self.table.slot(at).qlen) >= self.parameters.depth {
            return false;
        }
        let len = self.slab.slot(packet).len;
        self.append(at, packet);
        let slot = self.table.slot_mut(at);
        if let Some(law) = &self.red {
            slot.average.follow(law, slot.backlog);
        }
        slot.backlog = slot.backlog.wrapping_add(len);
        self.table.grew(at, self.parameters.quantum_bytes);
        true
    }
}
