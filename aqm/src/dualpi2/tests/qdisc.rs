use super::super::probability::Class;
use super::super::*;
use super::HANDLE;
use crate::conservation::{self, Chance};
use crate::net::SipKey;
use crate::{
    Classified, Configure, Context, Descriptor, DropReason, Environment, Event, EventKind, Host, Qdisc, Scripted,
    TreeCorrection, Verdict, time::ms,
};
use std::vec::Vec;

/// spec/dualpi2.md §9.1: only the classic queue waits; through the qdisc and its timer.
#[test]
fn probability_after_a_sequence_of_head_ages() {
    let mut queue = DualPi2::new(Host { created_ns: ms(984), ..Host::default() }.setup()).unwrap();
    let rows = [
        (0, 0),
        (10, 133906250),
        (20, 274687500),
        (20, 278125000),
        (20, 281562500),
        (30, 429218750),
        (30, 439531250),
        (15, 233515625),
        (15, 233515625),
        (10, 161406250),
        (5, 85859375),
        (0, 6875000),
        (0, 0),
    ];
    for (at, (age_ms, probability)) in (0u64..).zip(rows) {
        let now = ms(1_000 + 16 * at);
        assert_eq!(queue.next_event(), Some(Event { at_ns: now, kind: EventKind::Timer }));
        let _ = queue.enqueue(Descriptor::new(100), &mut Context::at(now - ms(age_ms)));
        queue.on_timer(&mut Context::at(now));
        assert_eq!((queue.base().probability, queue.base().last_delay_ns), (probability, ms(age_ms)), "update {at}");
        let _ = queue.dequeue(&mut Context::at(now));
    }
}

/// spec/dualpi2.md §9.2.
#[test]
fn credit() {
    let mut queue = DualPi2::new(Config::default()).unwrap();
    let mut cx = Context::at(ms(1_000));
    assert_eq!(queue.credit, -121_120);
    for id in 0..27 {
        let packet = Descriptor::new(1514).with_id(id).with_ds_field(u8::from(id >= 3));
        assert_eq!(queue.enqueue(packet, &mut cx), Verdict::Queued);
    }
    let mut departures = Vec::new();
    for _ in 0..28 {
        cx.advance_ns(100_000);
        let marks = queue.step_marks;
        match queue.dequeue(&mut cx) {
            Some(packet) => departures.push((packet.id < 3, queue.credit, queue.step_marks - marks)),
            None => assert_eq!(queue.credit, -121_120),
        }
    }
    let low_latency = |from: i32, n: i32| (1..=n).map(move |k| (false, from + 15_140 * k));
    let expected: Vec<(bool, i32)> = low_latency(-121_120, 9)
        .chain([(true, -121_120)])
        .chain(low_latency(-121_120, 9))
        .chain([(true, -121_120)])
        .chain(low_latency(-121_120, 6))
        .chain([(true, -30_280)])
        .collect();
    assert_eq!(departures.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), expected);
    for (at, (classic, _, marks)) in (1..).zip(departures) {
        assert_eq!(marks, u32::from(!classic && at > 10), "departure {at}");
    }
}

