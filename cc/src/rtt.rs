//! Round-trip time: smoothing, variation, timeout, minimum (spec/cc-interface.md §9).

use crate::clock::{Hz, after};
use crate::conn::Conn;
use crate::sysctl::Sysctl;
use crate::version::Linux;

/// Rttvar and timeout without any sample from the handshake, seconds.
const FALLBACK_SECONDS: u32 = 3;

/// Takes an RTT sample of `m` µs into srtt and rttvar (§9.2); `una` must already be the new one.
#[inline]
pub fn smooth(c: &mut Conn, sysctl: &Sysctl, m: u32) {
    if c.srtt8 == 0 {
        c.srtt8 = m << 3;
        c.mdev4 = m << 1;
        c.rttvar4 = c.mdev4.max(sysctl.rto_min_us);
        c.mdev4_max = c.rttvar4;
        c.rtt_edge = c.nxt;
    } else {
        let mut e = i64::from(m) - i64::from(c.srtt8 >> 3);
        c.srtt8 = c.srtt8.wrapping_add(e as u32);
        if e < 0 {
            e = -e - i64::from(c.mdev4 >> 2);
            // A falling RTT counts for an eighth, so that the timeout does not grow on good news.
            if e > 0 {
                e >>= 3;
            }
        } else {
            e -= i64::from(c.mdev4 >> 2);
        }
        c.mdev4 = c.mdev4.wrapping_add(e as u32);
        if c.mdev4 > c.mdev4_max {
            c.mdev4_max = c.mdev4;
            c.rttvar4 = c.rttvar4.max(c.mdev4_max);
        }
        if after(c.una, c.rtt_edge) {
            if c.mdev4_max < c.rttvar4 {
                c.rttvar4 -= (c.rttvar4 - c.mdev4_max) >> 2;
            }
            c.rtt_edge = c.nxt;
            c.mdev4_max = sysctl.rto_min_us;
        }
    }
    c.srtt8 = c.srtt8.max(1);
}

/// Longest timeout, ticks.
#[must_use]
pub fn rto_max(sysctl: &Sysctl, hz: Hz) -> u32 {
    if sysctl.version >= Linux::V7_2 { hz.ticks_from_ms(sysctl.rto_max_ms) } else { 120 * hz.get() }
}

/// Sets the retransmission timeout from srtt and rttvar (§9.3).
#[inline]
pub fn set_rto(c: &mut Conn, sysctl: &Sysctl, hz: Hz) {
    c.rto = hz.ticks_from_us((c.srtt8 >> 3).wrapping_add(c.rttvar4)).min(rto_max(sysctl, hz));
}

/// No sample came from the handshake: three seconds (§9.3).
pub fn no_handshake_sample(c: &mut Conn, hz: Hz) {
    let us = FALLBACK_SECONDS * 1_000_000;
    (c.rttvar4, c.mdev4, c.mdev4_max) = (us, us, us);
    c.rto = FALLBACK_SECONDS * hz.get();
}

/// Takes a sample into the windowed minimum (§9.4). `maybe_delayed`: the receiver may have held the ACK back; such a
/// sample cannot raise the minimum. 0 counts as one tick.
#[inline]
pub fn update_min(c: &mut Conn, sysctl: &Sysctl, hz: Hz, jiffies: u32, rtt_us: u32, maybe_delayed: bool) {
    if maybe_delayed && rtt_us > c.min_rtt.get() {
        return;
    }
    let v = if rtt_us == 0 { hz.us_from_ticks(1) } else { rtt_us };
    c.min_rtt.running_min(sysctl.min_rtt_wlen.wrapping_mul(hz.get()), jiffies, v);
}

