use super::config::{Law, refuse};
use super::departure::Deferred;
use super::probability::{Class, Decision};
use super::{BaseProbability, Config, Parameters, Stats, Timestamps};
use crate::slab::{Fifo, Slab};
use crate::{
    ConfigError, Counters, DropReason, Environment, Event, EventKind, Heap, Packet, Qdisc, Setup, Storage,
    TreeCorrection, Verdict,
};

/// The `dualpi2` qdisc: a classic and a low-latency queue with coupled probabilities (spec/dualpi2.md).
///
/// Behaves like Linux 7.2 whatever version is asked for: the older ones do not have it. The probability is updated by
/// [`Qdisc::on_timer`]. The clock must not read 0 when packets arrive: 0 means "no packet".
///
/// Memory: 32 bytes and the packet itself per packet slot.
pub struct DualPi2<P, S: Storage = Heap> {
    pub(super) slab: Slab<P, Meta, S>,
    pub(super) classic: Fifo,
    pub(super) low_latency: Fifo,
    /// Packets dropped in this dequeue which Linux frees after it, newest first.
    pub(super) freed_late: Fifo,
    pub(super) frees_late: bool,
    /// Both queues together.
    pub(super) counters: Counters,
    pub(super) low_latency_counters: Counters,
    pub(super) heads: Timestamps,
    pub(super) base: BaseProbability,
    pub(super) law: Law,
    pub(super) credit: i32,
    pub(super) due_ns: u64,
    pub(super) memory_used: u32,
    pub(super) max_memory_used: u32,
    pub(super) packets_in_c: u32,
    pub(super) packets_in_l: u32,
    pub(super) maxq: u32,
    pub(super) ecn_mark: u32,
    pub(super) step_marks: u32,
    pub(super) handle: u32,
    pub(super) parked: Option<P>,
}

/// What dualpi2 remembers of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meta {
    /// Enqueue time.
    pub(super) time_ns: u64,
    /// Memory charged for it.
    pub(super) memory: u32,
    pub(super) class: Class,
    /// The ECN field at arrival; marks do not change it.
    pub(super) ect: u8,
    pub(super) step_applies: bool,
    /// Set while it waits to be handed back.
    pub(super) dropped_for: Option<DropReason>,
}

#[cfg(feature = "alloc")]
impl<P: Packet> DualPi2<P> {
    /// A dualpi2 on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// As Linux refuses: see [`Config`]'s bounds.
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> DualPi2<P, S> {
    /// A dualpi2 in the given storage. Fixed storage must hold `limit` packets.
    ///
    /// # Errors
    ///
    /// As Linux refuses: see [`Config`]'s bounds. And a `limit` that the storage cannot hold.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        config.check()?;
        let mut law = Law::new(&host);
        law.apply(&config);
        Ok(Self {
            slab: Slab::new(law.limit as usize)
                .map_err(|_| refuse("limit", law.limit.into(), "at most the packets which the storage holds"))?,
            classic: Fifo::EMPTY,
            low_latency: Fifo::EMPTY,
            freed_late: Fifo::EMPTY,
            frees_late: host.is_root,
            counters: Counters::default(),
            low_latency_counters: Counters::default(),
            heads: Timestamps::default(),
            base: BaseProbability::default(),
            credit: law.credit_init(),
            due_ns: host.created_ns.saturating_add(law.tupdate_ns.into()),
            law,
            memory_used: 0,
            max_memory_used: 0,
            packets_in_c: 0,
            packets_in_l: 0,
            maxq: 0,
            ecn_mark: 0,
            step_marks: 0,
            handle: host.handle,
            parked: None,
        })
    }

