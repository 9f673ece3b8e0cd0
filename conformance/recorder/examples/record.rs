//! `cargo run -p debloat-recorder --example record -- KERNEL_TREE SCENARIO FOLDER [TRACE]`: one recording.

use std::path::PathBuf;

use debloat_recorder::{Kernel, Recorder, Scenario};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (tree, scenario, folder) = match args.as_slice() {
        [tree, scenario, folder] | [tree, scenario, folder, _] => (tree, scenario, folder),
        _ => return Err("usage: KERNEL_TREE SCENARIO FOLDER [TRACE]".into()),
    };
    let kernel = Kernel::from_tree(tree.as_ref())?;
    let cache = PathBuf::from(std::env::var("HOME")?).join(".cache/debloat/recorder");
    let recorder = Recorder::new(kernel, Scenario::load(scenario)?, cache);
    let begin = std::time::Instant::now();
    let recording = recorder.run(folder.as_ref(), &mut |p| println!("{:6.1} {p}", begin.elapsed().as_secs_f64()))?;
    println!("{} {:.1?}\n{}", recording.release, recording.elapsed, recording.tc_text);
    if let Some(path) = args.get(3) {
        let trace = debloat_recorder::trace(&recording, &recorder.scenario, "")?;
        println!("{} events", trace.events.len());
        trace.write(path)?;
    }
    Ok(())
}
