use std::{format, string::String, vec::Vec};

use super::*;
use crate::{
    Classified, Configure, Descriptor, DropReason, Environment, Fixed, Host, Linux, Packet, Qdisc, Scripted,
    SplitMix64, Storage, TreeCorrection, Verdict, net::SipKey, time::ms,
};

/// What the vector file prints of a packet's ECN bits.
fn ecn(packet: Option<&Descriptor>) -> (u64, u8) {
    packet.map_or((0, 0), |p| (p.id, p.ds_field.unwrap_or_default()))
}

/// The vector file's state line.
fn state<S: Storage>(queue: &FqCodel<Descriptor, S>, cx: &mut Scripted<Descriptor>) -> String {
    let (c, s) = (*queue.counters(), queue.stats());
    let mut dropped: Vec<u64> = cx.dropped.drain(..).map(|dropped| dropped.packet.id).collect();
    // The file lists each call's drops oldest first.
    dropped.sort_unstable();
    let dropped: Vec<String> = dropped.iter().map(|id| format!("{id}")).collect();
    let trees: Vec<String> =
        cx.corrections.drain(..).map(|tree| format!("({},{})", tree.packets, tree.bytes)).collect();
    format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} | {} | {}",
        c.qlen,
        c.backlog_bytes,
        c.drops,
        c.sent_bytes,
        c.sent_packets,
        s.memory_usage_bytes,
        s.drop_overmemory,
        s.drop_overlimit,
        s.new_flow_count,
        s.new_flows_len,
        s.old_flows_len,
        s.maxpacket_bytes,
        s.ecn_mark,
        s.ce_mark,
        dropped.join(" "),
        trees.join(" ")
    )
}

/// Replays spec/vectors/fq_codel.txt in the given storage; returns the steps compared.
fn replay_vectors<S: Storage>(fits: impl Fn(u32, u32) -> bool) -> usize {
    let mut steps = 0;
    for linux in Linux::ALL {
        let mut queue: Option<FqCodel<Descriptor, S>> = None;
        let mut cx = Scripted::at(0);
        let mut id = 0;
        for (number, line) in include_str!("../../tests/vectors/fq_codel.txt").lines().enumerate() {
            let (call, expected) = line.split_once(" => ").unwrap_or((line, ""));
            let mut words = call.split(' ');
            let kind = words.next().unwrap_or_default();
            if kind == "P" {
                (queue, id) = (None, 0);
                let family = words.next().unwrap_or_default();
                let p: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
                if family.split('/').any(|series| series == linux.series()) && fits(p[1], p[0]) {
                    let config = Config {
                        limit: Some(p[0]),
                        flows: Some(p[1]),
                        quantum_bytes: Some(p[2]),
                        drop_batch: Some(p[3]),
                        memory_limit_bytes: Some(p[4]),
                        ecn: Some(p[7] != 0),
                        ce_threshold_selector: Some(Selector { value: p[9] as u8, mask: p[10] as u8 }),
                        ..Config::default()
                    };
                    let host = Host { handle: 0x10000, ..Host::default() };
                    let made = queue.insert(FqCodel::in_storage(config.behave_like(linux).on_host(host)).unwrap());
                    (made.law.target, made.law.interval, made.law.ce_threshold) = (p[5], p[6], p[8]);
                    made.law.mtu = p[11];
                }
                continue;
            }
            let Some(queue) = queue.as_mut().filter(|_| kind != "#") else { continue };
            let n: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
            cx.now_ns = n[0];
            let (id, result) = match kind {
                "E" => {
                    id += 1;
                    let mut packet = Descriptor::new(n[1] as u32).with_id(id).with_flow_hash(n[2] as u32);
                    (packet.truesize_bytes, packet.priority) = (n[4] as u32, n[5] as u32);
                    packet.ds_field = Some(n[3] as u8);
                    (id, queue.enqueue(packet, &mut cx).code())
                }
                "D" => {
                    let (id, ecn) = ecn(queue.dequeue(&mut cx).as_ref());
                    (id, ecn.into())
                }
                "G" => {
                    let (id, ecn) = ecn(queue.dequeue_peeked(&mut cx).as_ref());
                    (id, ecn.into())
                }
                "K" => {
                    let (id, ecn) = ecn(queue.peek(&mut cx));
                    (id, ecn.into())
                }
                other => panic!("line {}: unknown operation {other}", number + 1),
            };
            let actual = format!("{id} {result:x} | {}", state(queue, &mut cx));
            assert_eq!(actual.trim_end(), expected.trim_end(), "line {}, Linux {linux}", number + 1);
            steps += 1;
        }
    }
    steps
}

