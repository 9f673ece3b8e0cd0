//! Boots a kernel in QEMU, follows its console, and takes what it sends back.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::kernel::Kernel;
use crate::tools;

/// How the guest's processor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accelerator {
    /// Emulation: works everywhere, 40–70 Mbit/s through the recorder.
    #[default]
    Emulated,
    /// The host's virtualisation, after a probe guest has shown that it works.
    Kvm,
}

/// What drives the guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuestClock {
    /// The host's time: a second in the guest is a second outside.
    #[default]
    Host,
    /// One nanosecond an instruction (emulation only): slower, but a busy host cannot disturb the guest's timing.
    Instructions,
}

/// One boot.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) initramfs: &'a Path,
    pub(crate) accelerator: Accelerator,
    pub(crate) clock: GuestClock,
    pub(crate) memory_mib: u32,
    pub(crate) limit: Duration,
}

/// Prefix of the lines by which the guest reports its progress on the console.
pub(crate) const MARK: &str = "debloat: ";

impl Guest<'_> {
    /// Boots, calls `step` for every progress line, and unpacks what the guest sent into `out`.
    ///
    /// # Errors
    /// [`Error::Guest`] when it does not power off in time or sends nothing.
    pub(crate) fn run(&self, out: &Path, step: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let parcel = out.join("guest.tar");
        let mut child = Running(self.command(&parcel)?.spawn().map_err(|e| Error::Program {
            program: "qemu-system-x86_64".into(),
            message: format!("cannot be started: {e}"),
        })?);
        let console = self.follow(&mut child, step)?;
        self.unpack(&parcel, out, &console)
    }

    fn command(&self, parcel: &Path) -> Result<Command, Error> {
        let mut command = Command::new(tools::require("qemu-system-x86_64")?);
        match self.accelerator {
            // The guest's own generator and the flow-hash secret stay random: they are recorded, not chosen.
            Accelerator::Emulated => command.args(["-accel", "tcg", "-cpu", "max,-rdrand,-rdseed"]),
            Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host,-arch-capabilities"]),
        };
        if self.clock == GuestClock::Instructions {
            command.args(["-icount", "shift=0,sleep=off", "-rtc", "clock=vm"]);
        }
        command
            .args(["-m", &self.memory_mib.to_string(), "-smp", "1", "-nographic", "-nodefaults", "-no-reboot"])
            .args(["-serial", "stdio", "-device", "virtio-serial-pci"])
            .arg("-chardev")
            .arg(format!("file,id=out,path={}", parcel.display()))
            .args(["-device", "virtserialport,chardev=out,name=out", "-kernel"])
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(self.initramfs)
            .args(["-append", "console=ttyS0 panic=-1 quiet tsc=reliable no_timer_check"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }

    fn follow(&self, child: &mut Running, step: &mut dyn FnMut(&str)) -> Result<String, Error> {
        let (send, receive) = channel();
        for pipe in [child.0.stdout.take().map(boxed), child.0.stderr.take().map(boxed)].into_iter().flatten() {
            let send = send.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                    if send.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let end = Instant::now() + self.limit;
        let mut console = String::new();
        loop {
            match receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(at) = line.find(MARK) {
                        step(&line[at + MARK.len()..]);
                    }
                    console.push_str(&line);
                    console.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let limit = self.limit.as_secs();
                    return Err(self.failed(&format!("did not finish within {limit} s"), &console));
                }
            }
        }
        let status = child.0.wait().map_err(Error::io("qemu-system-x86_64"))?;
        if status.success() { Ok(console) } else { Err(self.failed(&format!("QEMU ended with {status}"), &console)) }
    }

    fn unpack(&self, parcel: &Path, out: &Path, console: &str) -> Result<(), Error> {
        let file = std::fs::File::open(parcel).map_err(Error::io(parcel))?;
        if file.metadata().map_err(Error::io(parcel))?.len() == 0 {
            return Err(self.failed("sent nothing back", console));
        }
        let mut archive = tar::Archive::new(file);
        archive.set_preserve_permissions(false);
        archive.unpack(out).map_err(|e| self.failed(&format!("sent a damaged archive: {e}"), console))?;
        std::fs::remove_file(parcel).map_err(Error::io(parcel))
    }

    fn failed(&self, message: &str, console: &str) -> Error {
        Error::Guest {
            release: self.kernel.release.clone(),
            message: message.into(),
            tail: tools::last_lines(console, 20),
        }
    }
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

/// A child that does not outlive its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a probe's outcome is kept: it depends on the machine, not on the kernel.
pub(crate) fn kvm_note(cache: &Path) -> PathBuf {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    cache.join(format!("kvm-{}", boot.trim()))
}
