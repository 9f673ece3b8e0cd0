//! Per-ACK processing (spec/cc-interface.md §11.7, §11.8).

use super::{AckEvent, Machine, Next, Scoreboard};
use crate::algorithm::Algorithm;
use crate::clock::after;
use crate::conn::CaState;
use crate::env::Env;

/// How the work on one state ended.
enum Step {
    /// Nothing more for this ACK.
    Stop(Next),
    /// Go on as in Open, Disorder or CWR.
    GoOn,
}

impl<A: Algorithm, E: Env, B: Scoreboard> Machine<'_, A, E, B> {
    /// Runs the machine for a dubious ACK: one that is a duplicate, SACKs, echoes congestion, or arrives outside Open
    /// (§4 step 13).
    pub fn on_ack(&mut self, ev: &AckEvent) -> Next {
        if self.c.unacked == 0 && self.c.sacked > 0 {
            self.c.sacked = 0;
        }
        if ev.ece {
            self.c.ssthresh_before = 0;
        }
        if ev.advanced && self.board.head_sacked() {
            let hz = self.env.hz();
            return Next::RenegingTimer(hz.ticks_from_us(self.c.srtt8 >> 4).max(hz.ticks_from_ms(10)));
        }
        if self.leave_episode() {
            return Next::Nothing;
        }
        let step = match self.c.state {
            CaState::Recovery => self.in_recovery(ev),
            CaState::Loss => self.in_loss(ev),
            CaState::Open | CaState::Disorder | CaState::Cwr => Step::GoOn,
        };
        match step {
            Step::Stop(next) => next,
            Step::GoOn => self.in_open(ev),
        }
    }

    /// Step 3: the episode ends when everything sent before it is acknowledged; true: hold, stop here.
    fn leave_episode(&mut self) -> bool {
        if self.c.state == CaState::Open {
            self.c.first_rexmit_ts = 0;
        } else if self.c.una_reached(self.c.recovery_point) {
            match self.c.state {
                // Something beyond the recovery point must be acknowledged.
                CaState::Cwr if self.c.una != self.c.recovery_point => {
                    self.end_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    if !self.c.sack_ok {
                        self.c.sacked = 0;
                    }
                    if self.full_recovery() {
                        return true;
                    }
                    self.end_reduction();
                }
                _ => {}
            }
        }
        false
    }

    fn in_recovery(&mut self, ev: &AckEvent) -> Step {
        if !ev.advanced {
            self.count_duplicates(ev);
        } else if self.partial_undo() {
            return Step::Stop(Next::Nothing);
        }
        if self.dsack_undo() {
            self.try_to_open(ev.ece);
        }
        self.detect_losses();
        if self.c.state != CaState::Recovery {
            if !self.board.has_lost(self.c) {
                return Step::Stop(Next::Nothing);
            }
            self.enter_recovery(ev.ece);
        }
        Step::Stop(Next::Retransmit)
    }

    fn in_loss(&mut self, ev: &AckEvent) -> Step {
        let next = self.process_loss(ev);
        let retransmission_lost = self.detect_losses();
        if self.c.state == CaState::Open || retransmission_lost {
            return Step::GoOn;
        }
        Step::Stop(next)
    }

    fn in_open(&mut self, ev: &AckEvent) -> Next {
        if !self.c.sack_ok {
            if ev.advanced {
                self.c.sacked = 0;
            }
            self.count_duplicates(ev);
        }
        if self.c.state <= CaState::Disorder {
            self.dsack_undo();
        }
        self.detect_losses();
        let by_count = !self.sysctl.rack() && self.c.sacked.wrapping_add(1) > self.c.reordering;
        if !self.board.has_lost(self.c) && !by_count {
            self.try_to_open(ev.ece);
            return Next::Nothing;
        }
        if ev.mtu_probe_failed && self.c.state < CaState::Cwr {
            self.c.cwnd = self.c.cwnd.wrapping_add(1);
            return Next::Retransmit;
        }
        self.enter_recovery(ev.ece);
        Next::Retransmit
    }

    /// ACKs after a timeout (§11.8). F-RTO: never-retransmitted data arriving proves the timeout spurious.
    fn process_loss(&mut self, ev: &AckEvent) -> Next {
        let done = self.c.una_reached(self.c.recovery_point);
        if ev.advanced && self.loss_undo(false) {
            return Next::Nothing;
        }
        if self.recovery.frto {
            if ev.original_delivered && self.loss_undo(true) {
                return Next::Nothing;
            }
            if after(self.c.nxt, self.c.recovery_point) {
                if ev.sacked || ev.duplicates > 0 {
                    self.recovery.frto = false;
                }
            } else if ev.advanced && !done {
                self.c.recovery_point = self.c.nxt;
                if self.board.can_send_new() {
                    return Next::NewData;
                }
                self.recovery.frto = false;
            }
        }
        if done {
            self.full_recovery();
            return Next::Nothing;
        }
        if !self.c.sack_ok {
            if after(self.c.nxt, self.c.recovery_point) && ev.duplicates > 0 {
                self.count_duplicates(ev);
            } else if ev.advanced {
                self.c.sacked = 0;
            }
        }
        Next::Retransmit
    }

    /// Without SACK each duplicate ACK stands for a delivered packet, up to what can be out there (§13.1).
    fn count_duplicates(&mut self, ev: &AckEvent) {
        if self.c.sack_ok || ev.duplicates == 0 {
            return;
        }
        let c = &mut *self.c;
        let before = c.sacked;
        c.sacked = c.sacked.saturating_add(ev.duplicates);
        let holes = c.lost.max(1).min(c.unacked);
        if c.sacked.saturating_add(holes) > c.unacked {
            c.sacked = c.unacked - holes;
            c.reordering = c.unacked.min(self.sysctl.max_reordering);
            c.reord_seen = c.reord_seen.saturating_add(1);
        }
        c.delivered = c.delivered.wrapping_add(c.sacked.saturating_sub(before));
    }

    /// Nothing is lost: an echo starts CWR, otherwise Open or Disorder by what is outstanding.
    pub(super) fn try_to_open(&mut self, ece: bool) {
        if !self.retransmission_outstanding() {
            self.c.first_rexmit_ts = 0;
        }
        if ece {
            self.enter_cwr(true);
        }
        if self.c.state != CaState::Cwr {
            self.keep_open();
        }
    }

    pub(super) fn keep_open(&mut self) {
        let odd = self.c.sacked.wrapping_add(self.c.lost) > 0 || self.retransmission_outstanding();
        let target = if odd { CaState::Disorder } else { CaState::Open };
        if self.c.state != target {
            self.set_state(target);
            self.c.recovery_point = self.c.nxt;
        }
    }

    fn retransmission_outstanding(&self) -> bool {
        self.c.retrans > 0 || self.board.head_retransmitted()
    }
}
