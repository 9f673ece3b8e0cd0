use crate::slab::{Fifo, Slab};
use crate::{CapacityError, Counters, DropReason, Environment, Packet, Storage, Verdict};

/// What the three FIFOs share: the packets in order, the counters, and the limit.
pub(super) struct Queue<P, S: Storage> {
    slab: Slab<P, (), S>,
    fifo: Fifo,
    pub(super) counters: Counters,
    pub(super) limit: u32,
}

impl<P: Packet, S: Storage> Queue<P, S> {
    /// Room for `packets` packets at once.
    pub(super) fn new(limit: u32, packets: usize) -> Result<Self, CapacityError> {
        Ok(Self { slab: Slab::new(packets)?, fifo: Fifo::EMPTY, counters: Counters::default(), limit })
    }

    #[inline]
    pub(super) fn push<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        let len = packet.len_bytes();
        match self.slab.insert(packet, len, ()) {
            Ok(at) => {
                self.slab.push_back(&mut self.fifo, at);
                self.counters.add_queued(len);
                Verdict::Queued
            }
            Err(packet) => self.refuse(packet, DropReason::StorageFull, cx),
        }
    }

    #[cold]
    pub(super) fn refuse<E: Environment<P> + ?Sized>(&mut self, packet: P, why: DropReason, cx: &mut E) -> Verdict {
        self.counters.count_drops(1);
        cx.dropped(packet, why);
        Verdict::Dropped
    }

    /// Takes the head off the queue without counting it as sent.
    #[inline]
    pub(super) fn take(&mut self) -> Option<P> {
        let at = self.slab.pop_front(&mut self.fifo)?;
        self.counters.sub_queued(self.slab.slot(at).len);
        self.slab.remove(at)
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<P> {
        let packet = self.take()?;
        self.counters.count_sent(packet.len_bytes(), packet.gso().segments);
        Some(packet)
    }

    #[inline]
    pub(super) fn head(&self) -> Option<&P> {
        self.slab.slot(self.fifo.head()?).packet.as_ref()
    }

    pub(super) fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        while let Some(packet) = self.take() {
            cx.dropped(packet, DropReason::Reset);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slab.memory_bytes()
    }
}
