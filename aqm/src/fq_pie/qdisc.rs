use super::config::{Limits, refuse};
use super::{Config, FlowState, Parameters, Stats};
use crate::flow_list::{Linked, Rounds};
use crate::pie::{Controller, Law};
use crate::slab::{Fifo, NIL, Slab};
use crate::timer::{Jiffies, JiffyTimer};
use crate::{
    ConfigError, Counters, DropReason, Environment, Event, Heap, Packet, Qdisc, Setup, Slots, Storage, TreeCorrection,
    Verdict, classify, time,
};

/// Buckets whose probability one expiry of the timer updates.
const UPDATES_PER_EXPIRY: u32 = 2048;

/// The `fq_pie` qdisc.
///
/// The probabilities are updated by [`Qdisc::on_timer`]; whoever never calls it has a queue that never drops early.
/// Linux 6.1, 6.12 and 7.2 behave alike.
///
/// Memory: 96 bytes per flow, 32 bytes and the packet itself per packet slot.
pub struct FqPie<P, S: Storage = Heap> {
    pub(super) slab: Slab<P, Meta, S>,
    pub(super) flows: S::Flows<Flow>,
    buckets: u32,
    rounds: Rounds,
    counters: Counters,
    pub(super) law: Law,
    pub(super) limits: Limits,
    timer: JiffyTimer,
    /// The bucket whose probability is updated next.
    pub(super) cursor: u32,
    pub(super) memory_usage: u32,
    packets_in: u32,
    dropped: u32,
    overlimit: u32,
    overmemory: u32,
    ecn_mark: u32,
    new_flow_count: u32,
    handle: u32,
    pub(super) parked: Option<P>,
}

/// What fq_pie remembers of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meta {
    /// Enqueue time, psched ticks.
    stamp: u64,
    /// Memory charged for it.
    pub(super) memory: u32,
}

/// One bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) controller: Controller,
    pub(super) fifo: Fifo,
    next: u32,
    deficit: i32,
    backlog: u32,
    qlen: u32,
    listed: bool,
}

