use super::config::refuse;
use super::slots::{NONE, Table};
use super::{ClassStats, Config, Parameters, SlotState, Stats};
use crate::net::SipKey;
use crate::red::{Decision, Law};
use crate::slab::{NIL, Slab};
use crate::timer::JiffyTimer;
use crate::{
    ConfigError, Counters, DropReason, Environment, Event, Heap, Packet, Qdisc, Setup, Slots, Storage, TreeCorrection,
    Verdict, classify,
};

/// The `sfq` qdisc.
///
/// Linux draws the hash key when it creates the qdisc; here the first packet that is hashed draws it (two
/// [`Environment::random_u64`]), unless [`set_key`](Self::set_key) gave one.
///
/// Memory: 2 bytes per row (`divisor`), 56 per slot (`flows`), 20 bytes and the packet itself per packet slot. In
/// fixed storage `FLOWS` must hold the larger of `divisor` and `flows`, and `PACKETS` one more than `limit`.
pub struct Sfq<P, S: Storage = Heap> {
    /// A packet's meta data is the slot of the packet before it in its flow.
    pub(super) slab: Slab<P, u32, S>,
    pub(super) table: Table<S>,
    /// The slot of each row, or [`NONE`].
    pub(super) rows: S::Flows<u16>,
    pub(super) counters: Counters,
    pub(super) parameters: Parameters,
    pub(super) red: Option<Law>,
    pub(super) key: Option<SipKey>,
    pub(super) timer: JiffyTimer,
    stats: Stats,
    handle: u32,
    parked: Option<P>,
}

#[cfg(feature = "alloc")]
impl<P: Packet> Sfq<P> {
    /// An sfq on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// See [`in_storage`](Self::in_storage).
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> Sfq<P, S> {
    /// An sfq in the given storage.
    ///
    /// # Errors
    ///
    /// As Linux refuses: a `limit` of 1, a `quantum` above 2^20, a `divisor` that is no power of two up to 65536, a
    /// `perturb` of more than 2^31 − 1 jiffies, RED parameters that [`Red`](crate::red::Red) refuses. And what the
    /// storage cannot hold.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        let parameters = Parameters::new(&config, &host)?;
        let Parameters { limit, flows, divisor, .. } = parameters;
        let mut timer = JiffyTimer::idle(&host);
        if parameters.perturb_s != 0 {
            timer.arm(host.created_ns, parameters.perturb_s * timer.jiffies().hz());
        }
        Ok(Self {
            slab: Slab::new(limit as usize + 1)
                .map_err(|_| refuse("limit", limit.into(), "less than the packets which the storage holds"))?,
            table: Table::new(flows as u16)
                .map_err(|_| refuse("flows", flows.into(), "at most the flows which the storage holds"))?,
            rows: S::Flows::filled(divisor as usize, || NONE)
                .map_err(|_| refuse("divisor", divisor.into(), "at most the flows which the storage holds"))?,
            counters: Counters::default(),
            parameters,
            red: parameters.red.map(|red| Law::new(&red.thresholds())),
            key: None,
            timer,
            stats: Stats::default(),
            handle: host.handle,
            parked: None,
        })
    }

    /// The parameters in force.
    pub fn parameters(&self) -> Parameters {
        let mut parameters = self.parameters;
        if let (Some(red), Some(law)) = (&mut parameters.red, &self.red) {
            red.max_p = law.max_p;
        }
        parameters
    }

    /// The statistics.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The rows that are classes now.
    pub fn classes(&self) -> impl Iterator<Item = ClassStats> {
        let rows = &self.rows.as_ref()[..self.parameters.divisor as usize];
        rows.iter().zip(1..).filter(|&(&slot, _)| slot != NONE).map(|(&slot, minor)| {
            let slot = self.table.slot(slot);
            ClassStats { minor, allot_bytes: slot.allot, qlen: slot.qlen.into(), backlog_bytes: slot.backlog }
        })
    }

