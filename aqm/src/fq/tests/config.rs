use super::*;
use crate::conservation::{self, Chance};

#[test]
fn limits_count_per_band_from_6_12_on() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let config = Config { limit: Some(2), maxrate: Some(u32::MAX - 1), ..Config::default() };
        let mut queue = made(linux, config);
        let verdicts: Vec<_> = [(1, 0), (2, 0), (3, 0), (4, 6)]
            .map(|(id, priority)| queue.enqueue(with_priority(packet(id, A), priority), &mut cx))
            .into();
        let last = if linux >= Linux::V6_12 { Verdict::Queued } else { Verdict::Dropped };
        assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::Dropped, last]);
        let stats = queue.stats(&mut cx);
        if linux >= Linux::V6_12 {
            assert_eq!((stats.band_drops, stats.band_pkt_count), ([0, 1, 0], [1, 2, 0]));
        }
        assert_eq!(cx.dropped[0].reason, DropReason::TailDrop);
    }
}

#[test]
fn flow_limit() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let config = Config { flow_limit: Some(2), maxrate: Some(1_000_000), ..Config::default() };
        let mut queue = made(linux, config);
        for id in 1..=2 {
            put(&mut queue, packet(id, A), &mut cx);
        }
        assert_eq!(queue.enqueue(packet(3, A), &mut cx), Verdict::Dropped);
        put(&mut queue, packet(4, B), &mut cx);
        assert_eq!((queue.stats(&mut cx).flows_plimit, queue.counters().drops), (1, 1));
        assert_eq!(cx.dropped[0].reason, DropReason::FlowLimit);
    }
}

#[test]
fn horizon_drops_or_caps() {
    for linux in Linux::ALL {
        for cap in [false, true] {
            let mut cx = Scripted::at(S);
            let config = Config { horizon_us: Some(1000), horizon_drop: Some(!cap), ..Config::default() };
            let mut queue = made(linux, config);
            put(&mut queue, packet(1, A).at_ns(S + ms(1)), &mut cx);
            let verdict = queue.enqueue(packet(2, B).at_ns(S + ms(1) + 1), &mut cx);
            let stats = queue.stats(&mut cx);
            if cap {
                assert_eq!((verdict, stats.horizon_caps), (Verdict::Queued, 1));
                assert_eq!(get(&mut queue, &mut cx), None);
                assert_eq!(burst(&mut queue, S + ms(1), &mut cx), [1, 2], "{linux}");
            } else {
                assert_eq!((verdict, stats.horizon_drops), (Verdict::Dropped, 1));
                assert_eq!(cx.dropped[0].reason, DropReason::Horizon);
            }
        }
    }
}

#[test]
fn clock_reads_at_enqueue() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config::default());
        put(&mut queue, packet(1, A), &mut cx);
        assert_eq!(cx.clock_reads, 1);
        put(&mut queue, packet(2, A).at_ns(S + 1), &mut cx);
        // 6.1 judges stamps by its last reading, as long as that suffices.
        assert_eq!(cx.clock_reads, if linux == Linux::V6_1 { 1 } else { 2 });
        put(&mut queue, packet(3, A).at_ns(S + 10 * S), &mut cx);
        cx.now_ns += S;
        put(&mut queue, packet(4, A).at_ns(S + 10 * S + 1), &mut cx);
        assert_eq!(cx.clock_reads, if linux == Linux::V6_1 { 2 } else { 4 });
    }
}

#[test]
fn change_trims_and_resizes() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config { maxrate: Some(u32::MAX - 1), ..Config::default() });
        for id in 1..=9 {
            put(&mut queue, packet(id, Socket::tcp(id * 64, 1)), &mut cx);
        }
        assert!(queue.peek(&mut cx).is_some());
        let before: Vec<u64> = {
            let mut keys: Vec<_> = queue.flows().map(|flow| flow.key).collect();
            keys.sort_unstable();
            keys
        };
        queue.change(&Config { buckets: Some(2), ..Config::default() }, &mut cx).unwrap();
        let after: Vec<u64> = {
            let mut keys: Vec<_> = queue.flows().map(|flow| flow.key).collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(before, after);
        cx.corrections.clear();
        queue.change(&Config { limit: Some(6), ..Config::default() }, &mut cx).unwrap();
        assert_eq!((queue.counters().qlen, queue.counters().drops), (6, 0));
        assert_eq!(cx.corrections, [TreeCorrection { packets: 3, bytes: 3 * 1514, emptied: false }]);
        let dropped: Vec<_> = cx.dropped.iter().map(|drop| (drop.packet.packet.id, drop.reason)).collect();
        assert_eq!(dropped, [(1, DropReason::Change), (2, DropReason::Change), (3, DropReason::Change)]);
        assert_eq!(burst(&mut queue, S, &mut cx), [4, 5, 6, 7, 8, 9]);
    }
}

