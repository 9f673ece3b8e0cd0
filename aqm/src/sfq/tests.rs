use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::conservation::{self, Chance};
use crate::{
    Classified, Configure, Descriptor, DropReason, Environment, Fixed, Host, Qdisc, Scripted, Storage, TimerModel,
    TreeCorrection, Verdict, net::SipKey, red, time::ms,
};

const HANDLE: u32 = 0x8001_0000;

/// A packet that the priority sends to a row.
fn packet(id: u64, row: u32, len: u32) -> Descriptor {
    Descriptor { priority: HANDLE | (row + 1), ..Descriptor::new(len).with_id(id) }
}

fn ids(cx: &Scripted<Descriptor>) -> Vec<u64> {
    cx.dropped.iter().map(|drop| drop.packet.id).collect()
}

fn drain<S: Storage>(queue: &mut Sfq<Descriptor, S>, cx: &mut Scripted<Descriptor>) -> Vec<u64> {
    core::iter::from_fn(|| queue.dequeue(cx)).map(|packet| packet.id).collect()
}

fn correction(packets: i32, bytes: i32) -> TreeCorrection {
    TreeCorrection { packets, bytes, emptied: false }
}

/// spec/sfq.md §11.
#[test]
fn worked_example() {
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config { limit: Some(5), ..Config::default() }).unwrap();
    let arrivals = [(1, 1514), (1, 1514), (2, 700), (2, 700), (3, 64), (2, 700), (1, 64)];
    let mut verdicts = Vec::new();
    for (id, (row, len)) in (1..).zip(arrivals) {
        verdicts.push(queue.enqueue(packet(id, row, len), &mut cx));
    }
    let mut expected = vec![Verdict::Queued; 5];
    expected.extend([Verdict::Congested; 2]);
    assert_eq!(verdicts, expected);
    assert_eq!(ids(&cx), [6, 7]);
    assert_eq!(cx.corrections, [correction(0, 0); 2]);
    assert_eq!(drain(&mut queue, &mut cx), [1, 3, 4, 5, 2]);
    assert_eq!((queue.counters().sent_bytes, queue.counters().drops), (1514 * 2 + 700 * 2 + 64, 2));
}

#[test]
fn a_flow_keeps_sending_until_its_allotment_is_gone() {
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config { quantum_bytes: Some(1000), ..Config::default() }).unwrap();
    for id in 1..=6 {
        assert_eq!(queue.enqueue(packet(id, (id % 2) as u32, 600), &mut cx), Verdict::Queued);
    }
    // Row 1: #1 #3 #5, row 0: #2 #4 #6; two packets each (1000 − 600 = 400 is still positive), then the third.
    assert_eq!(drain(&mut queue, &mut cx), [1, 3, 2, 4, 5, 6]);
}

#[test]
fn the_last_packet_of_a_flow_is_not_charged() {
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config::default()).unwrap();
    assert_eq!(queue.enqueue(packet(1, 7, 1514), &mut cx), Verdict::Queued);
    let slot = queue.row(7).unwrap();
    assert_eq!(slot, 127, "the free list starts with the highest index");
    assert_eq!(queue.slot(slot).unwrap().allot_bytes, 1514);
    assert!(queue.dequeue(&mut cx).is_some());
    let state = queue.slot(slot).unwrap();
    assert_eq!((state.allot_bytes, state.qlen, state.backlog_bytes), (1514, 0, 0));
    assert_eq!((queue.row(7), queue.ring_tail()), (None, None));
}

#[test]
fn the_longest_flow_whose_length_changed_last_loses() {
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config { limit: Some(6), ..Config::default() }).unwrap();
    for (id, row) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)] {
        assert_eq!(queue.enqueue(packet(id, row, 100 * id as u32), &mut cx), Verdict::Queued);
    }
    // A new flow: rows 1, 2 and 3 have two packets each; row 3 got there last. Its newest packet goes.
    assert_eq!(queue.enqueue(packet(7, 4, 50), &mut cx), Verdict::Queued);
    assert_eq!(ids(&cx), [6]);
    assert_eq!(cx.corrections, [correction(1, 600)]);
    assert_eq!(queue.enqueue(packet(8, 5, 50), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(9, 6, 50), &mut cx), Verdict::Queued);
    assert_eq!(ids(&cx), [6, 4, 2]);
    assert_eq!(drain(&mut queue, &mut cx), [1, 3, 5, 7, 8, 9]);
}

