//! Fetching Debian kernels into the cache, through a private apt configuration.
//!
//! Nothing of the machine's own apt state is touched, and no root is needed: the mirror's address is read from
//! the machine's sources, the signatures are checked against the installed Debian archive keyring, and
//! everything else (lists, status, archives) lies in the cache. What is complete is skipped; what is partial
//! is continued.
//!
//! ```no_run
//! use debloat_oracle::fetch::{self, Event, Request};
//! use std::ops::ControlFlow;
//! let kernels = fetch::fetch(&Request::default(), &mut |event| {
//!     if let Event::Plan { total_bytes, .. } = &event {
//!         println!("will download {total_bytes} bytes"); // Break here asks no further and fetches nothing
//!     }
//!     ControlFlow::Continue(())
//! });
//! ```

mod apt;
mod resolve;
mod sources;

use crate::catalog::{cache_dir, kernels_dir};
use apt::Apt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// File that marks a completely unpacked kernel; lists its packages.
pub(crate) const COMPLETE: &str = ".complete";

/// The suites with the three series of interest: 6.1, 6.12, 7.x.
pub const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];

/// What to fetch, and where from.
#[derive(Clone, Debug)]
pub struct Request {
    /// Debian suites.
    pub suites: Vec<String>,
    /// The cloud flavour (small); otherwise the plain one.
    pub cloud: bool,
    /// Cache folder.
    pub cache: PathBuf,
    /// Archive address instead of the machine's own, e.g. from the command line.
    pub mirror: Option<String>,
    /// The machine's apt folder.
    pub apt_etc: PathBuf,
    /// Keep downloaded packages after unpacking.
    pub keep_packages: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            suites: SUITES.map(String::from).to_vec(),
            cloud: true,
            cache: cache_dir(),
            mirror: None,
            apt_etc: "/etc/apt".into(),
            keep_packages: false,
        }
    }
}

/// One package of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Download size, bytes.
    pub bytes: u64,
}

/// What a suite needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuitePlan {
    /// Suite.
    pub suite: String,
    /// Kernel release, e.g. "6.1.0-57-cloud-amd64".
    pub release: String,
    /// Packages that make it up.
    pub packages: Vec<Package>,
    /// Where it will lie.
    pub folder: PathBuf,
    /// It is there already, in this version.
    pub complete: bool,
}

/// Progress. Answer `Break` to stop.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A suite's package lists are being brought up to date.
    Lists {
        /// Suite.
        suite: &'a str,
    },
    /// Something the user should know: a check relaxed, a part left out.
    Notice {
        /// Suite.
        suite: &'a str,
        /// What.
        text: &'a str,
    },
    /// All suites are resolved; downloads begin after this.
    Plan {
        /// Per suite.
        suites: &'a [SuitePlan],
        /// Bytes to be downloaded in all.
        total_bytes: u64,
    },
    /// A package is being downloaded.
    Download {
        /// Suite.
        suite: &'a str,
        /// Package.
        package: &'a Package,
        /// Bytes there.
        done: u64,
    },
    /// A package is being unpacked.
    Unpack {
        /// Suite.
        suite: &'a str,
        /// Package.
        package: &'a Package,
    },
    /// A kernel is ready.
    Ready {
        /// Its plan.
        plan: &'a SuitePlan,
    },
}

/// Called for every step.
pub type Progress<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// A program that this needs is not installed.
    #[error(
        "`{0}` is not here: kernels are fetched with Debian's apt-get, apt-cache and dpkg-deb; unpack kernel packages by hand into the cache instead, or use installed kernels"
    )]
    NoTool(&'static str),
    /// The machine's sources name no Debian archive.
    #[error("no Debian archive in the apt sources below {}; name one with a mirror option", .0.display())]
    NoMirror(PathBuf),
    /// No keyring to check signatures with.
    #[error("no Debian archive keyring below /usr/share/keyrings; install debian-archive-keyring")]
    NoKeyring,
    /// A suite name that cannot be one.
    #[error("`{0}` is no suite name")]
    BadSuite(String),
    /// apt failed.
    #[error("{command} failed for {suite}: {output}")]
    Apt {
        /// Command and arguments.
        command: String,
        /// Suite.
        suite: String,
        /// The end of what it said.
        output: String,
    },
    /// The suite has no such meta package, or it leads nowhere.
    #[error("{suite}: cannot resolve {package}: {reason}")]
    Resolve {
        /// Suite.
        suite: String,
        /// Package where it ended.
        package: String,
        /// What was missing.
        reason: String,
    },
    /// A package did not unpack.
    #[error("{file}: {output}", file = file.display())]
    Unpack {
        /// Package file.
        file: PathBuf,
        /// What dpkg-deb said.
        output: String,
    },
    /// A file operation failed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The caller said stop; what is there already will be continued next time.
    #[error("stopped")]
    Stopped,
}

