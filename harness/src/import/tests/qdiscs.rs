use super::*;
use crate::trace::{ByteChange, DropCause, SegmentInfo};

/// CoDel time and a memory charge, as the control block holds them.
fn codel_stamp(ns: u64, memory: u32) -> u64 {
    u64::from((ns >> 10) as u32) | u64::from(memory) << 32
}

/// fq_codel's two states after a dequeue.
fn fq_codel_states(raw: &mut Raw, deficit: i32) {
    let mut flow = [0; 64];
    flow[32..36].copy_from_slice(&deficit.to_le_bytes());
    raw.state(0xf10, &flow).state(0xf11, &[0; 128]);
}

#[test]
fn foreign_clock_reads_are_left_out() {
    let mut raw = Raw::default();
    raw.enqueue(&Enqueue::default())
        .clock(5_000_000, OWN, 0x302)
        .clock(5_000_100, FOREIGN, 0x302) // Another function's.
        .clock(5_000_200, OWN, 0x1_0302) // A hard interrupt's.
        .clock(5_000_300, OWN, 0xffff_ffff_8010_0302) // A non-maskable one's.
        .enqueued(1, 0, 7, (1, 1514), codel_stamp(5_000_000, 2304), &[])
        .clock(5_000_400, OWN, 0x302); // Outside any call.
    let trace = import("fq_codel-61", &raw).unwrap();
    let [call] = calls(&trace)[..] else { panic!("one call") };
    assert_eq!(call.steps, [Step::Clock(5_000_000)]);
    assert_eq!((call.time_ns, call.qlen, call.backlog_bytes), (5_000_000, 1, 1514));
    assert_eq!(call.outcome, Outcome::Verdict(0));
    assert_eq!(trace.header.remarks["foreign_clock_reads"], 4);
}

#[test]
fn an_arrival_keeps_its_headers_only() {
    let mut raw = Raw::default();
    let packet = Enqueue { len: 2962, qdisc_len: 3028, gso: (1448, 2), hash: 0, ..Enqueue::default() };
    raw.enqueue(&packet).clock(1024, OWN, 1).enqueued(1, 0, 9, (1, 3028), codel_stamp(1024, 0), &[]);
    let trace = import("fq_codel-72", &raw).unwrap();
    let arrival = calls(&trace)[0].arrival().unwrap();
    assert_eq!(arrival.bytes, frame(2, 1000)[..66]);
    assert_eq!((arrival.len_bytes, arrival.buffer_bytes, arrival.linear_bytes), (3028, 2962, 66));
    assert_eq!((arrival.protocol, arrival.network_offset, arrival.transport_offset), (0x0800, 14, Some(34)));
    assert_eq!((arrival.hash, arrival.hash_carried), (9, false), "the hash was computed in the call");
    assert!(arrival.charged_to_socket, "7.2 charged no memory for it");
    assert_eq!(arrival.gso.map(|gso| (gso.segment_bytes, gso.segments)), Some((1448, 2)));
}

#[test]
fn drops_marks_and_states_of_a_dequeue() {
    let mut raw = Raw::default();
    for (packet, qlen) in [(0x11, 0), (0x22, 1)] {
        let queue = (qlen, qlen * 1514);
        raw.enqueue(&Enqueue { packet, queue, ..Enqueue::default() }).clock(2048, OWN, 1);
        raw.enqueued(packet, 0, 7, (qlen + 1, (qlen + 1) * 1514), codel_stamp(2048, 2304), &[]);
    }
    raw.dequeue((2, 3028)).clock(9_000_000, OWN, 1).dropped(0x11).correction(1, 1514);
    fq_codel_states(&mut raw, -5);
    raw.dequeued(0x22, 1514, (0, 0), &frame(3, 1000));
    // The first buffer's address again.
    raw.enqueue(&Enqueue { packet: 0x11, ..Enqueue::default() }).clock(9_000_001, OWN, 1);
    raw.enqueued(0x11, 0, 7, (1, 1514), codel_stamp(9_000_001, 2304), &[]);
    raw.dequeue((1, 1514)).clock(9_000_002, OWN, 1);
    raw.dequeued(0x11, 1514, (0, 0), &frame(2, 1000)).dequeue((0, 0)).dequeued(0, 0, (0, 0), &[0; 96]);

    let trace = import("fq_codel-612", &raw).unwrap();
    let calls = calls(&trace);
    let delivered = calls[2].delivered().unwrap();
    assert_eq!((delivered.packet, delivered.ds_field), (PacketRef::whole(1), Some(3)));
    assert_eq!(delivered.changed, [ByteChange { offset: 15, value: 3 }]);
    let cause = DropCause { reason: None, code: Some(2) };
    let drop = Step::Drop { packet: Some(PacketRef::whole(0)), cause };
    let correction = Step::Correction { packets: 1, bytes: 1514, emptied: None };
    assert_eq!(calls[2].steps, [Step::Clock(9_000_000), drop, correction]);
    let (_, schema) = trace.header.schema("fq_codel.head_flow").unwrap();
    assert_eq!(schema.value(&calls[2].snapshots[0], "deficit"), Some(-5));
    assert_eq!(calls[4].delivered().unwrap().packet, PacketRef::whole(2), "the newest packet at the address");
    assert_eq!(calls[5].outcome, Outcome::Nothing);
    assert!(trace.header.remarks.is_empty());
}

