use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use debloat_oracle::{cache_dir, find};
use debloat_recorder::{Kernel, Recorder, Scenario, trace};

use crate::{Bad, End};

/// Options of `debloat record`.
#[derive(Args)]
pub(crate) struct Options {
    /// Kernel to boot: a series such as 6.12, or a release; `debloat oracle fetch` gets them
    #[arg(long)]
    kernel: String,
    /// A scenario file (TOML) or a built-in one's name; `--scenario list` names them
    #[arg(long, value_name = "FILE|NAME")]
    scenario: String,
    /// The trace to write
    #[arg(short, long, default_value = "recording.trace", value_name = "FILE")]
    out: PathBuf,
    /// Keep the guest's raw files in this folder
    #[arg(long, value_name = "DIR")]
    raw: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<End, Bad> {
    if options.scenario == "list" {
        for builtin in debloat_recorder::scenario::builtins() {
            println!("{}", builtin.name);
        }
        return Ok(End::Well);
    }
    let scenario = Scenario::load(&options.scenario)?;
    let kernel = find(&options.kernel)?;
    // The folder that the kernel's packages were unpacked into is the first one above the image that has them all.
    let tree = kernel
        .image_path()
        .ancestors()
        .skip(1)
        .find_map(|folder| Kernel::from_tree(folder).ok())
        .ok_or_else(|| Bad(format!("{}: no unpacked packages around it", kernel.image_path().display())))?;
    let raw = options.raw.clone().unwrap_or_else(|| cache_dir().join("recordings"));
    let began = Instant::now();
    let mut recorder = Recorder::new(tree, cache_dir().join("recorder"));
    let recording = recorder
        .run(&scenario, &raw, &mut |progress| eprintln!("{:6.1} s  {progress}", began.elapsed().as_secs_f64()))?;
    let trace = trace(&recording)?;
    trace.write(&options.out)?;
    let bytes = std::fs::metadata(&options.out)?.len();
    println!(
        "{}: {} events, {bytes} bytes, {:.0} s; `debloat conform --traces DIR` replays it",
        options.out.display(),
        trace.events.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(End::Well)
}
