//! Recordings in a booted kernel, from scenario to raw records.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bpf::{self, Compiled};
use crate::error::Error;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::progress::Progress;
use crate::qemu::{Accelerator, Guest, GuestClock, kvm_note};
use crate::recording::Recording;
use crate::scenario::{Record, Scenario, script};
use crate::tools::{self, Purpose};

const INIT: &str = include_str!("../guest/init");
const COMMON: &str = include_str!("../guest/common.sh");
const MEMORY_MIB: u32 = 1024;
/// Modules by which the guest talks to the host.
const TRANSPORT: &[&str] = &["virtio_pci", "virtio_console"];

/// Records scenarios on one kernel.
#[derive(Debug)]
pub struct Recorder {
    /// The kernel to boot.
    pub kernel: Kernel,
    /// A folder for compiled parts and probes, kept between recordings.
    pub cache: PathBuf,
    /// What drives the guest's clock.
    pub clock: GuestClock,
    /// `None`: use the host's virtualisation where a probe shows that it works.
    pub accelerator: Option<Accelerator>,
}

impl Recorder {
    /// A recorder with the usual settings.
    #[must_use]
    pub fn new(kernel: Kernel, cache: PathBuf) -> Recorder {
        Recorder { kernel, cache, clock: GuestClock::default(), accelerator: None }
    }

    /// Records one scenario; the guest's files go into a folder of its name below `folder`.
    ///
    /// # Errors
    /// Every [`Error`]: missing programs, a kernel without the needed parts, a guest that failed, lost events.
    pub fn run(
        &self,
        scenario: &Scenario,
        folder: &Path,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Recording, Error> {
        let mut all = self.run_all(std::slice::from_ref(scenario), folder, progress)?;
        all.pop().unwrap_or_else(|| Err(self.failed("nothing was recorded")))
    }

    /// Records several scenarios in one boot, one after another. One that fails does not stop the others.
    ///
    /// # Errors
    /// What keeps all of them from being recorded.
    pub fn run_all(
        &self,
        scenarios: &[Scenario],
        folder: &Path,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<Result<Recording, Error>>, Error> {
        let begin = Instant::now();
        tools::check(Purpose::Guest)?;
        std::fs::create_dir_all(&self.cache).map_err(Error::io(&self.cache))?;
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let accelerator = self.accelerator(progress)?;
        let compiled = if scenarios.iter().all(|s| s.record == Record::Nothing) {
            None
        } else {
            progress(Progress::Step("compiling the recorder's kernel part"));
            Some(bpf::build(&self.cache)?)
        };
        progress(Progress::Step("building the guest"));
        let initramfs = folder.join("initramfs.cpio");
        self.initramfs(scenarios, compiled.as_ref())?.save(&initramfs)?;
        progress(Progress::Step("booting"));
        let seconds: f64 = scenarios.iter().map(|s| 300.0 + 120.0 * s.seconds).sum();
        let guest = self.guest(&initramfs, accelerator, Duration::from_secs_f64(300.0 + seconds));
        guest.run(folder, &mut |line| progress(Progress::Guest(line)))?;
        std::fs::remove_file(&initramfs).map_err(Error::io(&initramfs))?;
        progress(Progress::Finished(begin.elapsed()));
        Ok(scenarios
            .iter()
            .map(|scenario| {
                let recording = Recording::open(&folder.join(&scenario.name), scenario)?;
                if let Some(raw) = &recording.raw {
                    progress(Progress::Recorded { records: raw.count(), bytes: raw.bytes().len() });
                }
                Ok(recording)
            })
            .collect())
    }

    fn guest<'a>(&'a self, initramfs: &'a Path, accelerator: Accelerator, limit: Duration) -> Guest<'a> {
        Guest { kernel: &self.kernel, initramfs, accelerator, clock: self.clock, memory_mib: MEMORY_MIB, limit }
    }

    fn failed(&self, message: &str) -> Error {
        Error::Guest { release: self.kernel.release.clone(), message: message.into(), tail: String::new() }
    }

    fn initramfs(&self, scenarios: &[Scenario], compiled: Option<&Compiled>) -> Result<Initramfs, Error> {
        let mut archive = basis()?;
        let mut order = String::new();
        let mut modules: Vec<String> = TRANSPORT.iter().map(|&name| name.to_owned()).collect();
        for scenario in scenarios {
            archive.file(&format!("jobs/{}.sh", scenario.name), script(scenario, COMMON).as_bytes())?;
            order.push_str(&scenario.name);
            order.push('\n');
            modules.extend(scenario.modules());
        }
        archive.file("jobs/order", order.as_bytes())?;
        for name in ["ip", "tc", "iperf3", "ethtool"] {
            archive.program(&format!("usr/bin/{name}"), &tools::require(name)?)?;
        }
        if let Some(compiled) = compiled {
            archive.program("usr/bin/debloat-record", &compiled.loader)?;
            let object = std::fs::read(&compiled.object).map_err(Error::io(&compiled.object))?;
            archive.file("recorder.bpf.o", &object)?;
        }
        add_modules(&mut archive, &self.kernel, modules.iter().map(String::as_str))?;
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
        progress(Progress::Step(if works {
            "virtualisation works"
        } else {
            "virtualisation does not work: emulating"
        }));
        Ok(if works { Accelerator::Kvm } else { Accelerator::Emulated })
    }

    /// Whether a guest without a job comes back.
    fn probe(&self) -> Result<bool, Error> {
        let folder = tempfile::tempdir().map_err(Error::io(std::env::temp_dir()))?;
        let mut archive = basis()?;
        archive.file("jobs/order", b"")?;
        add_modules(&mut archive, &self.kernel, TRANSPORT.iter().copied())?;
        let initramfs = folder.path().join("initramfs.cpio");
        archive.save(&initramfs)?;
        let guest = self.guest(&initramfs, Accelerator::Kvm, Duration::from_secs(20));
        Ok(guest.run(folder.path(), &mut |_| ()).is_ok())
    }
}

fn basis() -> Result<Initramfs, Error> {
    let mut archive = Initramfs::new()?;
    archive.script("init", INIT.as_bytes())?;
    archive.program("bin/busybox", &tools::require("busybox")?)?;
    Ok(archive)
}

fn add_modules<'a>(
    archive: &mut Initramfs,
    kernel: &Kernel,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), Error> {
    let mut order = String::new();
    for module in kernel.load_order(names)? {
        archive.file(&format!("modules/{}.ko", module.name), &module.bytes)?;
        order.push_str(&module.name);
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes())
}
