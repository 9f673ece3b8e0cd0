use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Subcommand;
use debloat_harness::trace::Reader;

use crate::table::count;
use crate::{Bad, End};

/// `debloat trace …`
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print what a trace says of itself, and check it to its end
    Info {
        /// The trace
        file: PathBuf,
    },
    /// Print events, one per line
    Show {
        /// The trace
        file: PathBuf,
        /// The first event to print
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many events to print [default: all]
        #[arg(long)]
        count: Option<u64>,
        /// As JSON, one object per line
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: &Command) -> Result<End, Bad> {
    match command {
        Command::Info { file } => {
            let mut reader = open(file)?;
            println!("{}", serde_json::to_string_pretty(reader.header())?);
            let mut events = 0u64;
            for event in reader.by_ref() {
                event.map_err(|error| Bad(format!("{}: {error}", file.display())))?;
                events += 1;
            }
            println!("{} events, {} packets, whole", count(events), count(reader.packets()));
        }
        Command::Show { file, from, count, json } => {
            let mut out = BufWriter::new(io::stdout().lock());
            let last = count.map_or(u64::MAX, |count| from.saturating_add(count));
            for (number, event) in (0u64..).zip(open(file)?) {
                if number >= last {
                    break;
                }
                let event = event.map_err(|error| Bad(format!("{}: {error}", file.display())))?;
                if number >= *from {
                    let line = if *json { serde_json::to_string(&event)? } else { format!("{number} {event:?}") };
                    if writeln!(out, "{line}").is_err() {
                        // The reader of our output went away.
                        return Ok(End::Well);
                    }
                }
            }
            out.flush()?;
        }
    }
    Ok(End::Well)
}

fn open(file: &PathBuf) -> Result<Reader<io::BufReader<std::fs::File>>, Bad> {
    Reader::open(file).map_err(|error| Bad(format!("{}: {error}", file.display())))
}
