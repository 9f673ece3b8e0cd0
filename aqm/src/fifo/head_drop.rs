use super::config::too_many;
use super::queue::Queue;
use super::{Config, Parameters};
use crate::{
    ConfigError, Counters, DropReason, Environment, Heap, Packet, Qdisc, Setup, Storage, TreeCorrection, Verdict,
};

/// The `pfifo_head_drop` qdisc: a limit in packets, the oldest packet makes room for an arriving one.
///
/// Memory: 16 bytes and the packet itself per packet slot.
pub struct PfifoHeadDrop<P, S: Storage = Heap> {
    queue: Queue<P, S>,
    can_bypass: bool,
}

#[cfg(feature = "alloc")]
impl<P: Packet> PfifoHeadDrop<P> {
    /// A pfifo_head_drop on the heap, from a [`Config`] or a [`Setup`].
    pub fn new(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        Self::in_storage(setup)
    }
}

impl<P: Packet, S: Storage> PfifoHeadDrop<P, S> {
    /// A pfifo_head_drop in the given storage. Fixed storage must hold `limit` packets.
    pub fn in_storage(setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, host, .. } = setup.into();
        let limit = config.limit.unwrap_or(host.tx_queue_len);
        let queue = Queue::new(limit, limit as usize).map_err(|_| too_many("pfifo_head_drop", limit))?;
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

    /// Drops the head and appends the packet. The parent adds nothing for a packet that met congestion, so it is
    /// told of the difference of the two lengths.
    #[cold]
    fn replace_head<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        let before = self.queue.counters.backlog_bytes;
        if let Some(head) = self.queue.take() {
            self.queue.counters.count_drops(1);
            cx.dropped(head, DropReason::OverLimit);
        }
        if self.queue.push(packet, cx) != Verdict::Queued {
            return Verdict::Dropped;
        }
        let bytes = before.wrapping_sub(self.queue.counters.backlog_bytes) as i32;
        cx.correct_tree(TreeCorrection { packets: 0, bytes, emptied: false });
        Verdict::Congested
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for PfifoHeadDrop<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PfifoHeadDrop")
            .field("limit", &self.queue.limit)
            .field("counters", &self.queue.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for PfifoHeadDrop<P, S> {
    #[inline]
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        if self.queue.counters.qlen < self.queue.limit {
            return self.queue.push(packet, cx);
        }
        if self.queue.limit == 0 {
            return self.queue.refuse(packet, DropReason::TailDrop, cx);
        }
        self.replace_head(packet, cx)
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
