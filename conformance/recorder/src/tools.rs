//! The host's programs that recording calls: where they are, and which package brings those that are not there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, MissingTool};

/// A program and the Debian package that has it.
type Need = (&'static str, &'static str);

/// Needed to compile the recorder's kernel part and its loader.
const BUILD: &[Need] = &[("clang", "clang")];
/// Needed to boot a guest.
const GUEST: &[Need] = &[("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")];
/// Needed to build a network and load it, in the guest or on the live machine.
const NETWORK: &[Need] = &[("ip", "iproute2"), ("tc", "iproute2"), ("iperf3", "iperf3"), ("ethtool", "ethtool")];

/// What a recording is going to do, and so which programs it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Boot a kernel in QEMU and record it.
    Guest,
    /// Record the running kernel.
    Live,
}

/// Finds every program that `purpose` needs, or names all that are missing at once.
///
/// # Errors
/// [`Error::Tools`] with each missing program and its package.
pub(crate) fn check(purpose: Purpose) -> Result<(), Error> {
    let groups: &[&[Need]] = match purpose {
        Purpose::Guest => &[BUILD, GUEST, NETWORK],
        Purpose::Live => &[BUILD, NETWORK],
    };
    let missing: Vec<MissingTool> = groups
        .iter()
        .flat_map(|g| g.iter())
        .filter(|(program, _)| find(program).is_none())
        .map(|&(program, package)| MissingTool { program, package })
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::Tools(missing)) }
}

/// The full path of `program`: `PATH`, then the folders of administrators' programs.
#[must_use]
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|p| p.is_file())
}

/// [`find`], or the error that names the package.
pub(crate) fn require(program: &'static str) -> Result<PathBuf, Error> {
    find(program).ok_or_else(|| {
        let package = [BUILD, GUEST, NETWORK]
            .iter()
            .flat_map(|g| g.iter())
            .find(|(p, _)| *p == program)
            .map_or(program, |&(_, package)| package);
        Error::Tools(vec![MissingTool { program, package }])
    })
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// [`Error::Program`] when it cannot be started or exits with anything but 0.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |message: String| Error::Program { program: program.clone(), message };
    let output = command.stdin(Stdio::null()).output().map_err(|e| failed(format!("cannot be started: {e}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{}\n{}", output.status, last_lines(&text, 30))))
}

/// The last `count` lines of `text`.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The shared libraries that `program` needs, as the dynamic loader resolves them; none for a static program.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>, Error> {
    let output = Command::new("ldd")
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::Program { program: "ldd".into(), message: e.to_string() })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(|word| PathBuf::from(word.trim_end_matches(':')))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        assert!(find("no-such-program-at-all").is_none());
        let error = Error::Tools(vec![
            MissingTool { program: "tc", package: "iproute2" },
            MissingTool { program: "ip", package: "iproute2" },
        ]);
        assert_eq!(error.to_string(), "recording needs tc, ip; install: apt-get install iproute2");
    }

    #[test]
    fn a_failed_program_says_what_it_wrote() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert!(error.to_string().contains('3'), "{error}");
    }
}
