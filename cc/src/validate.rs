//! Window validation and idle restart (spec/cc-interface.md §7; RFC 7661, RFC 2861).

use crate::algorithm::{Algorithm, CwndEvent};
use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::sysctl::Sysctl;

/// End of a transmit round that sent something or found the window full (§7.1, §7.3).
///
/// `full`: the window stopped or deferred the round, or in-flight has reached it. `sndbuf_limited`: the application is
/// blocked on its send buffer. `paces_itself`: the algorithm has `cong_control`.
#[inline]
pub fn after_transmit<E: Env>(
    c: &mut Conn,
    env: &mut E,
    sysctl: &Sysctl,
    full: bool,
    sndbuf_limited: bool,
    paces_itself: bool,
) {
    if c.una_reached(c.usage_edge) || full || (!c.limited && c.unacked > c.peak_out) {
        c.limited = full;
        c.peak_out = c.unacked;
        c.usage_edge = c.nxt;
    }
    let j = env.jiffies();
    if c.is_cwnd_limited() {
        c.peak_used = 0;
        c.cwnd_stamp = j;
        return;
    }
    c.peak_used = c.peak_used.max(c.unacked);
    if sysctl.slow_start_after_idle && j.wrapping_sub(c.cwnd_stamp) as i32 >= c.rto as i32 && !paces_itself {
        if c.state == CaState::Open && !sndbuf_limited {
            shrink_unused(c);
        }
        c.cwnd_stamp = j;
    }
}

/// An application that does not use its window loses half of the unused part per RTO.
fn shrink_unused(c: &mut Conn) {
    let used = c.peak_used.max(c.initial_window.min(c.cwnd_cap));
    if used < c.cwnd {
        c.ssthresh = c.current_ssthresh();
        c.cwnd = c.cwnd.wrapping_add(used) >> 1;
    }
    c.peak_used = 0;
}

/// The application queues new data, or a window update arrives while data is queued: after an idle period longer than
/// the timeout the window decays to the initial one (§7.4). Returns whether it did.
pub fn idle_restart<A: Algorithm, E: Env>(c: &mut Conn, algorithm: &mut A, env: &mut E, sysctl: &Sysctl) -> bool {
    if !sysctl.slow_start_after_idle || c.unacked != 0 || algorithm.has_cong_control() {
        return false;
    }
    let j = env.jiffies();
    let rto = c.rto as i32;
    let mut idle = j.wrapping_sub(c.last_send_j) as i32;
    if idle <= rto {
        return false;
    }
    algorithm.cwnd_event(c, env, CwndEvent::WindowRestart);
    c.ssthresh = c.current_ssthresh();
    let restart = c.initial_window.min(c.cwnd);
    loop {
        idle = idle.saturating_sub(rto);
        if idle <= 0 || c.cwnd <= restart {
            break;
        }
        c.cwnd >>= 1;
    }
    c.cwnd = c.cwnd.max(restart);
    c.cwnd_stamp = j;
    c.peak_used = 0;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;
    use crate::cubic::Cubic;
    use crate::env::Fixed;

    #[test]
    fn tracker_remembers_the_round() {
        let (s, mut e) = (Sysctl::default(), Fixed::default());
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.unacked, c.nxt, c.usage_edge) = (4, 4, 1);
        after_transmit(&mut c, &mut e, &s, false, false, false);
        assert_eq!((c.limited, c.peak_out, c.usage_edge), (false, 4, 4));
        (c.unacked, c.nxt) = (10, 10);
        after_transmit(&mut c, &mut e, &s, true, false, false);
        assert_eq!((c.limited, c.peak_out, c.usage_edge), (true, 10, 10));
        // A smaller flight inside the limited round changes nothing.
        (c.unacked, c.una) = (9, 1);
        after_transmit(&mut c, &mut e, &s, false, false, false);
        assert!(c.limited);
        c.una = 10;
        after_transmit(&mut c, &mut e, &s, false, false, false);
        assert!(!c.limited);
    }

    #[test]
    fn a_deferred_segment_counts_as_limited() {
        // CU-28: cwnd 10, 9 in flight, nothing sent in this call.
        let (s, mut e) = (Sysctl::default(), Fixed::default());
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.unacked, c.nxt, c.ssthresh) = (9, 9, 5);
        after_transmit(&mut c, &mut e, &s, true, false, false);
        assert!(c.is_cwnd_limited());
        crate::reno::cong_avoid(&mut c, 10);
        assert_eq!(c.cwnd, 11);
    }

    #[test]
    fn unused_window_is_halved_away() {
        let (s, mut e) = (Sysctl::default(), Fixed { jiffies: 1000, ..Fixed::default() });
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.cwnd, c.ssthresh, c.unacked, c.rto, c.cwnd_stamp) = (100, 50, 20, 75, 926);
        (c.usage_edge, c.una) = (5, 0);
        c.peak_out = 20;
        after_transmit(&mut c, &mut e, &s, false, false, false);
        assert_eq!(c.cwnd, 100);
        c.cwnd_stamp = 925;
        after_transmit(&mut c, &mut e, &s, false, false, false);
        assert_eq!((c.cwnd, c.ssthresh, c.peak_used, c.cwnd_stamp), (60, 75, 0, 1000));
        // Neither for BBR nor outside Open.
        for (state, itself) in [(CaState::Open, true), (CaState::Disorder, false)] {
            (c.cwnd, c.cwnd_stamp, c.state) = (100, 0, state);
            after_transmit(&mut c, &mut e, &s, false, false, itself);
            assert_eq!(c.cwnd, 100);
        }
    }

    #[test]
    fn restart_after_idle() {
        // CU-30 (c): cwnd 36, idle 2 s at 100 ms RTT.
        let (s, mut a) = (Sysctl::default(), Cubic::default());
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.cwnd, c.ssthresh, c.rto, c.last_send_j) = (36, 36, 75, 1000);
        let mut e = Fixed { jiffies: 1075, ..Fixed::default() };
        assert!(!idle_restart(&mut c, &mut a, &mut e, &s));
        e.jiffies = 1500;
        assert!(idle_restart(&mut c, &mut a, &mut e, &s));
        assert_eq!((c.cwnd, c.ssthresh), (10, 36));
        // Two timeouts halve once.
        (c.cwnd, e.jiffies) = (36, 1000 + 76);
        assert!(idle_restart(&mut c, &mut a, &mut e, &s));
        assert_eq!(c.cwnd, 18);
        // A short window stays.
        (c.cwnd, e.jiffies) = (4, 9000);
        assert!(idle_restart(&mut c, &mut a, &mut e, &s));
        assert_eq!(c.cwnd, 4);
    }
}
