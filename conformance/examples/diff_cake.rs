//! Compares the port of cake with a kernel's: `diff_cake KERNEL [OPERATIONS [SEED [WORKERS]]]`, or one case again:
//! `diff_cake KERNEL case SEED OPERATIONS`.
use std::time::Instant;

use debloat_conformance::diff::cake::{self, Case, Coverage};
use debloat_oracle::{World, WorldOptions, find};

fn number(text: Option<String>, default: u64) -> u64 {
    let Some(text) = text else { return default };
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap_or(default),
        None => text.parse::<f64>().map_or(default, |value| value as u64),
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let kernel = find(&words.next().unwrap_or_else(|| "7.2".into())).unwrap_or_else(|error| panic!("{error}"));
    let first = words.next();
    if first.as_deref() == Some("case") {
        let case = Case { seed: number(words.next(), 0), operations: number(words.next(), 4000) };
        let world = World::load(&kernel, WorldOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let linux = cake::linux_of(&kernel).unwrap_or_default();
        let mut coverage = Coverage::default();
        match cake::one(&world, linux, case, &mut coverage) {
            Ok(()) => println!("equal\n{coverage}"),
            Err(failure) => println!("{failure}"),
        }
        return;
    }
    let (operations, seed) = (number(first, 1_000_000), number(words.next(), 1));
    let start = Instant::now();
    let outcome = cake::campaign(&kernel, operations, seed, number(words.next(), 1) as usize);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("{} in {:?}\n{}", kernel.release(), start.elapsed(), outcome.coverage);
    for failure in &outcome.failures {
        println!("FAILED {failure}");
    }
    if !outcome.failures.is_empty() {
        std::process::exit(1);
    }
}
