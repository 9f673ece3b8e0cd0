//! An unpacked kernel package: its image, its modules, and which modules a recording must load in which order.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use crate::error::Error;

/// A kernel image with its modules, as unpacked from its packages. Nothing of it is changed.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The bootable image.
    pub image: PathBuf,
    /// The folder `lib/modules/RELEASE`.
    pub modules: PathBuf,
}

/// One module, ready to be put into a guest.
#[derive(Debug, Clone)]
pub struct Module {
    /// The module's name, as `lsmod` prints it.
    pub name: String,
    /// The uncompressed object.
    pub bytes: Vec<u8>,
}

impl Kernel {
    /// The fetched or installed kernel that the user means: a series (`6.12`), a release, or `newest`.
    ///
    /// # Errors
    /// [`Error::Kernel`] that says where was looked and how to fetch one.
    pub fn find(wanted: &str) -> Result<Kernel, Error> {
        let bad = |message: String| Error::Kernel { release: wanted.into(), message };
        let found = debloat_oracle::find(wanted).map_err(|e| bad(e.to_string()))?;
        let modules = found.modules_path().ok_or_else(|| bad("its modules are missing".into()))?;
        Ok(Kernel { release: found.release().into(), image: found.image_path().into(), modules: modules.into() })
    }

    /// Looks for the image and the modules under `root`, the folder into which the packages were unpacked.
    ///
    /// # Errors
    /// [`Error::Kernel`] when there is not exactly one kernel.
    pub fn from_tree(root: &Path) -> Result<Kernel, Error> {
        let bad = |message: &str| Error::Kernel { release: root.display().to_string(), message: message.into() };
        let mut releases = Vec::new();
        for base in ["lib/modules", "usr/lib/modules"] {
            let Ok(entries) = std::fs::read_dir(root.join(base)) else { continue };
            releases.extend(entries.flatten().map(|e| e.path()).filter(|p| p.join("kernel").is_dir()));
        }
        let [modules] = releases.as_slice() else {
            return Err(bad("expected exactly one folder lib/modules/RELEASE"));
        };
        let release = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let image = [
            root.join("boot").join(format!("vmlinuz-{release}")),
            modules.join("vmlinuz"),
            modules.join("vmlinuz.unsigned"),
        ]
        .into_iter()
        .find(|p| p.is_file())
        .ok_or_else(|| bad("no bootable image"))?;
        Ok(Kernel { release, image, modules: modules.clone() })
    }

    /// The series, for example `6.12`.
    #[must_use]
    pub fn series(&self) -> String {
        self.release.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
    }

    /// The modules of `names` with everything they depend on, each after what it needs. A name built into the
    /// image costs nothing.
    ///
    /// # Errors
    /// [`Error::Kernel`] for a name that this kernel neither has as a module nor built in.
    pub fn load_order<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Module>, Error> {
        let files = index(&self.modules.join("kernel"))?;
        // Some packages come without the list; what is missing then shows when the guest uses it.
        let builtin = std::fs::read_to_string(self.modules.join("modules.builtin")).ok();
        let builtin = builtin.map(|text| text.lines().filter_map(|l| module_name(Path::new(l.trim()))).collect());
        let mut plan = Plan { kernel: self, files, builtin, seen: HashSet::new(), order: Vec::new() };
        for name in names {
            plan.add(name)?;
        }
        Ok(plan.order)
    }
}

struct Plan<'a> {
    kernel: &'a Kernel,
    files: BTreeMap<String, PathBuf>,
    builtin: Option<HashSet<String>>,
    seen: HashSet<String>,
    order: Vec<Module>,
}

impl Plan<'_> {
    fn add(&mut self, name: &str) -> Result<(), Error> {
        let name = name.replace('-', "_");
        if !self.seen.insert(name.clone()) {
            return Ok(());
        }
        let Some(path) = self.files.get(&name).cloned() else {
            if self.builtin.as_ref().is_none_or(|list| list.contains(&name)) {
                return Ok(());
            }
            return Err(Error::Kernel {
                release: self.kernel.release.clone(),
                message: format!("has no module {name}, and it is not built in"),
            });
        };
        let bytes = read_module(&path)?;
        for dependency in dependencies(&bytes) {
            self.add(&dependency)?;
        }
        self.order.push(Module { name, bytes });
        Ok(())
    }
}

/// `net/sched/sch_cake.ko.xz` is the module `sch_cake`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

fn index(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let path = entry.map_err(Error::io(&folder))?.path();
            if path.is_dir() {
                todo.push(path);
            } else if let Some(name) = module_name(&path) {
                found.insert(name, path);
            }
        }
    }
    Ok(found)
}

fn read_module(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    let bad = |what: String| Error::Io { path: path.into(), source: std::io::Error::other(what) };
    match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => {
            let mut out = Vec::new();
            lzma_rs::xz_decompress(&mut bytes.as_slice(), &mut out).map_err(|e| bad(format!("{e:?}")))?;
            Ok(out)
        }
        Some("zst") => zstd::decode_all(bytes.as_slice()).map_err(Error::io(path)),
        _ => Ok(bytes),
    }
}

/// The names in the module's own `depends=` note.
fn dependencies(module: &[u8]) -> Vec<String> {
    let Ok(file) = object::File::parse(module) else { return Vec::new() };
    let Some(info) = file.section_by_name(".modinfo").and_then(|s| s.data().ok()) else { return Vec::new() };
    info.split(|b| *b == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix("depends="))
        .flat_map(|list| list.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_files() {
        assert_eq!(module_name(Path::new("kernel/net/sched/sch_cake.ko.xz")).as_deref(), Some("sch_cake"));
        assert_eq!(module_name(Path::new("kernel/crypto/crc32c-intel.ko")).as_deref(), Some("crc32c_intel"));
        assert_eq!(module_name(Path::new("modules.dep")), None);
    }

    #[test]
    fn an_empty_tree_is_no_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let error = Kernel::from_tree(folder.path()).unwrap_err();
        assert!(error.to_string().contains("exactly one folder"), "{error}");
    }

    #[test]
    fn the_series_is_the_first_two_numbers() {
        let kernel = Kernel { release: "6.12.118+deb13-cloud-amd64".into(), image: "".into(), modules: "".into() };
        assert_eq!(kernel.series(), "6.12");
    }
}
