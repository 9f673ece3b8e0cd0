use super::core::{Average, Decision, Law};
use super::{Config, Parameters};
use crate::child::{Below, Child};
use crate::fifo::Bfifo;
use crate::timer::JiffyTimer;
use crate::{
    ConfigError, Counters, DropReason, Environment, Event, Heap, Host, Packet, Qdisc, Setup, Storage, Verdict,
};

/// The `red` qdisc: random early detection on the average length, in bytes, of an inner qdisc.
///
/// The inner qdisc is a bfifo of `limit` bytes until another one, of type `C`, is [attached](Self::attach). All
/// versions of Linux behave alike.
///
/// Memory: 256 bytes for the idle table, and the inner qdisc's.
pub struct Red<P, S: Storage = Heap, C = Bfifo<P, S>> {
    child: Child<P, S, C>,
    counters: Counters,
    pub(super) law: Law,
    pub(super) average: Average,
    pub(super) config: Config,
    timer: JiffyTimer,
    host: Host,
    stats: Stats,
}

/// What `tc -s qdisc show` prints for red besides the [`Counters`], and the counters that it sums up there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Early drops between the thresholds.
    pub prob_drop: u32,
    /// Early marks between the thresholds.
    pub prob_mark: u32,
    /// Drops at an average above the upper threshold.
    pub forced_drop: u32,
    /// Marks at an average above the upper threshold.
    pub forced_mark: u32,
    /// Packets which the inner qdisc refused.
    pub pdrop: u32,
}

impl Stats {
    /// What tc prints as `early`.
    pub const fn early(&self) -> u32 {
        self.prob_drop.wrapping_add(self.forced_drop)
    }

    /// What tc prints as `marked`.
    pub const fn marked(&self) -> u32 {
        self.prob_mark.wrapping_add(self.forced_mark)
    }
}

#[cfg(feature = "alloc")]
impl<P: Packet> Red<P> {
    /// A red over a bfifo, on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// See [`in_storage`](Self::in_storage).
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage, C: Qdisc<P>> Red<P, S, C> {
    /// A red over a bfifo in the given storage.
    ///
    /// # Errors
    ///
    /// As Linux refuses: thresholds that, scaled by the weight, reach 2^31; `max` below `min`; a table granularity or
    /// a table entry of 32 or more; `nodrop` without `ecn`.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        config.check()?;
        let mut queue = Self {
            child: Child::with_limit(config.limit_bytes, &host)?,
            counters: Counters::default(),
            law: Law::new(&config.thresholds()),
            average: Average { idle_since_ns: host.created_ns, ..Average::START },
            config,
            timer: JiffyTimer::idle(&host),
            host,
            stats: Stats::default(),
        };
        queue.arm_timer(host.created_ns);
        Ok(queue)
    }

