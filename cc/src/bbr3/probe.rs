//! Probing for bandwidth and RTT; losses (spec/bbr3.md A7, A8, A9, B2).

use super::control::CWND_MIN;
use super::model::{LOSS_THRESH, is_too_lossy, sample_bw};
use super::{AckPhase, Bbr3, Phase, UNSET};
use crate::algorithm::LostPackets;
use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::rate::RateSample;

const WAIT_BASE_US: u32 = 2_000_000;
const WAIT_RANDOM_US: u32 = 1_000_000;
const MAX_ROUNDS: u32 = 63;
const MIN_RTT_WINDOW_US: u64 = 10_000_000;
const PROBE_RTT_INTERVAL_US: u64 = 5_000_000;
const PROBE_RTT_US: u64 = 200_000;

/// Where inside a lost burst the loss threshold was crossed: packets in flight that were still safe.
pub(super) fn safe_level(tx_in_flight: u32, lost: u32, size: u32) -> u32 {
    let prev = tx_in_flight.saturating_sub(size);
    let lost_before = u64::from(lost.saturating_sub(size));
    let budget = (u64::from(prev) * LOSS_THRESH + 255) >> 8;
    let prefix = if lost_before >= budget { 0 } else { ((budget - lost_before) << 8) / (256 - LOSS_THRESH) };
    prev.saturating_add(prefix as u32)
}

impl Bbr3 {
    fn new_round(&mut self, c: &Conn) {
        self.state.next_round = c.delivered;
    }

    pub(super) fn start_down<E: Env>(&mut self, c: &Conn, env: &mut E) {
        let s = &mut self.state;
        (s.loss_in_round, s.ecn_in_round, s.bw_latest, s.inflight_latest) = (false, false, 0, 0);
        (s.loss_in_cycle, s.ecn_in_cycle) = (false, false);
        s.up_per_packet = UNSET;
        s.rounds_since_probe = env.random_below(2) as u8;
        s.wait_us = WAIT_BASE_US + env.random_below(WAIT_RANDOM_US);
        s.cycle_us = c.now_us;
        s.ack_phase = AckPhase::Stopping;
        s.phase = Phase::Down;
        self.new_round(c);
    }

    fn start_cruise(&mut self) {
        let s = &mut self.state;
        if s.inflight_lo != UNSET {
            s.inflight_lo = s.inflight_lo.min(s.inflight_hi);
        }
        s.phase = Phase::Cruise;
    }

    fn start_refill(&mut self, c: &Conn, up_rounds: u8) {
        let s = &mut self.state;
        (s.bw_lo, s.inflight_lo) = (UNSET, UNSET);
        (s.up_rounds, s.up_acked) = (up_rounds, 0);
        s.stopped_early = false;
        s.ack_phase = AckPhase::Refilling;
        s.phase = Phase::Refill;
        self.new_round(c);
    }

    fn start_up(&mut self, c: &Conn, rs: &RateSample) {
        self.state.ack_phase = AckPhase::Starting;
        self.state.phase = Phase::Up;
        self.state.cycle_us = c.now_us;
        self.new_round(c);
        self.reset_full_pipe(sample_bw(rs));
        self.raise_slope(c);
    }

    /// 1, 2, 4, 8 … packets per round.
    fn raise_slope(&mut self, c: &Conn) {
        let growth = 1u32 << self.state.up_rounds.min(30);
        self.state.up_rounds = (self.state.up_rounds + 1).min(30);
        self.state.up_per_packet = (c.cwnd / growth).max(1);
    }

