//! cake's text against the real tc: what it sent (taken down with strace), what it prints (asked again where it is
//! installed), and what it printed beside the recordings.

use std::fs;
use std::process::Command;

use debloat_aqm::cake::{AckFilter, Cake, ClassStats, Config, Diffserv, FlowMode, Framing, Stats, TinStats};
use debloat_aqm::{Configure, Context, Counters, Descriptor, Host, Linux, Qdisc};

use super::super::{Attachment, Printer, Shown, ShownClass, Subject, build, parse};
use super::{class_statistics, print_statistics};

/// The attributes of a text, in the order of their names, as tc 6.1 sends them.
fn attributes(text: &str) -> Option<String> {
    let c: Config = parse(text).ok()?;
    let flag = |value: Option<bool>| value.map(i64::from);
    let all = [
        ("ack", c.ack_filter.map(|v| v.attribute().into())),
        ("atm", c.framing.map(|v| v.attribute().into())),
        ("autorate", flag(c.autorate_ingress)),
        ("diffserv", c.diffserv.map(|v| v.attribute().into())),
        ("flow", c.flow_mode.map(|v| v.attribute().into())),
        ("fwmark", c.fwmark.map(i64::from)),
        ("ingress", flag(c.ingress)),
        ("memory", c.memlimit_bytes.map(i64::from)),
        ("mpu", c.mpu_bytes.map(i64::from)),
        ("nat", flag(c.nat)),
        ("overhead", c.overhead_bytes.map(i64::from)),
        ("rate", c.bandwidth.map(|v| v as i64)),
        ("raw", c.raw.then_some(0)),
        ("rtt", c.rtt_us.map(i64::from)),
        ("split", flag(c.split_gso)),
        ("target", c.target_us.map(i64::from)),
        ("wash", flag(c.wash)),
    ];
    Some(all.iter().filter_map(|(name, value)| Some(format!("{name}={}", (*value)?))).collect::<Vec<_>>().join(" "))
}

