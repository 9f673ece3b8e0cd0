//! One recording in a booted kernel, from scenario to raw records.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bpf;
use crate::convert::Reading;
use crate::error::Error;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::progress::Progress;
use crate::qemu::{Accelerator, Guest, GuestClock, kvm_note};
use crate::raw::Raw;
use crate::scenario::{Record, Scenario, script};
use crate::tools::{self, Purpose};

const INIT: &str = include_str!("../guest/init");
const COMMON: &str = include_str!("../guest/common.sh");
const MEMORY_MIB: u32 = 1024;
/// Modules by which the guest talks to the host.
const TRANSPORT: &[&str] = &["virtio_pci", "virtio_console"];

/// Records one scenario on one kernel.
#[derive(Debug)]
pub struct Recorder {
    /// The kernel to boot.
    pub kernel: Kernel,
    /// What to do on it.
    pub scenario: Scenario,
    /// A folder for compiled parts and probes, kept between recordings.
    pub cache: PathBuf,
    /// What drives the guest's clock.
    pub clock: GuestClock,
    /// `None`: use the host's virtualisation where a probe shows that it works.
    pub accelerator: Option<Accelerator>,
}

/// What a recording left behind, in the folder given to [`Recorder::run`].
#[derive(Debug)]
pub struct Recording {
    /// The raw records with their head and end; `None` for a scenario that records nothing.
    pub raw: Option<Raw>,
    /// `tc -s -d qdisc show` after the queue was drained.
    pub tc_text: String,
    /// `tc -s -d -j qdisc show` at the same moment.
    pub tc_json: String,
    /// Kernel release, as the guest printed it.
    pub release: String,
    /// How often the statistics were read while the traffic ran.
    pub early_readings: usize,
    /// How long everything took.
    pub elapsed: Duration,
    /// All files that the guest sent.
    pub folder: PathBuf,
}

impl Recorder {
    /// A recorder with the usual settings.
    #[must_use]
    pub fn new(kernel: Kernel, scenario: Scenario, cache: PathBuf) -> Recorder {
        Recorder { kernel, scenario, cache, clock: GuestClock::default(), accelerator: None }
    }

