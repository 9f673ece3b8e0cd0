use std::process::Command;

use debloat_aqm::{Context, Descriptor, Host, Linux, codel, fq_codel};

use super::units::significant;
use super::*;

mod pie_family;
mod schedulers;

fn shown(text: &str) -> Shown {
    let queue = build::<Descriptor>(text, Linux::V7_2, Host::default()).unwrap();
    queue.shown(0x2_0000, Attachment::Parent(0x1_0001), 5_000_000_000)
}

fn first_line(text: &str) -> String {
    shown(text).text().lines().next().unwrap_or_default().to_owned()
}

/// The lines that a real tc printed beside the recordings.
#[test]
fn show_lines_of_the_recordings() {
    let expected = "qdisc fq_codel 2: parent 1:1 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms \
                    memory_limit 32Mb ecn drop_batch 64 \n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
                    backlog 0b 0p requeues 0\n  maxpacket 0 drop_overlimit 0 new_flow_count 0 ecn_mark 0\n  \
                    new_flows_len 0 old_flows_len 0\n";
    assert_eq!(shown("fq_codel").text(), expected);
}

/// Case CD-05: defaults and option order of codel's line.
#[test]
fn codel_show_lines() {
    let line = |options: &str| first_line(&format!("codel {options}"));
    assert_eq!(line(""), "qdisc codel 2: parent 1:1 limit 1000p target 5ms interval 100ms ");
    assert!(line("limit 1500").contains(" limit 1500p target 5ms interval 100ms "));
    assert!(line("target 100ms interval 20ms").contains(" target 100ms interval 20ms "));
    assert!(line("ecn").ends_with(" interval 100ms ecn "));
    assert!(line("ce_threshold 20ms").contains(" target 5ms ce_threshold 20ms interval 100ms "));
}

/// Case FC-09: a negative deficit prints as one, in text and JSON.
#[test]
fn class_deficit_is_signed() {
    let mut queue = build::<Descriptor>("fq_codel flows 1", Linux::V7_2, Host::default()).unwrap();
    let mut cx = Context::at(5_000_000_000);
    for _ in 0..2 {
        let _ = queue.dyn_enqueue(Descriptor::new(1814), &mut cx);
    }
    let _ = queue.dyn_dequeue(&mut cx);
    let class = &queue.classes(5_000_000_000)[0];
    assert!(class.text(0x8001_0000).contains("  deficit -300 count 0"), "{}", class.text(0x8001_0000));
    assert_eq!(class.json(0x8001_0000)["stats"]["deficit"], -300);
}

#[test]
fn json_has_tcs_keys() {
    let json = shown("fq_codel ce_threshold 1ms").json();
    assert_eq!(json["kind"], "fq_codel");
    assert_eq!(json["options"]["target"], 4999);
    assert_eq!(json["options"]["ce_threshold"], 999);
    assert_eq!(json["options"]["memory_limit"], 33_554_432);
    assert_eq!((&json["qlen"], &json["new_flows_len"]), (&0.into(), &0.into()));
}

#[test]
fn options_are_read_as_tc_reads_them() {
    let c: fq_codel::Config =
        parse("limit 0x10 flows 010 target 1.5ms interval 1e2ms memory_limit 8mbit ce_threshold 0 drop_batch 0")
            .unwrap();
    assert_eq!((c.limit, c.flows, c.target_us, c.interval_us), (Some(16), Some(8), Some(1500), Some(100_000)));
    assert_eq!((c.memory_limit_bytes, c.ce_threshold_us, c.drop_batch), (Some(1 << 20), Some(0), None));
    let c: fq_codel::Config = parse("ce_threshold_selector 0x01/0x03 ecn noecn").unwrap();
    assert_eq!(c.ce_threshold_selector, Some(fq_codel::Selector { value: 1, mask: 3 }));
    assert_eq!(c.ecn, Some(false));
    assert_eq!(parse::<codel::Config>(""), Ok(codel::Config::default()));
}

