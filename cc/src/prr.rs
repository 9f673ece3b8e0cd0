//! Proportional rate reduction (spec/cc-interface.md §12; RFC 9937).

use crate::conn::Conn;

/// Which rule bounds the window below the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// What 6.1, 6.12 and 7.2 do: banked credit is usable, one more packet on a safe ACK (RFC 9937).
    #[default]
    Linux,
    /// RFC 6937's slow-start reduction bound: always one more packet.
    SlowStartBound,
    /// RFC 6937's conservative bound, Linux's default before the versions covered here: no more than was delivered.
    Conservative,
}

/// The window step in CWR and Recovery.
///
/// `delivered` packets newly delivered, `lost` newly lost, `advanced`: the ACK moved `una`. `c.in_flight()` must be the
/// value after this ACK's marking. Nothing happens without deliveries or without a reduction running (PR-08).
#[inline]
pub fn reduce(c: &mut Conn, form: Form, delivered: i32, lost: u32, advanced: bool) {
    if delivered <= 0 || c.cwnd_before == 0 {
        return;
    }
    let gap = c.ssthresh.wrapping_sub(c.in_flight()) as i32;
    c.prr_delivered = c.prr_delivered.wrapping_add(delivered as u32);
    let mut n = if gap < 0 { proportional(c) } else { bounded(c, form, delivered, advanced && lost == 0).min(gap) };
    // The first ACK of an episode always releases a packet.
    n = n.max(i32::from(c.prr_out == 0));
    c.cwnd = c.in_flight().wrapping_add(n as u32);
}

/// More in flight than the threshold: send ssthresh/cwnd_before packets per delivered one.
#[inline]
fn proportional(c: &Conn) -> i32 {
    let product = u64::from(c.ssthresh).wrapping_mul(u64::from(c.prr_delivered));
    let share = product.wrapping_add(u64::from(c.cwnd_before)).wrapping_sub(1) / u64::from(c.cwnd_before);
    (share as u32).wrapping_sub(c.prr_out) as i32
}

