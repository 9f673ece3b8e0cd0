use alloc::vec::Vec;

use super::*;
use crate::{
    Configure, Descriptor, DropReason, Environment, Fixed, Heap, Host, Linux, Qdisc, Scripted, TreeCorrection, Verdict,
    codel, fifo::Bfifo, fq_codel::FqCodel, time::ms,
};

/// The example of spec/red.md §9.
fn options() -> Options {
    Options { min_bytes: Some(30_000), max_bytes: Some(90_000), burst: Some(55), ..Options::new(400_000, 1000) }
}

fn config() -> Config {
    options().config().unwrap()
}

type Made = Red<Descriptor>;

fn with_average(config: Config, bytes: u64) -> Made {
    let mut queue = Made::new(config).unwrap();
    queue.average.scaled_bytes = bytes << config.wlog;
    queue
}

fn capable() -> Descriptor {
    Descriptor::new(1000).with_ds_field(2)
}

const HALF: u64 = 0x8000_0000;

#[test]
fn derived_parameters() {
    let config = config();
    assert_eq!((config.wlog, config.plog, config.scell_log, config.max_p), (5, 22, 15, 85_899_345));
    assert_eq!(config.idle_table[..6], [0; 6]);
    assert_eq!([50, 100, 200, 254, 255].map(|i| config.idle_table[i]), [4, 8, 16, 21, 31]);
    let law = Made::new(config).unwrap().law;
    let expected = Law::new(&Thresholds { min: 30_000, max: 90_000, wlog: 5, plog: 0, max_p: 85_899_345 });
    assert_eq!(law, expected);
    let text = alloc::format!("{law:?}");
    for field in
        ["min: 960000", "max: 2880000", "delta: 60000", "divisor: 1431", "target_low: 54000", "target_high: 66000"]
    {
        assert!(text.contains(field), "{text}");
    }
}

#[test]
fn defaults_that_tc_derives() {
    let config = Options::new(400_000, 1000).config().unwrap();
    assert_eq!((config.min_bytes, config.max_bytes), (33_333, 100_000));
    let config = Options { min_bytes: Some(10_000), ..Options::new(400_000, 1000) }.config().unwrap();
    assert_eq!((config.min_bytes, config.max_bytes), (10_000, 30_000));
    assert_eq!(Options { burst: Some(1), ..options() }.config().unwrap_err().option, "burst");
    assert_eq!(Options { max_bytes: Some(30_000), ..options() }.config().unwrap_err().option, "max");
    assert_eq!(Options::new(0, 1000).config().unwrap_err().option, "limit");
    assert_eq!(Options::new(1000, 0).config().unwrap_err().option, "avpkt");
    assert_eq!(Options { bandwidth: 0, ..options() }.config().unwrap_err().option, "bandwidth");
}

#[test]
fn max_p_from_plog() {
    let law = |plog, max_p| Law::new(&Thresholds { min: 0, max: 7, wlog: 0, plog, max_p });
    assert_eq!(law(10, 0).max_p, (u32::MAX >> 10) * 7);
    assert_eq!(law(1, 0).max_p, (u32::MAX >> 1).wrapping_mul(7), "cut to 32 bits");
    assert_eq!(law(32, 0).max_p, u32::MAX.wrapping_mul(7));
    assert_eq!(law(10, 5).max_p, 5);
}

#[test]
fn average_of_a_constant_backlog() {
    let law = Law::new(&config().thresholds());
    let mut average = Average::START;
    let mut series = Vec::new();
    for _ in 0..20 {
        average.follow(&law, 60_000);
        series.push(average.scaled_bytes);
    }
    assert_eq!(series[..10], [60_000, 118_125, 174_434, 228_983, 281_828, 333_021, 382_615, 430_659, 477_201, 522_289]);
    assert_eq!(series[19], 902_506);
}

#[test]
fn first_mark_at_packet_82() {
    let law = Law::new(&config().thresholds());
    let mut average = Average::START;
    let mut draws = 0;
    for packet in 1..=82 {
        average.follow(&law, 60_000);
        let decision = average.decide(&law, || {
            draws += 1;
            HALF as u32
        });
        assert_eq!(decision, if packet == 82 { Decision::Probabilistic } else { Decision::Pass }, "{packet}");
        match packet {
            21 => assert_eq!((average.count, draws), (-1, 0)),
            22 => assert_eq!((average.scaled_bytes, average.count, average.random, draws), (965_107, 0, 1_500_687, 1)),
            50 => assert_eq!((average.scaled_bytes, average.count), (1_527_470, 28)),
            82 => assert_eq!(((average.scaled_bytes * 10 + 16) / 32, average.count, draws), (555_592, 0, 2)),
            _ => {}
        }
    }
}