    pub(super) fn update_probe<E: Env>(&mut self, c: &mut Conn, env: &mut E, rs: &RateSample) {
        if !self.state.full_reached || self.adapt_long_term(c, env, rs) {
            return;
        }
        match self.state.phase {
            Phase::Down => {
                if self.time_to_probe(c) {
                    self.start_refill(c, 0);
                } else if self.has_drained(c) {
                    self.start_cruise();
                }
            }
            Phase::Cruise if self.time_to_probe(c) => self.start_refill(c, 0),
            Phase::Refill if self.state.round_start => {
                self.state.probe_sample = true;
                self.start_up(c, rs);
            }
            Phase::Up => self.check_up(c, env, rs),
            _ => {}
        }
        let marked = self.state.ecn_eligible && self.state.ecn_in_cycle && !self.state.loss_in_cycle;
        if matches!(self.state.phase, Phase::Down | Phase::Cruise) && marked && c.state == CaState::Open {
            let half = self.state.inflight_hi / 2;
            if self.state.inflight_hi != UNSET && half > 0 {
                self.start_refill(c, half.ilog2() as u8);
            }
        }
    }

    /// Step 1 of A7; true: a refill was started, end the step.
    fn adapt_long_term<E: Env>(&mut self, c: &mut Conn, env: &mut E, rs: &RateSample) -> bool {
        if self.state.round_start {
            match self.state.ack_phase {
                AckPhase::Starting => self.state.ack_phase = AckPhase::Feedback,
                AckPhase::Stopping => {
                    self.state.probe_sample = false;
                    self.state.ack_phase = AckPhase::Init;
                    if self.state.phase.probes_bw() && !rs.is_app_limited {
                        self.advance_max_bw();
                    }
                    if self.state.phase.probes_bw() && self.state.stopped_early && !self.state.too_high {
                        self.start_refill(c, 0);
                        return true;
                    }
                }
                _ => {}
            }
        }
        let lost = c.lost_total.wrapping_sub(self.state.sample_lost);
        let tx = self.state.sample_tx_in_flight;
        if rs.delivered > 0 && ((rs.losses > 0 && is_too_lossy(lost, tx)) || self.ecn_too_high(rs)) {
            if self.state.probe_sample {
                self.too_high(c, env, tx, rs.is_app_limited);
            }
        } else if self.state.inflight_hi != UNSET {
            self.state.inflight_hi = self.state.inflight_hi.max(tx);
            if self.state.phase == Phase::Up {
                self.grow_long_term(c, rs);
            }
        }
        false
    }

    fn grow_long_term(&mut self, c: &Conn, rs: &RateSample) {
        if !c.is_cwnd_limited() || c.cwnd < self.state.inflight_hi {
            return;
        }
        let s = &mut self.state;
        s.up_acked = s.up_acked.saturating_add(rs.acked_sacked);
        if s.up_acked >= s.up_per_packet {
            let n = s.up_acked / s.up_per_packet;
            s.up_acked -= n * s.up_per_packet;
            s.inflight_hi = s.inflight_hi.saturating_add(n);
        }
        if s.round_start {
            self.raise_slope(c);
        }
    }

    fn time_to_probe(&self, c: &Conn) -> bool {
        let s = &self.state;
        let target = self.bdp(self.bandwidth(), 256).min(c.cwnd);
        c.now_us > s.cycle_us + u64::from(s.wait_us) || u32::from(s.rounds_since_probe) >= target.min(MAX_ROUNDS)
    }

    fn has_drained(&self, c: &Conn) -> bool {
        let in_net = self.in_net(c, c.in_flight());
        in_net <= self.with_headroom() && in_net <= self.inflight(c, self.max_bw(), 256)
    }

    fn check_up<E: Env>(&mut self, c: &Conn, env: &mut E, rs: &RateSample) {
        let limited = c.is_cwnd_limited() && c.cwnd >= self.state.inflight_hi;
        let in_net = self.in_net(c, rs.prior_in_flight);
        if self.state.too_high && in_net >= self.state.inflight_hi {
            self.state.stopped_early = true;
        } else if limited {
            return self.reset_full_pipe(sample_bw(rs));
        } else if !self.state.full_now {
            return;
        }
        self.state.too_high = false;
        self.start_down(c, env);
    }

