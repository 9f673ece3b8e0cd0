use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use debloat_conformance::diff::{Campaign, CampaignReport, Coverage, Target, cc, golden, targets, versus};
use debloat_oracle::{Kernel, World, WorldOptions, fetch, find, kernels, worker};
use indicatif::{ProgressBar, ProgressStyle};

use crate::table::{count, layout};
use crate::{Bad, End};

/// `debloat oracle …`
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Download and unpack the kernels of Debian's suites, with this machine's own apt and mirror
    Fetch {
        /// Suites; all of bookworm (6.1), trixie (6.12) and sid (7.x) by default
        #[arg(long)]
        suite: Vec<String>,
    },
    /// Show the kernels found, and which algorithms each offers
    List,
    /// Compare a port with a kernel's own code over random operations
    Diff(Diff),
    /// Make golden traces: the kernel's answers to drawn operation sequences
    Golden {
        /// The qdisc; all of them by default
        qdisc: Option<String>,
        /// Kernel series; all of them by default
        #[arg(long)]
        kernel: Option<String>,
        /// The folder for the traces
        #[arg(long, default_value = "conformance/traces/oracle", value_name = "DIR")]
        out: PathBuf,
    },
    /// Answer cases from standard input (for `diff --against`)
    #[command(hide = true)]
    Serve {
        qdisc: String,
        #[arg(long)]
        kernel: String,
    },
}

#[derive(Args)]
pub(crate) struct Diff {
    /// A qdisc by its tc name, a congestion control (reno, cubic, dctcp, bbr), or `core` for the TCP core's functions
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// Kernel: a series such as 6.12, a release, or "newest"; all kernels found by default
    #[arg(long)]
    kernel: Option<String>,
    /// Compare kernel with kernel: the other one
    #[arg(long, requires = "kernel")]
    against: Option<String>,
    /// Operations; 1e6 and the like are understood
    #[arg(long, default_value = "1e6", value_parser = operations)]
    ops: u64,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Operations of the longest cases
    #[arg(long, default_value_t = 2000)]
    case: usize,
    /// Worker processes [default: one per processor]
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Where the shrunk divergences go
    #[arg(long, default_value = "divergences", value_name = "DIR")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn operations(text: &str) -> Result<u64, String> {
    let number: f64 = text.parse().map_err(|_| format!("\"{text}\" is no number"))?;
    if (1.0..=1e15).contains(&number) { Ok(number as u64) } else { Err("between 1 and 1e15".into()) }
}

pub(crate) fn run(command: &Command) -> Result<End, Bad> {
    match command {
        Command::Fetch { suite } => fetch_kernels(suite),
        Command::List => list(),
        Command::Diff(options) if cc::SUBJECTS.contains(&options.subject.as_str()) => diff_control(options),
        Command::Diff(options) => match &options.against {
            Some(other) => against(options, other),
            None => diff(options),
        },
        Command::Golden { qdisc, kernel, out } => {
            let wanted: Vec<&dyn Target> = match qdisc {
                Some(kind) => vec![target(kind)?],
                None => targets::TARGETS.to_vec(),
            };
            for kernel in chosen(kernel.as_deref())? {
                let world = World::load(&kernel, WorldOptions::default())?;
                for target in &wanted {
                    for path in golden::make(&world, *target, out).map_err(Bad)? {
                        println!("{}", path.display());
                    }
                }
            }
            Ok(End::Well)
        }
        Command::Serve { qdisc, kernel } => {
            let world = World::load(&find(kernel)?, WorldOptions::default())?;
            versus::serve(&world, target(qdisc)?)?;
            Ok(End::Well)
        }
    }
}

