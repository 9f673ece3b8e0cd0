use super::config::frame_bytes;
use super::queue::Queue;
use super::{Config, Parameters};
use crate::{
    CapacityError, ConfigError, Counters, DropReason, Environment, Heap, Packet, Qdisc, Setup, Storage, Verdict,
};

/// The `bfifo` qdisc: a limit in bytes, an arriving packet which does not fit is dropped.
///
/// Memory: 16 bytes and the packet itself per packet slot. Fixed storage drops also when its slots are full.
pub struct Bfifo<P, S: Storage = Heap> {
    queue: Queue<P, S>,
    frame_bytes: u32,
    can_bypass: bool,
}

#[cfg(feature = "alloc")]
impl<P: Packet> Bfifo<P> {
    /// A bfifo on the heap, from a [`Config`] or a [`Setup`].
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> Bfifo<P, S> {
    /// A bfifo in the given storage; any fixed storage will do.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        let frame_bytes = frame_bytes(&host);
        let limit = config.limit.unwrap_or(host.tx_queue_len.wrapping_mul(frame_bytes));
        // Room for a limit of full-sized packets, if the storage can be chosen at all.
        let full_sized = (limit / frame_bytes.max(1)) as usize;
        let queue = Queue::new(limit, full_sized)
            .or_else(|CapacityError { capacity, .. }| Queue::new(limit, capacity))
            .map_err(|_| super::config::too_many("bfifo", limit))?;
        Ok(Self { queue, frame_bytes, can_bypass: limit >= frame_bytes })
    }

    /// Changes the limit while running. Packets above a lowered limit stay.
    pub fn change(&mut self, config: &Config) {
        self.queue.limit = config.limit.unwrap_or(self.queue.limit);
        self.can_bypass = self.queue.limit >= self.frame_bytes;
    }

    /// The parameters in force.
    pub const fn parameters(&self) -> Parameters {
        Parameters { limit: self.queue.limit }
    }

    /// Bytes this instance takes: itself and the packet slots it has made so far.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.queue.memory_bytes()
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for Bfifo<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bfifo")
            .field("limit", &self.queue.limit)
            .field("counters", &self.queue.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for Bfifo<P, S> {
    #[inline]
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        let len = packet.len_bytes();
        if u64::from(self.queue.counters.backlog_bytes) + u64::from(len) <= u64::from(self.queue.limit) {
            return self.queue.push(packet, cx);
        }
        let why = if len > self.queue.limit { DropReason::TooBig } else { DropReason::TailDrop };
        self.queue.refuse(packet, why, cx)
    }

    #[inline]
    fn dequeue<E: Environment<P> + ?Sized>(&mut self, _: &mut E) -> Option<P> {
        self.queue.pop()
    }

    /// The real head: nothing is parked.
    fn peek<E: Environment<P> + ?Sized>(&mut self, _: &mut E) -> Option<&P> {
        self.queue.head()
    }

    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, _: &mut E) -> Option<P> {
        self.queue.pop()
    }

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        self.queue.reset(cx);
    }

    fn counters(&self) -> &Counters {
        &self.queue.counters
    }

    fn can_bypass(&self) -> bool {
        self.can_bypass
    }
}