#[test]
fn vector_file_on_the_heap() {
    assert!(replay_vectors::<crate::Heap>(|_, _| true) > 2600);
}

#[test]
fn vector_file_without_heap() {
    assert!(replay_vectors::<Fixed<8, 64>>(|flows, limit| flows <= 8 && limit < 64) > 500);
}

fn bucket_hash(bucket: u32) -> u32 {
    bucket << 30
}

/// spec/fq_codel.md §8.1: the order of the deficit round robin.
#[test]
fn round_robin_order() {
    let config = Config { flows: Some(4), ..Config::default() };
    let mut queue = FqCodel::new(config).unwrap();
    let mut cx = Scripted::at(ms(5000));
    let mut put = |queue: &mut FqCodel<_>, id, len, bucket| {
        let packet = Descriptor::new(len).with_id(id).with_flow_hash(bucket_hash(bucket));
        assert_eq!(queue.enqueue(packet, &mut cx), Verdict::Queued);
    };
    for (id, len, bucket) in [(1, 1514, 0), (2, 1514, 0), (3, 1514, 0), (4, 300, 1), (5, 300, 1)] {
        put(&mut queue, id, len, bucket);
    }
    let mut cx2 = Scripted::at(ms(5000));
    let mut take = |queue: &mut FqCodel<Descriptor>| {
        let id = queue.dequeue(&mut cx2).map_or(0, |packet| packet.id);
        let (new, old) = queue.lists();
        let deficits: Vec<i32> = (0..3).map(|at| queue.flow(at).unwrap().deficit_bytes).collect();
        (id, new.collect::<Vec<_>>(), old.collect::<Vec<_>>(), deficits)
    };
    let row = |id, new: &[u32], old: &[u32], deficits: [i32; 3]| (id, new.to_vec(), old.to_vec(), deficits.to_vec());
    assert_eq!(take(&mut queue), row(1, &[0, 1], &[], [0, 1514, 0]));
    assert_eq!(take(&mut queue), row(4, &[1], &[0], [1514, 1214, 0]));
    assert_eq!(take(&mut queue), row(5, &[1], &[0], [1514, 914, 0]));
    put(&mut queue, 6, 64, 2);
    assert_eq!(take(&mut queue), row(6, &[2], &[0, 1], [1514, 914, 1450]));
    assert_eq!(take(&mut queue), row(2, &[], &[0, 1, 2], [0, 914, 1450]));
    assert_eq!(take(&mut queue), row(3, &[], &[0], [0, 914, 1450]));
    assert_eq!(take(&mut queue), row(0, &[], &[], [1514, 914, 1450]));
}

/// spec/fq_codel.md §8.2: batch drops, which bucket pays and what the parent hears.
#[test]
fn batch_drop() {
    let config = Config { flows: Some(4), limit: Some(10), ..Config::default() };
    let mut queue = FqCodel::new(config).unwrap();
    let mut cx = Scripted::at(ms(5000));
    let put = |queue: &mut FqCodel<_>, cx: &mut Scripted<_>, id, len, bucket| {
        queue.enqueue(Descriptor::new(len).with_id(id).with_flow_hash(bucket_hash(bucket)), cx)
    };
    for id in 1..=10 {
        let (len, bucket) = if id <= 6 { (1514, 1) } else { (1000, 2) };
        assert_eq!(put(&mut queue, &mut cx, id, len, bucket), Verdict::Queued);
    }
    assert_eq!(put(&mut queue, &mut cx, 11, 500, 3), Verdict::Queued);
    assert_eq!(cx.corrections, [TreeCorrection { packets: 3, bytes: 4542, emptied: false }]);
    // Newest first, as Linux hands a batch back.
    assert_eq!(cx.dropped.iter().map(|d| d.packet.id).collect::<Vec<_>>(), [3, 2, 1]);
    assert!(cx.dropped.iter().all(|d| d.reason == DropReason::OverLimit));
    assert_eq!(queue.flow(1).unwrap().controller.count, 3);
    assert_eq!(queue.stats().memory_usage_bytes, 15186);
    for id in [12, 13] {
        assert_eq!(put(&mut queue, &mut cx, id, 1514, 1), Verdict::Queued);
    }
    assert_eq!(put(&mut queue, &mut cx, 14, 1514, 1), Verdict::Congested);
    assert_eq!(cx.corrections[1], TreeCorrection { packets: 2, bytes: 3028, emptied: false });
    assert_eq!((queue.flow(1).unwrap().controller.count, queue.stats().drop_overlimit), (6, 6));
}

