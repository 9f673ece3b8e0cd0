//! CUBIC with HyStart, exactly as Linux computes it (spec/cubic.md; RFC 9438 differs where that file says).

mod curve;
mod hystart;

use thiserror::Error;

use crate::algorithm::{AckSample, Algorithm, CwndEvent};
use crate::clock::after;
use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::reno;
use crate::window::{additive_increase, slow_start};

pub use curve::cube_root;

/// A parameter that the kernel's arithmetic could not divide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadParams {
    /// `beta` must be below 1024.
    #[error("cubic: beta {0}: expected 0 to 1023")]
    Beta(
        /// The refused value.
        u32,
    ),
    /// `bic_scale` must be positive and its tenfold fit in 32 bits.
    #[error("cubic: bic_scale {0}: expected 1 to 429496729")]
    BicScale(
        /// The refused value.
        u32,
    ),
}

/// Module parameters of `tcp_cubic` (spec/cubic.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Release bandwidth faster when the maximum shrinks.
    pub fast_convergence: bool,
    /// Multiplicative decrease, /1024.
    pub beta: u32,
    /// Threshold at `init` if HyStart is off; 0: leave it infinite.
    pub initial_ssthresh: u32,
    /// Cubic coefficient, /1024.
    pub bic_scale: u32,
    /// Never grow slower than Reno would.
    pub tcp_friendliness: bool,
    /// HyStart on.
    pub hystart: bool,
    /// HyStart's detectors: value 1 ACK train, value 2 delay.
    pub hystart_detect: u32,
    /// HyStart is silent below this window, packets.
    pub hystart_low_window: u32,
    /// Largest gap inside an ACK train, µs.
    pub hystart_ack_delta_us: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            fast_convergence: true,
            beta: 717,
            initial_ssthresh: 0,
            bic_scale: 41,
            tcp_friendliness: true,
            hystart: true,
            hystart_detect: 3,
            hystart_low_window: 16,
            hystart_ack_delta_us: 2000,
        }
    }
}

/// Factors derived once from the parameters, as at module load: a later change of `beta` does not touch them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// `bic_scale · 10`.
    pub rscale: u32,
    /// Windows per packet of the Reno estimate, in eighths.
    pub fscale: u32,
    /// `2^40 / rscale`: cube of the curve ticks per packet.
    pub kfactor: u64,
}

impl Scale {
    /// Derives the factors.
    ///
    /// # Errors
    /// [`BadParams`] where a division would fail.
    pub const fn new(p: &Params) -> Result<Self, BadParams> {
        if p.beta >= 1024 {
            return Err(BadParams::Beta(p.beta));
        }
        if p.bic_scale == 0 || p.bic_scale > u32::MAX / 10 {
            return Err(BadParams::BicScale(p.bic_scale));
        }
        let rscale = p.bic_scale * 10;
        Ok(Self { rscale, fscale: (8 * (1024 + p.beta)) / 3 / (1024 - p.beta), kfactor: (1u64 << 40) / rscale as u64 })
    }
}

/// CUBIC's private area (spec/cubic.md §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Delivered packets per packet of growth.
    pub cnt: u32,
    /// Window before the last reduction; 0: unknown.
    pub wmax: u32,
    /// Window at the last evaluation of the curve.
    pub last_w: u32,
    /// Plateau of the curve.
    pub origin: u32,
    /// Tick of the last evaluation.
    pub last_j: u32,
    /// Curve ticks (1/1024 s) from epoch start to the plateau.
    pub k: u32,
    /// Smallest RTT, µs; 0: none.
    pub dmin: u32,
    /// Tick of the epoch's start; 0: no epoch.
    pub epoch: u32,
    /// Delivered packets not yet used by the Reno estimate.
    pub ackc: u32,
    /// Reno's window.
    pub rw: u32,
    /// RTT samples of this HyStart round.
    pub hs_n: u8,
    /// HyStart has fired.
    pub found: u8,
    /// Start of the round, µs.
    pub hs_start: u32,
    /// Sequence that ends the round.
    pub hs_end: u32,
    /// Last ACK of the train, µs.
    pub hs_last: u32,
    /// Smallest RTT of the round, µs.
    pub hs_rtt: u32,
}

