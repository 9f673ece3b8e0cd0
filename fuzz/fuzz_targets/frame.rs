//! Any bytes as a frame: dissection, marking and washing never panic and stay inside the frame.
#![no_main]

use debloat_aqm::net::{self, Headers, SipKey, ecn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u16, Vec<u8>)| {
    let (offset, ethertype, mut bytes) = input;
    let offset = usize::from(offset % 64);
    let _ = net::flow_hash(&Headers::new(&bytes, offset, ethertype), &SipKey([1, 2]));
    let marked = ecn::try_mark_ce(&mut bytes, offset, ethertype);
    assert!(!marked || ecn::ds_field(&bytes, offset, ethertype).is_some_and(|ds| ds & 3 == 3));
    let _ = ecn::cake_wash(&mut bytes, offset, ethertype);
});
