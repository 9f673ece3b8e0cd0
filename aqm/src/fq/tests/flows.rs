use super::*;

#[test]
fn a_new_flow_is_served_on_the_band_it_had_before() {
    let mut cx = Scripted::at(S);
    let mut queue = made(Linux::V6_12, Config { maxrate: Some(1_250_000), ..Config::default() });
    put(&mut queue, packet(1, A), &mut cx);
    assert_eq!(queue.band(0).0.collect::<Vec<_>>(), [A.id], "band 0, though priority 0 belongs to band 1");
    assert_eq!(queue.flows().next().unwrap().band, 1);
    assert_eq!(queue.stats(&mut cx).band_pkt_count, [0, 1, 0]);
    assert_eq!(get(&mut queue, &mut cx), Some(1));
    assert_eq!(queue.band_credits(), ([589_824 - 1514, 196_608, 65_536], 0), "bands 1 and 2 were asked first");
    assert_eq!(queue.stats(&mut cx).band_pkt_count, [0; 3]);
}

/// spec/fq.md §9.3.
#[test]
fn an_unpaced_burst_slips_through_the_fast_path() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config::default());
        let socket = Socket { pacing_rate: 1_250_000, ..A };
        let large = |id| Paced::new(Descriptor::new(15_140).with_id(id), socket);
        let mut sent = Vec::new();
        for id in 1..=3 {
            put(&mut queue, large(id), &mut cx);
        }
        for now in [S, S + 12_111_999, S + 12_112_000, S + 24_223_999, S + 24_224_000] {
            sent.push(burst(&mut queue, now, &mut cx));
        }
        let expected = if linux >= Linux::V6_12 {
            vec![vec![1, 2, 3], vec![], vec![], vec![], vec![]]
        } else {
            vec![vec![1], vec![], vec![2], vec![], vec![3]]
        };
        assert_eq!(sent, expected, "{linux}");
    }
}

#[test]
fn the_fast_path_holds_eight_and_needs_all_flows_at_rest() {
    for linux in [Linux::V6_12, Linux::V7_2] {
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config::default());
        for id in 1..=9 {
            put(&mut queue, packet(id, A), &mut cx);
        }
        assert_eq!((queue.internal_len(), queue.stats(&mut cx).fastpath_packets), (8, 8));
        assert_eq!(queue.flows().next().unwrap().qlen, 1);
        assert_eq!(get(&mut queue, &mut cx), Some(1));
        // A flow is ready: no fast path, though the queue has room.
        put(&mut queue, packet(10, B), &mut cx);
        assert_eq!(queue.internal_len(), 7);
        assert_eq!(burst(&mut queue, S, &mut cx).len(), 9);
        // Nothing of these counts in bands.
        assert_eq!(queue.stats(&mut cx).band_pkt_count, [0; 3]);
        // Not yet due: no fast path, even when empty.
        put(&mut queue, packet(11, A).at_ns(S + 1), &mut cx);
        assert_eq!(queue.internal_len(), 0);
        assert_eq!(get(&mut queue, &mut cx), None);
        // Now a flow is held back, but not overdue: the fast path is open again...
        put(&mut queue, packet(12, B), &mut cx);
        assert_eq!(queue.internal_len(), 1);
        // ... until its time has come.
        cx.now_ns = S + 1;
        put(&mut queue, packet(13, B), &mut cx);
        assert_eq!(queue.internal_len(), 1);
    }
}

#[test]
fn who_may_not_take_the_fast_path() {
    let internal = |socket: Option<Socket>, config: Config| {
        let mut cx = Scripted::at(S);
        let mut queue = made(Linux::V7_2, config);
        put(&mut queue, Paced { socket, ..packet(1, A) }, &mut cx);
        queue.internal_len() == 1
    };
    let capped = Socket { tcp: false, max_pacing_rate: 1_000_000, ..A };
    assert!(internal(None, Config::default()));
    assert!(!internal(Some(capped), Config::default()));
    assert!(!internal(Some(Socket { state: SocketState::Closed, ..capped }), Config::default()));
    assert!(internal(Some(Socket { tcp: true, ..capped }), Config::default()));
    assert!(internal(Some(Socket { state: SocketState::TimeWait, ..capped }), Config::default()));
    assert!(!internal(None, Config { maxrate: Some(5), ..Config::default() }));
}

