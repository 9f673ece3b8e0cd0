mod hooks;
mod qdiscs;
mod raw;

use super::*;
use crate::trace::{Call, Event, Outcome, PacketRef, Trace};
use raw::{Enqueue, FOREIGN, OWN, Raw, SYMBOLS, frame};

fn import(name: &str, raw: &Raw) -> Result<Trace, ImportError> {
    let symbols = Symbols::parse(SYMBOLS).unwrap();
    let meta = Meta::founding(name).unwrap();
    match meta.subject {
        crate::trace::Subject::Qdisc(_) => qdisc(&raw.bytes[..], &symbols, &meta),
        crate::trace::Subject::CongestionControl(_) => congestion_control(&raw.bytes[..], &meta),
    }
}

fn calls(trace: &Trace) -> Vec<&Call> {
    let mut calls = Vec::new();
    for event in &trace.events {
        let Event::Call(call) = event else { panic!("not a call") };
        calls.push(call);
    }
    calls
}

#[test]
fn symbols_are_found_by_address() {
    let symbols = Symbols::parse(SYMBOLS).unwrap();
    assert_eq!(symbols.function(0xffff_1000), Some("fq_codel_enqueue"));
    assert_eq!(symbols.function(0xffff_1fff), Some("fq_codel_enqueue"));
    assert_eq!(symbols.function(0xffff_2000), Some("cake_dequeue"));
    assert_eq!(symbols.function(0xffff_3000), None);
    assert_eq!(symbols.function(0), None);
    let error = Symbols::parse("ffff1000 ffff2000 good\n\nnonsense\n").unwrap_err();
    assert!(matches!(error.kind, ImportErrorKind::Symbol(3)));
}

#[test]
fn arbitrary_records_never_panic() {
    let names =
        ["fq_codel-72", "pie-61", "fq_pie-612", "cake-61", "cake-72", "cc-cubic-61", "cc-bbr-72", "cc-dctcp-612"];
    bolero::check!().with_iterations(2000).with_max_len(2048).for_each(|bytes: &[u8]| {
        let (choice, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        let name = names[usize::from(*choice) % names.len()];
        let _ = import(name, &Raw { bytes: bytes.to_vec(), ..Raw::default() });
        // Records of the right lengths with arbitrary bodies.
        let mut raw = Raw::default();
        for part in bytes.chunks(9) {
            let kind = 1 + u16::from(part[0] % 19);
            let length = match kind {
                1 => 224,
                2 => 152,
                4 => 144,
                7 => 72,
                8 => 104,
                14 => 200,
                17 | 18 => 448,
                _ => 24,
            };
            let mut body = vec![0; length];
            for (to, from) in body.iter_mut().zip(&part[1..]) {
                *to = from & 3;
            }
            raw.record(kind, &body);
        }
        let _ = import(name, &raw);
    });
}
