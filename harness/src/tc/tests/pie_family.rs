//! pie, fq_pie and dualpi2. Texts and JSON are what the real tc (iproute2 6.1 and 7.3) made of the same netlink
//! messages, and the gains what it sent.

use debloat_aqm::{Context, Descriptor, EventKind, Host, Linux, dualpi2, fq_pie, pie};
use serde_json::json;

use super::super::units::general;
use super::super::*;
use super::{first_line, real_tc_accepts, shown};

/// The lines that a real tc printed beside the recordings.
#[test]
fn show_lines_of_the_recordings() {
    let counters = " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n";
    let pie = "qdisc pie 2: parent 1:1 limit 1000p target 15ms tupdate 16ms alpha 2 beta 20 ecn \n";
    let statistics = "  prob 0 delay 0us\n  pkts_in 0 overlimit 0 dropped 0 maxq 0 ecn_mark 0\n";
    assert_eq!(shown("pie ecn").text(), format!("{pie}{counters}{statistics}"));
    let fq_pie = "qdisc fq_pie 2: parent 1:1 limit 10240p flows 1024 target 15ms tupdate 16ms alpha 2 beta 20 \
                  quantum 1514b memory_limit 32Mb ecn_prob 10 ecn \n";
    let statistics = "  pkts_in 0 overlimit 0 overmemory 0 dropped 0 ecn_mark 0\n  \
                      new_flow_count 0 new_flows_len 0 old_flows_len 0 memory_used 0\n";
    assert_eq!(shown("fq_pie ecn").text(), format!("{fq_pie}{counters}{statistics}"));
}

/// Case DP-05: the default line and option mapping.
#[test]
fn dualpi2_lines() {
    let expected = "qdisc dualpi2 2: parent 1:1 limit 10000p memlimit 30280000B target 15ms tupdate 16ms alpha 0.156250 \
                    beta 3.195312 step_thresh 1ms min_qlen_step 0p coupling_factor 2 drop_on_overload drop_dequeue \
                    classic_protection 10% l4s_ect split_gso \n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
                    backlog 0b 0p requeues 0\nprob 0.000000 delay_c 0us delay_l 0us\npkts_in_c 0 pkts_in_l 0 maxq 0\n\
                    ecn_mark 0 step_mark 0\ncredit -121120 (L-queue)\nmemory_used 0 (max 0) of memory limit 30280000\n";
    assert_eq!(shown("dualpi2").text(), expected);
    let line = first_line(
        "dualpi2 memlimit 20000000 any_ect overflow drop_enqueue no_split_gso step_thresh 3p min_qlen_step 1 \
         coupling_factor 1 classic_protection 0",
    );
    let options = "step_thresh 3p min_qlen_step 1p coupling_factor 1 overflow drop_enqueue classic_protection 0% \
                   any_ect no_split_gso ";
    assert!(line.contains(" memlimit 20000000B ") && line.ends_with(options), "{line}");
}

#[test]
fn json() {
    let pie = shown("pie ecn bytemode dq_rate_estimator").json();
    assert_eq!(
        pie["options"],
        json!({"limit": 1000, "target": 15000, "tupdate": 16000, "alpha": 2, "beta": 20, "ecn": true,
               "bytemode": true, "dq_rate_estimator": true})
    );
    assert_eq!((&pie["prob"], &pie["avg_dq_rate"], &pie["maxq"]), (&json!(0.0), &json!(0), &json!(0)));
    assert_eq!(shown("pie").json().get("avg_dq_rate"), None);
    let dualpi2 = shown("dualpi2").json();
    assert_eq!(
        dualpi2["options"],
        json!({"limit": 10000, "memory-limit": 30280000, "target": 15000, "tupdate": 16000, "alpha": 0.15625,
               "beta": 3.19531, "step-thresh-us": 1000, "min-qlen-step": 0, "coupling": 2, "drop-overload": "drop",
               "drop-early": "drop-dequeue", "c-protection": 10, "ecn-mask": "l4s-ect", "split-gso": null})
    );
    assert_eq!((&dualpi2["credit"], &dualpi2["memory-limit"]), (&json!(-121120), &json!(30280000)));
    assert_eq!(shown("dualpi2 no_split_gso step_thresh 3p").json()["options"].get("split-gso"), None);
}

