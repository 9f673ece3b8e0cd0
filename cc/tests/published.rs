//! Published results with a minimal loop: R-01 (Reno's response function), R-06 (HyStart's thresholds), R-16 (DCTCP's
//! queue), R-18 (BBR's start-up, drain and cycle).

mod common;

use std::collections::{BinaryHeap, VecDeque};

use common::Tcp;
use debloat_cc::algorithm::{AckSample, Algorithm};
use debloat_cc::bbr::Mode;
use debloat_cc::conn::EcnMode;
use debloat_cc::env::Fixed;
use debloat_cc::machine::Next;
use debloat_cc::{Bbr, CaState, Conn, Cubic, Dctcp, Hz, Reno};

/// mean window of a flow that loses exactly every `every`-th packet, unlimited rate, ACK per packet.
fn mean_window<A: Algorithm>(algorithm: A, every: u32, packets: u64) -> f64 {
    let rtt = 100_000u64;
    let mut t = Tcp::new(algorithm, 1448, Hz::H1000);
    t.start(1_000_000, rtt as u32);
    // In flight on the path: (arrival of the ACK, sequence); the receiver's out-of-order set.
    let mut path: VecDeque<(u64, u32)> = VecDeque::new();
    let (mut received, mut una) = (std::collections::BTreeSet::new(), 0u32);
    let (mut sent, mut now, mut sum, mut n) = (0u64, 1_000_000u64, 0f64, 0u64);
    let launch = |seqs: Vec<u32>, now: u64, sent: &mut u64, path: &mut VecDeque<(u64, u32)>| {
        for seq in seqs {
            *sent += 1;
            if *sent % u64::from(every) != 0 {
                path.push_back((now + rtt, seq));
            }
        }
    };
    launch(t.fill(Next::Nothing), now, &mut sent, &mut path);
    while sent < packets {
        let Some((at, seq)) = path.pop_front() else {
            now = t.timeout_at().unwrap();
            launch(t.timeout(now), now, &mut sent, &mut path);
            continue;
        };
        now = at;
        if seq >= una {
            received.insert(seq);
        }
        while received.remove(&una) {
            una += 1;
        }
        let sack = if seq >= una { vec![(seq, seq + 1)] } else { Vec::new() };
        let next = t.ack(now, una, &sack, false);
        launch(t.fill(next), now, &mut sent, &mut path);
        // The first sawteeth are start-up.
        if sent > packets / 4 && t.c.state == CaState::Open {
            sum += f64::from(t.c.cwnd);
            n += 1;
        }
    }
    sum / n as f64
}

#[test]
fn reno_response_function() {
    // 1.22/sqrt(p); the mean over ACKs weighs large windows a little more than the mean over time.
    for (every, want) in [(100u32, 12.2), (1000, 38.6), (10_000, 122.0)] {
        let w = mean_window(Reno, every, u64::from(every) * 60);
        assert!((w / want - 1.0).abs() < 0.10, "p = 1/{every}: {w:.1}, expected {want}");
    }
}

#[test]
fn cubic_is_at_least_as_fast_as_reno_at_this_loss() {
    let (reno, cubic) = (mean_window(Reno, 1000, 60_000), mean_window(Cubic::default(), 1000, 60_000));
    assert!(cubic > reno * 0.95, "{cubic:.1} against {reno:.1}");
}

#[test]
fn hystart_thresholds() {
    // an eighth, between 4 and 16 ms.
    for (rtt, allowance) in
        [(10_000, 4000), (32_000, 4000), (50_000, 6250), (100_000, 12_500), (128_000, 16_000), (300_000, 16_000)]
    {
        for over in [0, 1] {
            let mut e = Fixed { hz: Hz::H1000, jiffies: 5000, draw: 0 };
            let mut c = Conn::new(1448, Hz::H1000, 5000);
            (c.cwnd, c.nxt) = (32, 1000);
            c.set_now(1_000_000_000);
            let mut a = Cubic::default();
            a.init(&mut c, &mut e);
            a.state.dmin = rtt;
            for n in 1..=9u64 {
                c.set_now(1_000_000_000 + n * 3_000_000);
                let rtt_us = (rtt + allowance + over) as i32;
                a.pkts_acked(&mut c, &mut e, &AckSample { acked: 1, rtt_us, in_flight_bytes: 0 });
            }
            assert_eq!(a.state.found, over as u8, "{rtt}");
        }
    }
}

/// N flows through one queue of `rate` packets per millisecond that marks above `k` packets. Times in ns.
struct Dumbbell {
    flows: Vec<Tcp<Dctcp>>,
    una: Vec<u32>,
}

