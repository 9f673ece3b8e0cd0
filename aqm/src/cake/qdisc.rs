use super::autorate::Autorate;
use super::cobalt::Law;
use super::config::refuse;
use super::heap::DropHeap;
use super::meta::Meta;
use super::overhead::LengthRecords;
use super::shaper::Shaper;
use super::storage::Storage;
use super::tin::Tin;
use super::tins::{Layout, MAX_TINS};
use super::{Config, Parameters};
use crate::slab::{Fifo, Slab};
use crate::{
    ConfigError, Counters, DropReason, Environment, Event, EventKind, Heap, Linux, Packet, Qdisc, Setup, Slots,
    TreeCorrection, Verdict,
};

/// The `cake` qdisc.
///
/// Memory: 86 KiB per tin in use with host isolation, 74 KiB without (64 bytes and 10 bytes of rows per queue, 12 bytes
/// per host slot), 16 KiB for the drop heap, and 24 bytes and the packet itself per packet slot; see
/// [`Cake::memory_bytes`].
pub struct Cake<P, S: Storage = Heap> {
    pub(super) slab: Slab<P, Meta, S>,
    pub(super) tins: S::Tins<Tin<S>>,
    /// Tins that have their queues.
    pub(super) made_tins: usize,
    pub(super) heap: DropHeap<S>,
    pub(super) layout: &'static Layout,
    pub(super) parameters: Parameters,
    /// Where the lowest bit of the `fwmark` mask stands.
    pub(super) mark_shift: u32,
    pub(super) linux: Linux,
    pub(super) law: Law,
    pub(super) frame_bytes: u32,
    pub(super) handle: u32,
    pub(super) shaper: Shaper,
    pub(super) lengths: LengthRecords,
    pub(super) autorate: Autorate,
    pub(super) counters: Counters,
    pub(super) memory: Memory,
    /// The scan position: where an unlimited cake goes on. Can be a tin that is not in use.
    pub(super) current_tin: u16,
    pub(super) current_queue: u16,
    /// Packets dropped in this call which Linux frees after it, newest first.
    pub(super) freed_late: Fifo,
    /// Are packets dropped by a dequeue freed only after it?
    pub(super) frees_late: bool,
    pub(super) timer_ns: Option<i64>,
    pub(super) parked: Option<P>,
    pub(super) sharing: Sharing,
}

/// Memory charged to queued packets, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Now.
    pub used: u32,
    /// The most so far.
    pub peak: u32,
    /// The limit; one packet, or the segments of one, may exceed it for a moment.
    pub limit: u32,
}

/// What a child of `cake_mq` knows of the others (spec/cake.md §19.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// When it last looked at the others, ns.
    pub last_check_ns: u64,
    /// When it last delivered a packet, ns.
    pub last_active_ns: u64,
    /// How many shared the bandwidth then.
    pub active: u32,
}

#[cfg(feature = "alloc")]
impl<P: Packet> Cake<P> {
    /// A cake on the heap, from a [`Config`] or a [`Setup`].
    ///
    /// # Errors
    ///
    /// None that Linux would not give; tc's bounds are the parser's.
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> Cake<P, S> {
    /// A cake in the given storage.
    ///
    /// # Errors
    ///
    /// A Diffserv mode with more tins than the storage has.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, linux, host } = setup.into();
        let mut parameters = Parameters::default();
        parameters.apply(&config);
        let no_room = |_| refuse("tins", S::TINS as u64, "only with a storage that holds them");
        let mut queue = Self {
            slab: Slab::new(0).map_err(no_room)?,
            tins: Slots::vacant(Tin::vacant),
            made_tins: 0,
            heap: DropHeap::new().map_err(no_room)?,
            layout: Layout::of(parameters.diffserv),
            parameters,
            mark_shift: 0,
            linux,
            law: Law::of(linux),
            frame_bytes: host.mtu_bytes.wrapping_add(host.link_header_bytes),
            handle: host.handle,
            shaper: Shaper::default(),
            lengths: LengthRecords::default(),
            autorate: Autorate { capacity: parameters.bandwidth, ..Autorate::default() },
            counters: Counters::default(),
            memory: Memory::default(),
            current_tin: 0,
            current_queue: 0,
            freed_late: Fifo::EMPTY,
            frees_late: linux >= Linux::V7_2 && host.is_root,
            timer_ns: None,
            parked: None,
            sharing: Sharing::default(),
        };
        queue.make_tins(&parameters)?;
        queue.derive();
        queue.leave_scan();
        Ok(queue)
    }

    /// Changes options while running; what is not given stays. Packets in tins that are no longer in use come back
    /// with [`DropReason::Change`].
    ///
    /// # Errors
    ///
    /// A Diffserv mode with more tins than the storage has. Nothing is changed then.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        let mut parameters = self.parameters;
        parameters.apply(config);
        self.make_tins(&parameters)?;
        self.parameters = parameters;
        if config.restarts_length_records() {
            self.lengths.restart();
        }
        self.reconfigure(cx);
        Ok(())
    }

    pub(super) fn arm(&mut self, at_ns: i64) {
        self.timer_ns = Some(at_ns);
    }

    /// Holds a packet that was looked at; it counts as queued.
    pub(super) fn park(&mut self, packet: Option<P>) {
        if let Some(packet) = &packet {
            self.counters.add_queued(packet.len_bytes());
        }
        self.parked = packet;
    }

    /// Lets the held packet go, if there is one.
    pub(super) fn unpark(&mut self) -> Option<P> {
        let packet = self.parked.take()?;
        self.counters.sub_queued(packet.len_bytes());
        Some(packet)
    }

    /// What the ancestors must take off their sums.
    #[inline]
    pub(super) fn notify<E: Environment<P> + ?Sized>(&self, packets: i32, bytes: u32, cx: &mut E) {
        cx.correct_tree(TreeCorrection { packets, bytes: bytes as i32, emptied: self.counters.qlen == 0 });
    }

    /// Hands back the packets that Linux frees at the end of a call.
    #[cold]
    pub(super) fn hand_back<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        let mut list = core::mem::replace(&mut self.freed_late, Fifo::EMPTY);
        while let Some(at) = self.slab.pop_front(&mut list) {
            let reason = self.slab.slot(at).meta.reason();
            if let Some(packet) = self.slab.remove(at) {
                cx.dropped(packet, reason);
            }
        }
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for Cake<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cake")
            .field("parameters", &self.parameters)
            .field("counters", &self.counters)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for Cake<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        let verdict = self.offer(packet, cx);
        if !self.freed_late.is_empty() {
            self.hand_back(cx);
        }
        verdict
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let now_ns = cx.now_ns();
        self.dequeue_at(now_ns, cx)
    }

    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        if self.parked.is_none() {
            let packet = self.dequeue(cx);
            self.park(packet);
        }
        self.parked.as_ref()
    }

    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        match self.unpark() {
            None => self.dequeue(cx),
            parked => parked,
        }
    }

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        for tin in 0..self.made_tins as u16 {
            self.purge(tin, DropReason::Reset, cx);
        }
        (self.current_tin, self.current_queue) = (MAX_TINS as u16 - 1, S::QUEUES as u16);
        self.counters.qlen = 0;
        self.counters.backlog_bytes = 0;
        if let Some(packet) = self.parked.take() {
            cx.dropped(packet, DropReason::Reset);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn next_event(&self) -> Option<Event> {
        Some(Event { at_ns: self.timer_ns?.max(0) as u64, kind: EventKind::Watchdog })
    }
}
