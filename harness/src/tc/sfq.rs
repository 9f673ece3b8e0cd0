use debloat_aqm::sfq::{ClassStats, Config, Red, Sfq};
use debloat_aqm::{ConfigError, Configure, Counters, Environment, Heap, Packet, Setup};

use super::codel::unless_zero;
use super::red::{Curve, show_flags, show_probability};
use super::units::{Bytes, SIZE, sizes};
use super::words::{ParseError, Word, Words};
use super::{BuildError, Options, Printer, ShownClass, Subject};

/// Options of `sfq`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SfqOptions {
    config: Config,
    curve: Curve,
    ecn: bool,
    harddrop: bool,
    /// Was one of RED's options given?
    red: bool,
}

impl Default for SfqOptions {
    fn default() -> Self {
        let curve = Curve { avpkt: 1000, ..Curve::default() };
        Self { config: Config::default(), curve, ecn: false, harddrop: false, red: false }
    }
}

impl Configure for SfqOptions {}

impl SfqOptions {
    /// The parameters which tc sends to Linux.
    pub const fn config(&self) -> Config {
        self.config
    }

    /// Makes the qdisc.
    pub(super) fn make<P: Packet>(setup: Setup<Self>) -> Result<Sfq<P>, ConfigError> {
        Sfq::new(Setup { config: setup.config.config, linux: setup.linux, host: setup.host })
    }
}

/// A whole number that may be negative: tc passes it on, and Linux refuses it.
fn seconds(text: &str) -> Option<u32> {
    match text.strip_prefix('-') {
        Some(digits) => digits.parse::<u32>().ok().filter(|&n| n <= 1 << 31).map(u32::wrapping_neg),
        None => text.parse().ok().filter(|&n| n <= i32::MAX as u32),
    }
}

impl Options for SfqOptions {
    const KIND: &'static str = "sfq";
    const WORDS: &'static [&'static str] = &[
        "limit",
        "perturb",
        "quantum",
        "divisor",
        "flows",
        "depth",
        "headdrop",
        "redflowlimit",
        "min",
        "max",
        "avpkt",
        "burst",
        "probability",
        "ecn",
        "harddrop",
    ];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        const LIMIT: &str = "a number of packets, 2 or more";
        const NUMBER: &str = "a whole number, at most 4294967295";
        let config = &mut self.config;
        match option.text {
            "limit" => {
                let least_two = |text: &str| text.parse().ok().filter(|&limit: &u32| limit >= 2);
                config.limit = Some(words.value_by(option, LIMIT, least_two)?);
            }
            "perturb" => config.perturb_s = Some(words.value_by(option, "a number of seconds", seconds)?),
            "quantum" => config.quantum_bytes = unless_zero(words.parsed::<Bytes>(option, SIZE)?.0),
            "divisor" => config.divisor = unless_zero(words.integer(option, NUMBER)?),
            "flows" => config.flows = unless_zero(words.integer(option, NUMBER)?),
            "depth" => config.depth = unless_zero(words.integer(option, NUMBER)?),
            "headdrop" => config.headdrop = true,
            _ => {
                match option.text {
                    "redflowlimit" => self.curve.limit = words.parsed::<Bytes>(option, SIZE)?.0,
                    "ecn" => self.ecn = true,
                    "harddrop" => self.harddrop = true,
                    _ if !self.curve.option(option, words)? => return Ok(false),
                    _ => {}
                }
                self.red = true;
            }
        }
        Ok(true)
    }

    fn finish(&mut self, words: &Words<'_>) -> Result<(), ParseError> {
        if !self.red {
            return Ok(());
        }
        if self.curve.limit == 0 {
            return Err(words.conflict("redflowlimit is required with RED's options"));
        }
        if self.curve.avpkt == 0 {
            return Err(words.conflict("avpkt must not be 0"));
        }
        self.curve.complete(false);
        if self.curve.max > self.curve.limit {
            return Err(words.conflict("max is larger than redflowlimit"));
        }
        if self.curve.min >= self.curve.max {
            return Err(words.conflict("min is not smaller than max"));
        }
        let shape = self.curve.shape(words)?;
        self.config.red = Some(Red {
            min_bytes: self.curve.min,
            max_bytes: self.curve.max,
            wlog: shape.wlog,
            plog: shape.plog,
            scell_log: 0,
            max_p: shape.max_p,
            ecn: self.ecn,
            harddrop: self.harddrop,
        });
        Ok(())
    }
}

impl<P: Packet> Subject<P> for Sfq<P, Heap> {
    fn kind(&self) -> &'static str {
        SfqOptions::KIND
    }

    /// Linux changes nothing of an sfq.
    fn change_text(&mut self, words: &mut Words<'_>, _: &mut dyn Environment<P>) -> Result<(), BuildError> {
        let SfqOptions { .. } = super::parse_words(words)?;
        let refusal = ConfigError { qdisc: "sfq", option: "change", value: 0, allowed: "only at creation" };
        Err(refusal.into())
    }

    fn options(&self, p: &mut Printer) {
        let v = self.parameters();
        p.both("limit", v.limit, format!("limit {}p ", v.limit));
        p.both("quantum", v.quantum_bytes, format!("quantum {} ", sizes::text(v.quantum_bytes)));
        p.both("depth", v.depth, format!("depth {} ", v.depth));
        if v.headdrop {
            p.both("headdrop", true, "headdrop ");
        }
        p.both("flows", v.flows, format!("flows {} ", v.flows));
        p.both("divisor", v.divisor, format!("divisor {} ", v.divisor));
        if v.perturb_s != 0 {
            p.both("perturb", v.perturb_s, format!("perturb {}sec ", v.perturb_s));
        }
        let Some(red) = v.red else { return };
        p.both("ewma", red.wlog, format!("ewma {} ", red.wlog));
        p.both("min", red.min_bytes, format!("min {} ", sizes::text(red.min_bytes)));
        p.both("max", red.max_bytes, format!("max {} ", sizes::text(red.max_bytes)));
        show_probability(red.max_p, p);
        show_flags(&[("ecn", red.ecn), ("harddrop", red.harddrop), ("adaptive", false), ("nodrop", false)], p);
        let s = Sfq::stats(self);
        p.both("prob_mark", s.prob_mark, format!("\n  prob_mark {}", s.prob_mark));
        p.both("prob_mark_head", s.prob_mark_head, format!(" prob_mark_head {}", s.prob_mark_head));
        p.both("prob_drop", s.prob_drop, format!(" prob_drop {}", s.prob_drop));
        p.both("forced_mark", s.forced_mark, format!("\n  forced_mark {}", s.forced_mark));
        p.both("forced_mark_head", s.forced_mark_head, format!(" forced_mark_head {}", s.forced_mark_head));
        p.both("forced_drop", s.forced_drop, format!(" forced_drop {}", s.forced_drop));
    }

    fn statistics(&self, _: u64, _: &mut Printer) {}

    fn classes(&self, _: u64) -> Vec<ShownClass> {
        let show = |class: ClassStats| {
            let mut p = Printer::default();
            p.both("allot", class.allot_bytes, format!("  allot {}", class.allot_bytes));
            let counters = Counters { qlen: class.qlen, backlog_bytes: class.backlog_bytes, ..Counters::default() };
            ShownClass { kind: SfqOptions::KIND, minor: class.minor, counters, statistics: p }
        };
        Sfq::classes(self).map(show).collect()
    }
}
