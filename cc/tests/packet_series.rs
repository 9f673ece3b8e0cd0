//! Published packet series, replayed through hooks and state machine: known-faults CU-01, CU-04, CU-05, CU-30, PR-01,
//! PR-03 (R-04 of the published results).

mod common;

use common::Tcp;
use debloat_cc::algorithm::AckSample;
use debloat_cc::env::Fixed;
use debloat_cc::machine::Next;
use debloat_cc::{Algorithm, CaState, Conn, Cubic, Hz, Reno};

const RTT: u64 = 100_000;

fn bulk<A: Algorithm>(algorithm: A) -> Tcp<A> {
    let mut t = Tcp::new(algorithm, 1000, Hz::H1000);
    t.start(1_000_000, RTT as u32);
    t
}

#[test]
fn slow_start_is_packet_exact() {
    // CU-30 (a): initial window 10, an ACK per 4 packets: 14, 18, 20 with 8, 8 and 4 new segments.
    let mut t = bulk(Cubic::default());
    assert_eq!(t.fill(Next::Nothing).len(), 10);
    for (una, cwnd, new) in [(4, 14, 8), (8, 18, 8), (10, 20, 4)] {
        let next = t.ack(1_000_000 + RTT, una, &[], false);
        assert_eq!((t.c.cwnd, t.fill(next).len()), (cwnd, new));
    }
    // (b): 9 packets written, an ACK per 2: 12, 14, 16, 18, 18.
    let mut t = bulk(Cubic::default());
    t.left = 9;
    assert_eq!(t.fill(Next::Nothing).len(), 9);
    for (una, cwnd) in [(2, 12), (4, 14), (6, 16), (8, 18), (9, 18)] {
        t.ack(1_000_000 + RTT, una, &[], false);
        assert_eq!(t.c.cwnd, cwnd, "{una}");
    }
}

#[test]
fn bulk_series() {
    // CU-01: an ACK per 2 packets, 100 ms apart. The case does not list the RTTs that end slow start at 38001, so the
    // test ends it there; everything else is computed.
    for hz in [Hz::H250, Hz::H1000] {
        let mut e = Fixed { hz, jiffies: 100_000, draw: 0 };
        let mut c = Conn::new(1000, hz, e.jiffies);
        let mut a = Cubic::default();
        a.init(&mut c, &mut e);
        c.limited = true;
        let mut at = std::collections::BTreeMap::new();
        for una in (2..=160).step_by(2) {
            e.jiffies += hz.get() / 10;
            c.una = una;
            a.pkts_acked(&mut c, &mut e, &AckSample { acked: 2, rtt_us: 100_000, in_flight_bytes: 0 });
            if una == 40 {
                (c.ssthresh, a.state.found) = (c.cwnd, 1);
            }
            a.cong_avoid(&mut c, &mut e, una, 2);
            at.insert(una, c.cwnd);
        }
        let listed = [10, 20, 30, 38, 60, 80, 100, 120, 140, 160].map(|una| at[&una]);
        assert_eq!(listed, [20, 30, 40, 48, 49, 50, 52, 58, 68, 78]);
    }
}

#[test]
fn rising_delay_ends_slow_start_at_the_ninth_sample() {
    // CU-04: base 200 ms, then 240, 241, … ms.
    let mut e = Fixed { hz: Hz::H1000, jiffies: 100_000, draw: 0 };
    let mut c = Conn::new(1000, Hz::H1000, e.jiffies);
    let mut a = Cubic::default();
    a.init(&mut c, &mut e);
    (c.cwnd, c.nxt, c.limited, a.state.dmin) = (20, 30, true, 200_000);
    c.una = 10;
    a.state.hs_end = 10;
    for n in 1..=10u32 {
        c.una = 10 + 2 * n;
        // The round lasts as long as its first ACK's send position: nothing new is counted here.
        c.nxt = 30 + 2 * n;
        c.set_now(u64::from(200 + 10 * n) * 1_000_000);
        let rtt_us = (239_000 + 1000 * n) as i32;
        a.pkts_acked(&mut c, &mut e, &AckSample { acked: 2, rtt_us, in_flight_bytes: 0 });
        a.cong_avoid(&mut c, &mut e, 10 + 2 * n, 2);
        let want = if n < 9 { 20 + 2 * n } else { 36 };
        assert_eq!(c.cwnd, want, "ACK {n}");
        assert_eq!(c.ssthresh == 36, n >= 9, "ACK {n}");
    }
}

