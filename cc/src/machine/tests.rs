//! The state machine on a scripted scoreboard.

use super::*;
use crate::clock::Hz;
use crate::cubic::Cubic;
use crate::env::Fixed;
use crate::reno::Reno;

/// A scoreboard that does what the test says.
#[derive(Default)]
struct Script {
    lose: u32,
    head_retransmitted: bool,
    head_sacked: bool,
    echo_older: bool,
    can_send_new: bool,
    retransmission_lost: bool,
}

impl Scoreboard for Script {
    fn detect_losses(&mut self, c: &mut Conn, _rack: &mut Rack, _sysctl: &Sysctl) -> bool {
        let n = core::mem::take(&mut self.lose);
        c.lost += n;
        c.lost_total += n;
        core::mem::take(&mut self.retransmission_lost)
    }

    fn head_retransmitted(&self) -> bool {
        self.head_retransmitted
    }

    fn head_sacked(&self) -> bool {
        self.head_sacked
    }

    fn unmark_lost(&mut self, c: &mut Conn) {
        c.lost = 0;
    }

    fn mark_timeout(&mut self, c: &mut Conn) -> bool {
        c.lost_total += c.unacked - c.lost - c.sacked;
        c.lost = c.unacked - c.sacked;
        c.retrans = 0;
        false
    }

    fn echo_older_than(&self, _ts: u32) -> bool {
        self.echo_older
    }

    fn can_send_new(&self) -> bool {
        self.can_send_new
    }
}

struct Bench<A> {
    c: Conn,
    a: A,
    e: Fixed,
    b: Script,
    s: Sysctl,
    r: Recovery,
}

impl<A: Algorithm> Bench<A> {
    fn new(a: A) -> Self {
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.cwnd, c.ssthresh, c.unacked, c.una, c.nxt) = (20, 20, 20, 100, 120);
        (c.ecn.mode, c.usage_edge, c.limited) = (EcnMode::Classic, 120, true);
        Self { c, a, e: Fixed::default(), b: Script::default(), s: Sysctl::default(), r: Recovery::default() }
    }

    fn machine(&mut self) -> Machine<'_, A, Fixed, Script> {
        Machine {
            c: &mut self.c,
            algorithm: &mut self.a,
            env: &mut self.e,
            board: &mut self.b,
            sysctl: &self.s,
            recovery: &mut self.r,
        }
    }

    fn ack(&mut self, advance: u32, ev: AckEvent) -> Next {
        self.c.una += advance;
        self.c.unacked -= advance;
        let ev = AckEvent { advanced: advance > 0, acked: advance > 0, ..ev };
        self.machine().on_ack(&ev)
    }

    fn sack(&mut self, n: u32) -> Next {
        self.c.sacked += n;
        self.machine().on_ack(&AckEvent { sacked: true, ..AckEvent::default() })
    }

    fn echo(&mut self, advance: u32) -> Next {
        self.ack(advance, AckEvent { ece: true, ..AckEvent::default() })
    }

    /// The retransmissions have been acknowledged.
    fn repaired(&mut self) {
        self.c.retrans = 0;
        self.c.lost = 0;
        self.b.head_retransmitted = false;
    }

    fn rexmit(&mut self, n: u32) {
        self.c.retrans += n;
        self.c.first_rexmit_ts = 77;
        self.c.undo_pending = self.c.undo_pending.max(0) + n as i32;
        self.b.head_retransmitted = true;
    }
}

#[test]
fn one_reduction_per_window_for_echoes() {
    let mut t = Bench::new(Reno);
    t.echo(1);
    assert_eq!((t.c.state, t.c.ssthresh, t.c.recovery_point, t.c.cwnd_before), (CaState::Cwr, 10, 120, 20));
    assert!(t.c.ecn.cwr_due);
    t.c.cwnd = 15;
    t.echo(10);
    assert_eq!((t.c.state, t.c.ssthresh), (CaState::Cwr, 10));
    // Exactly at the recovery point: still CWR.
    t.ack(9, AckEvent::default());
    assert_eq!(t.c.state, CaState::Cwr);
    t.c.nxt = 130;
    t.c.unacked = 10;
    // Beyond it, with an echo: this reduction ends, the next begins on the same ACK.
    t.echo(1);
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh, t.c.recovery_point), (CaState::Cwr, 10, 5, 130));
}

#[test]
fn the_window_becomes_the_threshold_when_cwr_ends() {
    let mut t = Bench::new(Cubic::default());
    t.echo(1);
    assert_eq!(t.c.ssthresh, 14);
    t.c.cwnd = 17;
    (t.c.nxt, t.c.unacked) = (140, 39);
    t.ack(20, AckEvent::default());
    assert_eq!((t.c.state, t.c.cwnd), (CaState::Open, 14));
}