#[test]
fn among_single_packets_the_flow_whose_turn_it_is_loses() {
    // Only the default limit is smaller than the number of flows.
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config::default()).unwrap();
    for id in 1..=127 {
        assert_eq!(queue.enqueue(packet(id, id as u32, 100), &mut cx), Verdict::Queued);
    }
    assert_eq!(queue.enqueue(packet(128, 128, 100), &mut cx), Verdict::Queued);
    assert_eq!((ids(&cx), &cx.corrections), (vec![1], &vec![correction(1, 100)]));
    assert_eq!((queue.row(1), queue.counters().qlen), (None, 127));
    assert!(drain(&mut queue, &mut cx).into_iter().eq(2..=128));
}

#[test]
fn headdrop_takes_the_oldest_of_the_longest() {
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config { limit: Some(3), headdrop: true, ..Config::default() }).unwrap();
    for (id, len) in [(1, 100), (2, 200), (3, 300)] {
        assert_eq!(queue.enqueue(packet(id, 1, len), &mut cx), Verdict::Queued);
    }
    assert_eq!(queue.enqueue(packet(4, 1, 400), &mut cx), Verdict::Congested);
    assert_eq!((ids(&cx), &cx.corrections), (vec![1], &vec![correction(0, 100 - 400)]));
    assert_eq!(queue.counters().backlog_bytes, 900);
    assert_eq!(drain(&mut queue, &mut cx), [2, 3, 4]);
}

#[test]
fn depth_overflow() {
    for headdrop in [false, true] {
        let mut cx = Scripted::at(1);
        let config = Config { depth: Some(2), headdrop, ..Config::default() };
        let mut queue = Sfq::new(config).unwrap();
        for id in 1..=2 {
            assert_eq!(queue.enqueue(packet(id, 1, 100), &mut cx), Verdict::Queued);
        }
        let verdict = queue.enqueue(packet(3, 1, 700), &mut cx);
        assert_eq!(queue.counters().qlen, 2);
        assert_eq!(cx.dropped[0].reason, DropReason::FlowLimit);
        if headdrop {
            assert_eq!((verdict, ids(&cx)), (Verdict::Congested, vec![1]));
            assert_eq!(cx.corrections, [correction(0, -600)]);
            assert_eq!(queue.counters().backlog_bytes, 800);
            assert_eq!(queue.classes().next().unwrap().backlog_bytes, 800);
            assert_eq!(drain(&mut queue, &mut cx), [2, 3]);
        } else {
            assert_eq!((verdict, ids(&cx)), (Verdict::Dropped, vec![3]));
            assert_eq!(cx.corrections, []);
            assert_eq!(drain(&mut queue, &mut cx), [1, 2]);
        }
        assert_eq!(queue.counters().drops, 1);
    }
}

#[test]
fn no_slot_left() {
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config { flows: Some(2), ..Config::default() }).unwrap();
    assert_eq!(queue.enqueue(packet(1, 1, 100), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(2, 2, 100), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(3, 3, 100), &mut cx), Verdict::Dropped);
    assert_eq!((ids(&cx), cx.dropped[0].reason), (vec![3], DropReason::TailDrop));
    assert_eq!(queue.row(3), None);
}

#[test]
fn rows_come_from_the_low_bits_under_the_own_key() {
    let mut cx = Scripted::at(1).with_draws([11, 12]);
    let mut queue = Sfq::new(Config::default()).unwrap();
    let mut hashed = Descriptor::new(100).with_flow_hash(77);
    assert_eq!(queue.enqueue(hashed, &mut cx), Verdict::Queued);
    assert_eq!(queue.key, Some(SipKey([11, 12])));
    let hash = crate::Packet::keyed_hash(&mut hashed, SipKey([11, 12]));
    assert_eq!(queue.classes().next().unwrap().minor, (hash & 1023) + 1);
    let mut other = Sfq::new(Config { divisor: Some(64), ..Config::default() }).unwrap();
    other.set_key(SipKey([11, 12]));
    assert_eq!(other.enqueue(hashed, &mut cx), Verdict::Queued);
    assert_eq!(other.classes().next().unwrap().minor, (hash & 63) + 1);
    assert!(cx.draws.is_empty());
}

/// An environment with filters.
struct Filters(Scripted<Descriptor>, Classified);

