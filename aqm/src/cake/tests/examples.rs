//! Worked examples that need a whole qdisc (spec/cake.md §23), and cases CK- that are about one.

use super::support::{Frame, T0, World};
use crate::cake::{AckFilter, Cake, Config, Diffserv, FlowMode, QueueState};
use crate::net::HostHashes;
use crate::{
    Classified, Configure, Descriptor, DropReason, EventKind, Gso, GsoDetails, Host, Linux, Packet, Qdisc, Scripted,
    TreeCorrection, Verdict,
};
use std::vec;
use std::vec::Vec;

fn besteffort(bandwidth: u64) -> Config {
    Config { bandwidth: Some(bandwidth), diffserv: Some(Diffserv::Besteffort), ..Config::default() }
}

fn one_queue(bandwidth: u64) -> Config {
    Config { flow_mode: Some(FlowMode::FLOWS), ..besteffort(bandwidth) }
}

/// §23.9: the packet dropped is often not from the longest queue.
#[test]
fn drop_heap() {
    let mut queue = Cake::new(Config { memlimit_bytes: Some(20_000), ..one_queue(0) }).unwrap();
    let mut world = World::new(1);
    let mut offer = |queue: &mut Cake<Frame>, id: u32, len, truesize, flow: u32| {
        let frame = Frame { truesize, ..Frame::udp(id, len, 0).with_class(flow + 1) };
        let verdict = queue.enqueue(frame, &mut world);
        let mut dropped = world.take_dropped();
        dropped.reverse();
        (verdict, dropped)
    };
    for id in 1..=20 {
        let flow = if id <= 11 { 1 } else { 2 };
        assert_eq!(offer(&mut queue, id, 1000, 1000, flow), (Verdict::Queued, vec![]));
    }
    let left = |queue: &Cake<Frame>| [1, 2, 3].map(|flow| queue.queue(0, flow).unwrap().backlog_bytes);
    let places = |queue: &Cake<Frame>| [0, 1, 2, 3].map(|flow| queue.queue(0, flow).unwrap().heap_place);
    assert_eq!(places(&queue), [0, 8, 16, 24]);

    assert_eq!(offer(&mut queue, 21, 100, 5000, 3), (Verdict::Queued, vec![1, 2, 3, 4, 5]));
    assert_eq!((left(&queue), places(&queue)), ([6000, 9000, 100], [1, 0, 7, 2]));
    assert_eq!(offer(&mut queue, 22, 100, 5000, 3), (Verdict::Queued, vec![6, 7, 8, 9, 10]));
    assert_eq!(left(&queue), [1000, 9000, 200]);
    assert_eq!(offer(&mut queue, 23, 100, 5000, 3), (Verdict::Congested, vec![11, 21]));
    assert_eq!(left(&queue), [0, 9000, 200]);
    assert_eq!(offer(&mut queue, 24, 100, 5000, 3), (Verdict::Congested, vec![22]));
    assert_eq!(left(&queue), [0, 9000, 200]);
}

/// §23.10.
#[test]
fn global_shaper() {
    let mut queue = Cake::new(besteffort(125_000)).unwrap();
    let mut world = World::new(1);
    for id in 1..=4 {
        assert_eq!(queue.enqueue(Frame::udp(id, 1514, 0), &mut world), Verdict::Queued);
    }
    for (at, id, next, failsafe, tin, timer, overlimits) in [
        (0, 1, 12_112_000, 18_168_000, 12_112_000, Some(12_112_000), 0),
        (12_112_000, 2, 24_224_000, 36_336_000, 24_224_000, Some(24_224_000), 1),
        (29_224_000, 3, 36_336_000, 54_504_000, 36_336_000, Some(36_336_000), 2),
        (36_336_000, 4, 48_448_000, 72_672_000, 48_448_000, None, 3),
    ] {
        world.now = T0 + at;
        assert_eq!(queue.dequeue(&mut world).map(|frame| frame.id), Some(id));
        let (clock, start) = (queue.shaper(), T0 as i64);
        assert_eq!((clock.next_ns - start, clock.failsafe_ns - start), (next, failsafe));
        assert_eq!(queue.tin(0).unwrap().next_ns - start, tin);
        assert_eq!(queue.counters().overlimits, overlimits);
        let armed = queue.next_event().map(|event| (event.at_ns - T0, event.kind));
        assert_eq!(armed, timer.map(|at| (at, EventKind::Watchdog)));
        if id < 4 {
            assert!(queue.dequeue(&mut world).is_none());
            assert_eq!(queue.counters().overlimits, overlimits + 1);
            assert_eq!(queue.next_event().map(|event| event.at_ns - T0), timer);
        }
    }
}

