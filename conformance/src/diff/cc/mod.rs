//! Congestion controls against a kernel's own: random hook sequences on both, every connection variable, the whole
//! private area and the return value compared after each hook.
//!
//! Unlike a queue discipline, a hook's input is fully known, so a divergence needs no shrinking: one call with its
//! state before is the shortest input there is.

mod core_calls;
mod draw;
mod hooks;
mod mirror;

use debloat_oracle::{Error, World};
use serde::{Deserialize, Serialize};

use super::Coverage;

pub use draw::Random;
pub use mirror::Mirror;

/// What can be compared.
pub const SUBJECTS: [&str; 5] = ["reno", "cubic", "dctcp", "bbr", "core"];

/// What a part of a campaign found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CcReport {
    /// Calls compared.
    pub calls: u64,
    /// Connections.
    pub cases: u64,
    /// Values compared.
    pub values: u64,
    /// Branches reached.
    pub coverage: Coverage,
    /// The first divergence, as text.
    pub divergence: Option<String>,
    /// Fields that this kernel lacks and that were therefore not compared.
    pub absent: Vec<String>,
}

impl CcReport {
    /// Adds another part; the first divergence stays.
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.cases += other.cases;
        self.values += other.values;
        self.coverage.add(&other.coverage);
        self.divergence = self.divergence.take().or(other.divergence);
        self.absent = other.absent;
    }

    /// The branches of a subject's specification that were not reached.
    pub fn unreached(&self, subject: &str) -> Vec<&'static str> {
        branches(subject).iter().copied().filter(|branch| self.coverage.count(branch) == 0).collect()
    }
}

/// The branches of the specification that a campaign must reach.
pub fn branches(subject: &str) -> &'static [&'static str] {
    match subject {
        "reno" => &["slow start", "slow start ends inside an ACK", "avoidance", "not limited", "undo raises"],
        "cubic" => hooks::cubic::BRANCHES,
        "dctcp" => hooks::dctcp::BRANCHES,
        "bbr" => hooks::bbr::BRANCHES,
        "core" => core_calls::BRANCHES,
        _ => &[],
    }
}

/// Runs `calls` hook calls of a subject on the kernel in `world` and on the port.
///
/// # Errors
///
/// Trouble inside the kernel's code, or an unknown subject.
pub fn run(
    world: &World,
    subject: &str,
    calls: u64,
    seed: u64,
    mut progress: impl FnMut(u64),
) -> Result<CcReport, Error> {
    let mut report = CcReport::default();
    let mut case = 0u64;
    while report.calls < calls && report.divergence.is_none() {
        let mut random = Random::new(seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        case += 1;
        report.cases += 1;
        match subject {
            "reno" => hooks::reno::case(world, &mut random, &mut report)?,
            "cubic" => hooks::cubic::case(world, &mut random, &mut report)?,
            "dctcp" => hooks::dctcp::case(world, &mut random, &mut report)?,
            "bbr" => hooks::bbr::case(world, &mut random, &mut report)?,
            "core" => core_calls::case(world, &mut random, &mut report)?,
            _ => return Err(Error::Request(format!("{subject}: not one of {SUBJECTS:?}"))),
        }
        progress(report.calls);
    }
    Ok(report)
}
