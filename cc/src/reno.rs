//! Reno, exactly as Linux (spec/reno.md).

use crate::algorithm::Algorithm;
use crate::conn::Conn;
use crate::env::Env;
use crate::window::{additive_increase, slow_start};

/// Reno: halve the window on congestion, grow one packet per window. No state, no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reno;

/// Half the window, at least 2 packets (spec/reno.md §1).
#[inline]
#[must_use]
pub const fn ssthresh(c: &Conn) -> u32 {
    let half = c.cwnd >> 1;
    if half > 2 { half } else { 2 }
}

/// The default undo: the larger of the window now and before the reduction.
#[inline]
#[must_use]
pub const fn undo_cwnd(c: &Conn) -> u32 {
    if c.cwnd > c.cwnd_before { c.cwnd } else { c.cwnd_before }
}

/// Reno's growth, which DCTCP shares.
#[inline]
pub fn cong_avoid(c: &mut Conn, mut acked: u32) {
    if !c.is_cwnd_limited() {
        return;
    }
    if c.in_slow_start() {
        acked = slow_start(c, acked);
        if acked == 0 {
            return;
        }
    }
    additive_increase(c, c.cwnd, acked);
}

impl Algorithm for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    #[inline]
    fn ssthresh<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        ssthresh(c)
    }

    #[inline]
    fn cong_avoid<E: Env>(&mut self, c: &mut Conn, _env: &mut E, _ack: u32, acked: u32) {
        cong_avoid(c, acked);
    }

    #[inline]
    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        undo_cwnd(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;

    fn conn(cwnd: u32, ssthresh: u32) -> Conn {
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.cwnd, c.ssthresh, c.limited) = (cwnd, ssthresh, true);
        c
    }

    #[test]
    fn threshold_is_half_the_window() {
        for (cwnd, want) in [(1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (7, 3), (10, 5), (11, 5), (100, 50), (101, 50)] {
            assert_eq!(ssthresh(&conn(cwnd, 0)), want, "{cwnd}");
        }
    }

    #[test]
    fn worked_examples() {
        // spec/reno.md §2.
        type Series<'a> = (u32, u32, &'a [u32], &'a [(u32, u32)]);
        let series: [Series<'_>; 5] = [
            (
                10,
                16,
                &[2; 13],
                &[
                    (12, 0),
                    (14, 0),
                    (16, 0),
                    (16, 2),
                    (16, 4),
                    (16, 6),
                    (16, 8),
                    (16, 10),
                    (16, 12),
                    (16, 14),
                    (17, 0),
                    (17, 2),
                    (17, 4),
                ],
            ),
            (4, 0x7fff_ffff, &[1, 1, 2, 3, 5, 8], &[(5, 0), (6, 0), (8, 0), (11, 0), (16, 0), (24, 0)]),
            (
                10,
                5,
                &[1; 11],
                &[(10, 1), (10, 2), (10, 3), (10, 4), (10, 5), (10, 6), (10, 7), (10, 8), (10, 9), (11, 0), (11, 1)],
            ),
            (10, 12, &[7, 30, 100], &[(12, 5), (14, 11), (21, 13)]),
            (1, 2, &[1; 5], &[(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]),
        ];
        for (cwnd, ssthresh, acks, want) in series {
            let mut c = conn(cwnd, ssthresh);
            for (i, (&acked, &after)) in acks.iter().zip(want).enumerate() {
                cong_avoid(&mut c, acked);
                assert_eq!((c.cwnd, c.ai_credit), after, "start {cwnd}, ACK {i}");
            }
        }
    }

    #[test]
    fn credit_survives_a_validation_and_is_cashed_once() {
        // spec/reno.md §2, last paragraph.
        let mut c = conn(10, 5);
        c.ai_credit = 13;
        cong_avoid(&mut c, 1);
        assert_eq!((c.cwnd, c.ai_credit), (11, 1));
    }

    #[test]
    fn no_growth_unless_limited() {
        let mut c = conn(10, 5);
        c.limited = false;
        cong_avoid(&mut c, 50);
        assert_eq!((c.cwnd, c.ai_credit), (10, 0));
    }

    #[test]
    fn undo_takes_the_larger_window() {
        let mut c = conn(10, 5);
        c.cwnd_before = 30;
        assert_eq!(undo_cwnd(&c), 30);
        c.cwnd_before = 3;
        assert_eq!(undo_cwnd(&c), 10);
    }
}