    /// Builds what is needed, boots, records, and checks that nothing was lost. The guest's files go into `folder`.
    ///
    /// # Errors
    /// Every [`Error`]: missing programs, a kernel without the needed parts, a guest that failed, lost events.
    pub fn run(&self, folder: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Recording, Error> {
        let begin = Instant::now();
        tools::check(Purpose::Guest)?;
        std::fs::create_dir_all(&self.cache).map_err(Error::io(&self.cache))?;
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let accelerator = self.accelerator(progress)?;
        let compiled = if self.scenario.record == Record::Nothing {
            None
        } else {
            progress(Progress::Step("compiling the recorder's kernel part"));
            Some(bpf::build(&self.cache)?)
        };
        progress(Progress::Step("building the guest"));
        let initramfs = folder.join("initramfs.cpio");
        self.initramfs(compiled.as_ref())?.save(&initramfs)?;
        progress(Progress::Step("booting"));
        self.guest(&initramfs, accelerator, Duration::from_secs_f64(90.0 + 20.0 * self.scenario.seconds))
            .run(folder, &mut |line| progress(Progress::Guest(line)))?;
        std::fs::remove_file(&initramfs).map_err(Error::io(&initramfs))?;
        self.collect(folder, begin, progress)
    }

    fn guest<'a>(&'a self, initramfs: &'a Path, accelerator: Accelerator, limit: Duration) -> Guest<'a> {
        Guest { kernel: &self.kernel, initramfs, accelerator, clock: self.clock, memory_mib: MEMORY_MIB, limit }
    }

    fn initramfs(&self, compiled: Option<&bpf::Compiled>) -> Result<Initramfs, Error> {
        let mut archive = Initramfs::new()?;
        archive.script("init", INIT.as_bytes())?;
        archive.file("job.sh", script(&self.scenario, COMMON).as_bytes())?;
        archive.program("bin/busybox", &tools::require("busybox")?)?;
        for name in ["ip", "tc", "iperf3", "ethtool"] {
            archive.program(&format!("usr/bin/{name}"), &tools::require(name)?)?;
        }
        if let Some(compiled) = compiled {
            archive.program("usr/bin/debloat-record", &compiled.loader)?;
            let object = std::fs::read(&compiled.object).map_err(Error::io(&compiled.object))?;
            archive.file("recorder.bpf.o", &object)?;
        }
        let wanted = self.scenario.modules();
        let names: Vec<&str> = TRANSPORT.iter().copied().chain(wanted.iter().map(String::as_str)).collect();
        add_modules(&mut archive, &self.kernel, &names)?;
        Ok(archive)
    }

    fn accelerator(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Accelerator, Error> {
        if self.clock == GuestClock::Instructions {
            return Ok(Accelerator::Emulated);
        }
        if let Some(chosen) = self.accelerator {
            return Ok(chosen);
        }
        if !Path::new("/dev/kvm").exists() {
            return Ok(Accelerator::Emulated);
        }
        let note = kvm_note(&self.cache);
        if let Ok(text) = std::fs::read_to_string(&note) {
            return Ok(if text == "works" { Accelerator::Kvm } else { Accelerator::Emulated });
        }
        progress(Progress::Step("probing virtualisation with a small guest (at most 20 s)"));
        let works = self.probe()?;
        std::fs::write(&note, if works { "works" } else { "does not work" }).map_err(Error::io(&note))?;
        progress(Progress::Step(if works { "virtualisation works" } else { "virtualisation does not work here: emulating" }));
        Ok(if works { Accelerator::Kvm } else { Accelerator::Emulated })
    }

    /// Whether a guest that only says hello comes back.
    fn probe(&self) -> Result<bool, Error> {
        let folder = tempfile::tempdir().map_err(Error::io(std::env::temp_dir()))?;
        let mut archive = Initramfs::new()?;
        archive.script("init", INIT.as_bytes())?;
        archive.file("job.sh", b"exit 0\n")?;
        archive.program("bin/busybox", &tools::require("busybox")?)?;
        add_modules(&mut archive, &self.kernel, TRANSPORT)?;
        let initramfs = folder.path().join("initramfs.cpio");
        archive.save(&initramfs)?;
        let outcome = self.guest(&initramfs, Accelerator::Kvm, Duration::from_secs(20)).run(folder.path(), &mut |_| ());
        Ok(outcome.is_ok())
    }

    fn collect(&self, folder: &Path, begin: Instant, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Recording, Error> {
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(Error::io(folder.join(name)));
        let failed = |message: String| Error::Guest {
            release: self.kernel.release.clone(),
            message,
            tail: text("log.txt").map(|log| tools::last_lines(&log, 20)).unwrap_or_default(),
        };
        if text("status")?.trim() != "0" {
            return Err(failed("the scenario failed".into()));
        }
        let complaints = text("kernel-complaints")?;
        if !complaints.trim().is_empty() {
            return Err(failed(format!("the kernel complained: {}", complaints.trim())));
        }
        let raw = if self.scenario.record == Record::Nothing {
            None
        } else {
            let path = folder.join("records");
            let raw = Raw::read(&path)?;
            raw.check()?;
            progress(Progress::Recorded { records: raw.count(), bytes: raw.bytes().len() });
            Some(raw)
        };
        Ok(Recording {
            raw,
            tc_text: text("tc.txt")?,
            tc_json: text("tc.json")?,
            release: text("release")?.trim().to_owned(),
            early_readings: self.scenario.stats_at.len(),
            elapsed: begin.elapsed(),
            folder: folder.to_path_buf(),
        })
    }
}

impl Recording {
    /// Every reading of the statistics that the scenario asked for, in order: for each its text, then its JSON.
    pub(crate) fn readings(&self) -> Result<Vec<Reading>, Error> {
        let text = |name: String| std::fs::read_to_string(self.folder.join(&name)).map_err(Error::io(self.folder.join(name)));
        let mut out = Vec::new();
        let early = (0..self.early_readings).map(|i| format!("-at-{i}"));
        for suffix in early.chain([String::new()]) {
            let times = text(format!("tc{suffix}.times"))?;
            out.extend(Reading::pair(&times, text(format!("tc{suffix}.txt"))?, text(format!("tc{suffix}.json"))?)?);
        }
        Ok(out)
    }
}

fn add_modules(archive: &mut Initramfs, kernel: &Kernel, names: &[&str]) -> Result<(), Error> {
    let mut order = String::new();
    for module in kernel.load_order(names)? {
        archive.file(&format!("modules/{}.ko", module.name), &module.bytes)?;
        order.push_str(&module.name);
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes())
}
