//! Which kernels are on this machine, and what each offers.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Environment variable that names the cache folder.
pub const CACHE_VARIABLE: &str = "DEBLOAT_CACHE";

/// A kernel found on disk: image and module tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    release: String,
    /// The distribution's version, e.g. "6.1.192-3".
    package: String,
    image: PathBuf,
    modules: Option<PathBuf>,
    origin: Origin,
}

/// Where a kernel was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Fetched into the cache, from this suite.
    Cache(String),
    /// Installed on this machine.
    System,
}

/// The folder for fetched kernels: `$DEBLOAT_CACHE`, else `$XDG_CACHE_HOME/debloat`, else
/// `~/.cache/debloat`, else a folder below the system's temporary one.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set(CACHE_VARIABLE)
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("debloat")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/debloat")))
        .unwrap_or_else(|| std::env::temp_dir().join("debloat"))
}

/// The folder of unpacked kernels in a cache: one folder per suite.
pub(crate) fn kernels_dir(cache: &Path) -> PathBuf {
    cache.join("kernels")
}

/// Finds kernels in the cache and in `/boot` and `/lib/modules`, newest first, the cache's before the
/// system's of equal version.
#[must_use]
pub fn kernels() -> Vec<Kernel> {
    kernels_in(&cache_dir(), Path::new("/"))
}

/// As [`kernels`], for a given cache folder and system root.
#[must_use]
pub fn kernels_in(cache: &Path, system: &Path) -> Vec<Kernel> {
    let mut found = Vec::new();
    for suite in list(&kernels_dir(cache)) {
        let name = suite.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for release in list(&suite).into_iter().filter(|r| r.join(crate::fetch::COMPLETE).exists()) {
            scan(&release, &Origin::Cache(name.clone()), &mut found);
        }
    }
    scan(system, &Origin::System, &mut found);
    // Of equal versions the cache's, and the smaller flavour, come first.
    let order = |k: &Kernel| (std::cmp::Reverse(k.version()), k.is_system(), k.flavour() != "cloud");
    found.sort_by_key(order);
    found
}

/// The kernel that a user means: a series or version ("6.12", "6.12.117"), a release, a suite, or "newest".
///
/// # Errors
/// [`Error::NoKernel`] says where was looked and how to fetch.
pub fn find(wanted: &str) -> Result<Kernel> {
    find_in(&kernels(), wanted).cloned().ok_or_else(|| Error::NoKernel {
        wanted: wanted.into(),
        looked: format!("{}, /boot, /lib/modules", kernels_dir(&cache_dir()).display()),
    })
}

/// As [`find`], in a list.
#[must_use]
pub fn find_in<'a>(kernels: &'a [Kernel], wanted: &str) -> Option<&'a Kernel> {
    let starts = |text: &str| text.strip_prefix(wanted).is_some_and(|r| !r.starts_with(|c: char| c.is_ascii_digit()));
    kernels.iter().find(|k| {
        let suite = matches!(&k.origin, Origin::Cache(s) if s == wanted);
        wanted == "newest" || suite || starts(&k.release) || starts(&k.package)
    })
}

/// The version in an image's boot header: "… Debian 6.1.192-3 (2026-01-01)"; empty when it has none.
fn package_version(image: &Path) -> String {
    const POINTER: usize = 0x20e;
    let mut head = Vec::new();
    let read = std::fs::File::open(image).and_then(|f| f.take(0x1_0000).read_to_end(&mut head));
    let pointer = head.get(POINTER..POINTER + 2).filter(|_| read.is_ok());
    let start = pointer.map_or(usize::MAX, |p| usize::from(u16::from_le_bytes([p[0], p[1]])) + 0x200);
    let text = head.get(start..).and_then(|t| t.split(|c| *c == 0).next()).unwrap_or(&[]);
    let text = String::from_utf8_lossy(text);
    let word = text.split_once("Debian ").and_then(|(_, rest)| rest.split_whitespace().next());
    word.unwrap_or_default().to_owned()
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort();
    entries
}

