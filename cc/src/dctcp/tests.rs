//! Worked examples of spec/dctcp.md and the cases DC-01 to DC-07.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::clock::Hz;
use crate::conn::EcnMode;
use crate::env::Fixed;

fn conn(cwnd: u32) -> Conn {
    let mut c = Conn::new(1448, Hz::H250, 0);
    c.ecn.mode = EcnMode::Classic;
    c.cwnd = cwnd;
    c
}

fn started(c: &mut Conn) -> Dctcp {
    let mut a = Dctcp::default();
    a.init(c, &mut Fixed::default());
    a
}

/// α round by round through the hook: D packets delivered, E marked per round.
fn alphas(shift_g: u32, start: u32, rounds: &[(u32, u32)]) -> Vec<u32> {
    let mut c = conn(10);
    let mut a = Dctcp::new(Params { shift_g, alpha_on_init: start });
    a.init(&mut c, &mut Fixed::default());
    let mut seen = std::vec![a.state.alpha];
    for &(d, e) in rounds {
        c.nxt = c.nxt.wrapping_add(1000);
        c.una = a.state.round_end;
        c.delivered = c.delivered.wrapping_add(d);
        c.delivered_ce = c.delivered_ce.wrapping_add(e);
        a.in_ack_event(&mut c, &mut Fixed::default(), AckFlags::default());
        seen.push(a.state.alpha);
    }
    seen
}

#[test]
fn alpha_without_marks_reaches_zero() {
    // DC-01 and spec/dctcp.md §3, first row.
    let got = alphas(4, 1024, &[(100, 0); 100]);
    let want = [
        1024, 960, 900, 844, 792, 743, 697, 654, 614, 576, 540, 507, 476, 447, 420, 394, 370, 347, 326, 306, 287, 270,
        254, 239, 225, 211, 198, 186, 175, 165, 155, 146, 137, 129, 121, 114, 107, 101, 95, 90, 85, 80, 75, 71, 67, 63,
        60, 57, 54, 51, 48, 45, 43, 41, 39, 37, 35, 33, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
        15, 0, 0,
    ];
    assert_eq!(&got[..want.len()], &want);
    assert_eq!((got[74], got[75], got[100]), (15, 0, 0));
    // One mark in a hundred changes nothing while α is above 15.
    assert_eq!(alphas(4, 1024, &[(100, 1); 74]), &got[..75]);
}

#[test]
fn alpha_with_marks() {
    let got = alphas(4, 1024, &[(100, 10); 200]);
    let want = [
        1024, 966, 912, 861, 814, 770, 728, 689, 652, 618, 586, 556, 528, 501, 476, 453, 431, 411, 392, 374, 357, 341,
        326, 312, 299, 287, 276, 265, 255, 246, 237, 229, 221, 214, 207, 201, 195, 189, 184, 179, 174, 170, 166, 162,
        158, 155, 152, 149, 146, 143, 141, 139, 137, 135, 133, 131, 129, 127, 126, 125, 124,
    ];
    assert_eq!(&got[..want.len()], &want);
    assert_eq!(got[200], 111);
    let all = alphas(4, 0, &[(100, 100); 20]);
    let want = [0, 64, 124, 181, 234, 284, 331, 375, 416, 454, 490, 524, 556, 586, 614, 640, 664, 687, 709, 729, 748];
    assert_eq!(all, want);
    assert_eq!(alphas(2, 1024, &[(100, 50); 12]), [1024, 896, 800, 728, 674, 634, 604, 581, 564, 551, 542, 535, 530]);
    assert_eq!(alphas(0, 1024, &[(100, 50), (100, 0), (100, 25), (100, 25)]), [1024, 512, 0, 256, 256]);
    assert_eq!(alphas(10, 0, &[(100, 100); 3]), [0, 1, 1, 1]);
    assert_eq!(alphas(10, 1024, &[(100, 0); 3]), [1024, 1023, 0, 0]);
    let marks = [0, 20, 40, 60, 80, 100, 0, 0, 0, 5, 5, 5].map(|e| (100, e));
    assert_eq!(alphas(4, 1024, &marks), [1024, 960, 912, 880, 863, 861, 872, 818, 767, 720, 678, 639, 603]);
}

