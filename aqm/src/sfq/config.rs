use crate::red::Thresholds;
use crate::{ConfigError, Configure, Host};

/// Options of `tc … sfq`, which Linux takes at creation only. An option left `None`, or 0, keeps its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets, 2 or more; default 127, at most `depth` · `flows`.
    pub limit: Option<u32>,
    /// `depth`: packets per flow; default and at most 127.
    pub depth: Option<u32>,
    /// `flows`: flows that can have packets at once; default 128, at most 65408, `divisor` and `limit` where given.
    pub flows: Option<u32>,
    /// `divisor`: rows of the hash table, a power of two up to 65536; default 1024.
    pub divisor: Option<u32>,
    /// `quantum`: bytes per round, 256 to 2^20; default the device's MTU with link header.
    pub quantum_bytes: Option<u32>,
    /// `perturb`: seconds between new hash keys; default never.
    pub perturb_s: Option<u32>,
    /// `headdrop`: drop the oldest packet of a flow, not the newest.
    pub headdrop: bool,
    /// `redflowlimit` and what belongs to it: RED in each flow.
    pub red: Option<Red>,
}

/// RED's parameters per flow, as Linux receives them; [`red::Options`](crate::red::Options) derives them from those of
/// tc. There is no idle table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Red {
    /// Average below which nothing happens, bytes; 0 switches RED off.
    pub min_bytes: u32,
    /// Average from which every packet is marked or dropped, bytes.
    pub max_bytes: u32,
    /// The average's weight is 2^−`wlog`.
    pub wlog: u8,
    /// Gives the maximum probability if `max_p` is 0.
    pub plog: u8,
    /// Checked (below 32) and reported, not used.
    pub scell_log: u8,
    /// Probability at `max_bytes`, times 2^32; 0 takes it from `plog`.
    pub max_p: u32,
    /// Mark ECN-capable packets instead of dropping.
    pub ecn: bool,
    /// Drop even ECN-capable packets above `max_bytes`.
    pub harddrop: bool,
}

impl Configure for Config {}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Packets.
    pub limit: u32,
    /// Packets per flow.
    pub depth: u32,
    /// Flows that can have packets at once.
    pub flows: u32,
    /// Rows of the hash table.
    pub divisor: u32,
    /// Bytes.
    pub quantum_bytes: u32,
    /// Seconds; 0 is never.
    pub perturb_s: u32,
    /// Drops the oldest.
    pub headdrop: bool,
    /// RED per flow; `max_p` as in force.
    pub red: Option<Red>,
}

/// The most packets a flow can hold.
pub(super) const MAX_DEPTH: u32 = 127;
/// The most flows.
const MAX_FLOWS: u32 = 65536 - MAX_DEPTH - 1;
const MAX_DIVISOR: u32 = 65536;

pub(super) const fn refuse(option: &'static str, value: u64, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "sfq", option, value, allowed }
}

impl Red {
    pub(super) const fn thresholds(&self) -> Thresholds {
        Thresholds { min: self.min_bytes, max: self.max_bytes, wlog: self.wlog, plog: self.plog, max_p: self.max_p }
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.thresholds().check().map_err(|(option, value, allowed)| refuse(option, value, allowed))?;
        if self.scell_log >= 32 {
            return Err(refuse("scell_log", self.scell_log.into(), "below 32"));
        }
        Ok(())
    }
}

impl Parameters {
    /// Checks and completes a configuration, in the order in which Linux does (spec/sfq.md §1).
    pub(super) fn new(config: &Config, host: &Host) -> Result<Self, ConfigError> {
        let given = |option: Option<u32>| option.filter(|&value| value != 0);
        let quantum_bytes = match given(config.quantum_bytes) {
            Some(bytes) if bytes > 1 << 20 => return Err(refuse("quantum", bytes.into(), "at most 1048576 bytes")),
            Some(bytes) => bytes,
            None => host.frame_bytes(),
        };
        let longest_s = i32::MAX as u32 / host.hz.max(1);
        let perturb_s = config.perturb_s.unwrap_or(0);
        if perturb_s > longest_s {
            return Err(refuse("perturb", perturb_s.into(), "at most 2147483647 jiffies"));
        }
        let mut flows = given(config.flows).map_or(128, |flows| flows.min(MAX_FLOWS));
        let mut divisor = 1024;
        if let Some(rows) = given(config.divisor) {
            if !rows.is_power_of_two() || rows > MAX_DIVISOR {
                return Err(refuse("divisor", rows.into(), "a power of two up to 65536"));
            }
            divisor = rows;
            flows = flows.min(divisor);
        }
        let depth = given(config.depth).map_or(MAX_DEPTH, |depth| depth.min(MAX_DEPTH));
        let red = config.red.filter(|red| red.min_bytes != 0);
        if let Some(red) = &red {
            red.check()?;
        }
        let mut limit = 127;
        if let Some(packets) = given(config.limit) {
            limit = packets.min(depth * flows);
            flows = flows.min(limit);
        }
        if limit == 1 {
            return Err(refuse("limit", 1, "2 or more, also when depth · flows bounds it"));
        }
        Ok(Self {
            limit,
            depth,
            flows,
            divisor,
            quantum_bytes: quantum_bytes.max(256),
            perturb_s,
            headdrop: config.headdrop,
            red,
        })
    }
}
