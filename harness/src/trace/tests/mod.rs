mod coding;
mod damage;
mod generate;
mod text;

use std::collections::BTreeMap;

use debloat_aqm::DropReason;

use super::*;

/// A header with two schemas: every width of a field is there.
fn header() -> Header {
    let fields = |widths: &[i8]| {
        let field = |(index, bits): (usize, &i8)| match *bits {
            bits if bits < 0 => Field::signed(&format!("f{index}"), bits.unsigned_abs()),
            bits => Field::unsigned(&format!("f{index}"), bits.unsigned_abs()),
        };
        widths.iter().enumerate().map(field).collect()
    };
    Header {
        kernel: Kernel { series: "6.12".into(), release: "6.12.0-test".into(), package: String::new(), hz: 250 },
        subject: Subject::Qdisc(QdiscSubject {
            parent: 0,
            name: "fq_codel".into(),
            options: "limit 100".into(),
            parameters: BTreeMap::from([("limit".to_owned(), 100)]),
            handle: 0x0002_0000,
            root: false,
            device: Device { mtu_bytes: 1500, link_header_bytes: 14, tx_queue_len: 1000 },
            hashes: Hashes::Secret([1, 2]),
            created_ns: 77,
        }),
        origin: Origin::OracleMade,
        tool: "test".into(),
        description: String::new(),
        records_lost: 0,
        remarks: BTreeMap::new(),
        schemas: vec![
            Schema { name: "one".into(), object: "one object".into(), fields: fields(&[1, 8, 16, 32, 64]) },
            Schema { name: "two".into(), object: "by key".into(), fields: fields(&[-1, -8, -32, -64]) },
        ],
    }
}

/// A small trace with every kind of event, step and outcome.
fn sample() -> Trace {
    let snapshot = |key, values: &[u64]| Snapshot { schema: 0, moment: Moment::After, key, values: values.to_vec() };
    let arrival = Arrival {
        len_bytes: 3028,
        buffer_bytes: 2962,
        linear_bytes: 66,
        truesize_bytes: 4176,
        hash: 0xdead_beef,
        hash_carried: true,
        protocol: 0x0800,
        network_offset: 14,
        transport_offset: Some(34),
        gso: Some(GsoInfo { segment_bytes: 1448, segments: 2, kind: 1 }),
        departure_ns: 5_000_000_001,
        bytes: [&[0u8; 14][..], &[0x45, 0x02], &[7; 50]].concat(),
        ..Arrival::default()
    };
    let split = Arrival {
        id: 1,
        segments: vec![SegmentInfo { len_bytes: 1514, truesize_bytes: 2728 }; 2],
        vlan: Some(VlanTag { tpid: 0x8100, tci: 0x6064 }),
        departure_ns: 0,
        charged_to_socket: true,
        ..arrival.clone()
    };
    let call = |time_ns, operation, steps, outcome| {
        let snapshots = vec![snapshot(7, &[1, 2, 3, 4, time_ns])];
        Event::Call(Call { time_ns, operation, steps, outcome, qlen: 2, backlog_bytes: 6056, snapshots })
    };
    let dropped = |packet, cause| Step::Drop { packet, cause };
    let events = vec![
        Event::State(State { time_ns: 1, snapshots: vec![snapshot(7, &[0, 255, 65535, 9, u64::MAX])] }),
        call(10, Operation::Enqueue(Box::new(arrival)), vec![Step::Clock(10)], Outcome::Verdict(0)),
        call(
            20,
            Operation::Enqueue(Box::new(split)),
            vec![
                Step::Clock(21),
                Step::FlowHash { value: 5, keys: vec![1, 2, 3] },
                Step::Draw { bits: 16, value: 65535 },
                Step::Draw { bits: 64, value: u64::MAX },
                dropped(Some(PacketRef::whole(0)), DropCause { reason: Some(DropReason::Codel), code: Some(7) }),
                dropped(None, DropCause::UNKNOWN),
                Step::Correction { packets: -1, bytes: 66, emptied: Some(true) },
                Step::Watchdog { expires_ns: 5, slack_ns: 1 },
            ],
            Outcome::Verdict(2),
        ),
        call(19, Operation::Timer, vec![Step::Jiffies(4_294_937_296)], Outcome::Done),
        call(
            30,
            Operation::Dequeue,
            vec![],
            Outcome::Packet(Delivered {
                packet: PacketRef { id: 1, segment: 2 },
                buffer_bytes: 1514,
                ds_field: Some(3),
                changed: vec![ByteChange { offset: 15, value: 3 }],
            }),
        ),
        call(31, Operation::Peek, vec![], Outcome::Packet(Delivered::default())),
        call(32, Operation::DequeuePeeked, vec![], Outcome::Nothing),
        call(33, Operation::Change("limit 10".into()), vec![], Outcome::Refused(22)),
        call(34, Operation::Reset, vec![], Outcome::Done),
        Event::Hook(Hook {
            time_ns: 40,
            connection: 1,
            hook: HookKind::CongAvoid,
            arguments: vec![1, u64::MAX],
            result: Some(10),
            jiffies: [100, 101],
            steps: vec![Step::Clock(41)],
            snapshots: vec![Snapshot { schema: 1, moment: Moment::Before, key: 1, values: vec![u64::MAX, 127, 5, 0] }],
        }),
        Event::Statistics(Statistics {
            time_ns: 50,
            values: vec![NamedValue { name: "drops".into(), value: -3 }],
            text: "qdisc\n".into(),
        }),
    ];
    Trace { header: header(), events }
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &trace.header).unwrap().with_level(1);
    for event in &trace.events {
        writer.write(event).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    let reader = Reader::new(bytes)?;
    let header = reader.header().clone();
    Ok(Trace { header, events: reader.collect::<Result<_, _>>()? })
}
