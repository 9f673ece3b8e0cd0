//! The congestion state machine: Open, Disorder, CWR, Recovery, Loss (spec/cc-interface.md §6, §11, §14).
//!
//! It works on the counters of [`Conn`]; which segments are SACKed, lost or retransmitted is the business of a
//! [`Scoreboard`], which the stack supplies.

mod alert;
mod undo;

use crate::algorithm::{AckFlags, Algorithm, CwndEvent};
use crate::conn::{CaState, Conn, EcnMode, INFINITE_SSTHRESH};
use crate::env::Env;
use crate::rack::Rack;
use crate::rate::RateSample;
use crate::rtt::rto_max;
use crate::sysctl::Sysctl;
use crate::{pacing, prr};

/// What the machine asks about individual segments. The implementor keeps `unacked`, `sacked`, `lost`, `lost_total`
/// and `retrans` of [`Conn`] in step with its tags.
pub trait Scoreboard {
    /// Marks segments lost for this ACK (RACK, RFC 6675 or NewReno rules); returns whether a retransmission was found
    /// lost.
    fn detect_losses(&mut self, c: &mut Conn, rack: &mut Rack, sysctl: &Sysctl) -> bool;

    /// Whether unrepaired losses are known; by default those counted in `c.lost`.
    fn has_lost(&self, c: &Conn) -> bool {
        c.lost > 0
    }

    /// The oldest outstanding segment was ever retransmitted.
    fn head_retransmitted(&self) -> bool;

    /// The oldest outstanding segment is SACKed: the receiver reneged.
    fn head_sacked(&self) -> bool {
        false
    }

    /// Takes all lost marks back and sets `c.lost` to 0.
    fn unmark_lost(&mut self, c: &mut Conn);

    /// Marks what a timeout loses (§11.6 step 1); returns whether the receiver reneged.
    fn mark_timeout(&mut self, c: &mut Conn) -> bool;

    /// The last ACK echoed a timestamp older than `ts` (§13.8).
    fn echo_older_than(&self, ts: u32) -> bool {
        let _ = ts;
        false
    }

    /// Unsent data is queued and fits the receive window (F-RTO asks).
    fn can_send_new(&self) -> bool {
        false
    }
}

/// State of loss recovery beyond [`Conn`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// F-RTO is armed: the timeout may prove spurious.
    pub frto: bool,
    /// Recovering from SACK reneging.
    pub reneging: bool,
    /// RACK.
    pub rack: Rack,
}

/// What this ACK was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckEvent {
    /// It moved `una`.
    pub advanced: bool,
    /// It echoed congestion (classic ECE, or a positive AccECN count).
    pub ece: bool,
    /// Data was cumulatively acknowledged.
    pub acked: bool,
    /// Data was newly SACKed.
    pub sacked: bool,
    /// Never-retransmitted data at or below the recovery point was newly delivered (F-RTO's proof).
    pub original_delivered: bool,
    /// Duplicate ACKs it stands for.
    pub duplicates: u32,
    /// The head is a failed path-MTU probe.
    pub mtu_probe_failed: bool,
}

/// What the stack may send after the ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// New data within the window; no retransmissions on account of this ACK.
    #[default]
    Nothing,
    /// Lost segments may be retransmitted (§11.9).
    Retransmit,
    /// F-RTO wants new data sent; if none went out, disarm it and retransmit.
    NewData,
    /// The receiver seems to renege: set the retransmission timer to this many ticks.
    RenegingTimer(u32),
}

/// The machine at work on one connection; build it for a call and drop it.
pub struct Machine<'a, A, E, B> {
    /// Connection variables.
    pub c: &'a mut Conn,
    /// The algorithm.
    pub algorithm: &'a mut A,
    /// Clock ticks and draws.
    pub env: &'a mut E,
    /// The segments.
    pub board: &'a mut B,
    /// Settings.
    pub sysctl: &'a Sysctl,
    /// Loss recovery.
    pub recovery: &'a mut Recovery,
}