/// K, B and V: bulk, best effort and voice.
fn three_classes(queue: &mut Cake<Frame>, world: &mut World, rounds: u32) {
    for _ in 0..rounds {
        for (id, dscp) in [(u32::from(b'K'), 8), (u32::from(b'B'), 0), (u32::from(b'V'), 46)] {
            let _ = queue.enqueue(Frame::udp(id, 1514, dscp << 2), world);
        }
    }
}

/// §23.11.
#[test]
fn tins_of_a_shaped_qdisc() {
    let mut queue = Cake::new(Config { bandwidth: Some(1_000_000), ..Config::default() }).unwrap();
    let mut world = World::new(1);
    three_classes(&mut queue, &mut world, 4);
    let mut served = Vec::new();
    while queue.counters().qlen != 0 {
        served.push(queue.dequeue(&mut world).unwrap().id as u8);
        world.now += 1_514_000;
    }
    assert_eq!(served, b"VKBBVBBVVKKK");
    let due = [0, 1, 2].map(|tin| queue.tin(tin).unwrap().next_ns - T0 as i64);
    assert_eq!(due, [6_056_000, 40_878_000, 18_168_000]);
}

/// §23.12.
#[test]
fn tins_of_an_unlimited_qdisc() {
    let mut queue = Cake::new(Config::default()).unwrap();
    let mut world = World::new(1);
    assert_eq!(queue.scan_position(), (7, 1024));
    three_classes(&mut queue, &mut world, 6);
    let mut deficits = Vec::new();
    let served: Vec<u8> = core::iter::from_fn(|| {
        let frame = queue.dequeue(&mut world)?;
        deficits.push([0, 1, 2].map(|tin| queue.tin(tin).unwrap().deficit_bytes));
        Some(frame.id as u8)
    })
    .collect();
    assert_eq!(served, b"BKVBBBBVBVVKVVKKKK");
    assert_eq!(
        deficits[..8],
        [
            [-1514, 0, 0],
            [-490, -1514, 0],
            [-490, -1450, -1514],
            [-980, -1386, -1002],
            [-1470, -1322, -746],
            [-936, -1194, -234],
            [-1426, -1130, 22],
            [-402, -1066, -1492],
        ]
    );
}

/// §23.13: time, packet, dropped just before, count, root, next signal, signalling.
type Step = (u64, u32, Option<u32>, u32, u32, i64, bool);

fn cobalt_trace(linux: Linux, ds_field: u8) -> (Vec<Step>, Vec<(u64, u32)>) {
    let mut queue = Cake::new(besteffort(125_000).behave_like(linux)).unwrap();
    let mut world = World::new(1);
    for id in 1..=24 {
        let _ = queue.enqueue(Frame::udp(id, 1514, ds_field), &mut world);
    }
    let (mut steps, mut marked) = (Vec::new(), Vec::new());
    while queue.counters().qlen != 0 {
        let frame = queue.dequeue(&mut world).unwrap();
        let home = (0..1024).find(|&index| queue.queue(0, index).unwrap().state != QueueState::Idle).unwrap();
        let cobalt = queue.queue(0, home).unwrap().cobalt;
        let at = world.now - T0;
        if frame.ds_field() == Some(3) {
            marked.push((at, frame.id));
        }
        let dropped = world.take_dropped();
        assert!(dropped.len() <= 1);
        let signal = cobalt.next_signal_ns - T0 as i64;
        steps.push((
            at,
            frame.id,
            dropped.first().copied(),
            cobalt.count,
            cobalt.inverse_sqrt,
            signal,
            cobalt.signalling,
        ));
        world.now = queue.next_event().map_or(world.now, |event| event.at_ns);
    }
    (steps, marked)
}