/// What tc 6.1 sends for a text; "no" where it refuses.
const SENT: &[(&str, &str)] = &[
    ("bandwidth 20mbit", "autorate=0 rate=2500000"),
    ("unlimited", "autorate=0 rate=0"),
    ("bandwidth 0", "autorate=0"),
    ("bandwidth 7", "autorate=0"),
    ("bandwidth 8", "autorate=0 rate=1"),
    ("bandwidth 1.5mbit", "autorate=0 rate=187500"),
    ("bandwidth 1kbps", "autorate=0 rate=1000"),
    ("bandwidth 1kibit", "autorate=0 rate=128"),
    ("bandwidth 1MBps", "autorate=0 rate=1000000"),
    ("bandwidth 1e6", "autorate=0 rate=125000"),
    ("bandwidth 50%", "no"),
    ("bandwidth 147tbit", "autorate=0 rate=18375000000000"),
    ("autorate-ingress", "autorate=1"),
    ("autorate-ingress bandwidth 1mbit", "autorate=0 rate=125000"),
    ("bandwidth 1mbit autorate-ingress", "autorate=1 rate=125000"),
    ("autorate_ingress", "no"),
    ("bandwidth 1mbit unlimited", "autorate=0 rate=0"),
    ("unlimited bandwidth 1mbit", "autorate=0 rate=125000"),
    ("rtt 80ms", "rtt=80000 target=4000"),
    ("rtt 100", "rtt=100 target=5"),
    ("rtt 5", "rtt=5 target=1"),
    ("rtt 0", "target=1"),
    ("rtt 1h", "no"),
    ("datacentre", "rtt=100 target=5"),
    ("lan", "rtt=1000 target=50"),
    ("metro", "rtt=10000 target=500"),
    ("regional", "rtt=30000 target=1500"),
    ("internet", "rtt=100000 target=5000"),
    ("oceanic", "rtt=300000 target=15000"),
    ("satellite", "rtt=1000000 target=50000"),
    ("interplanetary bandwidth 10gbit", "autorate=0 rate=1250000000 rtt=1000000000 target=50000000"),
    ("internet rtt 20ms", "rtt=20000 target=1000"),
    ("rtt 20ms internet", "rtt=100000 target=5000"),
    ("diffserv3", "diffserv=0"),
    ("diffserv4", "diffserv=1"),
    ("diffserv", "diffserv=1"),
    ("diffserv8", "diffserv=2"),
    ("diffserv-llt", "no"),
    ("besteffort", "diffserv=3"),
    ("precedence", "diffserv=4"),
    ("flowblind", "flow=0"),
    ("srchost", "flow=1"),
    ("dsthost", "flow=2"),
    ("hosts", "flow=3"),
    ("flows", "flow=4"),
    ("dual-srchost", "flow=5"),
    ("dual-dsthost", "flow=6"),
    ("triple-isolate", "flow=7"),
    ("nat", "nat=1"),
    ("nat nonat", "nat=0"),
    ("wash", "wash=1"),
    ("nowash", "wash=0"),
    ("split-gso", "split=1"),
    ("no-split-gso", "split=0"),
    ("ack-filter", "ack=1"),
    ("ack-filter-aggressive", "ack=2"),
    ("no-ack-filter", "ack=0"),
    ("memlimit 4mb", "memory=4194304"),
    ("memlimit 0", ""),
    ("memlimit 5gb", "no"),
    ("memlimit abc", "no"),
    ("fwmark 0xff", "fwmark=255"),
    ("fwmark 010", "fwmark=8"),
    ("fwmark 0", ""),
    ("fwmark 4294967296", "no"),
    ("ingress", "ingress=1"),
    ("egress", "ingress=0"),
    ("atm", "atm=1"),
    ("noatm", "atm=0"),
    ("ptm", "atm=2"),
    ("overhead 18", "overhead=18"),
    ("overhead -64", "overhead=-64"),
    ("overhead -65", "no"),
    ("overhead 256", "overhead=256"),
    ("overhead 257", "no"),
    ("overhead 0x10", "no"),
    ("overhead 010", "overhead=10"),
    ("overhead abc", "no"),
    ("mpu 0", ""),
    ("mpu 64", "mpu=64"),
    ("mpu 256", "mpu=256"),
    ("mpu 257", "no"),
    ("mpu -1", "no"),
    ("raw", "atm=0 overhead=0 raw=0"),
    ("conservative", "atm=1 overhead=48"),
    ("ethernet", "mpu=84 overhead=38"),
    ("ether-vlan", "overhead=4"),
    ("ether-vlan ether-vlan", "overhead=8"),
    ("ethernet ether-vlan", "mpu=84 overhead=42"),
    ("docsis", "atm=0 mpu=64 overhead=18"),
    ("ipoa-vcmux", "atm=1 overhead=8"),
    ("ipoa-llcsnap", "atm=1 overhead=16"),
    ("bridged-vcmux", "atm=1 overhead=24"),
    ("bridged-llcsnap", "atm=1 overhead=32"),
    ("pppoa-vcmux", "atm=1 overhead=10"),
    ("pppoa-llc", "atm=1 overhead=14"),
    ("pppoe-vcmux", "atm=1 overhead=32"),
    ("pppoe-llcsnap", "atm=1 overhead=40"),
    ("pppoe-ptm", "atm=2 overhead=30"),
    ("bridged-ptm", "atm=2 overhead=22"),
    ("via-ethernet", ""),
    ("raw overhead 18", "atm=0 overhead=18 raw=0"),
    ("overhead 18 raw", "atm=0 overhead=0 raw=0"),
    ("overhead 18 ethernet", "mpu=84 overhead=56"),
    ("overhead 250 ethernet", "mpu=84 overhead=288"),
    ("ethernet overhead 18", "mpu=84 overhead=18"),
    ("ethernet mpu 64", "mpu=64 overhead=38"),
    ("mpu 84 docsis", "atm=0 mpu=64 overhead=18"),
    ("conservative ether-vlan", "atm=1 overhead=52"),
    ("conservative raw", "atm=0 overhead=0 raw=0"),
    ("raw docsis", "atm=0 mpu=64 overhead=18 raw=0"),
    ("ipoa-vcmux bridged-ptm", "atm=2 overhead=30"),
    ("ether-fcs", "no"),
    ("bandw 5", "no"),
    ("bandwidth", "no"),
];

#[test]
fn options_are_read_as_tc_reads_them() {
    for (text, sent) in SENT {
        assert_eq!(attributes(text).as_deref().unwrap_or("no"), *sent, "{text}");
    }
}

#[test]
fn errors_help() {
    let error = |text: &str| parse::<Config>(text).unwrap_err().to_string();
    assert_eq!(error("bandwith 1mbit"), "cake: bandwith: unknown option (at character 0); did you mean \"bandwidth\"?");
    assert_eq!(error("nat overhead 300"), "cake: overhead 300: bytes, -64 to 256, in decimal digits (at character 13)");
    assert!(error("bandwidth 20mbits").contains("a rate such as 20mbit"));
}

