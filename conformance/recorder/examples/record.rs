//! `cargo run -p debloat-recorder --example record -- KERNEL_TREE FOLDER SCENARIO…`: recordings in one boot, and their
//! traces beside them. With `CONVERT=1` only converts what lies in the folder; with `ICOUNT=1` the guest's clock runs
//! by instructions.

use std::path::{Path, PathBuf};
use std::time::Instant;

use debloat_recorder::{Error, GuestClock, Kernel, Recorder, Recording, Scenario, trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [tree, folder, names @ ..] = args.as_slice() else {
        return Err("usage: KERNEL_TREE FOLDER SCENARIO…".into());
    };
    let folder = Path::new(folder);
    let scenarios = names.iter().map(|name| Scenario::load(name)).collect::<Result<Vec<_>, _>>()?;
    let kernel = Kernel::from_tree(tree.as_ref())?;
    let recordings: Vec<Result<Recording, Error>> = if std::env::var_os("CONVERT").is_some() {
        scenarios.iter().map(|s| Recording::open(&folder.join(&s.name), s)).collect()
    } else {
        let mut recorder = Recorder::new(kernel, PathBuf::from(std::env::var("HOME")?).join(".cache/debloat/recorder"));
        if std::env::var_os("ICOUNT").is_some() {
            recorder.clock = GuestClock::Instructions;
        }
        let begin = Instant::now();
        recorder.run_all(&scenarios, folder, &mut |p| println!("{:6.1} {p}", begin.elapsed().as_secs_f64()))?
    };
    for (scenario, recording) in scenarios.iter().zip(recordings) {
        let path = folder.join(format!("{}.trace", scenario.name));
        let made = recording.and_then(|r| trace(&r));
        match made {
            Ok(trace) => {
                trace.write(&path)?;
                println!("{}: {} events", path.display(), trace.events.len());
            }
            Err(error) => println!("{}: {error}", scenario.name),
        }
    }
    Ok(())
}