#[test]
fn freed_packets_of_an_earlier_call_are_not_ours() {
    let arrive = |raw: &mut Raw, packet, queue, after, code, freed: &[u64]| {
        raw.enqueue(&Enqueue { packet, queue, ..Enqueue::default() }).clock(1024, OWN, 1);
        raw.enqueued(packet, code, 7, after, codel_stamp(1024, 2304), freed);
    };
    let mut raw = Raw::default();
    arrive(&mut raw, 1, (0, 0), (1, 1514), 0, &[]);
    arrive(&mut raw, 2, (1, 1514), (1, 1514), 0, &[1]);
    // 7.2 hands the list of the call before on: newest first, the old one last.
    arrive(&mut raw, 3, (1, 1514), (1, 1514), 2, &[2, 1]);
    let trace = import("fq_codel-72", &raw).unwrap();
    let dropped = |call: &Call| -> Vec<u64> {
        let drop = |step: &Step| match step {
            Step::Drop { packet, .. } => packet.map(|packet| packet.id),
            _ => None,
        };
        call.steps.iter().filter_map(drop).collect()
    };
    assert_eq!(calls(&trace).into_iter().map(dropped).collect::<Vec<_>>(), [vec![], vec![0], vec![1]]);

    let mut raw = Raw::default();
    for packet in 1..=9u32 {
        let (before, after) = (packet - 1, packet);
        arrive(&mut raw, packet.into(), (before, before * 1514), (after, after * 1514), 0, &[]);
    }
    arrive(&mut raw, 10, (9, 9 * 1514), (1, 1514), 0, &[9, 8, 7, 6, 5, 4, 3, 2, 1]);
    let error = import("fq_codel-72", &raw).unwrap_err();
    assert!(matches!(error.kind, ImportErrorKind::TooManyFreed(9)), "{error}");
}

#[test]
fn contradictions_are_refused_with_their_place() {
    let refused = |build: &dyn Fn(&mut Raw)| {
        let mut raw = Raw::default();
        raw.enqueue(&Enqueue::default()).clock(1024, OWN, 1).enqueued(1, 0, 7, (1, 1514), codel_stamp(1024, 1), &[]);
        build(&mut raw);
        let error = import("fq_codel-61", &raw).unwrap_err();
        assert_eq!((error.record, error.byte), (3, 240 + 40 + 168), "{error}");
        error.kind
    };
    // A queue that changed between calls, an unknown buffer, returns and effects outside calls, unknown records.
    let kind = refused(&|raw| {
        raw.dequeue((2, 1514));
    });
    assert!(matches!(kind, ImportErrorKind::Contradiction { found: 2, expected: 1, .. }), "{kind}");
    let kind = refused(&|raw| {
        raw.dropped(0x99);
    });
    assert!(matches!(kind, ImportErrorKind::UnknownPacket(0x99)), "{kind}");
    let kind = refused(&|raw| {
        raw.dequeued(1, 1514, (0, 0), &[0; 96]);
    });
    assert!(matches!(kind, ImportErrorKind::Order { .. }), "{kind}");
    let kind = refused(&|raw| {
        raw.correction(1, 1);
    });
    assert!(matches!(kind, ImportErrorKind::Order { .. }), "{kind}");
    let kind = refused(&|raw| {
        raw.hook(17, 1, 1, 1, 1);
    });
    assert!(matches!(kind, ImportErrorKind::Order { .. }), "{kind}");
    assert!(matches!(
        refused(&|raw| {
            raw.record(99, &[]);
        }),
        ImportErrorKind::UnknownType(99)
    ));
    let kind = refused(&|raw| {
        raw.record(5, &[0; 23]);
    });
    assert!(matches!(kind, ImportErrorKind::Length { kind: 5, found: 39, expected: 40 }), "{kind}");
    assert!(matches!(refused(&|raw| raw.bytes.push(0)), ImportErrorKind::Truncated));
    let kind = refused(&|raw| {
        raw.state(0xf11, &[0; 128]);
    });
    assert!(matches!(kind, ImportErrorKind::Order { .. }), "{kind}");
}

#[test]
fn an_enqueue_time_that_does_not_follow_from_the_clock_is_refused() {
    let mut raw = Raw::default();
    raw.enqueue(&Enqueue::default()).clock(4096, OWN, 1).enqueued(1, 0, 7, (1, 1514), codel_stamp(1024, 1), &[]);
    let error = import("fq_codel-61", &raw).unwrap_err();
    assert_eq!(
        error.to_string(),
        "record 2 at byte 280: the packet's enqueue time: 1 recorded, 4 follows from the rest of the call"
    );
}

