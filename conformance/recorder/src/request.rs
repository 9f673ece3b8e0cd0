//! What `debloat record` does, as one call.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::convert::trace;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::live;
use crate::progress::Progress;
use crate::qemu::GuestClock;
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::scenario::{Record, Scenario};

/// Which kernel is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A fetched kernel in a guest: a series (`6.12`), a release, or `newest`.
    Guest(String),
    /// The running kernel, by the traffic of this interface.
    Live(String),
}

/// What to record.
#[derive(Debug, Clone)]
pub struct Request {
    /// On which kernel.
    pub source: Source,
    /// Built-in scenarios' names or scenario files.
    pub scenarios: Vec<String>,
    /// The trace's file; with several scenarios a folder, in which each trace has its scenario's name.
    pub out: PathBuf,
    /// Keeps the raw records and everything else that the guest sent, in this folder.
    pub keep: Option<PathBuf>,
    /// What drives the guest's clock.
    pub clock: GuestClock,
}

/// A finished recording.
#[derive(Debug)]
pub struct Outcome {
    /// The scenario.
    pub scenario: String,
    /// The kernel's release.
    pub release: String,
    /// Where the trace is.
    pub trace: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many events it has.
    pub events: usize,
    /// How long all recordings of the request took together.
    pub elapsed: Duration,
}

/// Records, converts, and writes the traces. One scenario that fails does not stop the others.
///
/// # Errors
/// What keeps every scenario from being recorded.
pub fn record(request: &Request, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Vec<Result<Outcome, Error>>, Error> {
    let begin = Instant::now();
    let scenarios = request.scenarios.iter().map(|n| Scenario::load(n)).collect::<Result<Vec<_>, _>>()?;
    if let Some(silent) = scenarios.iter().find(|s| s.record == Record::Nothing) {
        return Err(Error::Scenario {
            file: silent.name.clone(),
            line: 1,
            column: 1,
            message: "record = \"nothing\": this scenario is only measured and makes no trace".into(),
        });
    }
    let scratch = tempfile::tempdir().map_err(Error::io(std::env::temp_dir()))?;
    let folder = request.keep.clone().unwrap_or_else(|| scratch.path().to_path_buf());
    let cache = debloat_oracle::cache_dir().join("recorder");
    let recordings: Vec<Result<Recording, Error>> = match &request.source {
        Source::Guest(wanted) => {
            let recorder = Recorder { clock: request.clock, ..Recorder::new(Kernel::find(wanted)?, cache) };
            recorder.run_all(&scenarios, &folder, progress)?
        }
        Source::Live(interface) => {
            scenarios.iter().map(|s| live::run(interface, s, &folder.join(&s.name), &cache, progress)).collect()
        }
    };
    let several = scenarios.len() > 1;
    if several {
        std::fs::create_dir_all(&request.out).map_err(Error::io(&request.out))?;
    }
    Ok(recordings
        .into_iter()
        .map(|recording| {
            let recording = recording?;
            let name = recording.scenario.name.clone();
            let path = if several { request.out.join(format!("{name}.trace")) } else { request.out.clone() };
            let made = trace(&recording)?;
            made.write(&path).map_err(|e| Error::Io { path: path.clone(), source: std::io::Error::other(e) })?;
            let bytes = std::fs::metadata(&path).map_err(Error::io(&path))?.len();
            Ok(Outcome {
                scenario: name,
                release: recording.release,
                trace: path,
                bytes,
                events: made.events.len(),
                elapsed: begin.elapsed(),
            })
        })
        .collect())
}