#[test]
fn cobalt_drops() {
    const R2: u32 = 3_037_000_500;
    const R3: u32 = 2_479_700_525;
    const R4: u32 = 2_147_483_647;
    for linux in [Linux::V6_12, Linux::V7_2] {
        let (steps, marked) = cobalt_trace(linux, 0);
        assert!(marked.is_empty());
        let at = |step: u64| 12_112_000 * step;
        assert_eq!(steps[0], (0, 1, None, 0, 0, 113_168_000, false));
        assert_eq!(steps[1], (at(1), 2, None, 0, 0, 125_280_000, false));
        assert_eq!(steps[4], (at(4), 5, None, 0, 0, 161_616_000, false));
        assert_eq!(steps[5], (at(5), 6, None, 1, 0, 60_560_000, true));
        assert_eq!(steps[6], (at(6), 8, Some(7), 2, R2, 140_581_860, true));
        for step in 7..=11 {
            assert_eq!(steps[step], (at(step as u64), step as u32 + 2, None, 2, R2, 140_581_860, true));
        }
        assert_eq!(steps[12], (at(12), 15, Some(14), 3, R3, 205_919_435, true));
        for step in 13..=17 {
            assert_eq!(steps[step], (at(step as u64), step as u32 + 3, None, 3, R3, 205_919_435, true));
        }
        assert_eq!(steps[18], (at(18), 22, Some(21), 4, R4, 262_503_434, true));
        assert_eq!(steps[19], (at(19), 23, None, 4, R4, 262_503_434, true));
        assert_eq!(steps[20], (at(20), 24, None, 4, R4, 262_503_434, true));
        assert_eq!(steps.len(), 21);
    }
}

#[test]
fn cobalt_drops_of_6_1() {
    let (steps, _) = cobalt_trace(Linux::V6_1, 0);
    assert_eq!((steps[6].2, steps[6].5), (Some(7), 140_536_783));
    assert_eq!((steps[12].2, steps[12].5), (Some(14), 205_874_356));
    let (at, id, dropped, count, _, signal, _) = steps[17];
    assert_eq!((at, id, dropped, count, signal), (205_904_000, 21, Some(20), 4, 262_458_355));
    let rest: Vec<_> = steps[18..].iter().map(|step| (step.0, step.1)).collect();
    assert_eq!(rest, [(218_016_000, 22), (230_128_000, 23), (242_240_000, 24)]);
}

#[test]
fn cobalt_marks() {
    let (steps, marked) = cobalt_trace(Linux::V7_2, 2);
    assert_eq!(marked, [(72_672_000, 7), (145_344_000, 13), (218_016_000, 19), (266_464_000, 23)]);
    assert!(steps.iter().all(|step| step.2.is_none()) && steps.len() == 24);
    let (.., count, root, signal, _) = steps[22];
    assert_eq!((count, root, signal), (5, 1_920_767_767, 313_113_702));
}

/// CK-01: what is dropped is the very packet that was offered.
#[test]
fn memory_limit_of_one_byte() {
    let mut queue = Cake::new(Config { memlimit_bytes: Some(1), ..Config::default() }).unwrap();
    let mut world = World::new(1);
    assert_eq!(queue.enqueue(Frame::udp(1, 106, 0), &mut world), Verdict::Congested);
    let counters = *queue.counters();
    assert_eq!((counters.qlen, counters.backlog_bytes, counters.drops), (0, 0, 1));
    assert_eq!(world.dropped, [(1, DropReason::OverMemory)]);
    assert_eq!(world.corrections, [TreeCorrection { packets: 0, bytes: 0, emptied: true }]);
    assert!(queue.dequeue(&mut world).is_none());
}

fn gso(id: u32) -> Frame {
    // Payloads 1448, 1448, 1448 and 1450 bytes short of that: 4 segments, together 6056 bytes, 5858 in one.
    Frame {
        gso: Gso { segments: 4, segment_bytes: 1448 },
        details: GsoDetails { header_bytes: 66, untrusted: false, tcp: true },
        segment_lens: vec![1514, 1514, 1514, 1514],
        wire_len: 5858,
        ..Frame::ipv4(id, 5858, 0, 6, [[10, 0, 0, 1], [10, 0, 0, 2]], [1, 2])
    }
}

/// CK-05: parents hear of the segments; CK-19: all backlogs return to 0.
#[test]
fn splitting_a_super_packet() {
    for linux in Linux::ALL {
        let mut queue = Cake::new(besteffort(0).behave_like(linux)).unwrap();
        let mut world = World::new(1);
        assert_eq!(queue.enqueue(gso(7), &mut world), Verdict::Queued);
        assert_eq!(world.corrections, [TreeCorrection { packets: -3, bytes: -198, emptied: false }]);
        assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (4, 6056));
        let ids: Vec<u32> = core::iter::from_fn(|| queue.dequeue(&mut world)).map(|frame| frame.id).collect();
        assert_eq!(ids, [700, 701, 702, 703]);
        assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, queue.memory().used), (0, 0, 0));
        assert_eq!((queue.tin(0).unwrap().backlog_bytes, queue.counters().sent_packets), (0, 4));
        assert_eq!(queue.stats().tins()[0].max_packet_bytes, 5858);

        let whole = Config { split_gso: Some(false), ..besteffort(0) };
        let mut queue = Cake::new(whole.behave_like(linux)).unwrap();
        assert_eq!(queue.enqueue(gso(7), &mut world), Verdict::Queued);
        assert_eq!(queue.dequeue(&mut world).map(|frame| frame.id), Some(7));
        assert_eq!((queue.counters().sent_packets, queue.counters().sent_bytes), (4, 5858));
    }
}

