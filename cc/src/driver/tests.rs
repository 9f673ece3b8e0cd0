//! The driver as a stack author meets it.

extern crate std;

use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::algorithm::Info;
use crate::{Any, Bbr, Cubic, Dctcp, Reno};

const MS: u64 = 1_000_000;

/// Sends what the window allows, one datagram each.
fn fill<A: Algorithm>(cc: &mut Driver<A>, now: u64) -> Vec<Stamp> {
    let mut sent = Vec::new();
    while cc.can_send() && sent.len() < 5000 {
        sent.push(cc.on_sent(now, 1));
    }
    sent
}

fn ack<A: Algorithm>(cc: &mut Driver<A>, now: u64, packets: &[Stamp]) {
    cc.on_ack(now, &Ack { delivered: packets.len() as u32, newest: packets.last().copied(), ..Ack::default() });
}

#[test]
fn a_window_doubles_and_a_loss_costs_three_tenths_of_it() {
    let mut cc = Driver::new(Cubic::default(), Config::new(1200));
    let first = fill(&mut cc, 0);
    assert_eq!(first.len(), 10);
    ack(&mut cc, 40 * MS, &first);
    assert_eq!((cc.cwnd(), cc.in_flight(), cc.state()), (20, 0, CaState::Open));
    let second = fill(&mut cc, 40 * MS);
    assert_eq!(second.len(), 20);
    cc.on_packet_lost(&second[0]);
    ack(&mut cc, 80 * MS, &second[1..4]);
    assert_eq!((cc.state(), cc.ssthresh()), (CaState::Recovery, 14));
    assert_eq!(cc.metrics().lost, 1);
    // PRR lets about 14 packets out for the 20, then the window is 14.
    let mut more = Vec::new();
    for packet in &second[4..19] {
        more.extend(fill(&mut cc, 81 * MS));
        ack(&mut cc, 81 * MS, core::slice::from_ref(packet));
        assert_eq!(cc.state(), CaState::Recovery);
    }
    assert!((10..=15).contains(&more.len()), "{}", more.len());
    // The ACK of the last packet that was out at the loss ends the episode.
    ack(&mut cc, 120 * MS, &second[19..]);
    assert_eq!((cc.state(), cc.cwnd()), (CaState::Open, 14));
}

#[test]
fn a_spurious_loss_is_undone() {
    let mut cc = Driver::new(Cubic::default(), Config::new(1200));
    let sent = fill(&mut cc, 0);
    cc.on_packet_lost(&sent[0]);
    ack(&mut cc, 40 * MS, &sent[1..5]);
    assert_eq!((cc.state(), cc.ssthresh()), (CaState::Recovery, 7));
    let late = Ack { delivered: 1, spurious: 1, newest: Some(sent[5]), ..Ack::default() };
    cc.on_ack(45 * MS, &late);
    assert_eq!((cc.state(), cc.ssthresh()), (CaState::Open, crate::conn::INFINITE_SSTHRESH));
    assert!(cc.cwnd() >= 10);
}

#[test]
fn marks_reduce_once_per_window() {
    let mut cc = Driver::new(Cubic::default(), Config::quic(1200));
    let sent = fill(&mut cc, 0);
    for (i, packet) in sent.iter().enumerate() {
        let marked = Ack { delivered: 1, newest: Some(*packet), ce: 1, ..Ack::default() };
        cc.on_ack(40 * MS + i as u64 * MS, &marked);
        assert_eq!((cc.state(), cc.ssthresh()), (CaState::Cwr, 7), "{i}");
    }
    assert_eq!(cc.metrics().delivered_ce, 10);
    // Without negotiated ECN marks are ignored.
    let mut cc = Driver::new(Cubic::default(), Config::new(1200));
    let sent = fill(&mut cc, 0);
    cc.on_ack(40 * MS, &Ack { delivered: 10, newest: sent.last().copied(), ce: 3, ece: true, ..Ack::default() });
    assert_eq!(cc.state(), CaState::Open);
}

#[test]
fn dctcp_follows_the_marked_fraction() {
    let mut cc = Driver::new(Dctcp::default(), Config::quic(1200));
    let mut now = 0;
    for _ in 0..60 {
        let sent = fill(&mut cc, now);
        now += MS;
        let ce = u32::from(sent.len() > 30);
        cc.on_ack(now, &Ack { delivered: sent.len() as u32, newest: sent.last().copied(), ce, ..Ack::default() });
    }
    let Info::Dctcp { enabled, alpha, .. } = cc.metrics().info else { panic!() };
    assert!(enabled && alpha < 200, "{alpha}");
    assert!((20..60).contains(&cc.cwnd()), "{}", cc.cwnd());
}