#[test]
fn dctcp_queue_stays_at_the_threshold() {
    // 10 Gbit/s, 100 µs, 1500 B, K = 40; N = 2 and 10: Q_max = K + N ± 2, A 20 %, α 20 %.
    for (n, alpha, low) in [(2usize, 0.18, 20u32), (10, 0.40, 8)] {
        let (service, delay, k) = (1200u64, 100_000u64, 40u32);
        let mut net = Dumbbell { flows: Vec::new(), una: vec![0; n] };
        for _ in 0..n {
            let mut t = Tcp::new(Dctcp::default(), 1448, Hz::H1000);
            t.c.ecn.mode = EcnMode::Classic;
            t.start(1_000_000, 100);
            t.c.ssthresh = 10;
            net.flows.push(t);
        }
        // Events: ACK arrivals (time, flow, sequence, marked); the queue is a departure clock.
        let mut acks: BinaryHeap<std::cmp::Reverse<(u64, usize, u32, bool)>> = BinaryHeap::new();
        let mut free = 1_000_000_000u64;
        let (mut q_max, mut q_min, mut alphas, mut samples) = (0, u32::MAX, 0f64, 0u32);
        let mut now = 1_000_000_000u64;
        let end = now + 60_000_000;
        let settled = now + 30_000_000;
        let mut push = |flow: usize,
                        seqs: Vec<u32>,
                        now: u64,
                        free: &mut u64,
                        acks: &mut BinaryHeap<_>,
                        stat: &mut dyn FnMut(u32)| {
            for seq in seqs {
                *free = (*free).max(now);
                let queue = ((*free - now) / service) as u32;
                stat(queue);
                *free += service;
                acks.push(std::cmp::Reverse((*free + delay, flow, seq, queue >= k)));
            }
        };
        for flow in 0..n {
            let seqs = net.flows[flow].fill(Next::Nothing);
            push(flow, seqs, now, &mut free, &mut acks, &mut |_| {});
        }
        while now < end {
            let Some(std::cmp::Reverse((at, flow, seq, marked))) = acks.pop() else { break };
            now = at;
            net.una[flow] = seq + 1;
            let una = net.una[flow];
            let next = net.flows[flow].ack(now / 1000, una, &[], marked);
            let seqs = net.flows[flow].fill(next);
            let measure = now > settled;
            push(flow, seqs, now, &mut free, &mut acks, &mut |q| {
                if measure {
                    q_max = q_max.max(q);
                    q_min = q_min.min(q);
                }
            });
            if measure {
                alphas += f64::from(net.flows[flow].algorithm.state.alpha) / 1024.0;
                samples += 1;
            }
        }
        let alpha_mean = alphas / f64::from(samples);
        assert!(q_max.abs_diff(k + n as u32) <= 6, "N = {n}: Q_max {q_max}");
        assert!(q_min >= low && q_min < k, "N = {n}: Q_min {q_min}");
        assert!((alpha_mean / alpha - 1.0).abs() < 0.35, "N = {n}: α {alpha_mean:.3}, expected {alpha}");
    }
}

#[test]
fn bbr_starts_drains_and_cycles() {
    // 10 Mbit/s, 40 ms, one flow.
    let (service, delay) = (1_200_000u64, 40_000_000u64);
    let mut t = Tcp::new(Bbr::default(), 1448, Hz::H1000);
    let mut now = 1_000_000_000u64;
    t.start(now / 1000, 40_000);
    let mut acks: VecDeque<(u64, u32)> = VecDeque::new();
    let mut free = now;
    let bdp = delay / service;
    let (mut startup_end, mut drain_end, mut worst, mut low_window) = (0, 0, 0u64, 0u64);
    let (mut idle_queue, mut samples) = (0u64, 0u64);
    let mut gains = std::collections::BTreeSet::new();
    while now < 14_000_000_000 {
        let wake = acks.front().map(|(at, _)| *at);
        let pace = (t.c.in_flight() < t.c.cwnd).then(|| t.c.edt_ns.max(now + 1));
        let Some(at) = [wake, pace].into_iter().flatten().min() else { break };
        now = at;
        t.at(now / 1000);
        let mut next = Next::Nothing;
        if wake == Some(at) {
            let (_, seq) = acks.pop_front().unwrap();
            next = t.ack(now / 1000, seq + 1, &[], false);
        }
        t.c.set_now(now);
        for seq in t.fill(next) {
            free = free.max(now) + service;
            acks.push_back((free + delay, seq));
        }
        let queue = free.saturating_sub(now) / service;
        let s = &t.algorithm.state;
        gains.insert(s.pacing_gain);
        match s.mode {
            Mode::Startup => worst = worst.max(queue),
            Mode::Drain => startup_end = if startup_end == 0 { now } else { startup_end },
            Mode::ProbeBw if drain_end == 0 => drain_end = now,
            Mode::ProbeBw if now > 3_000_000_000 => {
                idle_queue += queue;
                samples += 1;
            }
            Mode::ProbeRtt if t.c.cwnd <= 4 => low_window += 1,
            _ => {}
        }
    }
    // At most about two BDP of queue at the end of start-up (the initial burst adds a little).
    assert!(worst <= 2 * bdp + 12, "queue {worst}, BDP {bdp}");
    let (start, drain) = (startup_end - 1_000_000_000, drain_end - startup_end);
    assert!((150_000_000..700_000_000).contains(&start), "start-up took {start} ns");
    assert!(drain < start, "drain took {drain} ns");
    assert_eq!(gains.into_iter().filter(|g| *g != 0).collect::<Vec<_>>(), [88, 192, 256, 320, 739]);
    // Near-empty queue while cruising; the minimum-RTT probe came within ten seconds.
    assert!(idle_queue / samples.max(1) <= bdp / 2, "mean queue {}", idle_queue / samples.max(1));
    assert!(low_window > 0);
    let bw = u64::from(t.algorithm.state.bandwidth()) * 1448 * 1_000_000 >> 24;
    assert!(bw.abs_diff(1_206_666) < 40_000, "{bw}");
}
