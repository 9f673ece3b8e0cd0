use super::super::*;
use crate::conservation::{self, Chance};
use crate::{
    Configure, Context, Descriptor, DropReason, Event, EventKind, Fixed, Host, Qdisc, Scripted, TimerModel, Verdict,
    time::ms,
};
use std::vec::Vec;

const MP: u64 = MAX_PROBABILITY;

fn overloaded(config: Config, probability: u64) -> Pie<Descriptor> {
    let mut queue = Pie::new(config).unwrap();
    let mut cx = Context::at(ms(1_000));
    for id in 1..=10 {
        assert_eq!(queue.enqueue(Descriptor::new(1514).with_id(id), &mut cx), Verdict::Queued);
    }
    queue.controller = Controller { burst: 0, delay: 312_500, probability, ..Controller::INITIAL };
    queue
}

/// Case PI-04: marks up to 10 % inclusive, drops above; a mark leaves the accumulator to the random hit.
#[test]
fn marks_only_up_to_ten_percent() {
    let ecn = Config { ecn: Some(true), ..Config::default() };
    for (probability, ds, marked) in
        [(MP / 10, 2, true), (MP / 10, 1, true), (MP / 10, 3, true), (MP / 10, 0, false), (MP / 10 + 1, 2, false)]
    {
        let mut queue = overloaded(ecn, probability);
        queue.controller.accumulated = MP;
        let mut cx = Scripted::at(ms(1_001)).with_draws([0]);
        let verdict = queue.enqueue(Descriptor::new(1514).with_ds_field(ds), &mut cx);
        assert_eq!(verdict, if marked { Verdict::Queued } else { Verdict::Dropped }, "{probability} {ds}");
        let stats = queue.stats();
        assert_eq!((stats.ecn_mark, stats.dropped), if marked { (1, 0) } else { (0, 1) });
        assert_eq!(
            cx.dropped.iter().map(|drop| drop.reason).collect::<Vec<_>>(),
            [DropReason::Early][u8::from(marked).into()..]
        );
        assert_eq!(queue.controller.accumulated, 0);
    }
    // A forced mark does not reset it, a drop does.
    let mut queue = overloaded(ecn, MP / 10);
    queue.controller.accumulated = MP * 9;
    let mut cx = Scripted::at(ms(1_001));
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_ds_field(2), &mut cx), Verdict::Queued);
    assert!(queue.controller.accumulated > MP * 9);
    assert_eq!(queue.enqueue(Descriptor::new(1514), &mut cx), Verdict::Dropped);
    assert_eq!(queue.controller.accumulated, 0);
    // Without the option nothing is marked.
    let mut queue = overloaded(Config::default(), MP / 10);
    queue.controller.accumulated = MP * 9;
    assert_eq!(queue.enqueue(Descriptor::new(1514).with_ds_field(2), &mut cx), Verdict::Dropped);
}

/// A full queue drops without the early decision; every drop counts, and `maxq` looks before the packet is added.
#[test]
fn full_queue() {
    let mut queue = overloaded(Config { limit: Some(10), ..Config::default() }, MP);
    queue.controller.accumulated = 5;
    let mut cx = Scripted::at(ms(1_001));
    assert_eq!(queue.enqueue(Descriptor::new(1514), &mut cx), Verdict::Dropped);
    assert_eq!((cx.dropped[0].reason, cx.clock_reads), (DropReason::TailDrop, 0));
    let stats = queue.stats();
    assert_eq!((stats.overlimit, stats.dropped, stats.packets_in, stats.maxq), (1, 1, 10, 9));
    assert_eq!((queue.counters().drops, queue.controller.accumulated), (1, 0));
    let mut none = Pie::new(Config { limit: Some(0), ..Config::default() }).unwrap();
    assert_eq!(none.enqueue(Descriptor::new(64), &mut cx), Verdict::Dropped);
}

