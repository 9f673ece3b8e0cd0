//! Fetches kernels with progress on standard error: `cargo run --example fetch -- [--plain] bookworm trixie sid`.
use debloat_oracle::fetch::{Event, Request, fetch};
use std::ops::ControlFlow;

fn main() {
    let mut suites: Vec<String> = std::env::args().skip(1).collect();
    let mut request = Request::default();
    if let Some(i) = suites.iter().position(|a| a == "--plain") {
        suites.remove(i);
        request.cloud = false;
    }
    if !suites.is_empty() {
        request.suites = suites;
    }
    let result = fetch(&request, &mut |event| {
        match event {
            Event::Download { package, done, .. } => {
                eprint!("\r{} {done}/{}   ", package.name, package.bytes)
            }
            other => eprintln!("\n{other:?}"),
        }
        ControlFlow::Continue(())
    });
    match result {
        Ok(plans) => plans.iter().for_each(|p| println!("{} {}", p.release, p.folder.display())),
        Err(e) => {
            eprintln!("\n{e}");
            std::process::exit(1);
        }
    }
}
