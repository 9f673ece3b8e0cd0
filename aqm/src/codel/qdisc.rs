use super::{Config, Controller, Law, Parameters, Shared, Source};
use crate::slab::{Fifo, NIL, Slab};
use crate::{
    CapacityError, ConfigError, Counters, DropReason, Environment, Heap, Linux, Packet, Qdisc, Setup, Storage,
    TreeCorrection, Verdict, time,
};

/// The plain `codel` qdisc: one FIFO, one controller (spec/codel.md §5).
pub struct Codel<P, S: Storage = Heap> {
    slab: Slab<P, u32, S>,
    fifo: Fifo,
    /// Packets dropped in this dequeue which Linux frees after it, newest first.
    freed_late: Fifo,
    frees_late: bool,
    counters: Counters,
    pub(super) controller: Controller,
    pub(super) shared: Shared,
    pub(super) law: Law,
    limit: u32,
    drop_overlimit: u32,
    parked: Option<P>,
    can_bypass: bool,
}

/// What `tc -s qdisc show` prints for codel besides the [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Largest packet seen by CoDel, bytes.
    pub maxpacket_bytes: u32,
    /// The controller's count.
    pub count: u32,
    /// Count at the last entry into the dropping state.
    pub lastcount: u32,
    /// Sojourn time of the last packet looked at, µs.
    pub ldelay_us: u32,
    /// Time to the next drop, µs; negative if it is overdue, 0 when not dropping.
    pub drop_next_us: i32,
    /// Tail drops at the limit.
    pub drop_overlimit: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Is the controller in the dropping state?
    pub dropping: bool,
    /// Packets marked by `ce_threshold`.
    pub ce_mark: u32,
}

#[cfg(feature = "alloc")]
impl<P: Packet> Codel<P> {
    /// A codel on the heap, from a [`Config`] or a [`Setup`].
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> Codel<P, S> {
    /// A codel in the given storage. Fixed storage must hold `limit` packets.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, linux, host } = setup.into();
        let limit = config.limit.unwrap_or(1000);
        let mut law = Law::new(false, host.frame_bytes(), linux);
        law.apply(config.target_us, config.interval_us, config.ce_threshold_us, config.ecn);
        let slab = Slab::new(limit as usize).map_err(|CapacityError { .. }| ConfigError {
            qdisc: "codel",
            option: "limit",
            value: limit.into(),
            allowed: "at most the packets which the storage holds",
        })?;
        Ok(Self {
            slab,
            fifo: Fifo::EMPTY,
            freed_late: Fifo::EMPTY,
            frees_late: linux >= Linux::V7_2 && host.is_root,
            counters: Counters::default(),
            controller: Controller::default(),
            shared: Shared::default(),
            law,
            limit,
            drop_overlimit: 0,
            parked: None,
            can_bypass: limit >= 1,
        })
    }

    /// Changes options while running; what is not given stays. Packets above a lowered limit come back with
    /// [`DropReason::Change`].
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        self.law.apply(config.target_us, config.interval_us, config.ce_threshold_us, config.ecn);
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

    /// The parameters in force.
    pub fn parameters(&self) -> Parameters {
        Parameters {
            limit: self.limit,
            target_us: time::codel_to_us(self.law.target),
            interval_us: time::codel_to_us(self.law.interval),
            ce_threshold_us: self.law.ce_threshold_us(),
            ecn: self.law.ecn,
        }
    }

    /// The statistics; reads the clock once if the controller is dropping.
    pub fn stats<E: Environment<P> + ?Sized>(&self, cx: &mut E) -> Stats {
        Stats {
            maxpacket_bytes: self.shared.maxpacket_bytes,
            count: self.controller.count,
            lastcount: self.controller.lastcount,
            ldelay_us: time::codel_to_us(self.controller.ldelay),
            drop_next_us: if self.controller.dropping { self.controller.drop_next_us(cx.now_ns()) } else { 0 },
            drop_overlimit: self.drop_overlimit,
            ecn_mark: self.shared.ecn_mark,
            dropping: self.controller.dropping,
            ce_mark: self.shared.ce_mark,
        }
    }

