use super::*;
use crate::conservation::{self, Chance};
use crate::pie::{Controller, MAX_PROBABILITY};
use crate::{
    Configure, Context, Descriptor, DropReason, Event, EventKind, Fixed, Host, Qdisc, Scripted, TimerModel,
    TreeCorrection, Verdict, time::ms,
};
use std::{string::String, vec::Vec};

const MP: u64 = MAX_PROBABILITY;
const JIFFY_NS: u64 = 4_000_000;

/// The state columns of the vector file.
fn show(queue: &FqPie<Descriptor>) -> String {
    let (c, s) = (queue.counters(), queue.stats());
    let mut text = std::format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
        c.qlen,
        c.backlog_bytes,
        c.drops,
        c.sent_bytes,
        c.sent_packets,
        s.memory_usage_bytes,
        s.overmemory,
        s.overlimit,
        s.new_flow_count,
        s.new_flows_len,
        s.old_flows_len,
        s.packets_in,
        s.dropped,
        s.ecn_mark,
        queue.cursor()
    );
    let fields: [fn(&Controller) -> u64; 3] = [|c| c.probability, |c| c.accumulated, |c| c.delay];
    for field in fields {
        text += " |";
        for bucket in 0..queue.parameters().flows {
            text += &std::format!(" {}", field(&queue.flow(bucket).unwrap().controller));
        }
    }
    text
}

/// spec/vectors/fq_pie.txt: the whole qdisc.
#[test]
fn vector_file() {
    let mut queue = FqPie::<Descriptor>::new(Config::default()).unwrap();
    let (mut steps, mut id) = (0, 0);
    for (number, line) in include_str!("../../tests/vectors/fq_pie.txt").lines().enumerate() {
        let (call, expected) = line.split_once(" => ").unwrap_or((line, ""));
        let mut words = call.split(' ');
        let kind = words.next().unwrap_or_default();
        if kind == "#" {
            continue;
        }
        let n: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        if kind == "P" {
            let config = Config {
                limit: Some(n[0] as u32),
                flows: Some(n[1] as u32),
                quantum_bytes: Some(n[2] as u32),
                memory_limit_bytes: Some(n[3] as u32),
                alpha: Some(n[5] as u32),
                beta: Some(n[6] as u32),
                ecn: Some(n[7] != 0),
                bytemode: Some(n[8] != 0),
                dq_rate_estimator: Some(n[9] != 0),
                ..Config::default()
            };
            queue = FqPie::new(config.on_host(Host { timers: TimerModel::Nominal, ..Host::default() })).unwrap();
            queue.law.target = n[4];
            id = 0;
            continue;
        }
        let mut cx = Scripted::at(n[0]);
        let result = match kind {
            "E" => {
                id += 1;
                let packet = Descriptor::new(n[1] as u32)
                    .with_id(id)
                    .with_flow_hash(n[2] as u32)
                    .with_ds_field(n[3] as u8)
                    .with_truesize(n[4] as u32);
                cx = cx.with_draws([n[5]]);
                let code = queue.enqueue(packet, &mut cx).code();
                std::format!("{id} {code} {}", 1 - cx.draws.len())
            }
            "D" => {
                let packet = queue.dequeue(&mut cx).map(|p| (p.id, p.ds_field.unwrap_or_default()));
                let (id, ecn) = packet.unwrap_or_default();
                std::format!("{id} {ecn}")
            }
            "T" => {
                queue.on_timer(&mut cx);
                std::format!("{}", queue.next_event().map_or(0, |event| (event.at_ns - n[0]) / JIFFY_NS))
            }
            other => panic!("line {}: unknown operation {other}", number + 1),
        };
        assert_eq!(std::format!("{result} | {}", show(&queue)), expected, "line {}", number + 1);
        steps += 1;
    }
    assert_eq!(steps, 719 + 1090 + 53);
}

fn overloaded(config: Config, probability: u64) -> FqPie<Descriptor> {
    let mut queue = FqPie::new(Config { flows: Some(4), ..config }).unwrap();
    let mut cx = Context::at(ms(1_000));
    for id in 1..=20 {
        assert_eq!(queue.enqueue(Descriptor::new(1500).with_id(id), &mut cx), Verdict::Queued);
    }
    queue.flows[0].controller = Controller { burst: 0, delay: 312_500, probability, ..Controller::INITIAL };
    queue
}

