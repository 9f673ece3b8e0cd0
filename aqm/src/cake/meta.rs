use crate::DropReason;

/// What cake remembers of a queued packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meta {
    /// When it came, on the environment's clock.
    pub(super) enqueued_ns: i64,
    /// Its length with overhead, fixed when it came. Once it is dropped: why, see [`Meta::reason`].
    pub(super) adjusted_len: u32,
    /// Its memory charge.
    pub(super) truesize: u32,
}

/// The reasons of packets that wait to be handed back.
const REASONS: [DropReason; 4] =
    [DropReason::OverMemory, DropReason::StorageFull, DropReason::Codel, DropReason::Overload];

impl Meta {
    /// Notes why the packet was dropped, in the place of its adjusted length.
    pub(super) fn set_reason(&mut self, reason: DropReason) {
        self.adjusted_len = REASONS.iter().position(|&known| known == reason).unwrap_or(0) as u32;
    }

    /// Why it was dropped.
    pub(super) fn reason(&self) -> DropReason {
        REASONS[self.adjusted_len as usize % REASONS.len()]
    }
}
