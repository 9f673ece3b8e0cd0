//! What `ss -ti` and qlog show.

use core::fmt;

use super::Driver;
use crate::algorithm::{Algorithm, Info};
use crate::conn::{CaState, INFINITE_SSTHRESH};

/// A snapshot of a connection. [`Display`](fmt::Display) prints a line like `ss -ti`; the fields are qlog's
/// `recovery:metrics_updated` with their units in the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Algorithm.
    pub algorithm: &'static str,
    /// Congestion state.
    pub state: CaState,
    /// Payload of a full packet, bytes.
    pub mss: u32,
    /// Window, packets.
    pub cwnd: u32,
    /// Window, bytes (qlog `congestion_window`).
    pub congestion_window: u64,
    /// Threshold, packets; `None`: infinite (qlog `ssthresh`).
    pub ssthresh: Option<u32>,
    /// In flight, bytes (qlog `bytes_in_flight`).
    pub bytes_in_flight: u64,
    /// In flight, packets (qlog `packets_in_flight`).
    pub packets_in_flight: u32,
    /// Smoothed RTT, µs (qlog `smoothed_rtt`); 0: none yet.
    pub smoothed_rtt_us: u32,
    /// RTT variation, µs (qlog `rtt_variance`).
    pub rtt_variance_us: u32,
    /// Minimum RTT, µs (qlog `min_rtt`); `None`: none yet.
    pub min_rtt_us: Option<u32>,
    /// Last RTT, µs (qlog `latest_rtt`).
    pub latest_rtt_us: u32,
    /// Retransmission timeout, µs.
    pub rto_us: u32,
    /// Back-off count.
    pub backoff: u8,
    /// Pacing rate, bytes/s (qlog's `pacing_rate` is bits/s).
    pub pacing_rate: u64,
    /// Delivery rate, bytes/s.
    pub delivery_rate: u64,
    /// The delivery rate was application-limited.
    pub app_limited: bool,
    /// Packets delivered.
    pub delivered: u32,
    /// Of those, CE-marked.
    pub delivered_ce: u32,
    /// Packets lost ever.
    pub lost: u32,
    /// Algorithm's own numbers.
    pub info: Info,
}

impl<A: Algorithm> Driver<A> {
    /// A snapshot for diagnostics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let c = &self.conn;
        let bytes = |packets: u32| u64::from(packets) * u64::from(c.mss);
        Metrics {
            algorithm: self.algorithm.name(),
            state: c.state,
            mss: c.mss,
            cwnd: c.cwnd,
            congestion_window: bytes(c.cwnd),
            ssthresh: (c.ssthresh < INFINITE_SSTHRESH).then_some(c.ssthresh),
            bytes_in_flight: bytes(c.in_flight()),
            packets_in_flight: c.in_flight(),
            smoothed_rtt_us: c.srtt8 >> 3,
            rtt_variance_us: c.mdev4 >> 2,
            min_rtt_us: (c.min_rtt.get() != u32::MAX).then_some(c.min_rtt.get()),
            latest_rtt_us: self.latest_rtt_us,
            rto_us: self.rto_us(),
            backoff: c.backoff,
            pacing_rate: c.pace_rate,
            delivery_rate: self.delivery_rate(),
            app_limited: c.saved_app_limited,
            delivered: c.delivered,
            delivered_ce: c.delivered_ce,
            lost: c.lost_total,
            info: self.algorithm.info(c),
        }
    }
}

/// Microseconds as milliseconds with three decimals, trailing zeros cut.
struct Ms(u32);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, us) = (self.0 / 1000, self.0 % 1000);
        match us {
            0 => write!(f, "{ms}"),
            us if us % 100 == 0 => write!(f, "{ms}.{}", us / 100),
            us if us % 10 == 0 => write!(f, "{ms}.{:02}", us / 10),
            us => write!(f, "{ms}.{us:03}"),
        }
    }
}

/// A gain of /256 with two decimals, as `ss` prints it.
struct Gain(u32);

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (u64::from(self.0) * 100 + 128) / 256;
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rto:{}", self.algorithm, Ms(self.rto_us))?;
        if self.backoff > 0 {
            write!(f, " backoff:{}", self.backoff)?;
        }
        write!(f, " rtt:{}/{} mss:{}", Ms(self.smoothed_rtt_us), Ms(self.rtt_variance_us), self.mss)?;
        write!(f, " cwnd:{}", self.cwnd)?;
        if let Some(s) = self.ssthresh {
            write!(f, " ssthresh:{s}")?;
        }
        match self.info {
            Info::Bbr { bw, min_rtt_us, pacing_gain, cwnd_gain } => {
                write!(f, " bbr:(bw:{}bps,mrtt:{}", bw.saturating_mul(8), Ms(min_rtt_us))?;
                write!(f, ",pacing_gain:{},cwnd_gain:{})", Gain(pacing_gain), Gain(cwnd_gain))?;
            }
            Info::Dctcp { enabled: true, ce_state, alpha, ab_ecn, ab_tot } => {
                write!(f, " dctcp:(ce_state:{ce_state},alpha:{alpha},ab_ecn:{ab_ecn},ab_tot:{ab_tot})")?;
            }
            Info::Dctcp { enabled: false, .. } => f.write_str(" dctcp:fallback_mode")?,
            Info::Prague { alpha, fractional_window } => {
                write!(f, " prague:(alpha:{alpha},frac_cwnd:{fractional_window})")?;
            }
            Info::None => {}
        }
        write!(f, " pacing_rate {}bps", self.pacing_rate.saturating_mul(8))?;
        write!(f, " delivery_rate {}bps delivered:{}", self.delivery_rate.saturating_mul(8), self.delivered)?;
        if self.delivered_ce > 0 {
            write!(f, " delivered_ce:{}", self.delivered_ce)?;
        }
        if self.app_limited {
            f.write_str(" app_limited")?;
        }
        write!(f, " unacked:{}", self.packets_in_flight)?;
        if self.lost > 0 {
            write!(f, " lost:{}", self.lost)?;
        }
        if let Some(us) = self.min_rtt_us {
            write!(f, " minrtt:{}", Ms(us))?;
        }
        Ok(())
    }
}
