use debloat_aqm::fq_pie::{Config, FqPie};
use debloat_aqm::{Environment, Heap, Packet};

use super::codel::{PACKETS, unless_zero};
use super::pie::{gain, show_law, show_switches};
use super::units::{Bytes, Micros, SIZE, TIME, sizes};
use super::words::{ParseError, Word, Words};
use super::{BuildError, Options, Printer, Subject};

impl Options for Config {
    const KIND: &'static str = "fq_pie";
    const WORDS: &'static [&'static str] = &[
        "limit",
        "flows",
        "target",
        "tupdate",
        "alpha",
        "beta",
        "quantum",
        "memory_limit",
        "ecn_prob",
        "ecn",
        "noecn",
        "bytemode",
        "nobytemode",
        "dq_rate_estimator",
        "no_dq_rate_estimator",
    ];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = unless_zero(words.integer(option, PACKETS)?),
            "flows" => self.flows = unless_zero(words.integer(option, "a number of flows, 1 to 65536")?),
            "target" => self.target_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "tupdate" => self.tupdate_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "alpha" => self.alpha = gain(option, words)?,
            "beta" => self.beta = gain(option, words)?,
            "quantum" => self.quantum_bytes = unless_zero(words.parsed::<Bytes>(option, SIZE)?.0),
            "memory_limit" => self.memory_limit_bytes = unless_zero(words.parsed::<Bytes>(option, SIZE)?.0),
            "ecn_prob" => {
                self.ecn_prob_percent = unless_zero(words.integer_to(option, "whole percent, 0 to 99", 99)?);
            }
            "ecn" => self.ecn = Some(true),
            "noecn" => self.ecn = Some(false),
            "bytemode" => self.bytemode = Some(true),
            "nobytemode" => self.bytemode = Some(false),
            "dq_rate_estimator" => self.dq_rate_estimator = Some(true),
            "no_dq_rate_estimator" => self.dq_rate_estimator = Some(false),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl<P: Packet> Subject<P> for FqPie<P, Heap> {
    fn kind(&self) -> &'static str {
        Config::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), BuildError> {
        Ok(self.change(&super::parse_words(words)?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        let v = self.parameters();
        p.both("limit", v.pie.limit, format!("limit {}p ", v.pie.limit));
        p.both("flows", v.flows, format!("flows {} ", v.flows));
        show_law(&v.pie, p);
        p.both("quantum", v.quantum_bytes, format!("quantum {} ", sizes::text(v.quantum_bytes)));
        p.both("memory_limit", v.memory_limit_bytes, format!("memory_limit {} ", sizes::text(v.memory_limit_bytes)));
        p.both("ecn_prob", v.ecn_prob_percent, format!("ecn_prob {} ", v.ecn_prob_percent));
        show_switches(&v.pie, p);
    }

    fn statistics(&self, _: u64, p: &mut Printer) {
        let s = FqPie::stats(self);
        p.both("pkts_in", s.packets_in, format!("  pkts_in {}", s.packets_in));
        p.both("overlimit", s.overlimit, format!(" overlimit {}", s.overlimit));
        p.both("overmemory", s.overmemory, format!(" overmemory {}", s.overmemory));
        p.both("dropped", s.dropped, format!(" dropped {}", s.dropped));
        p.both("ecn_mark", s.ecn_mark, format!(" ecn_mark {}", s.ecn_mark));
        p.both("new_flow_count", s.new_flow_count, format!("\n  new_flow_count {}", s.new_flow_count));
        p.both("new_flows_len", s.new_flows_len, format!(" new_flows_len {}", s.new_flows_len));
        p.both("old_flows_len", s.old_flows_len, format!(" old_flows_len {}", s.old_flows_len));
        p.both("memory_used", s.memory_usage_bytes, format!(" memory_used {}", s.memory_usage_bytes));
    }
}
