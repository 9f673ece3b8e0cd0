use super::*;

/// spec/fq.md §9.1.
#[test]
fn paced_by_maxrate() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config { maxrate: Some(1_250_000), ..Config::default() });
        for id in 1..=14 {
            put(&mut queue, packet(id, A), &mut cx);
        }
        assert_eq!(burst(&mut queue, S, &mut cx), (1..=10).collect::<Vec<_>>());
        assert_eq!((credit(&queue, A.id), watchdog(&queue)), (3028, Some(1_002_422_400)), "{linux}");
        assert_eq!(queue.next_delayed_ns(), Some(1_002_422_400));
        cx.now_ns = 1_002_422_400;
        assert_eq!((get(&mut queue, &mut cx), credit(&queue, A.id)), (Some(11), 1514));
        cx.now_ns = 1_002_500_000;
        assert_eq!(get(&mut queue, &mut cx), Some(12));
        assert_eq!(queue.flows().next().unwrap().next_departure_ns, 1_004_844_800);
        assert_eq!((get(&mut queue, &mut cx), watchdog(&queue)), (None, Some(1_004_844_800)));
        assert_eq!(burst(&mut queue, 1_004_844_800, &mut cx), [13, 14]);
        assert_eq!(queue.stats(&mut cx).throttled, 2);
        let credits = queue.band_credits().0;
        if linux >= Linux::V6_12 {
            // The first ten went on band 0, the others on the packets' own, band 1. Idle rounds fill the credits.
            assert_eq!(credits, [589_824, 196_608 - 2 * 1514, 65_536], "{linux}");
        } else {
            assert_eq!(credits, [0; 3]);
        }
    }
}

/// spec/fq.md §9.2.
#[test]
fn departure_times() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config::default());
        put(&mut queue, packet(1, A).at_ns(S), &mut cx);
        put(&mut queue, packet(2, A).at_ns(S + ms(1)), &mut cx);
        put(&mut queue, packet(3, A).at_ns(S + ms(2)), &mut cx);
        put(&mut queue, with_priority(packet(4, B), 6).at_ns(S + us(500)), &mut cx);
        assert_eq!(queue.stats(&mut cx).fastpath_packets, u64::from(linux >= Linux::V6_12));
        let times = [S, S, S + us(500), S + ms(1), S + ms(1), S + ms(2) + us(100)];
        let mut seen = Vec::new();
        for now in times {
            cx.now_ns = now;
            seen.push((get(&mut queue, &mut cx), watchdog(&queue)));
        }
        let expected = [
            (Some(1), None),
            (None, Some(1_000_500_000)),
            (Some(4), None),
            (Some(2), None),
            (None, Some(1_002_000_000)),
            (Some(3), None),
        ];
        assert_eq!(seen, expected, "{linux}");
        assert_eq!(queue.counters().qlen, 0);
    }
}

#[test]
fn packets_of_a_flow_leave_by_time_and_then_by_arrival() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let config = Config { maxrate: Some(u32::MAX - 1), pacing: Some(false), ..Config::default() };
        let mut queue = made(linux, config);
        let times = [5, 7, 3, 5, 3, 9, 1, 7];
        for (id, time) in (0..).zip(times) {
            put(&mut queue, packet(id, A).at_ns(S + time), &mut cx);
        }
        assert_eq!(burst(&mut queue, S + ms(100), &mut cx), [6, 2, 4, 0, 3, 1, 7, 5], "{linux}");
    }
}

#[test]
fn a_packet_earlier_than_its_flow_is_held_for() {
    // A socket that may not take the fast path.
    let a = Socket { tcp: false, max_pacing_rate: 1, ..A };
    // 6.12 serves it when the flow's time comes; 7.2 brings the flow forward.
    for linux in [Linux::V6_12, Linux::V7_2] {
        let forward = linux == Linux::V7_2;
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config::default());
        put(&mut queue, packet(1, a).at_ns(S + ms(8)), &mut cx);
        put(&mut queue, packet(9, B).at_ns(S + ms(9)), &mut cx);
        assert_eq!((get(&mut queue, &mut cx), watchdog(&queue)), (None, Some(S + ms(8))));
        put(&mut queue, packet(2, a).at_ns(S + ms(3)), &mut cx);
        assert_eq!(queue.next_delayed_ns(), Some(S + if forward { ms(3) } else { ms(8) }));
        assert_eq!(burst(&mut queue, S + ms(3), &mut cx), if forward { vec![2] } else { vec![] }, "{linux}");
        put(&mut queue, packet(3, a).at_ns(S + ms(2)), &mut cx);
        assert_eq!(queue.next_delayed_ns(), Some(S + if forward { ms(9) } else { ms(8) }));
        assert_eq!(burst(&mut queue, S + ms(3), &mut cx), if forward { vec![3] } else { vec![] });
        assert_eq!(burst(&mut queue, S + ms(8), &mut cx), if forward { vec![1] } else { vec![3, 2, 1] });
        assert_eq!(queue.next_delayed_ns(), Some(S + ms(9)));
    }
}