impl Flow {
    const EMPTY: Self = Self {
        controller: Controller::INITIAL,
        fifo: Fifo::EMPTY,
        next: NIL,
        deficit: 0,
        backlog: 0,
        qlen: 0,
        listed: false,
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

#[cfg(feature = "alloc")]
impl<P: Packet> FqPie<P> {
    /// An fq_pie on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// `flows` outside 1…65536, `quantum` outside 1…2^20.
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> FqPie<P, S> {
    /// An fq_pie in the given storage. Fixed storage must hold `flows` flows and `limit` packets.
    ///
    /// # Errors
    ///
    /// As Linux refuses: `flows` outside 1…65536, `quantum` outside 1…2^20. And what the storage cannot hold.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        config.check()?;
        let buckets = config.flows.unwrap_or(1024);
        if !(1..=65536).contains(&buckets) {
            return Err(refuse("flows", buckets.into(), "1 to 65536"));
        }
        let mut limits = Limits::new(&host);
        limits.apply(&config);
        let mut timer = JiffyTimer::idle(&host);
        timer.arm(host.created_ns, timer.jiffies().hz() / 2);
        let mut law = Law::new(&host);
        law.apply(&config.pie(), timer.jiffies());
        Ok(Self {
            slab: Slab::new(limits.limit as usize)
                .map_err(|_| refuse("limit", limits.limit.into(), "at most the packets which the storage holds"))?,
            flows: S::Flows::filled(buckets as usize, || Flow::EMPTY)
                .map_err(|_| refuse("flows", buckets.into(), "at most the flows which the storage holds"))?,
            buckets,
            rounds: Rounds::EMPTY,
            counters: Counters::default(),
            law,
            limits,
            timer,
            cursor: 0,
            memory_usage: 0,
            packets_in: 0,
            dropped: 0,
            overlimit: 0,
            overmemory: 0,
            ecn_mark: 0,
            new_flow_count: 0,
            handle: host.handle,
            parked: None,
        })
    }

    /// Changes options while running; what is not given stays. Packets above a lowered limit leave through a full
    /// dequeue and come back with [`DropReason::Change`]; the memory limit is not enforced.
    ///
    /// # Errors
    ///
    /// `quantum` outside 1…2^20: nothing is changed. `flows` cannot be changed, not even to the same number: only
    /// `limit`, which Linux reads before it, is then changed, and no packet leaves for it.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        config.check()?;
        if let Some(flows) = config.flows {
            self.limits.limit = config.limit.unwrap_or(self.limits.limit);
            return Err(refuse("flows", flows.into(), "only at creation"));
        }
        self.limits.apply(config);
        self.law.apply(&config.pie(), self.jiffies());
        let (mut packets, mut bytes) = (0i32, 0i32);
        while self.counters.qlen > self.limits.limit {
            let Some(packet) = self.dequeue_peeked(cx) else { break };
            packets += 1;
            bytes = bytes.wrapping_add(packet.len_bytes() as i32);
            cx.dropped(packet, DropReason::Change);
        }
        cx.correct_tree(TreeCorrection { packets, bytes, emptied: self.counters.qlen == 0 });
        Ok(())
    }

    fn jiffies(&self) -> Jiffies {
        self.timer.jiffies()
    }

    /// The parameters in force.
    pub fn parameters(&self) -> Parameters {
        Parameters {
            pie: self.law.parameters(self.limits.limit, self.jiffies()),
            flows: self.buckets,
            quantum_bytes: self.limits.quantum,
            memory_limit_bytes: self.limits.memory_limit,
            ecn_prob_percent: self.limits.ecn_prob,
        }
    }

    /// The statistics. Counting the lists walks them.
    pub fn stats(&self) -> Stats {
        let flows = self.flows.as_ref();
        Stats {
            packets_in: self.packets_in,
            dropped: self.dropped,
            overlimit: self.overlimit,
            overmemory: self.overmemory,
            ecn_mark: self.ecn_mark,
            new_flow_count: self.new_flow_count,
            new_flows_len: self.rounds.new.iter(flows).count() as u32,
            old_flows_len: self.rounds.old.iter(flows).count() as u32,
            memory_usage_bytes: self.memory_usage,
        }
    }

    /// The buckets on the list of new flows, in order, then those on the list of old flows.
    pub fn lists(&self) -> (impl Iterator<Item = u32>, impl Iterator<Item = u32>) {
        (self.rounds.new.iter(self.flows.as_ref()), self.rounds.old.iter(self.flows.as_ref()))
    }

    /// One bucket's state, if there is such a bucket.
    pub fn flow(&self, bucket: u32) -> Option<FlowState> {
        let flow = self.flows.as_ref()[..self.buckets as usize].get(bucket as usize)?;
        Some(FlowState {
            controller: flow.controller,
            deficit_bytes: flow.deficit,
            backlog_bytes: flow.backlog,
            qlen: flow.qlen,
        })
    }

    /// The bucket whose probability the timer updates next.
    pub const fn cursor(&self) -> u32 {
        self.cursor
    }

    /// Bytes this instance takes: itself, its flows and the packet slots it has made so far.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(self.flows.as_ref()) + self.slab.memory_bytes()
    }

