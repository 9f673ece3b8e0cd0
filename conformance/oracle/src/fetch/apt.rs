//! apt with a private configuration, one per suite.

use super::{Event, FetchError, Package, Progress, Request, Result, io, sources, tell};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Keyring files, in order of preference.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];
/// How often the size of a growing file is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Archive addresses and the keyring that signs for them.
#[derive(Clone, Debug)]
pub(super) struct Archive {
    main: String,
    security: Option<String>,
    keyring: String,
}

/// Finds the archive to use.
pub(super) fn archive(request: &Request) -> Result<Archive> {
    let found = sources::read(&request.apt_etc);
    let own = request.mirror.clone();
    let main = own.clone().or(found.main).ok_or_else(|| FetchError::NoMirror(request.apt_etc.clone()))?;
    // Debian's own layout puts the security archive beside the main one.
    let beside = main.trim_end_matches('/').strip_suffix("/debian").map(|base| format!("{base}/debian-security"));
    let security = if own.is_some() { beside } else { found.security.or(beside) };
    let named = found.signed_by.filter(|k| Path::new(k).exists());
    let installed = KEYRINGS.iter().find(|k| Path::new(k).exists()).map(ToString::to_string);
    let keyring = installed.or(named).ok_or(FetchError::NoKeyring)?;
    Ok(Archive { main, security, keyring })
}

/// A command with predictable output.
pub(super) fn tool(name: &'static str) -> Command {
    let mut command = Command::new(name);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Telling "not installed" from other failures to start.
pub(super) fn no_tool(name: &'static str, e: std::io::Error) -> FetchError {
    match e.kind() {
        std::io::ErrorKind::NotFound => FetchError::NoTool(name),
        _ => FetchError::Io { path: name.into(), source: e },
    }
}

/// The last lines of a program's output.
pub(super) fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join("; ")
}

/// apt for one suite.
#[derive(Debug)]
pub(super) struct Apt {
    suite: String,
    root: PathBuf,
    packages: PathBuf,
    archive: Archive,
}

impl Apt {
    /// Lays out the private folders and configuration.
    pub(super) fn new(request: &Request, archive: &Archive, suite: &str) -> Result<Self> {
        let root = absolute(&request.cache)?.join("apt").join(suite);
        let packages = absolute(&request.cache)?.join("packages");
        for folder in [
            root.join("etc/sources.list.d"),
            root.join("etc/preferences.d"),
            root.join("state/lists/partial"),
            root.join("cache/archives/partial"),
            packages.clone(),
        ] {
            std::fs::create_dir_all(&folder).map_err(io(&folder))?;
        }
        for empty in ["status", "etc/sources.list"] {
            let file = root.join(empty);
            std::fs::write(&file, "").map_err(io(&file))?;
        }
        let apt = Self { suite: suite.into(), root, packages, archive: archive.clone() };
        let config = apt.root.join("apt.conf");
        std::fs::write(&config, apt.configuration(&request.apt_etc)?).map_err(io(&config))?;
        apt.write_sources(true)?;
        Ok(apt)
    }

    pub(super) fn suite(&self) -> &str {
        &self.suite
    }

    /// The machine's own way to the network (proxies, certificates), and private places for the rest.
    fn configuration(&self, etc: &Path) -> Result<String> {
        let out = tool("apt-config").arg("dump").output().map_err(|e| no_tool("apt-config", e))?;
        let mut text = String::new();
        for line in String::from_utf8_lossy(&out.stdout).lines().filter(|l| l.starts_with("Acquire::")) {
            let _ = writeln!(text, "{line}");
        }
        let root = self.root.display();
        let etc = etc.display();
        let _ = write!(
            text,
            "Dir \"{root}/\";\n\
             Dir::State \"state/\";\n\
             Dir::State::status \"{root}/status\";\n\
             Dir::Cache \"cache/\";\n\
             Dir::Etc \"etc/\";\n\
             Dir::Etc::parts \"/dev/null\";\n\
             Dir::Etc::main \"/dev/null\";\n\
             Dir::Etc::netrc \"{etc}/auth.conf\";\n\
             Dir::Etc::netrcparts \"{etc}/auth.conf.d/\";\n\
             APT::Architecture \"amd64\";\n\
             APT::Architectures {{ \"amd64\"; }};\n\
             APT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::PDiffs \"false\";\n\
             Acquire::Retries \"2\";\n"
        );
        Ok(text)
    }