/// spec/dualpi2.md §3: ECN first, then priority, then filters; case DP-04: the class is a value of its own.
#[test]
fn classification() {
    struct Filtered(Classified, Vec<DropReason>);
    impl Environment<Descriptor> for Filtered {
        fn now_ns(&mut self) -> u64 {
            ms(1_000)
        }
        fn random_u32(&mut self) -> u32 {
            u32::MAX
        }
        fn flow_secret(&self) -> SipKey {
            SipKey::default()
        }
        fn dropped(&mut self, _: Descriptor, reason: DropReason) {
            self.1.push(reason);
        }
        fn classify(&mut self, _: &Descriptor) -> Classified {
            self.0
        }
    }
    let filter = |answer, mask, ds, priority| {
        let setup =
            Config { ecn_mask: Some(mask), ..Config::default() }.on_host(Host { handle: HANDLE, ..Host::default() });
        let mut queue = DualPi2::new(setup).unwrap();
        let mut cx = Filtered(answer, Vec::new());
        let packet = Descriptor::new(100).with_ds_field(ds).with_priority(priority);
        let verdict = queue.enqueue(packet, &mut cx);
        let class = queue.low_latency.head().or(queue.classic.head()).map(|at| queue.slab.slot(at).meta.class);
        (verdict, class, queue.counters().drops, cx.1)
    };
    let none = Classified::NoFilters;
    let class_of = |answer, mask, ds, priority| filter(answer, mask, ds, priority).1;
    assert_eq!([0, 1, 2, 3].map(|ds| class_of(none, 1, ds, 0)), {
        [Class::Classic, Class::L4s, Class::Classic, Class::L4s].map(Some)
    });
    assert_eq!([0, 1, 2, 3].map(|ds| class_of(none, 3, ds, 0)), {
        [Class::Classic, Class::L4s, Class::L4s, Class::L4s].map(Some)
    });
    assert_eq!([0, 1, 2, 3].map(|minor| class_of(Classified::Class(2), 1, 0, HANDLE | minor)), {
        [Class::Classic, Class::L4s, Class::LowLatency, Class::LowLatency].map(Some)
    });
    assert_eq!(class_of(Classified::Class(2), 1, 1, HANDLE | 2), Some(Class::L4s), "ECN goes first");
    assert_eq!(class_of(Classified::NoMatch, 1, 2, 0), Some(Class::Classic));
    assert_eq!(class_of(Classified::Class(HANDLE | 3), 1, 0, 0), Some(Class::Classic));
    assert_eq!(class_of(Classified::Class(HANDLE | 1), 1, 0, 0), Some(Class::L4s));
    assert_eq!(filter(Classified::Stolen, 1, 0, 0), (Verdict::Stolen, None, 0, [DropReason::Stolen].into()));
    assert_eq!(filter(Classified::Shot, 1, 0, 0), (Verdict::Bypassed, None, 1, [DropReason::Classify].into()));
}

impl Host {
    fn setup(self) -> crate::Setup<Config> {
        Config::default().on_host(self)
    }
}

/// The step: strictly above, in packets after removal, and only behind enough others.
#[test]
fn step() {
    let run = |config: Config, packets: u64, wait_ns| {
        let mut queue = DualPi2::new(config).unwrap();
        let mut cx = Scripted::at(ms(1_000));
        for id in 0..packets {
            let _ = queue.enqueue(Descriptor::new(100).with_id(id).with_ds_field(1), &mut cx);
        }
        cx.now_ns += wait_ns;
        let mut marked = Vec::new();
        while let Some(packet) = queue.dequeue(&mut cx) {
            if packet.ds_field == Some(3) {
                marked.push(packet.id);
            }
        }
        assert_eq!(queue.step_marks as usize, marked.len());
        marked
    };
    assert_eq!(run(Config::default(), 2, 1_000_000), []);
    assert_eq!(run(Config::default(), 2, 1_000_001), [0, 1]);
    assert_eq!(run(Config { min_qlen_step: Some(2), ..Config::default() }, 4, ms(2)), [2, 3]);
    let packets = Config { step_thresh: Some(StepThreshold::Packets(2)), ..Config::default() };
    assert_eq!(run(packets, 5, ms(2)), [0, 1], "4 and 3 remain");

    // Not-ECT packets, here by priority, are dropped by it; the untouched class is not.
    let mut queue = DualPi2::new(Host { handle: HANDLE, ..Host::default() }.setup()).unwrap();
    let mut cx = Scripted::at(ms(1_000));
    for minor in [1, 2, 1] {
        let _ = queue.enqueue(Descriptor::new(100).with_priority(HANDLE | minor), &mut cx);
    }
    cx.now_ns += ms(2);
    assert_eq!(queue.dequeue(&mut cx).map(|packet| packet.priority), Some(HANDLE | 2));
    assert_eq!((queue.counters().drops, queue.low_latency_counters().drops), (1, 1));
    assert_eq!(queue.dequeue(&mut cx), None);
    assert_eq!((queue.counters().drops, queue.low_latency_counters().drops), (2, 2));
    let correction = |emptied| TreeCorrection { packets: 1, bytes: 100, emptied };
    assert_eq!(cx.corrections, [correction(false), correction(true)]);
    assert_eq!(queue.low_latency_counters().sent_packets, 1);
}

