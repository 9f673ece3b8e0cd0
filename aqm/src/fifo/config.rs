use crate::{ConfigError, Configure, Host};

/// Options of `tc … pfifo`, `bfifo` and `pfifo_head_drop`. An option left `None` keeps its default at creation and
/// its value at a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets, or bytes for bfifo. The default is the device's transmit queue length, for bfifo times its
    /// MTU with link header.
    pub limit: Option<u32>,
}

impl Configure for Config {}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Packets, or bytes for bfifo.
    pub limit: u32,
}

/// MTU and link header, bytes: what bfifo measures its limit against. Unlike the AQMs' it has no upper bound.
pub(super) const fn frame_bytes(host: &Host) -> u32 {
    host.mtu_bytes.wrapping_add(host.link_header_bytes)
}

/// What a fixed storage answers that cannot hold `limit` packets.
pub(super) fn too_many(qdisc: &'static str, limit: u32) -> ConfigError {
    ConfigError { qdisc, option: "limit", value: limit.into(), allowed: "at most the packets which the storage holds" }
}
