use super::*;
use crate::trace::{Hook, HookKind, Moment};

const BEFORE: u16 = 17;
const AFTER: u16 = 18;
const TWIN: u32 = 1 << 16;
const CONG_AVOID: u32 = 1;

fn hooks(trace: &Trace) -> Vec<&Hook> {
    let mut hooks = Vec::new();
    for event in &trace.events {
        let Event::Hook(hook) = event else { panic!("not a hook") };
        hooks.push(hook);
    }
    hooks
}

/// A whole call, the second twin first, as recorded.
fn call(raw: &mut Raw, function: u32, socket: u64, cwnd: u32, private: u32) {
    for kind in [BEFORE, AFTER] {
        for twin in [TWIN, 0] {
            let grown = u32::from(kind == AFTER);
            raw.hook(kind, function | twin, socket, cwnd + grown, private + grown);
        }
    }
}

#[test]
fn twins_become_one_call() {
    let mut raw = Raw::default();
    call(&mut raw, CONG_AVOID, 0xa, 10, 100);
    call(&mut raw, CONG_AVOID, 0xb, 20, 100);
    call(&mut raw, 2, 0xa, 11, 101);
    let trace = import("cc-cubic-61", &raw).unwrap();
    let hooks = hooks(&trace);
    assert_eq!(hooks.iter().map(|hook| hook.connection).collect::<Vec<_>>(), [0, 1, 0]);
    let first = hooks[0];
    assert_eq!((first.hook, first.result), (HookKind::CongAvoid, None));
    assert_eq!(first.arguments, [1, 2], "cut to 32 bits");
    assert_eq!(first.jiffies, [5001, 5002], "of the twins next to the call");
    let (schema, connection) = trace.header.schema("cc.conn").unwrap();
    let seen = first.snapshots.iter().filter(|snapshot| snapshot.schema == schema);
    let cwnds: Vec<_> = seen.map(|s| (s.moment, connection.value(s, "cwnd"), connection.value(s, "state"))).collect();
    assert_eq!(cwnds, [(Moment::Before, Some(10), Some(4)), (Moment::After, Some(11), Some(4))]);
    assert_eq!((hooks[2].hook, hooks[2].result), (HookKind::Ssthresh, Some(10)));
    assert_eq!(trace.header.remarks["twin_records"], 6);
    assert_eq!(trace.header.remarks.len(), 1, "{:?}", trace.header.remarks);
}

#[test]
fn one_twin_is_enough() {
    let mut raw = Raw::default();
    // Of the first call one beginning is missing, of the second one end.
    raw.hook(BEFORE, CONG_AVOID, 1, 10, 5).hook(AFTER, CONG_AVOID | TWIN, 1, 11, 6).hook(AFTER, CONG_AVOID, 1, 11, 6);
    raw.hook(BEFORE, CONG_AVOID | TWIN, 1, 11, 6).hook(BEFORE, CONG_AVOID, 1, 11, 6);
    raw.hook(AFTER, CONG_AVOID | TWIN, 1, 12, 7);
    call(&mut raw, CONG_AVOID, 1, 12, 7);
    let trace = import("cc-cubic-61", &raw).unwrap();
    assert_eq!(hooks(&trace).len(), 3);
    assert!(!trace.header.remarks.contains_key("states_changed_between_calls"));
}

#[test]
fn a_call_inside_a_call_is_its_own() {
    let mut raw = Raw::default();
    raw.hook(BEFORE, 3 | TWIN, 1, 10, 5).hook(BEFORE, 3, 1, 10, 5);
    call(&mut raw, CONG_AVOID, 2, 20, 50);
    raw.hook(AFTER, 3 | TWIN, 1, 10, 5).hook(AFTER, 3, 1, 10, 5);
    let trace = import("cc-cubic-61", &raw).unwrap();
    let seen: Vec<_> = hooks(&trace).iter().map(|hook| (hook.hook, hook.connection)).collect();
    assert_eq!(seen, [(HookKind::CongAvoid, 0), (HookKind::SetState, 1)], "in the order of their ends");
}

#[test]
fn changes_between_calls_and_calls_without_end_are_counted() {
    let mut raw = Raw::default();
    call(&mut raw, CONG_AVOID, 1, 10, 5);
    call(&mut raw, CONG_AVOID, 1, 11, 9);
    raw.hook(BEFORE, 2 | TWIN, 1, 12, 10).hook(BEFORE, 2, 1, 12, 10);
    let trace = import("cc-cubic-61", &raw).unwrap();
    assert_eq!(hooks(&trace).len(), 2);
    assert_eq!(trace.header.remarks["states_changed_between_calls"], 1);
    assert_eq!(trace.header.remarks["calls_cut_off_at_the_end"], 1);
}

#[test]
fn draws_belong_to_the_call_around_them() {
    let mut raw = Raw::default();
    raw.draw(1, 8);
    raw.hook(BEFORE, 7 | TWIN, 1, 10, 5).hook(BEFORE, 7, 1, 10, 5).draw(0x142, 8);
    raw.hook(AFTER, 7 | TWIN, 1, 10, 6).draw(2, 8).hook(AFTER, 7, 1, 10, 6);
    let trace = import("cc-bbr-72", &raw).unwrap();
    let [hook] = hooks(&trace)[..] else { panic!("one call") };
    assert_eq!(hook.steps, [Step::Draw { bits: 8, value: 0x42 }]);
    assert_eq!(trace.header.remarks["draws_outside_hooks"], 2);
    let (schema, sample) = trace.header.schema("cc.rate_sample").unwrap();
    let snapshot = hook.snapshots.iter().find(|snapshot| snapshot.schema == schema).unwrap();
    assert_eq!(sample.value(snapshot, "losses"), Some(0x0303_0303));

    let mut raw = Raw::default();
    raw.hook(BEFORE, 7, 1, 10, 5).draw(1, 9);
    let error = import("cc-bbr-72", &raw).unwrap_err();
    assert!(matches!(error.kind, ImportErrorKind::Field { field: "the width of a draw", value: 9, .. }), "{error}");
    assert_eq!(error.record, 1);
}

#[test]
fn unknown_hooks_and_subjects_are_refused() {
    let mut raw = Raw::default();
    call(&mut raw, 11, 1, 10, 5);
    let error = import("cc-dctcp-61", &raw).unwrap_err();
    assert!(matches!(error.kind, ImportErrorKind::Field { field: "the hook's number", value: 11, .. }), "{error}");
    assert!(Meta::founding("cc-reno-61").is_none() && Meta::founding("cake-51").is_none());
    let mut meta = Meta::founding("cc-cubic-61").unwrap();
    let crate::trace::Subject::CongestionControl(subject) = &mut meta.subject else { unreachable!() };
    subject.name = "vegas".into();
    let error = congestion_control(&[][..], &meta).unwrap_err();
    assert!(matches!(error.kind, ImportErrorKind::UnknownSubject(name) if name == "vegas"));
}
