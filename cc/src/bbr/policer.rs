//! Long-term bandwidth: detecting a token-bucket policer (spec/bbr.md §12).

use super::control::rate;
use super::{BW_SCALE, Bbr, GAIN_ONE, Mode, State};
use crate::conn::Conn;
use crate::env::Env;

const MIN_ROUNDS: u8 = 4;
const MAX_ROUNDS: u8 = 16;
/// Loss that suggests a policer, /256 of delivered.
const LOSS_THRESH: u32 = 50;
/// Two intervals agree within an eighth …
const RATIO: u32 = 32;
/// … or within 500 bytes/s.
const DIFF: u64 = 500;
/// The policer's rate is believed for 48 rounds.
const USE_ROUNDS: u8 = 48;

impl State {
    pub(super) fn start_interval(&mut self, c: &Conn) {
        self.pol_ms = (c.delivered_us / 1000) as u32;
        self.pol_del = c.delivered;
        self.pol_lost = c.lost_total;
        self.pol_n = 0;
    }

    pub(super) fn reset_policer(&mut self, c: &Conn) {
        self.pol_bw = 0;
        self.pol_use = false;
        self.pol_on = false;
        self.start_interval(c);
    }

    /// An interval ended with bandwidth `bw`: two that agree make it the policer's rate.
    pub(super) fn end_interval(&mut self, c: &Conn, bw: u32) {
        if self.pol_bw != 0 {
            let diff = bw.wrapping_sub(self.pol_bw) as i32;
            let diff = diff.unsigned_abs();
            if diff.wrapping_mul(256) <= RATIO.wrapping_mul(self.pol_bw) || rate(c, u64::from(diff), GAIN_ONE) <= DIFF {
                self.pol_bw = bw.wrapping_add(self.pol_bw) >> 1;
                self.pol_use = true;
                self.pacing_gain = GAIN_ONE;
                self.pol_n = 0;
                return;
            }
        }
        self.pol_bw = bw;
        self.start_interval(c);
    }
}

impl Bbr {
    /// Policer step for a sample with this many losses.
    #[inline]
    pub(super) fn police<E: Env>(&mut self, c: &Conn, env: &mut E, losses: i32, app_limited: bool) {
        let s = &mut self.state;
        if s.pol_use {
            if s.mode == Mode::ProbeBw && s.round_start {
                s.pol_n = (s.pol_n + 1) & 127;
                if s.pol_n >= USE_ROUNDS {
                    s.reset_policer(c);
                    self.enter_probe_bw(c, env);
                }
            }
            return;
        }
        if !s.pol_on {
            if losses == 0 {
                return;
            }
            s.start_interval(c);
            s.pol_on = true;
        }
        if app_limited {
            return s.reset_policer(c);
        }
        if s.round_start {
            s.pol_n = (s.pol_n + 1) & 127;
        }
        if s.pol_n < MIN_ROUNDS {
            return;
        }
        if s.pol_n > MAX_ROUNDS {
            return s.reset_policer(c);
        }
        if losses != 0 {
            s.sample_interval(c);
        }
    }
}

impl State {
    /// Ends the interval at a loss if enough was lost in it; all products wrap in 32 bits.
    fn sample_interval(&mut self, c: &Conn) {
        let lost = c.lost_total.wrapping_sub(self.pol_lost);
        let delivered = c.delivered.wrapping_sub(self.pol_del);
        if delivered == 0 || (lost << 8) < LOSS_THRESH.wrapping_mul(delivered) {
            return;
        }
        let ms = ((c.delivered_us / 1000) as u32).wrapping_sub(self.pol_ms);
        if (ms as i32) < 1 {
            return;
        }
        if ms >= u32::MAX / 1000 {
            return self.reset_policer(c);
        }
        let bw = (u64::from(delivered) << BW_SCALE) / (u64::from(ms) * 1000);
        self.end_interval(c, bw as u32);
    }
}
