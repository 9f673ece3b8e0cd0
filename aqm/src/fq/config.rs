use crate::timer::Jiffies;
use crate::{ConfigError, Configure, Host, Linux};

/// Options of `tc … fq`. An option left `None` keeps its default at creation and its value at a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets; default 10000. From 6.12 on for each band, before for the whole qdisc.
    pub limit: Option<u32>,
    /// `flow_limit`: packets per flow; default 100.
    pub flow_limit: Option<u32>,
    /// `buckets`: of the table in which flows are looked up, a power of two from 2 to 2^18; default 1024.
    pub buckets: Option<u32>,
    /// `quantum`: bytes per round, 256 to 2^20 (values outside are moved to the nearer end; before 6.12 1 to 2^20,
    /// others are refused); default twice the device's MTU with link header.
    pub quantum_bytes: Option<u32>,
    /// `initial_quantum`: bytes which a new flow may send at once, at most 2^20 (before 6.12 2^31 − 1); default ten
    /// times the device's MTU with link header.
    pub initial_quantum_bytes: Option<u32>,
    /// `pacing` / `nopacing`; default on.
    pub pacing: Option<bool>,
    /// `maxrate`: of each flow, bytes per second, `u32::MAX` is unlimited; default unlimited.
    pub maxrate: Option<u32>,
    /// `low_rate_threshold`: bytes per second; default 68750 (550 kbit/s).
    pub low_rate_threshold: Option<u32>,
    /// `refill_delay`: after so long an absence a flow gets a fresh quantum, µs; default 40 ms.
    pub refill_delay_us: Option<u32>,
    /// `orphan_mask`: how many bits of the hash tell packets without a socket apart; default 1023.
    pub orphan_mask: Option<u32>,
    /// `ce_threshold`: mark what leaves so late after its departure time, µs; `u32::MAX`, the default, is off.
    pub ce_threshold_us: Option<u32>,
    /// `timer_slack`: by which the watchdog may be late, ns; default 10 µs.
    pub timer_slack_ns: Option<u32>,
    /// `horizon`: the farthest departure time ahead, µs; default 10 s.
    pub horizon_us: Option<u32>,
    /// `horizon_drop` (true, the default) or `horizon_cap`: what happens to packets beyond it.
    pub horizon_drop: Option<bool>,
    /// `bands 3 priomap …`: the band, 0 to 2, of each priority; from 6.12 on.
    pub priomap: Option<[u8; 16]>,
    /// `weights`: bytes that each band may send per round, at least 16384; from 6.12 on.
    pub weights: Option<[i32; 3]>,
    /// `offload_horizon`: send so long before the departure time, µs, at most what the device can wait
    /// ([`Host::pacing_offload_ns`]); from 7.2 on; default 0.
    pub offload_horizon_us: Option<u32>,
}

impl Configure for Config {}

/// The parameters in force, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Packets.
    pub limit: u32,
    /// Packets.
    pub flow_limit: u32,
    /// Buckets of the flow table.
    pub buckets: u32,
    /// Bytes.
    pub quantum_bytes: u32,
    /// Bytes.
    pub initial_quantum_bytes: u32,
    /// Paces.
    pub pacing: bool,
    /// Bytes per second; `u32::MAX` is unlimited.
    pub maxrate: u32,
    /// Bytes per second.
    pub low_rate_threshold: u32,
    /// µs, whole jiffies.
    pub refill_delay_us: u32,
    /// Bits of the hash.
    pub orphan_mask: u32,
    /// µs; `u32::MAX` is off.
    pub ce_threshold_us: u32,
    /// ns.
    pub timer_slack_ns: u32,
    /// µs.
    pub horizon_us: u32,
    /// Drops beyond the horizon, else moves to it.
    pub horizon_drop: bool,
    /// Band of each priority; all 0 before 6.12.
    pub priomap: [u8; 16],
    /// Bytes per round and band; 0 before 6.12.
    pub weights: [i32; 3],
    /// µs; from 7.2 on.
    pub offload_horizon_us: Option<u32>,
}

pub(super) const fn refuse(option: &'static str, value: u64, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "fq", option, value, allowed }
}

const MAX_QUANTUM: u32 = 1 << 20;

/// The options in the units in which the scheduler uses them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) linux: Linux,
    pub(super) limit: u32,
    pub(super) flow_limit: u32,
    pub(super) buckets: u32,
    pub(super) quantum: u32,
    pub(super) initial_quantum: u32,
    pub(super) pacing: bool,
    /// Bytes per second; `u64::MAX` is unlimited.
    pub(super) maxrate: u64,
    pub(super) low_rate_threshold: u32,
    /// Jiffies.
    pub(super) refill_delay: u32,
    pub(super) orphan_mask: u32,
    pub(super) ce_threshold_ns: u64,
    pub(super) timer_slack_ns: u32,
    pub(super) horizon_ns: u64,
    pub(super) horizon_drop: bool,
    pub(super) priomap: [u8; 16],
    pub(super) weights: [i32; 3],
    pub(super) offload_horizon_ns: u64,
    most_offload_ns: u64,
    pub(super) jiffies: Jiffies,
}