#[test]
fn idle_periods_shrink_the_average() {
    let mut queue = with_average(config(), 45_000);
    queue.average.idle_since_ns = ms(5000);
    let after = |ns: u64| queue.after_idle(ms(5000) + ns);
    assert_eq!([1, 5, 10].map(|n| after(ms(n))), [1_396_055, 1_220_274, 1_000_547]);
    assert_eq!([50, 100, 400].map(|n| after(ms(n))), [720_000; 3], "the table says 0, and half is the floor");
    assert_eq!(after(ms(1000)), 360_000, "table entry 30 says 2 bits");
    assert_eq!(after(ms(1_000_000)), 0, "the last entry, 31 bits");
    assert_eq!(after(0), 1_440_000);
}

#[test]
fn an_idle_period_ends_with_the_arrival_and_does_not_add_the_backlog() {
    let mut cx = Scripted::at(ms(5000));
    let mut queue = with_average(config(), 20_000);
    assert_eq!(queue.dequeue(&mut cx), None);
    assert_eq!((queue.average().idle_since_ns, cx.clock_reads), (ms(5000), 1));
    cx.now_ns += ms(1);
    assert_eq!(queue.dequeue(&mut cx), None);
    assert_eq!((queue.average().idle_since_ns, cx.clock_reads), (ms(5000), 1), "it runs already");
    assert_eq!(queue.peek(&mut cx), None);
    assert_eq!(queue.enqueue(capable(), &mut cx), Verdict::Queued);
    assert_eq!((queue.average().idle_since_ns, cx.clock_reads), (0, 2));
    let left = queue.average().scaled_bytes;
    assert_eq!(left, 640_000 - ((640_000 * 1000) >> 15));
    assert_eq!(queue.enqueue(capable(), &mut cx), Verdict::Queued);
    assert_eq!(queue.average().scaled_bytes, left + 1000 - (left >> 5));
    assert_eq!(cx.clock_reads, 2, "no clock while busy");
}

