use crate::{Configure, Linux, time};

/// Options of `tc … codel`. An option left `None` keeps its default at creation and its value at a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets; default 1000.
    pub limit: Option<u32>,
    /// `target`: acceptable standing delay, µs; default 5 ms.
    pub target_us: Option<u32>,
    /// `interval`: µs; default 100 ms.
    pub interval_us: Option<u32>,
    /// `ce_threshold`: mark above this delay, µs; default off.
    pub ce_threshold_us: Option<u32>,
    /// `ecn`: mark ECN-capable packets instead of dropping; default off.
    pub ecn: Option<bool>,
}

impl Configure for Config {}

/// The parameters in force, as Linux reports them (times lose up to a CoDel unit: 5000 µs read back as 4999).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Packets.
    pub limit: u32,
    /// µs.
    pub target_us: u32,
    /// µs.
    pub interval_us: u32,
    /// µs; `None` when off.
    pub ce_threshold_us: Option<u32>,
    /// Marks instead of drops.
    pub ecn: bool,
}

/// `ce_threshold` switched off: 2^31 − 1.
pub(crate) const CE_THRESHOLD_OFF: u32 = i32::MAX as u32;

/// The control law's parameters, in CoDel time (spec/codel.md §1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    pub(crate) target: u32,
    pub(crate) interval: u32,
    pub(crate) ce_threshold: u32,
    pub(crate) ecn: bool,
    /// DS-field value and mask that `ce_threshold` asks for; mask 0 asks for nothing.
    pub(crate) selector: u8,
    pub(crate) mask: u8,
    /// Backlog floor: with at most this many bytes queued CoDel never acts.
    pub(crate) mtu: u32,
    /// 7.2: the law advances by at least one unit, and one call drops at most 256 packets.
    pub(crate) bounded: bool,
}

impl Law {
    pub(crate) fn new(ecn: bool, mtu: u32, linux: Linux) -> Self {
        Self {
            target: time::codel_from_us(5_000),
            interval: time::codel_from_us(100_000),
            ce_threshold: CE_THRESHOLD_OFF,
            ecn,
            selector: 0,
            mask: 0,
            mtu,
            bounded: linux >= Linux::V7_2,
        }
    }

    /// Replaces what is given.
    pub(crate) fn apply(
        &mut self,
        target_us: Option<u32>,
        interval_us: Option<u32>,
        ce_threshold_us: Option<u32>,
        ecn: Option<bool>,
    ) {
        let set = |field: &mut u32, us: Option<u32>| {
            if let Some(us) = us {
                *field = time::codel_from_us(us);
            }
        };
        set(&mut self.target, target_us);
        set(&mut self.interval, interval_us);
        set(&mut self.ce_threshold, ce_threshold_us);
        self.ecn = ecn.unwrap_or(self.ecn);
    }

    pub(crate) fn ce_threshold_us(&self) -> Option<u32> {
        (self.ce_threshold != CE_THRESHOLD_OFF).then(|| time::codel_to_us(self.ce_threshold))
    }
}