/// Case PI-05: nothing is dropped early in the first 150 ms of queueing; 200 Mbit/s into 10 Mbit/s.
#[test]
fn burst_allowance_is_150_ms() {
    let mut queue = Pie::new(Host { created_ns: ms(1_000), ..Host::default() }.into_setup()).unwrap();
    let first_drop = core::cell::Cell::new(None);
    let mut now = ms(1_000);
    let mut cx = Context::at(now).on_drop(|_: Descriptor, why| {
        assert_eq!(why, DropReason::Early);
        first_drop.set(Some(()));
    });
    let start = now + ms(600);
    let (mut next_in, mut next_out) = (start, start + 1_211_200);
    let mut dropped_at = None;
    while now < start + ms(1_000) && dropped_at.is_none() {
        let timer = queue.next_event().map_or(u64::MAX, |event| event.at_ns);
        now = next_in.min(next_out).min(timer);
        cx.set_now_ns(now);
        if now == timer {
            queue.on_timer(&mut cx);
        } else if now == next_in {
            // 200 Mbit/s, until the queue is far above the target.
            next_in += if queue.counters().qlen < 200 { 60_560 } else { 1_211_200 };
            let _ = queue.enqueue(Descriptor::new(1514), &mut cx);
        } else {
            next_out += 1_211_200;
            let _ = queue.dequeue(&mut cx);
        }
        dropped_at = first_drop.get().map(|()| now - start);
    }
    let dropped_at = dropped_at.expect("the queue stands at more than ten times the target");
    assert!((ms(150)..ms(250)).contains(&dropped_at), "{dropped_at}");
}

impl Host {
    fn into_setup(self) -> crate::Setup<Config> {
        Config::default().on_host(self)
    }
}

/// spec/common.md §2: HZ/2 first, then every tupdate + 1 jiffies; nominal timers exactly.
#[test]
fn timer_models() {
    let event = |at_ns| Some(Event { at_ns, kind: EventKind::Timer });
    let host = Host { created_ns: ms(4_000), ..Host::default() };
    let mut queue = Pie::<Descriptor>::new(host.into_setup()).unwrap();
    let mut cx = Context::at(ms(4_512));
    assert_eq!(queue.next_event(), event(ms(4_512)), "jiffy 1125 rounded up to 1128");
    queue.on_timer(&mut cx);
    assert_eq!(queue.next_event(), event(ms(4_532)));

    let mut queue = Pie::<Descriptor>::new(Host { timers: TimerModel::Nominal, ..host }.into_setup()).unwrap();
    assert_eq!(queue.next_event(), event(ms(4_500)));
    queue.on_timer(&mut cx);
    assert_eq!(queue.next_event(), event(ms(4_528)));
    queue.change(&Config { tupdate_us: Some(0), ..Config::default() }, &mut cx).unwrap();
    assert_eq!(queue.next_event(), event(ms(4_528)), "stops at its next expiry");
    queue.on_timer(&mut cx);
    assert_eq!(queue.next_event(), None);
    queue.change(&Config { tupdate_us: Some(16_000), ..Config::default() }, &mut cx).unwrap();
    queue.on_timer(&mut cx);
    assert_eq!(queue.next_event(), event(ms(4_528)), "whoever calls it runs it");
}

/// spec/pie.md §1 and §7: conversions, reports, change and reset.
#[test]
fn parameters_change_and_reset() {
    let mut queue = Pie::<Descriptor>::new(Config::default()).unwrap();
    let defaults = Parameters {
        limit: 1000,
        target_us: 15_000,
        tupdate_us: 16_000,
        alpha: 2,
        beta: 20,
        ecn: false,
        bytemode: false,
        dq_rate_estimator: false,
    };
    assert_eq!(queue.parameters(), defaults);
    assert_eq!((queue.law.target, queue.law.tupdate), (234_375, 4));
    let mut cx = Scripted::at(ms(1_000));
    for id in 1..=5 {
        let _ = queue.enqueue(Descriptor::new(1000).with_id(id), &mut cx);
    }
    assert_eq!(queue.peek(&mut cx).map(|packet| packet.id), Some(1));
    assert_eq!((queue.counters().qlen, queue.counters().sent_packets), (5, 1), "parked, yet sent");
    let config = Config {
        limit: Some(2),
        target_us: Some(5_000_001),
        tupdate_us: Some(30_001),
        alpha: Some(3),
        beta: Some(4),
        ecn: Some(true),
        bytemode: Some(true),
        dq_rate_estimator: Some(true),
    };
    queue.change(&config, &mut cx).unwrap();
    assert_eq!(
        queue.parameters(),
        Parameters {
            limit: 2,
            target_us: ((78_125_015u64 << 6) as u32) / 1000,
            tupdate_us: 32_000,
            alpha: 3,
            beta: 4,
            ecn: true,
            bytemode: true,
            dq_rate_estimator: true,
        }
    );
    assert_eq!(
        cx.dropped.iter().map(|drop| (drop.packet.id, drop.reason)).collect::<Vec<_>>(),
        [(1, DropReason::Change), (2, DropReason::Change), (3, DropReason::Change)]
    );
    assert_eq!((cx.corrections.len(), cx.corrections[0].packets, cx.corrections[0].bytes), (1, 3, 3000));
    assert_eq!((queue.counters().drops, queue.stats().dropped), (3, 0), "not drops of the AQM");
    assert_eq!(queue.stats().avg_dq_rate_bytes, Some(0));

    queue.controller = Controller {
        probability: MP,
        accumulated: 1,
        delay: 2,
        old_delay: 3,
        burst: 4,
        last_dequeue: 5,
        cycle_bytes: 6,
        drain_rate: 7,
    };
    queue.reset(&mut cx);
    let kept = Controller { probability: MP, delay: 2, old_delay: 3, ..Controller::INITIAL };
    assert_eq!(*queue.controller(), kept);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, cx.dropped.len()), (0, 0, 5));
    assert_eq!(queue.stats().prob, u64::MAX - 255);
    assert_eq!(queue.dequeue(&mut cx), None);
}

