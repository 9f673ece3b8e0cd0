use super::generate::Choices;
use super::*;

#[test]
fn every_kind_of_event_comes_back() {
    let trace = sample();
    assert_eq!(read(&written(&trace)).unwrap(), trace);
}

#[test]
fn arbitrary_events_come_back() {
    bolero::check!().with_iterations(2000).with_max_len(4096).for_each(|bytes: &[u8]| {
        let trace = Trace { header: header(), events: Choices::new(bytes).events() };
        assert_eq!(read(&written(&trace)).unwrap(), trace);
    });
}

#[test]
fn many_blocks_come_back() {
    let frame: Vec<u8> = (0..1500u32).map(|at| (at * 7) as u8).collect();
    let events = (0..8000).map(|id| {
        let arrival = Arrival { id, len_bytes: 1500, bytes: frame.clone(), ..Arrival::default() };
        Event::Call(Call {
            time_ns: id * 1000,
            operation: Operation::Enqueue(Box::new(arrival)),
            steps: vec![],
            outcome: Outcome::Verdict(0),
            qlen: id as u32,
            backlog_bytes: 1500 * id as u32,
            snapshots: vec![Snapshot { schema: 1, moment: Moment::After, key: id % 3, values: vec![0, 1, id, id] }],
        })
    });
    let trace = Trace { header: header(), events: events.collect() };
    let bytes = written(&trace);
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let events: Result<Vec<_>, _> = reader.by_ref().collect();
    assert_eq!(events.unwrap(), trace.events);
    assert_eq!((reader.place().block, reader.place().event, reader.packets()), (3, 8000, 8000));
}

#[test]
fn an_event_that_does_not_fit_is_refused_and_the_trace_stays_good() {
    let Trace { header, events } = sample();
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    writer.write(&events[1]).unwrap();
    let refuse = |writer: &mut Writer<Vec<u8>>, event: &Event| match writer.write(event) {
        Err(TraceError { kind: TraceErrorKind::Malformed(fault), at }) => {
            assert_eq!(at.event, 1, "the refused event's number");
            fault
        }
        other => panic!("{other:?}"),
    };

    // The same packet again.
    assert_eq!(refuse(&mut writer, &events[1]), Fault::PacketNumber { expected: 1, found: 0 });
    // A good arrival in a bad call does not use its number up.
    let Event::Call(mut call) = events[2].clone() else { unreachable!() };
    call.steps.push(Step::Draw { bits: 12, value: 0 });
    let bad_draw = Fault::Value { what: "the width of a draw", value: 12 };
    assert_eq!(refuse(&mut writer, &Event::Call(call.clone())), bad_draw);
    call.steps = vec![Step::Draw { bits: 8, value: 256 }];
    assert_eq!(refuse(&mut writer, &Event::Call(call)), Fault::Value { what: "a draw", value: 256 });
    // A packet that never came.
    assert_eq!(refuse(&mut writer, &events[4]), Fault::UnknownPacket(1));
    // Snapshots of no schema, of too few values, of too large values.
    let state = |schema, values| {
        let snapshots = vec![Snapshot { schema, moment: Moment::After, key: 0, values }];
        Event::State(State { time_ns: 0, snapshots })
    };
    assert_eq!(refuse(&mut writer, &state(2, vec![])), Fault::Value { what: "the number of schemas", value: 2 });
    assert_eq!(refuse(&mut writer, &state(0, vec![0; 4])), Fault::Schema { schema: 0, fields: 5, found: 4 });
    let too_large = Fault::Value { what: "a snapshot's field", value: 2 };
    assert_eq!(refuse(&mut writer, &state(0, vec![2, 0, 0, 0, 0])), too_large);
    let not_extended = Fault::Value { what: "a snapshot's field", value: 255 };
    assert_eq!(refuse(&mut writer, &state(1, vec![0, 255, 0, 0])), not_extended);

    writer.write(&events[2]).unwrap();
    let whole = read(&writer.finish().unwrap()).unwrap();
    assert_eq!(whole.events, events[1..3]);
}

#[test]
fn an_event_too_large_for_a_block_ends_the_writing() {
    let steps = vec![Step::FlowHash { value: 0, keys: vec![0; 1 << 20] }; 5];
    let hook = Hook {
        time_ns: 0,
        connection: 0,
        hook: HookKind::Init,
        arguments: vec![],
        result: None,
        jiffies: [0; 2],
        steps,
        snapshots: vec![],
    };
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    for _ in 0..2 {
        let error = writer.write(&Event::Hook(hook.clone())).unwrap_err();
        assert!(matches!(error.kind, TraceErrorKind::Malformed(Fault::EventTooLarge(size)) if size > 5 << 20));
    }
    assert!(writer.finish().is_err());
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let refused = |change: &dyn Fn(&mut Header), words: &str| {
        let mut header = header();
        change(&mut header);
        let error = Writer::new(Vec::new(), &header).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&|header| header.schemas[1].name = "one".into(), "two schemas are called \"one\"");
    refused(&|header| header.schemas[1].fields.clear(), "no fields");
    refused(&|header| header.schemas[0].fields[0].bits = 65, "one.f0: 65 bits");
    refused(&|header| header.schemas[0].fields[0].bits = 0, "one.f0: 0 bits");
    let many = Field::unsigned("x", 1);
    refused(&|header| header.schemas[0].fields = vec![many.clone(); 4096], "at most 4096");
}
