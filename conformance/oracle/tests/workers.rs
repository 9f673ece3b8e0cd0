//! Workers forked from a loaded world.

mod common;

use common::{kernels, overload};
use debloat_oracle::worker::{Plan, WorkerError, isolate, map};
use debloat_oracle::{World, WorldOptions};

#[test]
fn shards_do_not_depend_on_the_number_of_workers_and_crashes_are_named() {
    for kernel in kernels("shards_do_not_depend_on_the_number_of_workers_and_crashes_are_named") {
        let result = isolate(|| {
            let world = World::load(&kernel, WorldOptions::default()).map_err(|e| e.to_string())?;
            let run = |workers| {
                map(&Plan { workers, ..Plan::new(4, 99) }, |shard| {
                    overload(&world, "fq_codel", 500, shard.seed).map(|o| o.digest).map_err(|e| e.to_string())
                })
            };
            let (one, two) = (run(1), run(3));
            let crash = map(&Plan::new(2, 1), |shard| {
                shard.step(41 + shard.index);
                if shard.index == 1 {
                    // A trap outside the gate is a crash like any other.
                    std::process::abort();
                }
                7u8
            });
            Ok::<_, String>((one == two && one.iter().all(|(_, r)| matches!(r, Ok(Ok(_)))), crash))
        });
        let (equal, crash) = result.expect("isolated").expect("loads");
        assert!(equal);
        assert_eq!(crash[0], (0, Ok(7)));
        assert_eq!(crash[1].1, Err(WorkerError::Signal { shard: 1, step: 42, signal: libc::SIGABRT }));
    }
}