#[test]
fn smallest_fraction_that_counts() {
    for (g, least) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (8, 250), (10, 1000)] {
        assert_eq!(next_alpha(0, g, 1000, least - 1), 0, "{g}");
        assert_eq!(next_alpha(0, g, 1000, least), 1, "{g}");
    }
    // The shift wraps from 2^(22+g) marks on.
    assert_eq!(next_alpha(0, 4, 1 << 26, 1 << 26), 0);
    assert_eq!(next_alpha(0, 4, 0, 3), 192);
}

#[test]
fn threshold_table() {
    for (cwnd, want) in [
        (2u32, [2u32, 2, 2, 2, 2, 2, 2]),
        (3, [3, 3, 3, 3, 3, 2, 2]),
        (10, [10, 10, 10, 9, 8, 7, 5]),
        (100, [100, 97, 94, 88, 75, 63, 50]),
        (1000, [1000, 969, 938, 875, 750, 625, 500]),
        (2_097_152, [2_096_128, 2_031_616, 1_966_080, 1_835_008, 1_572_864, 1_310_720, 1_048_576]),
    ] {
        for (alpha, want) in [1, 64, 128, 256, 512, 768, 1024].into_iter().zip(want) {
            let mut c = conn(cwnd);
            let mut a = started(&mut c);
            a.state.alpha = alpha;
            assert_eq!(a.ssthresh(&mut c, &mut Fixed::default()), want, "cwnd {cwnd} α {alpha}");
            assert_eq!(a.state.cwnd_at_cut, cwnd);
        }
    }
    let mut c = conn(4_194_304);
    let mut a = started(&mut c);
    assert_eq!(a.ssthresh(&mut c, &mut Fixed::default()), 4_194_304);
    // DC-07.
    for (cwnd, alpha, want) in [(100, 1024, 50), (3, 1024, 2), (100, 20, 100), (137, 15, 136)] {
        c.cwnd = cwnd;
        a.state.alpha = alpha;
        assert_eq!(a.ssthresh(&mut c, &mut Fixed::default()), want);
    }
}

#[test]
fn worked_rounds() {
    let rounds = [(100, 30), (50, 0), (51, 0), (52, 10), (40, 0), (41, 8), (37, 0), (38, 38), (24, 0)];
    let alpha = alphas(4, 1024, &rounds);
    assert_eq!(&alpha[1..], [979, 918, 861, 820, 769, 733, 688, 709, 665]);
    for ((&alpha, (d, _)), want) in alpha[1..].iter().zip(rounds).zip([53, 28, 30, 32, 25, 27, 25, 25, 17]) {
        let mut c = conn(d);
        let mut a = started(&mut c);
        a.state.alpha = alpha;
        assert_eq!(a.ssthresh(&mut c, &mut Fixed::default()), want);
    }
}

#[test]
fn loss_halves_once_per_recovery() {
    // DC-03.
    let mut e = Fixed::default();
    let mut c = conn(100);
    let mut a = started(&mut c);
    a.state.alpha = 0;
    c.ssthresh = a.ssthresh(&mut c, &mut e);
    assert_eq!(c.ssthresh, 100);
    a.set_state(&mut c, &mut e, CaState::Recovery);
    assert_eq!((c.ssthresh, a.state.cwnd_at_cut), (50, 100));
    c.state = CaState::Recovery;
    c.cwnd = 60;
    a.set_state(&mut c, &mut e, CaState::Recovery);
    assert_eq!(c.ssthresh, 50);
    a.cwnd_event(&mut c, &mut e, CwndEvent::Loss);
    assert_eq!((c.ssthresh, a.undo_cwnd(&mut c, &mut e)), (30, 60));
    a.set_state(&mut c, &mut e, CaState::Loss);
    assert_eq!(c.ssthresh, 30);
    c.cwnd = 1;
    a.cwnd_event(&mut c, &mut e, CwndEvent::Loss);
    assert_eq!(c.ssthresh, 2);
    // α 200: the mark cuts by α, the loss of the same window from the window PRR has left.
    let mut c = conn(100);
    a.state.alpha = 200;
    c.ssthresh = a.ssthresh(&mut c, &mut e);
    assert_eq!(c.ssthresh, 91);
    c.state = CaState::Cwr;
    c.cwnd = 95;
    a.set_state(&mut c, &mut e, CaState::Recovery);
    assert_eq!((c.ssthresh, a.state.cwnd_at_cut), (47, 95));
}

