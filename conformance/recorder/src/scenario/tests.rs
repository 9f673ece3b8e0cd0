use super::*;
use crate::error::Error;

const GOOD: &str = r#"
about = "x"
seconds = 2.0
[qdisc]
command = "fq_codel limit 100"
parent = "htb rate 20mbit"
[[tcp]]
"#;

fn refused(text: &str) -> (usize, usize, String) {
    match Scenario::parse("test", text).unwrap_err() {
        Error::Scenario { line, column, message, .. } => (line, column, message),
        other => panic!("{other}"),
    }
}

#[test]
fn every_builtin_is_sound_and_named_after_its_file() {
    for found in builtins() {
        let scenario = Scenario::load(found.name).unwrap();
        assert_eq!(scenario.name, found.name);
        assert!(scenario.about.len() > 20, "{}", found.name);
        assert!(script(&scenario, "").contains("qdisc add"));
    }
}

#[test]
fn defaults_are_the_usual_network() {
    let scenario = Scenario::parse("test", GOOD).unwrap();
    assert_eq!(scenario.kind(), "fq_codel");
    assert_eq!(scenario.kinds(), "fq_codel");
    assert_eq!(scenario.link.mtu, 1500);
    assert!(scenario.modules().contains(&"sch_htb".to_owned()));
}

#[test]
fn errors_say_where() {
    let (line, _, message) = refused(&GOOD.replace("limit 100", "limit $(reboot)"));
    assert_eq!(line, 5);
    assert!(message.contains("'$'"), "{message}");
    let (line, column, message) = refused(&GOOD.replace("[[tcp]]", "[[tcp]]\ncongestion = \"vegas\""));
    assert_eq!((line, column), (8, 14));
    assert!(message.contains("reno, cubic, bbr, dctcp"), "{message}");
    let (line, _, message) = refused(&GOOD.replace("seconds", "secnds"));
    assert_eq!(line, 3);
    assert!(message.contains("secnds"), "{message}");
    let (line, _, message) = refused(&GOOD.replace("fq_codel", "hfsc"));
    assert_eq!(line, 5);
    assert!(message.contains("cannot be recorded"), "{message}");
    let (_, _, message) = refused(&GOOD.replace("[[tcp]]", "[[udp]]\nrate = \"fast\""));
    assert!(message.contains("5mbit"), "{message}");
    let (_, _, message) = refused(&GOOD.replace("[[tcp]]", ""));
    assert!(message.contains("no traffic"), "{message}");
    let (_, _, message) = refused(&GOOD.replace("[[tcp]]", "[[tcp]]\nfrom = 2"));
    assert!(message.contains("1 client"), "{message}");
    let (_, _, message) = refused(&GOOD.replace("htb rate 20mbit", "drr"));
    assert!(message.contains("htb or tbf"), "{message}");
    let (_, _, message) = refused(&format!("{GOOD}[[change]]\nat = 9.0\ncommand = \"fq_codel limit 3\"\n"));
    assert!(message.contains("9 s"), "{message}");
    let (_, _, message) = refused(&format!("{GOOD}[[change]]\nat = 1.0\ncommand = \"pie limit 3\"\n"));
    assert!(message.contains("fq_codel"), "{message}");
    let (_, _, message) = refused(&GOOD.replace("[[tcp]]", "[[tcp]]\nip = 5"));
    assert!(message.contains("4 or 6"), "{message}");
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = Scenario::load("no-such-scenario").unwrap_err();
    assert!(error.to_string().contains("fq_codel"), "{error}");
}

#[test]
fn the_script_shows_what_was_asked_for() {
    let text = r#"
about = "x"
seconds = 3.0
[qdisc]
command = "cake bandwidth 10mbit"
[link]
vlan = { id = 9, in_band = true }
offloads = false
[hosts]
clients = 2
[[tcp]]
from = 2
ecn = true
dscp = 46
congestion = "bbr"
[[udp]]
rate = "2.5mbit"
ip = 6
direction = "down"
[[change]]
at = 1.0
command = "cake bandwidth 5mbit"
"#;
    let scenario = Scenario::parse("test", text).unwrap();
    let script = script(&scenario, "");
    for part in [
        "type vlan id 9 reorder_hdr off",
        "tso off gso off",
        "iperf3 -c 10.0.2.101 -B 10.0.1.2 -p 5201 -P 1 -C bbr -t 3 -S 184",
        "iperf3 -u -c fd00:2::1 -B fd00:1::1 -p 5202 -P 1 -b 2.5M -l 1400 -t 3 -R",
        "sleep 1; run $tc -n m qdisc change dev m1 root handle 1: cake bandwidth 5mbit",
        "recorder cake 64",
    ] {
        assert!(script.contains(part), "{part} not in\n{script}");
    }
    assert!(scenario.modules().contains(&"tcp_bbr".to_owned()));
}

#[test]
fn rates_for_iperf() {
    assert_eq!(script::iperf_rate("5mbit").as_deref(), Some("5M"));
    assert_eq!(script::iperf_rate("500kbit").as_deref(), Some("500K"));
    assert_eq!(script::iperf_rate("5M"), None);
    assert_eq!(script::iperf_rate("mbit"), None);
    assert_eq!(script::iperf_rate("5;mbit"), None);
}
