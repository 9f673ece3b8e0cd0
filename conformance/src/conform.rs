//! Replays a folder of traces: the project's main job.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::{fs, io, thread};

use debloat_harness::replay::{self, Divergence, ReplayError, Report};
use debloat_harness::trace::{Event, Header, Origin, Reader, TraceError};
use serde::Serialize;

/// What traces are called.
pub const EXTENSION: &str = "trace";

/// One trace's result.
#[derive(Debug)]
pub struct Row {
    /// The file, relative to the folder.
    pub name: String,
    /// Its header, if it could be read.
    pub header: Option<Header>,
    /// What the replay found.
    pub result: Result<Report, Failure>,
}

/// A trace that could not be replayed to its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file is bad.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The ports do not understand it.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// A row as JSON shows it.
#[derive(Debug, Serialize)]
pub struct JsonRow<'a> {
    /// The file, relative to the folder.
    pub trace: &'a str,
    /// The kernel's release.
    pub kernel: Option<&'a str>,
    /// The qdisc or congestion control.
    pub subject: Option<&'a str>,
    /// How the trace was made.
    pub origin: Option<Origin>,
    /// Counts and the first divergence, flattened.
    #[serde(flatten)]
    pub report: Option<&'a Report>,
    /// Why the trace could not be replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Row {
    /// Did every event agree?
    pub fn is_exact(&self) -> bool {
        matches!(&self.result, Ok(report) if report.divergences == 0)
    }

    /// The first divergence, if there is one.
    pub fn divergence(&self) -> Option<&Divergence> {
        self.result.as_ref().ok()?.first.as_ref()
    }

    /// The row for JSON.
    pub fn json(&self) -> JsonRow<'_> {
        JsonRow {
            trace: &self.name,
            kernel: self.header.as_ref().map(|header| header.kernel.release.as_str()),
            subject: self.header.as_ref().map(|header| header.subject.name()),
            origin: self.header.as_ref().map(|header| header.origin),
            report: self.result.as_ref().ok(),
            error: self.result.as_ref().err().map(ToString::to_string),
        }
    }
}

/// The folder of the committed traces: `conformance/traces` here or in a folder above.
pub fn committed_traces() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join("conformance").join("traces")).find(|dir| dir.is_dir())
}

/// The trace files below a folder whose relative path contains `filter`, in order.
///
/// # Errors
///
/// A folder that cannot be read.
pub fn find(folder: &Path, filter: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(dir) = folders.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == EXTENSION)
                && relative(folder, &path).contains(filter)
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn relative(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned()
}

/// Replays one trace.
pub fn replay_file(folder: &Path, path: &Path) -> Row {
    let name = relative(folder, path);
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return Row { name, header: None, result: Err(error.into()) },
    };
    let header = reader.header().clone();
    let result = replay_events(&header, reader);
    Row { name, header: Some(header), result }
}

fn replay_events(header: &Header, events: impl Iterator<Item = Result<Event, TraceError>>) -> Result<Report, Failure> {
    let mut bad = None;
    let sound = events.map_while(|event| event.map_err(|error| bad = Some(error)).ok()).map(Ok::<_, ReplayError>);
    let report = replay::replay(header, sound)?;
    match bad {
        Some(error) => Err(error.into()),
        None => Ok(report),
    }
}

/// Replays all of them on all cores. `done` is called after each; the rows come back in the files' order.
pub fn replay_all(folder: &Path, files: &[PathBuf], mut done: impl FnMut(&Row)) -> Vec<Row> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(files.len());
    let next = AtomicUsize::new(0);
    let mut rows: Vec<Option<Row>> = files.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..workers {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = files.get(index) else { break };
                    if sender.send((index, replay_file(folder, path))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (index, row) in receiver {
            done(&row);
            rows[index] = Some(row);
        }
    });
    rows.into_iter().flatten().collect()
}