impl State {
    /// Forgets the curve; the HyStart round stays.
    fn reset(&mut self) {
        *self = Self {
            hs_n: self.hs_n,
            hs_start: self.hs_start,
            hs_end: self.hs_end,
            hs_last: self.hs_last,
            hs_rtt: self.hs_rtt,
            ..Self::default()
        };
    }
}

/// CUBIC. `Cubic::default()` is Linux's default algorithm with its default parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    params: Params,
    scale: Scale,
    /// The private area, open to replays and diagnostics.
    pub state: State,
}

impl Default for Cubic {
    fn default() -> Self {
        const PARAMS: Scale = Scale { rscale: 410, fscale: 15, kfactor: 2_681_735_677 };
        Self { params: Params::default(), scale: PARAMS, state: State::default() }
    }
}

impl Cubic {
    /// CUBIC with these module parameters.
    ///
    /// # Errors
    /// [`BadParams`] if `beta` is 1024 or more, or `bic_scale` is 0.
    pub fn new(params: Params) -> Result<Self, BadParams> {
        Ok(Self { params, scale: Scale::new(&params)?, state: State::default() })
    }

    /// The parameters in force.
    #[must_use]
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Changes the parameters that can be written while running; `bic_scale` and the factors derived at load stay.
    pub fn set_params(&mut self, params: Params) {
        self.params = Params { bic_scale: self.params.bic_scale, ..params };
    }
}

impl Algorithm for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn init<E: Env>(&mut self, c: &mut Conn, _env: &mut E) {
        self.state.reset();
        if self.params.hystart {
            self.state.start_round(c);
        } else if self.params.initial_ssthresh != 0 {
            c.ssthresh = self.params.initial_ssthresh;
        }
    }

    /// β·cwnd, at least 2; remembers the maximum, lowered if it shrinks. The products are 32-bit.
    fn ssthresh<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        let (s, p) = (&mut self.state, &self.params);
        s.epoch = 0;
        s.wmax = if c.cwnd < s.wmax && p.fast_convergence {
            c.cwnd.wrapping_mul(p.beta.wrapping_add(1024)) / 2048
        } else {
            c.cwnd
        };
        (c.cwnd.wrapping_mul(p.beta) / 1024).max(2)
    }

    fn cong_avoid<E: Env>(&mut self, c: &mut Conn, env: &mut E, _ack: u32, mut acked: u32) {
        if !c.is_cwnd_limited() {
            return;
        }
        if c.in_slow_start() {
            acked = slow_start(c, acked);
            if acked == 0 {
                return;
            }
        }
        self.update(env, c.cwnd, acked);
        additive_increase(c, self.state.cnt, acked);
    }

    /// Loss forgets everything, the maximum included, and starts HyStart afresh.
    fn set_state<E: Env>(&mut self, c: &mut Conn, _env: &mut E, new: CaState) {
        if new == CaState::Loss {
            self.state.reset();
            self.state.start_round(c);
        }
    }

    /// Cuts idle time out of the curve's time axis.
    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, event: CwndEvent) {
        if event != CwndEvent::TxStart {
            return;
        }
        let j = env.jiffies();
        let idle = j.wrapping_sub(c.last_send_j) as i32;
        let s = &mut self.state;
        if s.epoch != 0 && idle > 0 {
            s.epoch = s.epoch.wrapping_add(idle as u32);
            if after(s.epoch, j) {
                s.epoch = j;
            }
        }
    }

    /// Takes an RTT sample: not in the first second of an epoch (spec/cubic.md §8).
    fn pkts_acked<E: Env>(&mut self, c: &mut Conn, env: &mut E, sample: &AckSample) {
        if sample.rtt_us < 0 {
            return;
        }
        let s = &mut self.state;
        if s.epoch != 0 && (env.jiffies().wrapping_sub(s.epoch) as i32) < env.hz().get() as i32 {
            return;
        }
        let d = (sample.rtt_us as u32).max(1);
        if s.dmin == 0 || d < s.dmin {
            s.dmin = d;
        }
        if s.found == 0 && c.in_slow_start() && self.params.hystart {
            s.hystart(&self.params, c, d);
        }
    }

    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        reno::undo_cwnd(c)
    }
}

#[cfg(test)]
mod tests;
