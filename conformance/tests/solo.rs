//! The operation model that libFuzzer and the oracle use, run by bolero under `cargo test`: no kernel needed.

use debloat_conformance::diff::{fuzz, targets};

#[test]
fn every_port_conserves_and_drains() {
    for target in targets::TARGETS {
        bolero::check!()
            .with_iterations(60)
            .with_type::<Vec<u8>>()
            .for_each(|data: &Vec<u8>| fuzz::port(target.kind(), data));
    }
}

/// The same operations on a kernel's own code and on the ports, where there is a kernel.
#[test]
fn every_port_equals_the_kernel() {
    if debloat_oracle::find("newest").is_err() {
        println!("SKIPPED every_port_equals_the_kernel: run cargo run --release -- oracle fetch");
        return;
    }
    for target in targets::TARGETS {
        let kind = target.kind();
        // One world per process.
        let done = debloat_oracle::worker::isolate(|| {
            (0u32..40).filter(|seed| fuzz::against_kernel(kind, &seed.wrapping_mul(0x9e37_79b9).to_le_bytes())).count()
        });
        assert_eq!(done, Ok(40), "{kind}");
    }
}