#[test]
fn a_super_packet_that_cannot_be_split() {
    let mut queue = Cake::new(Config::default()).unwrap();
    let mut world = World::new(1);
    let frame = Frame { segment_lens: vec![], ..gso(7) };
    assert_eq!(queue.enqueue(frame, &mut world), Verdict::Dropped);
    assert_eq!(world.dropped, [(7, DropReason::SplitFailed)]);
    assert_eq!((queue.counters().drops, queue.counters().qlen), (1, 0));
    assert_eq!(queue.stats().tins()[1].max_packet_bytes, 5858, "what came before stays");
}

/// §21.1: one segment makes a GSO packet only before 7.2.
#[test]
fn super_packets_of_one_segment() {
    for (linux, splits) in [(Linux::V6_1, true), (Linux::V6_12, true), (Linux::V7_2, false)] {
        let mut queue = Cake::new(besteffort(0).behave_like(linux)).unwrap();
        let mut world = World::new(1);
        let one = Frame { gso: Gso { segments: 1, segment_bytes: 1448 }, segment_lens: vec![500], ..gso(7) };
        let _ = queue.enqueue(one, &mut world);
        assert_eq!(queue.dequeue(&mut world).unwrap().id, if splits { 700 } else { 7 });
    }
}

/// CK-12: the queue length says 1, but nothing is queued.
#[test]
fn nothing_behind_the_queue_length() {
    for bandwidth in [0, 1_000_000_000] {
        let config = Config { bandwidth: Some(bandwidth), diffserv: Some(Diffserv::Diffserv4), ..Config::default() };
        let mut queue = Cake::new(config).unwrap();
        let mut world = World::new(1);
        let _ = queue.enqueue(Frame::udp(1, 100, 0), &mut world);
        assert!(queue.peek(&mut world).is_some());
        world.now += 1_000_000_000;
        assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (1, 100));
        assert!(queue.dequeue(&mut world).is_none());
        assert_eq!(queue.dequeue_peeked(&mut world).map(|frame| frame.id), Some(1));
        assert_eq!(queue.counters().qlen, 0);
    }
}

/// CK-17, and display order (§8.2).
#[test]
fn marks_choose_tins() {
    for (mask, mark, place) in [
        (0xff, 3, Some(3)),
        (0xff00, 0x300, Some(3)),
        (0xff00, 0xff_00ff, None),
        (1, 0xffff_ffff, Some(1)),
        (0x8000_0000, 0x8000_0000, Some(1)),
        (0xff, 5, None),
        (0, 1, None),
    ] {
        let config = Config { diffserv: Some(Diffserv::Diffserv4), fwmark: Some(mask), ..Config::default() };
        let mut queue = Cake::new(config).unwrap();
        let mut world = World::new(1);
        let _ = queue.enqueue(Frame { mark, ..Frame::udp(1, 100, 46 << 2) }, &mut world);
        let used = queue.stats().tins().iter().position(|tin| tin.sent_packets == 1).unwrap();
        assert_eq!(used + 1, place.unwrap_or(4), "mask {mask:#x}, mark {mark:#x}");
    }
}

#[test]
fn priorities_choose_tins() {
    for (handle, priority, place) in
        [(0x8001_0000, 0x8001_0001, 1), (0x8001_0000, 0x8001_0004, 4), (0x8001_0000, 1, 2), (0, 1, 1), (0, 6, 2)]
    {
        let config = Config { diffserv: Some(Diffserv::Diffserv4), ..Config::default() };
        let mut queue = Cake::new(config.on_host(Host { handle, ..Host::default() })).unwrap();
        let mut world = World::new(1);
        let _ = queue.enqueue(Frame { priority, ..Frame::udp(1, 100, 0) }, &mut world);
        let used = queue.stats().tins().iter().position(|tin| tin.sent_packets == 1).unwrap();
        assert_eq!(used + 1, place, "handle {handle:#x}, priority {priority:#x}");
    }
}