#[test]
fn recovery_out_of_cwr_continues_the_reduction() {
    let mut t = Bench::new(Reno);
    t.echo(1);
    let threshold = t.c.ssthresh;
    t.c.cwnd = 16;
    t.b.lose = 1;
    assert_eq!(t.sack(3), Next::Retransmit);
    assert_eq!((t.c.state, t.c.ssthresh, t.c.cwnd_before), (CaState::Recovery, threshold, 20));
    // Entered for ECN: the window cannot be undone.
    assert_eq!(t.c.ssthresh_before, 0);
}

#[test]
fn an_echo_in_recovery_forbids_undo() {
    let mut t = Bench::new(Reno);
    t.b.lose = 1;
    t.sack(3);
    assert_eq!((t.c.state, t.c.ssthresh_before), (CaState::Recovery, 20));
    t.echo(0);
    assert_eq!(t.c.ssthresh_before, 0);
    t.c.cwnd = 12;
    t.rexmit(1);
    t.repaired();
    t.c.undo_pending = 0;
    t.c.sacked = 0;
    t.ack(20, AckEvent::default());
    assert_eq!((t.c.state, t.c.cwnd, t.c.undo_mark), (CaState::Open, 12, 0));
}

#[test]
fn dsack_undo_restores_window_and_threshold() {
    let mut t = Bench::new(Reno);
    t.b.lose = 1;
    t.sack(3);
    t.rexmit(1);
    assert_eq!(t.c.ssthresh, 10);
    t.c.cwnd = 12;
    t.repaired();
    t.c.undo_pending = 0;
    t.c.sacked = 0;
    t.ack(20, AckEvent::default());
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh, t.c.undo_mark), (CaState::Open, 20, 20, 0));
    assert!(!t.c.ecn.cwr_due);
}

#[test]
fn eifel_undoes_on_a_partial_ack() {
    let mut t = Bench::new(Reno);
    t.b.lose = 2;
    t.sack(3);
    t.rexmit(1);
    t.b.echo_older = true;
    // The retransmission is still out: stop, no undo yet.
    assert_eq!(t.ack(1, AckEvent::default()), Next::Nothing);
    assert_eq!(t.c.state, CaState::Recovery);
    t.c.retrans = 0;
    t.c.cwnd = 11;
    t.b.head_retransmitted = false;
    t.ack(1, AckEvent::default());
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh, t.c.lost), (CaState::Disorder, 20, 20, 0));
}

#[test]
fn timeout_reduces_once_per_window() {
    let mut t = Bench::new(Cubic::default());
    t.machine().on_timeout();
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh, t.c.rto_streak, t.c.backoff), (CaState::Loss, 1, 14, 1, 1));
    assert_eq!((t.c.rto, t.c.lost, t.c.recovery_point), (500, 20, 120));
    t.c.cwnd = 8;
    t.machine().on_timeout();
    assert_eq!((t.c.ssthresh, t.c.cwnd, t.c.rto), (14, 1, 1000));
    for _ in 0..20 {
        t.machine().on_timeout();
    }
    assert_eq!(t.c.rto, 30_000);
    // Growth goes on in Loss, and leaving it does not set the window.
    t.rexmit(1);
    t.repaired();
    t.c.cwnd = 9;
    t.ack(20, AckEvent::default());
    assert_eq!((t.c.state, t.c.cwnd), (CaState::Open, 9));
}

#[test]
fn timeout_saves_what_undo_needs() {
    let mut t = Bench::new(Reno);
    (t.c.cwnd, t.c.ssthresh) = (20, 8);
    t.machine().on_timeout();
    assert_eq!((t.c.ssthresh_before, t.c.cwnd_before, t.c.undo_mark), (15, 20, 100));
    assert!(t.r.frto);
}

#[test]
fn frto_takes_original_data_as_proof() {
    let mut t = Bench::new(Reno);
    t.machine().on_timeout();
    t.rexmit(1);
    // First ACK advances: new data is tried instead of retransmissions.
    t.b.can_send_new = true;
    t.c.retrans = 0;
    assert_eq!(t.ack(1, AckEvent::default()), Next::NewData);
    t.c.nxt += 2;
    t.c.unacked += 2;
    t.b.head_retransmitted = false;
    // Second ACK acknowledges data that was never sent again.
    let ev = AckEvent { original_delivered: true, ..AckEvent::default() };
    t.ack(3, ev);
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh, t.c.lost), (CaState::Open, 20, 20, 0));
}

