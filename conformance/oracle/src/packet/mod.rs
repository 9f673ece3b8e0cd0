//! Packets: how a test describes one, and how it becomes a kernel socket buffer.

mod block;
mod gso;
mod layout;
mod spec;

pub(crate) use layout::Layout;
pub use spec::{ETH_HEADER, Gso, GsoType, Hash, PacketSpec, Vlan};

/// A packet inside the world, valid to inspect until the call after the one that gave it out of the qdisc
/// or freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRef {
    /// The caller's number from [`PacketSpec::id`]; segments carry their packet's.
    pub id: u64,
    pub(crate) address: u32,
    pub(crate) generation: u32,
}

impl PacketRef {
    /// A value that stands for "no packet" in the caller's tables.
    pub const NONE: PacketRef = PacketRef { id: u64::MAX, address: 0, generation: 0 };
}
