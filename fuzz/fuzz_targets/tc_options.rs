//! Any text as option text: a qdisc, or a typed error; never a panic.
#![no_main]

use debloat_aqm::{Context, Descriptor, Host, Linux};
use debloat_harness::tc::{self, Attachment, Words};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (text, change) = input;
    if let Ok(mut queue) = tc::build::<Descriptor>(text, Linux::V7_2, Host::default()) {
        let _ = queue.change_text(&mut Words::new(queue.kind(), change), &mut Context::at(1 << 40));
        let shown = queue.shown(0x1_0000, Attachment::Root { refcnt: 2 }, 1 << 40);
        assert!(shown.text().starts_with("qdisc "));
        let _ = shown.json();
    }
});
