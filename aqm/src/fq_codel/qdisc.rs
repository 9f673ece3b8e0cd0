use super::config::{Limits, refuse};
use super::source::{Bucket, Flow, Meta};
use super::{ClassStats, Config, FlowState, Parameters, Selector, Stats};
use crate::codel::{self, Controller, Law, Shared};
use crate::flow_list::Rounds;
use crate::slab::{Fifo, NIL, Slab};
use crate::{
    ConfigError, Counters, DropReason, Environment, Heap, Linux, Packet, Qdisc, Setup, Slots, Storage, TreeCorrection,
    Verdict, classify, time,
};

/// The `fq_codel` qdisc.
///
/// Memory: 48 bytes and 4 bytes of backlog per flow, 16 bytes and the packet itself per packet slot.
pub struct FqCodel<P, S: Storage = Heap> {
    pub(super) slab: Slab<P, Meta, S>,
    pub(super) flows: S::Flows<Flow>,
    pub(super) backlogs: S::Flows<u32>,
    pub(super) buckets: u32,
    rounds: Rounds,
    /// Packets dropped in this dequeue which Linux frees after it, newest first.
    freed_late: Fifo,
    frees_late: bool,
    pub(super) counters: Counters,
    pub(super) memory_usage: u32,
    shared: Shared,
    pub(super) law: Law,
    pub(super) limits: Limits,
    drop_overlimit: u32,
    drop_overmemory: u32,
    new_flow_count: u32,
    linux: Linux,
    handle: u32,
    pub(super) parked: Option<P>,
    can_bypass: bool,
}

#[cfg(feature = "alloc")]
impl<P: Packet> FqCodel<P> {
    /// An fq_codel on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// `flows` outside 1…65536, `quantum` above 2^20.
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> FqCodel<P, S> {
    /// An fq_codel in the given storage. Fixed storage must hold `flows` flows and one packet more than `limit`.
    ///
    /// # Errors
    ///
    /// As Linux refuses: `flows` outside 1…65536, `quantum` above 2^20. And what the storage cannot hold.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, linux, host } = setup.into();
        config.check()?;
        let buckets = config.flows.unwrap_or(1024);
        if !(1..=65536).contains(&buckets) {
            return Err(refuse("flows", buckets.into(), "1 to 65536"));
        }
        let mut limits = Limits::new(&host);
        limits.apply(&config);
        let mut law = Law::new(true, host.frame_bytes(), linux);
        law.apply(config.target_us, config.interval_us, config.ce_threshold_us, config.ecn);
        let mut queue = Self {
            slab: Slab::new((limits.limit as usize).saturating_add(1))
                .map_err(|_| refuse("limit", limits.limit.into(), "less than the packets which the storage holds"))?,
            flows: S::Flows::filled(buckets as usize, || Flow::EMPTY)
                .map_err(|_| refuse("flows", buckets.into(), "at most the flows which the storage holds"))?,
            backlogs: S::Flows::filled(buckets as usize, || 0)
                .map_err(|_| refuse("flows", buckets.into(), "at most the flows which the storage holds"))?,
            buckets,
            rounds: Rounds::EMPTY,
            freed_late: Fifo::EMPTY,
            frees_late: linux >= Linux::V7_2 && host.is_root,
            counters: Counters::default(),
            memory_usage: 0,
            shared: Shared::default(),
            law,
            limits,
            drop_overlimit: 0,
            drop_overmemory: 0,
            new_flow_count: 0,
            linux,
            handle: host.handle,
            parked: None,
            can_bypass: limits.limit >= 1,
        };
        queue.set_selector(&config);
        Ok(queue)
    }

    fn set_selector(&mut self, config: &Config) {
        if let Some(Selector { value, mask }) = config.ce_threshold_selector {
            (self.law.selector, self.law.mask) = (value, mask);
        }
    }