/// spec/fq_codel.md §8.3: a batch drop before the first CoDel drop leaves 1/√count at 0.
#[test]
fn batch_drop_meets_a_fresh_controller() {
    for (linux, drop_next) in [(Linux::V6_12, 1_080_859), (Linux::V7_2, 1_080_860)] {
        let config = Config { flows: Some(1), limit: Some(200), ecn: Some(false), ..Config::default() };
        let mut queue = FqCodel::new(config.behave_like(linux)).unwrap();
        let mut cx = Scripted::at(ms(1000));
        for _ in 0..260 {
            let _ = queue.enqueue(Descriptor::new(1514), &mut cx);
        }
        let c = queue.flow(0).unwrap().controller;
        assert_eq!((c.count, c.rec_inv_sqrt, queue.counters().qlen), (64, 0, 196));
        let mut state = Vec::new();
        while cx.now_ns < 1_108_000_000 {
            cx.now_ns += 1_200_000;
            let before = queue.counters().drops;
            let _ = queue.dequeue(&mut cx);
            let c = queue.flow(0).unwrap().controller;
            state.push((c.count, c.drop_next, c.dropping, queue.counters().drops - before));
        }
        assert_eq!(state[state.len() - 2], (64, drop_next, true, 1), "Linux {linux}");
        let last = state[state.len() - 1];
        assert_eq!((last.0, last.2, last.3), (168, false, 104), "Linux {linux}");
    }
}

/// Cases FC-01 and FC-02, and the ranges of spec/fq_codel.md §1.
#[test]
fn ranges() {
    let with = |config: Config| FqCodel::<Descriptor>::new(config).map(|queue| queue.parameters());
    for (given, wanted) in [(0, 256), (255, 256), (256, 256), (1 << 20, 1 << 20)] {
        let config = Config { quantum_bytes: Some(given), ..Config::default() };
        assert_eq!(with(config).unwrap().quantum_bytes, wanted);
    }
    for given in [(1 << 20) + 1, u32::MAX] {
        let error = with(Config { quantum_bytes: Some(given), ..Config::default() }).unwrap_err();
        assert_eq!(format!("{error}"), format!("fq_codel: quantum {given}: at most 1048576 bytes"));
    }
    for (given, wanted) in [(0, 1), (1, 1), (64, 64), (1000, 1000)] {
        assert_eq!(with(Config { drop_batch: Some(given), ..Config::default() }).unwrap().drop_batch, wanted);
    }
    for given in [0, 65537, u32::MAX] {
        assert_eq!(with(Config { flows: Some(given), ..Config::default() }).unwrap_err().option, "flows");
    }
    let memory = Config { memory_limit_bytes: Some(u32::MAX), ..Config::default() };
    assert_eq!(with(memory).unwrap().memory_limit_bytes, 1 << 31);
    assert_eq!(with(Config::default()).unwrap().memory_limit_bytes, 33_554_432); // case FC-10
}

/// Case FC-06: a limit that shrinks while a packet is parked gives up packets and bytes alike.
#[test]
fn shrinking_with_a_parked_packet() {
    let mut queue = FqCodel::new(Config { limit: Some(1000), ..Config::default() }).unwrap();
    let mut cx = Scripted::at(ms(5000));
    for id in 0..2 {
        let _ = queue.enqueue(Descriptor::new(74).with_id(id), &mut cx);
    }
    assert!(queue.peek(&mut cx).is_some());
    queue.change(&Config { limit: Some(0), ..Config::default() }, &mut cx).unwrap();
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes), (0, 0));
    assert_eq!(cx.corrections, [TreeCorrection { packets: 2, bytes: 148, emptied: true }]);
    assert!(cx.dropped.iter().all(|d| d.reason == DropReason::Change));
    assert_eq!(queue.counters().drops, 0, "removals by a change are not drops");
}

