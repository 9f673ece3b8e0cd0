use super::config::too_many;
use super::queue::Queue;
use super::{Config, Parameters};
use crate::{ConfigError, Counters, DropReason, Environment, Heap, Packet, Qdisc, Setup, Storage, Verdict};

/// The `pfifo` qdisc: a limit in packets, arriving packets are dropped when it is full.
///
/// Memory: 16 bytes and the packet itself per packet slot.
pub struct Pfifo<P, S: Storage = Heap> {
    queue: Queue<P, S>,
    can_bypass: bool,
}

#[cfg(feature = "alloc")]
impl<P: Packet> Pfifo<P> {
    /// A pfifo on the heap, from a [`Config`] or a [`Setup`].
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> Pfifo<P, S> {
    /// A pfifo in the given storage. Fixed storage must hold `limit` packets.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        let limit = config.limit.unwrap_or(host.tx_queue_len);
        let queue = Queue::new(limit, limit as usize).map_err(|_| too_many("pfifo", limit))?;
        Ok(Self { queue, can_bypass: limit >= 1 })
    }

    /// Changes the limit while running. Packets above a lowered limit stay.
    pub fn change(&mut self, config: &Config) {
        self.queue.limit = config.limit.unwrap_or(self.queue.limit);
        self.can_bypass = self.queue.limit >= 1;
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

impl<P: Packet, S: Storage> core::fmt::Debug for Pfifo<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pfifo")
            .field("limit", &self.queue.limit)
            .field("counters", &self.queue.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for Pfifo<P, S> {
    #[inline]
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        if self.queue.counters.qlen < self.queue.limit {
            return self.queue.push(packet, cx);
        }
        self.queue.refuse(packet, DropReason::TailDrop, cx)
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
