use crate::Linux;

/// A configuration that Linux (or this crate's storage) refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{qdisc}: {option} {value}: {allowed}")]
pub struct ConfigError {
    /// The qdisc, by its tc name.
    pub qdisc: &'static str,
    /// The option, by its tc name.
    pub option: &'static str,
    /// The refused value.
    pub value: u64,
    /// What is allowed, in words.
    pub allowed: &'static str,
}

/// How jiffy timers fire (spec/common.md §2, "coarse timers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerModel {
    /// As Linux's timer wheel does: a periodic timer runs at least one jiffy late.
    #[default]
    KernelLike,
    /// Exactly at the nominal period.
    Nominal,
}

/// What a qdisc knows of the device it sits on and of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// The device's MTU, bytes without link header.
    pub mtu_bytes: u32,
    /// Link-layer header, bytes: 14 on Ethernet.
    pub link_header_bytes: u32,
    /// The device's transmit queue length, packets.
    pub tx_queue_len: u32,
    /// Jiffies per second; 250 on Debian.
    pub hz: u32,
    /// How jiffy timers fire.
    pub timers: TimerModel,
    /// The qdisc's handle, `major << 16`: a packet priority with this major part selects a class directly.
    pub handle: u32,
    /// Is the qdisc the root of its device queue? Decides, in 7.2, in which order one dequeue hands its drops back.
    pub is_root: bool,
    /// How far ahead of a packet's departure time the device takes it and waits itself, ns; 0 if it cannot. Bounds
    /// fq's `offload_horizon`.
    pub pacing_offload_ns: u64,
    /// The environment's clock when the qdisc is created: periodic timers count their first period from here. Left 0,
    /// the first update is due at once.
    pub created_ns: u64,
}

impl Host {
    /// MTU and link header together, as the qdiscs use it: at most 2^20 (spec/codel.md §1).
    pub(crate) const fn frame_bytes(&self) -> u32 {
        let sum = self.mtu_bytes.saturating_add(self.link_header_bytes);
        if sum > 1 << 20 { 1 << 20 } else { sum }
    }
}

impl Default for Host {
    /// An Ethernet device of a Debian host: MTU 1500, header 14, 1000 packets, HZ 250, handle `8001:`, root.
    fn default() -> Self {
        Self {
            mtu_bytes: 1500,
            link_header_bytes: 14,
            tx_queue_len: 1000,
            hz: 250,
            timers: TimerModel::KernelLike,
            handle: 0x8001_0000,
            is_root: true,
            pacing_offload_ns: 0,
            created_ns: 0,
        }
    }
}

/// A configuration together with the Linux version and the host: what a qdisc is made from.
///
/// A bare configuration converts into one with the newest Linux and a default [`Host`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup<C> {
    /// The qdisc's options.
    pub config: C,
    /// The Linux version to behave like.
    pub linux: Linux,
    /// Device and host.
    pub host: Host,
}

impl<C> Setup<C> {
    /// Behaves like this Linux version.
    pub fn behave_like(mut self, linux: Linux) -> Self {
        self.linux = linux;
        self
    }

    /// Sits on this host and device.
    pub fn on_host(mut self, host: Host) -> Self {
        self.host = host;
        self
    }
}

/// Turns a plain configuration into a [`Setup`].
pub trait Configure: Sized {
    /// Behaves like this Linux version.
    fn behave_like(self, linux: Linux) -> Setup<Self> {
        Setup { config: self, linux, host: Host::default() }
    }

    /// Sits on this host and device.
    fn on_host(self, host: Host) -> Setup<Self> {
        Setup { config: self, linux: Linux::default(), host }
    }
}

impl<C: Configure> From<C> for Setup<C> {
    fn from(config: C) -> Self {
        config.behave_like(Linux::default())
    }
}
