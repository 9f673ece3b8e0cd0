use debloat_aqm::cake::{
    AckFilter, Cake, ClassStats, Config, Diffserv, FlowMode, Framing, Parameters, Stats, TinStats,
};
use debloat_aqm::{Context, Counters, Environment, Heap, Packet};
use serde_json::{Map, Value};

use super::codel::unless_zero;
use super::units::{Bytes, Micros, RATE, Rate, SIZE, TIME, rates, sizes, times};
use super::words::{ParseError, Word, Words};
use super::{Options, Printer, ShownClass, Subject};

const OVERHEAD: &str = "bytes, -64 to 256, in decimal digits";
const MPU: &str = "bytes, 0 to 256, in decimal digits";
const MASK: &str = "a mask of 32 bits, such as 0xff";

/// Keywords that say a round-trip time, µs.
const ROUND_TRIPS: [(&str, u32); 8] = [
    ("datacentre", 100),
    ("lan", 1_000),
    ("metro", 10_000),
    ("regional", 30_000),
    ("internet", 100_000),
    ("oceanic", 300_000),
    ("satellite", 1_000_000),
    ("interplanetary", 1_000_000_000),
];

/// Keywords of links: framing (if said), bytes added to the overhead, and mpu (if said).
const LINKS: [(&str, Option<Framing>, i32, Option<u32>); 13] = [
    ("ethernet", None, 38, Some(84)),
    ("ether-vlan", None, 4, None),
    ("docsis", Some(Framing::None), 18, Some(64)),
    ("ipoa-vcmux", Some(Framing::Atm), 8, None),
    ("ipoa-llcsnap", Some(Framing::Atm), 16, None),
    ("bridged-vcmux", Some(Framing::Atm), 24, None),
    ("bridged-llcsnap", Some(Framing::Atm), 32, None),
    ("pppoa-vcmux", Some(Framing::Atm), 10, None),
    ("pppoa-llc", Some(Framing::Atm), 14, None),
    ("pppoe-vcmux", Some(Framing::Atm), 32, None),
    ("pppoe-llcsnap", Some(Framing::Atm), 40, None),
    ("pppoe-ptm", Some(Framing::Ptm), 30, None),
    ("bridged-ptm", Some(Framing::Ptm), 22, None),
];

const DIFFSERVS: [(&str, Diffserv); 6] = [
    ("diffserv3", Diffserv::Diffserv3),
    ("diffserv4", Diffserv::Diffserv4),
    ("diffserv", Diffserv::Diffserv4),
    ("diffserv8", Diffserv::Diffserv8),
    ("besteffort", Diffserv::Besteffort),
    ("precedence", Diffserv::Precedence),
];

const FLOW_MODES: [(&str, FlowMode); 8] = [
    ("flowblind", FlowMode::FLOWBLIND),
    ("srchost", FlowMode::SRCHOST),
    ("dsthost", FlowMode::DSTHOST),
    ("hosts", FlowMode::HOSTS),
    ("flows", FlowMode::FLOWS),
    ("dual-srchost", FlowMode::DUAL_SRCHOST),
    ("dual-dsthost", FlowMode::DUAL_DSTHOST),
    ("triple-isolate", FlowMode::TRIPLE_ISOLATE),
];

