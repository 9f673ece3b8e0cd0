use super::super::config::Law;
use super::super::*;
use super::HANDLE;
use crate::{Configure, Descriptor, Host, Qdisc, Scripted};
use std::{format, string::String, vec::Vec};

/// The state columns of the vector file.
fn show(queue: &DualPi2<Descriptor>) -> String {
    let s = queue.stats(&mut Scripted::<Descriptor>::at(1));
    let (c, l) = (queue.counters(), queue.low_latency_counters());
    let [qlen, backlog] =
        [[c.qlen, l.qlen], [c.backlog_bytes, l.backlog_bytes]].map(|[all, low]| format!("{all} {low}"));
    format!(
        "{qlen} {backlog} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
        c.drops,
        l.drops,
        c.overlimits,
        l.overlimits,
        c.sent_bytes,
        c.sent_packets,
        l.sent_packets,
        s.memory_used_bytes,
        s.max_memory_used_bytes,
        s.prob,
        s.credit,
        s.packets_in_c,
        s.packets_in_l,
        s.maxq,
        s.ecn_mark,
        s.step_marks,
        queue.heads().classic_ns,
        queue.heads().low_latency_ns
    )
}

/// spec/vectors/dualpi2.txt: the whole qdisc. Segments have ids of their own there, here their buffer's; drops are
/// listed as they happen, as below a parent.
#[test]
fn vector_file() {
    let mut queue = DualPi2::<Descriptor>::new(Config::default()).unwrap();
    let (mut steps, mut draws, mut next_id) = (0, Vec::new(), 0);
    // The buffer that a segment came from, by its own id.
    let mut buffers = Vec::new();
    for (number, line) in include_str!("../../../tests/vectors/dualpi2.txt").lines().enumerate() {
        let (call, expected) = line.split_once(" => ").unwrap_or((line, ""));
        let mut words = call.split(' ');
        let kind = words.next().unwrap_or_default();
        if kind == "#" {
            continue;
        }
        let n: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        if kind == "P" {
            queue = DualPi2::new(Config::default().on_host(Host { handle: HANDLE, is_root: false, ..Host::default() }))
                .unwrap();
            let [limit, memory_limit, target_ns, alpha, beta, packets, step_thresh, min_qlen_step, k, ..] = n[..]
            else {
                panic!("line {}: too short", number + 1)
            };
            queue.law = Law {
                limit: limit as u32,
                memory_limit: memory_limit as u32,
                target_ns,
                alpha: alpha as u32,
                beta: beta as u32,
                step_in_packets: packets != 0,
                step_thresh: step_thresh as u32,
                min_qlen_step: min_qlen_step as u32,
                coupling: k as u8,
                drop_on_overload: n[9] != 0,
                drop_early: n[10] != 0,
                classic_weight: n[11] as u8,
                ecn_mask: n[12] as u8,
                split_gso: n[13] != 0,
                ..queue.law
            };
            queue.credit = queue.law.credit_init();
            (next_id, buffers) = (1, Vec::from([0]));
            continue;
        }
        if kind == "X" {
            draws = n[1..].to_vec();
            continue;
        }
        let mut cx = Scripted::at(n[0]).with_draws(draws.drain(..));
        let scripted = cx.draws.len();
        let result = match kind {
            "E" => {
                let id = next_id;
                let segments = n[5] as u16;
                let ids = if segments > 1 && queue.law.split_gso { usize::from(segments) + 1 } else { 1 };
                buffers.extend(core::iter::repeat_n(id, ids));
                next_id = buffers.len() as u64;
                let mut packet = Descriptor::new(n[1] as u32)
                    .with_id(id)
                    .with_ds_field(n[2] as u8)
                    .with_truesize(n[3] as u32)
                    .with_priority(n[4] as u32);
                if segments > 1 {
                    packet = packet.with_gso(segments, 1448);
                }
                format!("{id} {:x} ", queue.enqueue(packet, &mut cx).code())
            }
            "D" => {
                let packet = queue.dequeue(&mut cx).map(|p| (p.id, p.ds_field.unwrap_or_default()));
                let (id, ecn) = packet.unwrap_or_default();
                format!("{id} {ecn} ")
            }
            "T" => {
                queue.on_timer(&mut cx);
                assert_eq!(queue.next_event().map(|event| event.at_ns), Some(n[0] + 16_000_000));
                String::from(" ")
            }
            other => panic!("line {}: unknown operation {other}", number + 1),
        };
        let mut columns = expected.split('|');
        let mut column = || columns.next().unwrap_or_default();
        let whose = |id: &str| buffers[id.parse::<usize>().unwrap()];
        let expected_result = match kind {
            "D" => {
                let (id, ecn) = column().trim().split_once(' ').unwrap();
                format!("{} {ecn} ", whose(id))
            }
            _ => String::from(column()),
        };
        let at = format!("line {}", number + 1);
        assert_eq!(result, expected_result, "{at}");
        assert_eq!(format!("{} {}", scripted - cx.draws.len(), show(&queue)), column().trim(), "{at}");
        let dropped: Vec<u64> = cx.dropped.iter().map(|drop| drop.packet.id).collect();
        assert_eq!(dropped, column().split_whitespace().map(whose).collect::<Vec<_>>(), "{at}: dropped");
        let corrections: Vec<String> = cx.corrections.iter().map(|c| format!("({},{})", c.packets, c.bytes)).collect();
        assert_eq!(corrections.join(" "), column().trim(), "{at}: corrections");
        steps += 1;
    }
    assert_eq!(steps, 306 + 641 + 95);
}