fn fetch_kernels(suites: &[String]) -> Result<End, Bad> {
    let mut request = fetch::Request::default();
    if !suites.is_empty() {
        request.suites = suites.to_vec();
    }
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut progress = |event: fetch::Event<'_>| {
        match event {
            fetch::Event::Lists { suite } => println!("{suite}: package lists"),
            fetch::Event::Notice { suite, text } => println!("{suite}: {text}"),
            fetch::Event::Plan { suites, total_bytes } => {
                for plan in suites {
                    let state = if plan.complete { "there already" } else { "to be fetched" };
                    println!("{}: {} {state}", plan.suite, plan.release);
                    for package in plan.packages.iter().filter(|_| !plan.complete) {
                        println!("  {} {}, {} bytes", package.name, package.version, count(package.bytes));
                    }
                }
                println!("{} bytes to download", count(total_bytes));
            }
            fetch::Event::Download { suite, package, done } => {
                bar.set_length(package.bytes);
                bar.set_position(done);
                bar.set_message(format!("{suite}: {}", package.name));
            }
            fetch::Event::Unpack { suite, package } => bar.set_message(format!("{suite}: unpacking {}", package.name)),
            fetch::Event::Ready { plan } => println!("{}: ready in {}", plan.release, plan.folder.display()),
            _ => {}
        }
        ControlFlow::Continue(())
    };
    fetch::fetch(&request, &mut progress)?;
    bar.finish_and_clear();
    Ok(End::Well)
}

fn target(kind: &str) -> Result<&'static dyn Target, Bad> {
    targets::find(kind).ok_or_else(|| {
        let known: Vec<_> = targets::TARGETS.iter().map(|target| target.kind()).collect();
        Bad(format!("{kind}: nothing to compare; known are {}", known.join(", ")))
    })
}

fn chosen(wanted: Option<&str>) -> Result<Vec<Kernel>, Bad> {
    if let Some(wanted) = wanted {
        return Ok(vec![find(wanted)?]);
    }
    let found = kernels();
    if found.is_empty() {
        return Err(Bad("no kernel found: `debloat oracle fetch` gets them".into()));
    }
    Ok(found)
}

fn list() -> Result<End, Bad> {
    let rows: Vec<_> = chosen(None)?
        .iter()
        .map(|kernel| {
            let offer = kernel.offer();
            vec![kernel.release().to_owned(), kernel.series(), offer.qdiscs.join(" "), offer.controls.join(" ")]
        })
        .collect();
    print!("{}", layout(&["kernel", "series", "qdiscs", "congestion controls"], 4, &rows));
    Ok(End::Well)
}

fn bar(operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    let style = ProgressStyle::with_template("{msg} {bar:30} {human_pos}/{human_len} {per_sec} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn diff(options: &Diff) -> Result<End, Bad> {
    let target = target(&options.subject)?;
    let mut clean = true;
    for kernel in chosen(options.kernel.as_deref())? {
        let started = Instant::now();
        let world = World::load(&kernel, WorldOptions::default())?;
        let campaign = Campaign {
            operations: options.ops,
            seed: options.seed,
            steps_per_case: options.case,
            workers: options.workers,
            out: options.out.clone(),
        };
        let bar = bar(options.ops);
        bar.set_message(format!("{} on {}", options.subject, kernel.series()));
        let report = campaign.run(&world, target, |done| bar.inc(done)).map_err(Bad)?;
        bar.finish_and_clear();
        clean &= report.found.is_empty();
        if options.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            print!("{}", text(target, &kernel, options, &report, started.elapsed().as_secs_f64()));
        }
    }
    Ok(if clean { End::Well } else { End::Diverged })
}

