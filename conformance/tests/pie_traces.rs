//! The recordings of pie and fq_pie: replayed without a divergence, and the timer model against the kernels' timers.

use std::path::{Path, PathBuf};

use debloat_conformance::conform;
use debloat_harness::replay::Report;
use debloat_harness::trace::{Event, Operation, Reader, Step};

const SERIES: [&str; 3] = ["6.1", "6.12", "7.2"];

fn trace(series: &str, name: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/recorded");
    let file = folder.join(series).join(name).with_extension("trace");
    (folder, file)
}

fn replay(series: &str, name: &str) -> Report {
    let (folder, file) = trace(series, name);
    let row = conform::replay_file(&folder, &file);
    let report = row.result.unwrap_or_else(|error| panic!("{name} of {series}: {error}"));
    if let Some(first) = &report.first {
        panic!("{name} of {series}: {} divergences\n{first}", report.divergences);
    }
    report
}

#[test]
fn pie_is_exact() {
    for series in SERIES {
        let report = replay(series, "pie");
        println!("{series}: {report:?}");
        assert!(report.packets > 5000 && report.draws > 1000 && report.marks > 10 && report.drops > 5, "{report:?}");
        assert!(report.state_values > 50_000, "{report:?}");
    }
}

#[test]
fn fq_pie_is_exact() {
    for series in SERIES {
        let report = replay(series, "fq_pie");
        println!("{series}: {report:?}");
        assert!(report.packets > 5000 && report.draws > 1000 && report.marks > 10 && report.drops > 1000, "{report:?}");
    }
}

/// The jiffies at which the kernel's timer ran.
fn timer_runs(series: &str, name: &str) -> Vec<u64> {
    let (_, file) = trace(series, name);
    let mut runs = Vec::new();
    for event in Reader::open(&file).expect("a sound trace") {
        let Event::Call(call) = event.expect("a sound trace") else { continue };
        if matches!(call.operation, Operation::Timer) {
            runs.extend(call.steps.iter().find_map(|step| match step {
                Step::Jiffies(jiffies) => Some(*jiffies),
                _ => None,
            }));
        }
    }
    runs
}

/// The kernel-like timer model says when a timer runs that is armed for four jiffies later: at the fifth. A busy
/// machine can be late, never early.
#[test]
fn timers_run_when_the_model_says() {
    for series in SERIES {
        for name in ["pie", "fq_pie"] {
            let runs = timer_runs(series, name);
            let gaps: Vec<u64> = runs.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let on_time = gaps.iter().filter(|gap| **gap == 5).count();
            println!("{name} of {series}: {on_time} of {} on time, longest {:?}", gaps.len(), gaps.iter().max());
            assert!(gaps.len() > 200 && gaps.iter().all(|gap| *gap >= 5), "{gaps:?}");
            assert!(on_time * 100 > gaps.len() * 95, "{gaps:?}");
        }
    }
}