/// §8.1 and §22.34.
#[test]
fn filters() {
    let mut queue = Cake::new(Config::default()).unwrap();
    let mut world = World::new(1);
    for (class, verdict, drops, reason) in [
        (Classified::Shot, Verdict::Bypassed, 1, DropReason::Classify),
        (Classified::Stolen, Verdict::Stolen, 1, DropReason::Stolen),
    ] {
        let frame = Frame { class, ..Frame::udp(1, 100, 0) };
        assert_eq!(queue.enqueue(frame, &mut world), verdict);
        assert_eq!((queue.counters().drops, queue.counters().qlen), (drops, 0));
        assert_eq!(world.dropped.pop(), Some((1, reason)));
    }
    assert_eq!((world.clock_reads, queue.tin(0).unwrap().next_ns), (2, 0), "before the clocks are refreshed");
}

/// §9.2: overrides by class in each mode.
#[test]
fn overrides_choose_queues() {
    for (mode, class, queue_and_tag) in [
        (FlowMode::FLOWS, 5, (4, 4)),
        (FlowMode::FLOWS, 1024, (1023, 1023)),
        (FlowMode::FLOWBLIND, 5, (0, 0)),
        // In the host modes a flow override is XORed; in `hosts` a host override cancels itself.
        (FlowMode::SRCHOST, 0x0003_0005, (4 ^ 2, 4 ^ 2)),
        (FlowMode::HOSTS, 0x0003_0000, (0, 0)),
        (FlowMode::TRIPLE_ISOLATE, 0x0003_0005, (4, 4)),
    ] {
        let config = Config { flow_mode: Some(mode), diffserv: Some(Diffserv::Besteffort), ..Config::default() };
        let mut queue = Cake::new(config).unwrap();
        let mut world = World::new(1);
        let _ = queue.enqueue(Frame::udp(1, 100, 0).with_class(class), &mut world);
        let (index, found) = (0..1024)
            .map(|index| (index, queue.queue(0, index).unwrap()))
            .find(|(_, queue)| queue.state != QueueState::Idle)
            .unwrap();
        assert_eq!((index, found.tag), queue_and_tag, "{mode:?} {class:#x}");
    }
    // Numbers above 1024 are no overrides.
    let mut queue = Cake::new(Config { flow_mode: Some(FlowMode::FLOWS), ..Config::default() }).unwrap();
    let mut world = World::new(1);
    let _ = queue.enqueue(Frame::udp(1, 100, 0).with_class(1025).with_hash(77), &mut world);
    assert_eq!(queue.queue(0, 77).unwrap().state, QueueState::Sparse);
}

/// Descriptors isolate by host without bytes.
#[test]
fn hosts_of_descriptors() {
    let mut queue = Cake::new(besteffort(0)).unwrap();
    let mut cx = Scripted::at(T0).with_draws([0; 64]);
    for (flow, hosts) in [(1, (7, 9)), (2, (7, 10)), (3, (8, 9))] {
        let _ = queue.enqueue(Descriptor::new(1000).with_flow_hash(flow).with_hosts(hosts.0, hosts.1), &mut cx);
    }
    let slots = |flow| {
        let queue = queue.queue(0, flow).unwrap();
        (queue.source_slot, queue.destination_slot)
    };
    assert_eq!([1, 2, 3].map(slots), [(7, 9), (7, 10), (8, 9)]);
    assert_eq!(Descriptor::new(1).with_hosts(1, 2).host_hashes(), HostHashes { source: 1, destination: 2 });
}

/// §6.8: a purge tells nobody, and leaves the states of the queues behind.
#[test]
fn change_to_fewer_tins() {
    let mut queue = Cake::new(Config { diffserv: Some(Diffserv::Diffserv8), ..Config::default() }).unwrap();
    let mut world = World::new(1);
    for (id, dscp) in [(1, 56), (2, 46), (3, 1)] {
        let _ = queue.enqueue(Frame::udp(id, 1000, dscp << 2), &mut world);
    }
    assert_eq!(queue.scan_position(), (0, 0));
    queue.change(&Config { diffserv: Some(Diffserv::Diffserv3), ..Config::default() }, &mut world).unwrap();
    assert_eq!(world.dropped, [(2, DropReason::Change), (1, DropReason::Change)], "by tin");
    assert_eq!((queue.counters().qlen, queue.counters().drops), (1, 0));
    assert!(world.corrections.is_empty());
    assert_eq!((queue.tin(6).unwrap().sparse, queue.tin(7).unwrap().sparse), (1, 1));
    assert_eq!(queue.scan_position(), (7, 1024));
    assert_eq!(queue.dequeue(&mut world).map(|frame| frame.id), Some(3), "past the stale tin 7");
    assert_eq!((queue.tin(7).unwrap().sparse, queue.counters().qlen), (0, 0));
}