/// A change of `flows` is refused, even to the same number, and changes nothing.
#[test]
fn flows_are_fixed_at_creation() {
    let mut queue = FqCodel::<Descriptor>::new(Config::default()).unwrap();
    let mut cx = Scripted::at(ms(5000));
    let before = queue.parameters();
    let change = Config { flows: Some(1024), limit: Some(1), ..Config::default() };
    assert_eq!(queue.change(&change, &mut cx).unwrap_err().allowed, "only at creation");
    assert_eq!(queue.parameters(), before);
}

/// cases/mutants.md: an enqueue that ends exactly on the memory limit is within it; class selection at both ends;
/// the clock read anew for each bucket that CoDel visits.
#[test]
fn exact_hits() {
    let config = Config { memory_limit_bytes: Some(2 * 868), flows: Some(4), ..Config::default() };
    let mut queue = FqCodel::new(config).unwrap();
    let mut cx = Scripted::at(ms(5000));
    for minor in [1, 4] {
        let mut packet = Descriptor::new(100).with_truesize(868);
        packet.priority = Host::default().handle | minor;
        assert_eq!(queue.enqueue(packet, &mut cx), Verdict::Queued);
        assert_eq!(queue.flow(minor - 1).unwrap().backlog_bytes, 100);
    }
    assert!(cx.dropped.is_empty(), "2 × 868 is within 2 × 868");
    let _ = queue.enqueue(Descriptor::new(100).with_truesize(1), &mut cx);
    assert_eq!(queue.stats().drop_overmemory, 1);
    let reads = cx.clock_reads;
    while queue.dequeue(&mut cx).is_some() {}
    assert_eq!(cx.clock_reads - reads, 2, "one read per packet found, none for an empty bucket");
}

/// 7.2 charges no memory for a packet that a local socket still owns.
#[test]
fn socket_charged_packets() {
    for (linux, memory) in [(Linux::V6_1, 868), (Linux::V6_12, 868), (Linux::V7_2, 0)] {
        let mut queue = FqCodel::new(Config::default().behave_like(linux)).unwrap();
        let mut packet = Descriptor::new(100).with_truesize(868);
        packet.charged_to_socket = true;
        assert_eq!(queue.enqueue(packet, &mut Scripted::at(ms(5000))), Verdict::Queued);
        assert_eq!(queue.stats().memory_usage_bytes, memory);
    }
}

/// An environment whose filters answer what they are told.
struct Filtered {
    answer: Classified,
    dropped: Vec<DropReason>,
}

impl Environment<Descriptor> for Filtered {
    fn now_ns(&mut self) -> u64 {
        ms(5000)
    }
    fn random_u32(&mut self) -> u32 {
        0
    }
    fn flow_secret(&self) -> SipKey {
        SipKey::default()
    }
    fn dropped(&mut self, _: Descriptor, reason: DropReason) {
        self.dropped.push(reason);
    }
    fn classify(&mut self, _: &Descriptor) -> Classified {
        self.answer
    }
}

/// spec/common.md §8.5: with filters the hash is never used.
#[test]
fn filters() {
    let cases = [
        (Classified::Class(4), Verdict::Queued, 0),
        (Classified::Class(0x10005), Verdict::Bypassed, 1),
        (Classified::Class(0), Verdict::Bypassed, 1),
        (Classified::NoMatch, Verdict::Bypassed, 1),
        (Classified::Shot, Verdict::Bypassed, 1),
        (Classified::Stolen, Verdict::Stolen, 0),
    ];
    for (answer, verdict, drops) in cases {
        let mut queue = FqCodel::new(Config { flows: Some(4), ..Config::default() }).unwrap();
        let mut cx = Filtered { answer, dropped: Vec::new() };
        assert_eq!(queue.enqueue(Descriptor::new(100), &mut cx), verdict);
        assert_eq!(queue.counters().drops, drops);
        assert_eq!(cx.dropped.len(), usize::from(verdict != Verdict::Queued));
        assert_eq!(queue.flow(3).unwrap().backlog_bytes > 0, verdict == Verdict::Queued);
    }
}