    /// Changes options while running; what is not given stays. Packets above lowered limits come back with
    /// [`DropReason::Change`], classic ones first.
    ///
    /// # Errors
    ///
    /// As at creation, and an empty list of options. Nothing is changed then.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        if *config == Config::default() {
            return Err(refuse("change", 0, "at least one option"));
        }
        config.check()?;
        self.law.apply(config);
        if config.classic_protection_percent.is_some() {
            self.credit = self.law.credit_init();
        }
        let (mut packets, mut bytes) = (0i32, 0i32);
        while self.counters.qlen > self.law.limit || self.memory_used > self.law.memory_limit {
            let Some(packet) = self.take_for_change() else { break };
            let len = packet.len_bytes();
            self.counters.sub_queued(len);
            self.counters.count_drops(1);
            self.memory_used = self.memory_used.wrapping_sub(packet.truesize_bytes());
            packets += 1;
            bytes = bytes.wrapping_add(len as i32);
            cx.dropped(packet, DropReason::Change);
        }
        cx.correct_tree(TreeCorrection { packets, bytes, emptied: self.counters.qlen == 0 });
        Ok(())
    }

    /// The next packet to go for a lowered limit. The heads' timestamps stay as they are.
    fn take_for_change(&mut self) -> Option<P> {
        if let Some(packet) = self.parked.take() {
            return Some(packet);
        }
        if let Some(at) = self.slab.pop_front(&mut self.classic) {
            return self.slab.remove(at);
        }
        let at = self.slab.pop_front(&mut self.low_latency)?;
        self.low_latency_counters.sub_queued(self.slab.slot(at).len);
        self.low_latency_counters.count_drops(1);
        self.slab.remove(at)
    }

    /// The parameters in force.
    pub fn parameters(&self) -> Parameters {
        self.law.parameters()
    }

    /// The statistics; reads the clock once, for the delays.
    pub fn stats<E: Environment<P> + ?Sized>(&self, cx: &mut E) -> Stats {
        let now = cx.now_ns();
        let us = |since| u32::try_from(age_ns(since, now) / 1000).unwrap_or(u32::MAX);
        Stats {
            prob: self.base.probability,
            delay_c_us: us(self.heads.classic_ns),
            delay_l_us: us(self.heads.low_latency_ns),
            packets_in_c: self.packets_in_c,
            packets_in_l: self.packets_in_l,
            maxq: self.maxq,
            ecn_mark: self.ecn_mark,
            step_marks: self.step_marks,
            credit: self.credit,
            memory_used_bytes: self.memory_used,
            max_memory_used_bytes: self.max_memory_used,
            memory_limit_bytes: self.law.memory_limit,
        }
    }

    /// The low-latency queue's own counters, which Linux keeps but never lists.
    pub const fn low_latency_counters(&self) -> &Counters {
        &self.low_latency_counters
    }

    /// The base probability, for those who compare states.
    pub const fn base(&self) -> &BaseProbability {
        &self.base
    }

    /// The heads' enqueue times, for those who compare states.
    pub const fn heads(&self) -> &Timestamps {
        &self.heads
    }

    /// Draws for one packet. With less than two MTUs queued nothing is drawn.
    #[inline]
    pub(super) fn decide<E: Environment<P> + ?Sized>(&self, class: Class, ect: u8, cx: &mut E) -> Decision {
        if self.counters.backlog_bytes < 2 * self.law.mtu {
            return Decision::Pass;
        }
        self.base.decide(&self.law, class, ect != 0, || cx.random_u32())
    }

    fn hand_back<E: Environment<P> + ?Sized>(&mut self, mut list: Fifo, cx: &mut E) {
        while let Some(at) = self.slab.pop_front(&mut list) {
            if let Some(packet) = self.slab.remove(at) {
                cx.dropped(packet, DropReason::Reset);
            }
        }
    }
}

/// Age of a head, 0 for an empty queue.
const fn age_ns(since: u64, now: u64) -> u64 {
    if since == 0 { 0 } else { now.wrapping_sub(since) }
}

impl<P: Packet, S: Storage> core::fmt::Debug for DualPi2<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DualPi2")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for DualPi2<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        let (class, ect) = match self.classify(&packet, cx) {
            Ok(found) => found,
            Err((verdict, reason)) => {
                if verdict == Verdict::Bypassed {
                    self.counters.count_drops(1);
                }
                cx.dropped(packet, reason);
                return verdict;
            }
        };
        if self.law.split_gso && packet.gso().segment_bytes != 0 {
            return self.enqueue_segments(packet, class, ect, cx);
        }
        let len = packet.len_bytes();
        self.enqueue_one(packet, len, class, ect, cx)
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let mut deferred = Deferred::default();
        let packet = self.dequeue_inner(&mut deferred, cx);
        self.settle(&deferred, cx);
        packet
    }

    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        if self.parked.is_none() {
            let mut deferred = Deferred::default();
            self.parked = self.dequeue_inner(&mut deferred, cx);
            if let Some(packet) = &self.parked {
                self.counters.add_queued(packet.len_bytes());
            }
            // Only now: the parents must not hear "empty" while a packet is parked.
            self.settle(&deferred, cx);
        }
        self.parked.as_ref()
    }

    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        match self.parked.take() {
            Some(packet) => {
                self.counters.sub_queued(packet.len_bytes());
                Some(packet)
            }
            None => self.dequeue(cx),
        }
    }

    /// The delay at the last update stays (spec/dualpi2.md §8).
    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let classic = core::mem::replace(&mut self.classic, Fifo::EMPTY);
        self.hand_back(classic, cx);
        let low_latency = core::mem::replace(&mut self.low_latency, Fifo::EMPTY);
        self.hand_back(low_latency, cx);
        if let Some(packet) = self.parked.take() {
            cx.dropped(packet, DropReason::Reset);
        }
        self.heads = Timestamps::default();
        self.base.probability = 0;
        self.packets_in_c = 0;
        self.packets_in_l = 0;
        self.maxq = 0;
        self.ecn_mark = 0;
        self.step_marks = 0;
        self.memory_used = 0;
        self.max_memory_used = 0;
        self.credit = self.law.credit_init();
        for counters in [&mut self.counters, &mut self.low_latency_counters] {
            counters.qlen = 0;
            counters.backlog_bytes = 0;
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn next_event(&self) -> Option<Event> {
        Some(Event { at_ns: self.due_ns, kind: EventKind::Timer })
    }

    fn on_timer<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let now = cx.now_ns();
        let delay = age_ns(self.heads.classic_ns, now).max(age_ns(self.heads.low_latency_ns, now));
        self.base.update(&self.law, delay);
        self.due_ns = now.saturating_add(self.law.tupdate_ns.into());
    }
}