#[test]
fn reset_forgets_the_flows() {
    let mut cx = Scripted::at(S);
    let mut queue = made(Linux::V7_2, Config::default());
    put(&mut queue, packet(1, A), &mut cx);
    put(&mut queue, packet(2, A).at_ns(S + ms(5)), &mut cx);
    put(&mut queue, packet(3, B).at_ns(S + ms(4)), &mut cx);
    put(&mut queue, packet(4, B).at_ns(S + ms(3)), &mut cx);
    assert!(queue.peek(&mut cx).is_some());
    queue.reset(&mut cx);
    let mut ids: Vec<_> = cx.dropped.iter().map(|drop| drop.packet.packet.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4]);
    let stats = queue.stats(&mut cx);
    assert_eq!((stats.flows, stats.inactive_flows, stats.throttled_flows, queue.counters().qlen), (0, 0, 0, 0));
    assert_eq!((queue.flows().count(), get(&mut queue, &mut cx)), (0, None));
    put(&mut queue, packet(5, A), &mut cx);
    assert_eq!(get(&mut queue, &mut cx), Some(5));
}

/// FQ-01 and FQ-06 of the known faults, and spec/fq.md §1.
#[test]
fn parameters_and_refusals() {
    let result = |linux, config: Config| Fq::<P>::new(config.behave_like(linux)).map(|queue| queue.parameters());
    let none = Config::default();
    let quantum = |bytes| Config { quantum_bytes: Some(bytes), ..none };
    for linux in [Linux::V6_12, Linux::V7_2] {
        for (given, becomes) in [(0, 256), (1, 256), (1 << 20, 1 << 20), ((1 << 20) + 1, 1 << 20), (1 << 31, 1 << 20)] {
            assert_eq!(result(linux, quantum(given)).unwrap().quantum_bytes, becomes);
        }
    }
    for (given, ok) in [(0, false), (1, true), (1 << 20, true), ((1 << 20) + 1, false), (1 << 31, false)] {
        assert_eq!(result(Linux::V6_1, quantum(given)).is_ok(), ok, "{given}");
    }
    let initial = |bytes| Config { initial_quantum_bytes: Some(bytes), ..none };
    for (given, old, new) in
        [(1 << 20, true, true), ((1 << 20) + 1, true, false), ((1 << 31) - 1, true, false), (1 << 31, false, false)]
    {
        assert_eq!(result(Linux::V6_1, initial(given)).is_ok(), old);
        assert_eq!(result(Linux::V6_12, initial(given)).is_ok(), new);
        assert_eq!(result(Linux::V7_2, initial(given)).is_ok(), new);
    }
    for (buckets, ok) in [(0, false), (1, false), (2, true), (1000, false), (1 << 18, true), (1 << 19, false)] {
        assert_eq!(result(Linux::V7_2, Config { buckets: Some(buckets), ..none }).is_ok(), ok, "{buckets}");
    }
    let defaults = result(Linux::V7_2, none).unwrap();
    assert_eq!((defaults.quantum_bytes, defaults.initial_quantum_bytes, defaults.limit), (3028, 15_140, 10_000));
    assert_eq!((defaults.maxrate, defaults.low_rate_threshold, defaults.refill_delay_us), (u32::MAX, 68_750, 40_000));
    assert_eq!(
        (defaults.ce_threshold_us, defaults.timer_slack_ns, defaults.horizon_us),
        (u32::MAX, 10_000, 10_000_000)
    );
    assert_eq!(defaults.weights, [589_824, 196_608, 65_536]);
    let weights = |weights| Config { weights: Some(weights), ..none };
    assert!(result(Linux::V6_12, weights([16_384; 3])).is_ok());
    assert!(result(Linux::V6_12, weights([16_384, 16_383, 16_384])).is_err());
    assert!(result(Linux::V6_12, weights([3, 2, 1])).is_err());
    assert!(result(Linux::V6_1, weights([16_384; 3])).is_err());
    let mut priomap = [2; 16];
    assert!(result(Linux::V6_12, Config { priomap: Some(priomap), ..none }).is_ok());
    priomap[15] = 3;
    assert!(result(Linux::V6_12, Config { priomap: Some(priomap), ..none }).is_err());
    let offload = Config { offload_horizon_us: Some(500), ..none };
    assert!(result(Linux::V7_2, offload).is_err() && result(Linux::V6_12, offload).is_err());
    let host = Host { pacing_offload_ns: 500_000, ..Host::default() };
    assert_eq!(Fq::<P>::new(offload.on_host(host)).unwrap().parameters().offload_horizon_us, Some(500));
    for (mtu_bytes, quantum, initial) in
        [(1500, 3028, 15_140), (0, 256, 140), (1 << 24, 1 << 20, 1 << 20), ((1 << 31) - 1, 1 << 20, 1 << 20)]
    {
        let made = Fq::<P>::new(none.on_host(Host { mtu_bytes, ..Host::default() })).unwrap().parameters();
        assert_eq!((made.quantum_bytes, made.initial_quantum_bytes), (quantum, initial));
    }
    let mut cx = Scripted::at(S);
    let mut queue = made(Linux::V6_1, none);
    let before = queue.parameters();
    assert!(queue.change(&Config { limit: Some(5), ..quantum(0) }, &mut cx).is_err());
    assert_eq!(queue.parameters(), before);
}