#[test]
fn errors_point_at_the_word() {
    let error = |text: &str| parse::<fq_codel::Config>(text).unwrap_err().to_string();
    assert_eq!(error("ecn targt 3ms"), "fq_codel: targt: unknown option (at character 4); did you mean \"target\"?");
    assert_eq!(
        error("ecn  limit"),
        "fq_codel: limit: a value is missing: a number of packets, 0 to 4294967295 (at character 10)"
    );
    assert!(error("target 5x").starts_with("fq_codel: target 5x: a time such as 5ms"));
    assert!(error("target 5x").ends_with("(at character 7)"));
    assert!(error("wombat").ends_with("wombat: unknown option (at character 0)"));
    let error = build::<Descriptor>("fq_code limit 1", Linux::V7_2, Host::default()).err().unwrap();
    assert_eq!(error.to_string(), "qdisc: fq_code: unknown qdisc (at character 0); did you mean \"fq_codel\"?");
    let error = build::<Descriptor>("fq_codel quantum 1048577", Linux::V7_2, Host::default()).err().unwrap();
    assert_eq!(error.to_string(), "fq_codel: quantum 1048577: at most 1048576 bytes");
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut queue = build::<Descriptor>("fq_codel", Linux::V7_2, Host::default()).unwrap();
    let before = queue.shown(0, Attachment::Root { refcnt: 2 }, 0);
    let mut cx = Context::at(5_000_000_000);
    for text in ["limit 5 flows 7", "limit 5 wombat", "quantum 2000000 limit 5"] {
        assert!(queue.change_text(&mut Words::new("fq_codel", text), &mut cx).is_err(), "{text}");
    }
    assert_eq!(queue.shown(0, Attachment::Root { refcnt: 2 }, 0), before);
    queue.change_text(&mut Words::new("fq_codel", "limit 5 target 1ms"), &mut cx).unwrap();
    assert!(queue.shown(0, Attachment::Root { refcnt: 2 }, 0).text().contains("limit 5p"));
}

#[test]
fn three_significant_digits() {
    for (value, text) in [
        (4.999, "5"),
        (99.999, "100"),
        (1.5, "1.5"),
        (12.345, "12.3"),
        (1234.0, "1.23e+03"),
        (0.25, "0.25"),
        (999.9, "1e+03"),
    ] {
        assert_eq!(significant(value), text, "{value}");
    }
    assert_eq!((times::text(999), times::text(4_294_967_295)), ("999us".into(), "4.29e+03s".into()));
    assert_eq!(
        (sizes::text(33_554_432), sizes::text(1023), sizes::text(1514)),
        ("32Mb".into(), "1023b".into(), "1514b".into())
    );
}

/// The texts that the real tc (iproute2) is asked about: does it accept them?
const TC_CASES: &[&str] = &[
    "codel limit 100",
    "codel limit 0x10 target 5",
    "codel limit 5k",
    "codel limit -1",
    "codel limit +5",
    "codel limit 1e3",
    "codel limit 4294967295",
    "codel limit 4294967296",
    "codel target 5 ms",
    "codel target 5x",
    "codel target 1.5ms",
    "codel target .5ms",
    "codel target 5.ms",
    "codel target +5ms",
    "codel target 5MS",
    "codel target 5usecs",
    "codel target 5ns",
    "codel target 1min",
    "codel interval 1e2ms",
    "codel ecn noecn",
    "codel ce_threshold 0",
    "codel foo",
    "codel target",
    "codel limit 010",
    "codel limit 09",
    "codel flows 5",
    "fq_codel",
    "fq_codel quantum 1k",
    "fq_codel quantum 300 flows 65536",
    "fq_codel memory_limit 32mb",
    "fq_codel memory_limit 32Mb",
    "fq_codel memory_limit 1gbit",
    "fq_codel memory_limit 1kib",
    "fq_codel memory_limit 3kbps",
    "fq_codel memory_limit 5g",
    "fq_codel memory_limit -5",
    "fq_codel ce_threshold_selector 0x1/0x3",
    "fq_codel ce_threshold_selector 1",
    "fq_codel ce_threshold_selector 0x100/3",
    "fq_codel ce_threshold_selector",
    "fq_codel drop_batch 1 ce_threshold 1ms",
    "fq_codel lim 5",
];

/// Runs the machine's tc in a network namespace of its own; `None` where that cannot be done. Exit code 2 means that
/// the kernel refused (this one may not have the qdisc): tc itself understood the text.
fn real_tc_accepts(text: &str) -> Option<bool> {
    let mut tc = Command::new("unshare");
    tc.args(["--user", "--map-root-user", "--net", "tc", "qdisc", "replace", "dev", "lo", "root"]);
    let output = tc.args(text.split(' ')).output().ok()?;
    match output.status.code()? {
        0 | 2 => Some(true),
        // 127: there is no tc; otherwise an empty complaint means that unshare failed.
        127 => None,
        _ if String::from_utf8_lossy(&output.stderr).contains("unshare") => None,
        _ => Some(false),
    }
}

#[test]
fn the_real_tc_agrees_on_syntax() {
    if real_tc_accepts("fq_codel") != Some(true) {
        println!(
            "SKIPPED the_real_tc_agrees_on_syntax: needs iproute2's tc and user namespaces (apt-get install iproute2)"
        );
        return;
    }
    for text in TC_CASES {
        let ours = match build::<Descriptor>(text, Linux::V7_2, Host::default()) {
            Ok(_) | Err(BuildError::Config(_)) => true,
            Err(BuildError::Parse(_)) => false,
        };
        assert_eq!(Some(ours), real_tc_accepts(text), "{text}");
    }
}
