//! Signals: rounds, bandwidth, short-term limits, aggregation, full pipe, ECN (spec/bbr3.md A5, A6, B2, B3).

use super::control::CWND_MIN;
use super::{Bbr3, Phase, UNSET};
use crate::algorithm::AckFlags;
use crate::clock::{before, delta_us};
use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::rate::RateSample;

/// What a cut keeps, /256 (β = 0.7).
const KEEP: u32 = 180;
const FULL_THRESH: u64 = 320;
const FULL_ROUNDS: u8 = 3;
const FULL_LOSS_EVENTS: u8 = 6;
const ECN_MAX_RTT_US: u32 = 5000;
const ECN_FACTOR: u32 = 85;
const ECN_THRESH: u32 = 128;
const ECN_FULL_ROUNDS: u8 = 2;
/// Loss above 5/256 (2 %) of what was in flight is too much.
pub(super) const LOSS_THRESH: u64 = 5;

/// Losses that `in_flight` packets may have.
pub(super) fn is_too_lossy(lost: u32, in_flight: u32) -> bool {
    u64::from(lost) > (u64::from(in_flight) * LOSS_THRESH) >> 8
}

fn cut(x: u32) -> u32 {
    (u64::from(x) * u64::from(KEEP) >> 8) as u32
}

/// Bandwidth of a sample, rounded up; 0 for an unusable one.
pub(super) fn sample_bw(rs: &RateSample) -> u32 {
    if rs.delivered <= 0 || rs.interval_us <= 0 {
        return 0;
    }
    ((rs.delivered as u64) << 24).div_ceil(rs.interval_us as u64).min(u64::from(u32::MAX - 1)) as u32
}

impl Bbr3 {
    pub(super) fn update_latest(&mut self, c: &Conn, rs: &RateSample) {
        let s = &mut self.state;
        s.loss_round_start = false;
        if rs.delivered <= 0 || rs.interval_us <= 0 {
            return;
        }
        s.bw_latest = s.bw_latest.max(sample_bw(rs));
        s.inflight_latest = s.inflight_latest.max(rs.delivered as u32);
        if !before(rs.prior_delivered, s.loss_round_delivered) {
            s.loss_round_delivered = c.delivered;
            s.loss_round_start = true;
        }
    }

    pub(super) fn advance_latest(&mut self, rs: &RateSample) {
        if self.state.loss_round_start {
            self.state.bw_latest = sample_bw(rs);
            self.state.inflight_latest = rs.delivered.max(0) as u32;
        }
    }

    pub(super) fn update_round(&mut self, c: &Conn, rs: &RateSample) {
        let s = &mut self.state;
        s.round_start = false;
        if rs.interval_us > 0 && rs.delivered >= 0 && !before(rs.prior_delivered, s.next_round) {
            s.next_round = c.delivered;
            s.rounds = s.rounds.wrapping_add(1);
            s.rounds_since_probe = s.rounds_since_probe.saturating_add(1);
            s.round_start = true;
        }
    }

    /// α of the marks, once per round; the start-up exit by marks.
    pub(super) fn update_ecn(&mut self, c: &Conn, flags: AckFlags) {
        let s = &mut self.state;
        s.ecn_eligible = s.ecn_eligible || (self.low_latency_ecn && c.ecn.negotiated() && s.min_rtt <= ECN_MAX_RTT_US);
        if !s.ecn_eligible {
            return;
        }
        if flags.ece {
            s.ecn_in_round = true;
            s.ecn_in_cycle = true;
        }
        if !s.round_start {
            return;
        }
        let d = c.delivered.wrapping_sub(s.alpha_delivered);
        let e = c.delivered_ce.wrapping_sub(s.alpha_ce);
        (s.alpha_delivered, s.alpha_ce) = (c.delivered, c.delivered_ce);
        if d == 0 {
            return;
        }
        let ratio = ((u64::from(e) << 8) / u64::from(d)).min(256) as u32;
        s.ecn_alpha = next_ecn_alpha(s.ecn_alpha, ratio);
        s.ecn_startup_rounds = if ratio >= ECN_THRESH { s.ecn_startup_rounds.saturating_add(1) } else { 0 };
        if s.phase == Phase::Startup && s.ecn_startup_rounds >= ECN_FULL_ROUNDS {
            self.leave_startup(c);
        }
    }

    pub(super) fn update_max_bw(&mut self, rs: &RateSample) {
        let bw = sample_bw(rs);
        if bw > 0 && (bw >= self.max_bw() || !rs.is_app_limited) {
            self.state.bw_hi[1] = self.state.bw_hi[1].max(bw);
        }
    }

    pub(super) fn advance_max_bw(&mut self) {
        let hi = &mut self.state.bw_hi;
        if hi[1] != 0 {
            *hi = [hi[1], 0];
        }
    }