    /// Changes options while running; what is not given stays. Packets above a lowered limit leave through a full
    /// dequeue (spec/fq_codel.md §5) and come back with [`DropReason::Change`].
    ///
    /// # Errors
    ///
    /// `flows` cannot be changed, not even to the same number; `quantum` above 2^20. Nothing is changed then.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        if let Some(flows) = config.flows {
            return Err(refuse("flows", flows.into(), "only at creation"));
        }
        config.check()?;
        self.limits.apply(config);
        self.law.apply(config.target_us, config.interval_us, config.ce_threshold_us, config.ecn);
        self.set_selector(config);
        let (mut packets, mut bytes) = (0i32, 0i32);
        while self.counters.qlen > self.limits.limit || self.memory_usage > self.limits.memory_limit {
            let Some(packet) = self.dequeue_peeked(cx) else { break };
            packets += 1;
            bytes = bytes.wrapping_add(packet.len_bytes() as i32);
            cx.dropped(packet, DropReason::Change);
        }
        cx.correct_tree(TreeCorrection { packets, bytes, emptied: self.counters.qlen == 0 });
        Ok(())
    }

    /// The parameters in force.
    pub fn parameters(&self) -> Parameters {
        Parameters {
            limit: self.limits.limit,
            flows: self.buckets,
            quantum_bytes: self.limits.quantum,
            target_us: time::codel_to_us(self.law.target),
            interval_us: time::codel_to_us(self.law.interval),
            ce_threshold_us: self.law.ce_threshold_us(),
            ce_threshold_selector: Selector { value: self.law.selector, mask: self.law.mask },
            memory_limit_bytes: self.limits.memory_limit,
            drop_batch: self.limits.drop_batch,
            ecn: self.law.ecn,
        }
    }

    /// The statistics. Counting the lists walks them.
    pub fn stats(&self) -> Stats {
        let flows = self.flows.as_ref();
        Stats {
            maxpacket_bytes: self.shared.maxpacket_bytes,
            drop_overlimit: self.drop_overlimit,
            ecn_mark: self.shared.ecn_mark,
            new_flow_count: self.new_flow_count,
            new_flows_len: self.rounds.new.iter(flows).count() as u32,
            old_flows_len: self.rounds.old.iter(flows).count() as u32,
            ce_mark: self.shared.ce_mark,
            memory_usage_bytes: self.memory_usage,
            drop_overmemory: self.drop_overmemory,
        }
    }

    /// The flows that are classes now, in bucket order; reads the clock for each that is dropping.
    pub fn classes<E: Environment<P> + ?Sized>(&self, cx: &mut E) -> impl Iterator<Item = ClassStats> {
        let flows = &self.flows.as_ref()[..self.buckets as usize];
        flows.iter().zip(self.backlogs.as_ref()).zip(1..).filter(|((flow, _), _)| flow.listed).map(
            move |((flow, &backlog_bytes), minor)| ClassStats {
                minor,
                deficit_bytes: flow.deficit,
                ldelay_us: time::codel_to_us(flow.controller.ldelay),
                count: flow.controller.count,
                lastcount: flow.controller.lastcount,
                dropping: flow.controller.dropping,
                drop_next_us: if flow.controller.dropping { flow.controller.drop_next_us(cx.now_ns()) } else { 0 },
                qlen: self.slab.len(&flow.fifo),
                backlog_bytes,
            },
        )
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
            backlog_bytes: self.backlogs.as_ref()[bucket as usize],
        })
    }

    /// Bytes this instance takes: itself, its flows and the packet slots it has made so far.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(self.flows.as_ref())
            + size_of_val(self.backlogs.as_ref())
            + self.slab.memory_bytes()
    }

    fn dequeue_inner<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
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
            let mut bucket = Bucket {
                slab: &mut self.slab,
                fifo: &mut flow.fifo,
                backlog: &mut self.backlogs.as_mut()[head as usize],
                memory_usage: &mut self.memory_usage,
                freed_late: self.frees_late.then_some(&mut self.freed_late),
                counters: &mut self.counters,
                cx,
            };
            let at = codel::dequeue(&mut flow.controller, &self.law, &mut self.shared, &mut bucket);
            if at == NIL {
                let flows = self.flows.as_mut();
                flows[head as usize].listed = !self.rounds.retire(flows, from_new);
                continue;
            }
            let packet = self.slab.remove(at)?;
            let len = packet.len_bytes();
            self.counters.count_sent(len, packet.gso().segments);
            flow.deficit = flow.deficit.wrapping_sub(len as i32);
            return Some(packet);
        }
    }

    /// What follows each dequeue: the tree correction for CoDel's drops, and late frees.
    #[inline]
    fn settle<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        if self.shared.drop_count != 0 {
            self.settle_drops(cx);
        }
    }

    #[cold]
    fn settle_drops<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        cx.correct_tree(TreeCorrection {
            packets: self.shared.drop_count as i32,
            bytes: self.shared.drop_bytes as i32,
            emptied: self.counters.qlen == 0,
        });
        self.shared.drop_count = 0;
        self.shared.drop_bytes = 0;
        let freed = core::mem::replace(&mut self.freed_late, Fifo::EMPTY);
        self.hand_back(freed, DropReason::Codel, cx);
    }

    /// Over a limit: one batch drop, and what the parents are told of it (spec/fq_codel.md §3.6–8).
    #[cold]
    fn overloaded<E: Environment<P> + ?Sized>(&mut self, bucket: u32, len: u32, over: bool, cx: &mut E) -> Verdict {
        let reason = if over { DropReason::OverMemory } else { DropReason::OverLimit };
        let batch = self.drop_batch(reason, cx);
        self.drop_overlimit = self.drop_overlimit.wrapping_add(batch.packets);
        if over {
            self.drop_overmemory = self.drop_overmemory.wrapping_add(batch.packets);
        }
        let emptied = self.counters.qlen == 0;
        let correction =
            |packets: u32, bytes: u32| TreeCorrection { packets: packets as i32, bytes: bytes as i32, emptied };
        if batch.victim == bucket {
            // The parent does not add a packet that met congestion, so it must not subtract it either.
            cx.correct_tree(correction(batch.packets.wrapping_sub(1), batch.bytes.wrapping_sub(len)));
            return Verdict::Congested;
        }
        cx.correct_tree(correction(batch.packets, batch.bytes));
        Verdict::Queued
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for FqCodel<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FqCodel")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for FqCodel<P, S> {
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
        let len = packet.len_bytes();
        let memory =
            if self.linux >= Linux::V7_2 && packet.is_charged_to_socket() { 0 } else { packet.truesize_bytes() };
        let stamp = time::codel_time(cx.now_ns());
        let at = match self.slab.insert(packet, len, Meta { stamp, memory }) {
            Ok(at) => at,
            Err(packet) => {
                self.counters.count_drops(1);
                cx.dropped(packet, DropReason::StorageFull);
                return Verdict::Dropped;
            }
        };
        let flows = self.flows.as_mut();
        let flow = &mut flows[bucket as usize];
        self.slab.push_back(&mut flow.fifo, at);
        let backlog = &mut self.backlogs.as_mut()[bucket as usize];
        *backlog = backlog.wrapping_add(len);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.limits.quantum as i32;
            self.rounds.new.push_back(flows, bucket);
            self.new_flow_count = self.new_flow_count.wrapping_add(1);
        }
        self.counters.add_queued(len);
        self.memory_usage = self.memory_usage.wrapping_add(memory);
        let over = self.memory_usage > self.limits.memory_limit;
        if self.counters.qlen <= self.limits.limit && !over {
            return Verdict::Queued;
        }
        self.overloaded(bucket, len, over, cx)
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let packet = self.dequeue_inner(cx);
        self.settle(cx);
        packet
    }

    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        if self.parked.is_none() {
            self.parked = self.dequeue_inner(cx);
            if let Some(packet) = &self.parked {
                self.counters.add_queued(packet.len_bytes());
            }
            // Only now: the parents must not hear "empty" while a packet is parked.
            self.settle(cx);
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

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        for bucket in 0..self.buckets as usize {
            let flow = &mut self.flows.as_mut()[bucket];
            let fifo = core::mem::replace(&mut flow.fifo, Fifo::EMPTY);
            flow.controller = Controller::default();
            flow.listed = false;
            self.backlogs.as_mut()[bucket] = 0;
            self.hand_back(fifo, DropReason::Reset, cx);
        }
        self.rounds = Rounds::EMPTY;
        self.memory_usage = 0;
        if let Some(packet) = self.parked.take() {
            cx.dropped(packet, DropReason::Reset);
        }
        self.counters.qlen = 0;
        self.counters.backlog_bytes = 0;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn can_bypass(&self) -> bool {
        self.can_bypass
    }
}