fn counters() -> Counters {
    Counters { sent_bytes: 12_501_295, sent_packets: 8337, drops: 40, overlimits: 12255, ..Counters::default() }
}

/// What tc printed beside the recording of 6.1; times in µs that print as they did.
#[test]
fn the_text_of_the_recordings() {
    let tin = TinStats { flow_quantum: 300, ..TinStats::default() };
    let mut stats = Stats::default().with_tins(&[
        TinStats { threshold_rate: 156_250, target_us: 14_534, interval_us: 109_534, ..tin },
        TinStats {
            threshold_rate: 2_500_000,
            target_us: 5000,
            interval_us: 100_000,
            peak_delay_us: 7_580,
            avg_delay_us: 3_560,
            base_delay_us: 59,
            sent_packets: 8376,
            sent_bytes: 12_560_853,
            way_misses: 6,
            drops: 40,
            ecn_marks: 28,
            sparse_flows: 2,
            bulk_flows: 3,
            max_packet_bytes: 3028,
            flow_quantum: 610,
            ..tin
        },
        TinStats {
            threshold_rate: 625_000,
            target_us: 5000,
            interval_us: 100_000,
            peak_delay_us: 442,
            avg_delay_us: 6,
            base_delay_us: 6,
            sent_packets: 1,
            sent_bytes: 42,
            way_misses: 1,
            sparse_flows: 1,
            max_packet_bytes: 42,
            ..tin
        },
    ]);
    stats.capacity_estimate = 2_500_000;
    (stats.memory_limit_bytes, stats.memory_used_bytes) = (4 << 20, 178_920);
    (stats.network_min, stats.network_max, stats.network_offset_mean) = (42, 1514, 14);
    (stats.adjusted_min, stats.adjusted_max) = (42, 1514);
    let queue = build::<Descriptor>("cake bandwidth 20mbit", Linux::V6_1, Host::default()).unwrap();
    let (mut options, mut statistics) = (Printer::default(), Printer::default());
    queue.options(&mut options);
    print_statistics(&stats, &mut statistics);
    let attachment = Attachment::Root { refcnt: 2 };
    let shown = Shown { kind: "cake", handle: 0x1_0000, attachment, options, counters: counters(), statistics };
    assert_eq!(shown.text(), include_str!("recorded-6.1.txt"));
}

/// CK-26, and all that a class can say; the texts are the real tc's.
#[test]
fn classes() {
    let plain = ClassStats {
        minor: 7,
        qlen: 3,
        backlog_bytes: 4542,
        drops: 1,
        deficit_bytes: -1514,
        count: 0,
        dropping: false,
        drop_next_us: None,
        blue_timer_us: None,
        p_drop: 0,
    };
    let signalling = ClassStats { deficit_bytes: 300, count: 5, dropping: true, drop_next_us: Some(-3000), ..plain };
    let blue = ClassStats { count: 9, p_drop: 1 << 20, blue_timer_us: Some(1000), ..signalling };
    for (class, text) in [
        (plain, "  deficit -1514 count 0 blue_prob 0\n"),
        (signalling, "  deficit 300 count 5 dropping drop_next -3ms blue_prob 0\n"),
        (
            ClassStats { drop_next_us: Some(12_345_678), ..blue },
            "  deficit 300 count 9 dropping drop_next 12.3s blue_prob 1048576 blue_timer 1ms\n",
        ),
    ] {
        let mut statistics = Printer::default();
        class_statistics(&class, &mut statistics);
        let shown = ShownClass { kind: "cake", minor: class.minor, counters: Counters::default(), statistics };
        assert!(shown.text(0x1_0000).ends_with(text), "{}", shown.text(0x1_0000));
        assert_eq!(shown.json(0x1_0000)["stats"]["deficit"], class.deficit_bytes);
        assert_eq!(
            shown.json(0x1_0000)["stats"].get("drop_next").and_then(|v| v.as_i64()),
            class.drop_next_us.map(i64::from)
        );
    }
}