impl Limits {
    pub(super) fn new(host: &Host, linux: Linux) -> Self {
        let mtu = host.frame_bytes().max(1);
        let quantum = (2 * mtu).min(MAX_QUANTUM);
        let jiffies = Jiffies::new(host);
        let bands = linux >= Linux::V6_12;
        Self {
            linux,
            limit: 10_000,
            flow_limit: 100,
            buckets: 1024,
            quantum: if bands { quantum.max(256) } else { quantum },
            initial_quantum: (10 * mtu).min(MAX_QUANTUM),
            pacing: true,
            maxrate: u64::MAX,
            low_rate_threshold: 550_000 / 8,
            refill_delay: jiffies.us_to_jiffies(40_000),
            orphan_mask: 1023,
            ce_threshold_ns: u64::from(u32::MAX) * 1000,
            timer_slack_ns: 10_000,
            horizon_ns: 10_000_000_000,
            horizon_drop: true,
            priomap: if bands { [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1] } else { [0; 16] },
            weights: if bands { [589_824, 196_608, 65_536] } else { [0; 3] },
            offload_horizon_ns: 0,
            most_offload_ns: host.pacing_offload_ns,
            jiffies,
        }
    }

    /// These limits with an option's changes, or what Linux refuses.
    pub(super) fn with(mut self, config: &Config) -> Result<Self, ConfigError> {
        if let Some(buckets) = config.buckets {
            if !buckets.is_power_of_two() || !(2..=1 << 18).contains(&buckets) {
                return Err(refuse("buckets", buckets.into(), "a power of two from 2 to 262144"));
            }
            self.buckets = buckets;
        }
        self.set_quanta(config)?;
        self.set_bands(config)?;
        if let Some(us) = config.offload_horizon_us {
            let ns = u64::from(us) * 1000;
            if self.linux < Linux::V7_2 {
                return Err(refuse("offload_horizon", us.into(), "only from Linux 7.2 on"));
            }
            if ns > self.most_offload_ns {
                return Err(refuse("offload_horizon", us.into(), "at most what the device can wait"));
            }
            self.offload_horizon_ns = ns;
        }
        self.limit = config.limit.unwrap_or(self.limit);
        self.flow_limit = config.flow_limit.unwrap_or(self.flow_limit);
        self.pacing = config.pacing.unwrap_or(self.pacing);
        if let Some(rate) = config.maxrate {
            self.maxrate = if rate == u32::MAX { u64::MAX } else { rate.into() };
        }
        self.low_rate_threshold = config.low_rate_threshold.unwrap_or(self.low_rate_threshold);
        if let Some(us) = config.refill_delay_us {
            self.refill_delay = self.jiffies.us_to_jiffies(us);
        }
        self.orphan_mask = config.orphan_mask.unwrap_or(self.orphan_mask);
        if let Some(us) = config.ce_threshold_us {
            self.ce_threshold_ns = u64::from(us) * 1000;
        }
        self.timer_slack_ns = config.timer_slack_ns.unwrap_or(self.timer_slack_ns);
        if let Some(us) = config.horizon_us {
            self.horizon_ns = u64::from(us) * 1000;
        }
        self.horizon_drop = config.horizon_drop.unwrap_or(self.horizon_drop);
        Ok(self)
    }

    fn set_quanta(&mut self, config: &Config) -> Result<(), ConfigError> {
        let clamps = self.linux >= Linux::V6_12;
        if let Some(bytes) = config.quantum_bytes {
            if !clamps && !(1..=MAX_QUANTUM).contains(&bytes) {
                return Err(refuse("quantum", bytes.into(), "1 to 1048576 bytes"));
            }
            self.quantum = if clamps { bytes.clamp(256, MAX_QUANTUM) } else { bytes };
        }
        if let Some(bytes) = config.initial_quantum_bytes {
            let (most, allowed) = if clamps {
                (MAX_QUANTUM, "at most 1048576 bytes")
            } else {
                (i32::MAX as u32, "at most 2147483647 bytes")
            };
            if bytes > most {
                return Err(refuse("initial_quantum", bytes.into(), allowed));
            }
            self.initial_quantum = bytes;
        }
        Ok(())
    }

    fn set_bands(&mut self, config: &Config) -> Result<(), ConfigError> {
        let bands = self.linux >= Linux::V6_12;
        if let Some(map) = config.priomap {
            if !bands {
                return Err(refuse("priomap", 0, "only from Linux 6.12 on"));
            }
            if let Some(&band) = map.iter().find(|&&band| band > 2) {
                return Err(refuse("priomap", band.into(), "bands 0 to 2"));
            }
            self.priomap = map;
        }
        if let Some(weights) = config.weights {
            if !bands {
                return Err(refuse("weights", 0, "only from Linux 6.12 on"));
            }
            if let Some(&weight) = weights.iter().find(|&&weight| weight < 16_384) {
                return Err(refuse("weights", weight.max(0) as u64, "at least 16384 bytes each"));
            }
            self.weights = weights;
        }
        Ok(())
    }

    pub(super) fn parameters(&self) -> Parameters {
        let us = |ns: u64| (ns / 1000) as u32;
        Parameters {
            limit: self.limit,
            flow_limit: self.flow_limit,
            buckets: self.buckets,
            quantum_bytes: self.quantum,
            initial_quantum_bytes: self.initial_quantum,
            pacing: self.pacing,
            maxrate: u32::try_from(self.maxrate).unwrap_or(u32::MAX),
            low_rate_threshold: self.low_rate_threshold,
            refill_delay_us: self.jiffies.jiffies_to_us(self.refill_delay),
            orphan_mask: self.orphan_mask,
            ce_threshold_us: us(self.ce_threshold_ns),
            timer_slack_ns: self.timer_slack_ns,
            horizon_us: us(self.horizon_ns),
            horizon_drop: self.horizon_drop,
            priomap: self.priomap,
            weights: self.weights,
            offload_horizon_us: (self.linux >= Linux::V7_2).then(|| us(self.offload_horizon_ns)),
        }
    }
}
