//! BBR version 1, exactly as Linux computes it (spec/bbr.md).
//!
//! The model is a bandwidth (windowed maximum over ten rounds) and a minimum RTT (ten seconds); pacing rate and window
//! follow from their product. BBR replaces PRR, growth, idle restart and the core's pacing rate.

mod control;
mod cycle;
mod model;
mod policer;

use crate::algorithm::{AckFlags, Algorithm, CwndEvent, Info};
use crate::conn::{CaState, Conn, INFINITE_SSTHRESH, PaceMode};
use crate::env::Env;
use crate::minmax::WindowedFilter;
use crate::rate::RateSample;

/// Bits of fraction of a bandwidth in packets per µs.
pub const BW_SCALE: u32 = 24;
/// A gain of 1.
pub const GAIN_ONE: u32 = 256;
/// Startup's pacing and window gain, 2/ln 2.
pub const GAIN_HIGH: u32 = 739;
/// Drain's pacing gain, its inverse.
pub const GAIN_DRAIN: u32 = 88;
/// Window gain while probing for bandwidth.
pub const GAIN_CWND: u32 = 512;
/// Pacing gains of the eight phases.
pub const CYCLE: [u32; 8] = [320, 192, 256, 256, 256, 256, 256, 256];
/// Least window, packets.
pub const CWND_MIN: u32 = 4;

/// What BBR is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Find the bandwidth.
    #[default]
    Startup = 0,
    /// Empty the queue that start-up built.
    Drain = 1,
    /// Cruise, probing up and down.
    ProbeBw = 2,
    /// Reduce the flight to see the minimum RTT.
    ProbeRtt = 3,
}

impl Mode {
    /// The mode with this number, if there is one.
    #[must_use]
    pub const fn from_number(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::Startup,
            1 => Self::Drain,
            2 => Self::ProbeBw,
            3 => Self::ProbeRtt,
            _ => return None,
        })
    }
}

/// BBR's private area (spec/bbr.md §2). Bits are `bool`; counters are kept to the stated width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Minimum RTT, µs; `u32::MAX`: none.
    pub min_rtt: u32,
    /// Tick at which it was taken.
    pub min_rtt_j: u32,
    /// Tick after which PROBE_RTT may end; 0: not armed.
    pub probe_rtt_done: u32,
    /// Bandwidth, windowed maximum over ten rounds.
    pub bw: WindowedFilter,
    /// Packet-timed round trips.
    pub rounds: u32,
    /// `delivered` that ends the round.
    pub next_round: u32,
    /// Start of the cycle phase, µs.
    pub phase_us: u64,
    /// Congestion state at the last ACK.
    pub prev_state: CaState,
    /// Packet conservation for the first round of recovery.
    pub conserve: bool,
    /// This ACK started a round.
    pub round_start: bool,
    /// What BBR is doing.
    pub mode: Mode,
    /// Restarting after idle.
    pub idle_restart: bool,
    /// A round has passed in PROBE_RTT.
    pub probe_rtt_round: bool,
    /// Policer: an interval is being sampled.
    pub pol_on: bool,
    /// Policer: rounds in the interval (7 bits).
    pub pol_n: u8,
    /// Policer: its bandwidth is in use.
    pub pol_use: bool,
    /// Policer: bandwidth.
    pub pol_bw: u32,
    /// Policer: `delivered` at the interval's start.
    pub pol_del: u32,
    /// Policer: the interval's start, ms.
    pub pol_ms: u32,
    /// Policer: `lost_total` at the interval's start.
    pub pol_lost: u32,
    /// Pacing gain in force; 0 before the first ACK.
    pub pacing_gain: u32,
    /// Window gain in force.
    pub cwnd_gain: u32,
    /// The pipe has been filled once; never cleared.
    pub full: bool,
    /// Rounds without growth (2 bits).
    pub full_n: u8,
    /// Cycle phase, 0 to 7.
    pub idx: u8,
    /// Pacing has been initialised from a real RTT.
    pub seen_rtt: bool,
    /// Last known good window, packets.
    pub saved_cwnd: u32,
    /// Bandwidth at the last growth.
    pub full_bw: u32,
    /// ACK aggregation: start of the epoch, µs.
    pub xa_us: u64,
    /// ACK aggregation: excess of the two slots, packets.
    pub xa: [u16; 2],
    /// ACK aggregation: packets acknowledged in the epoch (20 bits).
    pub xa_acked: u32,
    /// ACK aggregation: age of the slot, rounds (5 bits).
    pub xa_n: u8,
    /// ACK aggregation: slot in use, 0 or 1.
    pub xa_slot: u8,
}

