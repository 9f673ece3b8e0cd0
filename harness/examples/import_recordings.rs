//! Imports the founding recordings: `import_recordings RECORDINGS_DIR TRACES_DIR [NAME...]`; the variable `EVENTS` limits
//! the number of events kept.

use debloat_harness::import::{self, Meta, Symbols};
use debloat_harness::trace::Subject;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: import_recordings RECORDINGS_DIR TRACES_DIR [NAME...]".into());
    };
    for name in arguments {
        import_one(Path::new(&from), Path::new(&to), &name).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn import_one(from: &Path, to: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let meta = Meta::founding(name).ok_or("not a founding recording")?;
    let recording = import::open(from.join(format!("{name}.rec.zst")))?;
    let mut trace = match &meta.subject {
        Subject::Qdisc(_) => {
            let symbols = Symbols::parse(&std::fs::read_to_string(from.join(format!("{name}.sym.txt")))?)?;
            import::qdisc(recording, &symbols, &meta)?
        }
        Subject::CongestionControl(_) => import::congestion_control(recording, &meta)?,
    };
    if let Some(events) = std::env::var_os("EVENTS") {
        import::shorten(&mut trace, events.to_string_lossy().parse()?);
    }
    let folder = to.join(&meta.kernel.series);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}.trace", meta.subject.name()));
    trace.write(&path)?;
    println!("{}: {} events, {} bytes", path.display(), trace.events.len(), std::fs::metadata(&path)?.len());
    println!("  {:?}", trace.header.remarks);
    Ok(())
}
