//! A campaign: many cases in parallel worker processes, the same for a seed whatever their number.

use std::fs;
use std::path::{Path, PathBuf};

use debloat_aqm::net::testing::Dice;
use debloat_harness::replay::{Divergence, QdiscReplay, ReplayError};
use debloat_harness::trace::{Event, Origin, TraceError, Writer};
use debloat_oracle::{World, worker};
use serde::{Deserialize, Serialize};

use super::case::Case;
use super::coverage::Coverage;
use super::kernel::{Known, Session, Trouble};
use super::shrink::shrink;
use super::target::{Seen, Target};

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Operations in all.
    pub operations: u64,
    /// Seed of the campaign.
    pub seed: u64,
    /// Operations per case.
    pub steps_per_case: usize,
    /// Worker processes; 0 for one per processor.
    pub workers: usize,
    /// Where to write the shrunk divergences.
    pub out: PathBuf,
}

/// What a campaign found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CampaignReport {
    /// Operations compared.
    pub operations: u64,
    /// Qdiscs created.
    pub cases: u64,
    /// Option sets that both sides refused.
    pub refused: u64,
    /// Packets offered.
    pub packets: u64,
    /// Private-state values compared.
    pub state_values: u64,
    /// Branches reached.
    pub coverage: Coverage,
    /// The divergences, shrunk.
    pub found: Vec<Found>,
}

/// One divergence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Operations of the shard before it, with this one.
    pub after_operations: u64,
    /// Steps of the shrunk sequence.
    pub steps: usize,
    /// What differs, as text.
    pub text: String,
    /// The trace, if it could be written.
    pub trace: Option<PathBuf>,
}

