use crate::{ConfigError, Configure, Host};

/// Options of `tc … dualpi2`. An option left `None` keeps its default at creation and its value at a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets in both queues, at least 1; default 10000. Setting it sets `memlimit` to twice as many MTUs.
    pub limit: Option<u32>,
    /// `memlimit`: bytes, at least 1; default from `limit`.
    pub memlimit_bytes: Option<u32>,
    /// `target`: delay of the classic queue aimed at, µs; default 15 ms.
    pub target_us: Option<u32>,
    /// `tupdate`: period of the probability update, µs, at least 1; default 16 ms.
    pub tupdate_us: Option<u32>,
    /// `alpha`: integral gain, Hz · 256, 1 to 2^31 − 1; default 41, tc's 0.16 Hz.
    pub alpha_hz_256: Option<u32>,
    /// `beta`: proportional gain, Hz · 256, 1 to 2^31 − 1; default 819, tc's 3.2 Hz.
    pub beta_hz_256: Option<u32>,
    /// `step_thresh`: low-latency packets are marked above it; default 1 ms.
    pub step_thresh: Option<StepThreshold>,
    /// `min_qlen_step`: the step applies to packets that find as many packets in the low-latency queue; default 0.
    pub min_qlen_step: Option<u32>,
    /// `coupling_factor`: low-latency packets are marked that many times more often, at least 1; default 2.
    pub coupling_factor: Option<u8>,
    /// `drop_on_overload` (true) or `overflow` (false): what happens when the low-latency probability reaches 1;
    /// default `drop_on_overload`.
    pub drop_on_overload: Option<bool>,
    /// `drop_enqueue` (true) or `drop_dequeue` (false): where the AQM acts; default `drop_dequeue`.
    pub drop_early: Option<bool>,
    /// `classic_protection`: the classic queue's weight, percent, 0 to 100; default 10.
    pub classic_protection_percent: Option<u8>,
    /// `l4s_ect` (1) or `any_ect` (3): ECN bits of which one selects the low-latency queue, 1 to 3; default 1.
    pub ecn_mask: Option<u8>,
    /// `split_gso` / `no_split_gso`: cut GSO packets into segments on arrival; default on.
    pub split_gso: Option<bool>,
}

impl Configure for Config {}

/// The threshold of the low-latency queue's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepThreshold {
    /// Sojourn time, µs.
    Time(u32),
    /// Packets left in the low-latency queue.
    Packets(u32),
}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Packets.
    pub limit: u32,
    /// Bytes.
    pub memlimit_bytes: u32,
    /// µs.
    pub target_us: u32,
    /// µs.
    pub tupdate_us: u32,
    /// Hz · 256; 41 reads back as 40.
    pub alpha_hz_256: u32,
    /// Hz · 256; 819 reads back as 818.
    pub beta_hz_256: u32,
    /// Low-latency packets are marked above it.
    pub step_thresh: StepThreshold,
    /// Packets.
    pub min_qlen_step: u32,
    /// Low-latency to classic probability (square root).
    pub coupling_factor: u8,
    /// Drops when overloaded.
    pub drop_on_overload: bool,
    /// Acts at enqueue.
    pub drop_early: bool,
    /// Percent.
    pub classic_protection_percent: u8,
    /// ECN bits.
    pub ecn_mask: u8,
    /// Cuts GSO packets.
    pub split_gso: bool,
}

/// The parameters as they are used (spec/dualpi2.md §1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    pub(super) limit: u32,
    pub(super) memory_limit: u32,
    pub(super) target_ns: u64,
    pub(super) tupdate_ns: u32,
    /// Gains, scaled by [`gain`].
    pub(super) alpha: u32,
    pub(super) beta: u32,
    /// Nanoseconds or packets.
    pub(super) step_thresh: u32,
    pub(super) step_in_packets: bool,
    pub(super) min_qlen_step: u32,
    pub(super) coupling: u8,
    pub(super) drop_on_overload: bool,
    pub(super) drop_early: bool,
    /// The classic queue's weight, percent; the low-latency queue has the rest.
    pub(super) classic_weight: u8,
    pub(super) ecn_mask: u8,
    pub(super) split_gso: bool,
    /// The device's MTU with link header, 1 to 2^20.
    pub(super) mtu: u32,
}

/// Hz · 256 to the gain that is multiplied with nanoseconds.
fn gain(hz_256: u32) -> u32 {
    (((u64::from(hz_256) * u64::from(u32::MAX)) >> 2) / 1_000_000_000) as u32
}

/// A gain to the Hz · 256 that Linux reports.
fn gain_to_hz_256(gain: u32) -> u32 {
    (((u64::from(gain) * 1_000_000_000) << 2) / u64::from(u32::MAX)) as u32
}

/// Microseconds to nanoseconds, at most 2^32 − 1.
fn short_ns(us: u32) -> u32 {
    us.saturating_mul(1000)
}

