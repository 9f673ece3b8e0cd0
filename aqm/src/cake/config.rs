use crate::{ConfigError, Configure};

/// Options of `tc … cake`. An option left `None` keeps its default at creation and its value at a change.
///
/// ```
/// use debloat_aqm::cake::{Config, Diffserv, FlowMode};
///
/// // cake bandwidth 20mbit diffserv4 dual-srchost nat overhead 18 mpu 64 rtt 80ms
/// let config = Config {
///     bandwidth: Some(20_000_000 / 8),
///     diffserv: Some(Diffserv::Diffserv4),
///     flow_mode: Some(FlowMode::DUAL_SRCHOST),
///     nat: Some(true),
///     overhead_bytes: Some(18),
///     mpu_bytes: Some(64),
///     ..Config::default().rtt(80_000)
/// };
/// assert_eq!(config.target_us, Some(4_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `bandwidth`: bytes per second; 0 is `unlimited`, the default.
    pub bandwidth: Option<u64>,
    /// `autorate-ingress`: estimate the bandwidth from the arrivals; default off.
    pub autorate_ingress: Option<bool>,
    /// `rtt`: µs, raised to 1; default 100 ms. The keyword sets the target too: see [`Config::rtt`].
    pub rtt_us: Option<u32>,
    /// COBALT's target: µs, raised to 1; default 5 ms.
    pub target_us: Option<u32>,
    /// `diffserv3` … `precedence`; default diffserv3.
    pub diffserv: Option<Diffserv>,
    /// `flowblind` … `triple-isolate`; default triple-isolate.
    pub flow_mode: Option<FlowMode>,
    /// `nat`: look addresses up through [`Environment::conntrack`](crate::Environment::conntrack); default off.
    pub nat: Option<bool>,
    /// `wash`: clear the DSCP; default off.
    pub wash: Option<bool>,
    /// `split-gso`: queue the segments of GSO packets one by one; default on.
    pub split_gso: Option<bool>,
    /// `ack-filter`; default off.
    pub ack_filter: Option<AckFilter>,
    /// `memlimit`: bytes; 0, the default, derives it from bandwidth and rtt.
    pub memlimit_bytes: Option<u32>,
    /// `fwmark`: mask of the bits of the packet's mark that choose a tin; default 0, none.
    pub fwmark: Option<u32>,
    /// `ingress`: the shaper stands behind the bottleneck, so drops count as sent; default off.
    pub ingress: Option<bool>,
    /// `noatm`, `atm`, `ptm`; default noatm.
    pub framing: Option<Framing>,
    /// `overhead`: bytes per packet, of which Linux keeps 16 bits. Lengths then count from the network header.
    pub overhead_bytes: Option<i32>,
    /// `mpu`: least bytes per packet, of which Linux keeps 16 bits; default 0.
    pub mpu_bytes: Option<u32>,
    /// `raw`: lengths count from the link header (the default); wins over `overhead_bytes`.
    pub raw: bool,
}

impl Configure for Config {}

impl Config {
    /// `rtt`, as the tc keyword sets it: the interval, and a twentieth of it as target. Both in µs.
    #[must_use]
    pub const fn rtt(mut self, us: u32) -> Self {
        self.rtt_us = Some(us);
        self.target_us = Some(if us < 20 { 1 } else { us / 20 });
        self
    }
}

/// How traffic is divided into tins by its Diffserv code point (spec/cake.md §6.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Diffserv {
    /// Best effort, bulk and voice.
    #[default]
    Diffserv3,
    /// Best effort, bulk, video and voice.
    Diffserv4,
    /// Eight tins after the Diffserv classes.
    Diffserv8,
    /// One tin for all.
    Besteffort,
    /// Eight tins by the three upper bits, as in RFC 791.
    Precedence,
    /// A number that no tc keyword has; works as diffserv3 and reads back as it is.
    Unknown(u8),
}

impl Diffserv {
    /// What the netlink attribute's value means; Linux keeps its low 8 bits.
    pub const fn from_attribute(value: u32) -> Self {
        match value as u8 {
            0 => Self::Diffserv3,
            1 => Self::Diffserv4,
            2 => Self::Diffserv8,
            3 => Self::Besteffort,
            4 => Self::Precedence,
            other => Self::Unknown(other),
        }
    }

    /// The netlink attribute's value.
    pub const fn attribute(self) -> u8 {
        match self {
            Self::Diffserv3 => 0,
            Self::Diffserv4 => 1,
            Self::Diffserv8 => 2,
            Self::Besteffort => 3,
            Self::Precedence => 4,
            Self::Unknown(other) => other,
        }
    }
}

/// What is isolated from what (spec/cake.md §9.1): a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowMode(u8);

