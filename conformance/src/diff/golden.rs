//! Golden traces: the kernel's answers to drawn cases, kept so that machines without a kernel check them too.

use std::fs;
use std::path::{Path, PathBuf};

use debloat_aqm::net::testing::Dice;
use debloat_harness::trace::Origin;
use debloat_oracle::World;

use super::campaign::{CampaignReport, CaseEnd, CaseError, run_case, write_trace};
use super::case::Case;
use super::coverage::Coverage;
use super::kernel::Session;
use super::target::Target;

/// Cases looked at when choosing.
const CANDIDATES: u64 = 400;
/// Operations per case.
const STEPS: usize = 500;

/// Chooses drawn cases that together reach every branch which the candidates reach, each adding at least one, and
/// writes their traces as `<folder>/<series>/<kind>-<n>.trace`.
///
/// # Errors
///
/// A case on which kernel and port differ, trouble in the kernel, or a file that cannot be written.
pub fn make(world: &World, target: &dyn Target, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut session = Session::new(world, target).map_err(|error| error.to_string())?;
    let dir = folder.join(world.kernel().series());
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut reached = Coverage::default();
    let mut paths = Vec::new();
    for seed in 0..CANDIDATES {
        let case = Case::draw(target, &mut Dice::seeded(seed), STEPS);
        let mut report = CampaignReport::default();
        let mut events = Some(Vec::new());
        match run_case(&mut session, &case, &mut report, &mut events) {
            Ok(CaseEnd::Same) => {}
            Ok(CaseEnd::Refused) => continue,
            Ok(CaseEnd::Differs(_, divergence)) => return Err(format!("seed {seed}: {divergence}")),
            Err(error) => return Err(failed(seed, &case, &error)),
        }
        let new = |branch: &&&str| reached.count(branch) == 0 && report.coverage.count(branch) > 0;
        let added: Vec<&str> = target.branches().iter().filter(new).copied().collect();
        if added.is_empty() {
            continue;
        }
        reached.add(&report.coverage);
        let path = dir.join(format!("{}-{}.trace", target.kind(), paths.len() + 1));
        let header = session.header(&case, Origin::OracleMade, &format!("reaches: {}", added.join(", ")));
        write_trace(&path, &header, &events.unwrap_or_default()).map_err(|error| error.to_string())?;
        paths.push(path);
    }
    Ok(paths)
}

fn failed(seed: u64, case: &Case, error: &CaseError) -> String {
    format!("seed {seed} ({}): {error}", case.options.text)
}
