//! The recorder's kernel part and its loader: C sources inside this crate, compiled on the user's machine and only
//! when something is recorded. One object serves every kernel: it names fields, and the loader resolves them against
//! the running kernel's own type information.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::tools;

const SOURCES: &[(&str, &str)] = &[
    ("record.h", include_str!("../bpf/record.h")),
    ("common.bpf.h", include_str!("../bpf/common.bpf.h")),
    ("qdisc.bpf.h", include_str!("../bpf/qdisc.bpf.h")),
    ("state.bpf.h", include_str!("../bpf/state.bpf.h")),
    ("inputs.bpf.h", include_str!("../bpf/inputs.bpf.h")),
    ("congestion.bpf.h", include_str!("../bpf/congestion.bpf.h")),
    ("recorder.bpf.c", include_str!("../bpf/recorder.bpf.c")),
    ("loader.c", include_str!("../bpf/loader.c")),
];

/// The two compiled files.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    /// The program that loads the object and writes the records.
    pub(crate) loader: PathBuf,
    /// The kernel part.
    pub(crate) object: PathBuf,
}

/// Compiles both, or takes them from `cache` if these very sources were compiled before.
///
/// # Errors
/// [`Error::Tools`], or [`Error::Program`] with the compiler's own words and the packages to install.
pub(crate) fn build(cache: &Path) -> Result<Compiled, Error> {
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    let folder = cache.join(format!("bpf-{:016x}", hasher.finish()));
    let compiled = Compiled { loader: folder.join("debloat-record"), object: folder.join("recorder.bpf.o") };
    if compiled.loader.is_file() && compiled.object.is_file() {
        return Ok(compiled);
    }
    std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
    for (name, text) in SOURCES {
        std::fs::write(folder.join(name), text).map_err(Error::io(folder.join(name)))?;
    }
    let clang = tools::require("clang")?;
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    compile(
        Command::new(&clang)
            .current_dir(&folder)
            .args(["-O2", "-g", "-Wall", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86", "-I."])
            .args(["-idirafter", &headers, "-c", "recorder.bpf.c", "-o", "object.new"]),
        "clang (kernel part)",
    )?;
    compile(
        Command::new(&clang).current_dir(&folder).args([
            "-O2",
            "-Wall",
            "-I.",
            "loader.c",
            "-o",
            "loader.new",
            "-lbpf",
            "-lelf",
            "-lz",
        ]),
        "clang (loader)",
    )?;
    // Named last: a half-written file must not be taken for a finished one.
    for (new, done) in [("object.new", &compiled.object), ("loader.new", &compiled.loader)] {
        std::fs::rename(folder.join(new), done).map_err(Error::io(done))?;
    }
    Ok(compiled)
}

fn compile(command: &mut Command, what: &str) -> Result<(), Error> {
    let failed = |message: String| Error::Program { program: what.into(), message };
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let missing = ["file not found", "cannot find -l", "unable to find library"].iter().any(|w| text.contains(w));
    let hint = if missing {
        "\ninstall: apt-get install libbpf-dev libelf-dev zlib1g-dev libc6-dev linux-libc-dev"
    } else {
        ""
    };
    Err(failed(format!("{}{hint}", tools::last_lines(&text, 40))))
}
