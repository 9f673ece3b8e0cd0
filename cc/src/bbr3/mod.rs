//! BBR version 3 (spec/bbr3.md). **Not Linux-exact**: mainline Linux has version 1 only. This is the draft's algorithm
//! with the fixed-point numbers and deviations of the publicly released tree.

mod control;
mod model;
mod probe;

use crate::algorithm::{AckFlags, Algorithm, CwndEvent, Info, LostPackets};
use crate::conn::{CaState, Conn, INFINITE_SSTHRESH, PaceMode};
use crate::env::Env;
use crate::rate::RateSample;

/// "Not set" for limits and bandwidths.
pub const UNSET: u32 = u32::MAX;

/// States and phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Find the bandwidth.
    #[default]
    Startup,
    /// Empty the queue that start-up built.
    Drain,
    /// Probe: below the bandwidth.
    Down,
    /// Probe: at the bandwidth, with headroom.
    Cruise,
    /// Probe: at the bandwidth, without it.
    Refill,
    /// Probe: above the bandwidth.
    Up,
    /// Half a BDP in flight, to see the minimum RTT.
    ProbeRtt,
}

impl Phase {
    const fn probes_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// The short-term limits do not apply.
    const fn probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// Which part of a probe the coming ACKs belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// BBRv3's state: packets, bandwidths in packets per µs · 2^24, times in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Phase.
    pub phase: Phase,
    /// Maximum bandwidth of the previous and the current cycle.
    pub bw_hi: [u32; 2],
    /// Short-term bandwidth.
    pub bw_lo: u32,
    /// Long-term limit of packets in flight.
    pub inflight_hi: u32,
    /// Short-term limit of packets in flight.
    pub inflight_lo: u32,
    /// Minimum RTT over ten seconds, µs.
    pub min_rtt: u32,
    /// Fraction of CE marks, 256 = 1.
    pub ecn_alpha: u32,
    /// The pipe has been filled once.
    pub full_reached: bool,
    pacing_gain: u32,
    cwnd_gain: u32,
    seen_rtt: bool,
    min_rtt_us: u64,
    probe_rtt_min: u32,
    probe_rtt_min_us: u64,
    probe_rtt_done_us: u64,
    probe_rtt_round: bool,
    idle_restart: bool,
    saved_cwnd: u32,
    prev_state: CaState,
    rounds: u32,
    round_start: bool,
    next_round: u32,
    rounds_since_probe: u8,
    loss_round_delivered: u32,
    loss_round_start: bool,
    loss_in_round: bool,
    loss_in_cycle: bool,
    loss_events: u8,
    ecn_in_round: bool,
    ecn_in_cycle: bool,
    bw_latest: u32,
    inflight_latest: u32,
    full_now: bool,
    full_bw: u32,
    full_n: u8,
    ack_phase: AckPhase,
    probe_sample: bool,
    too_high: bool,
    stopped_early: bool,
    up_rounds: u8,
    up_acked: u32,
    up_per_packet: u32,
    wait_us: u32,
    cycle_us: u64,
    undo: [u32; 3],
    xa_us: u64,
    xa_acked: u32,
    xa: [u16; 2],
    xa_n: u8,
    xa_slot: u8,
    alpha_delivered: u32,
    alpha_ce: u32,
    ecn_startup_rounds: u8,
    ecn_eligible: bool,
    sample_tx_in_flight: u32,
    sample_lost: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            phase: Phase::Startup,
            bw_hi: [0; 2],
            bw_lo: UNSET,
            inflight_hi: UNSET,
            inflight_lo: UNSET,
            min_rtt: UNSET,
            ecn_alpha: 256,
            full_reached: false,
            pacing_gain: control::STARTUP_PACING,
            cwnd_gain: control::CWND,
            seen_rtt: false,
            min_rtt_us: 0,
            probe_rtt_min: UNSET,
            probe_rtt_min_us: 0,
            probe_rtt_done_us: 0,
            probe_rtt_round: false,
            idle_restart: false,
            saved_cwnd: 0,
            prev_state: CaState::Open,
            rounds: 0,
            round_start: false,
            next_round: 0,
            rounds_since_probe: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            loss_in_cycle: false,
            loss_events: 0,
            ecn_in_round: false,
            ecn_in_cycle: false,
            bw_latest: 0,
            inflight_latest: 0,
            full_now: false,
            full_bw: 0,
            full_n: 0,
            ack_phase: AckPhase::Init,
            probe_sample: false,
            too_high: false,
            stopped_early: false,
            up_rounds: 0,
            up_acked: 0,
            up_per_packet: UNSET,
            wait_us: 0,
            cycle_us: 0,
            undo: [UNSET; 3],
            xa_us: 0,
            xa_acked: 0,
            xa: [0; 2],
            xa_n: 0,
            xa_slot: 0,
            alpha_delivered: 0,
            alpha_ce: 0,
            ecn_startup_rounds: 0,
            ecn_eligible: false,
            sample_tx_in_flight: 0,
            sample_lost: 0,
        }
    }
}

