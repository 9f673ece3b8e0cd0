//! The same recorder on the running machine: no guest, real traffic.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bpf;
use crate::error::Error;
use crate::progress::Progress;
use crate::qemu::MARK;
use crate::recording::Recording;
use crate::scenario::{Scenario, live_script};
use crate::tools::{self, Purpose};

const COMMON: &str = include_str!("../guest/common.sh");

/// Records what the queue discipline of `scenario` does to the traffic that leaves by `interface`.
///
/// The interface's root queue discipline is replaced for that time.
///
/// # Errors
/// [`Error::Live`] when this machine cannot be recorded, and everything that can go wrong in a guest too.
pub(crate) fn run(
    interface: &str,
    scenario: &Scenario,
    folder: &Path,
    cache: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Recording, Error> {
    tools::check(Purpose::Live)?;
    able(interface)?;
    for folder in [folder, cache] {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    progress(Progress::Step("compiling the recorder's kernel part"));
    let compiled = bpf::build(cache)?;
    load_module(scenario.kind())?;
    let script = folder.join("job.sh");
    std::fs::write(&script, live_script(scenario, interface, COMMON)).map_err(Error::io(&script))?;
    let log = std::fs::File::create(folder.join("log.txt")).map_err(Error::io(folder.join("log.txt")))?;
    let mut child = Command::new("sh")
        .arg(&script)
        .env("out", folder)
        .env("ip", tools::require("ip")?)
        .env("tc", tools::require("tc")?)
        .env("loader", &compiled.loader)
        .env("object", &compiled.object)
        .env("console", "/dev/stdout")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|e| Error::Program { program: "sh".into(), message: e.to_string() })?;
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Some(text) = line.strip_prefix(MARK) {
                progress(Progress::Guest(text));
            }
        }
    }
    let status = child.wait().map_err(Error::io(&script))?;
    let code = if status.success() { "0" } else { "1" };
    for (name, text) in [("status", code), ("kernel-complaints", "")] {
        std::fs::write(folder.join(name), text).map_err(Error::io(folder.join(name)))?;
    }
    Recording::open(folder, scenario)
}

/// Can this machine's kernel be recorded at all? Every reason has its own words.
fn able(interface: &str) -> Result<(), Error> {
    let no = |message: String| Err(Error::Live(message));
    if !Path::new("/proc/self/ns/net").exists() {
        return no("this is not Linux".into());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
    if !root {
        return no("root rights are needed; use sudo".into());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return no("the kernel has no type information (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)".into());
    }
    let traced = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .any(|folder| Path::new(folder).join("available_filter_functions").exists());
    if !traced {
        return no("the kernel cannot trace functions (CONFIG_FUNCTION_TRACER with direct calls), or tracefs is not \
                   mounted at /sys/kernel/tracing; record in a guest instead"
            .into());
    }
    if !Path::new("/sys/class/net").join(interface).exists() {
        return no(format!("there is no interface {interface}"));
    }
    Ok(())
}

/// The module of a queue discipline that is not built in must be there before its functions can be hooked.
fn load_module(kind: &str) -> Result<(), Error> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").map_err(Error::io("/proc/kallsyms"))?;
    let module = format!("sch_{kind}");
    let there = symbols.contains(&format!("[{module}]"))
        || symbols.contains(&format!(" {kind}_enqueue\n"))
        || symbols.contains(&format!(" {kind}_qdisc_enqueue\n"));
    if there { Ok(()) } else { tools::run(Command::new("modprobe").arg(&module)).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_refused_in_words() {
        let error = able("no-such-interface").unwrap_err().to_string();
        assert!(error.starts_with("recording on this machine: "), "{error}");
    }
}