/// A whole RTT measurement: `srtt_us` from the oldest segment of the ACK, `cc_us` from the newest (§9.1).
#[inline]
pub fn update(c: &mut Conn, sysctl: &Sysctl, hz: Hz, jiffies: u32, srtt_us: u32, cc_us: u32, maybe_delayed: bool) {
    update_min(c, sysctl, hz, jiffies, cc_us, maybe_delayed);
    smooth(c, sysctl, srtt_us);
    set_rto(c, sysctl, hz);
    c.backoff = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_sequence() {
        // spec/cc-interface.md §9.3.
        let rows = [
            (100_000, 0, 100, 800_000, 200_000, 200_000, 200_000, [30, 75, 300]),
            (100_000, 50, 120, 800_000, 150_000, 200_000, 200_000, [30, 75, 300]),
            (100_000, 101, 200, 800_000, 112_500, 200_000, 200_000, [30, 75, 300]),
            (110_000, 150, 220, 810_000, 94_375, 200_000, 200_000, [31, 76, 302]),
            (90_000, 201, 300, 798_750, 82_032, 200_000, 200_000, [30, 75, 300]),
            (40_000, 260, 320, 738_907, 86_948, 200_000, 200_000, [30, 74, 293]),
            (40_000, 301, 400, 686_544, 90_776, 200_000, 200_000, [29, 72, 286]),
            (400_000, 401, 500, 1_000_726, 382_264, 200_000, 382_264, [51, 127, 508]),
            (100_000, 501, 600, 975_636, 311_788, 200_000, 364_645, [49, 122, 487]),
        ];
        let mut c = Conn::new(1448, Hz::H250, 0);
        for (m, una, nxt, srtt8, mdev4, mdev4_max, rttvar4, rto) in rows {
            (c.una, c.nxt) = (una, nxt);
            smooth(&mut c, &Sysctl::default(), m);
            assert_eq!((c.srtt8, c.mdev4, c.mdev4_max, c.rttvar4), (srtt8, mdev4, mdev4_max, rttvar4), "{una}");
            for (hz, want) in [Hz::H100, Hz::H250, Hz::H1000].into_iter().zip(rto) {
                set_rto(&mut c, &Sysctl::default(), hz);
                assert_eq!(c.rto, want, "{una}");
            }
        }
    }

    #[test]
    fn first_samples() {
        for (m, srtt8, hz, rto) in
            [(0, 1, Hz::H250, 50), (1000, 8000, Hz::H250, 51), (150_000, 1_200_000, Hz::H250, 113)]
        {
            let mut c = Conn::new(1448, hz, 0);
            smooth(&mut c, &Sysctl::default(), m);
            set_rto(&mut c, &Sysctl::default(), hz);
            assert_eq!((c.srtt8, c.rto), (srtt8, rto));
        }
        let mut c = Conn::new(1448, Hz::H250, 0);
        no_handshake_sample(&mut c, Hz::H250);
        assert_eq!((c.rto, c.rttvar4), (750, 3_000_000));
    }

    #[test]
    fn timeout_is_capped_per_version() {
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.srtt8, c.rttvar4) = (8 * 100_000_000, 100_000_000);
        let mut s = Sysctl::new(Linux::V7_2);
        s.rto_max_ms = 5000;
        set_rto(&mut c, &s, Hz::H250);
        assert_eq!(c.rto, 1250);
        s.version = Linux::V6_12;
        set_rto(&mut c, &s, Hz::H250);
        assert_eq!(c.rto, 30_000);
    }

    #[test]
    fn minimum() {
        // BB-22 as Linux has it: 400, 20, then 0 taken as one tick.
        let (s, hz) = (Sysctl::default(), Hz::H1000);
        let mut c = Conn::new(1448, hz, 0);
        assert_eq!(c.min_rtt.get(), u32::MAX);
        for (rtt, want) in [(400_000, 400_000), (20_000, 20_000), (0, 1000)] {
            update_min(&mut c, &s, hz, 0, rtt, false);
            assert_eq!(c.min_rtt.get(), want);
        }
        // A possibly delayed ACK cannot raise it, not even after the window.
        update_min(&mut c, &s, hz, 400_000, 50_000, true);
        assert_eq!(c.min_rtt.get(), 1000);
        update_min(&mut c, &s, hz, 400_000, 50_000, false);
        assert_eq!(c.min_rtt.get(), 50_000);
    }
}