/// BBR version 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bbr3 {
    /// State, for diagnostics.
    pub state: State,
    /// The path declares shallow-threshold ECN marking (the tree's "low-latency ECN" option); with negotiated ECN and a
    /// minimum RTT of at most 5 ms the flow then answers marks.
    pub low_latency_ecn: bool,
}

impl Algorithm for Bbr3 {
    fn name(&self) -> &'static str {
        "bbr3"
    }

    fn init<E: Env>(&mut self, c: &mut Conn, _env: &mut E) {
        c.ssthresh = INFINITE_SSTHRESH;
        self.state = State {
            next_round: c.delivered,
            loss_round_delivered: c.delivered.wrapping_add(1),
            min_rtt: c.min_rtt.get(),
            min_rtt_us: c.now_us,
            probe_rtt_min: c.min_rtt.get(),
            probe_rtt_min_us: c.now_us,
            cycle_us: c.now_us,
            xa_us: c.now_us,
            alpha_delivered: c.delivered,
            alpha_ce: c.delivered_ce,
            ..State::default()
        };
        self.init_pacing(c);
        if c.pace_mode == PaceMode::None {
            c.pace_mode = PaceMode::Internal;
        }
    }

    /// Saves what undo restores; the threshold means nothing to BBR.
    fn ssthresh<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        self.save_cwnd(c);
        c.ssthresh
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control<E: Env>(&mut self, c: &mut Conn, env: &mut E, _ack: u32, flags: AckFlags, rs: &RateSample) {
        self.update_latest(c, rs);
        self.update_round(c, rs);
        self.update_ecn(c, flags);
        self.update_max_bw(rs);
        self.adapt_short_term(c);
        self.update_aggregation(c, rs);
        self.check_full_pipe(c, rs);
        self.check_drain(c, env);
        self.update_probe(c, env, rs);
        self.update_min_rtt(c, env, rs);
        self.advance_latest(rs);
        self.update_gains();
        self.set_pacing_rate(c);
        self.set_cwnd(c, rs);
    }

    fn set_state<E: Env>(&mut self, c: &mut Conn, _env: &mut E, new: CaState) {
        if new == CaState::Loss {
            let s = &mut self.state;
            s.prev_state = CaState::Loss;
            (s.full_bw, s.full_n) = (0, 0);
            if !s.phase.probing() && s.inflight_lo == UNSET {
                s.inflight_lo = c.cwnd.max(s.saved_cwnd);
            }
        }
    }

    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, _env: &mut E, event: CwndEvent) {
        if event != CwndEvent::TxStart || c.app_lim == 0 {
            return;
        }
        self.state.idle_restart = true;
        (self.state.xa_us, self.state.xa_acked) = (c.now_us, 0);
        if self.state.phase.probes_bw() {
            self.state.pacing_gain = 256;
            self.set_pacing_rate(c);
        } else if self.state.phase == Phase::ProbeRtt {
            self.check_probe_rtt_done(c);
        }
    }

    /// A spurious loss: the limits saved at the round's first loss come back.
    fn undo_cwnd<E: Env>(&mut self, _c: &mut Conn, _env: &mut E) -> u32 {
        let s = &mut self.state;
        (s.full_bw, s.full_n, s.loss_in_round) = (0, 0, false);
        s.bw_lo = s.bw_lo.max(s.undo[0]);
        s.inflight_lo = s.inflight_lo.max(s.undo[1]);
        s.inflight_hi = s.inflight_hi.max(s.undo[2]);
        s.saved_cwnd
    }

    fn sndbuf_expand(&self) -> u32 {
        3
    }

    fn on_lost<E: Env>(&mut self, c: &mut Conn, env: &mut E, lost: &LostPackets) {
        self.packet_lost(c, env, lost);
    }

    fn on_sample<E: Env>(&mut self, _c: &mut Conn, _env: &mut E, tx_in_flight: u32, lost_at_send: u32) {
        (self.state.sample_tx_in_flight, self.state.sample_lost) = (tx_in_flight, lost_at_send);
    }

    fn info(&self, c: &Conn) -> Info {
        let s = &self.state;
        let bw = (u64::from(self.bandwidth()) * u64::from(c.mss)).wrapping_mul(1_000_000) >> 24;
        Info::Bbr { bw, min_rtt_us: s.min_rtt, pacing_gain: s.pacing_gain, cwnd_gain: s.cwnd_gain }
    }
}

#[cfg(test)]
mod tests;