impl Environment<Descriptor> for Filters {
    fn now_ns(&mut self) -> u64 {
        Environment::<Descriptor>::now_ns(&mut self.0)
    }
    fn random_u32(&mut self) -> u32 {
        self.0.random_u32()
    }
    fn random_u64(&mut self) -> u64 {
        self.0.random_u64()
    }
    fn flow_secret(&self) -> SipKey {
        self.0.flow_secret()
    }
    fn dropped(&mut self, packet: Descriptor, reason: DropReason) {
        self.0.dropped(packet, reason);
    }
    fn correct_tree(&mut self, correction: TreeCorrection) {
        self.0.correct_tree(correction);
    }
    fn classify(&mut self, _: &Descriptor) -> Classified {
        self.1
    }
}

#[test]
fn filters_decide_alone() {
    let mut queue = Sfq::new(Config::default()).unwrap();
    for (says, verdict, drops) in [
        (Classified::Class(1024), Verdict::Queued, 0),
        (Classified::Class(1025), Verdict::Bypassed, 1),
        (Classified::Class(0), Verdict::Bypassed, 2),
        (Classified::NoMatch, Verdict::Bypassed, 3),
        (Classified::Shot, Verdict::Bypassed, 4),
        (Classified::Stolen, Verdict::Stolen, 4),
    ] {
        let mut cx = Filters(Scripted::at(1), says);
        assert_eq!(queue.enqueue(Descriptor::new(100), &mut cx), verdict);
        assert_eq!(queue.counters().drops, drops);
    }
    assert_eq!(queue.classes().map(|class| class.minor).collect::<Vec<_>>(), [1024]);
}

/// A queue whose packets go by hash.
fn perturbed(config: Config) -> Sfq<Descriptor> {
    let host = Host { created_ns: ms(5000), ..Host::default() };
    Sfq::new(Config { perturb_s: Some(10), ..config }.on_host(host)).unwrap()
}

#[test]
fn perturbation_gives_new_rows_and_keeps_each_flows_order() {
    let mut cx = Scripted::at(ms(5000)).with_draws([1, 2, 3, 4]);
    let mut queue = perturbed(Config::default());
    for id in 0..60 {
        let hashed = Descriptor::new(100 + id as u32).with_id(id).with_flow_hash((id % 6) as u32);
        assert_eq!(queue.enqueue(hashed, &mut cx), Verdict::Queued);
    }
    let rows = |queue: &Sfq<Descriptor>| queue.classes().map(|class| class.minor).collect::<Vec<_>>();
    let before = rows(&queue);
    let due = queue.next_event().unwrap().at_ns;
    assert!((ms(15_000)..ms(15_300)).contains(&due), "{due}");
    cx.now_ns = due + ms(3);
    queue.on_timer(&mut cx);
    assert_eq!(queue.key, Some(SipKey([3, 4])));
    let after = rows(&queue);
    assert!(after.len() == 6 && before != after, "{before:?} {after:?}");
    assert_eq!(cx.corrections, [correction(0, 0)]);
    assert_eq!((queue.counters().qlen, queue.counters().drops, ids(&cx)), (60, 0, vec![]));
    assert!(queue.next_event().unwrap().at_ns >= due + ms(10_000), "counted from the run of the handler");
    let order = drain(&mut queue, &mut cx);
    for flow in 0..6 {
        let of_flow: Vec<u64> = order.iter().copied().filter(|id| id % 6 == flow).collect();
        assert!(of_flow.is_sorted() && of_flow.len() == 10);
    }
}

#[test]
fn perturbation_discards_what_collides_beyond_the_depth() {
    let mut cx = Scripted::at(ms(5000)).with_draws((0..).take(2000));
    // Two rows: sooner or later a key sends both flows into one.
    let config = Config { divisor: Some(2), flows: Some(2), depth: Some(3), ..Config::default() };
    let mut queue = perturbed(config);
    let hashed = |id: u64| Descriptor::new(100).with_id(id).with_flow_hash((id & 1) as u32);
    for id in 0..6 {
        let _ = queue.enqueue(hashed(id), &mut cx);
    }
    while queue.classes().count() == 2 && queue.counters().qlen == 6 {
        queue.on_timer(&mut cx);
    }
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (3, 300));
    assert_eq!(queue.counters().drops, 3 - cx.dropped.len() as u32, "rehash discards are not counted");
    assert_eq!(cx.corrections.last(), Some(&correction(3, 300)));
    assert_eq!(cx.dropped.len(), 3);
}