/// Why a case could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The kernel's side.
    #[error("kernel: {0}")]
    Kernel(#[from] Trouble),
    /// The port's side does not understand the call.
    #[error("port: {0}")]
    Port(#[from] ReplayError),
    /// One side took options that the other refused.
    #[error("options \"{options}\": {kernel} by the kernel, {port} by the port")]
    Refusal {
        /// The text.
        options: String,
        /// `accepted` or `refused`.
        kernel: &'static str,
        /// `accepted`, or why not.
        port: String,
    },
}

/// How one case ended.
pub enum CaseEnd {
    /// All steps agreed.
    Same,
    /// Both sides refused the options.
    Refused,
    /// The step that differed.
    Differs(usize, Box<Divergence>),
}

/// Runs one case on both sides. `seen` looks at every call that agreed.
///
/// # Errors
///
/// Trouble on either side, or options that only one of them takes.
pub fn run_case(
    session: &mut Session<'_>,
    case: &Case,
    report: &mut CampaignReport,
    keep: &mut Option<Vec<Event>>,
) -> Result<CaseEnd, CaseError> {
    let header = session.header(case, Origin::OracleMade, "");
    let running = session.start(case)?;
    let refusal = |kernel, port| CaseError::Refusal { options: case.options.text.clone(), kernel, port };
    let (mut running, mut replay) = match (running, QdiscReplay::new(&header)) {
        (Some(running), Ok(replay)) => (running, replay.without_context()),
        (None, Err(ReplayError::Options(_))) => return Ok(CaseEnd::Refused),
        (None, Ok(_)) => return Err(refusal("refused", "accepted".into())),
        (Some(_), Err(ReplayError::Options(error))) => return Err(refusal("accepted", error.to_string())),
        (_, Err(error)) => return Err(error.into()),
    };
    let mut known = Known::new();
    for (number, step) in case.steps.iter().enumerate() {
        let call = running.step(session, case, step)?;
        let event = Event::Call(call);
        replay.event(&event)?;
        report.operations += 1;
        if let Event::Call(call) = &event {
            let seen = Seen { call, schemas: &session.schemas, before: &known };
            session.target().cover(&seen, &mut report.coverage);
            for snapshot in &call.snapshots {
                known.insert((snapshot.schema.into(), snapshot.key), snapshot.values.clone());
            }
        }
        if let Some(events) = keep {
            events.push(event);
        }
        if let Some(divergence) = replay.take_divergence() {
            return Ok(CaseEnd::Differs(number, Box::new(divergence)));
        }
    }
    let compared = replay.finish();
    report.packets += compared.packets;
    report.state_values += compared.state_values;
    Ok(CaseEnd::Same)
}

impl Campaign {
    /// Runs it in forked workers. `progress` is told the operations of each finished shard.
    ///
    /// # Errors
    ///
    /// A worker that died, with its shard and step, or a case that could not be run.
    pub fn run(
        &self,
        world: &World,
        target: &dyn Target,
        mut progress: impl FnMut(u64),
    ) -> Result<CampaignReport, String> {
        const SHARD: u64 = 200_000;
        let shards = self.operations.div_ceil(SHARD).max(1);
        let plan =
            worker::Plan { workers: self.workers, stop_on_failure: true, ..worker::Plan::new(shards, self.seed) };
        let mut total = CampaignReport::default();
        let mut trouble = None;
        let per_shard = self.operations.div_ceil(shards);
        worker::run(
            &plan,
            |shard| self.shard(world, target, &shard, per_shard),
            |index, result| match result {
                Ok(Ok(part)) => {
                    progress(part.operations);
                    total.operations += part.operations;
                    total.cases += part.cases;
                    total.refused += part.refused;
                    total.packets += part.packets;
                    total.state_values += part.state_values;
                    total.coverage.add(&part.coverage);
                    total.found.extend(part.found);
                }
                Ok(Err(text)) => trouble = Some(format!("shard {index}: {text}")),
                Err(error) => trouble = Some(error.to_string()),
            },
        );
        trouble.map_or(Ok(total), Err)
    }

    fn shard(
        &self,
        world: &World,
        target: &dyn Target,
        shard: &worker::Shard<'_>,
        operations: u64,
    ) -> Result<CampaignReport, String> {
        let mut session = Session::new(world, target).map_err(|error| error.to_string())?;
        let mut report = CampaignReport::default();
        let mut case_number = 0u64;
        while report.operations < operations && report.found.is_empty() {
            shard.step(report.operations);
            let mut dice = Dice::seeded(shard.seed.wrapping_add(case_number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            case_number += 1;
            // Short cases meet the beginnings often, long ones the late states.
            let steps = self.steps_per_case.min((operations - report.operations) as usize);
            let case = Case::draw(target, &mut dice, if case_number % 4 == 0 { steps } else { steps.div_ceil(8) });
            report.cases += 1;
            match run_case(&mut session, &case, &mut report, &mut None) {
                Ok(CaseEnd::Same) => {}
                Ok(CaseEnd::Refused) => report.refused += 1,
                Ok(CaseEnd::Differs(step, _)) => {
                    let found = self.shrunk(&mut session, &case, step, shard.seed, report.operations);
                    report.found.push(found);
                }
                Err(error) => return Err(format!("case {case_number} ({}): {error}", case.options.text)),
            }
        }
        Ok(report)
    }

    fn shrunk(&self, session: &mut Session<'_>, case: &Case, step: usize, seed: u64, operations: u64) -> Found {
        let differs = |session: &mut Session<'_>, case: &Case| {
            matches!(run_case(session, case, &mut CampaignReport::default(), &mut None), Ok(CaseEnd::Differs(..)))
        };
        let short = shrink(case, step, |shorter| differs(session, shorter));
        let mut events = Some(Vec::new());
        let end = run_case(session, &short, &mut CampaignReport::default(), &mut events);
        let text = match end {
            Ok(CaseEnd::Differs(_, divergence)) => divergence.to_string(),
            Ok(_) => "the divergence did not come again".to_owned(),
            Err(error) => error.to_string(),
        };
        let events = events.unwrap_or_default();
        let name = format!("{}-{seed:016x}.trace", session.target().kind());
        let trace = self.out.join(name);
        let header = session.header(&short, Origin::ShrunkDivergence, "a divergence, shrunk");
        let written = fs::create_dir_all(&self.out).map_err(|error| error.to_string());
        let written = written.and_then(|()| write_trace(&trace, &header, &events).map_err(|error| error.to_string()));
        Found {
            after_operations: operations,
            steps: short.steps.len(),
            text: format!("options: {}\n{text}", short.options.text),
            trace: written.is_ok().then_some(trace),
        }
    }
}

/// Writes a trace file.
///
/// # Errors
///
/// Those of the file and the format.
pub fn write_trace(path: &Path, header: &debloat_harness::trace::Header, events: &[Event]) -> Result<(), TraceError> {
    let mut writer = Writer::create(path, header)?;
    for event in events {
        writer.write(event)?;
    }
    writer.finish().map(drop)
}