impl Options for Config {
    const KIND: &'static str = "cake";
    const WORDS: &'static [&'static str] = &[
        "bandwidth",
        "unlimited",
        "autorate-ingress",
        "rtt",
        "datacentre",
        "lan",
        "metro",
        "regional",
        "internet",
        "oceanic",
        "satellite",
        "interplanetary",
        "diffserv3",
        "diffserv4",
        "diffserv",
        "diffserv8",
        "besteffort",
        "precedence",
        "flowblind",
        "srchost",
        "dsthost",
        "hosts",
        "flows",
        "dual-srchost",
        "dual-dsthost",
        "triple-isolate",
        "nat",
        "nonat",
        "wash",
        "nowash",
        "split-gso",
        "no-split-gso",
        "ack-filter",
        "ack-filter-aggressive",
        "no-ack-filter",
        "memlimit",
        "fwmark",
        "ingress",
        "egress",
        "atm",
        "noatm",
        "ptm",
        "overhead",
        "mpu",
        "raw",
        "conservative",
        "ethernet",
        "ether-vlan",
        "docsis",
        "ipoa-vcmux",
        "ipoa-llcsnap",
        "bridged-vcmux",
        "bridged-llcsnap",
        "pppoa-vcmux",
        "pppoa-llc",
        "pppoe-vcmux",
        "pppoe-llcsnap",
        "pppoe-ptm",
        "bridged-ptm",
        "via-ethernet",
    ];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "bandwidth" => {
                // tc does not send a rate of 0, so that the one in force stays.
                self.bandwidth = Some(words.parsed::<Rate>(option, RATE)?.0).filter(|&rate| rate != 0);
                self.autorate_ingress = Some(false);
            }
            "unlimited" => (self.bandwidth, self.autorate_ingress) = (Some(0), Some(false)),
            "autorate-ingress" => self.autorate_ingress = Some(true),
            "rtt" => {
                let us = words.parsed::<Micros>(option, TIME)?.0;
                *self = self.rtt(us);
                self.rtt_us = unless_zero(us);
            }
            "nat" => self.nat = Some(true),
            "nonat" => self.nat = Some(false),
            "wash" => self.wash = Some(true),
            "nowash" => self.wash = Some(false),
            "split-gso" => self.split_gso = Some(true),
            "no-split-gso" => self.split_gso = Some(false),
            "ack-filter" => self.ack_filter = Some(AckFilter::Normal),
            "ack-filter-aggressive" => self.ack_filter = Some(AckFilter::Aggressive),
            "no-ack-filter" => self.ack_filter = Some(AckFilter::Off),
            "memlimit" => self.memlimit_bytes = unless_zero(words.parsed::<Bytes>(option, SIZE)?.0),
            "fwmark" => self.fwmark = unless_zero(words.integer(option, MASK)?),
            "ingress" => self.ingress = Some(true),
            "egress" => self.ingress = Some(false),
            "noatm" => self.framing = Some(Framing::None),
            "atm" => self.framing = Some(Framing::Atm),
            "ptm" => self.framing = Some(Framing::Ptm),
            "overhead" => self.overhead_bytes = Some(words.value_by(option, OVERHEAD, |text| decimal(text, -64))?),
            "mpu" => self.mpu_bytes = unless_zero(words.value_by(option, MPU, |text| decimal(text, 0))? as u32),
            "raw" => {
                (self.framing, self.overhead_bytes, self.raw) = (Some(Framing::None), Some(0), true);
            }
            "conservative" => (self.framing, self.overhead_bytes) = (Some(Framing::Atm), Some(48)),
            "via-ethernet" => {}
            word => return Ok(self.keyword(word)),
        }
        Ok(true)
    }
}

/// tc reads these two in decimal only, and up to 256.
fn decimal(text: &str, least: i32) -> Option<i32> {
    text.parse().ok().filter(|value| (least..=256).contains(value))
}

trait Keyword {
    /// Applies a keyword of one of the tables; false if it is in none.
    fn keyword(&mut self, word: &str) -> bool;
}

impl Keyword for Config {
    fn keyword(&mut self, word: &str) -> bool {
        if let Some(&(_, us)) = ROUND_TRIPS.iter().find(|(name, _)| *name == word) {
            *self = self.rtt(us);
        } else if let Some(&(_, mode)) = DIFFSERVS.iter().find(|(name, _)| *name == word) {
            self.diffserv = Some(mode);
        } else if let Some(&(_, mode)) = FLOW_MODES.iter().find(|(name, _)| *name == word) {
            self.flow_mode = Some(mode);
        } else if let Some(&(_, framing, overhead, mpu)) = LINKS.iter().find(|(name, ..)| *name == word) {
            self.framing = framing.or(self.framing);
            self.overhead_bytes = Some(self.overhead_bytes.unwrap_or(0) + overhead);
            self.mpu_bytes = mpu.or(self.mpu_bytes);
        } else {
            return false;
        }
        true
    }
}

