use debloat_aqm::pie::{Config, Parameters, Pie};
use debloat_aqm::{Environment, Heap, Packet};

use super::codel::{PACKETS, unless_zero};
use super::units::{Micros, TIME, general, times};
use super::words::{ParseError, Word, Words};
use super::{BuildError, Options, Printer, Subject};

const GAIN: &str = "a whole number, 0 to 32";

/// alpha or beta.
pub(super) fn gain(option: Word<'_>, words: &mut Words<'_>) -> Result<Option<u32>, ParseError> {
    words.integer_to(option, GAIN, 32).map(unless_zero)
}

impl Options for Config {
    const KIND: &'static str = "pie";
    const WORDS: &'static [&'static str] = &[
        "limit",
        "target",
        "tupdate",
        "alpha",
        "beta",
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
            "target" => self.target_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "tupdate" => self.tupdate_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "alpha" => self.alpha = gain(option, words)?,
            "beta" => self.beta = gain(option, words)?,
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

/// `target` to `beta`, as pie and fq_pie print them.
pub(super) fn show_law(v: &Parameters, p: &mut Printer) {
    p.both("target", v.target_us, format!("target {} ", times::text(v.target_us)));
    p.both("tupdate", v.tupdate_us, format!("tupdate {} ", times::text(v.tupdate_us)));
    p.both("alpha", v.alpha, format!("alpha {} ", v.alpha));
    p.both("beta", v.beta, format!("beta {} ", v.beta));
}

/// The switches that are on.
pub(super) fn show_switches(v: &Parameters, p: &mut Printer) {
    for (name, on) in [("ecn", v.ecn), ("bytemode", v.bytemode), ("dq_rate_estimator", v.dq_rate_estimator)] {
        if on {
            p.both(name, true, format!("{name} "));
        }
    }
}

impl<P: Packet> Subject<P> for Pie<P, Heap> {
    fn kind(&self) -> &'static str {
        Config::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), BuildError> {
        Ok(self.change(&super::parse_words(words)?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        let v = self.parameters();
        p.both("limit", v.limit, format!("limit {}p ", v.limit));
        show_law(&v, p);
        show_switches(&v, p);
    }

    fn statistics(&self, _: u64, p: &mut Printer) {
        let s = Pie::stats(self);
        // Six digits are all that tc prints, in JSON too.
        let prob = general(s.prob as f64 / u64::MAX as f64, 6);
        p.both("prob", prob.parse().unwrap_or(0.0), format!("  prob {prob}"));
        p.both("delay", s.delay_us, format!(" delay {}", times::text(s.delay_us)));
        if let Some(rate) = s.avg_dq_rate_bytes {
            p.both("avg_dq_rate", rate, format!(" avg_dq_rate {rate}"));
        }
        p.both("pkts_in", s.packets_in, format!("\n  pkts_in {}", s.packets_in));
        p.both("overlimit", s.overlimit, format!(" overlimit {}", s.overlimit));
        p.both("dropped", s.dropped, format!(" dropped {}", s.dropped));
        p.both("maxq", s.maxq, format!(" maxq {}", s.maxq));
        p.both("ecn_mark", s.ecn_mark, format!(" ecn_mark {}", s.ecn_mark));
    }
}
