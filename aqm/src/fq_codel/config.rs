use crate::{ConfigError, Configure, Host};

/// Options of `tc … fq_codel`. An option left `None` keeps its default at creation and its value at a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets; default 10240.
    pub limit: Option<u32>,
    /// `flows`: buckets, 1 to 65536, only at creation; default 1024.
    pub flows: Option<u32>,
    /// `quantum`: bytes, at most 2^20, raised to 256; default the device's MTU with link header.
    pub quantum_bytes: Option<u32>,
    /// `target`: µs; default 5 ms.
    pub target_us: Option<u32>,
    /// `interval`: µs; default 100 ms.
    pub interval_us: Option<u32>,
    /// `ce_threshold`: mark above this delay, µs; default off.
    pub ce_threshold_us: Option<u32>,
    /// `ce_threshold_selector`: only packets whose DS field matches; default all.
    pub ce_threshold_selector: Option<Selector>,
    /// `memory_limit`: bytes, at most 2^31; default 32 MiB.
    pub memory_limit_bytes: Option<u32>,
    /// `drop_batch`: packets dropped at once on overload, raised to 1; default 64.
    pub drop_batch: Option<u32>,
    /// `ecn` / `noecn`: mark ECN-capable packets instead of dropping; default on.
    pub ecn: Option<bool>,
}

impl Configure for Config {}

/// A DS-field value under a mask, `0x01/0x03` in tc: matches if `ds & mask == value`. Mask 0 matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The value wanted.
    pub value: u8,
    /// The bits compared.
    pub mask: u8,
}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Packets.
    pub limit: u32,
    /// Buckets.
    pub flows: u32,
    /// Bytes.
    pub quantum_bytes: u32,
    /// µs; 5000 reads back as 4999.
    pub target_us: u32,
    /// µs.
    pub interval_us: u32,
    /// µs; `None` when off.
    pub ce_threshold_us: Option<u32>,
    /// All packets if the mask is 0.
    pub ce_threshold_selector: Selector,
    /// Bytes.
    pub memory_limit_bytes: u32,
    /// Packets.
    pub drop_batch: u32,
    /// Marks instead of drops.
    pub ecn: bool,
}

/// What is not the control law's: limits and the round robin (spec/fq_codel.md §1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) limit: u32,
    pub(crate) quantum: u32,
    pub(crate) memory_limit: u32,
    pub(crate) drop_batch: u32,
}

impl Limits {
    pub(crate) fn new(host: &Host) -> Self {
        Self { limit: 10240, quantum: host.frame_bytes().max(256), memory_limit: 32 << 20, drop_batch: 64 }
    }

    pub(crate) fn apply(&mut self, config: &Config) {
        self.limit = config.limit.unwrap_or(self.limit);
        self.quantum = config.quantum_bytes.map_or(self.quantum, |bytes| bytes.max(256));
        self.memory_limit = config.memory_limit_bytes.map_or(self.memory_limit, |bytes| bytes.min(1 << 31));
        self.drop_batch = config.drop_batch.map_or(self.drop_batch, |packets| packets.max(1));
    }
}

pub(crate) const fn refuse(option: &'static str, value: u64, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "fq_codel", option, value, allowed }
}

impl Config {
    /// Refuses what Linux refuses, whether at creation or at a change.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self.quantum_bytes {
            Some(quantum) if quantum > 1 << 20 => Err(refuse("quantum", quantum.into(), "at most 1048576 bytes")),
            _ => Ok(()),
        }
    }
}