#[test]
fn bbr_finds_the_bandwidth() {
    // 10 packets per 10 ms, 40 ms away: 40 packets of bandwidth-delay product.
    let mut cc = Driver::new(Bbr::default(), Config { seed: 7, ..Config::quic(1200) });
    let mut queue: std::collections::VecDeque<(u64, Stamp)> = std::collections::VecDeque::new();
    let (mut free, mut now) = (0u64, 0u64);
    while now < 4_000 * MS {
        now += MS / 4;
        while cc.can_send() && cc.next_departure_ns() <= now {
            let stamp = cc.on_sent(now, 1);
            free = free.max(now) + MS;
            queue.push_back((free + 40 * MS, stamp));
        }
        while queue.front().is_some_and(|(at, _)| *at <= now) {
            let (_, stamp) = queue.pop_front().unwrap();
            ack(&mut cc, now, &[stamp]);
        }
    }
    assert!(cc.metrics().delivery_rate > 800_000);
    let Info::Bbr { bw, min_rtt_us, .. } = cc.metrics().info else { panic!() };
    assert!(bw.abs_diff(1_200_000) < 60_000, "{bw}");
    assert!((40_000..44_000).contains(&min_rtt_us), "{min_rtt_us}");
    assert!(cc.in_flight() < 100);
}

#[test]
fn a_scoreboard_keeper_passes_its_counts() {
    let mut cc = Driver::new(Reno, Config { ecn: EcnMode::Classic, ..Config::new(1448) });
    let sent = fill(&mut cc, 0);
    let board = |unacked, sacked, lost, retrans| Some(Flight { unacked, sacked, lost, retrans });
    // One SACK: Disorder. The third reveals a loss.
    cc.on_ack(40 * MS, &Ack { delivered: 1, newest: Some(sent[1]), flight: board(10, 1, 0, 0), ..Ack::default() });
    assert_eq!((cc.state(), cc.cwnd()), (CaState::Disorder, 10));
    let third =
        Ack { delivered: 2, newly_lost: 1, newest: Some(sent[3]), flight: board(10, 3, 1, 0), ..Ack::default() };
    assert_eq!(cc.on_ack(41 * MS, &third), crate::machine::Next::Retransmit);
    assert_eq!((cc.state(), cc.ssthresh(), cc.in_flight()), (CaState::Recovery, 5, 6));
    assert!(cc.take_cwr() && !cc.take_cwr());
    let again = cc.on_retransmitted(41 * MS, 1);
    assert!(again.retransmission && cc.in_flight() == 7);
    // Everything arrives; the window becomes the threshold.
    let last = Ack { delivered: 7, newest: Some(again), flight: board(0, 0, 0, 0), ..Ack::default() };
    cc.on_ack(81 * MS, &last);
    // Its 7 deliveries also grow it: the state machine runs before the window step.
    assert_eq!((cc.state(), cc.cwnd(), cc.in_flight()), (CaState::Open, 6, 0));
}

#[test]
fn a_timeout_starts_over() {
    let mut cc = Driver::new(Cubic::default(), Config::new(1200));
    let sent = fill(&mut cc, 0);
    ack(&mut cc, 40 * MS, &sent);
    let rto = cc.rto_us();
    assert!((240_000..=248_000).contains(&rto), "{rto}");
    fill(&mut cc, 40 * MS);
    cc.on_rto(400 * MS, None);
    assert_eq!((cc.state(), cc.cwnd(), cc.in_flight(), cc.ssthresh()), (CaState::Loss, 1, 0, 14));
    let probe = fill(&mut cc, 400 * MS);
    ack(&mut cc, 440 * MS, &probe);
    assert_eq!((cc.state(), cc.cwnd()), (CaState::Open, 2));
}

#[test]
fn an_ack_of_nothing_changes_nothing() {
    // CU-23, for every algorithm, in and out of recovery.
    for name in Any::NAMES {
        let mut cc = Driver::new(Any::by_name(name).unwrap(), Config::quic(1200));
        let sent = fill(&mut cc, 0);
        for lose in [false, true] {
            if lose {
                cc.on_packet_lost(&sent[0]);
                ack(&mut cc, 40 * MS, &sent[1..4]);
            }
            let before = (cc.cwnd(), cc.ssthresh(), cc.state());
            cc.on_ack(41 * MS, &Ack::default());
            assert_eq!((cc.cwnd(), cc.ssthresh(), cc.state()), before, "{name}");
        }
    }
}

#[test]
fn a_zero_rtt_divides_nothing() {
    // CU-19: 0 and 1 µs.
    for name in Any::NAMES {
        for rtt in [0, 1] {
            let mut cc = Driver::new(Any::by_name(name).unwrap(), Config::quic(1200));
            cc.on_established(0, Some(rtt));
            let sent = fill(&mut cc, 0);
            let a = Ack { delivered: 10, newest: sent.last().copied(), rtt_us: Some(rtt), ..Ack::default() };
            cc.on_ack(u64::from(rtt) * 1000, &a);
            assert!(cc.cwnd() >= 2 && cc.burst_packets() >= 1, "{name}");
        }
    }
}