impl<P: Packet> Subject<P> for Cake<P, Heap> {
    fn kind(&self) -> &'static str {
        Config::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), super::BuildError> {
        Ok(self.change(&super::parse_words(words)?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        print_options(self.parameters(), p);
    }

    fn statistics(&self, _: u64, p: &mut Printer) {
        print_statistics(&Cake::stats(self), p);
    }

    fn classes(&self, now_ns: u64) -> Vec<ShownClass> {
        let show = |class: ClassStats| {
            let mut p = Printer::default();
            class_statistics(&class, &mut p);
            let counters = Counters {
                qlen: class.qlen,
                backlog_bytes: class.backlog_bytes,
                drops: class.drops,
                ..Counters::default()
            };
            ShownClass { kind: Config::KIND, minor: class.minor, counters, statistics: p }
        };
        Cake::classes(self, &mut Context::at(now_ns)).map(show).collect()
    }
}

/// The options in force as tc prints them.
fn print_options(v: &Parameters, p: &mut Printer) {
    match v.bandwidth {
        0 => p.both("bandwidth", "unlimited", "bandwidth unlimited "),
        rate => p.both("bandwidth", rate, format!("bandwidth {} ", rates::text(rate))),
    }
    if v.autorate_ingress {
        p.both("autorate", "autorate-ingress", "autorate-ingress ");
    }
    match DIFFSERVS.iter().find(|(_, mode)| *mode == v.diffserv) {
        Some((name, _)) => p.both("diffserv", *name, format!("{name} ")),
        None => p.both("diffserv", "unknown", "(?diffserv?)"),
    }
    match FLOW_MODES.iter().find(|(_, mode)| *mode == v.flow_mode) {
        Some((name, _)) => p.both("flowmode", *name, format!("{name} ")),
        None => p.both("flowmode", "unknown", "(?flowmode?)"),
    }
    p.both("nat", v.nat, if v.nat { "nat " } else { "nonat " });
    p.both("wash", v.wash, if v.wash { "wash " } else { "nowash " });
    p.both("ingress", v.ingress, if v.ingress { "ingress " } else { "" });
    match v.ack_filter {
        AckFilter::Normal => p.both("ack-filter", "enabled", "ack-filter "),
        AckFilter::Aggressive => p.both("ack-filter", "aggressive", "ack-filter-aggressive "),
        AckFilter::Off | AckFilter::Unknown(_) => p.both("ack-filter", "disabled", "no-ack-filter "),
    }
    p.both("split_gso", v.split_gso, if v.split_gso { "split-gso " } else { "no-split-gso " });
    p.both("rtt", v.rtt_us, format!("rtt {} ", times::text(v.rtt_us)));
    p.both("raw", v.raw, if v.raw { "raw " } else { "" });
    match v.framing {
        Framing::Atm => p.both("atm", "atm", "atm "),
        Framing::Ptm => p.both("atm", "ptm", "ptm "),
        Framing::None | Framing::Unknown(_) if v.raw => {}
        Framing::None | Framing::Unknown(_) => p.both("atm", "noatm", "noatm "),
    }
    p.both("overhead", v.overhead_bytes, format!("overhead {} ", v.overhead_bytes));
    if v.mpu_bytes != 0 {
        p.both("mpu", v.mpu_bytes, format!("mpu {} ", v.mpu_bytes));
    }
    if v.memlimit_bytes != 0 {
        p.both("memlimit", v.memlimit_bytes, format!("memlimit {} ", sizes::text(v.memlimit_bytes)));
    }
    match v.fwmark {
        0 => p.json("fwmark", "0"),
        mask => p.both("fwmark", format!("{mask:#x}"), format!("fwmark {mask:#x} ")),
    }
}

/// The statistics as tc prints them.
fn print_statistics(s: &Stats, p: &mut Printer) {
    p.json("memory_used", s.memory_used_bytes);
    p.json("memory_limit", s.memory_limit_bytes);
    let limit = sizes::text(s.memory_limit_bytes);
    p.text(format!(" memory used: {} of {limit}\n", sizes::text(s.memory_used_bytes)));
    let capacity = rates::text(s.capacity_estimate);
    p.both("capacity_estimate", s.capacity_estimate, format!(" capacity estimate: {capacity}\n"));
    p.json("min_network_size", s.network_min);
    p.json("max_network_size", s.network_max);
    p.text(format!(" min/max network layer size:     {:>8} /{:>8}\n", s.network_min, s.network_max));
    p.json("min_adj_size", s.adjusted_min);
    p.json("max_adj_size", s.adjusted_max);
    p.text(format!(" min/max overhead-adjusted size: {:>8} /{:>8}\n", s.adjusted_min, s.adjusted_max));
    let offset = s.network_offset_mean;
    p.both("avg_hdr_offset", offset, format!(" average network hdr offset: {offset:>12}\n\n"));
    p.json("tins", s.tins().iter().map(tin_json).collect::<Value>());
    p.text(table(s.tins()));
}

fn tin_json(tin: &TinStats) -> Value {
    let pairs: [(&str, u64); 20] = [
        ("threshold_rate", tin.threshold_rate),
        ("sent_bytes", tin.sent_bytes),
        ("backlog_bytes", tin.backlog_bytes.into()),
        ("target_us", tin.target_us.into()),
        ("interval_us", tin.interval_us.into()),
        ("peak_delay_us", tin.peak_delay_us.into()),
        ("avg_delay_us", tin.avg_delay_us.into()),
        ("base_delay_us", tin.base_delay_us.into()),
        ("sent_packets", tin.sent_packets.into()),
        ("way_indirect_hits", tin.way_indirect_hits.into()),
        ("way_misses", tin.way_misses.into()),
        ("way_collisions", tin.way_collisions.into()),
        ("drops", tin.drops.into()),
        ("ecn_mark", tin.ecn_marks.into()),
        ("ack_drops", tin.ack_drops.into()),
        ("sparse_flows", tin.sparse_flows.into()),
        ("bulk_flows", tin.bulk_flows.into()),
        ("unresponsive_flows", tin.unresponsive_flows.into()),
        ("max_pkt_len", tin.max_packet_bytes.into()),
        ("flow_quantum", tin.flow_quantum.into()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect::<Map<_, _>>().into()
}

/// The columns of the tins.
fn table(tins: &[TinStats]) -> String {
    let names: &[&str] = match tins.len() {
        3 => &["Bulk", "Best Effort", "Voice"],
        4 => &["Bulk", "Best Effort", "Video", "Voice"],
        _ => &["Tin 0", "Tin 1", "Tin 2", "Tin 3", "Tin 4", "Tin 5", "Tin 6", "Tin 7"],
    };
    type Column = fn(&TinStats) -> String;
    let rows: [(&str, Column); 20] = [
        ("thresh", |tin| rates::text(tin.threshold_rate)),
        ("target", |tin| times::text(tin.target_us)),
        ("interval", |tin| times::text(tin.interval_us)),
        ("pk_delay", |tin| times::text(tin.peak_delay_us)),
        ("av_delay", |tin| times::text(tin.avg_delay_us)),
        ("sp_delay", |tin| times::text(tin.base_delay_us)),
        ("backlog", |tin| sizes::text(tin.backlog_bytes)),
        ("pkts", |tin| tin.sent_packets.to_string()),
        ("bytes", |tin| tin.sent_bytes.to_string()),
        ("way_inds", |tin| tin.way_indirect_hits.to_string()),
        ("way_miss", |tin| tin.way_misses.to_string()),
        ("way_cols", |tin| tin.way_collisions.to_string()),
        ("drops", |tin| tin.drops.to_string()),
        ("marks", |tin| tin.ecn_marks.to_string()),
        ("ack_drop", |tin| tin.ack_drops.to_string()),
        ("sp_flows", |tin| tin.sparse_flows.to_string()),
        ("bk_flows", |tin| tin.bulk_flows.to_string()),
        ("un_flows", |tin| tin.unresponsive_flows.to_string()),
        ("max_len", |tin| tin.max_packet_bytes.to_string()),
        ("quantum", |tin| tin.flow_quantum.to_string()),
    ];
    let columns =
        |cells: &mut dyn Iterator<Item = String>| -> String { cells.map(|cell| format!(" {cell:>12}")).collect() };
    let mut text = format!("          {}\n", columns(&mut names[..tins.len()].iter().map(|name| (*name).to_owned())));
    for (label, cell) in rows {
        text.push_str(&format!("  {label:<8}{}\n", columns(&mut tins.iter().map(cell))));
    }
    text.push('\n');
    text
}

/// One queue's own statistics as `tc -s class show` prints them.
fn class_statistics(class: &ClassStats, p: &mut Printer) {
    p.both("deficit", class.deficit_bytes, format!("  deficit {}", class.deficit_bytes));
    p.both("count", class.count, format!(" count {}", class.count));
    if let Some(us) = class.drop_next_us {
        p.both("dropping", true, " dropping");
        p.both("drop_next", us, format!(" drop_next {}", signed(us)));
    }
    p.both("blue_prob", class.p_drop, format!(" blue_prob {}", class.p_drop));
    if let Some(us) = class.blue_timer_us {
        p.both("blue_timer", us, format!(" blue_timer {}", signed(us)));
    }
}

/// A time that may lie in the past.
fn signed(us: i32) -> String {
    format!("{}{}", if us < 0 { "-" } else { "" }, times::text(us.unsigned_abs()))
}

#[cfg(test)]
mod tests;