/// Fixed storage refuses what it cannot hold, and never more than that.
#[test]
fn fixed_storage_bounds() {
    type Small = FqCodel<Descriptor, Fixed<4, 8>>;
    let config = |flows, limit| Config { flows: Some(flows), limit: Some(limit), ..Config::default() };
    assert_eq!(Small::in_storage(config(5, 7)).unwrap_err().option, "flows");
    assert_eq!(Small::in_storage(config(4, 8)).unwrap_err().option, "limit");
    let mut queue = Small::in_storage(config(4, 7)).unwrap();
    let mut cx = Scripted::at(ms(5000));
    queue.change(&Config { limit: Some(100), ..Config::default() }, &mut cx).unwrap();
    for id in 0..20 {
        let verdict = queue.enqueue(Descriptor::new(100).with_id(id), &mut cx);
        assert_eq!(verdict, if id < 8 { Verdict::Queued } else { Verdict::Dropped });
    }
    assert!(cx.dropped.iter().all(|d| d.reason == DropReason::StorageFull));
    assert_eq!(cx.dropped.len(), 12);
}

/// Conservation after every operation of a random sequence: packets, bytes and memory.
#[test]
fn conservation() {
    bolero::check!().with_type::<(u64, u8)>().with_iterations(300).for_each(|&(seed, version)| {
        let mut random = SplitMix64(seed);
        let linux = Linux::ALL[version as usize % 3];
        let config = Config {
            limit: Some(random.next_u64() as u32 % 60),
            flows: Some(1 + random.next_u64() as u32 % 9),
            memory_limit_bytes: Some(random.next_u64() as u32 % 100_000),
            target_us: Some(random.next_u64() as u32 % 8000),
            interval_us: Some(random.next_u64() as u32 % 30_000),
            ..Config::default()
        };
        let mut queue = FqCodel::new(config.behave_like(linux)).unwrap();
        let mut cx = Scripted::at(ms(5000));
        let (mut packets_in, mut bytes_in, mut packets_out, mut bytes_out) = (0u64, 0u64, 0u64, 0u64);
        for id in 0..400 {
            cx.now_ns += random.next_u64() % 3_000_000;
            let mut out = None;
            match random.next_u64() % 16 {
                0..8 => {
                    let packet = Descriptor::new(60 + random.next_u64() as u32 % 9000)
                        .with_id(id)
                        .with_flow_hash(random.next_u64() as u32)
                        .with_ds_field(random.next_u64() as u8 & 3);
                    (packets_in, bytes_in) = (packets_in + 1, bytes_in + u64::from(packet.len_bytes));
                    let _ = queue.enqueue(packet, &mut cx);
                }
                8..13 => out = queue.dequeue_peeked(&mut cx),
                13 => drop(queue.peek(&mut cx)),
                14 => {
                    let limit = Some(random.next_u64() as u32 % 60);
                    queue.change(&Config { limit, ..Config::default() }, &mut cx).unwrap();
                }
                _ if random.next_u64() % 8 == 0 => queue.reset(&mut cx),
                _ => {}
            }
            if let Some(packet) = out {
                (packets_out, bytes_out) = (packets_out + 1, bytes_out + u64::from(packet.len_bytes()));
            }
            let dropped_bytes: u64 = cx.dropped.iter().map(|d| u64::from(d.packet.len_bytes)).sum();
            let c = queue.counters();
            assert_eq!(packets_in, packets_out + cx.dropped.len() as u64 + u64::from(c.qlen));
            assert_eq!(bytes_in, bytes_out + dropped_bytes + u64::from(c.backlog_bytes));
            let parked = queue.parked.as_ref().map_or(0, |p| p.len_bytes);
            let in_buckets: u32 = queue.backlogs.iter().sum();
            assert_eq!(c.backlog_bytes, in_buckets + parked);
            let memory: u32 = queue.flows.iter().map(|flow| queue.slab.len(&flow.fifo) * 768).sum();
            assert_eq!(queue.memory_usage, in_buckets + memory);
        }
    });
}
