use super::*;
use crate::{Configure, Context, Counters, Descriptor, DropReason, Host, Linux, Qdisc, Scripted, Verdict, time::ms};
use std::{format, vec::Vec};

/// spec/vectors/codel.txt: the controller over one FIFO, both version families.
#[test]
fn vector_file() {
    let mut steps = 0;
    for linux in [Linux::V6_1, Linux::V6_12, Linux::V7_2] {
        let mut queue: Option<Codel<Descriptor>> = None;
        let mut cx = Scripted::at(0);
        for (number, line) in include_str!("../../tests/vectors/codel.txt").lines().enumerate() {
            let (call, expected) = line.split_once(" => ").unwrap_or((line, ""));
            let mut words = call.split(' ');
            let kind = words.next().unwrap_or_default();
            if kind == "#" || kind == "P" {
                queue = None;
            }
            if kind == "P" {
                let family = words.next().unwrap_or_default();
                if family.split('/').any(|series| series == linux.series()) {
                    let p: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
                    let setup = Config { limit: Some(u32::MAX), ..Config::default() }.behave_like(linux);
                    let made = queue.insert(Codel::in_storage(setup).unwrap());
                    made.law.target = p[0];
                    made.law.interval = p[1];
                    made.law.ce_threshold = p[2];
                    made.law.ecn = p[3] != 0;
                    (made.law.selector, made.law.mask) = (p[4] as u8, p[5] as u8);
                }
                continue;
            }
            let Some(queue) = queue.as_mut() else { continue };
            let n: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
            match kind {
                "B" => queue.controller.count = queue.controller.count.wrapping_add(n[0] as u32),
                "E" | "N" => {
                    let (copies, n) = if kind == "N" { (n[0], &n[1..]) } else { (1, &n[..]) };
                    cx.now_ns = n[0];
                    for _ in 0..copies {
                        let packet = Descriptor::new(n[1] as u32).with_ds_field(n[2] as u8);
                        assert_eq!(queue.enqueue(packet, &mut cx), Verdict::Queued);
                    }
                }
                "D" => {
                    cx.now_ns = n[0];
                    let packet = queue.dequeue(&mut cx);
                    let (len, ecn) = packet
                        .map_or((-1, -1), |p| (i64::from(p.len_bytes), i64::from(p.ds_field.unwrap_or_default())));
                    let (c, s) = (queue.controller, queue.shared);
                    let Counters { drops, backlog_bytes, .. } = *queue.counters();
                    let actual = format!(
                        "{len} {ecn} | {} {} {} {} {} {} {} {} {} {} {drops} {backlog_bytes}",
                        c.count,
                        c.lastcount,
                        u8::from(c.dropping),
                        c.rec_inv_sqrt,
                        c.first_above_time,
                        c.drop_next,
                        c.ldelay,
                        s.maxpacket_bytes,
                        s.ecn_mark,
                        s.ce_mark
                    );
                    assert_eq!(actual.trim_end(), expected.trim_end(), "line {}, Linux {linux}", number + 1);
                    steps += 1;
                }
                other => panic!("line {}: unknown operation {other}", number + 1),
            }
        }
    }
    assert_eq!(steps, 1902, "dequeues compared");
}

/// spec/codel.md §7.1 and §7.2: 1/√count by one Newton step per count, and from a stale start.
#[test]
fn newton_steps() {
    let step = |count, rec_inv_sqrt| {
        let mut controller = Controller { count, rec_inv_sqrt, ..Controller::default() };
        controller.newton_step();
        controller.rec_inv_sqrt
    };
    let mut inv = u16::MAX;
    let expected = [
        (2, 32769),
        (3, 36864),
        (4, 31968),
        (5, 28935),
        (10, 20647),
        (16, 16360),
        (32, 11580),
        (100, 6553),
        (1000, 2072),
        (2000, 1465),
    ];
    let mut checked = 0;
    for count in 2..=2000 {
        inv = step(count, inv);
        if let Some((_, wanted)) = expected.iter().find(|(at, _)| *at == count) {
            assert_eq!(inv, *wanted, "count {count}");
            checked += 1;
        }
    }
    assert_eq!(checked, expected.len());
    for (count, wanted) in [(3, 2), (4, 32772), (5, 5), (8, 32778), (64, 32862), (66, 32865), (1000, 34266)] {
        assert_eq!(step(count, u16::MAX), wanted, "stale, count {count}");
    }
    assert_eq!((step(67, 32865), step(68, 34565), step(69, 52617)), (34565, 52617, 22898));
    assert_eq!(step(12345, 0), 0);
    assert_eq!(step(9, 20647), 21748);
}