    /// A probe lost or marked too much at `level` in flight: one reaction per probe.
    fn too_high<E: Env>(&mut self, c: &Conn, env: &mut E, level: u32, app_limited: bool) {
        self.state.too_high = true;
        self.state.probe_sample = false;
        if !app_limited {
            let target = self.bdp(self.bandwidth(), 256).min(c.cwnd);
            let floor = (u64::from(target) * 180 >> 8) as u32;
            self.state.inflight_hi = level.max(floor).max(CWND_MIN);
        }
        if self.state.phase == Phase::Up {
            self.start_down(c, env);
        }
    }

    pub(super) fn packet_lost<E: Env>(&mut self, c: &Conn, env: &mut E, lost: &LostPackets) {
        let s = &mut self.state;
        if !s.loss_in_round {
            s.loss_round_delivered = c.delivered;
            s.undo = [s.bw_lo, s.inflight_lo, s.inflight_hi];
        }
        s.loss_in_round = true;
        s.loss_in_cycle = true;
        s.loss_events = s.loss_events.saturating_add(1).min(15);
        if !s.probe_sample {
            return;
        }
        let total = c.lost_total.wrapping_sub(lost.lost_at_send);
        if is_too_lossy(total, lost.tx_in_flight) {
            let level = safe_level(lost.tx_in_flight, total, lost.packets);
            self.too_high(c, env, level, lost.snapshot.app_limited);
        }
    }

    pub(super) fn update_min_rtt<E: Env>(&mut self, c: &mut Conn, _env: &mut E, rs: &RateSample) {
        let s = &mut self.state;
        let expired = c.now_us > s.probe_rtt_min_us + PROBE_RTT_INTERVAL_US;
        if rs.rtt_us >= 0 && (rs.rtt_us < i64::from(s.probe_rtt_min) || (expired && !rs.is_ack_delayed)) {
            (s.probe_rtt_min, s.probe_rtt_min_us) = (rs.rtt_us.min(i64::from(u32::MAX - 1)) as u32, c.now_us);
        }
        if s.probe_rtt_min <= s.min_rtt || c.now_us > s.min_rtt_us + MIN_RTT_WINDOW_US {
            (s.min_rtt, s.min_rtt_us) = (s.probe_rtt_min, s.probe_rtt_min_us);
        }
        if expired && !s.idle_restart && s.phase != Phase::ProbeRtt {
            s.phase = Phase::ProbeRtt;
            s.probe_rtt_done_us = 0;
            s.ack_phase = AckPhase::Stopping;
            self.save_cwnd(c);
            self.new_round(c);
        }
        if self.state.phase == Phase::ProbeRtt {
            self.probe_rtt(c);
        }
        if rs.delivered > 0 {
            self.state.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, c: &mut Conn) {
        c.app_lim = c.delivered.wrapping_add(c.in_flight()).max(1);
        if self.state.probe_rtt_done_us == 0 && c.in_flight() <= self.probe_rtt_cwnd() {
            self.state.probe_rtt_done_us = c.now_us + PROBE_RTT_US;
            self.state.probe_rtt_round = false;
            self.new_round(c);
        } else if self.state.probe_rtt_done_us != 0 {
            self.state.probe_rtt_round |= self.state.round_start;
            if self.state.probe_rtt_round {
                self.check_probe_rtt_done(c);
            }
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, c: &mut Conn) {
        let s = &mut self.state;
        if s.probe_rtt_done_us == 0 || c.now_us <= s.probe_rtt_done_us {
            return;
        }
        s.probe_rtt_min_us = c.now_us;
        c.cwnd = c.cwnd.max(s.saved_cwnd);
        (s.bw_lo, s.inflight_lo) = (UNSET, UNSET);
        if !s.full_reached {
            s.phase = Phase::Startup;
            return;
        }
        // Down and at once cruise; the wait was drawn when this cycle began.
        (s.loss_in_round, s.ecn_in_round, s.bw_latest, s.inflight_latest) = (false, false, 0, 0);
        (s.rounds_since_probe, s.cycle_us) = (0, c.now_us);
        s.ack_phase = AckPhase::Stopping;
        s.wait_us = s.wait_us.max(WAIT_BASE_US);
        self.new_round(c);
        self.start_cruise();
    }
}
