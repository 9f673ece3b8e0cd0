//! The committed congestion-control recordings of three kernels, replayed hook by hook.

use debloat_harness::replay::{ReplayError, Report, replay};
use debloat_harness::trace::{Event, Moment, Trace};

use std::path::PathBuf;

fn read(series: &str, name: &str) -> Trace {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conformance/traces/recorded").join(series);
    Trace::read(folder.join(format!("{name}.trace"))).unwrap()
}

fn run(trace: &Trace) -> Report {
    let events = trace.events.iter().cloned().map(Ok::<Event, ReplayError>);
    replay(&trace.header, events).unwrap()
}

/// Events, ticks that fell into a call, draws; no divergence.
fn exact(name: &str, want: [(&str, u64, u64, u64); 3]) {
    for (series, events, ambiguous, draws) in want {
        let report = run(&read(series, name));
        assert_eq!(report.first.map(|d| d.to_string()), None, "{series} {name}");
        assert_eq!((report.events, report.ambiguous, report.draws), (events, ambiguous, draws), "{series} {name}");
        assert!(report.state_values > events * 40);
    }
}

#[test]
fn cubic() {
    exact("cubic", [("6.1", 6987, 21, 0), ("6.12", 7097, 23, 0), ("7.2", 6837, 23, 0)]);
}

#[test]
fn dctcp() {
    exact("dctcp", [("6.1", 12_777, 49, 0), ("6.12", 12_701, 51, 0), ("7.2", 12_922, 60, 0)]);
}

#[test]
fn bbr() {
    exact("bbr", [("6.1", 4597, 37, 2), ("6.12", 4661, 34, 2), ("7.2", 4789, 31, 2)]);
}

/// Every recorded value that a hook wrote is compared: change any one and the replay must say so.
#[test]
fn a_changed_value_is_found() {
    for name in ["cubic", "dctcp", "bbr"] {
        let trace = read("7.2", name);
        let mut changed = 0;
        for at in (200..trace.events.len()).step_by(trace.events.len() / 40) {
            let mut one = Trace { header: trace.header.clone(), events: vec![trace.events[at].clone()] };
            let Event::Hook(hook) = &mut one.events[0] else { panic!() };
            for snapshot in hook.snapshots.iter_mut().filter(|s| s.moment == Moment::After) {
                let i = at % snapshot.values.len();
                snapshot.values[i] ^= 1;
            }
            let report = run(&one);
            assert_eq!(report.divergences, 1, "{name} event {at}");
            changed += 1;
        }
        assert!(changed >= 30);
    }
}
