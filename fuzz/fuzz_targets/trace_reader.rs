//! Any bytes as a trace file: events, or a typed error; never a panic, never an allocation by an unchecked length.
#![no_main]

use debloat_harness::trace::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(reader) = Reader::new(data) {
        for _ in reader {}
    }
});