#[test]
fn frto_is_disarmed_by_a_duplicate() {
    let mut t = Bench::new(Reno);
    t.machine().on_timeout();
    t.rexmit(1);
    t.b.can_send_new = true;
    t.c.retrans = 0;
    t.ack(1, AckEvent::default());
    t.c.nxt += 2;
    t.c.unacked += 2;
    let ev = AckEvent { duplicates: 1, ..AckEvent::default() };
    assert_eq!(t.ack(0, ev), Next::Retransmit);
    assert!(!t.r.frto && t.c.state == CaState::Loss);
}

#[test]
fn reneging_sets_the_timer() {
    let mut t = Bench::new(Reno);
    t.b.head_sacked = true;
    t.c.srtt8 = 8 * 100_000;
    assert_eq!(t.ack(1, AckEvent::default()), Next::RenegingTimer(13));
    t.c.srtt8 = 80;
    assert_eq!(t.ack(1, AckEvent::default()), Next::RenegingTimer(3));
}

#[test]
fn without_sack_duplicates_count_as_deliveries() {
    // PR-07: 5 duplicates are 5 deliveries; far more stop at what can be outstanding.
    let mut t = Bench::new(Reno);
    t.c.sack_ok = false;
    for n in 1..=5 {
        t.ack(0, AckEvent { duplicates: 1, ..AckEvent::default() });
        assert_eq!((t.c.sacked, t.c.delivered), (n, 1 + n));
    }
    for _ in 0..30 {
        t.ack(0, AckEvent { duplicates: 1, ..AckEvent::default() });
    }
    assert_eq!((t.c.sacked, t.c.delivered), (19, 20));
    assert!(t.c.reord_seen > 0 && t.c.reordering == 20);
    // With SACK they add nothing.
    let mut t = Bench::new(Reno);
    t.ack(0, AckEvent { duplicates: 1, ..AckEvent::default() });
    assert_eq!((t.c.sacked, t.c.delivered), (0, 1));
}

#[test]
fn newreno_holds_at_the_recovery_point() {
    let mut t = Bench::new(Reno);
    t.c.sack_ok = false;
    t.b.lose = 1;
    t.ack(0, AckEvent { duplicates: 3, ..AckEvent::default() });
    assert_eq!(t.c.state, CaState::Recovery);
    t.rexmit(1);
    t.repaired();
    t.ack(20, AckEvent::default());
    assert_eq!(t.c.state, CaState::Recovery);
    (t.c.nxt, t.c.unacked) = (t.c.nxt + 5, 5);
    t.c.cwnd = 12;
    t.ack(1, AckEvent::default());
    assert_eq!((t.c.state, t.c.cwnd), (CaState::Open, 10));
}

#[test]
fn rfc6675_counts_where_it_still_exists() {
    for (version, want) in [(crate::Linux::V6_12, CaState::Recovery), (crate::Linux::V7_2, CaState::Disorder)] {
        let mut t = Bench::new(Reno);
        t.s = Sysctl { recovery: 0, ..Sysctl::new(version) };
        t.sack(3);
        assert_eq!(t.c.state, want, "{version}");
    }
}

#[test]
fn a_tail_loss_probe_that_repaired_reduces_at_once() {
    let mut t = Bench::new(Cubic::default());
    t.machine().on_tlp_repair();
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh), (CaState::Open, 14, 14));
}

#[test]
fn the_loss_timer_enters_recovery_and_releases_a_packet() {
    let mut t = Bench::new(Reno);
    t.machine().on_loss_timer();
    assert_eq!(t.c.state, CaState::Open);
    t.b.lose = 2;
    t.machine().on_loss_timer();
    assert_eq!((t.c.state, t.c.in_flight(), t.c.cwnd), (CaState::Recovery, 18, 19));
}

#[test]
fn sack_only_acks_grow_after_reordering() {
    let mut t = Bench::new(Reno);
    t.c.ssthresh = 100;
    let rs = RateSample { acked_sacked: 2, ..RateSample::default() };
    let ev = AckEvent { sacked: true, ..AckEvent::default() };
    t.machine().window_step(&ev, AckFlags::default(), &rs);
    assert_eq!(t.c.cwnd, 20);
    t.c.reordering = 4;
    t.machine().window_step(&ev, AckFlags::default(), &rs);
    assert_eq!(t.c.cwnd, 22);
}

#[test]
fn a_failed_mtu_probe_is_no_congestion() {
    let mut t = Bench::new(Reno);
    t.b.lose = 1;
    let ev = AckEvent { mtu_probe_failed: true, ..AckEvent::default() };
    assert_eq!(t.ack(0, ev), Next::Retransmit);
    assert_eq!((t.c.state, t.c.cwnd, t.c.ssthresh), (CaState::Open, 21, 20));
}