#[test]
fn reset_keeps_states() {
    let mut queue = Cake::new(besteffort(125_000)).unwrap();
    let mut world = World::new(1);
    for id in 1..=5 {
        let _ = queue.enqueue(Frame::udp(id, 1514, 0), &mut world);
    }
    assert!(queue.peek(&mut world).is_some());
    assert_eq!(queue.counters().qlen, 5);
    queue.reset(&mut world);
    let reset: Vec<_> = [2, 3, 4, 5, 1].map(|id| (id, DropReason::Reset)).to_vec();
    assert_eq!(world.dropped, reset, "the parked packet last");
    let counters = *queue.counters();
    assert_eq!((counters.qlen, counters.backlog_bytes, counters.drops, counters.sent_packets), (0, 0, 0, 1));
    assert_eq!((queue.memory().used, queue.tin(0).unwrap().sparse, queue.scan_position()), (0, 1, (7, 1024)));
    assert!(queue.next_event().is_some(), "the watchdog runs on");
}

/// §17.5: class statistics carry signs (CK-26).
#[test]
fn classes() {
    let mut queue = Cake::new(Config { bandwidth: Some(125_000), ..Config::default() }).unwrap();
    let mut world = World::new(1);
    for id in 1..=10 {
        let _ = queue.enqueue(Frame::udp(id, 1514, 8 << 2).with_hash(6), &mut world);
    }
    let _ = queue.enqueue(Frame::udp(11, 1514, 0).with_hash(5), &mut world);
    assert!(queue.dequeue(&mut world).is_some());
    let reads = world.clock_reads;
    let classes: Vec<_> = queue.classes(&mut world).collect();
    assert_eq!(world.clock_reads, reads + 2, "one per class");
    let minors: Vec<u32> = classes.iter().map(|class| class.minor).collect();
    assert_eq!(minors, [7, 1024 + 6], "bulk is shown first");
    assert_eq!((classes[0].qlen, classes[0].backlog_bytes), (9, 9 * 1514));
    assert!(classes[0].deficit_bytes < -1200 && classes[0].drop_next_us.is_none());
}

/// The ACK filter at enqueue: counters, memory and the parent's correction (§12.5).
#[test]
fn a_filtered_ack() {
    for (ingress, owed) in [(false, 0), (true, 66 * 8000)] {
        let config = Config {
            ack_filter: Some(AckFilter::Aggressive),
            ingress: Some(ingress),
            flow_mode: Some(FlowMode::FLOWS),
            ..besteffort(125_000)
        };
        let mut queue = Cake::new(config).unwrap();
        let mut world = World::new(1);
        let ack = |id, number: u32, truesize| {
            let mut frame = Frame::ipv4(id, 66, 0, 6, [[10, 0, 0, 1], [10, 0, 0, 2]], [1, 2]);
            frame.bytes[42..46].copy_from_slice(&number.to_be_bytes());
            frame.bytes[46..48].copy_from_slice(&[0x80, 0x10]);
            frame.bytes[54..66].fill(1);
            Frame { truesize, ..frame }
        };
        let _ = queue.enqueue(ack(1, 1000, 700), &mut world);
        assert_eq!(queue.enqueue(ack(2, 2000, 900), &mut world), Verdict::Queued);
        assert_eq!(world.dropped, [(1, DropReason::AckFilter)]);
        assert_eq!(world.corrections, [TreeCorrection { packets: 1, bytes: 66, emptied: false }]);
        let counters = *queue.counters();
        assert_eq!((counters.qlen, counters.backlog_bytes, counters.drops), (1, 66, 1));
        assert_eq!((queue.memory().used, queue.shaper().next_ns - T0 as i64), (900, owed));
        let tin = queue.stats().tins()[0];
        assert_eq!((tin.ack_drops, tin.drops, tin.sent_packets, tin.sent_bytes), (1, 0, 2, 132));
    }
}
