use crate::pie::{self, MAX_PROBABILITY};
use crate::{ConfigError, Configure, Host};

/// Options of `tc … fq_pie`. An option left `None` keeps its default at creation and its value at a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets; default 10240.
    pub limit: Option<u32>,
    /// `flows`: buckets, 1 to 65536, only at creation; default 1024.
    pub flows: Option<u32>,
    /// `target`: delay aimed at, µs; default 15 ms.
    pub target_us: Option<u32>,
    /// `tupdate`: period of the probability update, µs, rounded up to jiffies; default 15 ms. 0 stops the updates.
    pub tupdate_us: Option<u32>,
    /// `alpha`: weight of the delay's distance from the target; default 2. tc allows 0 to 32.
    pub alpha: Option<u32>,
    /// `beta`: weight of the delay's change; default 20. tc allows 0 to 32.
    pub beta: Option<u32>,
    /// `quantum`: bytes, 1 to 2^20, raised to 256; default the device's MTU with link header.
    pub quantum_bytes: Option<u32>,
    /// `memory_limit`: bytes; default 32 MiB. Exceeding it only counts, nothing is dropped for it.
    pub memory_limit_bytes: Option<u32>,
    /// `ecn_prob`: marks up to this probability, percent; default 10.
    pub ecn_prob_percent: Option<u32>,
    /// `ecn` / `noecn`: mark ECN-capable packets instead of dropping, up to `ecn_prob`; default off.
    pub ecn: Option<bool>,
    /// `bytemode`: a packet smaller than the MTU is dropped with proportionally smaller probability; default off.
    pub bytemode: Option<bool>,
    /// `dq_rate_estimator`: estimate the delay from the departure rate instead of from timestamps; default off.
    pub dq_rate_estimator: Option<bool>,
}

impl Configure for Config {}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The options shared with pie; `limit` is the whole qdisc's.
    pub pie: pie::Parameters,
    /// Buckets.
    pub flows: u32,
    /// Bytes.
    pub quantum_bytes: u32,
    /// Bytes.
    pub memory_limit_bytes: u32,
    /// Percent.
    pub ecn_prob_percent: u32,
}

/// What is not the controllers': limits and the round robin (spec/fq_pie.md §1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) limit: u32,
    pub(super) quantum: u32,
    pub(super) memory_limit: u32,
    pub(super) ecn_prob: u32,
}

impl Limits {
    pub(super) fn new(host: &Host) -> Self {
        Self { limit: 10240, quantum: host.frame_bytes().max(256), memory_limit: 32 << 20, ecn_prob: 10 }
    }

    pub(super) fn apply(&mut self, config: &Config) {
        self.limit = config.limit.unwrap_or(self.limit);
        self.quantum = config.quantum_bytes.map_or(self.quantum, |bytes| bytes.max(256));
        self.memory_limit = config.memory_limit_bytes.unwrap_or(self.memory_limit);
        self.ecn_prob = config.ecn_prob_percent.unwrap_or(self.ecn_prob);
    }

    /// The largest probability at which packets are marked: a hundredth first, truncated, and then times percent.
    pub(super) const fn mark_up_to(&self) -> u64 {
        (MAX_PROBABILITY / 100).wrapping_mul(self.ecn_prob as u64)
    }
}

pub(super) const fn refuse(option: &'static str, value: u64, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "fq_pie", option, value, allowed }
}

impl Config {
    /// Refuses what Linux refuses before it looks at anything else.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.quantum_bytes {
            Some(quantum) if !(1..=1 << 20).contains(&quantum) => {
                Err(refuse("quantum", quantum.into(), "1 to 1048576 bytes"))
            }
            _ => Ok(()),
        }
    }

    /// The controllers' options.
    pub(super) fn pie(&self) -> pie::Config {
        pie::Config {
            limit: self.limit,
            target_us: self.target_us,
            tupdate_us: self.tupdate_us,
            alpha: self.alpha,
            beta: self.beta,
            ecn: self.ecn,
            bytemode: self.bytemode,
            dq_rate_estimator: self.dq_rate_estimator,
        }
    }
}
