//! The queue disciplines under overload: repeatable, independent of position, conserving.

mod common;

use common::{Outcome, conserved, kernels, overload, with_world};
use debloat_oracle::WorldOptions;

const KINDS: [&str; 11] =
    ["codel", "fq_codel", "pie", "fq_pie", "fq", "red", "sfq", "cake", "pfifo", "bfifo", "pfifo_head_drop"];
const STEPS: u64 = 8_000;

fn all(world: &debloat_oracle::World) -> debloat_oracle::Result<Vec<(String, Outcome)>> {
    KINDS.iter().map(|kind| Ok((kind.to_string(), overload(world, kind, STEPS, 7)?))).collect()
}

#[test]
fn every_kind_runs_and_conserves_packets() {
    for kernel in kernels("every_kind_runs_and_conserves_packets") {
        for (kind, o) in with_world(&kernel, WorldOptions::default(), all) {
            assert!(conserved(&o), "{} {kind} {o:?}", kernel.release());
            assert!(o.dequeued > STEPS / 3 && o.dropped > 100, "{} {kind} {o:?}", kernel.release());
        }
    }
}

#[test]
fn two_runs_are_equal_in_one_world_and_across_worlds_at_other_positions() {
    for kernel in kernels("two_runs_are_equal_in_one_world_and_across_worlds_at_other_positions") {
        let here = with_world(&kernel, WorldOptions::default(), |w| Ok((all(w)?, all(w)?)));
        assert_eq!(here.0, here.1, "{}", kernel.release());
        let moved = WorldOptions {
            image_base: 0x4000_0000,
            arena_base: 0x1000_0000 + 0x7000,
            arena_size: 0x1000_0000,
            ..WorldOptions::default()
        };
        assert_eq!(here.0, with_world(&kernel, moved, all), "{}", kernel.release());
    }
}

#[test]
fn another_seed_gives_another_run() {
    for kernel in kernels("another_seed_gives_another_run") {
        let (a, b) = with_world(&kernel, WorldOptions::default(), |w| {
            Ok((overload(w, "pie", STEPS, 1)?, overload(w, "pie", STEPS, 2)?))
        });
        assert_ne!(a.digest, b.digest);
    }
}

#[test]
fn kinds_that_did_not_change_agree_between_series() {
    let results: Vec<_> = kernels("kinds_that_did_not_change_agree_between_series")
        .iter()
        .map(|k| (k.release().to_owned(), with_world(k, WorldOptions::default(), all)))
        .collect();
    for kind in ["pie", "fq_pie", "pfifo", "bfifo", "pfifo_head_drop", "sfq", "red", "codel", "fq_codel"] {
        let mut decisions: Vec<_> = results
            .iter()
            .flat_map(|(_, all)| all.iter().filter(|(k, _)| k == kind).map(|(_, o)| o.decisions))
            .collect();
        decisions.dedup();
        assert!(decisions.len() <= 1, "{kind} decides differently: {results:?}");
    }
}

#[test]
fn memory_does_not_grow_with_operations() {
    for kernel in kernels("memory_does_not_grow_with_operations") {
        let (warm, later) = with_world(&kernel, WorldOptions::default(), |w| {
            overload(w, "fq_codel", 20_000, 3)?;
            overload(w, "cake", 20_000, 3)?;
            let warm = w.memory_in_use();
            for _ in 0..3 {
                overload(w, "fq_codel", 20_000, 3)?;
                overload(w, "cake", 20_000, 3)?;
            }
            Ok((warm, w.memory_in_use()))
        });
        assert_eq!(warm, later, "{} (blocks, bytes)", kernel.release());
    }
}