/// The JSON of the real tc 6.1, for a state with every key.
#[test]
fn json() {
    let text = "cake bandwidth 20mbit nat wash ingress ack-filter-aggressive no-split-gso atm overhead -4 mpu 64 \
                memlimit 4mb fwmark 0xff00 besteffort";
    let queue = build::<Descriptor>(text, Linux::V7_2, Host::default()).unwrap();
    let json = queue.shown(0x1_0000, Attachment::Root { refcnt: 2 }, 0).json().to_string();
    let expected = r#"{"kind":"cake","handle":"1:","root":true,"refcnt":2,"options":{"bandwidth":2500000,"diffserv":"besteffort","flowmode":"triple-isolate","nat":true,"wash":true,"ingress":true,"ack-filter":"aggressive","split_gso":false,"rtt":100000,"raw":false,"atm":"atm","overhead":-4,"mpu":64,"memlimit":4194304,"fwmark":"0xff00"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0,"memory_used":0,"memory_limit":4194304,"capacity_estimate":2500000,"min_network_size":65535,"max_network_size":0,"min_adj_size":65535,"max_adj_size":0,"avg_hdr_offset":0,"tins":[{"threshold_rate":2500000,"sent_bytes":0,"backlog_bytes":0,"target_us":5000,"interval_us":100000,"peak_delay_us":0,"avg_delay_us":0,"base_delay_us":0,"sent_packets":0,"way_indirect_hits":0,"way_misses":0,"way_collisions":0,"drops":0,"ecn_mark":0,"ack_drops":0,"sparse_flows":0,"bulk_flows":0,"unresponsive_flows":0,"max_pkt_len":0,"flow_quantum":610}]}"#;
    let sorted = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(sorted(&json), sorted(expected));
}

/// Netlink: one attribute.
fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u16 + 4).to_le_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn word(kind: u16, value: impl TryInto<i64>) -> Vec<u8> {
    attribute(kind, &(value.try_into().ok().unwrap_or_default() as u32).to_le_bytes())
}

fn long(kind: u16, value: u64) -> Vec<u8> {
    attribute(kind, &value.to_le_bytes())
}

/// The message with which the kernel would report this qdisc (spec/cake.md Appendix D).
fn report(queue: &Cake<Descriptor>) -> Vec<u8> {
    let (v, s, c) = (queue.parameters(), queue.stats(), queue.counters());
    let mut options = [
        long(2, v.bandwidth),
        word(5, v.flow_mode.attribute()),
        word(7, v.rtt_us),
        word(8, v.target_us),
        word(10, v.memlimit_bytes),
        word(9, v.autorate_ingress),
        word(15, v.ingress),
        word(16, v.ack_filter.attribute()),
        word(11, v.nat),
        word(3, v.diffserv.attribute()),
        word(13, v.wash),
        word(6, v.overhead_bytes),
        word(4, v.framing.attribute()),
        word(14, v.mpu_bytes),
        word(17, v.split_gso),
        word(18, v.fwmark),
    ]
    .concat();
    if v.raw {
        options.extend(word(12, 0));
    }
    let tins = s.tins().iter().zip(1..).flat_map(|(tin, number)| {
        let values = [
            long(12, tin.threshold_rate),
            long(3, tin.sent_bytes),
            word(11, tin.backlog_bytes),
            word(13, tin.target_us),
            word(14, tin.interval_us),
            word(2, tin.sent_packets),
            word(4, tin.drops),
            word(8, tin.ecn_marks),
            word(6, tin.ack_drops),
            word(18, tin.peak_delay_us),
            word(19, tin.avg_delay_us),
            word(20, tin.base_delay_us),
            word(15, tin.way_indirect_hits),
            word(16, tin.way_misses),
            word(17, tin.way_collisions),
            word(21, tin.sparse_flows),
            word(22, tin.bulk_flows),
            word(23, tin.unresponsive_flows),
            word(24, tin.max_packet_bytes),
            word(25, tin.flow_quantum),
        ];
        attribute(number, &values.concat())
    });
    let app = [
        long(2, s.capacity_estimate),
        word(3, s.memory_limit_bytes),
        word(4, s.memory_used_bytes),
        word(5, s.network_offset_mean),
        word(7, s.network_max),
        word(9, s.adjusted_max),
        word(6, s.network_min),
        word(8, s.adjusted_min),
        attribute(10, &tins.collect::<Vec<u8>>()),
    ];
    let basic = [&c.sent_bytes.to_le_bytes()[..], &(c.sent_packets as u32).to_le_bytes(), &[0; 4]].concat();
    let generic: Vec<u8> =
        [c.qlen, c.backlog_bytes, c.drops, c.requeues, c.overlimits].iter().flat_map(|v| v.to_le_bytes()).collect();
    let stats = [attribute(1, &basic), attribute(3, &generic), attribute(4, &app.concat())].concat();
    let header: Vec<u8> = [0, 1, 0x1_0000, u32::MAX, 2].iter().flat_map(|v: &u32| v.to_le_bytes()).collect();
    let body = [header, attribute(1, b"cake\0"), attribute(2, &options), attribute(7, &stats)].concat();
    let start = [body.len() as u32 + 16, 36, 0, 0];
    [start.iter().flat_map(|v| v.to_le_bytes()).collect(), body].concat()
}

