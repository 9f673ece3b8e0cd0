//! HyStart: leave slow start on an ACK train or a rising delay (spec/cubic.md §9).

use super::{Params, State};
use crate::clock::after;
use crate::conn::{Conn, PaceMode};

/// Samples before the delay test looks.
const MIN_SAMPLES: u8 = 8;
const DELAY_MIN_US: u32 = 4000;
const DELAY_MAX_US: u32 = 16_000;
/// Largest allowance for a burst inside the train, µs.
const CUSHION_MAX_US: u64 = 1000;

/// Detector bits of `hystart_detect`.
const ACK_TRAIN: u32 = 1;
const DELAY: u32 = 2;

/// How far above the minimum the round's smallest RTT must be, µs: an eighth, between 4 and 16 ms.
#[must_use]
pub(crate) const fn delay_allowance(dmin: u32) -> u32 {
    let eighth = dmin >> 3;
    if eighth < DELAY_MIN_US {
        DELAY_MIN_US
    } else if eighth > DELAY_MAX_US {
        DELAY_MAX_US
    } else {
        eighth
    }
}

/// Time a burst of four maximal segments takes at the pacing rate, at most 1 ms.
fn cushion(c: &Conn) -> u32 {
    if c.pace_rate == 0 {
        return 0;
    }
    (u64::from(c.gso_max) * 4_000_000 / c.pace_rate).min(CUSHION_MAX_US) as u32
}

impl State {
    /// Starts a HyStart round at the present send position.
    pub(super) fn start_round(&mut self, c: &Conn) {
        self.hs_start = c.now_us as u32;
        self.hs_last = c.now_us as u32;
        self.hs_end = c.nxt;
        self.hs_rtt = u32::MAX;
        self.hs_n = 0;
    }

    /// Takes a sample of `d` µs; sets the threshold to the window if slow start should end.
    pub(super) fn hystart(&mut self, p: &Params, c: &mut Conn, d: u32) {
        if after(c.una, self.hs_end) {
            self.start_round(c);
        }
        if c.cwnd < p.hystart_low_window {
            return;
        }
        if p.hystart_detect & ACK_TRAIN != 0 && self.train(p, c) {
            self.leave(c);
        }
        if p.hystart_detect & DELAY != 0 {
            self.hs_rtt = self.hs_rtt.min(d);
            if self.hs_n < MIN_SAMPLES {
                self.hs_n += 1;
            } else if self.hs_rtt > self.dmin.wrapping_add(delay_allowance(self.dmin)) {
                self.leave(c);
            }
        }
    }

    /// ACKs came close together for longer than the path's delay. A gap ends the train until the next round.
    fn train(&mut self, p: &Params, c: &Conn) -> bool {
        let now = c.now_us as u32;
        if now.wrapping_sub(self.hs_last) as i32 > p.hystart_ack_delta_us as i32 {
            return false;
        }
        self.hs_last = now;
        let mut limit = self.dmin.wrapping_add(cushion(c));
        // An unpaced sender's train spans half of what a paced one's does.
        if c.pace_mode == PaceMode::None {
            limit >>= 1;
        }
        now.wrapping_sub(self.hs_start) > limit
    }

    fn leave(&mut self, c: &mut Conn) {
        self.found = 1;
        c.ssthresh = c.cwnd;
    }
}