#[test]
fn perturbation_leaves_filtered_and_empty_queues_alone() {
    let mut queue = perturbed(Config::default());
    let mut cx = Filters(Scripted::at(ms(5000)).with_draws([1, 2, 3, 4]), Classified::Class(5));
    assert_eq!(queue.enqueue(Descriptor::new(100), &mut cx), Verdict::Queued);
    queue.on_timer(&mut cx);
    assert_eq!((queue.row(4).is_some(), queue.key), (true, Some(SipKey([1, 2]))));
    assert_eq!(cx.0.corrections, []);
    assert!(queue.dequeue(&mut cx).is_some());
    queue.on_timer(&mut cx.0);
    assert_eq!((cx.0.corrections.len(), queue.key), (0, Some(SipKey([3, 4]))));
    let mut never = Sfq::<Descriptor>::new(Config::default()).unwrap();
    assert_eq!(never.next_event(), None);
    never.on_timer(&mut cx.0);
    assert_eq!(never.key, None);
}

#[test]
fn perturb_timers_follow_the_model() {
    let host = Host { created_ns: ms(5000), timers: TimerModel::Nominal, ..Host::default() };
    let queue = Sfq::<Descriptor>::new(Config { perturb_s: Some(10), ..Config::default() }.on_host(host)).unwrap();
    assert_eq!(queue.next_event().unwrap().at_ns, ms(15_000));
}

fn with_red(red: Red, headdrop: bool) -> Sfq<Descriptor> {
    Sfq::new(Config { red: Some(red), headdrop, ..Config::default() }).unwrap()
}

const RED: Red = Red {
    min_bytes: 1000,
    max_bytes: 3000,
    wlog: 0,
    plog: 0,
    scell_log: 0,
    max_p: u32::MAX,
    ecn: true,
    harddrop: false,
};

/// One flow of ECN-capable packets at a backlog (weight 1: the average is the backlog) with these draws.
fn flow(queue: &mut Sfq<Descriptor>, n: u64, ds: u8, draws: &[u64]) -> (Vec<Verdict>, Scripted<Descriptor>) {
    let mut cx = Scripted::at(1).with_draws(draws.iter().copied());
    let verdicts = (1..=n).map(|id| queue.enqueue(packet(id, 1, 500).with_ds_field(ds), &mut cx)).collect();
    (verdicts, cx)
}

#[test]
fn red_marks_the_arriving_packet_or_with_headdrop_the_oldest() {
    // Backlogs 0 (a new slot skips RED), 500, 1000 (draws), 1500 (hit at once: the drawn distance is 0).
    for headdrop in [false, true] {
        let mut queue = with_red(RED, headdrop);
        let (verdicts, mut cx) = flow(&mut queue, 4, 2, &[0, 0]);
        assert_eq!(verdicts, [Verdict::Queued; 4]);
        let stats = queue.stats();
        assert_eq!((stats.prob_mark, stats.prob_mark_head), if headdrop { (0, 1) } else { (1, 0) });
        assert_eq!(queue.counters().overlimits, 1);
        let marked: Vec<u64> = core::iter::from_fn(|| queue.dequeue(&mut cx))
            .filter(|packet| packet.ds_field == Some(3))
            .map(|packet| packet.id)
            .collect();
        assert_eq!(marked, [if headdrop { 1 } else { 4 }]);
    }
}

#[test]
fn red_drops_the_arriving_packet_or_with_headdrop_the_oldest() {
    for headdrop in [false, true] {
        let mut queue = with_red(RED, headdrop);
        let (verdicts, mut cx) = flow(&mut queue, 4, 0, &[0, 0]);
        assert_eq!(verdicts[3], if headdrop { Verdict::Congested } else { Verdict::Dropped });
        assert_eq!((queue.stats().prob_drop, queue.counters().drops), (1, 1));
        assert_eq!(cx.dropped[0].reason, DropReason::Early);
        assert_eq!(drain(&mut queue, &mut cx), if headdrop { [2, 3, 4] } else { [1, 2, 3] });
    }
}

#[test]
fn red_above_the_upper_threshold() {
    for (harddrop, headdrop, marks, head_marks, drops) in
        [(false, false, 1, 0, 0), (false, true, 0, 1, 0), (true, false, 0, 0, 1), (true, true, 0, 0, 1)]
    {
        let red = Red { harddrop, min_bytes: 1, max_bytes: 400, ..RED };
        let mut queue = with_red(red, headdrop);
        let (_, _) = flow(&mut queue, 2, 2, &[]);
        let stats = queue.stats();
        assert_eq!((stats.forced_mark, stats.forced_mark_head, stats.forced_drop), (marks, head_marks, drops));
    }
}

