//! The guest's root: an uncompressed `newc` archive of host programs, their libraries, modules and scripts.
//! Written directly, so that no root rights, loop devices or temporary trees are needed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use cpio::newc::Builder;

use crate::error::Error;
use crate::tools;

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

/// An archive that grows in memory.
#[derive(Debug, Default)]
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    present: BTreeSet<String>,
    inode: u32,
}

impl Initramfs {
    /// An archive with the mount points that `init` expects.
    pub(crate) fn new() -> Result<Initramfs, Error> {
        let mut archive = Initramfs::default();
        for name in ["proc", "sys", "dev", "run", "tmp", "out", "bin", "usr/bin", "modules", "etc"] {
            archive.folder(name)?;
        }
        Ok(archive)
    }

    /// Adds a plain file; `name` is relative to the root.
    pub(crate) fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.entry(name, FILE, bytes)
    }

    /// Adds an executable file.
    pub(crate) fn script(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.entry(name, PROGRAM, bytes)
    }

    /// Copies a host program to `name`, with the libraries that the host's loader resolves for it.
    pub(crate) fn program(&mut self, name: &str, host: &Path) -> Result<(), Error> {
        self.entry(name, PROGRAM, &read(host)?)?;
        for library in tools::libraries(host)? {
            let inside = library.to_string_lossy().trim_start_matches('/').to_owned();
            if !self.present.contains(&inside) {
                self.entry(&inside, PROGRAM, &read(&library)?)?;
            }
        }
        Ok(())
    }

    /// Ends the archive and writes it.
    pub(crate) fn save(self, path: &Path) -> Result<(), Error> {
        let out = cpio::newc::trailer(self.bytes).map_err(Error::io(path))?;
        std::fs::write(path, out).map_err(Error::io(path))
    }

    fn folder(&mut self, name: &str) -> Result<(), Error> {
        if name.is_empty() || self.present.contains(name) {
            return Ok(());
        }
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.append(name, FOLDER, &[])
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        if self.present.contains(name) {
            return Ok(());
        }
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.append(name, mode, bytes)
    }

    fn append(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        self.inode += 1;
        self.present.insert(name.to_owned());
        let size = u32::try_from(bytes.len())
            .map_err(|_| Error::Io { path: name.into(), source: std::io::Error::other("larger than 4 GiB") })?;
        let builder = Builder::new(name).ino(self.inode).nlink(1).mode(mode);
        let mut writer = builder.write(&mut self.bytes, size);
        writer.write_all(bytes).map_err(Error::io(name))?;
        writer.finish().map_err(Error::io(name))?;
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_files_and_nothing_twice() {
        let mut archive = Initramfs::new().unwrap();
        archive.file("lib/x86/a.so", b"one").unwrap();
        archive.file("lib/x86/a.so", b"two").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.cpio");
        archive.save(&path).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let mut names = Vec::new();
        let mut rest: &[u8] = &bytes;
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push((reader.entry().name().to_owned(), reader.entry().file_size()));
            std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
            rest = reader.finish().unwrap();
        }
        let position = |n: &str| names.iter().position(|(name, _)| name == n).unwrap();
        assert!(position("lib") < position("lib/x86") && position("lib/x86") < position("lib/x86/a.so"));
        assert_eq!(names.iter().filter(|(n, _)| n == "lib/x86/a.so").count(), 1);
        assert_eq!(names[position("lib/x86/a.so")].1, 3);
    }
}