    /// The controller, for those who compare states.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    fn dequeue_inner<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let mut source = Whole {
            slab: &mut self.slab,
            fifo: &mut self.fifo,
            freed_late: self.frees_late.then_some(&mut self.freed_late),
            counters: &mut self.counters,
            cx,
        };
        let at = super::dequeue(&mut self.controller, &self.law, &mut self.shared, &mut source);
        if at == NIL {
            return None;
        }
        let packet = self.slab.remove(at)?;
        self.counters.count_sent(packet.len_bytes(), packet.gso().segments);
        Some(packet)
    }

    /// What follows each dequeue: late frees, and the tree correction for CoDel's drops.
    fn settle<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        if self.shared.drop_count == 0 {
            return;
        }
        cx.correct_tree(TreeCorrection {
            packets: self.shared.drop_count as i32,
            bytes: self.shared.drop_bytes as i32,
            emptied: self.counters.qlen == 0,
        });
        self.shared.drop_count = 0;
        self.shared.drop_bytes = 0;
        while let Some(at) = self.slab.pop_front(&mut self.freed_late) {
            if let Some(packet) = self.slab.remove(at) {
                cx.dropped(packet, DropReason::Codel);
            }
        }
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for Codel<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Codel")
            .field("parameters", &self.parameters())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for Codel<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        if self.counters.qlen < self.limit {
            let len = packet.len_bytes();
            let stamp = time::codel_time(cx.now_ns());
            match self.slab.insert(packet, len, stamp) {
                Ok(at) => {
                    self.slab.push_back(&mut self.fifo, at);
                    self.counters.add_queued(len);
                    return Verdict::Queued;
                }
                Err(packet) => cx.dropped(packet, DropReason::StorageFull),
            }
        } else {
            cx.dropped(packet, DropReason::TailDrop);
        }
        self.drop_overlimit = self.drop_overlimit.wrapping_add(1);
        self.counters.count_drops(1);
        Verdict::Dropped
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
        while let Some(at) = self.slab.pop_front(&mut self.fifo) {
            if let Some(packet) = self.slab.remove(at) {
                cx.dropped(packet, DropReason::Reset);
            }
        }
        if let Some(packet) = self.parked.take() {
            cx.dropped(packet, DropReason::Reset);
        }
        self.controller = Controller::default();
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

/// The whole qdisc as CoDel's source.
struct Whole<'a, P, S: Storage, E: ?Sized> {
    slab: &'a mut Slab<P, u32, S>,
    fifo: &'a mut Fifo,
    freed_late: Option<&'a mut Fifo>,
    counters: &'a mut Counters,
    cx: &'a mut E,
}

impl<P: Packet, S: Storage, E: Environment<P> + ?Sized> Source for Whole<'_, P, S, E> {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.cx.now_ns()
    }

    #[inline]
    fn take(&mut self) -> u32 {
        let Some(at) = self.slab.pop_front(self.fifo) else { return NIL };
        self.counters.sub_queued(self.slab.slot(at).len);
        at
    }

    #[inline]
    fn backlog_bytes(&self) -> u32 {
        self.counters.backlog_bytes
    }

    #[inline]
    fn len_and_stamp(&self, at: u32) -> (u32, u32) {
        let slot = self.slab.slot(at);
        (slot.len, slot.meta)
    }

    fn try_mark_ce(&mut self, at: u32) -> bool {
        self.slab.slot_mut(at).packet.as_mut().is_some_and(P::try_mark_ce)
    }

    fn ds_field(&self, at: u32) -> Option<u8> {
        self.slab.slot(at).packet.as_ref()?.ds_field()
    }

    fn discard(&mut self, at: u32) {
        self.counters.count_drops(1);
        match &mut self.freed_late {
            Some(list) => self.slab.push_front(list, at),
            None => {
                if let Some(packet) = self.slab.remove(at) {
                    self.cx.dropped(packet, DropReason::Codel);
                }
            }
        }
    }
}