/// Two split packets and a whole one in a queue of cake's.
fn cake_queue() -> Raw {
    let mut raw = Raw::default();
    let split = Enqueue { len: 2962, qdisc_len: 3028, truesize: 4176, gso: (1448, 2), ..Enqueue::default() };
    let mut queue = (0, 0);
    for (packet, sequence) in [(1, 1000), (2, 3896)] {
        raw.enqueue(&Enqueue { packet, queue, data: frame(2, sequence), ..split.clone() });
        raw.clock(1000, OWN + 0x1000, 1).lookup(5).correction(-1, 0);
        queue = (queue.0 + 2, queue.1 + 3028);
        raw.enqueued(packet, 0, 7, queue, 0, &[]);
    }
    raw.enqueue(&Enqueue { packet: 3, queue, data: frame(2, 6792), ..Enqueue::default() });
    raw.clock(1000, OWN + 0x1000, 1).lookup(5).enqueued(3, 0, 7, (5, 7570), 1000, &[]);
    raw
}

#[test]
fn cake_segments_are_found_by_their_sequence_numbers() {
    let mut raw = cake_queue();
    raw.dequeue((5, 7570)).clock(2000, OWN + 0x1000, 1).cake_states(1, 5, 3 * 2728 + 2304);
    raw.dequeued(0x77, 1514, (4, 6056), &frame(2, 1000));
    let trace = import("cake-61", &raw).unwrap();
    let calls = calls(&trace);
    let segments = &calls[0].arrival().unwrap().segments;
    assert_eq!(segments[..], [SegmentInfo { len_bytes: 1514, truesize_bytes: 2728 }; 2]);
    assert!(calls[2].arrival().unwrap().segments.is_empty());
    let delivered = calls[3].delivered().unwrap();
    assert_eq!((delivered.packet, delivered.ds_field), (PacketRef { id: 0, segment: 1 }, Some(2)));
    assert_eq!(calls[3].snapshots[0].key, 1 << 16 | 5);
    assert_eq!(trace.header.remarks["split_packets"], 2);
}

#[test]
fn cake_drops_are_what_lay_ahead_in_the_queue() {
    let drops = |call: &Call| -> Vec<PacketRef> {
        let drop = |step: &Step| match step {
            Step::Drop { packet, .. } => *packet,
            _ => None,
        };
        call.steps.iter().filter_map(drop).collect()
    };
    let ahead = [PacketRef { id: 0, segment: 1 }, PacketRef { id: 0, segment: 2 }];
    // With a record for each drop, whose address nobody knows.
    let mut raw = cake_queue();
    raw.dequeue((5, 7570)).clock(2000, OWN + 0x1000, 1);
    raw.correction(1, 1514).dropped(0x55).correction(1, 1514).dropped(0x66).cake_states(1, 5, 2728 + 2304);
    raw.dequeued(0x77, 1514, (2, 3028), &frame(2, 3896));
    let trace = import("cake-61", &raw).unwrap();
    assert_eq!(drops(calls(&trace)[3]), ahead);

    // Without one, as 7.2.
    let mut raw = cake_queue();
    raw.dequeue((5, 7570)).clock(2000, OWN + 0x1000, 1);
    raw.correction(1, 1514).correction(1, 1514).cake_states(1, 5, 2728 + 2304);
    raw.dequeued(0x77, 1514, (2, 3028), &frame(2, 3896));
    let trace = import("cake-61", &raw).unwrap();
    assert_eq!(drops(calls(&trace)[3]), ahead);
    assert!(matches!(calls(&trace)[3].steps[..], [_, _, Step::Drop { .. }, _, Step::Drop { .. }]));
    assert_eq!(trace.header.remarks["drops_known_by_their_correction"], 2);

    // One correction too few; the wrong length; the wrong memory.
    for (corrections, memory) in [(&[1514][..], 5032), (&[1514, 1513], 5032), (&[1514, 1514], 5033)] {
        let mut raw = cake_queue();
        raw.dequeue((5, 7570)).clock(2000, OWN + 0x1000, 1);
        for bytes in corrections {
            raw.correction(1, *bytes);
        }
        raw.cake_states(1, 5, memory).dequeued(0x77, 1514, (2, 3028), &frame(2, 3896));
        let error = import("cake-61", &raw).unwrap_err();
        assert!(matches!(error.kind, ImportErrorKind::Contradiction { .. }), "{error}");
    }
}

#[test]
fn draws_keep_their_width() {
    let mut raw = Raw::default();
    raw.dequeue((0, 0)).draw(0x1_2345, 16).draw(3, 12).dequeued(0, 0, (0, 0), &[0; 96]);
    let error = import("pie-61", &raw).unwrap_err();
    assert!(matches!(error.kind, ImportErrorKind::Field { field: "the width of a draw", value: 12, .. }));
    let mut raw = Raw::default();
    let mut eight = 8u64.to_le_bytes().to_vec();
    eight.extend_from_slice(&[9; 64]);
    raw.dequeue((0, 0)).draw(0x1_2345, 16).record(7, &eight).dequeued(0, 0, (0, 0), &[0; 96]);
    let trace = import("pie-61", &raw).unwrap();
    let draws = [Step::Draw { bits: 16, value: 0x2345 }, Step::Draw { bits: 64, value: 0x0909_0909_0909_0909 }];
    assert_eq!(calls(&trace)[0].steps, draws);
}