/// Kernels below a root folder.
fn scan(root: &Path, origin: &Origin, out: &mut Vec<Kernel>) {
    let mut images = BTreeMap::new();
    for file in list(&root.join("boot")) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(release) = name.strip_prefix("vmlinuz-") {
            images.insert(release.to_owned(), file);
        }
    }
    let mut trees = BTreeMap::new();
    for place in ["lib/modules", "usr/lib/modules"] {
        for tree in list(&root.join(place)) {
            let release = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let image = tree.join("vmlinuz");
            if image.is_file() {
                images.entry(release.clone()).or_insert(image);
            }
            trees.entry(release).or_insert(tree);
        }
    }
    for (release, image) in images {
        let modules = trees.get(&release).cloned();
        let package = package_version(&image);
        out.push(Kernel { release, package, image, modules, origin: origin.clone() });
    }
}

/// What a kernel offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Queue disciplines by tc name.
    pub qdiscs: Vec<String>,
    /// Congestion controls by name.
    pub controls: Vec<String>,
}

/// Names that differ from their module's.
const QDISCS_IN_IMAGE: [&str; 5] = ["pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast", "mq"];
/// Always in the image.
const CONTROLS_IN_IMAGE: [&str; 1] = ["reno"];

impl Kernel {
    /// A kernel that is not in a catalogue: an image (bzImage or unpacked), and a module tree that contains
    /// `kernel/`.
    #[must_use]
    pub fn from_paths(release: &str, image: &Path, modules: Option<&Path>) -> Self {
        let (package, modules) = (package_version(image), modules.map(Into::into));
        Self { release: release.into(), package, image: image.into(), modules, origin: Origin::System }
    }

    /// The release string, e.g. "6.1.0-57-cloud-amd64".
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Image file.
    #[must_use]
    pub fn image_path(&self) -> &Path {
        &self.image
    }

    /// Module tree.
    #[must_use]
    pub fn modules_path(&self) -> Option<&Path> {
        self.modules.as_deref()
    }

    /// Where it was found.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    fn is_system(&self) -> bool {
        self.origin == Origin::System
    }

    /// The distribution's version from the image's header, e.g. "6.1.192-3"; empty when it has none.
    #[must_use]
    pub fn package(&self) -> &str {
        &self.package
    }

    /// The upstream version: (6, 1, 192). Debian's release names of older series say less, so the image's
    /// header is asked first.
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        let text = if self.package.is_empty() { &self.release } else { &self.package };
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        (next(), next(), next())
    }

    /// "6.1", "6.12", "7.2".
    #[must_use]
    pub fn series(&self) -> String {
        let (major, minor, _) = self.version();
        format!("{major}.{minor}")
    }

    /// "cloud", "rt", or "" for the plain flavour.
    #[must_use]
    pub fn flavour(&self) -> &str {
        ["cloud", "rt"].into_iter().find(|f| self.release.contains(&format!("-{f}-"))).unwrap_or("")
    }

    fn module_files(&self) -> Vec<PathBuf> {
        let Some(tree) = &self.modules else {
            return Vec::new();
        };
        ["net/sched", "net/ipv4", "net/core", "lib"].iter().flat_map(|d| list(&tree.join("kernel").join(d))).collect()
    }

    /// The file of a module, looked for where algorithms live first, then in the whole tree.
    #[must_use]
    pub fn module_path(&self, name: &str) -> Option<PathBuf> {
        let wanted = |p: &PathBuf| module_name(p).as_deref() == Some(name);
        self.module_files().into_iter().find(wanted).or_else(|| {
            let mut pending = vec![self.modules.as_ref()?.join("kernel")];
            while let Some(dir) = pending.pop() {
                for entry in list(&dir) {
                    if entry.is_dir() {
                        pending.push(entry);
                    } else if wanted(&entry) {
                        return Some(entry);
                    }
                }
            }
            None
        })
    }

    /// Names in `modules.builtin` (absent: none known).
    fn builtins(&self) -> Vec<String> {
        let file = self.modules.as_ref().map(|m| m.join("modules.builtin"));
        let text = file.and_then(|f| std::fs::read_to_string(f).ok()).unwrap_or_default();
        text.lines().filter_map(|l| module_name(Path::new(l))).collect()
    }

    /// True for a module that is part of the image, as far as its list of built-ins says.
    #[must_use]
    pub fn is_builtin(&self, name: &str) -> bool {
        self.builtins().iter().any(|b| b == name)
    }

    /// The queue disciplines and congestion controls that this kernel has, from file names alone.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let mut offer = Offer {
            qdiscs: QDISCS_IN_IMAGE.map(String::from).to_vec(),
            controls: CONTROLS_IN_IMAGE.map(String::from).to_vec(),
        };
        let mut names: Vec<String> = self.module_files().iter().filter_map(|p| module_name(p)).collect();
        names.extend(self.builtins());
        // On the kernels of interest these two are always built in; 7.x ships no list that says so.
        names.extend(["sch_fq_codel".into(), "tcp_cubic".into()]);
        for name in names {
            // Not algorithms by themselves: parts, diagnostics.
            const PARTS: [&str; 7] =
                ["sch_mqprio_lib", "sch_frag", "sch_blackhole", "sch_mq", "tcp_diag", "tcp_bpf", "tcp_sigpool"];
            if PARTS.contains(&name.as_str()) {
                continue;
            }
            if let Some(kind) = name.strip_prefix("sch_") {
                offer.qdiscs.push(kind.into());
            } else if let Some(kind) = name.strip_prefix("tcp_") {
                offer.controls.push(kind.into());
            }
        }
        for list in [&mut offer.qdiscs, &mut offer.controls] {
            list.sort();
            list.dedup();
        }
        offer
    }
}