impl<A: Algorithm, E: Env, B: Scoreboard> Machine<'_, A, E, B> {
    fn detect_losses(&mut self) -> bool {
        self.board.detect_losses(self.c, &mut self.recovery.rack, self.sysctl)
    }

    /// Changes the state; the algorithm is told first.
    fn set_state(&mut self, new: CaState) {
        self.algorithm.set_state(self.c, self.env, new);
        self.c.state = new;
    }

    /// §11.2.
    fn start_reduction(&mut self) {
        let c = &mut *self.c;
        c.recovery_point = c.nxt;
        c.tlp_edge = 0;
        c.ai_credit = 0;
        c.cwnd_before = c.cwnd;
        (c.prr_delivered, c.prr_out) = (0, 0);
        c.ssthresh = self.algorithm.ssthresh(c, self.env);
        self.schedule_cwr_flag();
    }

    fn schedule_cwr_flag(&mut self) {
        if self.c.ecn.mode == EcnMode::Classic {
            self.c.ecn.cwr_due = true;
        }
    }

    /// §11.3: ECE (`ece`), or a local queue reporting congestion. Only the first in a window reduces.
    pub fn enter_cwr(&mut self, ece: bool) {
        self.c.ssthresh_before = 0;
        if self.c.state < CaState::Cwr {
            self.c.undo_mark = 0;
            self.c.ecn.cut = ece;
            self.start_reduction();
            self.c.ecn.cut = false;
            self.set_state(CaState::Cwr);
        }
    }

    /// §11.4. Out of CWR the running reduction continues.
    pub fn enter_recovery(&mut self, ece: bool) {
        if self.c.retrans == 0 && !self.board.head_retransmitted() {
            self.c.first_rexmit_ts = 0;
        }
        self.c.ssthresh_before = 0;
        self.arm_undo();
        if !self.c.state.in_reduction() {
            if !ece {
                self.c.ssthresh_before = self.c.current_ssthresh();
            }
            self.start_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// §11.5: the window becomes the threshold, unless the reduction was undone.
    fn end_reduction(&mut self) {
        if self.algorithm.has_cong_control() {
            return;
        }
        let c = &mut *self.c;
        if c.ssthresh < INFINITE_SSTHRESH && (c.state == CaState::Cwr || c.undo_mark != 0) {
            c.cwnd = c.ssthresh;
            c.cwnd_stamp = self.env.jiffies();
        }
        self.algorithm.cwnd_event(self.c, self.env, CwndEvent::CwrComplete);
    }

    /// The retransmission timer fired (§11.6): marks losses, reduces once per window, backs the timer off.
    pub fn on_timeout(&mut self) {
        let reneging = self.board.mark_timeout(self.c);
        if reneging {
            self.recovery.reneging = true;
        }
        let old = self.c.state;
        let again = old == CaState::Loss && self.c.rto_streak == 0;
        if old <= CaState::Disorder || self.c.una_reached(self.c.recovery_point) || again {
            let c = &mut *self.c;
            c.ssthresh_before = c.current_ssthresh();
            c.cwnd_before = c.cwnd;
            c.ssthresh = self.algorithm.ssthresh(c, self.env);
            self.algorithm.cwnd_event(self.c, self.env, CwndEvent::Loss);
            self.arm_undo();
        }
        let c = &mut *self.c;
        c.cwnd = c.in_flight().wrapping_add(1);
        c.ai_credit = 0;
        c.cwnd_stamp = self.env.jiffies();
        if old <= CaState::Disorder && c.sacked >= self.sysctl.reordering {
            c.reordering = c.reordering.min(self.sysctl.reordering);
        }
        self.set_state(CaState::Loss);
        let c = &mut *self.c;
        c.recovery_point = c.nxt;
        c.tlp_edge = 0;
        self.recovery.frto = self.sysctl.frto != 0 && (old < CaState::Recovery || c.rto_streak > 0);
        self.schedule_cwr_flag();
        let c = &mut *self.c;
        c.rto_streak = c.rto_streak.saturating_add(1);
        c.backoff = c.backoff.saturating_add(1);
        c.rto = c.rto.saturating_mul(2).min(rto_max(self.sysctl, self.env.hz()));
    }

    /// A tail-loss probe that was a retransmission repaired a loss (§13.6): one reduction, over at once.
    pub fn on_tlp_repair(&mut self) {
        self.start_reduction();
        self.set_state(CaState::Cwr);
        self.end_reduction();
        self.keep_open();
    }

    /// The reordering timer found losses without an ACK (§13.2): Recovery, and a PRR step that releases a packet.
    pub fn on_loss_timer(&mut self) {
        let before = (self.c.in_flight(), self.c.lost_total);
        self.detect_losses();
        if self.c.in_flight() == before.0 && self.c.lost_total == before.1 {
            return;
        }
        if self.c.state != CaState::Recovery {
            self.enter_recovery(false);
            if !self.algorithm.has_cong_control() {
                let lost = self.c.lost_total.wrapping_sub(before.1);
                prr::reduce(self.c, self.sysctl.prr, 1, lost, false);
            }
        }
    }

    /// The window step of an ACK (§6): `cong_control`, or PRR, or growth, then the pacing rate.
    pub fn window_step(&mut self, ev: &AckEvent, flags: AckFlags, rs: &RateSample) {
        if self.algorithm.has_cong_control() {
            let ack = self.c.una;
            self.algorithm.cong_control(self.c, self.env, ack, flags, rs);
            return;
        }
        let grows = ev.acked || (self.c.reordering > self.sysctl.reordering && ev.sacked);
        if self.c.state.in_reduction() {
            prr::reduce(self.c, self.sysctl.prr, rs.acked_sacked as i32, rs.losses as u32, ev.advanced);
        } else if grows {
            let ack = self.c.una;
            self.algorithm.cong_avoid(self.c, self.env, ack, rs.acked_sacked);
            self.c.cwnd_stamp = self.env.jiffies();
        }
        pacing::update_rate(self.c, self.sysctl);
    }
}

#[cfg(test)]
mod tests;