#[test]
fn control_priority_in_6_1() {
    let mut cx = Scripted::at(S);
    let mut queue = made(Linux::V6_1, Config::default());
    put(&mut queue, packet(1, A), &mut cx);
    put(&mut queue, with_priority(packet(2, A), 7), &mut cx);
    put(&mut queue, with_priority(packet(3, A), 0x17), &mut cx);
    assert_eq!(queue.stats(&mut cx).fastpath_packets, 2);
    assert_eq!(burst(&mut queue, S, &mut cx), [2, 3, 1]);
}

#[test]
fn deficit_round_robin_between_flows() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let config = Config {
            initial_quantum_bytes: Some(1514),
            quantum_bytes: Some(3028),
            pacing: Some(false),
            maxrate: Some(5),
            ..Config::default()
        };
        let mut queue = made(linux, config);
        for id in 1..=4 {
            put(&mut queue, packet(id, A), &mut cx);
        }
        for id in 5..=8 {
            put(&mut queue, packet(id, B), &mut cx);
        }
        assert_eq!(burst(&mut queue, S, &mut cx), [1, 5, 2, 3, 6, 7, 4, 8], "{linux}");
        assert!(queue.next_event().is_none(), "pacing is off");
    }
}

#[test]
fn bands_share_by_weight() {
    let mut cx = Scripted::at(S);
    let config = Config {
        weights: Some([32_768, 16_384, 16_384]),
        initial_quantum_bytes: Some(1),
        quantum_bytes: Some(1 << 20),
        maxrate: Some(u32::MAX - 1),
        pacing: Some(false),
        ..Config::default()
    };
    let mut queue = made(Linux::V7_2, config);
    for id in 1..=9 {
        for (id, socket, priority) in [(id, A, 6), (id + 10, B, 0)] {
            let mut packet = with_priority(packet(id, socket), priority);
            packet.packet.len_bytes = 16_384;
            put(&mut queue, packet, &mut cx);
        }
    }
    // Both begin on band 0; from its second round on B is on band 1, which may send half as much.
    let order = burst(&mut queue, S, &mut cx);
    assert_eq!(order[..13], [1, 11, 2, 3, 12, 4, 5, 13, 6, 7, 14, 8, 9]);
    assert_eq!(order[13..], [15, 16, 17, 18, 19]);
}

#[test]
fn who_shares_a_flow() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let mut queue = made(linux, Config { maxrate: Some(5), ..Config::default() });
        let mut other = |socket: Option<Socket>, hash: u32| {
            put(&mut queue, Paced { socket, ..orphan(1, hash) }, &mut cx);
            let flows = queue.flows().count();
            let keys: Vec<u64> = queue.flows().map(|flow| flow.key).collect();
            (flows, keys)
        };
        assert_eq!(other(None, 5).1, [11]);
        assert_eq!(other(None, 5 + 1024).0, 1, "only the masked bits count");
        assert_eq!(other(Some(Socket { state: SocketState::Closed, tcp: false, ..A }), 5).0, 1);
        assert_eq!(other(Some(Socket { state: SocketState::Listening, ..A }), 5).0, 1);
        assert_eq!(other(Some(A), 5).0, 2);
        let time_wait = Socket { state: SocketState::TimeWait, ..B };
        assert_eq!(other(Some(time_wait), 5).0, if linux >= Linux::V7_2 { 2 } else { 3 });
    }
}

#[test]
fn closed_sockets_keep_their_rate_and_listeners_do_not() {
    for (state, paced) in [(SocketState::Closed, true), (SocketState::Listening, false)] {
        let mut cx = Scripted::at(S);
        let mut queue = made(Linux::V6_1, Config::default());
        put(&mut queue, packet(1, Socket { state, pacing_rate: 1000, ..A }), &mut cx);
        assert_eq!(get(&mut queue, &mut cx), Some(1));
        assert_eq!(queue.flows().next().unwrap().next_departure_ns != 0, paced);
    }
}