    #[cold]
    fn drop_arriving<E: Environment<P> + ?Sized>(
        &mut self,
        packet: P,
        bucket: u32,
        reason: DropReason,
        cx: &mut E,
    ) -> Verdict {
        self.dropped = self.dropped.wrapping_add(1);
        self.flows.as_mut()[bucket as usize].controller.accumulated = 0;
        self.counters.count_drops(1);
        cx.dropped(packet, reason);
        Verdict::Congested
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for FqPie<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FqPie")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for FqPie<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, mut packet: P, cx: &mut E) -> Verdict {
        let bucket = match classify::bucket(&mut packet, cx, self.handle, self.buckets) {
            Ok(bucket) => bucket,
            Err(refused) => {
                if refused.verdict == Verdict::Bypassed {
                    self.counters.count_drops(1);
                }
                cx.dropped(packet, refused.reason);
                return refused.verdict;
            }
        };
        let memory = packet.truesize_bytes();
        if self.counters.qlen >= self.limits.limit {
            self.overlimit = self.overlimit.wrapping_add(1);
            return self.drop_arriving(packet, bucket, DropReason::TailDrop, cx);
        }
        if self.memory_usage > self.limits.memory_limit.wrapping_add(memory) {
            self.overmemory = self.overmemory.wrapping_add(1);
        }
        let flow = &mut self.flows.as_mut()[bucket as usize];
        if flow.controller.hits(&self.law, flow.backlog, packet.buffer_bytes(), || cx.random_u64()) {
            // In this order: above `ecn_prob` nothing is marked.
            let may_mark = self.law.ecn && flow.controller.probability <= self.limits.mark_up_to();
            if !(may_mark && packet.try_mark_ce()) {
                return self.drop_arriving(packet, bucket, DropReason::Early, cx);
            }
            self.ecn_mark = self.ecn_mark.wrapping_add(1);
        }
        let len = packet.len_bytes();
        // With the estimator Linux leaves the stamp undefined; here it is 0.
        let stamp = if self.law.dq_rate_estimator { 0 } else { time::psched_ticks(cx.now_ns()) };
        let at = match self.slab.insert(packet, len, Meta { stamp, memory }) {
            Ok(at) => at,
            Err(packet) => return self.drop_arriving(packet, bucket, DropReason::StorageFull, cx),
        };
        self.packets_in = self.packets_in.wrapping_add(1);
        self.memory_usage = self.memory_usage.wrapping_add(memory);
        self.counters.add_queued(len);
        let flows = self.flows.as_mut();
        let flow = &mut flows[bucket as usize];
        self.slab.push_back(&mut flow.fifo, at);
        if flow.listed {
            flow.qlen = flow.qlen.wrapping_add(1);
            flow.backlog = flow.backlog.wrapping_add(len);
        } else {
            flow.listed = true;
            flow.deficit = self.limits.quantum as i32;
            flow.qlen = 1;
            flow.backlog = len;
            self.rounds.new.push_back(flows, bucket);
            self.new_flow_count = self.new_flow_count.wrapping_add(1);
        }
        Verdict::Queued
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        loop {
            let (head, from_new) = self.rounds.head();
            if head == NIL {
                return None;
            }
            let flows = self.flows.as_mut();
            let flow = &mut flows[head as usize];
            if flow.deficit <= 0 {
                flow.deficit = flow.deficit.wrapping_add(self.limits.quantum as i32);
                self.rounds.turn_over(flows, from_new);
                continue;
            }
            let Some(at) = self.slab.pop_front(&mut flow.fifo) else {
                flows[head as usize].listed = !self.rounds.retire(flows, from_new);
                continue;
            };
            let slot = self.slab.slot(at);
            let (len, Meta { stamp, memory }) = (slot.len, slot.meta);
            let packet = self.slab.remove(at)?;
            self.counters.sub_queued(len);
            self.counters.count_sent(len, packet.gso().segments);
            flow.qlen = flow.qlen.wrapping_sub(1);
            flow.deficit = flow.deficit.wrapping_sub(len as i32);
            flow.backlog = flow.backlog.wrapping_sub(len);
            self.memory_usage = self.memory_usage.wrapping_sub(memory);
            let now = || time::psched_ticks(cx.now_ns());
            flow.controller.departed(&self.law, stamp, packet.buffer_bytes(), flow.backlog, now);
            return Some(packet);
        }
    }

    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        if self.parked.is_none() {
            self.parked = self.dequeue(cx);
            if let Some(packet) = &self.parked {
                self.counters.add_queued(packet.len_bytes());
            }
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

    /// Memory usage, the cursor and the buckets' own lengths survive, as in Linux (spec/fq_pie.md §6).
    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        for flow in &mut self.flows.as_mut()[..self.buckets as usize] {
            while let Some(at) = self.slab.pop_front(&mut flow.fifo) {
                if let Some(packet) = self.slab.remove(at) {
                    cx.dropped(packet, DropReason::Reset);
                }
            }
            flow.listed = false;
            flow.controller.restart();
        }
        self.rounds = Rounds::EMPTY;
        if let Some(packet) = self.parked.take() {
            cx.dropped(packet, DropReason::Reset);
        }
        self.counters.qlen = 0;
        self.counters.backlog_bytes = 0;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn next_event(&self) -> Option<Event> {
        self.timer.event()
    }

    fn on_timer<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let end = self.buckets.min(self.cursor + UPDATES_PER_EXPIRY);
        for flow in &mut self.flows.as_mut()[self.cursor as usize..end as usize] {
            flow.controller.update(&self.law, flow.backlog);
        }
        let done = end >= self.buckets;
        self.cursor = if done { 0 } else { end };
        if self.law.tupdate == 0 {
            self.timer.disarm();
        } else {
            // The rest of the buckets: at the next jiffy.
            self.timer.arm(cx.coarse_now_ns(), if done { self.law.tupdate } else { 0 });
        }
    }
}