/// "…/sch_fq-pie.ko.xz" → "sch_fq_pie".
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, rest) = file.split_once('.')?;
    (rest == "ko" || rest.starts_with("ko.")).then(|| name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path, bytes: &[u8]) {
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("creates");
        std::fs::write(path, bytes).expect("writes");
    }

    /// A boot header with a version string.
    fn image(version: &str) -> Vec<u8> {
        let mut b = vec![0; 0x400];
        b[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        b[0x300..0x300 + version.len()].copy_from_slice(version.as_bytes());
        b
    }

    #[test]
    fn kernels_are_found_in_all_layouts_and_by_all_names() {
        let root = std::env::temp_dir().join(format!("debloat-catalog-{}", std::process::id()));
        let (cache, system) = (root.join("cache"), root.join("system"));
        let old = cache.join("kernels/bookworm/6.1.0-9-cloud-amd64");
        touch(&old.join("boot/vmlinuz-6.1.0-9-cloud-amd64"), &image("6.1.0-9-cloud-amd64 (x) Debian 6.1.192-3 (y)"));
        touch(&old.join("lib/modules/6.1.0-9-cloud-amd64/kernel/net/sched/sch_fq_pie.ko"), b"");
        touch(&old.join(".complete"), b"");
        let new = cache.join("kernels/sid/7.2.13+deb14-amd64");
        touch(
            &new.join("usr/lib/modules/7.2.13+deb14-amd64/vmlinuz"),
            &image("7.2.13+deb14-amd64 Debian 7.2.13-1 (z)"),
        );
        touch(&new.join("usr/lib/modules/7.2.13+deb14-amd64/kernel/net/ipv4/tcp_bbr.ko.xz"), b"");
        touch(&new.join(".complete"), b"");
        // Half unpacked: not there.
        touch(&cache.join("kernels/trixie/6.12/boot/vmlinuz-6.12"), b"");
        touch(&system.join("boot/vmlinuz-6.6.1-plain"), b"");

        let found = kernels_in(&cache, &system);
        let releases: Vec<_> = found.iter().map(Kernel::release).collect();
        assert_eq!(releases, ["7.2.13+deb14-amd64", "6.6.1-plain", "6.1.0-9-cloud-amd64"]);
        for (wanted, expected) in [
            ("newest", Some(0)),
            ("7.2", Some(0)),
            ("7.2.13-1", Some(0)),
            ("sid", Some(0)),
            ("6.1", Some(2)),
            ("6.1.192", Some(2)),
            ("6.1.0-9-cloud-amd64", Some(2)),
            ("6.1.19", None),
            ("6.12", None),
        ] {
            assert_eq!(find_in(&found, wanted), expected.map(|i: usize| &found[i]), "{wanted}");
        }
        let oldest = &found[2];
        assert_eq!((oldest.version(), oldest.series().as_str(), oldest.flavour()), ((6, 1, 192), "6.1", "cloud"));
        assert!(oldest.module_path("sch_fq_pie").is_some() && oldest.module_path("sch_pie").is_none());
        assert!(oldest.offer().qdiscs.contains(&"fq_pie".into()));
        assert!(found[0].offer().controls.contains(&"bbr".into()));
        std::fs::remove_dir_all(&root).expect("cleans up");
    }
}