    /// Security updates hold the newest kernel of a released suite.
    fn write_sources(&self, with_security: bool) -> Result<()> {
        let paragraph = |uri: &str, suite: &str| {
            let keyring = &self.archive.keyring;
            format!(
                "Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nArchitectures: amd64\n\
                 Signed-By: {keyring}\n\n"
            )
        };
        let mut text = paragraph(&self.archive.main, &self.suite);
        if let Some(security) = self.archive.security.as_ref().filter(|_| with_security && self.has_security()) {
            text += &paragraph(security, &format!("{}-security", self.suite));
        }
        let file = self.root.join("etc/sources.list.d/kernels.sources");
        std::fs::write(&file, text).map_err(io(&file))
    }

    fn has_security(&self) -> bool {
        !matches!(self.suite.as_str(), "sid" | "unstable" | "experimental")
    }

    fn command(&self, name: &'static str) -> Command {
        let mut command = tool(name);
        command.env("APT_CONFIG", self.root.join("apt.conf")).current_dir(&self.packages);
        command
    }

    fn failed(&self, command: &Command, output: &[u8]) -> FetchError {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let command = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
        FetchError::Apt { command, suite: self.suite.clone(), output: tail(output) }
    }

    /// Brings the lists up to date. A stale mirror is accepted, a missing security archive too, both said aloud.
    pub(super) fn update(&self, progress: &mut Progress<'_>) -> Result<()> {
        let Err((e, output)) = self.try_update(&[]) else {
            return Ok(());
        };
        let expired = output.contains("is expired") || output.contains("no longer valid");
        if expired {
            let text = "the mirror's index is past its validity; taken all the same, signatures still checked";
            tell(progress, Event::Notice { suite: &self.suite, text })?;
            return self.try_update(&["-o", "Acquire::Check-Valid-Until=false"]).map_err(|(e, _)| e);
        }
        if self.has_security() && self.archive.security.is_some() && output.contains("-security") {
            let text = "the security archive does not answer; the kernel may be an older one";
            tell(progress, Event::Notice { suite: &self.suite, text })?;
            self.write_sources(false)?;
            return self.try_update(&[]).map_err(|(e, _)| e);
        }
        Err(e)
    }

    fn try_update(&self, options: &[&str]) -> std::result::Result<(), (FetchError, String)> {
        let mut command = self.command("apt-get");
        // Any list that cannot be had is an error, not a warning.
        command.args(["update", "-q", "--error-on=any"]).args(options);
        let out = command.output().map_err(|e| (no_tool("apt-get", e), String::new()))?;
        if out.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        Err((self.failed(&command, &out.stderr), text))
    }

    /// The newest version's record of a package, if there is one.
    pub(super) fn show(&self, package: &str) -> Result<Option<Vec<(String, String)>>> {
        let mut command = self.command("apt-cache");
        command.args(["show", "--no-all-versions", package]);
        let out = command.output().map_err(|e| no_tool("apt-cache", e))?;
        Ok(sources::paragraphs(&String::from_utf8_lossy(&out.stdout)).into_iter().next())
    }

    /// Downloads one package and returns its file. apt checks its hash against the signed lists.
    pub(super) fn download(&self, package: &Package, progress: &mut Progress<'_>) -> Result<PathBuf> {
        // apt escapes the epoch's colon in file names.
        let file = format!("{}_{}_amd64.deb", package.name, package.version.replace(':', "%3a"));
        let file = self.packages.join(file);
        let size = |f: &Path| std::fs::metadata(f).map_or(0, |m| m.len());
        let mut command = self.command("apt-get");
        command.args(["download", "-q", &format!("{}={}", package.name, package.version)]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| no_tool("apt-get", e))?;
        let status = loop {
            let done = size(&file).min(package.bytes);
            if let Err(e) = tell(progress, Event::Download { suite: &self.suite, package, done }) {
                // Our own child, by its handle; the partial file stays for next time.
                let _ = child.kill();
                let _ = child.wait();
                return Err(e);
            }
            match child.try_wait().map_err(|e| no_tool("apt-get", e))? {
                Some(status) => break status,
                None => std::thread::sleep(TICK),
            }
        };
        let mut said = Vec::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = std::io::Read::read_to_end(&mut stderr, &mut said);
        }
        if !status.success() || size(&file) != package.bytes {
            return Err(self.failed(&command, &said));
        }
        tell(progress, Event::Download { suite: &self.suite, package, done: package.bytes })?;
        Ok(file)
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(io(path))
}