#[test]
fn falls_back_to_reno_without_ecn() {
    let mut e = Fixed::default();
    let mut c = conn(100);
    c.ecn.mode = EcnMode::Off;
    let mut a = Dctcp::default();
    a.init(&mut c, &mut e);
    assert_eq!((a.name(), a.flags().needs_ecn, a.enabled()), ("dctcp-reno", false, false));
    assert_eq!(a.ssthresh(&mut c, &mut e), 50);
    c.cwnd_before = 120;
    assert_eq!(a.undo_cwnd(&mut c, &mut e), 120);
    assert_eq!(a.info(&c), Info::Dctcp { enabled: false, ce_state: 0, alpha: 0, ab_ecn: 0, ab_tot: 0 });
    c.unconnected = true;
    let mut a = Dctcp::default();
    a.init(&mut c, &mut e);
    assert!(a.enabled());
}

#[test]
fn diagnostics_are_in_bytes_of_the_round() {
    let mut c = conn(10);
    let a = started(&mut c);
    (c.delivered, c.delivered_ce) = (c.delivered + 7, 3);
    assert_eq!(a.info(&c), Info::Dctcp { enabled: true, ce_state: 0, alpha: 1024, ab_ecn: 3 * 1448, ab_tot: 7 * 1448 });
}

/// An environment that collects the extra ACKs.
#[derive(Default)]
struct Acks(Vec<(u32, bool)>);

impl Env for Acks {
    fn hz(&self) -> Hz {
        Hz::H250
    }

    fn jiffies(&mut self) -> u32 {
        0
    }

    fn random_below(&mut self, _bound: u32) -> u32 {
        0
    }

    fn send_ack(&mut self, ack: u32, echo: bool) {
        self.0.push((ack, echo));
    }
}

/// The receiver of spec/dctcp.md §5: one-packet segments, an ACK for every second one, no quick ACKs.
fn receive(marks: &str, every: u32) -> Vec<(u32, bool)> {
    let mut e = Acks::default();
    let mut c = conn(10);
    let mut a = started(&mut c);
    let mut waiting = 0;
    for m in marks.chars() {
        c.rcv_nxt += 1;
        a.cwnd_event(&mut c, &mut e, if m == 'C' { CwndEvent::EcnIsCe } else { CwndEvent::EcnNoCe });
        waiting += 1;
        if core::mem::take(&mut c.ack_now) || waiting >= every {
            e.0.push((c.rcv_nxt, c.ecn.echo));
            waiting = 0;
        }
        c.delack_pending = waiting > 0;
    }
    e.0
}

#[test]
fn receiver_trace() {
    // DC-05 and the table of spec/dctcp.md §5.
    assert_eq!(receive("NNCCCNNC", 2), [(2, false), (3, true), (5, true), (6, false), (7, false), (8, true)]);
    assert_eq!(receive("NC", 2), [(1, false), (2, true)]);
}

#[test]
fn marks_are_counted_exactly_with_delayed_acks() {
    let marks = "NNCNCCNNNNCCCCNCNCNCCNNCCCNNNNNCN";
    for every in 1..=4 {
        let acks = receive(marks, every);
        let (mut last, mut marked) = (0, 0);
        for (ack, echo) in acks {
            if echo {
                marked += ack - last;
            }
            last = ack;
        }
        let want = marks[..last as usize].matches('C').count() as u32;
        assert_eq!(marked, want, "ACK every {every}");
    }
}
