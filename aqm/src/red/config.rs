use super::core::Thresholds;
use crate::{ConfigError, Configure};

/// The parameters of `red` as Linux receives them; [`Options`](super::Options) derives them from those of tc.
///
/// Linux takes them all at once, at creation and at every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit of the inner bfifo, bytes. 0 makes no inner fifo: until a child is attached every packet is lost.
    pub limit_bytes: u32,
    /// Average below which nothing happens, bytes.
    pub min_bytes: u32,
    /// Average from which every packet is marked or dropped, bytes.
    pub max_bytes: u32,
    /// The average's weight is 2^−`wlog`.
    pub wlog: u8,
    /// Gives the maximum probability if `max_p` is 0.
    pub plog: u8,
    /// Granularity of the idle table: 2^`scell_log` µs, below 32.
    pub scell_log: u8,
    /// The idle table: by how many bits the average shrinks after so long an idle period, each below 32.
    pub idle_table: [u8; 256],
    /// Probability at `max_bytes`, times 2^32; 0 takes it from `plog`.
    pub max_p: u32,
    /// `ecn`: mark ECN-capable packets instead of dropping.
    pub ecn: bool,
    /// `harddrop`: drop even ECN-capable packets above `max_bytes`.
    pub harddrop: bool,
    /// `adaptive`: adapt `max_p` to the average. Needs `legacy_flags` to have an effect.
    pub adaptive: bool,
    /// `nodrop`: queue what cannot be marked instead of dropping it. Needs `ecn`.
    pub nodrop: bool,
    /// The flags came in the parameter block's flags byte, as old versions of tc send them, not in an attribute of
    /// their own. Linux starts the adaptation's timer only then (spec/red.md §6): with a current tc `adaptive` does
    /// nothing.
    pub legacy_flags: bool,
}

impl Configure for Config {}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes.
    pub limit_bytes: u32,
    /// Bytes.
    pub min_bytes: u32,
    /// Bytes.
    pub max_bytes: u32,
    /// Weight 2^−`wlog`.
    pub wlog: u8,
    /// As configured.
    pub plog: u8,
    /// As configured.
    pub scell_log: u8,
    /// The maximum probability in force, times 2^32: adaptation changes it.
    pub max_p: u32,
    /// Marks instead of drops.
    pub ecn: bool,
    /// Drops above `max_bytes` all the same.
    pub harddrop: bool,
    /// Adapts `max_p`, if the timer runs.
    pub adaptive: bool,
    /// Queues what cannot be marked.
    pub nodrop: bool,
}

pub(super) const fn refuse(option: &'static str, value: u64, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "red", option, value, allowed }
}

impl Config {
    pub(super) const fn thresholds(&self) -> Thresholds {
        Thresholds { min: self.min_bytes, max: self.max_bytes, wlog: self.wlog, plog: self.plog, max_p: self.max_p }
    }

    /// Refuses what Linux refuses.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.thresholds().check().map_err(|(option, value, allowed)| refuse(option, value, allowed))?;
        if self.scell_log >= 32 {
            return Err(refuse("scell_log", self.scell_log.into(), "below 32"));
        }
        if let Some(&shift) = self.idle_table.iter().find(|&&shift| shift >= 32) {
            return Err(refuse("idle_table", shift.into(), "every entry below 32"));
        }
        if self.nodrop && !self.ecn {
            return Err(refuse("nodrop", 1, "only together with ecn"));
        }
        Ok(())
    }
}
