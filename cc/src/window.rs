//! Growth arithmetic shared by the loss-based algorithms (spec/cc-interface.md §5).

use crate::conn::Conn;

/// Slow start with `acked` newly delivered packets; returns those left for congestion avoidance (§5.1).
///
/// Call only below `ssthresh`. A stretch ACK of n packets grows the window by n: there is no limit per ACK.
#[inline]
pub fn slow_start(c: &mut Conn, acked: u32) -> u32 {
    let w = c.cwnd.wrapping_add(acked).min(c.ssthresh);
    let left = acked.wrapping_sub(w.wrapping_sub(c.cwnd));
    c.cwnd = w.min(c.cwnd_cap);
    left
}

/// Additive increase: one packet per `w` delivered ones (§5.2).
///
/// Credit above `w` is cashed for a single packet and the rest discarded, which happens when `w` has just shrunk.
/// A `w` of 0 is taken as 1; Linux never passes it.
#[inline]
pub fn additive_increase(c: &mut Conn, w: u32, acked: u32) {
    let w = w.max(1);
    if c.ai_credit >= w {
        c.ai_credit = 0;
        c.cwnd = c.cwnd.wrapping_add(1);
    }
    c.ai_credit = c.ai_credit.wrapping_add(acked);
    if c.ai_credit >= w {
        let d = c.ai_credit / w;
        c.ai_credit -= d * w;
        c.cwnd = c.cwnd.wrapping_add(d);
    }
    c.cwnd = c.cwnd.min(c.cwnd_cap);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;

    #[test]
    fn worked_examples() {
        // spec/cc-interface.md §5.2; w None: the window after slow start.
        for (cwnd, ssthresh, credit, w, acked, left, cwnd_after, credit_after) in [
            (10, 100, 0, None, 2, 0, 12, 0),
            (98, 100, 0, None, 5, 3, 100, 3),
            (100, 100, 99, None, 1, 1, 101, 0),
            (100, 100, 0, None, 250, 250, 102, 50),
            (100, 100, 120, Some(50), 10, 10, 101, 10),
            (100, 100, 49, Some(50), 1, 1, 101, 0),
            (10, 100, 7, None, 95, 5, 100, 12),
        ] {
            let mut c = Conn::new(1448, Hz::H250, 0);
            (c.cwnd, c.ssthresh, c.ai_credit) = (cwnd, ssthresh, credit);
            let mut rest = acked;
            if c.in_slow_start() {
                rest = slow_start(&mut c, acked);
            }
            assert_eq!(rest, left);
            if rest > 0 {
                let w = w.unwrap_or(c.cwnd);
                additive_increase(&mut c, w, rest);
            }
            assert_eq!((c.cwnd, c.ai_credit), (cwnd_after, credit_after));
        }
    }

    #[test]
    fn surplus_of_an_ack_is_returned() {
        // CU-21.
        let mut c = Conn::new(1000, Hz::H250, 0);
        (c.cwnd, c.ssthresh) = (100, 101);
        assert_eq!(slow_start(&mut c, 5), 4);
        assert_eq!(c.cwnd, 101);
    }

    #[test]
    fn remainders_are_kept_and_an_exact_hit_counts() {
        // CU-12, CU-32 in packets.
        let mut c = Conn::new(1200, Hz::H250, 0);
        (c.cwnd, c.ssthresh, c.ai_credit) = (10, 5, 9);
        additive_increase(&mut c, 10, 1);
        assert_eq!((c.cwnd, c.ai_credit), (11, 0));
        c.ai_credit = 0;
        additive_increase(&mut c, 11, 24);
        assert_eq!((c.cwnd, c.ai_credit), (13, 2));
    }

    #[test]
    fn the_clamp_applies_last() {
        let mut c = Conn::new(1448, Hz::H250, 0);
        c.cwnd_cap = 12;
        assert_eq!(slow_start(&mut c, 5), 0);
        assert_eq!(c.cwnd, 12);
        additive_increase(&mut c, 1, 5);
        assert_eq!(c.cwnd, 12);
    }

    #[test]
    fn a_zero_divisor_is_survived() {
        let mut c = Conn::new(1448, Hz::H250, 0);
        additive_increase(&mut c, 0, 3);
        assert!(c.cwnd > 10);
    }
}
