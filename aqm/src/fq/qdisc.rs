use super::config::{Limits, refuse};
use super::flow::{Band, ByDeparture};
use super::lookup::FlowTable;
use super::pending::{Meta, Pending};
use super::{Config, FlowState, Parameters, Stats};
use crate::rb_tree::Tree;
use crate::slab::Slab;
use crate::timer::Watchdog;
use crate::{
    ConfigError, Counters, DropReason, Environment, Event, Heap, Linux, Packet, Qdisc, Setup, Storage, TreeCorrection,
    Verdict,
};

/// The `fq` qdisc.
///
/// Flows are sockets ([`Packet::socket`]) and, for packets without one, masked hashes. A flow that is idle is kept
/// and only forgotten, some seconds later, when a search for another one meets it (spec/fq.md §3).
///
/// Memory: 4 bytes per bucket, 120 per flow, 48 and the packet itself per packet slot. On the heap the flows grow with
/// the sockets that send. In fixed storage `FLOWS` must hold the `buckets` and is the most flows there are at once
/// (keep `orphan_mask` below it), `PACKETS` must hold `limit`.
pub struct Fq<P, S: Storage = Heap> {
    pub(super) slab: Slab<P, Meta, S>,
    pub(super) table: FlowTable<S>,
    /// Before 6.12 only the first is used.
    pub(super) bands: [Band; 3],
    pub(super) current: usize,
    /// Flows that are held back.
    pub(super) delayed: Tree<ByDeparture>,
    /// The next departure of one of these as far as known, ns; all ones for none.
    pub(super) next_delayed: u64,
    /// Packets that take the fast path.
    pub(super) internal: Pending,
    pub(super) internal_len: u32,
    pub(super) counters: Counters,
    pub(super) limits: Limits,
    pub(super) stats: Stats,
    pub(super) watchdog: Watchdog,
    /// The clock when it was last read: 6.1 judges departure times by it.
    pub(super) last_now: u64,
    parked: Option<P>,
}

/// No flow is held back.
pub(super) const NEVER: u64 = u64::MAX;

#[cfg(feature = "alloc")]
impl<P: Packet> Fq<P> {
    /// An fq on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// See [`in_storage`](Self::in_storage).
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> Fq<P, S> {
    /// An fq in the given storage.
    ///
    /// # Errors
    ///
    /// As Linux refuses: see the ranges in [`Config`]; options that this version does not have. And what the storage
    /// cannot hold.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, linux, host } = setup.into();
        let limits = Limits::new(&host, linux).with(&config)?;
        Ok(Self {
            slab: Slab::new(limits.limit as usize)
                .map_err(|_| refuse("limit", limits.limit.into(), "at most the packets which the storage holds"))?,
            table: FlowTable::new(limits.buckets)?,
            bands: [Band::EMPTY; 3],
            current: 0,
            delayed: Tree::EMPTY,
            next_delayed: NEVER,
            internal: Pending::EMPTY,
            internal_len: 0,
            counters: Counters::default(),
            limits,
            stats: Stats::default(),
            watchdog: Watchdog::default(),
            last_now: 0,
            parked: None,
        })
    }

    /// Changes options while running; what is not given stays. Packets above a lowered limit leave through a full
    /// dequeue and come back with [`DropReason::Change`].
    ///
    /// # Errors
    ///
    /// As at creation. Nothing is changed then.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        let limits = self.limits.with(config)?;
        if limits.buckets != self.limits.buckets {
            let jiffy = limits.jiffies.at(cx.coarse_now_ns());
            let forgotten = self.table.resize(limits.buckets, jiffy, &limits)?;
            self.count_forgotten(forgotten);
        }
        self.limits = limits;
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

    /// The parameters in force.
    pub fn parameters(&self) -> Parameters {
        self.limits.parameters()
    }

    /// The statistics; reads the clock once.
    pub fn stats<E: Environment<P> + ?Sized>(&self, cx: &mut E) -> Stats {
        let next = self.next_delayed.wrapping_add(self.limits.timer_slack_ns.into());
        Stats { time_next_delayed_flow_ns: next.wrapping_sub(cx.now_ns()) as i64, flows: self.table.len, ..self.stats }
    }

    /// The flows that are remembered, bucket by bucket.
    pub fn flows(&self) -> impl Iterator<Item = FlowState> {
        self.table.states()
    }

    /// The flow of a key, if it is remembered.
    pub fn flow(&self, key: u64) -> Option<FlowState> {
        Some(self.table.flow(self.table.find(key)?).state())
    }

    /// The keys of a band's new flows, then of its old ones, in the order of service.
    pub fn band(&self, band: usize) -> (impl Iterator<Item = u64>, impl Iterator<Item = u64>) {
        let flows = self.table.all();
        let Band { new, old, .. } = self.bands.get(band).copied().unwrap_or(Band::EMPTY);
        let key = |at: u32| flows[at as usize].key;
        (new.iter(flows).map(key), old.iter(flows).map(key))
    }

    /// The bytes that each band may still send in this round, and the band whose turn it is.
    pub fn band_credits(&self) -> ([i32; 3], usize) {
        (self.bands.map(|band| band.credit), self.current)
    }

    /// The next departure of a flow that is held back as far as known, ns.
    pub fn next_delayed_ns(&self) -> Option<u64> {
        (self.next_delayed != NEVER).then_some(self.next_delayed)
    }

    /// Packets on the fast path.
    pub const fn internal_len(&self) -> u32 {
        self.internal_len
    }

    /// Bytes this instance takes: itself, its table and flows, and the packet slots it has made so far.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.table.memory_bytes() + self.slab.memory_bytes()
    }

    #[inline]
    pub(super) const fn has_bands(&self) -> bool {
        self.limits.linux as u8 >= Linux::V6_12 as u8
    }

    pub(super) fn count_forgotten(&mut self, flows: u32) {
        self.stats.inactive_flows = self.stats.inactive_flows.wrapping_sub(flows);
        self.stats.gc_flows = self.stats.gc_flows.wrapping_add(flows.into());
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for Fq<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fq")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for Fq<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        self.enqueue_inner(packet, cx)
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        self.dequeue_inner(cx)
    }

    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        if self.parked.is_none() {
            self.parked = self.dequeue_inner(cx);
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
            None => self.dequeue_inner(cx),
        }
    }

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        while let Some(packet) = self.internal.purge(&mut self.slab).and_then(|at| self.slab.remove(at)) {
            cx.dropped(packet, DropReason::Reset);
        }
        self.internal_len = 0;
        let mut bucket = 0;
        while let Some(at) = self.table.take_any(&mut bucket) {
            let mut packets = core::mem::replace(&mut self.table.flow_mut(at).packets, Pending::EMPTY);
            while let Some(packet) = packets.purge(&mut self.slab).and_then(|at| self.slab.remove(at)) {
                cx.dropped(packet, DropReason::Reset);
            }
        }
        for band in &mut self.bands {
            *band = Band { credit: band.credit, ..Band::EMPTY };
        }
        self.delayed = Tree::EMPTY;
        self.stats.inactive_flows = 0;
        self.stats.throttled_flows = 0;
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
        self.watchdog.event()
    }
}