/// `tc -s -d` reads a report from a file. `None` if there is no tc.
fn real_tc(message: &[u8]) -> Option<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), message).unwrap();
    let output = Command::new("tc").args(["-s", "-d", "monitor", "file"]).arg(file.path()).output().ok()?;
    // The file says device 1.
    Some(String::from_utf8(output.stdout).unwrap().replacen(" dev lo", "", 1))
}

/// Every option and mode, with traffic, as the real tc shows them.
#[test]
fn the_real_tc_prints_the_same() {
    if real_tc(&[]).is_none() {
        println!("SKIPPED the_real_tc_prints_the_same: needs iproute2's tc (apt-get install iproute2)");
        return;
    }
    let modes =
        [Diffserv::Diffserv3, Diffserv::Diffserv4, Diffserv::Diffserv8, Diffserv::Besteffort, Diffserv::Unknown(9)];
    let filters = [AckFilter::Off, AckFilter::Normal, AckFilter::Aggressive, AckFilter::Unknown(7)];
    let framings = [Framing::None, Framing::Atm, Framing::Ptm, Framing::Unknown(7)];
    for round in 0..40u32 {
        let pick = |shift: u32| round.wrapping_mul(0x9e37_79b9) >> shift & 1 == 1;
        let config = Config {
            bandwidth: Some([0, 1, 125, 1_234_567, 2_437_500, 125_125, 1_250_125_000, 1 << 40][round as usize % 8]),
            autorate_ingress: Some(pick(1)),
            rtt_us: Some([1, 999, 80_000, 1_000_000, 1_000_000_000][round as usize % 5]),
            diffserv: Some(modes[round as usize % 5]),
            flow_mode: Some(FlowMode::from_attribute(round % 10)),
            nat: Some(pick(2)),
            wash: Some(pick(3)),
            split_gso: Some(pick(4)),
            ack_filter: Some(filters[round as usize % 4]),
            memlimit_bytes: Some([0, 4 << 20, 1_000_000, 1536][round as usize / 4 % 4]),
            fwmark: Some(if pick(5) { 0xff00 } else { 0 }),
            ingress: Some(pick(6)),
            framing: Some(framings[round as usize / 2 % 4]),
            overhead_bytes: pick(7).then_some(round as i32 - 20),
            mpu_bytes: pick(8).then_some(round),
            raw: pick(9),
            ..Config::default()
        };
        let mut queue = Cake::new(config.behave_like(Linux::V7_2)).unwrap();
        let mut cx = Context::at(3_600_000_000_000);
        for id in 0..u64::from(round) * 10 {
            let packet = Descriptor::new(60 + (id as u32 * 37) % 1455)
                .with_flow_hash(id as u32 % 7)
                .with_ds_field([0, 46 << 2, 8 << 2, 34 << 2 | 2][id as usize % 4]);
            let _ = queue.enqueue(packet, &mut cx);
            cx.advance_ns(300_000);
            let _ = queue.dequeue(&mut cx);
        }
        let ours = queue.shown(0x1_0000, Attachment::Root { refcnt: 2 }, 0).text();
        assert_eq!(real_tc(&report(&queue)).unwrap(), ours, "{config:?}");
    }
}

#[test]
fn rates() {
    for (rate, text) in [
        (1, "8bit"),
        (126, "1008bit"),
        (1_250, "10Kbit"),
        (125_001, "1Mbit"),
        (1_249_999, "9999Kbit"),
        (125_000_125, "1Gbit"),
        (1_250_125_000, "10001Mbit"),
        (124_875_000_000, "999Gbit"),
        (1_000_000_000_000_000, "8000Tbit"),
        (1 << 63, "0bit"),
    ] {
        assert_eq!(super::rates::text(rate), text, "{rate}");
    }
}