/// Hook calls on the kernel's congestion control and the port, in parallel shards.
fn diff_control(options: &Diff) -> Result<End, Bad> {
    const SHARD: u64 = 500_000;
    if options.against.is_some() {
        return Err(Bad("--against compares qdiscs only".into()));
    }
    let subject = options.subject.as_str();
    let mut clean = true;
    for kernel in chosen(options.kernel.as_deref())? {
        let started = Instant::now();
        let world = World::load(&kernel, WorldOptions::default())?;
        let shards = options.ops.div_ceil(SHARD);
        let plan = worker::Plan { workers: options.workers, ..worker::Plan::new(shards, options.seed) };
        let per_shard = options.ops.div_ceil(shards);
        let bar = bar(options.ops);
        bar.set_message(format!("{subject} on {}", kernel.series()));
        let mut total = cc::CcReport::default();
        let mut trouble = None;
        worker::run(
            &plan,
            |shard| {
                cc::run(&world, subject, per_shard, shard.seed, |calls| shard.step(calls))
                    .map_err(|error| error.to_string())
            },
            |index, result| match result {
                Ok(Ok(part)) => {
                    bar.inc(part.calls);
                    total.add(part);
                }
                Ok(Err(text)) => trouble = Some(format!("shard {index}: {text}")),
                Err(error) => trouble = Some(error.to_string()),
            },
        );
        bar.finish_and_clear();
        if let Some(text) = trouble {
            return Err(Bad(text));
        }
        clean &= total.divergence.is_none();
        if options.json {
            println!("{}", serde_json::to_string_pretty(&total)?);
            continue;
        }
        println!(
            "{subject} on {} (seed {}): {} calls on {} connections, {} values, {} divergences, {:.0} s",
            kernel.release(),
            options.seed,
            count(total.calls),
            count(total.cases),
            count(total.values),
            u8::from(total.divergence.is_some()),
            started.elapsed().as_secs_f64(),
        );
        print!("{}", branches(cc::branches(subject), &total.coverage));
        if !total.absent.is_empty() {
            println!("  fields that this kernel lacks: {}", total.absent.join(", "));
        }
        if let Some(text) = &total.divergence {
            println!("{text}");
        }
    }
    Ok(if clean { End::Well } else { End::Diverged })
}

fn branches(names: &[&str], coverage: &Coverage) -> String {
    let row = |branch: &&str| {
        let hits = coverage.count(branch);
        vec![format!("  {branch}"), if hits == 0 { "NOT REACHED".into() } else { count(hits) }]
    };
    layout(&["  branch", "calls"], 1, &names.iter().map(row).collect::<Vec<_>>())
}

fn text(target: &dyn Target, kernel: &Kernel, options: &Diff, report: &CampaignReport, seconds: f64) -> String {
    let mut text = format!(
        "{} on {} (seed {}): {} operations in {} cases ({} refused by both), {} packets, {} state values, \
         {} divergences, {seconds:.0} s\n",
        options.subject,
        kernel.release(),
        options.seed,
        count(report.operations),
        count(report.cases),
        count(report.refused),
        count(report.packets),
        count(report.state_values),
        report.found.len(),
    );
    text += &branches(target.branches(), &report.coverage);
    for found in &report.found {
        text +=
            &format!("\nafter {} operations, {} steps:\n{}", count(found.after_operations), found.steps, found.text);
        if let Some(trace) = &found.trace {
            text += &format!("  written to {}\n", trace.display());
        }
    }
    text
}

fn against(options: &Diff, other: &str) -> Result<End, Bad> {
    let target = target(&options.subject)?;
    let first = options.kernel.as_deref().unwrap_or("newest");
    let mut servers =
        (versus::Server::start(first, &options.subject)?, versus::Server::start(other, &options.subject)?);
    let bar = bar(options.ops);
    bar.set_message(format!("{}: {first} against {other}", options.subject));
    let (done, apart) =
        versus::compare(&mut servers.0, &mut servers.1, target, options.seed, options.ops, |done| bar.inc(done))?;
    bar.finish_and_clear();
    let Some(apart) = apart else {
        println!("{}: {first} and {other} agree over {} operations", options.subject, count(done));
        return Ok(End::Well);
    };
    println!("{}: {first} and {other} differ, found within {} operations", options.subject, count(done));
    println!("options: {}\nsteps ({}):", apart.case.options.text, apart.case.steps.len());
    for step in &apart.case.steps {
        println!("  +{} ns {:?}", step.advance_ns, step.op);
    }
    println!("{first}:\n{}\n{other}:\n{}", apart.first, apart.second);
    Ok(End::Diverged)
}
