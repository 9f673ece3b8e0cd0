//! The same operations on the newest kernel found and on the port. Does nothing where there is no kernel.
#![no_main]

use debloat_conformance::diff::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    fuzz::against_kernel("codel", data);
});