#[test]
fn a_reused_socket_starts_over() {
    let mut cx = Scripted::at(S);
    let config = Config { maxrate: Some(1_250_000), initial_quantum_bytes: Some(2000), ..Config::default() };
    let mut queue = made(Linux::V6_12, config);
    for id in 1..=3 {
        put(&mut queue, packet(id, A), &mut cx);
    }
    assert_eq!(burst(&mut queue, S, &mut cx), [1, 2]);
    assert_eq!(queue.flows().next().unwrap().status, FlowStatus::Throttled);
    put(&mut queue, packet(4, Socket { hash: 5, ..A }), &mut cx);
    let flow = queue.flows().next().unwrap();
    assert_eq!((flow.status, flow.next_departure_ns, flow.credit_bytes), (FlowStatus::Listed, 0, 2000));
    assert_eq!(flow.socket_hash, 5);
    assert_eq!(queue.stats(&mut cx).throttled_flows, 0);
    assert_eq!(burst(&mut queue, S, &mut cx), [3, 4]);
}

#[test]
fn an_absent_flow_gets_a_fresh_quantum() {
    let returning = |credit_before: i32, jiffy: u64| {
        let mut cx = Scripted::at(S);
        let mut queue = made(Linux::V6_12, Config { maxrate: Some(u32::MAX - 1), ..Config::default() });
        put(&mut queue, packet(1, A), &mut cx);
        // Someone to wait for: an empty queue would not look at its lists.
        put(&mut queue, packet(2, B).at_ns(S + 9 * S), &mut cx);
        assert_eq!(burst(&mut queue, S, &mut cx), [1]);
        let a = queue.table.find(A.id).unwrap();
        // Jiffy 250, made odd.
        assert_eq!(queue.table.flow(a).status, FlowStatus::Detached(251));
        queue.table.flow_mut(a).credit = credit_before;
        cx.now_ns = ms(jiffy * 4);
        put(&mut queue, packet(3, A), &mut cx);
        credit(&queue, A.id)
    };
    // refill_delay is 10 jiffies.
    for (before, after) in [(100, 3028), (3028, 3028), (5000, 5000), (-50, -50)] {
        assert_eq!(returning(before, 261), before);
        assert_eq!(returning(before, 262), after);
    }
}

#[test]
fn idle_flows_are_forgotten_on_the_way() {
    for linux in Linux::ALL {
        let mut cx = Scripted::at(S);
        let config = Config { buckets: Some(2), maxrate: Some(u32::MAX - 1), ..Config::default() };
        let mut queue = made(linux, config);
        for id in 1..=100 {
            put(&mut queue, packet(id, Socket::tcp(0x1000 + id * 64, 1)), &mut cx);
        }
        put(&mut queue, packet(101, A).at_ns(S + 9 * S), &mut cx);
        assert_eq!(burst(&mut queue, S, &mut cx).len(), 100);
        let stats = queue.stats(&mut cx);
        assert_eq!((stats.flows, stats.inactive_flows, stats.gc_flows), (101, 100, 0));
        // Three seconds after jiffy 251 that is not yet the case.
        cx.now_ns = ms(4 * (251 + 750));
        put(&mut queue, packet(200, Socket::tcp(8, 1)), &mut cx);
        assert_eq!(queue.stats(&mut cx).gc_flows, 0);
        cx.now_ns = ms(4 * (251 + 751));
        for id in 201..230 {
            put(&mut queue, packet(id, Socket::tcp(id * 0x10_0000, 1)), &mut cx);
        }
        let stats = queue.stats(&mut cx);
        assert!(stats.gc_flows > 20, "{linux}: {stats:?}");
        assert_eq!(u64::from(stats.flows), 131 - stats.gc_flows);
        assert_eq!(queue.flows().count(), stats.flows as usize);
        assert_eq!(u64::from(stats.inactive_flows), 100 - stats.gc_flows);
    }
}
