//! The `debloat` command.

mod conform;
mod oracle;
mod record;
mod table;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exact, embeddable re-implementations of Linux's queue disciplines and TCP congestion controls, and the evidence.
///
/// Without a command: replays the committed recordings of real kernels and says what is exact.
#[derive(Parser)]
#[command(name = "debloat", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Replay traces of real kernels through the ports (the default)
    Conform(conform::Options),
    /// Linux's own machine code as the judge: kernels, comparisons, golden traces
    #[command(subcommand)]
    Oracle(oracle::Command),
    /// Record what a booted, unmodified kernel does, in QEMU
    Record(record::Options),
    /// Look into trace files
    #[command(subcommand)]
    Trace(trace::Command),
}

/// How a command ended: the exit code's meaning.
enum End {
    /// 0.
    Well,
    /// 1: a divergence, or a criterion that failed.
    Diverged,
}

/// Wrong use or bad input: exit code 2, with this text.
struct Bad(String);

impl<E: std::error::Error> From<E> for Bad {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let end = match cli.command.unwrap_or_else(|| Command::Conform(conform::Options::default())) {
        Command::Conform(options) => conform::run(&options),
        Command::Oracle(command) => oracle::run(&command),
        Command::Record(options) => record::run(&options),
        Command::Trace(command) => trace::run(&command),
    };
    match end {
        Ok(End::Well) => ExitCode::SUCCESS,
        Ok(End::Diverged) => ExitCode::from(1),
        Err(Bad(text)) => {
            eprintln!("debloat: {text}");
            ExitCode::from(2)
        }
    }
}
