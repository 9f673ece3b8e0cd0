//! Pacing rate, departure times and burst sizes (spec/cc-interface.md §8).

use crate::conn::{Conn, PaceMode};
use crate::sysctl::Sysctl;

/// Data segments that leave unpaced at the start of a connection.
const UNPACED: u32 = 10;

/// Recomputes the pacing rate from window and RTT; algorithms with `cong_control` set their own (§8.1).
///
/// Before the first RTT sample the division is skipped and the rate is enormous (CU-19: there is no division by zero).
#[inline]
pub fn update_rate(c: &mut Conn, sysctl: &Sysctl) {
    let ratio = if c.cwnd < c.ssthresh / 2 { sysctl.pacing_ss_ratio } else { sysctl.pacing_ca_ratio };
    let mut rate = u64::from(c.mss)
        .wrapping_mul(80_000)
        .wrapping_mul(u64::from(ratio))
        .wrapping_mul(u64::from(c.cwnd.max(c.unacked)));
    if c.srtt8 != 0 {
        rate /= u64::from(c.srtt8);
    }
    c.pace_rate = rate.min(c.max_pace);
}

/// Stamps a departure: call right before transmission; returns the segment's stamp in ns, which can lie in the future
/// (§8.2). Pass the previous stamp it also returns to [`paced`] after the hand-over.
#[inline]
pub fn stamp(c: &mut Conn) -> Departure {
    let previous_ns = c.edt_ns;
    c.edt_ns = c.edt_ns.max(c.now_ns);
    Departure { at_ns: c.edt_ns, previous_ns }
}

/// A segment's departure time and the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// When the segment departs, ns.
    pub at_ns: u64,
    /// The connection's departure time before this segment, ns.
    pub previous_ns: u64,
}

/// Moves the next departure by the time `bytes` (header included) take at the pacing rate (§8.2).
///
/// Time lost because the sender was late is made up, but never by more than half a slot.
#[inline]
pub fn paced(c: &mut Conn, d: Departure, bytes: u32) {
    if c.pace_mode == PaceMode::None || c.pace_rate == 0 || c.pace_rate == u64::MAX || c.data_segs_out < UNPACED {
        return;
    }
    let mut len = u64::from(bytes).wrapping_mul(1_000_000_000) / c.pace_rate;
    let credit = c.edt_ns.wrapping_sub(d.previous_ns);
    len -= (len / 2).min(credit);
    c.edt_ns = c.edt_ns.wrapping_add(len);
}

/// Whether internal pacing forbids sending now (§8.2).
#[inline]
#[must_use]
pub fn blocked(c: &Conn) -> bool {
    c.pace_mode == PaceMode::Internal && c.edt_ns > c.now_ns
}

/// Segments in a burst: about 1 ms of the pacing rate, more on short paths; `minimum` from the algorithm or the system
/// (§8.3).
#[inline]
#[must_use]
pub fn burst_segments(c: &Conn, sysctl: &Sysctl, minimum: Option<u32>) -> u32 {
    let mut bytes = c.pace_rate >> (c.pacing_shift & 63);
    if sysctl.tso_rtt_log != 0 {
        let s = c.min_rtt.get() >> (sysctl.tso_rtt_log & 31);
        if s < 32 {
            bytes = bytes.wrapping_add(u64::from(c.gso_max >> s));
        }
    }
    let bytes = bytes.min(u64::from(c.gso_max)) as u32;
    (bytes / c.mss.max(1)).max(minimum.unwrap_or(sysctl.min_tso_segs)).min(c.gso_max_segs.min(65_535))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;
    use crate::conn::INFINITE_SSTHRESH as INF;

    #[test]
    fn rates() {
        // spec/cc-interface.md §8.1.
        for (mss, cwnd, ssthresh, unacked, srtt8, want) in [
            (1448, 10, INF, 10, 320_000, 724_000u64),
            (1448, 10, INF, 0, 0, 231_680_000_000),
            (1448, 100, 70, 100, 320_000, 4_344_000),
            (1448, 34, 70, 34, 320_000, 2_461_600),
            (1448, 35, 70, 35, 320_000, 1_520_400),
            (1448, 100, 100, 140, 320_000, 6_081_600),
            (1448, 10, INF, 10, 800, 289_600_000),
            (1460, 1000, 700, 1000, 80_000, 175_200_000),
            (536, 2, 2, 2, 12_000_000, 857),
        ] {
            let mut c = Conn::new(mss, Hz::H250, 0);
            (c.cwnd, c.ssthresh, c.unacked, c.srtt8) = (cwnd, ssthresh, unacked, srtt8);
            update_rate(&mut c, &Sysctl::default());
            assert_eq!(c.pace_rate, want, "{mss} {cwnd}");
            c.max_pace = 500;
            update_rate(&mut c, &Sysctl::default());
            assert_eq!(c.pace_rate, 500);
        }
    }

    #[test]
    fn bursts() {
        // spec/cc-interface.md §8.3.
        for (rate, mss, want) in [
            (724_000, 1448, [45, 45, 23, 2, 2, 2]),
            (4_344_000, 1448, [45, 45, 25, 4, 2, 2]),
            (6_081_600, 1448, [45, 45, 26, 5, 4, 4]),
            (175_200_000, 1460, [44; 6]),
        ] {
            for (min_rtt, want) in [100, 511, 512, 3000, 8192, 40_000].into_iter().zip(want) {
                let mut c = Conn::new(mss, Hz::H250, 0);
                c.pace_rate = rate;
                c.min_rtt.reset(0, min_rtt);
                assert_eq!(burst_segments(&c, &Sysctl::default(), None), want, "{rate} {min_rtt}");
            }
        }
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.pace_rate, c.gso_max_segs) = (1000, 1);
        assert_eq!(burst_segments(&c, &Sysctl::default(), Some(1)), 1);
        assert_eq!(burst_segments(&c, &Sysctl::default(), Some(5)), 1);
    }

    #[test]
    fn departures_make_up_half_a_slot_at_most() {
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.pace_rate, c.pace_mode, c.data_segs_out) = (1_000_000, PaceMode::Internal, 9);
        c.set_now(1_000_000_000);
        let d = stamp(&mut c);
        paced(&mut c, d, 1000);
        assert_eq!(c.edt_ns, 1_000_000_000);
        c.data_segs_out = 10;
        let d = stamp(&mut c);
        assert_eq!(d, Departure { at_ns: 1_000_000_000, previous_ns: 1_000_000_000 });
        paced(&mut c, d, 1000);
        assert_eq!(c.edt_ns, 1_001_000_000);
        assert!(blocked(&c));
        // 200 µs late: the whole delay is made up.
        c.set_now(1_001_200_000);
        assert!(!blocked(&c));
        let d = stamp(&mut c);
        paced(&mut c, d, 1000);
        assert_eq!(c.edt_ns, 1_001_200_000 + 800_000);
        // 3 ms late: half a slot.
        c.set_now(1_005_000_000);
        let d = stamp(&mut c);
        paced(&mut c, d, 1000);
        assert_eq!(c.edt_ns, 1_005_500_000);
    }
}
