//! Pacing rate and window from the model (spec/bbr.md §3, §4, §13).

use super::{BW_SCALE, Bbr, CWND_MIN, GAIN_HIGH, GAIN_ONE, Mode, State};
use crate::conn::{CaState, Conn, INITIAL_WINDOW};
use crate::rate::RateSample;

/// Pacing below this rate (bytes/s) sends single segments.
const TSO_SLOW: u64 = 150_000;
/// Largest burst, bytes: the legacy GSO size less headers.
const BURST_MAX: u64 = 65_215;
const GOAL_MAX: u32 = 127;
/// A million µs less the margin of 1 %.
const MARGIN: u64 = 990_000;
/// Longest time that ACK aggregation may add to the window, µs.
const XA_MAX_US: u64 = 100_000;

/// Bytes per second of bandwidth `bw` (packets per µs · 2^24) at `gain`, 1 % margin taken off.
#[inline]
#[must_use]
pub(crate) fn rate(c: &Conn, bw: u64, gain: u32) -> u64 {
    let r = bw.wrapping_mul(u64::from(c.mss)).wrapping_mul(u64::from(gain)) >> 8;
    r.wrapping_mul(MARGIN) >> BW_SCALE
}

fn pacing(c: &Conn, bw: u32, gain: u32) -> u64 {
    rate(c, u64::from(bw), gain).min(c.max_pace)
}

/// Least segments in a burst at the present rate.
#[inline]
pub(super) fn min_tso_segs(c: &Conn) -> u32 {
    if c.pace_rate < TSO_SLOW { 1 } else { 2 }
}

/// BBR's own burst estimate, packets; it depends on the pacing rate of the moment.
#[inline]
pub(super) fn goal(c: &Conn) -> u32 {
    let bytes = (c.pace_rate >> (c.pacing_shift & 63)).min(BURST_MAX) as u32;
    (bytes / c.mss.max(1)).max(min_tso_segs(c)).min(GOAL_MAX)
}

impl State {
    /// The bandwidth in force: the policer's or the filter's.
    #[inline]
    #[must_use]
    pub const fn bandwidth(&self) -> u32 {
        if self.pol_use { self.pol_bw } else { self.bw.get() }
    }

    /// Bandwidth-delay product at `gain`, packets, rounded up; the initial window without an RTT.
    #[inline]
    pub(super) fn bdp(&self, bw: u32, gain: u32) -> u32 {
        if self.min_rtt == u32::MAX {
            return INITIAL_WINDOW;
        }
        let w = u64::from(bw) * u64::from(self.min_rtt);
        ((w.wrapping_mul(u64::from(gain)) >> 8).wrapping_add((1 << BW_SCALE) - 1) >> BW_SCALE) as u32
    }

    /// Room for bursts on top of `n`: three of them, an even number, two more while probing up.
    #[inline]
    pub(super) fn budget(&self, c: &Conn, n: u32) -> u32 {
        let n = n.wrapping_add(3 * goal(c));
        let n = n.wrapping_add(1) & !1;
        if self.mode == Mode::ProbeBw && self.idx == 0 { n.wrapping_add(2) } else { n }
    }

    /// Target for packets in flight.
    #[inline]
    pub(super) fn inflight(&self, c: &Conn, bw: u32, gain: u32) -> u32 {
        self.budget(c, self.bdp(bw, gain))
    }

    /// Packets of `x` expected to be in the network when the next departure slot comes.
    #[inline]
    pub(super) fn in_net(&self, c: &Conn, x: u32) -> u32 {
        let ahead_us = (c.edt_ns.max(c.now_ns) - c.now_ns) / 1000;
        let delivered = (u64::from(self.bandwidth()).wrapping_mul(ahead_us) >> BW_SCALE) as u32;
        let x = if self.pacing_gain > GAIN_ONE { x.wrapping_add(goal(c)) } else { x };
        x.saturating_sub(delivered)
    }

    /// Remembers the window before something shrinks it.
    pub(super) fn save_cwnd(&mut self, c: &Conn) {
        self.saved_cwnd = if self.prev_state < CaState::Recovery && self.mode != Mode::ProbeRtt {
            c.cwnd
        } else {
            self.saved_cwnd.max(c.cwnd)
        };
    }

    /// Window to add for ACK aggregation, packets.
    #[inline]
    fn extra_window(&self) -> u32 {
        if !self.full {
            return 0;
        }
        let max = ((u64::from(self.bandwidth()) * XA_MAX_US) >> BW_SCALE) as u32;
        u32::from(self.xa[0].max(self.xa[1])).min(max)
    }
}

impl Bbr {
    /// Start-up's rate from the window and the RTT, 1 ms before there is one.
    pub(super) fn init_pacing(&mut self, c: &mut Conn) {
        let rtt = if c.srtt8 != 0 {
            self.state.seen_rtt = true;
            (c.srtt8 >> 3).max(1)
        } else {
            1000
        };
        let bw = (u64::from(c.cwnd) << BW_SCALE) / u64::from(rtt);
        c.pace_rate = pacing(c, bw as u32, GAIN_HIGH);
    }

    /// Sets the pacing rate; before the pipe is full it only rises.
    #[inline]
    pub(super) fn set_pacing_rate(&mut self, c: &mut Conn, bw: u32, gain: u32) {
        let rate = pacing(c, bw, gain);
        if !self.state.seen_rtt && c.srtt8 != 0 {
            self.init_pacing(c);
        }
        if self.state.full || rate > c.pace_rate {
            c.pace_rate = rate;
        }
    }

    /// The window step (spec/bbr.md §13).
    pub(super) fn set_cwnd(&mut self, c: &mut Conn, rs: &RateSample, bw: u32) {
        let acked = rs.acked_sacked;
        let mut w = c.cwnd;
        if acked != 0 {
            let conserving;
            (w, conserving) = self.recover_or_restore(c, rs, w);
            if !conserving {
                let s = &self.state;
                let target = s.budget(c, s.bdp(bw, s.cwnd_gain).wrapping_add(s.extra_window()));
                if s.full {
                    w = w.wrapping_add(acked).min(target);
                } else if w < target || c.delivered < INITIAL_WINDOW {
                    w = w.wrapping_add(acked);
                }
                w = w.max(CWND_MIN);
            }
        }
        c.cwnd = w.min(c.cwnd_cap);
        if self.state.mode == Mode::ProbeRtt {
            c.cwnd = c.cwnd.min(CWND_MIN);
        }
    }

    /// Losses, entry into and exit from recovery; true while packets are conserved.
    fn recover_or_restore(&mut self, c: &Conn, rs: &RateSample, mut w: u32) -> (u32, bool) {
        let s = &mut self.state;
        let floor = c.in_flight().wrapping_add(rs.acked_sacked);
        if rs.losses > 0 {
            w = (w.wrapping_sub(rs.losses as u32) as i32).max(1) as u32;
        }
        if c.state == CaState::Recovery && s.prev_state != CaState::Recovery {
            s.conserve = true;
            s.next_round = c.delivered;
            w = floor;
        } else if s.prev_state >= CaState::Recovery && c.state < CaState::Recovery {
            w = w.max(s.saved_cwnd);
            s.conserve = false;
        }
        s.prev_state = c.state;
        if s.conserve { (w.max(floor), true) } else { (w, false) }
    }
}