/// spec/fq_pie.md §8: a bucket's controller is pie's; the other buckets have their own.
#[test]
fn accumulated_probability_of_one_bucket() {
    let mut queue = overloaded(Config::default(), MP / 50);
    let mut cx = Scripted::at(ms(1_001));
    for packet in 1..=425 {
        if packet == 43 {
            cx = cx.with_draws(core::iter::repeat_n(u64::MAX, 425 - 42));
        }
        assert_eq!(queue.enqueue(Descriptor::new(1514), &mut cx), Verdict::Queued, "packet {packet}");
    }
    assert!(cx.draws.is_empty());
    assert_eq!(queue.flow(0).unwrap().controller.accumulated, 425 * (MP / 50));
    assert_eq!(queue.enqueue(Descriptor::new(1514), &mut cx), Verdict::Congested, "packet 426");
    assert_eq!(queue.flow(0).unwrap().controller.accumulated, 0);
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_flow_hash(1 << 31), &mut cx), Verdict::Queued);
    assert_eq!(queue.flow(2).unwrap().controller, Controller::INITIAL);
}

/// spec/fq_pie.md §8: marks up to ⌊MP/100⌋ · ecn_prob, three below pie's threshold.
#[test]
fn marks_up_to_ecn_prob() {
    let edge = 7205759403792790;
    for (ecn, percent, probability, verdict) in [
        (true, None, edge, Verdict::Queued),
        (true, None, edge + 1, Verdict::Congested),
        (false, None, edge, Verdict::Congested),
        (true, Some(0), 1, Verdict::Congested),
        (true, Some(99), MP / 100 * 99, Verdict::Queued),
        (true, Some(99), MP / 100 * 99 + 1, Verdict::Congested),
    ] {
        let config = Config { ecn: Some(ecn), ecn_prob_percent: percent, ..Config::default() };
        let mut queue = overloaded(config, probability);
        queue.flows[0].controller.accumulated = MP * 9;
        let mut cx = Scripted::at(ms(1_001));
        assert_eq!(
            queue.enqueue(Descriptor::new(1514).with_ds_field(2), &mut cx),
            verdict,
            "{percent:?} {probability}"
        );
        assert_eq!(queue.stats().ecn_mark, u32::from(verdict == Verdict::Queued));
    }
}

/// spec/fq_pie.md §8: the memory limit counts and drops nothing.
#[test]
fn memory_limit_only_counts() {
    let mut queue = FqPie::new(Config { memory_limit_bytes: Some(30_000), ..Config::default() }).unwrap();
    let mut cx = Scripted::at(ms(1_000));
    for _ in 1..=15 {
        assert_eq!(queue.enqueue(Descriptor::new(1514).with_truesize(2282), &mut cx), Verdict::Queued);
    }
    assert_eq!((queue.stats().memory_usage_bytes, queue.stats().overmemory), (34_230, 0));
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_truesize(2282), &mut cx), Verdict::Queued);
    assert_eq!((queue.stats().memory_usage_bytes, queue.stats().overmemory), (36_512, 1));
    // 30000 + 6512 is not exceeded by 36512.
    assert_eq!(queue.enqueue(Descriptor::new(64).with_truesize(6512), &mut cx), Verdict::Queued);
    assert_eq!(queue.stats().overmemory, 1);
    // A full queue is not asked for its memory, nor for its controller.
    queue.change(&Config { limit: Some(17), ..Config::default() }, &mut cx).unwrap();
    assert_eq!(queue.enqueue(Descriptor::new(64).with_truesize(1), &mut cx), Verdict::Congested);
    let stats = queue.stats();
    assert_eq!((stats.overmemory, stats.overlimit, stats.dropped, queue.counters().drops), (1, 1, 1, 1));
    assert_eq!(cx.dropped[0].reason, DropReason::TailDrop);
}

/// spec/fq_pie.md §5: at most 2048 buckets an expiry.
#[test]
fn timer_walks_the_buckets() {
    let host = Host { timers: TimerModel::Nominal, ..Host::default() };
    let setup = Config { flows: Some(5000), ..Config::default() }.on_host(host);
    let mut queue = FqPie::<Descriptor>::new(setup).unwrap();
    for flow in &mut queue.flows {
        flow.controller.delay = 10 * 312_500;
    }
    let mut cx = Context::at(ms(500));
    let event = |at_ns| Some(Event { at_ns, kind: EventKind::Timer });
    assert_eq!(queue.next_event(), event(ms(500)));
    for (cursor, next) in [(2048, ms(500)), (4096, ms(500)), (0, ms(516)), (2048, ms(500))] {
        queue.on_timer(&mut cx);
        assert_eq!((queue.cursor(), queue.next_event()), (cursor, event(next)));
    }
    let updated = |queue: &FqPie<Descriptor>, bucket| queue.flow(bucket).unwrap().controller.probability;
    assert_eq!(updated(&queue, 2048), updated(&queue, 4999));
    assert!(updated(&queue, 2047) > updated(&queue, 2048) && updated(&queue, 2048) > 0);
    queue.change(&Config { tupdate_us: Some(0), ..Config::default() }, &mut cx).unwrap();
    queue.on_timer(&mut cx);
    assert_eq!((queue.cursor(), queue.next_event()), (4096, None));

    let mut queue = FqPie::<Descriptor>::new(Config { flows: Some(2048), ..Config::default() }).unwrap();
    queue.on_timer(&mut cx);
    assert_eq!((queue.cursor(), queue.next_event()), (0, event(ms(520))), "kernel-like: five jiffies");
    let mut queue = FqPie::<Descriptor>::new(Config { flows: Some(2049), ..Config::default() }).unwrap();
    queue.on_timer(&mut cx);
    assert_eq!((queue.cursor(), queue.next_event()), (2048, event(ms(504))), "the next jiffy");
}

