use super::config::{Law, ticks_to_us};
use super::{Config, Controller, MAX_PROBABILITY, Parameters};
use crate::slab::{Fifo, Slab};
use crate::timer::{Jiffies, JiffyTimer};
use crate::{
    CapacityError, ConfigError, Counters, DropReason, Environment, Event, Heap, Packet, Qdisc, Setup, Storage,
    TreeCorrection, Verdict, time,
};

/// The `pie` qdisc: one FIFO, one controller (spec/pie.md §7).
///
/// The probability is updated by [`Qdisc::on_timer`]; whoever never calls it has a queue that never drops early.
/// Linux 6.1, 6.12 and 7.2 behave alike.
///
/// Memory: 24 bytes and the packet itself per packet slot.
pub struct Pie<P, S: Storage = Heap> {
    pub(super) slab: Slab<P, u64, S>,
    pub(super) fifo: Fifo,
    counters: Counters,
    pub(super) controller: Controller,
    pub(super) law: Law,
    limit: u32,
    timer: JiffyTimer,
    packets_in: u32,
    dropped: u32,
    overlimit: u32,
    maxq: u32,
    ecn_mark: u32,
    pub(super) parked: Option<P>,
}

/// What `tc -s qdisc show` prints for pie besides the [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Drop probability, of 2^64; a probability above 1 wraps and looks small.
    pub prob: u64,
    /// Queue delay, µs; wraps at 4.29 s.
    pub delay_us: u32,
    /// Average departure rate, bytes per second, if `dq_rate_estimator` is on.
    pub avg_dq_rate_bytes: Option<u32>,
    /// Packets queued so far.
    pub packets_in: u32,
    /// Packets dropped on arrival, for either reason.
    pub dropped: u32,
    /// Packets that met a full queue.
    pub overlimit: u32,
    /// Longest queue that an arriving packet found.
    pub maxq: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
}

#[cfg(feature = "alloc")]
impl<P: Packet> Pie<P> {
    /// A pie on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// None on the heap.
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> Pie<P, S> {
    /// A pie in the given storage. Fixed storage must hold `limit` packets.
    ///
    /// # Errors
    ///
    /// A `limit` that the storage cannot hold.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        let limit = config.limit.unwrap_or(1000);
        let mut timer = JiffyTimer::idle(&host);
        timer.arm(host.created_ns, timer.jiffies().hz() / 2);
        let mut law = Law::new(&host);
        law.apply(&config, timer.jiffies());
        let slab = Slab::new(limit as usize).map_err(|CapacityError { .. }| ConfigError {
            qdisc: "pie",
            option: "limit",
            value: limit.into(),
            allowed: "at most the packets which the storage holds",
        })?;
        Ok(Self {
            slab,
            fifo: Fifo::EMPTY,
            counters: Counters::default(),
            controller: Controller::INITIAL,
            law,
            limit,
            timer,
            packets_in: 0,
            dropped: 0,
            overlimit: 0,
            maxq: 0,
            ecn_mark: 0,
            parked: None,
        })
    }

    /// Changes options while running; what is not given stays. Packets above a lowered limit come back with
    /// [`DropReason::Change`]. A period of 0 stops the timer at its next expiry, for good.
    ///
    /// # Errors
    ///
    /// None.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        self.law.apply(config, self.jiffies());
        self.limit = config.limit.unwrap_or(self.limit);
        let (mut packets, mut bytes) = (0i32, 0i32);
        while self.counters.qlen > self.limit {
            let Some(packet) = self.parked.take().or_else(|| {
                let at = self.slab.pop_front(&mut self.fifo)?;
                self.slab.remove(at)
            }) else {
                break;
            };
            let len = packet.len_bytes();
            self.counters.sub_queued(len);
            self.counters.count_drops(1);
            packets += 1;
            bytes = bytes.wrapping_add(len as i32);
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
        self.law.parameters(self.limit, self.jiffies())
    }

    /// The statistics.
    pub fn stats(&self) -> Stats {
        Stats {
            prob: self.controller.probability << 8,
            delay_us: ticks_to_us(self.controller.delay),
            avg_dq_rate_bytes: self.law.dq_rate_estimator.then(|| self.controller.drain_rate_bytes()),
            packets_in: self.packets_in,
            dropped: self.dropped,
            overlimit: self.overlimit,
            maxq: self.maxq,
            ecn_mark: self.ecn_mark,
        }
    }

    /// The controller, for those who compare states.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    #[cold]
    fn drop_arriving<E: Environment<P> + ?Sized>(&mut self, packet: P, reason: DropReason, cx: &mut E) -> Verdict {
        self.dropped = self.dropped.wrapping_add(1);
        self.controller.accumulated = 0;
        self.counters.count_drops(1);
        cx.dropped(packet, reason);
        Verdict::Dropped
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for Pie<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pie")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .field("controller", &self.controller)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for Pie<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, mut packet: P, cx: &mut E) -> Verdict {
        if self.counters.qlen >= self.limit {
            self.overlimit = self.overlimit.wrapping_add(1);
            return self.drop_arriving(packet, DropReason::TailDrop, cx);
        }
        let draw = || cx.random_u64();
        if self.controller.hits(&self.law, self.counters.backlog_bytes, packet.buffer_bytes(), draw) {
            // In this order: above 10 % nothing is marked.
            if !(self.law.ecn && self.controller.probability <= MAX_PROBABILITY / 10 && packet.try_mark_ce()) {
                return self.drop_arriving(packet, DropReason::Early, cx);
            }
            self.ecn_mark = self.ecn_mark.wrapping_add(1);
        }
        let len = packet.len_bytes();
        // With the estimator Linux leaves the stamp undefined; here it is 0.
        let stamp = if self.law.dq_rate_estimator { 0 } else { time::psched_ticks(cx.now_ns()) };
        match self.slab.insert(packet, len, stamp) {
            Ok(at) => self.slab.push_back(&mut self.fifo, at),
            Err(packet) => return self.drop_arriving(packet, DropReason::StorageFull, cx),
        }
        self.packets_in = self.packets_in.wrapping_add(1);
        self.maxq = self.maxq.max(self.counters.qlen);
        self.counters.add_queued(len);
        Verdict::Queued
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let at = self.slab.pop_front(&mut self.fifo)?;
        let slot = self.slab.slot(at);
        let (len, stamp) = (slot.len, slot.meta);
        let packet = self.slab.remove(at)?;
        self.counters.sub_queued(len);
        self.counters.count_sent(len, packet.gso().segments);
        let now = || time::psched_ticks(cx.now_ns());
        self.controller.departed(&self.law, stamp, packet.buffer_bytes(), self.counters.backlog_bytes, now);
        Some(packet)
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

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        while let Some(at) = self.slab.pop_front(&mut self.fifo) {
            if let Some(packet) = self.slab.remove(at) {
                cx.dropped(packet, DropReason::Reset);
            }
        }
        if let Some(packet) = self.parked.take() {
            cx.dropped(packet, DropReason::Reset);
        }
        self.controller.restart();
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
        self.controller.update(&self.law, self.counters.backlog_bytes);
        if self.law.tupdate == 0 {
            self.timer.disarm();
        } else {
            self.timer.arm(cx.coarse_now_ns(), self.law.tupdate);
        }
    }
}