#[test]
fn adaptation() {
    let mut law = Law::new(&config().thresholds());
    let mut step = |average| {
        law.adapt(average);
        let text = alloc::format!("{law:?}");
        let divisor = text.split("divisor: ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
        (law.max_p, divisor.parse().unwrap())
    };
    let up: Vec<(u32, u32)> = (0..5).map(|_| step(80_000)).collect();
    assert_eq!(
        up,
        [(107_374_181, 1790), (134_217_726, 2237), (167_772_157, 2796), (209_715_196, 3495), (252_664_869, 4211)]
    );
    let down: Vec<(u32, u32)> = (0..3).map(|_| step(40_000)).collect();
    assert_eq!(down, [(227_398_374, 3790), (204_658_533, 3411), (184_192_677, 3070)]);
    // On target nothing moves, but the divisor is rounded again; the bounds themselves are on target.
    for average in [54_000, 60_000, 66_000] {
        assert_eq!(step(average), (184_192_677, 3070));
    }
}

#[test]
fn adaptation_stops_at_its_bounds() {
    let adapted = |max_p, average| {
        let mut law = Law::new(&Thresholds { max_p, ..config().thresholds() });
        law.adapt(average);
        law.max_p
    };
    assert_eq!(adapted(2_147_483_650, 80_000), 2_147_483_650 + 42_949_673);
    assert_eq!(adapted(2_147_483_651, 80_000), 2_147_483_651);
    assert_eq!(adapted(42_949_673, 40_000), 38_654_703);
    assert_eq!(adapted(42_949_672, 40_000), 42_949_672);
}

#[test]
fn adaptive_runs_only_with_the_legacy_flags() {
    let mut cx = Scripted::at(ms(10_000));
    let host = Host { created_ns: ms(10_000), ..Host::default() };
    let attribute = Config { adaptive: true, ..config() };
    let queue = Made::new(attribute.on_host(host)).unwrap();
    assert!(queue.parameters().adaptive);
    assert_eq!(queue.next_event(), None);
    let legacy = Config { legacy_flags: true, ..attribute };
    let mut queue = Made::new(legacy.on_host(host)).unwrap();
    let due = queue.next_event().unwrap().at_ns;
    assert!((126..=133).contains(&((due - ms(10_000)) / ms(4))), "{due}");
    queue.average.scaled_bytes = 80_000 << 5;
    queue.average.idle_since_ns = 0;
    cx.now_ns = due;
    queue.on_timer(&mut cx);
    assert_eq!(queue.parameters().max_p, 107_374_181);
    assert_eq!(cx.clock_reads, 0);
    assert!(queue.next_event().is_some_and(|event| event.at_ns > due), "it arms itself again");
    // An idle queue adapts to what the idle period leaves, and keeps its average.
    queue.average.idle_since_ns = due;
    cx.now_ns = due + ms(1000);
    queue.on_timer(&mut cx);
    assert_eq!(queue.average().scaled_bytes, 80_000 << 5);
    assert_eq!(queue.parameters().max_p, 107_374_181 / 10 * 9, "80000 bytes are 20000 after a second");
    queue.change(&attribute, &mut cx).unwrap();
    assert_eq!(queue.next_event(), None);
}

#[test]
fn what_happens_between_and_above_the_thresholds() {
    use Verdict::{Congested, Queued};
    let flags = |ecn, harddrop, nodrop| Config { ecn, harddrop, nodrop, ..config() };
    // (flags, ECN-capable, average bytes) → verdict, marked, [prob_drop, prob_mark, forced_drop, forced_mark]
    let cases = [
        (flags(false, false, false), true, 60_000, Congested, [1, 0, 0, 0]),
        (flags(true, false, false), true, 60_000, Queued, [0, 1, 0, 0]),
        (flags(true, false, false), false, 60_000, Congested, [1, 0, 0, 0]),
        (flags(true, false, true), false, 60_000, Queued, [0, 0, 0, 0]),
        (flags(true, true, false), true, 60_000, Queued, [0, 1, 0, 0]),
        (flags(true, true, true), false, 60_000, Queued, [0, 0, 0, 0]),
        (flags(false, false, false), true, 95_000, Congested, [0, 0, 1, 0]),
        (flags(true, false, false), true, 95_000, Queued, [0, 0, 0, 1]),
        (flags(true, false, false), false, 95_000, Congested, [0, 0, 1, 0]),
        (flags(true, false, true), false, 95_000, Queued, [0, 0, 0, 0]),
        (flags(true, true, false), true, 95_000, Congested, [0, 0, 1, 0]),
        (flags(true, true, true), false, 95_000, Congested, [0, 0, 1, 0]),
    ];
    for (case, (config, ecn, average, verdict, counts)) in cases.into_iter().enumerate() {
        let mut cx = Scripted::at(1).with_draws([7]);
        let mut queue = with_average(config, average);
        (queue.average.count, queue.average.idle_since_ns) = (0, 0);
        let packet = Descriptor::new(1000).with_ds_field(if ecn { 2 } else { 0 });
        assert_eq!(queue.enqueue(packet, &mut cx), verdict, "{case}");
        let stats = queue.stats();
        assert_eq!([stats.prob_drop, stats.prob_mark, stats.forced_drop, stats.forced_mark], counts, "{case}");
        assert_eq!((stats.early(), stats.marked()), (counts[0] + counts[2], counts[1] + counts[3]), "{case}");
        assert_eq!(queue.counters().overlimits, 1, "{case}");
        assert_eq!(queue.counters().drops, u32::from(verdict == Congested), "{case}");
        assert_eq!(cx.dropped.len(), usize::from(verdict == Congested), "{case}");
        let marked = counts[1] + counts[3] == 1;
        let sent = queue.dequeue(&mut cx);
        assert_eq!(sent.is_some_and(|packet| packet.ds_field == Some(3)), marked, "{case}");
        let hard = average > 90_000;
        assert_eq!((queue.average().count, cx.draws.len()), if hard { (-1, 1) } else { (0, 0) }, "{case}");
    }
}

#[test]
fn a_full_inner_fifo_is_a_drop_not_congestion() {
    let mut cx = Scripted::at(1);
    let mut queue = Made::new(Config { limit_bytes: 1500, ..config() }).unwrap();
    assert_eq!(queue.enqueue(capable(), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(capable(), &mut cx), Verdict::Dropped);
    assert_eq!((queue.stats().pdrop, queue.counters().drops, queue.counters().overlimits), (1, 1, 0));
    assert_eq!((queue.counters().qlen, queue.child_counters().qlen, queue.child_counters().drops), (1, 1, 1));
}

#[test]
fn without_a_limit_everything_is_lost_until_a_child_is_attached() {
    let mut cx = Scripted::at(1);
    let mut queue: Red<Descriptor, Heap, FqCodel<Descriptor>> =
        Red::in_storage(Config { limit_bytes: 0, ..config() }).unwrap();
    assert_eq!(queue.enqueue(capable(), &mut cx), Verdict::Congested);
    assert_eq!((queue.stats().pdrop, queue.counters().drops, queue.counters().qlen), (1, 1, 0));
    queue.attach(FqCodel::new(crate::fq_codel::Config::default()).unwrap(), &mut cx);
    for _ in 0..3 {
        assert_eq!(queue.enqueue(capable(), &mut cx), Verdict::Queued);
    }
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (3, 3000));
    assert!(queue.peek(&mut cx).is_some());
    assert_eq!((queue.counters().qlen, queue.child().unwrap().counters().qlen), (3, 3));
    assert!(queue.dequeue(&mut cx).is_some());
    assert_eq!((queue.counters().qlen, queue.counters().sent_bytes), (2, 1000));
    // A change with a limit takes the child away.
    cx.corrections.clear();
    queue.change(&config(), &mut cx).unwrap();
    assert!(queue.child().is_none());
    assert_eq!(cx.corrections, [TreeCorrection { packets: 2, bytes: 2000, emptied: true }]);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, queue.counters().drops), (0, 0, 3));
    assert!(cx.dropped[1..].iter().all(|drop| drop.reason == DropReason::Change));
}

