//! The cubic curve, its Reno-friendly floor and the cube root (spec/cubic.md §4, §5).

use super::Cubic;
use crate::env::Env;

/// First guesses of the cube root, index 0…63 (spec/cubic.md §5).
const GUESS: [u8; 64] = [
    0, 54, 54, 54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156, 157, 161, 164, 168, 170, 173, 176, 179,
    181, 185, 187, 190, 192, 194, 197, 199, 200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227,
    229, 231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
];

/// Linux's approximate cube root: a table guess and one Newton step, below 1 % off above 2^20. Never exact by design.
#[must_use]
pub fn cube_root(a: u64) -> u32 {
    let bits = u64::BITS - a.leading_zeros();
    if bits < 7 {
        return (u32::from(GUESS[a as usize]) + 35) >> 6;
    }
    let shift = ((bits * 84) >> 8) - 1;
    let i = (a >> (3 * shift)) as usize;
    let x = ((u32::from(GUESS[i & 63]) + 10) << shift) >> 6;
    // x is at least 2 for every argument of 7 bits or more.
    let divisor = u64::from(x) * u64::from(x.wrapping_sub(1)).max(1);
    let x = x.wrapping_mul(2).wrapping_add((a / divisor) as u32);
    x.wrapping_mul(341) >> 10
}

impl Cubic {
    /// Evaluates the curve for window `w` and `acked` delivered packets: sets `cnt` (spec/cubic.md §4).
    pub(super) fn update<E: Env>(&mut self, env: &mut E, w: u32, acked: u32) {
        let (j, hz) = (env.jiffies(), env.hz());
        let s = &mut self.state;
        s.ackc = s.ackc.wrapping_add(acked);
        if s.last_w == w && j.wrapping_sub(s.last_j) as i32 <= (hz.get() / 32) as i32 {
            return;
        }
        // At most one evaluation per tick; the Reno part runs for every ACK.
        if s.epoch == 0 || j != s.last_j {
            s.last_w = w;
            s.last_j = j;
            if s.epoch == 0 {
                self.start_epoch(j, w, acked);
            }
            let elapsed = j.wrapping_sub(self.state.epoch) as i32 as u64;
            let t = elapsed.wrapping_add(u64::from(hz.ticks_from_us(self.state.dmin)));
            self.evaluate((t << 10) / u64::from(hz.get()), w);
        }
        if self.params.tcp_friendliness {
            self.keep_up_with_reno(w);
        }
        self.state.cnt = self.state.cnt.max(2);
    }

    /// The first ACK of congestion avoidance after a reduction starts the curve.
    fn start_epoch(&mut self, j: u32, w: u32, acked: u32) {
        let s = &mut self.state;
        s.epoch = j;
        s.ackc = acked;
        s.rw = w;
        if s.wmax <= w {
            s.k = 0;
            s.origin = w;
        } else {
            s.k = cube_root(self.scale.kfactor.wrapping_mul(u64::from(s.wmax - w)));
            s.origin = s.wmax;
        }
    }

    /// The curve at `t` (1/1024 s since the epoch's start, one minimum RTT ahead).
    #[inline]
    fn evaluate(&mut self, t: u64, w: u32) {
        let s = &mut self.state;
        let off = t.abs_diff(u64::from(s.k));
        let cube = u64::from(self.scale.rscale).wrapping_mul(off).wrapping_mul(off).wrapping_mul(off);
        let delta = (cube >> 40) as u32;
        let target = if t < u64::from(s.k) { s.origin.wrapping_sub(delta) } else { s.origin.wrapping_add(delta) };
        s.cnt = if target > w { w / (target - w) } else { w.wrapping_mul(100) };
        // Before the first reduction and after a timeout: at least 5 % per RTT.
        if s.wmax == 0 && s.cnt > 20 {
            s.cnt = 20;
        }
    }

    /// Grows at least as fast as the Reno estimate.
    #[inline]
    pub(super) fn keep_up_with_reno(&mut self, w: u32) {
        let s = &mut self.state;
        let q = w.wrapping_mul(self.scale.fscale) >> 3;
        if s.ackc > q && q != 0 {
            // Linux subtracts q until ackc ≤ q; almost always once.
            let n = if s.ackc - q <= q { 1 } else { (s.ackc - 1) / q };
            s.ackc -= n * q;
            s.rw = s.rw.wrapping_add(n);
        }
        if s.rw > w {
            s.cnt = s.cnt.min(w / (s.rw - w));
        }
    }
}