impl Law {
    pub(super) fn new(host: &Host) -> Self {
        let mut law = Self {
            limit: 0,
            memory_limit: 0,
            target_ns: 15_000_000,
            tupdate_ns: 16_000_000,
            alpha: gain(41),
            beta: gain(819),
            step_thresh: 1_000_000,
            step_in_packets: false,
            min_qlen_step: 0,
            coupling: 2,
            drop_on_overload: true,
            drop_early: false,
            classic_weight: 10,
            ecn_mask: 1,
            split_gso: true,
            mtu: host.frame_bytes().max(1),
        };
        law.set_limit(10_000);
        law
    }

    fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        self.memory_limit = limit.saturating_mul(2).saturating_mul(self.mtu);
    }

    /// Replaces what is given, in Linux's order: `memlimit` after the `limit` that would recompute it.
    pub(super) fn apply(&mut self, config: &Config) {
        if let Some(limit) = config.limit {
            self.set_limit(limit);
        }
        self.memory_limit = config.memlimit_bytes.unwrap_or(self.memory_limit);
        self.target_ns = config.target_us.map_or(self.target_ns, |us| u64::from(us) * 1000);
        self.tupdate_ns = config.tupdate_us.map_or(self.tupdate_ns, short_ns);
        self.alpha = config.alpha_hz_256.map_or(self.alpha, gain);
        self.beta = config.beta_hz_256.map_or(self.beta, gain);
        (self.step_in_packets, self.step_thresh) = match config.step_thresh {
            Some(StepThreshold::Time(us)) => (false, short_ns(us)),
            Some(StepThreshold::Packets(packets)) => (true, packets),
            None => (self.step_in_packets, self.step_thresh),
        };
        self.min_qlen_step = config.min_qlen_step.unwrap_or(self.min_qlen_step);
        self.coupling = config.coupling_factor.unwrap_or(self.coupling);
        self.drop_on_overload = config.drop_on_overload.unwrap_or(self.drop_on_overload);
        self.drop_early = config.drop_early.unwrap_or(self.drop_early);
        self.classic_weight = config.classic_protection_percent.unwrap_or(self.classic_weight);
        self.ecn_mask = config.ecn_mask.unwrap_or(self.ecn_mask);
        self.split_gso = config.split_gso.unwrap_or(self.split_gso);
    }

    pub(super) const fn low_latency_weight(&self) -> u8 {
        100 - self.classic_weight
    }

    /// The scheduler's credit when both queues are empty.
    pub(super) const fn credit_init(&self) -> i32 {
        (self.mtu as i32).wrapping_mul(self.classic_weight as i32 - self.low_latency_weight() as i32)
    }

    /// What Linux reports.
    pub(super) fn parameters(&self) -> Parameters {
        Parameters {
            limit: self.limit,
            memlimit_bytes: self.memory_limit,
            target_us: (self.target_ns / 1000) as u32,
            tupdate_us: self.tupdate_ns / 1000,
            alpha_hz_256: gain_to_hz_256(self.alpha),
            beta_hz_256: gain_to_hz_256(self.beta),
            step_thresh: match self.step_in_packets {
                true => StepThreshold::Packets(self.step_thresh),
                false => StepThreshold::Time(self.step_thresh / 1000),
            },
            min_qlen_step: self.min_qlen_step,
            coupling_factor: self.coupling,
            drop_on_overload: self.drop_on_overload,
            drop_early: self.drop_early,
            classic_protection_percent: self.classic_weight,
            ecn_mask: self.ecn_mask,
            split_gso: self.split_gso,
        }
    }
}

pub(super) const fn refuse(option: &'static str, value: u64, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "dualpi2", option, value, allowed }
}

impl Config {
    /// Refuses what Linux refuses, before anything is changed.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let within = |option, value: Option<u32>, min: u32, max: u32, allowed| match value {
            Some(value) if !(min..=max).contains(&value) => Err(refuse(option, value.into(), allowed)),
            _ => Ok(()),
        };
        const GAIN_MAX: u32 = i32::MAX as u32;
        within("limit", self.limit, 1, u32::MAX, "at least 1 packet")?;
        within("memlimit", self.memlimit_bytes, 1, u32::MAX, "at least 1 byte")?;
        within("tupdate", self.tupdate_us, 1, u32::MAX, "at least 1 µs")?;
        within("alpha", self.alpha_hz_256, 1, GAIN_MAX, "1 to 2147483647, in 1/256 Hz")?;
        within("beta", self.beta_hz_256, 1, GAIN_MAX, "1 to 2147483647, in 1/256 Hz")?;
        within("coupling_factor", self.coupling_factor.map(u32::from), 1, 255, "at least 1")?;
        within("classic_protection", self.classic_protection_percent.map(u32::from), 0, 100, "0 to 100 percent")?;
        within("l4s_ect", self.ecn_mask.map(u32::from), 1, 3, "an ECN mask of 1 to 3")
    }
}