impl FlowMode {
    /// One queue for all.
    pub const FLOWBLIND: Self = Self(0);
    /// A queue per source host.
    pub const SRCHOST: Self = Self(1);
    /// A queue per destination host.
    pub const DSTHOST: Self = Self(2);
    /// A queue per pair of hosts.
    pub const HOSTS: Self = Self(3);
    /// A queue per flow.
    pub const FLOWS: Self = Self(4);
    /// A queue per flow, fair between source hosts.
    pub const DUAL_SRCHOST: Self = Self(5);
    /// A queue per flow, fair between destination hosts.
    pub const DUAL_DSTHOST: Self = Self(6);
    /// A queue per flow, fair between source and destination hosts.
    pub const TRIPLE_ISOLATE: Self = Self(7);

    /// What the netlink attribute's value means; Linux keeps its low 6 bits, of which three have a meaning.
    pub const fn from_attribute(value: u32) -> Self {
        Self(value as u8 & 63)
    }

    /// The netlink attribute's value.
    pub const fn attribute(self) -> u8 {
        self.0
    }

    pub(super) const fn source_host(self) -> bool {
        self.0 & 1 != 0
    }

    pub(super) const fn destination_host(self) -> bool {
        self.0 & 2 != 0
    }

    pub(super) const fn flows(self) -> bool {
        self.0 & 4 != 0
    }

    /// Is the load of source hosts counted?
    pub(super) const fn source_fairness(self) -> bool {
        self.0 & 5 == 5
    }

    /// Is the load of destination hosts counted?
    pub(super) const fn destination_fairness(self) -> bool {
        self.0 & 6 == 6
    }
}

impl Default for FlowMode {
    fn default() -> Self {
        Self::TRIPLE_ISOLATE
    }
}

/// What the link adds to each packet besides the fixed overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Nothing.
    #[default]
    None,
    /// ATM cells of 53 bytes, of which 48 carry data.
    Atm,
    /// PTM: one byte in 65.
    Ptm,
    /// A number that no tc keyword has; works as none and reads back as it is.
    Unknown(u8),
}

impl Framing {
    /// What the netlink attribute's value means; Linux keeps its low 8 bits.
    pub const fn from_attribute(value: u32) -> Self {
        match value as u8 {
            0 => Self::None,
            1 => Self::Atm,
            2 => Self::Ptm,
            other => Self::Unknown(other),
        }
    }

    /// The netlink attribute's value.
    pub const fn attribute(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Atm => 1,
            Self::Ptm => 2,
            Self::Unknown(other) => other,
        }
    }
}

/// Whether redundant ACKs are removed (spec/cake.md §13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckFilter {
    /// Never.
    #[default]
    Off,
    /// An ACK with two newer ones behind it.
    Normal,
    /// An ACK with one newer behind it.
    Aggressive,
    /// A number that no tc keyword has; works as normal and reads back as it is.
    Unknown(u8),
}

impl AckFilter {
    /// What the netlink attribute's value means; Linux keeps its low 8 bits.
    pub const fn from_attribute(value: u32) -> Self {
        match value as u8 {
            0 => Self::Off,
            1 => Self::Normal,
            2 => Self::Aggressive,
            other => Self::Unknown(other),
        }
    }

    /// The netlink attribute's value.
    pub const fn attribute(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Normal => 1,
            Self::Aggressive => 2,
            Self::Unknown(other) => other,
        }
    }
}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes per second, 0 for unlimited; under `autorate-ingress` the estimate.
    pub bandwidth: u64,
    /// Is the bandwidth estimated?
    pub autorate_ingress: bool,
    /// µs.
    pub rtt_us: u32,
    /// µs; what the tins make of it is in their statistics.
    pub target_us: u32,
    /// The Diffserv mode.
    pub diffserv: Diffserv,
    /// The isolation mode.
    pub flow_mode: FlowMode,
    /// Are addresses looked up in connection tracking?
    pub nat: bool,
    /// Is the DSCP cleared?
    pub wash: bool,
    /// Are GSO packets split?
    pub split_gso: bool,
    /// The ACK filter.
    pub ack_filter: AckFilter,
    /// As configured: 0 if derived.
    pub memlimit_bytes: u32,
    /// Mask on the packet's mark.
    pub fwmark: u32,
    /// Do drops count as sent?
    pub ingress: bool,
    /// The link's framing.
    pub framing: Framing,
    /// Bytes per packet.
    pub overhead_bytes: i16,
    /// Least bytes per packet.
    pub mpu_bytes: u16,
    /// Do lengths count from the link header, not the network header?
    pub raw: bool,
}

impl Default for Parameters {
    /// tc's defaults (spec/cake.md §6.3).
    fn default() -> Self {
        Self {
            bandwidth: 0,
            autorate_ingress: false,
            rtt_us: 100_000,
            target_us: 5_000,
            diffserv: Diffserv::Diffserv3,
            flow_mode: FlowMode::TRIPLE_ISOLATE,
            nat: false,
            wash: false,
            split_gso: true,
            ack_filter: AckFilter::Off,
            memlimit_bytes: 0,
            fwmark: 0,
            ingress: false,
            framing: Framing::None,
            overhead_bytes: 0,
            mpu_bytes: 0,
            raw: true,
        }
    }
}

