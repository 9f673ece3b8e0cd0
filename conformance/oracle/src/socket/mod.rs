//! Sockets, and congestion controls attached to them.

/// A socket of the world, to be named in a [`crate::PacketSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRef {
    pub(crate) address: u64,
}