#[test]
fn fixed_storage_forgets_or_falls_back() {
    let config = Config { limit: Some(16), buckets: Some(4), maxrate: Some(u32::MAX - 1), ..Config::default() };
    assert!(Fq::<P, Fixed<4, 15>>::in_storage(config).is_err());
    assert!(Fq::<P, Fixed<3, 16>>::in_storage(config).is_err());
    let mut queue = Fq::<P, Fixed<4, 16>>::in_storage(config).unwrap();
    let mut cx = Scripted::at(S);
    put(&mut queue, packet(4, A).at_ns(S + 9 * S), &mut cx);
    for id in [1, 2, 3, 5] {
        put(&mut queue, packet(id, Socket::tcp(id * 64, 1)), &mut cx);
    }
    assert_eq!((queue.stats(&mut cx).allocation_errors, queue.internal_len()), (1, 1));
    assert_eq!(burst(&mut queue, S, &mut cx), [5, 1, 2, 3]);
    cx.now_ns = 5 * S;
    put(&mut queue, packet(9, Socket::tcp(9 * 64, 1)), &mut cx);
    let stats = queue.stats(&mut cx);
    assert_eq!((stats.allocation_errors, stats.fastpath_packets, queue.internal_len()), (1, 0, 0));
    assert!(stats.gc_flows >= 1 && u64::from(stats.flows) == 5 - stats.gc_flows);
}

/// Lists, tree and counts agree with each other.
fn check<S: Storage>(queue: &Fq<Descriptor, S>) {
    let stats = queue.stats(&mut Scripted::<Descriptor>::at(0));
    let flows: Vec<_> = queue.flows().collect();
    assert_eq!(flows.len(), stats.flows as usize);
    let throttled = flows.iter().filter(|flow| flow.status == FlowStatus::Throttled).count();
    assert_eq!(throttled, stats.throttled_flows as usize);
    let idle = flows.iter().filter(|flow| flow.qlen == 0).count();
    let detached = flows.iter().filter(|flow| matches!(flow.status, FlowStatus::Detached(_))).count();
    let old = queue.limits.linux < Linux::V6_12;
    assert_eq!(stats.inactive_flows as usize, if old { detached } else { idle });
    let listed: usize = (0..3).map(|band| queue.band(band).0.count() + queue.band(band).1.count()).sum();
    assert_eq!(listed + throttled + detached, flows.len());
    let queued: u32 = flows.iter().map(|flow| flow.qlen).sum();
    let parked = queue.counters().qlen - queued - queue.internal_len();
    assert!(parked <= 1);
}

#[test]
fn random_calls_conserve_packets() {
    for linux in Linux::ALL {
        for (seed, config) in [
            Config { maxrate: Some(2_000_000), buckets: Some(4), orphan_mask: Some(31), ..Config::default() },
            Config { maxrate: Some(200_000), limit: Some(20), ..Config::default() },
            Config { flow_limit: Some(3), orphan_mask: Some(3), ..Config::default() },
        ]
        .into_iter()
        .enumerate()
        {
            let mut queue = Fq::new(config.behave_like(linux)).unwrap();
            let changes = |queue: &mut Fq<Descriptor>, cx: &mut Chance| {
                let buckets = Some(1 << (1 + cx.below(4)));
                let limit = Some(10 + cx.below(30) as u32);
                queue.change(&Config { buckets, limit, ..Config::default() }, cx).unwrap();
            };
            conservation::run(&mut queue, &mut Chance::new(seed as u64), 20_000, false, changes, check);
        }
        let config = Config { buckets: Some(8), limit: Some(30), ..Config::default() };
        let mut queue = Fq::<Descriptor, Fixed<8, 32>>::in_storage(config.behave_like(linux)).unwrap();
        conservation::run(&mut queue, &mut Chance::new(9), 20_000, false, |_, _| {}, check);
    }
}