    /// Changes everything while running. If the limit is not 0, a new bfifo takes the inner qdisc's place, whatever
    /// that was; what it held comes back with [`DropReason::Change`].
    ///
    /// # Errors
    ///
    /// See [`in_storage`](Self::in_storage). Nothing is changed then.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        config.check()?;
        let child = Child::with_limit(config.limit_bytes, &self.host)?;
        if !matches!(child, Child::Nothing) {
            self.child.replace(child, &mut self.counters, cx);
        }
        self.config = *config;
        self.law = Law::new(&config.thresholds());
        self.average.restart();
        self.timer.disarm();
        if config.adaptive && config.legacy_flags {
            self.arm_timer(cx.coarse_now_ns());
        }
        if self.child.totals().qlen == 0 {
            self.average.idle_since_ns = cx.now_ns();
        }
        Ok(())
    }

    /// Attaches an inner qdisc in place of the one there is; what that held comes back with [`DropReason::Change`].
    pub fn attach<E: Environment<P> + ?Sized>(&mut self, child: C, cx: &mut E) {
        self.child.replace(Child::Attached(child), &mut self.counters, cx);
    }

    /// The attached inner qdisc, if one was attached.
    pub const fn child(&self) -> Option<&C> {
        match &self.child {
            Child::Attached(child) => Some(child),
            Child::Nothing | Child::Own(_) => None,
        }
    }

    /// The inner qdisc's counters.
    pub fn child_counters(&self) -> Counters {
        self.child.totals()
    }

    /// The parameters in force.
    pub const fn parameters(&self) -> Parameters {
        Parameters {
            limit_bytes: self.config.limit_bytes,
            min_bytes: self.config.min_bytes,
            max_bytes: self.config.max_bytes,
            wlog: self.config.wlog,
            plog: self.config.plog,
            scell_log: self.config.scell_log,
            max_p: self.law.max_p,
            ecn: self.config.ecn,
            harddrop: self.config.harddrop,
            adaptive: self.config.adaptive,
            nodrop: self.config.nodrop,
        }
    }

    /// The statistics.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The running state, for those who compare states.
    pub const fn average(&self) -> &Average {
        &self.average
    }

    fn arm_timer(&mut self, now_ns: u64) {
        if self.config.adaptive && self.config.legacy_flags {
            self.timer.arm(now_ns, self.timer.jiffies().hz() / 2);
        }
    }

    /// The average after an idle period that lasts until `now_ns`.
    pub(super) fn after_idle(&self, now_ns: u64) -> u64 {
        let avg = self.average.scaled_bytes;
        let span_us = (now_ns.wrapping_sub(self.average.idle_since_ns) as i64 / 1000)
            .min(i64::from(255u32 << self.config.scell_log));
        let shift = self.config.idle_table[(span_us >> self.config.scell_log) as u8 as usize];
        if shift > 0 {
            return avg >> shift;
        }
        let loss = avg.wrapping_mul(span_us as u64) >> self.config.scell_log;
        if loss < avg >> 1 { avg - loss } else { avg >> 1 }
    }

    #[cold]
    fn congestion_drop<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        self.counters.count_drops(1);
        cx.dropped(packet, DropReason::Early);
        Verdict::Congested
    }

    /// Marks the packet, or says that it must be dropped.
    #[cold]
    fn act(&mut self, packet: &mut P, decision: Decision) -> bool {
        self.counters.overlimits = self.counters.overlimits.wrapping_add(1);
        let hard = decision == Decision::Hard;
        let (drops, marks) = if hard {
            (&mut self.stats.forced_drop, &mut self.stats.forced_mark)
        } else {
            (&mut self.stats.prob_drop, &mut self.stats.prob_mark)
        };
        if self.config.ecn && !(hard && self.config.harddrop) {
            if packet.try_mark_ce() {
                *marks = marks.wrapping_add(1);
                return true;
            }
            if self.config.nodrop {
                return true;
            }
        }
        *drops = drops.wrapping_add(1);
        false
    }

    fn adapt<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let scaled =
            if self.average.idle_since_ns == 0 { self.average.scaled_bytes } else { self.after_idle(cx.now_ns()) };
        self.law.adapt(scaled >> self.law.wlog);
        self.arm_timer(cx.coarse_now_ns());
    }
}

impl<P: Packet, S: Storage, C: Qdisc<P>> core::fmt::Debug for Red<P, S, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Red")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage, C: Qdisc<P>> Qdisc<P> for Red<P, S, C> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, mut packet: P, cx: &mut E) -> Verdict {
        if self.average.idle_since_ns == 0 {
            self.average.follow(&self.law, self.child.backlog_bytes());
        } else {
            self.average.scaled_bytes = self.after_idle(cx.now_ns());
            self.average.idle_since_ns = 0;
        }
        let decision = self.average.decide(&self.law, || cx.random_u32());
        if decision != Decision::Pass && !self.act(&mut packet, decision) {
            return self.congestion_drop(packet, cx);
        }
        let len = packet.len_bytes();
        let verdict = self.child.enqueue(packet, &mut Below::new(&mut self.counters, cx));
        if verdict.adds_to_parent() {
            self.counters.add_queued(len);
        } else if verdict.counts_as_drop() {
            self.stats.pdrop = self.stats.pdrop.wrapping_add(1);
            self.counters.count_drops(1);
        }
        verdict
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let packet = self.child.dequeue_peeked(&mut Below::new(&mut self.counters, cx));
        match &packet {
            Some(packet) => {
                let len = packet.len_bytes();
                self.counters.count_sent(len, packet.gso().segments);
                self.counters.sub_queued(len);
            }
            None if self.average.idle_since_ns == 0 => self.average.idle_since_ns = cx.now_ns(),
            None => {}
        }
        packet
    }

    /// The inner qdisc's peek; an empty one starts no idle period.
    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        self.child.peek(&mut Below::new(&mut self.counters, cx))
    }

    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        self.dequeue(cx)
    }

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        self.child.reset(&mut Below::new(&mut self.counters, cx));
        self.average.restart();
        self.average.idle_since_ns = 0;
        self.counters.qlen = 0;
        self.counters.backlog_bytes = 0;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The earlier of the adaptation's timer and the inner qdisc's event.
    fn next_event(&self) -> Option<Event> {
        match (self.timer.event(), self.child.next_event()) {
            (Some(own), Some(inner)) => Some(if inner.at_ns < own.at_ns { inner } else { own }),
            (own, inner) => own.or(inner),
        }
    }

    fn on_timer<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let own = self.timer.event();
        if own.is_some() && own == self.next_event() {
            return self.adapt(cx);
        }
        self.child.on_timer(&mut Below::new(&mut self.counters, cx));
    }
}