impl Parameters {
    /// Takes over what is given (spec/cake.md §6.2).
    pub(super) fn apply(&mut self, config: &Config) {
        let set = |to: &mut bool, from: Option<bool>| *to = from.unwrap_or(*to);
        self.bandwidth = config.bandwidth.unwrap_or(self.bandwidth);
        set(&mut self.autorate_ingress, config.autorate_ingress);
        self.rtt_us = config.rtt_us.map_or(self.rtt_us, |us| us.max(1));
        self.target_us = config.target_us.map_or(self.target_us, |us| us.max(1));
        self.diffserv = config.diffserv.unwrap_or(self.diffserv);
        self.flow_mode = config.flow_mode.unwrap_or(self.flow_mode);
        set(&mut self.nat, config.nat);
        set(&mut self.wash, config.wash);
        set(&mut self.split_gso, config.split_gso);
        self.ack_filter = config.ack_filter.unwrap_or(self.ack_filter);
        self.memlimit_bytes = config.memlimit_bytes.unwrap_or(self.memlimit_bytes);
        self.fwmark = config.fwmark.unwrap_or(self.fwmark);
        set(&mut self.ingress, config.ingress);
        self.framing = config.framing.unwrap_or(self.framing);
        if let Some(bytes) = config.overhead_bytes {
            self.overhead_bytes = bytes as i16;
            self.raw = false;
        }
        self.mpu_bytes = config.mpu_bytes.map_or(self.mpu_bytes, |bytes| bytes as u16);
        self.raw |= config.raw;
    }

    /// Bytes of memory that queued packets may be charged (§6.7), on a device whose frames have `frame_bytes`.
    pub(super) fn memory_limit(&self, frame_bytes: u32) -> u32 {
        let wanted = match (self.memlimit_bytes, self.bandwidth) {
            (0, 0) => u32::MAX,
            (0, rate) => ((rate.wrapping_mul(u64::from(self.rtt_us)) / 250_000) as u32).max(4 << 20),
            (bytes, _) => bytes,
        };
        wanted.min(frame_bytes.wrapping_mul(10_240).max(self.memlimit_bytes))
    }
}

impl Config {
    /// Does this change what lengths mean, so that their records start anew?
    pub(super) const fn restarts_length_records(&self) -> bool {
        self.overhead_bytes.is_some() || self.raw
    }
}

pub(super) const fn refuse(option: &'static str, value: u64, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "cake", option, value, allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec/cake.md §23.3.
    #[test]
    fn memory_limits() {
        for (bandwidth, rtt_us, memlimit_bytes, expected) in [
            (0, 100_000, 0, 15_503_360),
            (125_000, 100_000, 0, 4_194_304),
            (2_500_000, 100_000, 0, 4_194_304),
            (12_500_000, 100_000, 0, 5_000_000),
            (12_500_000, 1_000_000, 0, 15_503_360),
            (12_500_000, 100_000, 1_000_000, 1_000_000),
            (12_500_000, 100_000, 67_108_864, 67_108_864),
            (1_250_000_000, 1_000_000, 0, 15_503_360),
        ] {
            let parameters = Parameters { bandwidth, rtt_us, memlimit_bytes, ..Parameters::default() };
            assert_eq!(parameters.memory_limit(1514), expected, "{bandwidth} B/s, {rtt_us} µs, {memlimit_bytes} B");
        }
    }

    #[test]
    fn overhead_and_raw() {
        let mut parameters = Parameters::default();
        parameters.apply(&Config { overhead_bytes: Some(0x1_0012), ..Config::default() });
        assert_eq!((parameters.overhead_bytes, parameters.raw), (18, false));
        parameters.apply(&Config { overhead_bytes: Some(-64), raw: true, ..Config::default() });
        assert_eq!((parameters.overhead_bytes, parameters.raw), (-64, true));
        parameters.apply(&Config { mpu_bytes: Some(0x1_0040), ..Config::default() });
        assert_eq!((parameters.mpu_bytes, parameters.raw), (64, true), "a change keeps what it does not mention");
    }

    #[test]
    fn attributes_keep_their_low_bits() {
        assert_eq!(Diffserv::from_attribute(0x103), Diffserv::Besteffort);
        assert_eq!(Diffserv::from_attribute(9).attribute(), 9);
        assert_eq!(FlowMode::from_attribute(0xff).attribute(), 63);
        assert_eq!(Framing::from_attribute(0x102), Framing::Ptm);
        assert_eq!(AckFilter::from_attribute(0x105).attribute(), 5);
    }
}