#[test]
fn growth_after_a_timeout() {
    // CU-05: one packet lost, its retransmission acknowledged, then bulk with an ACK per packet.
    let mut t = bulk(Cubic::default());
    t.left = 1;
    t.fill(Next::Nothing);
    let at = t.timeout_at().unwrap();
    assert_eq!(t.timeout(at), [0]);
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh, t.c.lost_total), (CaState::Loss, 1, 7, 1));
    let mut us = at + RTT;
    t.ack(us, 1, &[], false);
    assert_eq!((t.c.cwnd, t.c.ssthresh), (2, 7));
    t.left = u32::MAX;
    let mut una = 1;
    let mut cwnd_at = std::collections::BTreeMap::new();
    while una < 24 {
        let first = una;
        t.fill(Next::Nothing);
        let end = t.c.nxt;
        us += RTT;
        for seq in first..end {
            una = seq + 1;
            let next = t.ack(us, una, &[], false);
            cwnd_at.insert(una, t.c.cwnd);
            t.fill(next);
            if t.c.nxt > end + 40 {
                break;
            }
        }
    }
    assert_eq!([2, 3, 4, 5, 6].map(|u| cwnd_at[&u]), [3, 4, 5, 6, 7]);
    assert_eq!((cwnd_at[&16], cwnd_at[&23]), (7, 8));
}

#[test]
fn one_loss_in_ten() {
    // PR-01: SACKs 1 to 3 start recovery; cwnd 7, ssthresh 7, one segment per SACK, cwnd 7 at the end.
    let mut t = bulk(Cubic::default());
    t.left = 10;
    t.fill(Next::Nothing);
    let us = 1_000_000 + RTT;
    for n in 1..=2u32 {
        let next = t.ack(us, 0, &[(1, 1 + n)], false);
        assert_eq!((t.c.state, t.c.cwnd, t.fill(next).len()), (CaState::Disorder, 10, 0));
    }
    let next = t.ack(us, 0, &[(1, 4)], false);
    assert_eq!((t.c.state, t.c.ssthresh, t.c.cwnd, next), (CaState::Recovery, 7, 7, Next::Retransmit));
    assert_eq!(t.fill(next), [0]);
    // More data to send: one segment per further SACK.
    t.left = 100;
    for n in 4..=9u32 {
        let next = t.ack(us + 1000, 0, &[(1, 1 + n)], false);
        assert_eq!((t.fill(next).len(), t.c.cwnd), (1, 7), "SACK {n}");
    }
    let next = t.ack(us + RTT, 10, &[], false);
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh), (CaState::Open, 7, 7));
    assert_eq!(next, Next::Nothing);
}

#[test]
fn echo_with_few_in_flight() {
    // PR-03, the rule of 6.1 to 7.2: 4 outstanding, an ACK of 1 with ECE.
    let mut t = bulk(Cubic::default());
    t.c.ecn.mode = debloat_cc::conn::EcnMode::Classic;
    t.left = 4;
    t.fill(Next::Nothing);
    t.ack(1_000_000 + RTT, 1, &[], true);
    assert_eq!((t.c.state, t.c.ssthresh, t.c.cwnd, t.c.ecn.cwr_due), (CaState::Cwr, 7, 5, true));
    // Disorder alone keeps the window.
    let mut t = bulk(Reno);
    t.left = 4;
    t.fill(Next::Nothing);
    t.ack(1_000_000 + RTT, 0, &[(1, 2)], false);
    assert_eq!((t.c.state, t.c.cwnd), (CaState::Disorder, 10));
}