#[test]
fn a_childs_corrections_reach_red_and_its_ancestors() {
    let mut cx = Scripted::at(ms(5000));
    let mut queue: Red<Descriptor, Heap, codel::Codel<Descriptor>> = Red::in_storage(config()).unwrap();
    queue.attach(codel::Codel::new(codel::Config::default()).unwrap(), &mut cx);
    for _ in 0..8 {
        assert_eq!(queue.enqueue(Descriptor::new(1000), &mut cx), Verdict::Queued);
    }
    let mut sent = 0;
    for _ in 0..3 {
        cx.now_ns += ms(150);
        sent += u32::from(queue.dequeue(&mut cx).is_some());
    }
    let dropped = cx.dropped.len() as u32;
    assert!(dropped > 0, "codel drops at dequeue");
    let counters = *queue.counters();
    assert_eq!((counters.qlen, counters.drops), (8 - sent - dropped, dropped));
    assert_eq!(counters.qlen, queue.child_counters().qlen);
    assert_eq!(counters.backlog_bytes, queue.child_counters().backlog_bytes);
    assert!(cx.corrections.iter().all(|correction| !correction.emptied && correction.packets > 0));
}

#[test]
fn change_restarts_the_average_and_keeps_the_cached_draw() {
    let mut cx = Scripted::at(ms(7));
    let mut queue = with_average(config(), 60_000);
    queue.average = Average { count: 3, random: u32::MAX, idle_since_ns: 0, ..queue.average };
    assert_eq!(queue.enqueue(capable(), &mut cx), Verdict::Queued);
    queue.change(&Config { limit_bytes: 0, ..config() }, &mut cx).unwrap();
    let kept = Average { scaled_bytes: 0, count: -1, random: u32::MAX, idle_since_ns: 0 };
    assert_eq!(*queue.average(), kept, "the inner queue is not empty");
    assert_eq!(queue.counters().qlen, 1, "limit 0 leaves the inner queue alone");
    queue.change(&config(), &mut cx).unwrap();
    assert_eq!(*queue.average(), Average { idle_since_ns: ms(7), ..kept });
    assert_eq!((queue.counters().qlen, cx.dropped.len()), (0, 1));
    cx.now_ns += 5;
    queue.change(&config(), &mut cx).unwrap();
    assert_eq!(queue.average().idle_since_ns, ms(7) + 5, "a running idle period starts over");
    assert_eq!(cx.corrections.len(), 1, "nothing more to give up");
    queue.reset(&mut cx);
    assert_eq!(*queue.average(), kept);
}

