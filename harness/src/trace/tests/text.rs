use super::generate::Choices;
use super::*;

#[test]
fn json_lines_come_back() {
    let trace = sample();
    let mut text = Vec::new();
    to_json_lines(Reader::new(&written(&trace)[..]).unwrap(), &mut text).unwrap();
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), trace.events.len() + 2);
    assert_eq!(from_json_lines(&text[..]).unwrap(), trace);
}

#[test]
fn arbitrary_events_survive_json() {
    bolero::check!().with_iterations(500).with_max_len(2048).for_each(|bytes: &[u8]| {
        for event in Choices::new(bytes).events() {
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
            assert!(!event.to_string().contains('\n'), "{event}");
        }
    });
}

#[test]
fn bad_json_lines_are_refused_with_their_number() {
    let mut text = Vec::new();
    to_json_lines(Reader::new(&written(&sample())[..]).unwrap(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let refused = |lines: &[&str]| from_json_lines(lines.join("\n").as_bytes()).unwrap_err().kind;

    assert!(matches!(refused(&lines[1..]), TraceErrorKind::Json { line: 1, .. }));
    assert!(matches!(refused(&[lines[0], lines[0]]), TraceErrorKind::Json { line: 2, .. }));
    assert!(matches!(refused(&lines[..5]), TraceErrorKind::Truncated { .. }));
    assert!(matches!(refused(&[]), TraceErrorKind::Truncated { .. }));
    let without_one = [&lines[..5], &lines[6..]].concat();
    assert!(matches!(refused(&without_one), TraceErrorKind::Totals { what: "events", .. }));
    let after_end = [&lines[..], &lines[1..2]].concat();
    assert!(matches!(refused(&after_end), TraceErrorKind::Json { line: 14, .. }));
}

#[test]
fn events_print_on_one_line() {
    let lines: Vec<String> = sample().events.iter().map(Event::to_string).collect();
    let expected = [
        "0.000000001 state; 1 state",
        "0.000000010 enqueue #0 3028b buffer 2962b truesize 4176 hash deadbeef carried protocol 0800 ds 02 gso 2x1448b type 0x1 departure 5.000000001 [clock +0] -> queued; queue 2p 6056b; 1 state",
        "0.000000020 enqueue #1 3028b buffer 2962b truesize 4176 charged hash deadbeef carried protocol 0800 ds 02 gso 2x1448b type 0x1 split into 2 vlan 8100:6064 [clock +1] [hash 00000005 of 010203] [draw16 0xffff] [draw64 0xffffffffffffffff] [drop #0 (codel, code 7)] [drop of an unknown packet] [tree +1p -66b emptied] [watchdog 0.000000005 +1] -> congested; queue 2p 6056b; 1 state",
        "0.000000019 timer [jiffies 4294937296]; queue 2p 6056b; 1 state",
        "0.000000030 dequeue -> #1.2 1514b ds 03 [15]=03; queue 2p 6056b; 1 state",
        "0.000000031 peek -> #0 0b; queue 2p 6056b; 1 state",
        "0.000000032 dequeue-peeked -> nothing; queue 2p 6056b; 1 state",
        "0.000000033 change \"limit 10\" -> refused, errno 22; queue 2p 6056b; 1 state",
        "0.000000034 reset; queue 2p 6056b; 1 state",
        "0.000000040 connection 1 cong_avoid 1 18446744073709551615 [clock +1] -> 10; jiffies 100 to 101; 1 state",
        "0.000000050 statistics drops=-3 text \"qdisc\\n\"",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn snapshots_print_with_their_names() {
    let header = header();
    let snapshot = Snapshot { schema: 1, moment: Moment::Before, key: 16, values: vec![u64::MAX, 127, 5, 0] };
    assert_eq!(header.schemas[1].describe(&snapshot), "two[0x10] before: f0=-1 f1=127 f2=5 f3=0");
    assert_eq!(header.schemas[1].value(&snapshot, "f0"), Some(-1));
    assert_eq!(header.schemas[1].value(&snapshot, "f9"), None);
    assert_eq!(header.schema("two"), Some((1, &header.schemas[1])));
}

#[test]
fn a_summary_counts() {
    let bytes = written(&sample());
    let summary = Summary::of(&mut Reader::new(&bytes[..]).unwrap()).unwrap();
    assert_eq!(summary.events, 11);
    assert_eq!((summary.packets, summary.delivered, summary.marked, summary.dropped), (2, 1, 1, 2));
    assert_eq!((summary.clock_reads, summary.draws, summary.corrections, summary.snapshots), (3, 2, 1, 10));
    assert_eq!((summary.connections, summary.blocks, summary.span_ns), (2, 1, [1, 50]));
    assert_eq!(summary.calls["enqueue"], 2);
    assert_eq!(summary.hooks["cong_avoid"], 1);
    let text = summary.to_string();
    assert!(text.starts_with("events       11 in 1 blocks\nspan         0.000 s\n"), "{text}");
    assert!(Summary::of(&mut Reader::new(&bytes[..bytes.len() - 1]).unwrap()).is_err());
}
