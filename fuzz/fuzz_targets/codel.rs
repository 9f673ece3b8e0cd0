//! Operations of any kind on the port: packets and bytes are conserved after every call, and everything drains.
#![no_main]

use debloat_conformance::diff::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzz::port("codel", data));