/// Cases FP-02 and FP-04.
#[test]
fn refusals() {
    let with = |flows, quantum_bytes| {
        FqPie::<Descriptor>::new(Config { flows, quantum_bytes, ..Config::default() })
            .map(|queue| (queue.parameters().flows, queue.parameters().quantum_bytes, queue.parameters().pie.limit))
            .map_err(|error| error.option)
    };
    assert_eq!(with(Some(65_536), None), Ok((65_536, 1514, 10_240)));
    assert_eq!([with(Some(65_537), None), with(Some(0), None)], [Err("flows"), Err("flows")]);
    assert_eq!(with(None, Some(1 << 20)), Ok((1024, 1 << 20, 10_240)));
    assert_eq!(with(None, Some(1)), Ok((1024, 256, 10_240)));
    for quantum in [0, (1 << 20) + 1, 1 << 31] {
        assert_eq!(with(None, Some(quantum)), Err("quantum"));
    }
    let huge = Host { mtu_bytes: 1 << 31, ..Host::default() };
    let queue = FqPie::<Descriptor>::new(Config::default().on_host(huge)).unwrap();
    assert_eq!(queue.parameters().quantum_bytes, 1 << 20);
    let tiny = Host { mtu_bytes: 0, link_header_bytes: 0, ..Host::default() };
    let mut queue =
        FqPie::<Descriptor>::new(Config { bytemode: Some(true), ..Config::default() }.on_host(tiny)).unwrap();
    assert_eq!((queue.parameters().quantum_bytes, queue.law.mtu), (256, 1));
    // The smallest MTU divides.
    queue.flows[0].controller = Controller { burst: 0, delay: 312_500, ..Controller::INITIAL };
    let mut cx = Scripted::at(ms(1_000));
    for _ in 0..3 {
        assert_eq!(queue.enqueue(Descriptor::new(1), &mut cx), Verdict::Queued);
    }
}

/// spec/fq_pie.md §6: excess leaves through a dequeue and is no drop; a refused change keeps the limit.
#[test]
fn change() {
    let mut queue = FqPie::new(Config::default()).unwrap();
    let mut cx = Scripted::at(ms(1_000));
    for id in 1..=6 {
        let _ = queue.enqueue(Descriptor::new(100).with_id(id).with_flow_hash((id as u32) << 30), &mut cx);
    }
    assert!(queue.peek(&mut cx).is_some());
    let before = queue.parameters();
    let refused = Config { limit: Some(3), flows: Some(1024), ecn: Some(true), ..Config::default() };
    assert_eq!(queue.change(&refused, &mut cx).map_err(|error| error.option), Err("flows"));
    let mut kept = before;
    kept.pie.limit = 3;
    assert_eq!((queue.parameters(), queue.counters().qlen, cx.dropped.len()), (kept, 6, 0));
    assert!(queue.change(&Config { quantum_bytes: Some(0), limit: Some(1), ..Config::default() }, &mut cx).is_err());
    assert_eq!(queue.parameters(), kept);
    let memory = Config { memory_limit_bytes: Some(1), ..Config::default() };
    queue.change(&memory, &mut cx).unwrap();
    assert_eq!((queue.counters().qlen, queue.counters().drops, queue.counters().sent_packets), (3, 0, 3));
    assert_eq!(cx.corrections, [TreeCorrection { packets: 3, bytes: 300, emptied: false }]);
    assert!(cx.dropped.iter().all(|drop| drop.reason == DropReason::Change));
    queue.change(&memory, &mut cx).unwrap();
    assert_eq!(queue.counters().qlen, 3, "the memory limit is not enforced");
}

