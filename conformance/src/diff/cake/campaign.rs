//! Many cases, in worker processes.

use debloat_aqm::Linux;
use debloat_aqm::net::testing::Dice;
use debloat_oracle::worker::{self, Plan};
use debloat_oracle::{Kernel, World, WorldOptions};

use super::case::{self, Case, Failure};
use super::coverage::Coverage;

/// What a campaign found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was reached.
    pub coverage: Coverage,
    /// One line per failed case or worker.
    pub failures: Vec<String>,
}

/// The Linux version that a kernel's release names, if the ports know it.
pub fn linux_of(kernel: &Kernel) -> Option<Linux> {
    Linux::ALL.into_iter().find(|linux| {
        let rest = kernel.release().strip_prefix(linux.series());
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Operations of one case.
const CASE: u64 = 4_000;

/// Compares for about so many operations. The same seed and number give the same cases, whatever the workers.
///
/// # Errors
///
/// The kernel cannot be loaded, or is none that the ports know.
pub fn campaign(kernel: &Kernel, operations: u64, seed: u64, workers: usize) -> Result<Outcome, String> {
    let linux = linux_of(kernel).ok_or_else(|| format!("{}: not a Linux that the ports know", kernel.release()))?;
    let shards = operations.div_ceil(CASE * 250).max(1);
    let cases = operations.div_ceil(CASE * shards).max(1);
    let world = World::load(kernel, WorldOptions::default()).map_err(|error| error.to_string())?;
    let plan = Plan { workers, stop_on_failure: true, ..Plan::new(shards, seed) };
    let results = worker::map(&plan, |shard| -> (Coverage, Option<String>) {
        let mut coverage = Coverage::default();
        for number in 0..cases {
            let seed = worker::shard_seed(shard.seed, number);
            shard.step(coverage.operations);
            // Short cases see more configurations, long ones reach further.
            let operations = match number % 8 {
                0 => CASE * 4,
                1..=3 => CASE,
                _ => CASE / 8,
            };
            if let Err(failure) = one(&world, linux, Case { seed, operations }, &mut coverage) {
                return (coverage, Some(failure.to_string()));
            }
        }
        (coverage, None)
    });
    let mut outcome = Outcome::default();
    for (_, result) in results {
        match result {
            Ok((coverage, failure)) => {
                outcome.coverage.add(&coverage);
                outcome.failures.extend(failure);
            }
            Err(error) => outcome.failures.push(error.to_string()),
        }
    }
    Ok(outcome)
}

/// Runs the case of a seed.
///
/// # Errors
///
/// As [`case::run`].
pub fn one(world: &World, linux: Linux, case: Case, coverage: &mut Coverage) -> Result<(), Failure> {
    case::run(world, linux, case, &mut Dice::seeded(case.seed), coverage)
}
