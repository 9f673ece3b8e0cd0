use super::DualPi2;
use super::probability::{Class, Decision};
use super::qdisc::Meta;
use crate::{Classified, DropReason, Environment, Packet, Storage, TreeCorrection, Verdict};

impl<P: Packet, S: Storage> DualPi2<P, S> {
    /// Class and ECN field of an arriving packet (spec/dualpi2.md §3).
    pub(super) fn classify<E: Environment<P> + ?Sized>(
        &self,
        packet: &P,
        cx: &mut E,
    ) -> Result<(Class, u8), (Verdict, DropReason)> {
        let ect = packet.ds_field().unwrap_or(0) & 3;
        if ect & self.law.ecn_mask != 0 {
            return Ok((Class::L4s, ect));
        }
        let priority = packet.priority();
        let minor = if (priority ^ self.handle) >> 16 == 0 && priority & 0xffff < 3 {
            priority
        } else {
            match cx.classify(packet) {
                Classified::NoFilters | Classified::NoMatch => 0,
                Classified::Class(class) => class,
                Classified::Stolen => return Err((Verdict::Stolen, DropReason::Stolen)),
                Classified::Shot => return Err((Verdict::Bypassed, DropReason::Classify)),
            }
        };
        let class = match minor & 0xffff {
            1 => Class::L4s,
            2 => Class::LowLatency,
            _ => Class::Classic,
        };
        Ok((class, ect))
    }

    pub(super) fn drop_arriving<E: Environment<P> + ?Sized>(&mut self, packet: P, reason: DropReason, cx: &mut E) {
        self.counters.count_drops(1);
        cx.dropped(packet, reason);
    }

    /// One packet, or one segment of a buffer, of which `len` bytes count (spec/dualpi2.md §5).
    pub(super) fn enqueue_one<E: Environment<P> + ?Sized>(
        &mut self,
        mut packet: P,
        len: u32,
        class: Class,
        ect: u8,
        cx: &mut E,
    ) -> Verdict {
        let memory = packet.truesize_bytes();
        let full = self.counters.qlen >= self.law.limit;
        if full || u64::from(self.memory_used) + u64::from(memory) > u64::from(self.law.memory_limit) {
            self.counters.overlimits = self.counters.overlimits.wrapping_add(1);
            if class != Class::Classic {
                self.low_latency_counters.overlimits = self.low_latency_counters.overlimits.wrapping_add(1);
            }
            let reason = if full { DropReason::TailDrop } else { DropReason::OverMemory };
            self.drop_arriving(packet, reason, cx);
            return Verdict::Dropped;
        }
        if self.law.drop_early {
            match self.decide(class, ect, cx) {
                Decision::Pass => {}
                Decision::Mark => self.mark(&mut packet),
                decision @ (Decision::Drop | Decision::DropOverloaded) => {
                    self.drop_arriving(packet, decision.reason(), cx);
                    return Verdict::Bypassed;
                }
            }
        }
        let time_ns = cx.now_ns();
        let step_applies = class == Class::L4s && self.low_latency_counters.qlen >= self.law.min_qlen_step;
        let at = match self.slab.insert(
            packet,
            len,
            Meta { time_ns, memory, class, ect, step_applies, dropped_for: None },
        ) {
            Ok(at) => at,
            Err(packet) => {
                self.drop_arriving(packet, DropReason::StorageFull, cx);
                return Verdict::Dropped;
            }
        };
        self.memory_used = self.memory_used.wrapping_add(memory);
        self.max_memory_used = self.max_memory_used.max(self.memory_used);
        self.maxq = self.maxq.max(self.counters.qlen);
        self.counters.add_queued(len);
        let (fifo, head_ns, packets_in) = if class == Class::Classic {
            (&mut self.classic, &mut self.heads.classic_ns, &mut self.packets_in_c)
        } else {
            self.low_latency_counters.add_queued(len);
            (&mut self.low_latency, &mut self.heads.low_latency_ns, &mut self.packets_in_l)
        };
        self.slab.push_back(fifo, at);
        *packets_in = packets_in.wrapping_add(1);
        if *head_ns == 0 {
            *head_ns = time_ns;
        }
        Verdict::Queued
    }

    /// Segments a buffer and queues what fits. The parents hear of the additional packets.
    pub(super) fn enqueue_segments<E: Environment<P> + ?Sized>(
        &mut self,
        buffer: P,
        class: Class,
        ect: u8,
        cx: &mut E,
    ) -> Verdict {
        let (mut queued, mut bytes, mut verdict) = (0u32, 0u32, None);
        for index in 0.. {
            let Some(segment) = buffer.segment(index) else { break };
            let len = segment.buffer_bytes();
            let one = self.enqueue_one(segment, len, class, ect, cx);
            if one == Verdict::Queued {
                queued += 1;
                bytes = bytes.wrapping_add(len);
            }
            verdict = Some(one);
        }
        let Some(verdict) = verdict else {
            self.drop_arriving(buffer, DropReason::SplitFailed, cx);
            return Verdict::Dropped;
        };
        if queued == 0 {
            return verdict;
        }
        cx.correct_tree(TreeCorrection {
            packets: 1u32.wrapping_sub(queued) as i32,
            bytes: buffer.len_bytes().wrapping_sub(bytes) as i32,
            emptied: self.counters.qlen == 0,
        });
        Verdict::Queued
    }

    fn mark(&mut self, packet: &mut P) {
        if packet.try_mark_ce() {
            self.ecn_mark = self.ecn_mark.wrapping_add(1);
        }
    }
}