/// spec/fq_pie.md §6: what a reset keeps.
#[test]
fn reset() {
    let mut queue = overloaded(Config::default(), MP / 50);
    queue.flows[0].controller.burst = 7;
    let mut cx = Scripted::at(ms(1_001));
    assert!(queue.peek(&mut cx).is_some());
    queue.cursor = 3;
    let memory = queue.stats().memory_usage_bytes;
    queue.reset(&mut cx);
    assert_eq!((cx.dropped.len(), queue.counters().qlen, queue.counters().backlog_bytes), (20, 0, 0));
    assert_eq!((queue.stats().memory_usage_bytes, queue.cursor()), (memory, 3));
    let flow = queue.flow(0).unwrap();
    assert_eq!((flow.qlen, flow.backlog_bytes), (19, 28_500), "stale");
    assert_eq!((flow.controller.burst, flow.controller.probability), (2_343_750, MP / 50));
    assert_eq!((queue.stats().new_flows_len, queue.stats().old_flows_len), (0, 0));
    assert_eq!(queue.dequeue(&mut cx), None);
    // The early decision still sees the stale backlog: with an empty queue it drops.
    queue.flows[0].controller = Controller { burst: 0, delay: 312_500, accumulated: MP * 9, ..flow.controller };
    assert_eq!(queue.enqueue(Descriptor::new(100), &mut cx), Verdict::Congested);
    queue.flows[0].controller.burst = 1;
    assert_eq!(queue.enqueue(Descriptor::new(100), &mut cx), Verdict::Queued);
    let flow = queue.flow(0).unwrap();
    assert_eq!((flow.qlen, flow.backlog_bytes, flow.deficit_bytes), (1, 100, 1514), "zeroed by becoming active");
}

/// Fixed storage refuses what it cannot hold, and never holds more.
#[test]
fn fixed_storage_bounds() {
    type Small = FqPie<Descriptor, Fixed<4, 8>>;
    let config = |flows, limit| Config { flows: Some(flows), limit: Some(limit), ..Config::default() };
    assert_eq!(Small::in_storage(config(5, 8)).unwrap_err().option, "flows");
    assert_eq!(Small::in_storage(config(4, 9)).unwrap_err().option, "limit");
    let mut queue = Small::in_storage(config(3, 8)).unwrap();
    assert!(queue.flow(3).is_none());
    let mut cx = Scripted::at(ms(1_000));
    queue.change(&Config { limit: Some(100), ..Config::default() }, &mut cx).unwrap();
    for id in 0..10 {
        let verdict = queue.enqueue(Descriptor::new(100).with_id(id), &mut cx);
        assert_eq!(verdict, if id < 8 { Verdict::Queued } else { Verdict::Congested });
    }
    assert!(cx.dropped.len() == 2 && cx.dropped.iter().all(|drop| drop.reason == DropReason::StorageFull));
}

/// Conservation after every call of a random sequence: packets, bytes, and memory until the first reset.
#[test]
fn conservation() {
    bolero::check!().with_type::<(u64, bool)>().with_iterations(300).for_each(|&(seed, fixed_memory)| {
        let mut cx = Chance::new(seed);
        let random = |cx: &mut Chance| Config {
            limit: Some(cx.below(60) as u32),
            flows: None,
            target_us: Some(cx.below(20_000) as u32),
            tupdate_us: Some(cx.below(40_000) as u32),
            alpha: Some(cx.below(33) as u32),
            beta: Some(cx.below(33) as u32),
            quantum_bytes: Some(1 + cx.below(20_000) as u32),
            memory_limit_bytes: Some(cx.below(100_000) as u32),
            ecn_prob_percent: Some(cx.below(100) as u32),
            ecn: Some(cx.below(2) == 0),
            bytemode: Some(cx.below(2) == 0),
            dq_rate_estimator: Some(cx.below(4) == 0),
        };
        let flows = Some(1 + cx.below(5) as u32);
        let mut queue = FqPie::new(Config { flows, ..random(&mut cx) }).unwrap();
        let change = |queue: &mut FqPie<Descriptor>, cx: &mut Chance| {
            if !fixed_memory {
                queue.change(&random(cx), cx).unwrap();
            }
        };
        conservation::run(&mut queue, &mut cx, 400, false, change, |queue| {
            let parked = queue.parked.as_ref();
            let waiting: u32 = queue.flows.iter().map(|flow| queue.slab.len(&flow.fifo)).sum();
            assert_eq!(queue.counters().qlen, waiting + u32::from(parked.is_some()));
            let (new, old) = queue.lists();
            let (mut packets, mut bytes) = (0, 0);
            for flow in new.chain(old).map(|bucket| queue.flow(bucket).unwrap()) {
                (packets, bytes) = (packets + flow.qlen, bytes + flow.backlog_bytes);
            }
            assert_eq!(packets, waiting, "what waits is on a list");
            assert_eq!(bytes + parked.map_or(0, |packet| packet.len_bytes), queue.counters().backlog_bytes);
            assert!(queue.memory_usage >= bytes + 768 * packets, "memory of purged packets stays charged");
        });
    });
}
