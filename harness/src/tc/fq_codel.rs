use debloat_aqm::fq_codel::{ClassStats, Config, FqCodel, Selector};
use debloat_aqm::{Context, Counters, Environment, Heap, Packet};

use super::codel::{PACKETS, unless_zero};
use super::units::{Bytes, Micros, SIZE, TIME, sizes, times};
use super::words::{ParseError, Word, Words};
use super::{Options, Printer, ShownClass, Subject};

const SELECTOR: &str = "VALUE/MASK, each 0 to 255, such as 0x01/0x03 for ECT(1)";

impl Options for Config {
    const KIND: &'static str = "fq_codel";
    const WORDS: &'static [&'static str] = &[
        "limit",
        "flows",
        "quantum",
        "target",
        "interval",
        "ce_threshold",
        "ce_threshold_selector",
        "memory_limit",
        "drop_batch",
        "ecn",
        "noecn",
    ];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = unless_zero(words.integer(option, PACKETS)?),
            "flows" => self.flows = unless_zero(words.integer(option, "a number of flows, 1 to 65536")?),
            "quantum" => self.quantum_bytes = unless_zero(words.integer(option, "bytes, at most 1048576")?),
            "target" => self.target_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "interval" => self.interval_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "ce_threshold" => self.ce_threshold_us = Some(words.parsed::<Micros>(option, TIME)?.0),
            "ce_threshold_selector" => {
                self.ce_threshold_selector = Some(words.value_by(option, SELECTOR, selector)?);
            }
            "memory_limit" => self.memory_limit_bytes = Some(words.parsed::<Bytes>(option, SIZE)?.0),
            "drop_batch" => self.drop_batch = unless_zero(words.integer(option, PACKETS)?),
            "ecn" => self.ecn = Some(true),
            "noecn" => self.ecn = Some(false),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn selector(text: &str) -> Option<Selector> {
    let (value, mask) = text.split_once('/')?;
    let byte = |text: &str| {
        let word = Word { text: "", at: 0 };
        Words::new("", text).integer::<u8>(word, "").ok()
    };
    Some(Selector { value: byte(value)?, mask: byte(mask)? })
}

impl<P: Packet> Subject<P> for FqCodel<P, Heap> {
    fn kind(&self) -> &'static str {
        Config::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), super::BuildError> {
        Ok(self.change(&super::parse_words(words)?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        let v = self.parameters();
        p.both("limit", v.limit, format!("limit {}p ", v.limit));
        p.both("flows", v.flows, format!("flows {} ", v.flows));
        p.both("quantum", v.quantum_bytes, format!("quantum {} ", v.quantum_bytes));
        p.both("target", v.target_us, format!("target {} ", times::text(v.target_us)));
        if let Some(us) = v.ce_threshold_us {
            p.both("ce_threshold", us, format!("ce_threshold {} ", times::text(us)));
        }
        let Selector { value, mask } = v.ce_threshold_selector;
        if mask != 0 {
            p.both("ce_threshold_selector", value, format!("ce_threshold_selector {value:#x}"));
            p.both("ce_threshold_mask", mask, format!("/{mask:#x} "));
        }
        p.both("interval", v.interval_us, format!("interval {} ", times::text(v.interval_us)));
        p.both("memory_limit", v.memory_limit_bytes, format!("memory_limit {} ", sizes::text(v.memory_limit_bytes)));
        if v.ecn {
            p.both("ecn", true, "ecn ");
        }
        p.both("drop_batch", v.drop_batch, format!("drop_batch {} ", v.drop_batch));
    }

    fn statistics(&self, _: u64, p: &mut Printer) {
        let s = FqCodel::stats(self);
        p.both("maxpacket", s.maxpacket_bytes, format!("  maxpacket {}", s.maxpacket_bytes));
        p.both("drop_overlimit", s.drop_overlimit, format!(" drop_overlimit {}", s.drop_overlimit));
        p.both("new_flow_count", s.new_flow_count, format!(" new_flow_count {}", s.new_flow_count));
        p.both("ecn_mark", s.ecn_mark, format!(" ecn_mark {}", s.ecn_mark));
        if s.ce_mark != 0 {
            p.both("ce_mark", s.ce_mark, format!(" ce_mark {}", s.ce_mark));
        }
        if s.memory_usage_bytes != 0 {
            p.both("memory_used", s.memory_usage_bytes, format!(" memory_used {}", s.memory_usage_bytes));
        }
        if s.drop_overmemory != 0 {
            p.both("drop_overmemory", s.drop_overmemory, format!(" drop_overmemory {}", s.drop_overmemory));
        }
        p.both("new_flows_len", s.new_flows_len, format!("\n  new_flows_len {}", s.new_flows_len));
        p.both("old_flows_len", s.old_flows_len, format!(" old_flows_len {}", s.old_flows_len));
    }

    fn classes(&self, now_ns: u64) -> Vec<ShownClass> {
        let show = |class: ClassStats| {
            let mut p = Printer::default();
            class_statistics(&class, &mut p);
            let counters = Counters { qlen: class.qlen, backlog_bytes: class.backlog_bytes, ..Counters::default() };
            ShownClass { kind: Config::KIND, minor: class.minor, counters, statistics: p }
        };
        FqCodel::classes(self, &mut Context::at(now_ns)).map(show).collect()
    }
}

/// One flow's own statistics as `tc -s class show` prints them.
fn class_statistics(class: &ClassStats, p: &mut Printer) {
    // Signed: a GSO packet drives the deficit far below 0.
    p.both("deficit", class.deficit_bytes, format!("  deficit {}", class.deficit_bytes));
    p.both("count", class.count, format!(" count {}", class.count));
    p.both("lastcount", class.lastcount, format!(" lastcount {}", class.lastcount));
    p.both("ldelay", class.ldelay_us, format!(" ldelay {}", times::text(class.ldelay_us)));
    if class.dropping {
        p.both("dropping", true, " dropping");
        let drop_next = times::text(class.drop_next_us.unsigned_abs());
        let sign = if class.drop_next_us < 0 { "-" } else { "" };
        p.both("drop_next", class.drop_next_us, format!(" drop_next {sign}{drop_next}"));
    }
}