/// spec/pie.md §10.5.
#[test]
fn delay_is_zero_when_the_queue_runs_empty() {
    let mut queue = Pie::new(Config::default()).unwrap();
    let mut cx = Context::at(ms(1_000));
    let _ = queue.enqueue(Descriptor::new(64), &mut cx);
    let _ = queue.enqueue(Descriptor::new(64), &mut cx);
    cx.advance_ns(ms(20));
    let _ = queue.dequeue(&mut cx);
    assert_eq!((queue.controller.delay, queue.stats().delay_us), (312_500, 20_000));
    cx.advance_ns(ms(20));
    let _ = queue.dequeue(&mut cx);
    assert_eq!(queue.controller.delay, 0);
    assert_eq!(queue.controller.burst, 2_343_750 - 312_500);
}

/// Fixed storage refuses what it cannot hold, and never holds more.
#[test]
fn fixed_storage_bounds() {
    type Small = Pie<Descriptor, Fixed<1, 4>>;
    let config = |limit| Config { limit: Some(limit), ..Config::default() };
    assert_eq!(Small::in_storage(config(5)).unwrap_err().option, "limit");
    let mut queue = Small::in_storage(config(4)).unwrap();
    let mut cx = Scripted::at(ms(1_000));
    queue.change(&config(100), &mut cx).unwrap();
    for id in 0..6 {
        let verdict = queue.enqueue(Descriptor::new(100).with_id(id), &mut cx);
        assert_eq!(verdict, if id < 4 { Verdict::Queued } else { Verdict::Dropped });
    }
    assert!(cx.dropped.len() == 2 && cx.dropped.iter().all(|drop| drop.reason == DropReason::StorageFull));
}

/// Conservation after every call of a random sequence, and the backlog as the sum of what waits.
#[test]
fn conservation() {
    bolero::check!().with_type::<u64>().with_iterations(300).for_each(|&seed| {
        let mut cx = Chance::new(seed);
        let random = |cx: &mut Chance| Config {
            limit: Some(cx.below(60) as u32),
            target_us: Some(cx.below(20_000) as u32),
            tupdate_us: Some(cx.below(40_000) as u32),
            alpha: Some(cx.below(33) as u32),
            beta: Some(cx.below(33) as u32),
            ecn: Some(cx.below(2) == 0),
            bytemode: Some(cx.below(2) == 0),
            dq_rate_estimator: Some(cx.below(4) == 0),
        };
        let mut queue = Pie::new(random(&mut cx)).unwrap();
        let change = |queue: &mut Pie<Descriptor>, cx: &mut Chance| queue.change(&random(cx), cx).unwrap();
        conservation::run(&mut queue, &mut cx, 400, false, change, |queue| {
            let parked = u32::from(queue.parked.is_some());
            assert_eq!(queue.counters().qlen, queue.slab.len(&queue.fifo) + parked);
            assert!(queue.controller.burst <= Controller::INITIAL.burst);
        });
    });
}