#[test]
fn red_state_starts_over_with_the_slot() {
    let mut queue = with_red(RED, false);
    let (_, mut cx) = flow(&mut queue, 4, 2, &[0x9000_0000; 2]);
    assert_eq!(queue.slot(127).unwrap().average.scaled_bytes, 1500);
    while queue.dequeue(&mut cx).is_some() {}
    assert_eq!(queue.enqueue(packet(9, 3, 500), &mut cx), Verdict::Queued);
    let average = queue.slot(127).unwrap().average;
    assert_eq!((average.scaled_bytes, average.count), (0, -1));
}

#[test]
fn peek_parks_and_reset_counts_as_sent() {
    let mut cx = Scripted::at(1);
    let mut queue = Sfq::new(Config::default()).unwrap();
    for id in 1..=3 {
        assert_eq!(queue.enqueue(packet(id, 1, 100), &mut cx), Verdict::Queued);
    }
    assert_eq!(queue.peek(&mut cx).map(|packet| packet.id), Some(1));
    assert_eq!((queue.counters().qlen, queue.counters().sent_packets), (3, 1));
    assert_eq!(queue.classes().next().unwrap().qlen, 2, "the parked packet is in no slot");
    assert_eq!(queue.dequeue_peeked(&mut cx).map(|packet| packet.id), Some(1));
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (2, 200));
    assert!(queue.peek(&mut cx).is_some());
    queue.reset(&mut cx);
    assert_eq!(ids(&cx), [3, 2], "the parked packet goes last");
    let counters = queue.counters();
    assert_eq!((counters.qlen, counters.backlog_bytes, counters.sent_packets, counters.drops), (0, 0, 3, 0));
    assert_eq!(queue.ring_tail(), None);
}

/// SF-01, SF-04 and SF-07 of the known faults, and spec/sfq.md §1.
#[test]
fn parameters_and_refusals() {
    let host = Host { hz: 1000, ..Host::default() };
    let made = |config: Config| Sfq::<Descriptor>::new(config.on_host(host)).map(|queue| queue.parameters());
    let error = |config: Config| made(config).unwrap_err().option;
    let none = Config::default();
    let defaults = made(none).unwrap();
    assert_eq!(
        defaults,
        Parameters {
            limit: 127,
            depth: 127,
            flows: 128,
            divisor: 1024,
            quantum_bytes: 1514,
            perturb_s: 0,
            headdrop: false,
            red: None
        }
    );
    let zero = Some(0);
    let zeros =
        Config { limit: zero, depth: zero, flows: zero, divisor: zero, quantum_bytes: zero, perturb_s: zero, ..none };
    assert_eq!(made(zeros), Ok(defaults));
    assert_eq!(error(Config { limit: Some(1), ..none }), "limit");
    assert_eq!(made(Config { limit: Some(2), ..none }).unwrap().flows, 2);
    assert_eq!(error(Config { limit: Some(5), depth: Some(1), flows: Some(1), ..none }), "limit");
    assert_eq!(made(Config { limit: Some(5), depth: Some(2), flows: Some(1), ..none }).unwrap().limit, 2);
    assert_eq!(made(Config { depth: Some(200), ..none }).unwrap().depth, 127);
    let many = made(Config { flows: Some(u32::MAX), ..none }).unwrap();
    assert_eq!((many.flows, many.limit), (65408, 127));
    assert_eq!(made(Config { flows: Some(300), divisor: Some(256), ..none }).unwrap().flows, 256);
    assert_eq!(made(Config { limit: Some(u32::MAX), ..none }).unwrap().limit, 127 * 128);
    for divisor in [3, 1000, 131_072] {
        assert_eq!(error(Config { divisor: Some(divisor), ..none }), "divisor");
    }
    assert_eq!(made(Config { divisor: Some(65536), ..none }).unwrap().divisor, 65536);
    for (quantum, becomes) in [(1, 256), (256, 256), (9000, 9000), (1 << 20, 1 << 20)] {
        assert_eq!(made(Config { quantum_bytes: Some(quantum), ..none }).unwrap().quantum_bytes, becomes);
    }
    assert_eq!(error(Config { quantum_bytes: Some((1 << 20) + 1), ..none }), "quantum");
    assert_eq!(error(Config { quantum_bytes: Some(1 << 31), ..none }), "quantum");
    assert_eq!(made(Config { perturb_s: Some(2_000_000), ..none }).unwrap().perturb_s, 2_000_000);
    assert_eq!(made(Config { perturb_s: Some(2_147_483), ..none }).unwrap().perturb_s, 2_147_483);
    for perturb in [2_147_484, 1_000_000_000, u32::MAX] {
        assert_eq!(error(Config { perturb_s: Some(perturb), ..none }), "perturb");
    }
    for (mtu_bytes, quantum) in [(1500, 1514), (65536, 65550), (1 << 24, 1 << 20), ((1 << 31) - 1, 1 << 20), (0, 256)] {
        let queue = Sfq::<Descriptor>::new(none.on_host(Host { mtu_bytes, ..host })).unwrap();
        assert_eq!(queue.parameters().quantum_bytes, quantum);
    }
    assert_eq!(made(Config { red: Some(Red { min_bytes: 0, max_bytes: 7, ..RED }), ..none }), Ok(defaults));
    assert_eq!(error(Config { red: Some(Red { scell_log: 32, ..RED }), ..none }), "scell_log");
    assert_eq!(error(Config { red: Some(Red { max_bytes: 999, ..RED }), ..none }), "max");
    assert_eq!(error(Config { red: Some(Red { wlog: 22, ..RED }), ..none }), "min");
    let derived = red::Options { min_bytes: Some(8000), ..red::Options::new(100_000, 1000) }.config();
    assert!(derived.is_ok());
}