/// Splitting: the parents hear of every additional packet and of the bytes that headers add.
#[test]
fn gso() {
    let mut queue =
        DualPi2::new(Config { limit: Some(3), memlimit_bytes: Some(1 << 20), ..Config::default() }).unwrap();
    let mut cx = Scripted::at(ms(1_000));
    let buffer = Descriptor::new(4 * 1514 - 500).with_gso(4, 1448);
    assert_eq!(queue.enqueue(buffer, &mut cx), Verdict::Queued);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (3, 3 * 1514));
    assert_eq!(cx.corrections, [TreeCorrection { packets: -2, bytes: 1514 - 500, emptied: false }]);
    assert_eq!((cx.dropped.len(), queue.counters().drops, queue.counters().overlimits), (1, 1, 1));
    assert_eq!(queue.enqueue(buffer, &mut cx), Verdict::Dropped, "the last segment's verdict");
    assert_eq!((cx.corrections.len(), cx.dropped.len()), (1, 5));
    // Whole, it counts its segments when it leaves.
    let mut queue = DualPi2::new(Config { split_gso: Some(false), ..Config::default() }).unwrap();
    assert_eq!(queue.enqueue(buffer, &mut cx), Verdict::Queued);
    assert_eq!(queue.dequeue(&mut cx), Some(buffer));
    assert_eq!((queue.counters().sent_packets, queue.counters().sent_bytes), (4, 4 * 1514 - 500));
    // What cannot be split is dropped.
    let mut queue = DualPi2::new(Config::default()).unwrap();
    assert_eq!(queue.enqueue(Descriptor::new(100).with_gso(1, 50), &mut cx), Verdict::Dropped);
    assert_eq!(cx.dropped.last().map(|drop| drop.reason), Some(DropReason::SplitFailed));
}

/// Drops of one dequeue: newest first at the root, as they happen below a parent.
#[test]
fn order_of_drops() {
    for is_root in [true, false] {
        let mut queue = DualPi2::new(Host { is_root, ..Host::default() }.setup()).unwrap();
        let mut cx = Scripted::at(ms(1_000)).with_draws([0, 0, 0, 0, u32::MAX.into()]);
        for id in 1..=6 {
            let _ = queue.enqueue(Descriptor::new(1514).with_id(id), &mut cx);
        }
        queue.base.probability = 1 << 29;
        assert!(queue.peek(&mut cx).is_some_and(|packet| packet.id == 3));
        assert_eq!(
            cx.dropped.iter().map(|drop| drop.packet.id).collect::<Vec<_>>(),
            if is_root { [2, 1] } else { [1, 2] }
        );
        assert_eq!(cx.corrections, [TreeCorrection { packets: 2, bytes: 3028, emptied: false }]);
        assert_eq!((queue.counters().qlen, queue.counters().sent_packets), (4, 1));
        // Parked, it is neither of the two queues'.
        assert_eq!((queue.dequeue_peeked(&mut cx).map(|p| p.id), queue.counters().qlen), (Some(3), 3));
    }
}

/// Early mode: a drop on arrival is swallowed, a full queue drops.
#[test]
fn drop_enqueue() {
    let mut queue = DualPi2::new(Config { drop_early: Some(true), limit: Some(4), ..Config::default() }).unwrap();
    let mut cx = Scripted::at(ms(1_000)).with_draws([1]);
    for id in 0..3 {
        assert_eq!(queue.enqueue(Descriptor::new(1514).with_id(id), &mut cx), Verdict::Queued);
    }
    queue.base.probability = 1 << 20;
    cx.draws.extend([0, 0, 0, 0, 1 << 21]);
    let reads = cx.clock_reads;
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_id(3), &mut cx), Verdict::Bypassed);
    assert_eq!((cx.dropped[0].reason, cx.clock_reads), (DropReason::Early, reads));
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_id(4).with_ds_field(2), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_id(5).with_ds_field(1), &mut cx), Verdict::Dropped, "full");
    assert_eq!((queue.counters().overlimits, queue.low_latency_counters().overlimits), (1, 1));
    queue.change(&Config { limit: Some(5), memlimit_bytes: Some(1 << 20), ..Config::default() }, &mut cx).unwrap();
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_id(6).with_ds_field(1), &mut cx), Verdict::Queued);
    assert_eq!(queue.stats(&mut cx).ecn_mark, 2);
    assert_eq!(cx.draws.len(), 0);
    while queue.dequeue(&mut cx).is_some() {}
    assert_eq!(queue.counters().drops, 2, "nothing at dequeue");
}

