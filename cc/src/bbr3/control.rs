//! Pacing rate and window (spec/bbr3.md A3, A10, B1, B2).

use super::{Bbr3, Phase, UNSET};
use crate::conn::{CaState, Conn, INITIAL_WINDOW};
use crate::rate::RateSample;

pub(super) const STARTUP_PACING: u32 = 710;
pub(super) const CWND: u32 = 512;
const DRAIN_PACING: u32 = 88;
const DOWN_PACING: u32 = 232;
const UP_PACING: u32 = 320;
const UP_CWND: u32 = CWND + 64;
pub(super) const CWND_MIN: u32 = 4;
const HEADROOM: u32 = 38;
const MARGIN: u64 = 990_000;
const BURST_MAX: u64 = 65_215;

/// Bytes per second of `bw` at `gain`, 1 % margin taken off, at least 1.
pub(super) fn rate(c: &Conn, bw: u32, gain: u32) -> u64 {
    let r = u64::from(bw).wrapping_mul(u64::from(c.mss)).wrapping_mul(u64::from(gain)) >> 8;
    (r.wrapping_mul(MARGIN) >> 24).max(1)
}

impl Bbr3 {
    /// Maximum bandwidth of the last two cycles.
    pub(super) fn max_bw(&self) -> u32 {
        self.state.bw_hi[0].max(self.state.bw_hi[1])
    }

    /// The bandwidth in force.
    #[must_use]
    pub fn bandwidth(&self) -> u32 {
        self.max_bw().min(self.state.bw_lo)
    }

    pub(super) fn init_pacing(&mut self, c: &mut Conn) {
        let rtt = if c.srtt8 != 0 {
            self.state.seen_rtt = true;
            (c.srtt8 >> 3).max(1)
        } else {
            1000
        };
        let bw = ((u64::from(c.cwnd) << 24) / u64::from(rtt)).min(u64::from(u32::MAX)) as u32;
        c.pace_rate = rate(c, bw, STARTUP_PACING).min(c.max_pace);
    }

    pub(super) fn set_pacing_rate(&mut self, c: &mut Conn) {
        if !self.state.seen_rtt && c.srtt8 != 0 {
            self.init_pacing(c);
        }
        let rate = rate(c, self.bandwidth(), self.state.pacing_gain).min(c.max_pace);
        if self.state.full_reached || rate > c.pace_rate {
            c.pace_rate = rate;
        }
    }

    /// Burst estimate, packets.
    fn goal(c: &Conn) -> u32 {
        let shift = c.min_rtt.get() >> 9;
        let short_path = if shift < 32 { 65_536u64 >> shift } else { 0 };
        let bytes = (c.pace_rate >> (c.pacing_shift & 63)).saturating_add(short_path).min(BURST_MAX) as u32;
        (bytes / c.mss.max(1)).max(2)
    }

    /// Bandwidth-delay product at `gain`, packets.
    pub(super) fn bdp(&self, bw: u32, gain: u32) -> u32 {
        if self.state.min_rtt == UNSET {
            return INITIAL_WINDOW;
        }
        let w = u64::from(bw) * u64::from(self.state.min_rtt);
        let scaled = (u128::from(w) * u128::from(gain)) >> 8;
        (scaled + (1 << 24) - 1 >> 24).min(u128::from(u32::MAX)) as u32
    }

    /// Room for bursts.
    pub(super) fn budget(&self, c: &Conn, n: u32) -> u32 {
        let n = n.max(3 * Self::goal(c)).max(CWND_MIN);
        if self.state.phase == Phase::Up { n.saturating_add(2) } else { n }
    }

    pub(super) fn inflight(&self, c: &Conn, bw: u32, gain: u32) -> u32 {
        self.budget(c, self.bdp(bw, gain))
    }

    /// Packets of `x` in the network at the next departure.
    pub(super) fn in_net(&self, c: &Conn, x: u32) -> u32 {
        let ahead_us = (c.edt_ns.max(c.now_ns) - c.now_ns) / 1000;
        let delivered = (u64::from(self.bandwidth()).wrapping_mul(ahead_us) >> 24).min(u64::from(u32::MAX)) as u32;
        let x = if self.state.pacing_gain > 256 { x.saturating_add(Self::goal(c)) } else { x };
        x.saturating_sub(delivered)
    }

    /// The long-term limit less room for others.
    pub(super) fn with_headroom(&self) -> u32 {
        let hi = self.state.inflight_hi;
        if hi == UNSET {
            return UNSET;
        }
        let headroom = ((u64::from(hi) * u64::from(HEADROOM) >> 8) as u32).max(1);
        hi.saturating_sub(headroom).max(CWND_MIN)
    }

    pub(super) fn save_cwnd(&mut self, c: &Conn) {
        let s = &mut self.state;
        s.saved_cwnd = if s.prev_state < CaState::Recovery && s.phase != Phase::ProbeRtt {
            c.cwnd
        } else {
            s.saved_cwnd.max(c.cwnd)
        };
    }

    pub(super) fn update_gains(&mut self) {
        let s = &mut self.state;
        (s.pacing_gain, s.cwnd_gain) = match s.phase {
            Phase::Startup => (STARTUP_PACING, CWND),
            Phase::Drain => (DRAIN_PACING, CWND),
            Phase::Down => (DOWN_PACING, CWND),
            Phase::Cruise | Phase::Refill => (256, CWND),
            Phase::Up => (UP_PACING, UP_CWND),
            Phase::ProbeRtt => (256, 256),
        };
    }

    /// Window for ACK aggregation, packets.
    fn extra_acked(&self) -> u32 {
        let cap = (u64::from(self.bandwidth()) * 100_000 >> 24) as u32;
        u32::from(self.state.xa[0].max(self.state.xa[1])).min(cap)
    }

    pub(super) fn set_cwnd(&mut self, c: &mut Conn, rs: &RateSample) {
        let mut w = c.cwnd;
        if self.state.prev_state >= CaState::Recovery && c.state < CaState::Recovery {
            w = w.max(self.state.saved_cwnd);
        }
        self.state.prev_state = c.state;
        if rs.acked_sacked > 0 {
            let bdp = self.bdp(self.bandwidth(), self.state.cwnd_gain);
            let target = self.budget(c, bdp.saturating_add(self.extra_acked()));
            if self.state.full_reached {
                w = w.saturating_add(rs.acked_sacked).min(target);
            } else if w < target || w < INITIAL_WINDOW.saturating_mul(2) || c.delivered < c.initial_window {
                w = w.saturating_add(rs.acked_sacked);
            }
        }
        w = w.max(CWND_MIN);
        c.cwnd = self.bound(w).min(c.cwnd_cap);
        if self.state.phase == Phase::ProbeRtt {
            c.cwnd = c.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bandwidth(), 128).max(CWND_MIN)
    }

    /// The limits of A3, applied last.
    fn bound(&self, w: u32) -> u32 {
        let s = &self.state;
        let long_term = match s.phase {
            Phase::Startup | Phase::Drain => UNSET,
            Phase::Down | Phase::Refill | Phase::Up => s.inflight_hi,
            Phase::Cruise | Phase::ProbeRtt => self.with_headroom(),
        };
        w.min(long_term.min(s.inflight_lo).max(CWND_MIN))
    }
}
