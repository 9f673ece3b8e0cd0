use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use debloat_conformance::conform::{self, Row};
use debloat_harness::trace::Origin;
use indicatif::{ProgressBar, ProgressStyle};

use crate::table::{count, layout};
use crate::{Bad, End};

/// Options of `debloat conform`.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// The folder with the traces [default: conformance/traces, here or in a folder above]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Only traces whose path contains this, such as `fq_codel` or `6.12/`
    #[arg(long, default_value = "", value_name = "TEXT")]
    filter: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<End, Bad> {
    let folder = options.traces.clone().or_else(conform::committed_traces).ok_or_else(|| {
        Bad("no folder conformance/traces here or above: run in a clone of the project, or give --traces DIR".into())
    })?;
    let files =
        conform::find(&folder, &options.filter).map_err(|error| Bad(format!("{}: {error}", folder.display())))?;
    if files.is_empty() {
        let filter = &options.filter;
        return Err(Bad(format!("{}: no .trace file whose path contains \"{filter}\"", folder.display())));
    }
    let started = Instant::now();
    let bar = ProgressBar::new(files.len() as u64);
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    let rows = conform::replay_all(&folder, &files, |row| {
        bar.set_message(row.name.clone());
        bar.inc(1);
    });
    bar.finish_and_clear();
    if options.json {
        let json: Vec<_> = rows.iter().map(Row::json).collect();
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print!("{}", report(&rows));
        println!("replayed in {:.1} s", started.elapsed().as_secs_f64());
    }
    if rows.iter().any(|row| row.result.is_err()) {
        return Err(Bad("not every trace could be replayed".into()));
    }
    Ok(if rows.iter().all(Row::is_exact) { End::Well } else { End::Diverged })
}

fn report(rows: &[Row]) -> String {
    let head = ["trace", "kernel", "made by", "events", "packets", "drops", "marks", "state values", "divergences"];
    let cells = |row: &Row| {
        let kernel = row.header.as_ref().map_or("", |header| header.kernel.release.as_str());
        let origin = row.header.as_ref().map_or("", |header| origin(header.origin));
        let numbers = match &row.result {
            Ok(r) => [r.events, r.packets, r.drops, r.marks, r.state_values, r.divergences].map(count),
            Err(_) => ["", "", "", "", "", "error"].map(str::to_owned),
        };
        let mut cells = vec![row.name.clone(), kernel.to_owned(), origin.to_owned()];
        cells.extend(numbers);
        cells
    };
    let mut text = layout(&head, 3, &rows.iter().map(cells).collect::<Vec<_>>());
    for row in rows {
        match &row.result {
            Err(error) => text += &format!("\n{}: {error}\n", row.name),
            Ok(_) => {
                if let Some(divergence) = row.divergence() {
                    text += &format!("\n{}: first divergence\n{divergence}", row.name);
                }
            }
        }
    }
    let reports = || rows.iter().filter_map(|row| row.result.as_ref().ok());
    let sum = |value: fn(&debloat_harness::replay::Report) -> u64| count(reports().map(value).sum());
    let exact = rows.iter().filter(|row| row.is_exact()).count();
    text += &format!(
        "\n{exact} of {} traces exact: {} events, {} packets, {} state values, {} clock reads, {} random draws; \
         {} flow hashes recomputed from packet bytes; {} jiffy races accepted\n",
        rows.len(),
        sum(|r| r.events),
        sum(|r| r.packets),
        sum(|r| r.state_values),
        sum(|r| r.clock_reads),
        sum(|r| r.draws),
        sum(|r| r.hashes),
        sum(|r| r.ambiguous),
    );
    text
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Recorded => "recorder",
        Origin::OracleMade => "oracle",
        Origin::ShrunkDivergence => "divergence",
    }
}