/// spec/dualpi2.md §8: classic packets go first; a parked packet's memory is given back twice.
#[test]
fn change_and_reset() {
    let mut queue = DualPi2::new(Config::default()).unwrap();
    let mut cx = Scripted::at(ms(1_000));
    for (id, ds) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
        let packet = Descriptor::new(100).with_id(id).with_ds_field(ds).with_truesize(1000);
        assert_eq!(queue.enqueue(packet, &mut cx), Verdict::Queued);
    }
    assert_eq!(queue.peek(&mut cx).map(|packet| packet.id), Some(2));
    assert_eq!(queue.memory_used, 3000);
    let limits = |limit, memory| Config { limit: Some(limit), memlimit_bytes: Some(memory), ..Config::default() };
    queue.change(&limits(2, 100_000), &mut cx).unwrap();
    assert_eq!(cx.dropped.iter().map(|drop| drop.packet.id).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((queue.memory_used, queue.heads().classic_ns), (1000, ms(1_000)), "below its true value, 2000");
    queue.change(&limits(1, 100_000), &mut cx).unwrap();
    assert_eq!((queue.counters().drops, queue.low_latency_counters().drops), (3, 0));
    queue.change(&limits(1, 1), &mut cx).unwrap();
    assert_eq!((queue.counters().qlen, queue.memory_used), (1, 0));
    assert_eq!(cx.corrections.iter().map(|c| c.packets).collect::<Vec<_>>(), [2, 1, 0]);

    queue.base = BaseProbability { probability: 5, last_delay_ns: 6 };
    queue.credit = 7;
    queue.reset(&mut cx);
    assert_eq!(cx.dropped.last().map(|drop| (drop.packet.id, drop.reason)), Some((4, DropReason::Reset)));
    assert_eq!(*queue.base(), BaseProbability { probability: 0, last_delay_ns: 6 });
    assert_eq!(*queue.heads(), Timestamps::default());
    let stats = queue.stats(&mut cx);
    assert_eq!(stats, Stats { credit: -121_120, memory_limit_bytes: 1, ..Stats::default() });
    assert_eq!((queue.counters().drops, queue.low_latency_counters().qlen), (3, 0));
}

/// Ages of the heads as reported, at most 2^32 − 1 µs.
#[test]
fn reported_delays() {
    let mut queue = DualPi2::new(Config::default()).unwrap();
    for (at, ds) in [(1_000_000, 0), (2_000_000, 1)] {
        let _ = queue.enqueue(Descriptor::new(100).with_ds_field(ds), &mut Context::at(at));
    }
    let stats = queue.stats(&mut Scripted::<Descriptor>::at(5_000_999));
    assert_eq!((stats.delay_c_us, stats.delay_l_us), (4_000, 3_000));
    assert_eq!(queue.stats(&mut Scripted::<Descriptor>::at(u64::MAX)).delay_c_us, u32::MAX);
}

/// Conservation, as the parents see it, after every call of a random sequence.
#[test]
fn conservation() {
    bolero::check!().with_type::<(u64, bool)>().with_iterations(300).for_each(|&(seed, splits)| {
        let mut cx = Chance::new(seed);
        let random = |cx: &mut Chance| Config {
            limit: Some(1 + cx.below(60) as u32),
            memlimit_bytes: Some(50_000 + cx.below(100_000) as u32),
            target_us: Some(cx.below(20_000) as u32),
            tupdate_us: Some(5_000 + cx.below(40_000) as u32),
            alpha_hz_256: Some(1 + cx.below(10_000) as u32),
            beta_hz_256: Some(1 + cx.below(10_000) as u32),
            step_thresh: Some(match cx.below(2) {
                0 => StepThreshold::Time(cx.below(10_000) as u32),
                _ => StepThreshold::Packets(cx.below(10) as u32),
            }),
            min_qlen_step: Some(cx.below(5) as u32),
            coupling_factor: Some(1 + cx.below(5) as u8),
            drop_on_overload: Some(cx.below(2) == 0),
            drop_early: Some(cx.below(2) == 0),
            classic_protection_percent: Some(cx.below(101) as u8),
            ecn_mask: Some(1 + cx.below(3) as u8),
            split_gso: Some(splits),
        };
        let mut queue = DualPi2::new(random(&mut cx)).unwrap();
        let mut change = |queue: &mut DualPi2<Descriptor>, cx: &mut Chance| queue.change(&random(cx), cx).unwrap();
        conservation::run(&mut queue, &mut cx, 400, splits, &mut change, |queue| {
            let (classic, low_latency) = (queue.slab.len(&queue.classic), queue.slab.len(&queue.low_latency));
            assert_eq!(queue.counters().qlen, classic + low_latency + u32::from(queue.parked.is_some()));
            assert_eq!(queue.low_latency_counters().qlen, low_latency);
        });
    });
}