#[test]
fn refused_configurations() {
    let made = |config: Config| Made::new(config).map(|_| ()).map_err(|error| error.option);
    // RD-01 and RD-02 of the known faults.
    for (ecn, harddrop, adaptive, nodrop, ok) in [
        (false, false, false, false, true),
        (false, false, true, false, true),
        (true, false, false, false, true),
        (true, false, true, false, true),
        (true, true, false, false, true),
        (true, false, false, true, true),
        (false, false, false, true, false),
        (true, true, false, true, true),
    ] {
        assert_eq!(made(Config { ecn, harddrop, adaptive, nodrop, ..config() }).is_ok(), ok);
    }
    for (scell_log, ok) in [(31, true), (32, false), (72, false), (255, false)] {
        assert_eq!(made(Config { scell_log, ..config() }).is_ok(), ok, "{scell_log}");
    }
    let mut table = config();
    table.idle_table[77] = 32;
    assert_eq!(made(table), Err("idle_table"));
    table.idle_table[77] = 31;
    assert_eq!(made(table), Ok(()));
    // min 30000 has 15 bits, max 90000 17.
    assert_eq!(made(Config { wlog: 14, ..config() }), Ok(()));
    assert_eq!(made(Config { wlog: 15, ..config() }), Err("max"));
    assert_eq!(made(Config { wlog: 17, ..config() }), Err("min"));
    assert_eq!(made(Config { wlog: 255, min_bytes: 0, max_bytes: 0, ..config() }), Err("min"));
    assert_eq!(made(Config { wlog: 31, min_bytes: 0, max_bytes: 0, ..config() }), Ok(()));
    assert_eq!(made(Config { max_bytes: 29_999, ..config() }), Err("max"));
    assert_eq!(made(Config { max_bytes: 30_000, ..config() }), Ok(()));
    let mut cx = Scripted::at(1);
    let mut queue = Made::new(config()).unwrap();
    assert!(queue.change(&Config { scell_log: 32, ..config() }, &mut cx).is_err());
    assert_eq!(queue.parameters().scell_log, 15);
    assert!(!queue.can_bypass());
}

#[test]
fn largest_cell_is_cut_to_32_bits() {
    let mut queue = with_average(Config { scell_log: 31, ..config() }, 45_000);
    queue.average.idle_since_ns = 1;
    // 255·2^31 is 2^31 in 32 bits: cell 1 is the last that is ever reached.
    let mut table = [0u8; 256];
    table[1] = 5;
    queue.config.idle_table = table;
    assert_eq!(queue.after_idle(u64::MAX >> 2), 1_440_000 >> 5);
}

#[test]
fn without_heap() {
    let mut cx = Scripted::at(1);
    let mut queue: Red<Descriptor, Fixed<0, 4>, Bfifo<Descriptor, Fixed<0, 4>>> =
        Red::in_storage(config().behave_like(Linux::V6_1)).unwrap();
    for id in 1..=5 {
        let verdict = queue.enqueue(capable(), &mut cx);
        assert_eq!(verdict, if id <= 4 { Verdict::Queued } else { Verdict::Dropped });
    }
    assert_eq!((queue.stats().pdrop, cx.dropped[0].reason), (1, DropReason::StorageFull));
    let _ = cx.coarse_now_ns();
}

#[test]
fn random_calls_conserve_packets() {
    use crate::conservation::{self, Chance};
    let base = Config { min_bytes: 10_000, max_bytes: 30_000, limit_bytes: 60_000, wlog: 2, ..config() };
    for (seed, config) in [
        base,
        Config { ecn: true, ..base },
        Config { ecn: true, nodrop: true, limit_bytes: 20_000, ..base },
        Config { ecn: true, harddrop: true, adaptive: true, legacy_flags: true, ..base },
        Config { limit_bytes: 0, ..base },
    ]
    .into_iter()
    .enumerate()
    {
        let changes = |queue: &mut Made, cx: &mut Chance| queue.change(&config, cx).unwrap();
        let same = |queue: &Made| {
            let (own, inner) = (queue.counters(), queue.child_counters());
            assert_eq!((own.qlen, own.backlog_bytes), (inner.qlen, inner.backlog_bytes));
        };
        let mut queue = Made::new(config).unwrap();
        conservation::run(&mut queue, &mut Chance::new(seed as u64), 20_000, false, changes, same);
    }
    let mut queue = Red::<Descriptor, Heap, FqCodel<Descriptor>>::in_storage(base).unwrap();
    let mut cx = Chance::new(7);
    queue.attach(FqCodel::new(crate::fq_codel::Config { limit: Some(10), ..Default::default() }).unwrap(), &mut cx);
    conservation::run(&mut queue, &mut cx, 20_000, false, |_, _| {}, |_| {});
    assert!(queue.stats().pdrop > 0, "fq_codel answers congestion, too");
}
