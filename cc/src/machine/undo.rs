//! Undoing spurious reductions: Eifel, DSACK, F-RTO (spec/cc-interface.md §14).

use super::{Machine, Scoreboard};
use crate::algorithm::Algorithm;
use crate::conn::CaState;
use crate::env::Env;

impl<A: Algorithm, E: Env, B: Scoreboard> Machine<'_, A, E, B> {
    /// §14.1.
    pub(super) fn arm_undo(&mut self) {
        let c = &mut *self.c;
        c.undo_mark = c.una;
        c.undo_pending = c.retrans as i32;
        if c.tlp_edge != 0 && c.tlp_rexmit {
            c.undo_pending = c.undo_pending.wrapping_add(1);
        }
        if c.undo_pending == 0 {
            c.undo_pending = -1;
        }
    }

    /// §14.2.
    fn undo(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_lost(self.c);
        }
        if self.c.ssthresh_before != 0 {
            self.c.cwnd = self.algorithm.undo_cwnd(self.c, self.env);
            if self.c.ssthresh_before > self.c.ssthresh {
                self.c.ssthresh = self.c.ssthresh_before;
                self.c.ecn.cwr_due = false;
            }
        }
        self.c.cwnd_stamp = self.env.jiffies();
        self.c.undo_mark = 0;
        self.recovery.rack.advanced = true;
    }

    /// The timestamp echo proves that the "lost" packet was only late (§13.8).
    fn only_delayed(&self) -> bool {
        if self.c.first_rexmit_ts != 0 {
            self.board.echo_older_than(self.c.first_rexmit_ts)
        } else {
            self.c.sack_ok || !self.c.una_reached(self.c.recovery_point)
        }
    }

    fn may_undo(&self) -> bool {
        self.c.undo_mark != 0 && (self.c.undo_pending == 0 || self.only_delayed())
    }

    /// §14.3; true: hold, an ACK beyond the recovery point is needed (no SACK).
    pub(super) fn full_recovery(&mut self) -> bool {
        if self.may_undo() {
            self.undo(false);
        } else {
            self.recovery.rack.recovered();
        }
        if !self.c.sack_ok && self.c.una == self.c.recovery_point {
            return true;
        }
        self.set_state(CaState::Open);
        self.recovery.reneging = false;
        false
    }

    /// §14.4; true: stop processing this ACK.
    pub(super) fn partial_undo(&mut self) -> bool {
        if self.c.undo_mark == 0 || !self.only_delayed() {
            return false;
        }
        if self.c.retrans > 0 {
            return true;
        }
        self.undo(true);
        self.keep_open();
        false
    }

    /// §14.5: DSACKs account for every retransmission.
    pub(super) fn dsack_undo(&mut self) -> bool {
        if self.c.undo_mark == 0 || self.c.undo_pending != 0 {
            return false;
        }
        self.recovery.rack.keep_wide();
        self.undo(false);
        true
    }

    /// §14.6.
    pub(super) fn loss_undo(&mut self, forced: bool) -> bool {
        if !forced && !self.may_undo() {
            return false;
        }
        self.undo(true);
        self.c.rto_streak = 0;
        if !self.c.sack_ok && self.c.una == self.c.recovery_point {
            return true;
        }
        if forced || self.c.sack_ok {
            self.set_state(CaState::Open);
        }
        true
    }
}