    /// Sets the hash key, which otherwise the first hashed packet draws: for those who repeat a run.
    pub const fn set_key(&mut self, key: SipKey) {
        self.key = Some(key);
    }

    /// The slot of a row, if it has one.
    pub fn row(&self, row: u32) -> Option<u32> {
        let slot = *self.rows.as_ref()[..self.parameters.divisor as usize].get(row as usize)?;
        (slot != NONE).then_some(slot.into())
    }

    /// One slot's state, if there is such a slot.
    pub fn slot(&self, at: u32) -> Option<SlotState> {
        if at >= self.parameters.flows {
            return None;
        }
        let slot = self.table.slot(at as u16);
        Some(SlotState {
            row: slot.row.into(),
            qlen: slot.qlen.into(),
            backlog_bytes: slot.backlog,
            allot_bytes: slot.allot,
            ring_next: (slot.ring_next != NONE).then_some(slot.ring_next.into()),
            average: slot.average,
        })
    }

    /// The slot served last, if any has packets.
    pub fn ring_tail(&self) -> Option<u32> {
        (self.table.tail != NONE).then_some(self.table.tail.into())
    }

    /// Packets of the longest flow.
    pub const fn longest(&self) -> u32 {
        self.table.longest()
    }

    /// Bytes this instance takes: itself, its rows, slots and the packet slots it has made so far.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(self.rows.as_ref()) + self.table.memory_bytes() + self.slab.memory_bytes()
    }

    /// The row of a packet under the current key: the low bits of its hash.
    #[inline]
    pub(super) fn row_of<E: Environment<P> + ?Sized>(
        key: &mut Option<SipKey>,
        divisor: u32,
        packet: &mut P,
        cx: &mut E,
    ) -> u32 {
        let key = *key.get_or_insert_with(|| SipKey([cx.random_u64(), cx.random_u64()]));
        packet.keyed_hash(key) & (divisor - 1)
    }

    /// Appends a packet's slab slot to a flow.
    #[inline]
    pub(super) fn append(&mut self, at: u16, packet: u32) {
        let slot = self.table.slot_mut(at);
        let before = slot.fifo.tail().unwrap_or(NIL);
        self.slab.slot_mut(packet).meta = before;
        self.slab.push_back(&mut slot.fifo, packet);
    }

    /// Takes the oldest packet's slab slot off a flow.
    #[inline]
    pub(super) fn take_head(&mut self, at: u16) -> Option<u32> {
        let slot = self.table.slot_mut(at);
        let packet = self.slab.pop_front(&mut slot.fifo)?;
        if let Some(next) = slot.fifo.head() {
            self.slab.slot_mut(next).meta = NIL;
        }
        Some(packet)
    }

    /// Takes the newest packet's slab slot off a flow.
    fn take_tail(&mut self, at: u16) -> Option<u32> {
        let slot = self.table.slot_mut(at);
        let newest = slot.fifo.tail()?;
        let before = self.slab.slot(newest).meta;
        self.slab.pop_back(&mut slot.fifo, (before != NIL).then_some(before))
    }

    /// RED's verdict on a packet for a flow that has others: true drops it.
    fn red_drops<E: Environment<P> + ?Sized>(&mut self, at: u16, packet: &mut P, cx: &mut E) -> bool {
        let (Some(law), Some(red)) = (&self.red, &self.parameters.red) else { return false };
        let slot = self.table.slot_mut(at);
        slot.average.follow(law, slot.backlog);
        let decision = slot.average.decide(law, || cx.random_u32());
        if decision == Decision::Pass {
            return false;
        }
        self.counters.overlimits = self.counters.overlimits.wrapping_add(1);
        let hard = decision == Decision::Hard;
        let Stats { prob_drop, forced_drop, prob_mark, forced_mark, prob_mark_head, forced_mark_head } =
            &mut self.stats;
        let (drops, marks, head_marks) =
            if hard { (forced_drop, forced_mark, forced_mark_head) } else { (prob_drop, prob_mark, prob_mark_head) };
        if red.ecn && !(hard && red.harddrop) {
            let (marked, counter) = if self.parameters.headdrop {
                // The sooner the mark is seen the better.
                let head = slot.fifo.head().and_then(|head| self.slab.slot_mut(head).packet.as_mut());
                (head.is_some_and(P::try_mark_ce), head_marks)
            } else {
                (packet.try_mark_ce(), marks)
            };
            if marked {
                *counter = counter.wrapping_add(1);
                return false;
            }
        }
        *drops = drops.wrapping_add(1);
        true
    }

    #[cold]
    fn refuse<E: Environment<P> + ?Sized>(&mut self, packet: P, why: DropReason, cx: &mut E) -> Verdict {
        self.counters.count_drops(1);
        cx.dropped(packet, why);
        Verdict::Dropped
    }

    /// The flow may not grow: the arriving packet is lost, or with headdrop takes the place of the oldest.
    #[cold]
    fn flow_drop<E: Environment<P> + ?Sized>(&mut self, at: u16, packet: P, why: DropReason, cx: &mut E) -> Verdict {
        if !self.parameters.headdrop {
            return self.refuse(packet, why, cx);
        }
        let Some(oldest) = self.take_head(at) else { return self.refuse(packet, why, cx) };
        let len = packet.len_bytes();
        let place = self.slab.slot_mut(oldest);
        let delta = core::mem::replace(&mut place.len, len).wrapping_sub(len);
        if let Some(head) = place.packet.replace(packet) {
            self.counters.count_drops(1);
            cx.dropped(head, why);
        }
        self.append(at, oldest);
        self.counters.backlog_bytes = self.counters.backlog_bytes.wrapping_sub(delta);
        let slot = self.table.slot_mut(at);
        slot.backlog = slot.backlog.wrapping_sub(delta);
        cx.correct_tree(TreeCorrection { packets: 0, bytes: delta as i32, emptied: false });
        Verdict::Congested
    }

    /// Over the limit: the longest flow loses a packet (spec/sfq.md §5). Its slot, and the packet's length.
    #[cold]
    fn longest_drop<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<(u16, u32)> {
        let at = match self.table.fattest() {
            Some(at) => at,
            None => {
                // All have one packet: the flow whose turn it is loses it.
                let at = self.table.turn()?;
                self.table.leave_ring(at);
                let row = self.table.slot(at).row;
                self.rows.as_mut()[usize::from(row)] = NONE;
                at
            }
        };
        let packet = if self.parameters.headdrop { self.take_head(at) } else { self.take_tail(at) }?;
        let len = self.slab.slot(packet).len;
        self.forget(at, len);
        self.counters.count_drops(1);
        if let Some(packet) = self.slab.remove(packet) {
            cx.dropped(packet, DropReason::OverLimit);
        }
        Some((at, len))
    }

    /// A packet of this length has left the slot.
    #[inline]
    fn forget(&mut self, at: u16, len: u32) {
        self.table.shrank(at);
        let slot = self.table.slot_mut(at);
        slot.backlog = slot.backlog.wrapping_sub(len);
        self.counters.sub_queued(len);
    }

    fn dequeue_inner(&mut self) -> Option<P> {
        let at = loop {
            let at = self.table.turn()?;
            let slot = self.table.slot_mut(at);
            if slot.allot > 0 {
                break at;
            }
            slot.allot = slot.allot.wrapping_add(self.parameters.quantum_bytes as i32);
            self.table.tail = at;
        };
        let packet = self.take_head(at)?;
        let len = self.slab.slot(packet).len;
        self.forget(at, len);
        let packet = self.slab.remove(packet)?;
        self.counters.count_sent(len, packet.gso().segments);
        let slot = self.table.slot_mut(at);
        if slot.qlen == 0 {
            let row = slot.row;
            self.rows.as_mut()[usize::from(row)] = NONE;
            self.table.leave_ring(at);
        } else {
            slot.allot = slot.allot.wrapping_sub(len as i32);
        }
        Some(packet)
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for Sfq<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sfq")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for Sfq<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, mut packet: P, cx: &mut E) -> Verdict {
        let divisor = self.parameters.divisor;
        let key = &mut self.key;
        let by_key = |packet: &mut P, cx: &mut E| Self::row_of(key, divisor, packet, cx);
        let row = match classify::bucket_by(&mut packet, cx, self.handle, divisor, by_key) {
            Ok(row) => row,
            Err(refused) => {
                if refused.verdict == Verdict::Bypassed {
                    self.counters.count_drops(1);
                }
                cx.dropped(packet, refused.reason);
                return refused.verdict;
            }
        };
        let mut at = self.rows.as_ref()[row as usize];
        if at == NONE {
            let Some(free) = self.table.free() else { return self.refuse(packet, DropReason::TailDrop, cx) };
            at = free;
            self.rows.as_mut()[row as usize] = at;
            let slot = self.table.slot_mut(at);
            slot.row = row as u16;
            slot.backlog = 0;
            slot.average.restart();
        } else {
            if self.red.is_some() && self.red_drops(at, &mut packet, cx) {
                return self.flow_drop(at, packet, DropReason::Early, cx);
            }
            if u32::from(self.table.slot(at).qlen) >= self.parameters.depth {
                return self.flow_drop(at, packet, DropReason::FlowLimit, cx);
            }
        }
        let len = packet.len_bytes();
        let in_slab = match self.slab.insert(packet, len, NIL) {
            Ok(in_slab) => in_slab,
            // Not met: there is room for the limit and one more.
            Err(packet) => {
                if self.table.slot(at).qlen == 0 {
                    self.rows.as_mut()[row as usize] = NONE;
                }
                return self.refuse(packet, DropReason::StorageFull, cx);
            }
        };
        self.append(at, in_slab);
        let slot = self.table.slot_mut(at);
        slot.backlog = slot.backlog.wrapping_add(len);
        self.table.grew(at, self.parameters.quantum_bytes);
        self.counters.add_queued(len);
        if self.counters.qlen <= self.parameters.limit {
            return Verdict::Queued;
        }
        let Some((victim, dropped)) = self.longest_drop(cx) else { return Verdict::Queued };
        let emptied = self.counters.qlen == 0;
        if victim == at {
            // The parent does not add a packet that met congestion, so it must not subtract it either.
            cx.correct_tree(TreeCorrection { packets: 0, bytes: dropped.wrapping_sub(len) as i32, emptied });
            return Verdict::Congested;
        }
        cx.correct_tree(TreeCorrection { packets: 1, bytes: dropped as i32, emptied });
        Verdict::Queued
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, _: &mut E) -> Option<P> {
        self.dequeue_inner()
    }

    fn peek<E: Environment<P> + ?Sized>(&mut self, _: &mut E) -> Option<&P> {
        if self.parked.is_none() {
            self.parked = self.dequeue_inner();
            if let Some(packet) = &self.parked {
                self.counters.add_queued(packet.len_bytes());
            }
        }
        self.parked.as_ref()
    }

    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, _: &mut E) -> Option<P> {
        match self.parked.take() {
            Some(packet) => {
                self.counters.sub_queued(packet.len_bytes());
                Some(packet)
            }
            None => self.dequeue_inner(),
        }
    }

    /// Linux empties sfq by dequeueing: the packets count as sent.
    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        while let Some(packet) = self.dequeue_inner() {
            cx.dropped(packet, DropReason::Reset);
        }
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

    /// A new hash key, and every packet to the row that it now belongs to.
    fn on_timer<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        if self.parameters.perturb_s != 0 {
            self.perturb(cx);
        }
    }

    fn can_bypass(&self) -> bool {
        self.parameters.limit >= 1
    }
}