/// BBR version 1. It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bbr {
    /// The private area, open to replays and diagnostics.
    pub state: State,
}

impl Algorithm for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn init<E: Env>(&mut self, c: &mut Conn, env: &mut E) {
        let j = env.jiffies();
        // The gains stay as an ACK before `init` may have left them.
        let State { pacing_gain, cwnd_gain, .. } = self.state;
        c.ssthresh = INFINITE_SSTHRESH;
        self.state = State {
            pacing_gain,
            cwnd_gain,
            next_round: c.delivered,
            min_rtt: c.min_rtt.get(),
            min_rtt_j: j,
            xa_us: c.now_us,
            ..State::default()
        };
        self.init_pacing(c);
        self.state.start_interval(c);
        if c.pace_mode == PaceMode::None {
            c.pace_mode = PaceMode::Internal;
        }
    }

    /// Remembers the window; the threshold means nothing to BBR.
    fn ssthresh<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        self.state.save_cwnd(c);
        c.ssthresh
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    /// Model, then pacing rate, then window, in Linux's order (spec/bbr.md §5).
    fn cong_control<E: Env>(&mut self, c: &mut Conn, env: &mut E, _ack: u32, _flags: AckFlags, rs: &RateSample) {
        self.update_bw(c, env, rs);
        self.update_aggregation(c, rs);
        self.update_cycle(c, rs);
        self.check_full_pipe(rs);
        self.check_drain(c, env);
        self.update_min_rtt(c, env, rs);
        self.update_gains();
        let bw = self.state.bandwidth();
        self.set_pacing_rate(c, bw, self.state.pacing_gain);
        self.set_cwnd(c, rs, bw);
    }

    fn set_state<E: Env>(&mut self, c: &mut Conn, env: &mut E, new: CaState) {
        if new != CaState::Loss {
            return;
        }
        self.state.prev_state = CaState::Loss;
        self.state.full_bw = 0;
        self.state.round_start = true;
        self.police(c, env, 1, false);
    }

    /// Restart from idle, only if the sender had run out of data.
    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, event: CwndEvent) {
        if event != CwndEvent::TxStart || c.app_lim == 0 {
            return;
        }
        self.state.idle_restart = true;
        self.state.xa_us = c.now_us;
        self.state.xa_acked = 0;
        match self.state.mode {
            Mode::ProbeBw => self.set_pacing_rate(c, self.state.bandwidth(), GAIN_ONE),
            Mode::ProbeRtt => self.check_probe_rtt_done(c, env),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        self.state.full_bw = 0;
        self.state.full_n = 0;
        self.state.reset_policer(c);
        c.cwnd
    }

    fn min_tso_segs(&self, c: &Conn) -> Option<u32> {
        Some(control::min_tso_segs(c))
    }

    fn sndbuf_expand(&self) -> u32 {
        3
    }

    fn info(&self, c: &Conn) -> Info {
        let s = &self.state;
        let bw = u64::from(s.bandwidth()).wrapping_mul(u64::from(c.mss)).wrapping_mul(1_000_000) >> BW_SCALE;
        Info::Bbr { bw, min_rtt_us: s.min_rtt, pacing_gain: s.pacing_gain, cwnd_gain: s.cwnd_gain }
    }
}

#[cfg(test)]
mod tests;