/// A probability as tc prints it, in text and JSON.
#[test]
fn probability_has_six_digits() {
    let mut queue = build::<Descriptor>("pie limit 100000", Linux::V7_2, Host::default()).unwrap();
    let mut now = 1_000_000_000;
    for _ in 0..40 {
        let _ = queue.dyn_enqueue(Descriptor::new(1514), &mut Context::at(now));
    }
    for _ in 0..3 {
        now += 50_000_000;
        let mut cx = Context::at(now);
        let _ = queue.dyn_dequeue(&mut cx);
        assert!(queue.dyn_next_event().is_some_and(|event| event.kind == EventKind::Timer));
        queue.dyn_on_timer(&mut cx);
    }
    let shown = queue.shown(0, Attachment::Root { refcnt: 2 }, now);
    let prob = shown.json()["prob"].as_f64().unwrap();
    assert!(prob > 0.0 && prob < 1.0);
    assert!(shown.text().contains(&format!("  prob {} delay 150ms\n", general(prob, 6))), "{}", shown.text());
    for (value, text) in [
        (0.0208333333, "0.0208333"),
        (2.890_07e-5, "2.89007e-05"),
        (1.0, "1"),
        (0.0625, "0.0625"),
        (5.960_464_477e-8, "5.96046e-08"),
        (0.000_1, "0.0001"),
        (1_234_567.0, "1.23457e+06"),
        (999_999.6, "1e+06"),
    ] {
        assert_eq!(general(value, 6), text);
    }
}

#[test]
fn options_are_read_as_tc_reads_them() {
    let c: pie::Config = parse("limit 010 target 20ms tupdate 0 alpha 0x10 beta 32 ecn bytemode nobytemode").unwrap();
    assert_eq!((c.limit, c.target_us, c.tupdate_us), (Some(8), Some(20_000), None));
    assert_eq!((c.alpha, c.beta, c.ecn, c.bytemode), (Some(16), Some(32), Some(true), Some(false)));
    let c: fq_pie::Config = parse("quantum 1k memory_limit 4mb ecn_prob 010 flows 0 dq_rate_estimator").unwrap();
    assert_eq!((c.quantum_bytes, c.memory_limit_bytes), (Some(1024), Some(4 << 20)));
    assert_eq!((c.ecn_prob_percent, c.flows, c.dq_rate_estimator), (Some(8), None, Some(true)));
    let c: dualpi2::Config =
        parse("limit 010 coupling_factor 010 alpha 0.16 beta 3.2 classic_protection 12.5%").unwrap();
    assert_eq!((c.limit, c.coupling_factor), (Some(10), Some(8)));
    assert_eq!((c.alpha_hz_256, c.beta_hz_256, c.classic_protection_percent), (Some(40), Some(819), Some(12)));
    let percents = ["10.5", "11.5", "12.51%", "99.9%", "0.1", "1e1"];
    let read = |text: &str| parse::<dualpi2::Config>(&format!("classic_protection {text}")).unwrap();
    assert_eq!(percents.map(|text| read(text).classic_protection_percent), [10, 12, 13, 100, 0, 10].map(Some));
    let step = |text: &str| parse::<dualpi2::Config>(&format!("step_thresh {text}")).map(|c| c.step_thresh).ok();
    use dualpi2::StepThreshold::{Packets, Time};
    assert_eq!(
        ["3p", "010p", "+3pkt", "3packet", "3packets"].map(step),
        [3, 10, 3, 3, 3].map(|n| Some(Some(Packets(n))))
    );
    assert_eq!(
        (step("5"), step("1.5ms"), step("0"), step("0p")),
        (Some(Some(Time(5))), Some(Some(Time(1500))), Some(None), Some(None))
    );
    assert_eq!(step("2ms step_thresh 3p"), Some(Some(Packets(3))), "the last one counts");
}

/// What tc computes from round-trip times: 0.1 and 0.3 are of single precision there.
#[test]
fn round_trip_times() {
    let read = |text: &str| {
        let c: dualpi2::Config = parse(text).unwrap();
        [c.target_us, c.tupdate_us, c.alpha_hz_256, c.beta_hz_256].map(Option::unwrap)
    };
    assert_eq!(read("max_rtt 100ms"), [16_666, 16_666, 42, 768]);
    assert_eq!(read("target 5ms alpha 1 beta 2 tupdate 3ms max_rtt 100ms"), [16_666, 16_666, 42, 768]);
    assert_eq!(read("max_rtt 100ms typical_rtt 20ms"), [20_000, 20_000, 51, 768]);
    assert_eq!(read("typical_rtt 20ms"), [20_000, 20_000, 35, 640]);
    assert_eq!(read("max_rtt 3us"), [1, 1, 2_844_444, 25_600_001]);
    assert_eq!(read("max_rtt 1us"), [1, 1, 25_600_000, 76_800_003]);
    assert_eq!(read("max_rtt 12us"), [2, 2, 355_555, 6_400_000]);
    assert_eq!(read("max_rtt 1s"), [166_666, 166_666, 4, 76]);
    for text in ["max_rtt 10s typical_rtt 9s", "max_rtt 5us typical_rtt 50us", "typical_rtt 1000s"] {
        assert!(parse::<dualpi2::Config>(text).is_err(), "{text}");
    }
    assert_eq!(parse::<dualpi2::Config>("max_rtt 0 typical_rtt 0"), Ok(dualpi2::Config::default()));
}

