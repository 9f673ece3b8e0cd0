//! Congestion controls against a kernel: `diff_cc KERNEL SUBJECT CALLS SEED` (subjects: reno, cubic, dctcp, bbr, core).

use debloat_conformance::diff::cc;
use debloat_oracle::{World, WorldOptions, find};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, subject, calls, seed] = &arguments[..] else {
        return Err("usage: diff_cc KERNEL SUBJECT CALLS SEED".into());
    };
    let world = World::load(&find(kernel)?, WorldOptions::default())?;
    let calls = calls.parse::<f64>()? as u64;
    let started = Instant::now();
    let report = cc::run(&world, subject, calls, seed.parse()?, |_| {})?;
    println!(
        "{subject} on {}: {} calls in {} cases, {} values, {:.1} s, seed {seed}",
        world.kernel().release(),
        report.calls,
        report.cases,
        report.values,
        started.elapsed().as_secs_f64()
    );
    println!("  not in this kernel: {:?}", report.absent);
    println!("  {:?}", report.coverage);
    let unreached = report.unreached(subject);
    println!("  not reached: {unreached:?}");
    match report.divergence {
        Some(text) => Err(format!("DIVERGENCE {text}").into()),
        None => Ok(()),
    }
}