#[test]
fn low_rates_are_paced_packet_by_packet() {
    let mut cx = Scripted::at(S);
    let mut queue = made(Linux::V6_1, Config::default());
    let socket = Socket { pacing_rate: 68_750, ..A };
    for id in 1..=3 {
        put(&mut queue, packet(id, socket), &mut cx);
    }
    assert_eq!(get(&mut queue, &mut cx), Some(1));
    let wait = 1514 * S / 68_750;
    assert_eq!(queue.flows().next().unwrap().next_departure_ns, S + wait);
    assert_eq!(credit(&queue, A.id), 0, "no burst");
    let mut queue = made(Linux::V6_1, Config::default());
    for id in 1..=3 {
        put(&mut queue, packet(id, Socket { pacing_rate: 68_751, ..A }), &mut cx);
    }
    assert_eq!(burst(&mut queue, S, &mut cx), [1, 2, 3], "above the threshold the credit allows a burst");
}

#[test]
fn waits_are_cut_to_a_second() {
    for rate in [1, 0] {
        let mut cx = Scripted::at(S);
        let mut queue = made(Linux::V6_1, Config::default());
        put(&mut queue, packet(1, Socket { pacing_rate: rate, ..A }), &mut cx);
        assert_eq!(get(&mut queue, &mut cx), Some(1));
        assert_eq!(queue.flows().next().unwrap().next_departure_ns, 2 * S, "{rate}");
        assert_eq!(queue.stats(&mut cx).pkts_too_long, 1);
    }
}

#[test]
fn stamped_packets_obey_maxrate_only() {
    let mut cx = Scripted::at(S);
    let socket = Socket { pacing_rate: 1000, ..A };
    let mut queue = made(Linux::V6_1, Config::default());
    put(&mut queue, packet(1, socket).at_ns(S), &mut cx);
    assert_eq!(get(&mut queue, &mut cx), Some(1));
    assert_eq!(queue.flows().next().unwrap().next_departure_ns, 0);
    let mut queue = made(Linux::V6_1, Config { maxrate: Some(1_514_000), ..Config::default() });
    put(&mut queue, packet(1, socket).at_ns(S), &mut cx);
    assert_eq!(get(&mut queue, &mut cx), Some(1));
    assert_eq!(queue.flows().next().unwrap().next_departure_ns, S + ms(1), "every packet, without a burst");
}

#[test]
fn ce_threshold_counts_attempts() {
    for (ds, expected) in [(2, Some(3)), (0, Some(0))] {
        let mut cx = Scripted::at(S);
        let config = Config { ce_threshold_us: Some(1000), maxrate: Some(u32::MAX - 1), ..Config::default() };
        let mut queue = made(Linux::V7_2, config);
        for id in 1..=2 {
            let mut packet = packet(id, A);
            packet.packet.ds_field = Some(ds);
            put(&mut queue, packet, &mut cx);
        }
        cx.now_ns = S + ms(1);
        assert_eq!(queue.dequeue(&mut cx).unwrap().packet.ds_field, Some(ds), "not above it");
        cx.now_ns += 1;
        assert_eq!(queue.dequeue(&mut cx).unwrap().packet.ds_field, expected);
        assert_eq!(queue.stats(&mut cx).ce_mark, 1);
    }
}

#[test]
fn offload_horizon_sends_ahead_of_time() {
    let host = Host { pacing_offload_ns: ms(2), ..Host::default() };
    let config = Config { offload_horizon_us: Some(2000), maxrate: Some(u32::MAX - 1), ..Config::default() };
    let mut queue = Fq::<P>::new(config.on_host(host)).unwrap();
    let mut cx = Scripted::at(S);
    put(&mut queue, packet(1, A).at_ns(S + ms(2)), &mut cx);
    put(&mut queue, packet(2, B).at_ns(S + ms(3)), &mut cx);
    assert_eq!(burst(&mut queue, S, &mut cx), [1]);
    assert_eq!(burst(&mut queue, S + ms(1), &mut cx), [2]);
    assert_eq!(queue.stats(&mut cx).unthrottle_latency_ns, 0, "ahead of time there is no lateness");
}

#[test]
fn unthrottle_latency_is_a_moving_average() {
    let mut cx = Scripted::at(S);
    let mut queue = made(Linux::V6_12, Config::default());
    put(&mut queue, packet(1, A).at_ns(S + ms(1)), &mut cx);
    assert_eq!(get(&mut queue, &mut cx), None);
    assert_eq!(burst(&mut queue, S + ms(1) + 8000, &mut cx), [1]);
    assert_eq!(queue.stats(&mut cx).unthrottle_latency_ns, 1000);
    put(&mut queue, packet(2, A).at_ns(S + ms(3)), &mut cx);
    assert_eq!(get(&mut queue, &mut cx), None);
    assert_eq!(burst(&mut queue, S + ms(3), &mut cx), [2]);
    assert_eq!(queue.stats(&mut cx).unthrottle_latency_ns, 875);
}