/// Cases FP-02, FP-04 and DP-05, through text; 0 is what tc does not send.
#[test]
fn refusals() {
    let built = |text: &str| build::<Descriptor>(text, Linux::V7_2, Host::default()).is_ok();
    for text in ["fq_pie flows 65536", "fq_pie quantum 1048576", "fq_pie flows 0", "pie limit 0", "dualpi2 limit 0"] {
        assert!(built(text), "{text}");
    }
    for text in [
        "fq_pie flows 65537",
        "fq_pie quantum 1048577",
        "fq_pie quantum 2147483648",
        "dualpi2 coupling_factor 0",
        "dualpi2 classic_protection 101",
        "dualpi2 alpha 0",
        "dualpi2 beta 8388608",
    ] {
        assert!(!built(text), "{text}");
    }
    let mut queue = build::<Descriptor>("dualpi2", Linux::V7_2, Host::default()).unwrap();
    assert!(queue.change_text(&mut Words::new("dualpi2", ""), &mut Context::at(1)).is_err(), "an empty set on change");
    assert!(queue.change_text(&mut Words::new("dualpi2", "typical_rtt 10ms"), &mut Context::at(1)).is_ok());
    let error = parse::<dualpi2::Config>("typicl_rtt 5ms").unwrap_err();
    assert_eq!(
        error.to_string(),
        "dualpi2: typicl_rtt: unknown option (at character 0); did you mean \"typical_rtt\"?"
    );
}

/// The texts that the real tc is asked about.
const TC_CASES: &[&str] = &[
    "pie limit 010 target 20ms tupdate 0 alpha 0 beta 32 ecn noecn",
    "pie alpha 33",
    "pie beta 33",
    "pie alpha -1",
    "pie alpha 1.5",
    "pie alpha 0x10 bytemode nobytemode dq_rate_estimator no_dq_rate_estimator",
    "pie limit 4294967296",
    "pie flows 3",
    "pie target",
    "fq_pie flows 65537",
    "fq_pie quantum 1k memory_limit 32mb ecn_prob 99",
    "fq_pie ecn_prob 100",
    "fq_pie ecn_prob 9.5",
    "fq_pie quantum -1",
    "fq_pie memory_limit 5g",
    "fq_pie limit 5k",
    "fq_pie beta 33",
    "fq_pie nobytemode noecn no_dq_rate_estimator",
    "dualpi2 limit 5k",
    "dualpi2 limit 010 memlimit +5 min_qlen_step 0",
    "dualpi2 limit 0x10",
    "dualpi2 memlimit 32mb",
    "dualpi2 coupling_factor 0",
    "dualpi2 coupling_factor 256",
    "dualpi2 coupling_factor 0x10",
    "dualpi2 step_thresh 3packets",
    "dualpi2 step_thresh 3P",
    "dualpi2 step_thresh 3.5p",
    "dualpi2 step_thresh 1e2p",
    "dualpi2 step_thresh p",
    "dualpi2 step_thresh 0x10p",
    "dualpi2 step_thresh 1.5ms step_thresh 3p",
    "dualpi2 min_qlen_step 5p",
    "dualpi2 classic_protection 100",
    "dualpi2 classic_protection 100.4",
    "dualpi2 classic_protection 10%%",
    "dualpi2 classic_protection -1",
    "dualpi2 alpha 0",
    "dualpi2 alpha 1e",
    "dualpi2 alpha +1 beta .5",
    "dualpi2 alpha -1",
    "dualpi2 alpha 1.5x",
    "dualpi2 alpha infinity",
    "dualpi2 max_rtt 10s typical_rtt 9s",
    "dualpi2 max_rtt 5us typical_rtt 50us",
    "dualpi2 typical_rtt 1000s",
    "dualpi2 max_rtt 100ms l4s_ect any_ect drop_on_overload overflow split_gso no_split_gso",
    "dualpi2 drop",
];

#[test]
fn the_real_tc_agrees_on_syntax() {
    for kind in ["pie", "fq_pie", "dualpi2"] {
        // iproute2 has dualpi2 from 6.17 on.
        if real_tc_accepts(&format!("{kind} limit 1")) != Some(true) {
            println!("SKIPPED the_real_tc_agrees_on_syntax for {kind}: needs a tc that knows it, and user namespaces");
            continue;
        }
        for text in TC_CASES.iter().filter(|text| text.split(' ').next() == Some(kind)) {
            let ours = match build::<Descriptor>(text, Linux::V7_2, Host::default()) {
                Ok(_) | Err(BuildError::Config(_)) => true,
                Err(BuildError::Parse(_)) => false,
            };
            assert_eq!(Some(ours), real_tc_accepts(text), "{text}");
        }
    }
}