#[test]
fn without_heap() {
    assert!(Sfq::<Descriptor, Fixed<1023, 200>>::in_storage(Config::default()).is_err());
    assert!(Sfq::<Descriptor, Fixed<1024, 127>>::in_storage(Config::default()).is_err());
    let config = Config { divisor: Some(16), limit: Some(7), ..Config::default() };
    let mut cx = Chance::new(3);
    let mut queue = Sfq::<Descriptor, Fixed<16, 8>>::in_storage(config).unwrap();
    conservation::run(&mut queue, &mut cx, 20_000, false, |_, _| {}, check);
}

/// Slots, rows, ring and lengths agree with each other.
fn check<S: Storage>(queue: &Sfq<Descriptor, S>) {
    let mut in_ring = Vec::new();
    if let Some(tail) = queue.ring_tail() {
        let mut at = tail;
        loop {
            at = queue.slot(at).and_then(|slot| slot.ring_next).unwrap();
            in_ring.push(at);
            assert!(in_ring.len() <= queue.parameters.flows as usize);
            if at == tail {
                break;
            }
        }
    }
    let (mut packets, mut bytes) = (0, 0);
    for at in 0..queue.parameters.flows {
        let slot = queue.slot(at).unwrap();
        assert_eq!(slot.qlen > 0, in_ring.contains(&at));
        assert_eq!(queue.slab.len(&queue.table.slot(at as u16).fifo), slot.qlen);
        if slot.qlen > 0 {
            assert_eq!(queue.row(slot.row), Some(at));
            packets += slot.qlen;
            bytes += slot.backlog_bytes;
        }
    }
    assert_eq!(queue.classes().count(), in_ring.len());
    let parked = queue.counters().qlen - packets;
    assert!(parked <= 1 && (parked == 1 || bytes == queue.counters().backlog_bytes));
    assert!(queue.counters().qlen <= queue.parameters.limit);
}

#[test]
fn random_calls_conserve_packets() {
    let red = Red { min_bytes: 2000, max_bytes: 20_000, wlog: 2, max_p: 1 << 28, ..RED };
    let base = Config { divisor: Some(8), perturb_s: Some(1), ..Config::default() };
    for (seed, config) in [
        Config { limit: Some(2), ..base },
        Config { limit: Some(3), headdrop: true, ..base },
        Config { depth: Some(2), ..base },
        Config { depth: Some(2), headdrop: true, ..base },
        Config { red: Some(red), ..base },
        Config { red: Some(Red { harddrop: true, ..red }), headdrop: true, ..base },
        Config { flows: Some(3), limit: Some(8), ..base },
        Config { divisor: Some(1024), ..base },
    ]
    .into_iter()
    .enumerate()
    {
        let mut queue = Sfq::new(config).unwrap();
        conservation::run(&mut queue, &mut Chance::new(seed as u64), 20_000, false, |_, _| {}, check);
    }
}
