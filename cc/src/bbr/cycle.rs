//! The gain cycle, the minimum RTT and its probe, gains (spec/bbr.md §5, §8, §11).

use super::{Bbr, CWND_MIN, CYCLE, GAIN_CWND, GAIN_DRAIN, GAIN_HIGH, GAIN_ONE, Mode};
use crate::clock::{after, delta_us};
use crate::conn::Conn;
use crate::env::Env;
use crate::rate::RateSample;

/// Random starts of the cycle: any phase but the draining one.
const CYCLE_RAND: u32 = 7;
/// Window of the minimum RTT, seconds.
const MIN_RTT_SECONDS: u32 = 10;
const PROBE_RTT_MS: u32 = 200;

impl Bbr {
    /// C: next phase of the cycle when this one has done its work.
    #[inline]
    pub(super) fn update_cycle(&mut self, c: &Conn, rs: &RateSample) {
        if self.state.mode == Mode::ProbeBw && self.phase_is_over(c, rs) {
            self.advance_phase(c);
        }
    }

    #[inline]
    fn phase_is_over(&self, c: &Conn, rs: &RateSample) -> bool {
        let s = &self.state;
        let long = delta_us(c.delivered_us, s.phase_us) > s.min_rtt;
        if s.pacing_gain == GAIN_ONE {
            return long;
        }
        let in_net = s.in_net(c, rs.prior_in_flight);
        if s.pacing_gain > GAIN_ONE {
            return long && (rs.losses != 0 || in_net >= s.inflight(c, s.bw.get(), s.pacing_gain));
        }
        long || in_net <= s.inflight(c, s.bw.get(), GAIN_ONE)
    }

    fn advance_phase(&mut self, c: &Conn) {
        self.state.idx = (self.state.idx + 1) & 7;
        self.state.phase_us = c.delivered_us;
    }

    /// Starts the cycle at a random phase, never at the draining one.
    pub(super) fn enter_probe_bw<E: Env>(&mut self, c: &Conn, env: &mut E) {
        self.state.mode = Mode::ProbeBw;
        self.state.idx = ((CYCLE_RAND - env.random_below(CYCLE_RAND).min(CYCLE_RAND - 1)) & 7) as u8;
        self.advance_phase(c);
    }

    /// F: the minimum RTT; ten seconds without a lower one start PROBE_RTT.
    #[inline]
    pub(super) fn update_min_rtt<E: Env>(&mut self, c: &mut Conn, env: &mut E, rs: &RateSample) {
        let (j, window) = (env.jiffies(), MIN_RTT_SECONDS * env.hz().get());
        let s = &mut self.state;
        let expired = after(j, s.min_rtt_j.wrapping_add(window));
        if rs.rtt_us >= 0 && (rs.rtt_us < i64::from(s.min_rtt) || (expired && !rs.is_ack_delayed)) {
            s.min_rtt = rs.rtt_us as u32;
            s.min_rtt_j = j;
        }
        if expired && !s.idle_restart && s.mode != Mode::ProbeRtt {
            s.mode = Mode::ProbeRtt;
            s.save_cwnd(c);
            s.probe_rtt_done = 0;
        }
        if s.mode == Mode::ProbeRtt {
            self.probe_rtt(c, env, j);
        }
        if rs.delivered > 0 {
            self.state.idle_restart = false;
        }
    }

    /// Keeps four packets in flight for 200 ms and at least a round; samples of that time are application-limited.
    fn probe_rtt<E: Env>(&mut self, c: &mut Conn, env: &mut E, j: u32) {
        c.app_lim = c.delivered.wrapping_add(c.in_flight()).max(1);
        let s = &mut self.state;
        if s.probe_rtt_done == 0 && c.in_flight() <= CWND_MIN {
            s.probe_rtt_done = j.wrapping_add(env.hz().ticks_from_ms(PROBE_RTT_MS));
            s.probe_rtt_round = false;
            s.next_round = c.delivered;
        } else if s.probe_rtt_done != 0 {
            if s.round_start {
                s.probe_rtt_round = true;
            }
            if s.probe_rtt_round {
                self.check_probe_rtt_done(c, env);
            }
        }
    }

    /// Leaves PROBE_RTT once its time has passed.
    pub(super) fn check_probe_rtt_done<E: Env>(&mut self, c: &mut Conn, env: &mut E) {
        let j = env.jiffies();
        let s = &mut self.state;
        if s.probe_rtt_done == 0 || !after(j, s.probe_rtt_done) {
            return;
        }
        s.min_rtt_j = j;
        c.cwnd = c.cwnd.max(s.saved_cwnd);
        if s.full {
            self.enter_probe_bw(c, env);
        } else {
            s.mode = Mode::Startup;
        }
    }

    /// G: gains of the mode.
    #[inline]
    pub(super) fn update_gains(&mut self) {
        let s = &mut self.state;
        (s.pacing_gain, s.cwnd_gain) = match s.mode {
            Mode::Startup => (GAIN_HIGH, GAIN_HIGH),
            Mode::Drain => (GAIN_DRAIN, GAIN_HIGH),
            Mode::ProbeBw => (if s.pol_use { GAIN_ONE } else { CYCLE[usize::from(s.idx & 7)] }, GAIN_CWND),
            Mode::ProbeRtt => (GAIN_ONE, GAIN_ONE),
        };
    }
}
