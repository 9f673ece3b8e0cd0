//! RACK's arithmetic: which deliveries make older segments late (spec/cc-interface.md §13.2, §13.3; RFC 8985).
//!
//! The scoreboard, a list of segments in order of transmission, is the caller's; this is the rest.

use crate::clock::{after, before, delta_us};
use crate::conn::{CaState, Conn};
use crate::sysctl::Sysctl;

/// Recoveries for which a widened reordering window is kept.
const PERSIST: u8 = 16;
const STATIC_WINDOW: u8 = 2;
const NO_DUPTHRESH: u8 = 4;

/// RACK's state of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rack {
    /// Departure of the latest delivered segment, µs.
    pub us: u64,
    /// Its end sequence.
    pub end: u32,
    /// RTT of the last delivered segment, µs; every delivery overwrites it.
    pub rtt_us: u32,
    /// Something was delivered since the last detection.
    pub advanced: bool,
    /// A DSACK asks for a wider window.
    pub dsack: bool,
    /// Reordering window in quarters of the minimum RTT.
    pub steps: u8,
    /// Recoveries left before `steps` returns to 1.
    pub persist: u8,
    /// `delivered` at the last widening.
    pub last_adj: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Self { us: 0, end: 0, rtt_us: 0, advanced: false, dsack: false, steps: 1, persist: 0, last_adj: 0 }
    }
}

impl Rack {
    /// A segment was delivered that departed at `xmit_us` and ends at `end`; `retransmitted`: it was ever sent again.
    pub fn advance(&mut self, c: &Conn, xmit_us: u64, end: u32, retransmitted: bool) {
        let rtt = delta_us(c.now_us, xmit_us);
        // The ACK of a retransmission within the minimum RTT is one for the original.
        if rtt < c.min_rtt.get() && retransmitted {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt;
        if sent_after(xmit_us, self.us, end, self.end) {
            self.us = xmit_us;
            self.end = end;
        }
    }

    /// How much later than the newest delivered segment an older one may still come, µs.
    #[must_use]
    pub fn window(&self, c: &Conn, sysctl: &Sysctl) -> u32 {
        let enough = c.sacked >= c.reordering && sysctl.recovery & NO_DUPTHRESH == 0;
        if c.reord_seen == 0 && (c.state >= CaState::Recovery || enough) {
            return 0;
        }
        (c.min_rtt.get() >> 2).wrapping_mul(u32::from(self.steps)).min(c.srtt8 >> 3)
    }

    /// µs until a segment sent at `xmit_us` counts as lost; 0 or less: it is lost now.
    #[must_use]
    pub fn remaining(&self, c: &Conn, window: u32, xmit_us: u64) -> i32 {
        self.rtt_us.wrapping_add(window).wrapping_sub(delta_us(c.now_us, xmit_us)) as i32
    }

    /// Whether a segment was sent before the newest delivered one: only those can be late.
    #[must_use]
    pub fn is_older(&self, xmit_us: u64, end: u32) -> bool {
        sent_after(self.us, xmit_us, self.end, end)
    }

    /// Adapts the window once per ACK that carried a rate snapshot taken at `prior_delivered` (§13.3).
    pub fn adapt(&mut self, c: &Conn, sysctl: &Sysctl, prior_delivered: u32) {
        if sysctl.recovery & STATIC_WINDOW != 0 || prior_delivered == 0 {
            return;
        }
        if before(prior_delivered, self.last_adj) {
            self.dsack = false;
        }
        if self.dsack {
            self.steps = self.steps.saturating_add(1);
            self.dsack = false;
            self.last_adj = c.delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A DSACK undid a reduction: keep the window wide.
    pub fn keep_wide(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// A recovery ended without undo.
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }
}

/// Segment 1 was sent after segment 2: time first, sequence as tie-break.
fn sent_after(t1: u64, t2: u64, end1: u32, end2: u32) -> bool {
    t1 > t2 || (t1 == t2 && after(end1, end2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;

    fn conn() -> Conn {
        let mut c = Conn::new(1448, Hz::H250, 0);
        c.min_rtt.reset(0, 40_000);
        c.srtt8 = 8 * 60_000;
        c.set_now(1_000_000_000);
        c
    }

    #[test]
    fn every_delivery_sets_the_rtt_but_only_a_later_one_the_edge() {
        let (c, mut r) = (conn(), Rack::default());
        r.advance(&c, 950_000, 10, false);
        assert_eq!((r.us, r.end, r.rtt_us), (950_000, 10, 50_000));
        r.advance(&c, 900_000, 20, false);
        assert_eq!((r.us, r.end, r.rtt_us), (950_000, 10, 100_000));
        // An ambiguous retransmission is ignored.
        r.advance(&c, 980_000, 30, true);
        assert_eq!((r.us, r.rtt_us), (950_000, 100_000));
        assert!(r.is_older(949_999, 99) && r.is_older(950_000, 9) && !r.is_older(950_000, 10));
    }

    #[test]
    fn window_opens_with_reordering() {
        let (mut c, mut r) = (conn(), Rack::default());
        let s = Sysctl::default();
        assert_eq!(r.window(&c, &s), 10_000);
        c.sacked = 3;
        assert_eq!(r.window(&c, &s), 0);
        assert_eq!(r.window(&c, &Sysctl { recovery: 5, ..s }), 10_000);
        c.reord_seen = 1;
        assert_eq!(r.window(&c, &s), 10_000);
        r.steps = 9;
        assert_eq!(r.window(&c, &s), 60_000);
        r.rtt_us = 50_000;
        assert_eq!(r.remaining(&c, 10_000, 940_001), 1);
        assert_eq!(r.remaining(&c, 10_000, 940_000), 0);
    }

    #[test]
    fn a_dsack_widens_once_per_round_trip() {
        let (mut c, mut r) = (conn(), Rack::default());
        let s = Sysctl::default();
        c.delivered = 100;
        r.dsack = true;
        r.adapt(&c, &s, 90);
        assert_eq!((r.steps, r.persist, r.last_adj), (2, 16, 100));
        r.dsack = true;
        r.adapt(&c, &s, 95);
        assert_eq!((r.steps, r.dsack), (2, false));
        for _ in 0..16 {
            r.recovered();
        }
        r.adapt(&c, &s, 101);
        assert_eq!(r.steps, 1);
    }
}