#[test]
fn idle_restarts_the_window() {
    let mut cc = Driver::new(Cubic::default(), Config::new(1200));
    let mut now = 0;
    for _ in 0..3 {
        let sent = fill(&mut cc, now);
        now += 40 * MS;
        ack(&mut cc, now, &sent);
    }
    assert_eq!(cc.cwnd(), 80);
    assert!(!cc.on_data_queued(now + 100 * MS));
    assert!(cc.on_data_queued(now + 3000 * MS));
    assert_eq!(cc.cwnd(), 10);
}

#[test]
fn an_application_that_sends_little_does_not_grow() {
    let mut cc = Driver::new(Reno, Config::new(1200));
    let mut now = 0;
    for _ in 0..20 {
        let stamp = cc.on_sent(now, 2);
        cc.on_app_limited();
        now += 40 * MS;
        cc.on_ack(now, &Ack { delivered: 2, newest: Some(stamp), ..Ack::default() });
    }
    assert_eq!(cc.cwnd(), 10);
    assert!(cc.metrics().app_limited);
}

#[test]
fn bytes_count_like_packets() {
    // CU-14: MSS 1200, window 12 000 bytes, one loss: 8400. Repeated losses end at exactly 2 packets.
    let mut cc = ByteDriver::new(Cubic::default(), Config::new(1200));
    assert_eq!(cc.cwnd(), 12_000);
    let mut sent = Vec::new();
    while cc.window_space() >= 1200 {
        sent.push(cc.on_sent(0, 1200));
    }
    assert_eq!((sent.len(), cc.in_flight()), (10, 12_000));
    cc.on_packet_lost(&sent[0], 1200);
    cc.on_ack(40 * MS, 1200, &Ack { newest: Some(sent[1]), ..Ack::default() });
    assert_eq!(u64::from(cc.driver().ssthresh()) * 1200, 8400);
    assert_eq!(cc.in_flight(), 9600);
    for n in 1..40u64 {
        let now = (40 + 40 * n) * MS;
        let a = cc.on_sent(now, 1200);
        let b = cc.on_sent(now, 1200);
        cc.on_packet_lost(&a, 1200);
        cc.on_ack(now + 40 * MS, 1200, &Ack { newest: Some(b), ..Ack::default() });
    }
    assert_eq!(cc.driver().ssthresh(), 2);
}

#[test]
fn small_packets_weigh_their_bytes() {
    let mut cc = ByteDriver::new(Reno, Config::new(1200));
    let mut stamps = Vec::new();
    for _ in 0..40 {
        stamps.push(cc.on_sent(0, 300));
    }
    // Forty quarters are ten packets.
    assert_eq!((cc.in_flight(), cc.driver().in_flight()), (12_000, 10));
    for stamp in &stamps {
        cc.on_ack(40 * MS, 300, &Ack { newest: Some(*stamp), ..Ack::default() });
    }
    assert_eq!((cc.in_flight(), cc.driver().in_flight(), cc.driver().cwnd()), (0, 0, 20));
}

#[test]
fn a_smaller_packet_size_keeps_packets_and_the_initial_window() {
    // CU-29: 9000 to 1350 with 18 000 and 180 000 bytes.
    for (packets, want) in [(2u32, 13_500u64), (20, 27_000)] {
        let mut cc = Driver::new(Reno, Config { initial_window: packets, ..Config::new(9000) });
        cc.conn.initial_window = 10;
        cc.set_mss(1350);
        assert_eq!(cc.metrics().congestion_window, want);
    }
}

#[test]
fn metrics_read_like_ss() {
    let mut cc = Driver::new(Cubic::default(), Config::new(1448));
    let sent = fill(&mut cc, 0);
    ack(&mut cc, 40 * MS + 500_000, &sent);
    assert_eq!(
        cc.metrics().to_string(),
        "cubic rto:244 rtt:40.5/20.25 mss:1448 cwnd:20 pacing_rate 11440984bps delivery_rate 2860240bps delivered:11 \
         app_limited unacked:0 minrtt:40.5"
    );
    let mut cc = Driver::new(Bbr::default(), Config::new(1448));
    cc.on_established(0, Some(40_000));
    let sent = fill(&mut cc, 0);
    ack(&mut cc, 40 * MS, &sent);
    let text = cc.metrics().to_string();
    assert!(text.contains("bbr:(bw:2895784bps,mrtt:40,pacing_gain:2.89,cwnd_gain:2.89)"), "{text}");
}

#[test]
fn seeds_spread_the_cycle() {
    let draw = |seed| World { hz: Hz::H250, jiffies: 0, seed }.random_below(7);
    let all: std::collections::BTreeSet<u32> = (0..60).map(draw).collect();
    assert_eq!(all.len(), 7);
}
