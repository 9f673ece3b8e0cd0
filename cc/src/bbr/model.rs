//! Bandwidth, rounds, ACK aggregation, full pipe (spec/bbr.md §6, §7, §9, §10).

use super::{BW_SCALE, Bbr, GAIN_ONE, Mode};
use crate::clock::{before, delta_us};
use crate::conn::Conn;
use crate::env::Env;
use crate::rate::RateSample;

/// Window of the bandwidth filter, rounds.
const BW_ROUNDS: u32 = 10;
/// Growth that counts as growth: 5/4.
const FULL_THRESH: u32 = 320;
const FULL_ROUNDS: u8 = 3;
/// Length of an ACK-aggregation slot, rounds.
const XA_ROUNDS: u8 = 5;
/// Largest number of packets in an aggregation epoch.
const XA_RESET: u32 = 1 << 20;

impl Bbr {
    /// A: rounds and the bandwidth filter. An invalid sample only clears `round_start`.
    #[inline]
    pub(super) fn update_bw<E: Env>(&mut self, c: &mut Conn, env: &mut E, rs: &RateSample) {
        self.state.round_start = false;
        if rs.delivered < 0 || rs.interval_us <= 0 {
            return;
        }
        if !before(rs.prior_delivered, self.state.next_round) {
            self.state.next_round = c.delivered;
            self.state.rounds = self.state.rounds.wrapping_add(1);
            self.state.round_start = true;
            self.state.conserve = false;
        }
        self.police(c, env, rs.losses, rs.is_app_limited);
        let bw = ((rs.delivered as u64) << BW_SCALE) / rs.interval_us as u64;
        let s = &mut self.state;
        if !rs.is_app_limited || bw >= u64::from(s.bw.get()) {
            s.bw.running_max(BW_ROUNDS, s.rounds, bw as u32);
        }
    }

    /// B: how many more packets than expected ACKs bring at once.
    #[inline]
    pub(super) fn update_aggregation(&mut self, c: &Conn, rs: &RateSample) {
        if rs.acked_sacked == 0 || rs.delivered < 0 || rs.interval_us <= 0 {
            return;
        }
        let s = &mut self.state;
        if s.round_start {
            s.xa_n = (s.xa_n + 1).min(31);
            if s.xa_n >= XA_ROUNDS {
                s.xa_n = 0;
                s.xa_slot ^= 1;
                s.xa[usize::from(s.xa_slot & 1)] = 0;
            }
        }
        let epoch_us = u64::from(delta_us(c.delivered_us, s.xa_us));
        let mut expected = (u64::from(s.bandwidth()).wrapping_mul(epoch_us) >> BW_SCALE) as u32;
        if s.xa_acked <= expected || s.xa_acked.wrapping_add(rs.acked_sacked) >= XA_RESET {
            s.xa_acked = 0;
            s.xa_us = c.delivered_us;
            expected = 0;
        }
        s.xa_acked = s.xa_acked.wrapping_add(rs.acked_sacked).min(XA_RESET - 1);
        let excess = s.xa_acked.wrapping_sub(expected).min(c.cwnd);
        let slot = usize::from(s.xa_slot & 1);
        if excess > u32::from(s.xa[slot]) {
            s.xa[slot] = excess as u16;
        }
    }

    /// D: three rounds without a quarter's growth fill the pipe. Application-limited rounds do not count.
    #[inline]
    pub(super) fn check_full_pipe(&mut self, rs: &RateSample) {
        let s = &mut self.state;
        if s.full || !s.round_start || rs.is_app_limited {
            return;
        }
        let threshold = ((u64::from(s.full_bw) * u64::from(FULL_THRESH)) >> 8) as u32;
        if s.bw.get() >= threshold {
            s.full_bw = s.bw.get();
            s.full_n = 0;
            return;
        }
        s.full_n = (s.full_n + 1) & 3;
        s.full = s.full_n >= FULL_ROUNDS;
    }

    /// E: leave start-up, drain, leave drain; both can happen on one ACK.
    #[inline]
    pub(super) fn check_drain<E: Env>(&mut self, c: &mut Conn, env: &mut E) {
        let s = &mut self.state;
        if s.mode == Mode::Startup && s.full {
            s.mode = Mode::Drain;
            c.ssthresh = s.inflight(c, s.bw.get(), GAIN_ONE);
        }
        if s.mode == Mode::Drain && s.in_net(c, c.in_flight()) <= s.inflight(c, s.bw.get(), GAIN_ONE) {
            self.enter_probe_bw(c, env);
        }
    }
}