/// spec/codel.md §7.3: 600 packets at once, one dequeue every 1.2 ms.
#[test]
fn full_run() {
    let mut queue = Codel::new(Config::default().behave_like(Linux::V6_12)).unwrap();
    let mut cx = Context::at(ms(1000));
    for id in 1..=600 {
        let _ = queue.enqueue(Descriptor::new(1500).with_id(id), &mut cx);
    }
    let expected = [
        (5, 5, [0, 0, 0, 0, 1080077, 0, 5859], 0),
        (89, 90, [1, 1, 1, 65535, 1080077, 1178513, 104297], 1),
        (173, 175, [2, 1, 1, 32769, 1080077, 1227342, 202734], 2),
        (214, 217, [3, 1, 1, 36864, 1080077, 1282273, 250781], 3),
        (404, 412, [8, 1, 1, 23037, 1080077, 1483448, 473438], 8),
        (461, 471, [10, 1, 1, 20647, 1080077, 1546617, 540234], 10),
        (581, 596, [15, 1, 1, 16893, 1080077, 1682330, 680859], 15),
        (584, 599, [15, 1, 0, 16893, 0, 1682330, 684375], 15),
        (586, 0, [15, 1, 0, 16893, 0, 1682330, 685547], 15),
    ];
    let mut checked = 0;
    for k in 1..=586u64 {
        cx.advance_ns(1_200_000);
        let id = queue.dequeue(&mut cx).map_or(0, |packet| packet.id);
        if let Some(&(_, wanted, state, drops)) = expected.iter().find(|row| row.0 == k) {
            let c = queue.controller();
            let dropping = u32::from(c.dropping);
            let actual =
                [c.count, c.lastcount, dropping, c.rec_inv_sqrt.into(), c.first_above_time, c.drop_next, c.ldelay];
            assert_eq!((id, actual, queue.counters().drops), (wanted, state, drops), "dequeue {k}");
            checked += 1;
        }
    }
    assert_eq!(checked, expected.len());
}

/// Case CD-04: with one MTU or less left after the take nothing is dropped and no timer runs, however late it is.
#[test]
fn one_mtu_is_never_dropped() {
    for (packets, timer_runs) in [(1, false), (2, false), (3, true)] {
        let mut queue = Codel::new(Config::default()).unwrap();
        let mut cx = Scripted::at(ms(10_000));
        for id in 0..packets {
            assert_eq!(queue.enqueue(Descriptor::new(1514).with_id(id), &mut cx), Verdict::Queued);
        }
        cx.now_ns += ms(10_000);
        assert_eq!(queue.dequeue(&mut cx).map(|packet| packet.id), Some(0));
        assert_eq!(queue.controller().first_above_time != 0, timer_runs, "{packets} packets");
        assert!(cx.dropped.is_empty());
    }
}

/// Tail drop at the limit, a lowered limit while a packet is parked, reset (spec/codel.md §5; case FC-06's kind).
#[test]
fn limits_change_and_reset() {
    let mut queue = Codel::new(Config { limit: Some(3), ..Config::default() }).unwrap();
    let mut cx = Scripted::at(ms(5000));
    for id in 1..=4 {
        let verdict = queue.enqueue(Descriptor::new(100 * id as u32).with_id(id), &mut cx);
        assert_eq!(verdict, if id <= 3 { Verdict::Queued } else { Verdict::Dropped });
    }
    assert_eq!(cx.dropped[0].reason, DropReason::TailDrop);
    assert_eq!(queue.stats(&mut cx).drop_overlimit, 1);
    assert_eq!(queue.peek(&mut cx).map(|packet| packet.id), Some(1));
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (3, 600));
    cx.corrections.clear();
    queue.change(&Config { limit: Some(1), ..Config::default() }, &mut cx).unwrap();
    // The parked packet goes first, then the FIFO's head.
    assert_eq!(cx.dropped[1..].iter().map(|d| d.packet.id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, queue.counters().drops), (1, 300, 3));
    assert_eq!(cx.corrections.len(), 1);
    assert_eq!((cx.corrections[0].packets, cx.corrections[0].bytes), (2, 300));
    queue.reset(&mut cx);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, queue.counters().drops), (0, 0, 3));
    assert!(queue.dequeue(&mut cx).is_none());
}

/// What tc sets is reported one CoDel unit short (spec/codel.md §1).
#[test]
fn times_read_back_truncated() {
    let queue: Codel<Descriptor> = Codel::new(Config { ce_threshold_us: Some(1), ..Config::default() }).unwrap();
    let p = queue.parameters();
    assert_eq!((p.target_us, p.interval_us, p.ce_threshold_us), (4999, 99999, Some(0)));
}

/// Jumbo frames raise the floor; absurd MTUs are capped.
#[test]
fn mtu_floor_is_the_devices() {
    for (mtu_bytes, floor) in [(1500, 1514), (9000, 9014), (u32::MAX, 1 << 20)] {
        let host = Host { mtu_bytes, ..Host::default() };
        let queue: Codel<Descriptor> = Codel::new(Config::default().on_host(host)).unwrap();
        assert_eq!(queue.law.mtu, floor);
    }
}