type Result<T> = std::result::Result<T, FetchError>;

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> FetchError + '_ {
    move |source| FetchError::Io { path: path.into(), source }
}

fn tell(progress: &mut Progress<'_>, event: Event<'_>) -> Result<()> {
    match progress(event) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(FetchError::Stopped),
    }
}

/// Brings the lists up to date and finds out what there is, without downloading packages.
///
/// # Errors
/// See [`FetchError`].
pub fn plan(request: &Request, progress: &mut Progress<'_>) -> Result<Vec<SuitePlan>> {
    prepare(request, progress).map(|all| all.into_iter().map(|(_, plan)| plan).collect())
}

fn prepare(request: &Request, progress: &mut Progress<'_>) -> Result<Vec<(Apt, SuitePlan)>> {
    let archive = apt::archive(request)?;
    let mut all = Vec::new();
    for suite in &request.suites {
        let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if suite.is_empty() || suite.starts_with(['-', '.']) || !suite.chars().all(safe) {
            return Err(FetchError::BadSuite(suite.clone()));
        }
        tell(progress, Event::Lists { suite })?;
        let apt = Apt::new(request, &archive, suite)?;
        apt.update(progress)?;
        let (release, packages) = resolve::kernel(&apt, request.cloud)?;
        let folder = kernels_dir(&request.cache).join(suite).join(&release);
        let complete = std::fs::read_to_string(folder.join(COMPLETE)).is_ok_and(|text| text == record(&packages));
        all.push((apt, SuitePlan { suite: suite.clone(), release, packages, folder, complete }));
    }
    Ok(all)
}

/// Contents of the file that marks a complete kernel.
fn record(packages: &[Package]) -> String {
    packages.iter().map(|p| format!("{} {}\n", p.name, p.version)).collect()
}

/// Fetches the kernels of a request. Returns their plans; all are complete then.
///
/// # Errors
/// See [`FetchError`]. What was fetched before the failure stays.
pub fn fetch(request: &Request, progress: &mut Progress<'_>) -> Result<Vec<SuitePlan>> {
    let mut all = prepare(request, progress)?;
    let plans: Vec<SuitePlan> = all.iter().map(|(_, p)| p.clone()).collect();
    let missing = plans.iter().filter(|p| !p.complete).flat_map(|p| &p.packages);
    let total_bytes = missing.map(|p| p.bytes).sum();
    tell(progress, Event::Plan { suites: &plans, total_bytes })?;
    for (apt, plan) in all.iter_mut().filter(|(_, p)| !p.complete) {
        let mut files = Vec::new();
        for package in &plan.packages {
            files.push(apt.download(package, progress)?);
        }
        unpack(plan, &files, progress)?;
        plan.complete = true;
        if !request.keep_packages {
            for file in &files {
                std::fs::remove_file(file).map_err(io(file))?;
            }
        }
        tell(progress, Event::Ready { plan })?;
    }
    Ok(all.into_iter().map(|(_, plan)| plan).collect())
}

/// Unpacks beside the final place and renames, so that a folder that exists is whole.
fn unpack(plan: &SuitePlan, files: &[PathBuf], progress: &mut Progress<'_>) -> Result<()> {
    let partial = plan.folder.with_file_name(format!("{}.partial", plan.release));
    for folder in [&partial, &plan.folder] {
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(io(folder))?;
        }
    }
    std::fs::create_dir_all(&partial).map_err(io(&partial))?;
    for (package, file) in plan.packages.iter().zip(files) {
        tell(progress, Event::Unpack { suite: &plan.suite, package })?;
        let out = apt::tool("dpkg-deb").arg("-x").arg(file).arg(&partial).output();
        let out = out.map_err(|e| apt::no_tool("dpkg-deb", e))?;
        if !out.status.success() {
            return Err(FetchError::Unpack { file: file.clone(), output: apt::tail(&out.stderr) });
        }
    }
    let mark = partial.join(COMPLETE);
    std::fs::write(&mark, record(&plan.packages)).map_err(io(&mark))?;
    std::fs::rename(&partial, &plan.folder).map_err(io(&plan.folder))
}