/// Less in flight than the threshold: grow back towards it.
#[inline]
fn bounded(c: &Conn, form: Form, delivered: i32, safe: bool) -> i32 {
    let banked = (c.prr_delivered.wrapping_sub(c.prr_out) as i32).max(delivered);
    match form {
        Form::Linux => banked.wrapping_add(i32::from(safe)),
        Form::SlowStartBound => banked.wrapping_add(1),
        Form::Conservative => delivered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;

    fn conn(cwnd_before: u32, ssthresh: u32) -> Conn {
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.cwnd, c.cwnd_before, c.ssthresh) = (cwnd_before, cwnd_before, ssthresh);
        c
    }

    /// `in_flight` outstanding packets, sends everything the window allows; returns the number sent.
    fn send(c: &mut Conn) -> u32 {
        let n = c.cwnd.saturating_sub(c.in_flight());
        c.unacked += n;
        c.prr_out += n;
        n
    }

    #[test]
    fn single_loss() {
        // spec/cc-interface.md §12.3, first table.
        let mut c = conn(20, 14);
        (c.unacked, c.lost) = (20, 1);
        let mut rows = [(0u32, 0u32, 0u32); 19];
        for (i, row) in rows.iter_mut().enumerate() {
            // One SACK each; from the 19th on also the retransmission's successors.
            c.unacked -= 1;
            let in_flight = c.in_flight();
            reduce(&mut c, Form::Linux, 1, u32::from(i == 0), false);
            *row = (in_flight, c.cwnd, send(&mut c));
        }
        for (ack, want) in [
            (1, (18, 19, 1)),
            (2, (18, 19, 1)),
            (3, (18, 19, 1)),
            (4, (18, 18, 0)),
            (5, (17, 18, 1)),
            (7, (17, 17, 0)),
            (10, (16, 16, 0)),
            (14, (15, 15, 0)),
            (15, (14, 14, 0)),
            (16, (13, 14, 1)),
            (19, (13, 14, 1)),
        ] {
            assert_eq!(rows[ack - 1], want, "ACK {ack}");
        }
        assert_eq!(c.prr_delivered, 19);
        for ack in [6, 8, 9, 11, 12, 13, 17, 18] {
            assert_eq!(rows[ack - 1].2, 1, "ACK {ack}");
        }
    }

    #[test]
    fn heavy_loss() {
        // Second table.
        let mut c = conn(20, 14);
        for (d, lost, advanced, in_flight, delivered, out, cwnd, n) in [
            (1, 15, false, 4, 1, 0, 5, 1),
            (1, 0, false, 4, 2, 1, 5, 1),
            (1, 0, true, 4, 3, 2, 6, 2),
            (1, 0, true, 5, 4, 4, 7, 2),
            (2, 0, true, 6, 6, 6, 9, 3),
            (2, 1, true, 7, 8, 9, 9, 2),
            (2, 0, true, 7, 10, 11, 10, 3),
            (4, 0, true, 8, 14, 14, 13, 5),
            (4, 0, true, 9, 18, 19, 14, 5),
        ] {
            (c.unacked, c.prr_out) = (in_flight, out);
            reduce(&mut c, Form::Linux, d, lost, advanced);
            assert_eq!((c.prr_delivered, c.cwnd, c.cwnd - in_flight), (delivered, cwnd, n));
        }
    }

    #[test]
    fn ece_without_loss() {
        // spec/ecn-tcp.md §6.1.
        for (before, ssthresh, cwnds, sent) in [
            (
                20u32,
                14u32,
                &[20u32, 20, 20, 19, 19, 19, 18, 18, 18, 17, 17, 17, 17, 16, 16, 16, 15, 14, 14, 14][..],
                &[1u32, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1][..],
            ),
            (10, 5, &[10, 9, 9, 8, 8, 7, 7, 6, 5, 5][..], &[1, 0, 1, 0, 1, 0, 1, 0, 0, 1][..]),
            (10, 7, &[10, 10, 10, 9, 9, 9, 8, 7, 7, 7][..], &[1, 1, 1, 0, 1, 1, 0, 0, 1, 1][..]),
        ] {
            let mut c = conn(before, ssthresh);
            c.unacked = before;
            for (i, (&cwnd, &n)) in cwnds.iter().zip(sent).enumerate() {
                c.unacked -= 1;
                reduce(&mut c, Form::Linux, 1, 0, true);
                assert_eq!((c.cwnd, send(&mut c)), (cwnd, n), "{before}: ACK {}", i + 1);
            }
        }
    }

    #[test]
    fn bound_depends_on_safety() {
        // PR-05.
        for (out, delivered_before, advanced, want) in [(5, 4, true, 2), (2, 4, false, 3)] {
            let mut c = conn(30, 20);
            (c.unacked, c.prr_out, c.prr_delivered) = (16, out, delivered_before);
            reduce(&mut c, Form::Linux, 1, 0, advanced);
            assert_eq!(c.cwnd, 16 + want);
        }
        let mut c = conn(30, 20);
        (c.unacked, c.prr_out, c.prr_delivered) = (18, 0, 9);
        reduce(&mut c, Form::Linux, 1, 0, true);
        assert_eq!(c.cwnd, 20);
    }

    #[test]
    fn few_in_flight_in_both_profiles() {
        // PR-03: the rule of the covered kernels against the one of the published test of 2019.
        for (form, want) in [(Form::Linux, 5), (Form::SlowStartBound, 5), (Form::Conservative, 4)] {
            let mut c = conn(10, 7);
            c.unacked = 3;
            reduce(&mut c, form, 1, 0, true);
            assert_eq!(c.cwnd, want, "{form:?}");
        }
    }

    #[test]
    fn nothing_delivered_changes_nothing() {
        // PR-08, CU-23.
        for (before, delivered) in [(0, 5), (10, 0), (10, -1)] {
            let mut c = conn(10, 7);
            c.cwnd_before = before;
            let unchanged = c;
            reduce(&mut c, Form::Linux, delivered, 0, true);
            assert_eq!(c, unchanged);
        }
    }
}