    /// Once per loss round outside probing: short-term limits from loss and marks; the lower result counts.
    pub(super) fn adapt_short_term(&mut self, c: &Conn) {
        if !self.state.loss_round_start {
            return;
        }
        let (loss, ecn) = (self.state.loss_in_round, self.state.ecn_in_round && self.state.ecn_eligible);
        if !self.state.phase.probing() && (loss || ecn) {
            let max_bw = self.max_bw();
            let s = &mut self.state;
            let initial = if s.inflight_lo == UNSET { c.cwnd } else { s.inflight_lo };
            let mut inflight = initial;
            if ecn {
                let keep = 256 - (s.ecn_alpha * ECN_FACTOR >> 8);
                inflight = (u64::from(initial) * u64::from(keep) >> 8) as u32;
            }
            if loss {
                let bw = if s.bw_lo == UNSET { max_bw } else { s.bw_lo };
                s.bw_lo = s.bw_latest.max(cut(bw));
                inflight = inflight.min(s.inflight_latest.max(cut(initial)));
            }
            s.inflight_lo = inflight.max(CWND_MIN);
        }
        (self.state.loss_in_round, self.state.ecn_in_round) = (false, false);
    }

    pub(super) fn update_aggregation(&mut self, c: &Conn, rs: &RateSample) {
        if rs.acked_sacked == 0 || rs.delivered < 0 || rs.interval_us <= 0 {
            return;
        }
        let bw = self.bandwidth();
        let s = &mut self.state;
        if s.round_start {
            s.xa_n = (s.xa_n + 1).min(31);
            if s.xa_n >= if s.full_reached { 5 } else { 1 } {
                s.xa_n = 0;
                s.xa_slot ^= 1;
                s.xa[usize::from(s.xa_slot & 1)] = 0;
            }
        }
        let epoch_us = u64::from(delta_us(c.delivered_us, s.xa_us));
        let mut expected = (u64::from(bw).wrapping_mul(epoch_us) >> 24) as u32;
        if s.xa_acked <= expected || s.xa_acked.saturating_add(rs.acked_sacked) >= 1 << 20 {
            (s.xa_acked, s.xa_us, expected) = (0, c.delivered_us, 0);
        }
        s.xa_acked = s.xa_acked.saturating_add(rs.acked_sacked).min((1 << 20) - 1);
        let excess = s.xa_acked.saturating_sub(expected).min(c.cwnd).min(u32::from(u16::MAX)) as u16;
        let slot = usize::from(s.xa_slot & 1);
        s.xa[slot] = s.xa[slot].max(excess);
    }

    pub(super) fn reset_full_pipe(&mut self, bw: u32) {
        (self.state.full_bw, self.state.full_n, self.state.full_now) = (bw, 0, false);
    }

    /// Growth is tested on every ACK, rounds without it are counted per round; losses can fill the pipe too.
    pub(super) fn check_full_pipe(&mut self, c: &Conn, rs: &RateSample) {
        self.check_startup_loss(c, rs);
        let bw = sample_bw(rs);
        if self.state.full_now || rs.is_app_limited || bw == 0 {
            return;
        }
        if u64::from(bw) >= (u64::from(self.state.full_bw) * FULL_THRESH) >> 8 {
            return self.reset_full_pipe(bw);
        }
        if self.state.round_start {
            self.state.full_n = self.state.full_n.saturating_add(1);
            self.state.full_now = self.state.full_n >= FULL_ROUNDS;
            self.state.full_reached |= self.state.full_now;
        }
    }

    fn check_startup_loss(&mut self, c: &Conn, rs: &RateSample) {
        let s = &self.state;
        if s.full_reached || !s.loss_round_start {
            return;
        }
        let lost = c.lost_total.wrapping_sub(s.sample_lost);
        let lossy = rs.delivered > 0 && is_too_lossy(lost, s.sample_tx_in_flight);
        if c.state == CaState::Recovery && s.loss_events >= FULL_LOSS_EVENTS && lossy {
            self.leave_startup(c);
        }
        self.state.loss_events = 0;
    }

    fn leave_startup(&mut self, c: &Conn) {
        self.state.full_reached = true;
        self.state.inflight_hi = self.inflight(c, self.max_bw(), 256).max(self.state.inflight_latest);
    }

    pub(super) fn check_drain<E: Env>(&mut self, c: &mut Conn, env: &mut E) {
        if self.state.phase == Phase::Startup && self.state.full_reached {
            self.state.phase = Phase::Drain;
            c.ssthresh = self.inflight(c, self.max_bw(), 256);
        }
        if self.state.phase == Phase::Drain && self.in_net(c, c.in_flight()) <= self.inflight(c, self.max_bw(), 256) {
            self.start_down(c, env);
        }
    }

    pub(super) fn ecn_too_high(&self, rs: &RateSample) -> bool {
        self.state.ecn_eligible
            && rs.delivered > 0
            && i64::from(rs.delivered_ce) > (i64::from(rs.delivered) * i64::from(ECN_THRESH)) >> 8
    }
}

/// α of the marks after a round with this ratio, 256 = 1 (B3).
pub(super) fn next_ecn_alpha(alpha: u32, ratio: u32) -> u32 {
    ((240 * alpha >> 8) + (16 * ratio >> 8)).min(256)
}
