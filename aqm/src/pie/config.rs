use crate::timer::Jiffies;
use crate::{Configure, Host, time};

/// Options of `tc … pie`. An option left `None` keeps its default at creation and its value at a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `limit`: packets; default 1000.
    pub limit: Option<u32>,
    /// `target`: delay aimed at, µs; default 15 ms.
    pub target_us: Option<u32>,
    /// `tupdate`: period of the probability update, µs, rounded up to jiffies; default 15 ms. 0 stops the updates.
    pub tupdate_us: Option<u32>,
    /// `alpha`: weight of the delay's distance from the target, in 1/16 per second of delay; default 2. tc allows 0 to 32.
    pub alpha: Option<u32>,
    /// `beta`: weight of the delay's change, in 1/16 per second of delay; default 20. tc allows 0 to 32.
    pub beta: Option<u32>,
    /// `ecn` / `noecn`: mark ECN-capable packets while the probability is at most 10 %; default off.
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
    /// Packets.
    pub limit: u32,
    /// µs.
    pub target_us: u32,
    /// µs, whole jiffies: 15 ms read back as 16 ms at HZ 250.
    pub tupdate_us: u32,
    /// Weight of the delay's distance from the target.
    pub alpha: u32,
    /// Weight of the delay's change.
    pub beta: u32,
    /// Marks instead of drops, up to a probability of 10 %.
    pub ecn: bool,
    /// Smaller packets, smaller probability.
    pub bytemode: bool,
    /// Delay from the departure rate.
    pub dq_rate_estimator: bool,
}

/// The controller's parameters, shared by all buckets of fq_pie (spec/pie.md §1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    /// Psched ticks.
    pub(crate) target: u64,
    /// Jiffies.
    pub(crate) tupdate: u32,
    pub(crate) alpha: u32,
    pub(crate) beta: u32,
    pub(crate) ecn: bool,
    pub(crate) bytemode: bool,
    pub(crate) dq_rate_estimator: bool,
    /// The device's MTU with link header, 1 to 2^20.
    pub(crate) mtu: u32,
}

impl Law {
    pub(crate) fn new(host: &Host) -> Self {
        Self {
            target: ticks_from_us(15_000),
            tupdate: Jiffies::new(host).us_to_jiffies(15_000),
            alpha: 2,
            beta: 20,
            ecn: false,
            bytemode: false,
            dq_rate_estimator: false,
            mtu: host.frame_bytes().max(1),
        }
    }

    /// Replaces what is given; `limit` is not the law's.
    pub(crate) fn apply(&mut self, config: &Config, jiffies: Jiffies) {
        self.target = config.target_us.map_or(self.target, ticks_from_us);
        self.tupdate = config.tupdate_us.map_or(self.tupdate, |us| jiffies.us_to_jiffies(us));
        self.alpha = config.alpha.unwrap_or(self.alpha);
        self.beta = config.beta.unwrap_or(self.beta);
        self.ecn = config.ecn.unwrap_or(self.ecn);
        self.bytemode = config.bytemode.unwrap_or(self.bytemode);
        self.dq_rate_estimator = config.dq_rate_estimator.unwrap_or(self.dq_rate_estimator);
    }

    /// What Linux reports.
    pub(crate) fn parameters(&self, limit: u32, jiffies: Jiffies) -> Parameters {
        Parameters {
            limit,
            target_us: ticks_to_us(self.target),
            tupdate_us: jiffies.jiffies_to_us(self.tupdate),
            alpha: self.alpha,
            beta: self.beta,
            ecn: self.ecn,
            bytemode: self.bytemode,
            dq_rate_estimator: self.dq_rate_estimator,
        }
    }
}

fn ticks_from_us(us: u32) -> u64 {
    time::psched_ticks(u64::from(us) * 1000)
}

/// Ticks to the µs that Linux reports: the nanoseconds are cut to 32 bits, so 4.29 s wrap to 0.
pub(crate) const fn ticks_to_us(ticks: u64) -> u32 {
    time::psched_to_ns(ticks) as u32 / 1000
}
