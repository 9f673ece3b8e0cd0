use debloat_aqm::dualpi2::{Config, DualPi2, StepThreshold};
use debloat_aqm::{Context, Environment, Heap, Packet};

use super::codel::{PACKETS, unless_zero};
use super::units::{Micros, TIME, general, times};
use super::words::{ParseError, Word, Words};
use super::{BuildError, Options, Printer, Subject};

const HERTZ: &str = "a gain in Hz, 0 or more, such as 0.16";
const STEP: &str = "a time such as 1ms or a number of packets such as 5p";
const PERCENT: &str = "0 to 100 percent";

/// Round-trip times, from which tc computes other options.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    max_us: Option<u32>,
    typical_us: Option<u32>,
}

impl Options for Config {
    const KIND: &'static str = "dualpi2";
    const WORDS: &'static [&'static str] = &[
        "limit",
        "memlimit",
        "coupling_factor",
        "step_thresh",
        "min_qlen_step",
        "drop_on_overload",
        "overflow",
        "drop_enqueue",
        "drop_dequeue",
        "l4s_ect",
        "any_ect",
        "classic_protection",
        "max_rtt",
        "typical_rtt",
        "target",
        "tupdate",
        "alpha",
        "beta",
        "split_gso",
        "no_split_gso",
    ];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = unless_zero(words.value_by(option, PACKETS, decimal)?),
            "memlimit" => {
                self.memlimit_bytes = unless_zero(words.value_by(option, "bytes, without a unit", decimal)?)
            }
            "coupling_factor" => self.coupling_factor = Some(words.integer(option, "a whole number, 1 to 255")?),
            "step_thresh" => self.step_thresh = words.value_by(option, STEP, step)?,
            "min_qlen_step" => self.min_qlen_step = Some(words.value_by(option, PACKETS, decimal)?),
            "drop_on_overload" => self.drop_on_overload = Some(true),
            "overflow" => self.drop_on_overload = Some(false),
            "drop_enqueue" => self.drop_early = Some(true),
            "drop_dequeue" => self.drop_early = Some(false),
            "l4s_ect" => self.ecn_mask = Some(1),
            "any_ect" => self.ecn_mask = Some(3),
            "classic_protection" => self.classic_protection_percent = Some(words.value_by(option, PERCENT, percent)?),
            "target" => self.target_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "tupdate" => self.tupdate_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "alpha" => self.alpha_hz_256 = Some(words.value_by(option, HERTZ, hertz)?),
            "beta" => self.beta_hz_256 = Some(words.value_by(option, HERTZ, hertz)?),
            "split_gso" => self.split_gso = Some(true),
            "no_split_gso" => self.split_gso = Some(false),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn read(words: &mut Words<'_>) -> Result<Self, ParseError> {
        let (mut config, mut round_trips) = (Self::default(), RoundTrips::default());
        while let Some(option) = words.next() {
            if !round_trips.option(option, words)? && !config.option(option, words)? {
                return Err(words.unknown(option, Self::WORDS));
            }
        }
        round_trips.set(&mut config, words)?;
        Ok(config)
    }
}

impl RoundTrips {
    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        let time = match option.text {
            "max_rtt" => &mut self.max_us,
            "typical_rtt" => &mut self.typical_us,
            _ => return Ok(false),
        };
        *time = unless_zero(words.parsed::<Micros>(option, TIME)?.0);
        Ok(true)
    }

    /// Sets target, period and gains, over what else was given (RFC 9332 Appendix A.1).
    fn set(self, config: &mut Config, words: &Words<'_>) -> Result<(), ParseError> {
        let (max, typical) = match (self.max_us, self.typical_us) {
            (None, None) => return Ok(()),
            (Some(max), None) => (max, (max / 6).max(1)),
            (None, Some(typical)) => {
                let max = typical.checked_mul(6);
                (max.ok_or_else(|| words.conflict("typical_rtt: at most 715827882 µs without max_rtt"))?, typical)
            }
            (Some(max), Some(typical)) => (max, typical),
        };
        if typical > max {
            return Err(words.conflict("typical_rtt must not exceed max_rtt"));
        }
        let tupdate = typical.min(max / 3).max(1);
        // tc's constants are of single precision, its arithmetic of double.
        let rtt = f64::from(max);
        let alpha = f64::from(0.1f32) * f64::from(tupdate) * 1e6 / (rtt * rtt) * 256.0;
        let beta = f64::from(0.3f32) * 1e6 / rtt * 256.0;
        if alpha < 1.0 || beta < 1.0 {
            return Err(words.conflict("max_rtt is so large that the gains round down to 0"));
        }
        config.target_us = Some(typical);
        config.tupdate_us = Some(tupdate);
        config.alpha_hz_256 = Some(alpha as u32);
        config.beta_hz_256 = Some(beta as u32);
        Ok(())
    }
}

/// A decimal number: no `0x`, and a leading 0 says nothing.
fn decimal(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// A step threshold, of which 0 is not transmitted.
fn step(text: &str) -> Option<Option<StepThreshold>> {
    if let Ok(Micros(us)) = text.parse() {
        return Some(unless_zero(us).map(StepThreshold::Time));
    }
    let digits = ["packets", "packet", "pkt", "p"].into_iter().find_map(|unit| text.strip_suffix(unit))?;
    Some(unless_zero(decimal(digits)?).map(StepThreshold::Packets))
}

/// A percentage with or without its sign, to whole percent, halves to the even neighbour.
fn percent(text: &str) -> Option<u8> {
    let number: f64 = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    (0.0..=100.0).contains(&number).then(|| number.round_ties_even() as u8)
}

/// A gain in Hz · 256, of single precision as tc reads it.
fn hertz(text: &str) -> Option<u32> {
    let number: f32 = text.parse().ok()?;
    let scaled = f64::from(number) * 256.0;
    (0.0..4_294_967_296.0).contains(&scaled).then_some(scaled as u32)
}

impl<P: Packet> Subject<P> for DualPi2<P, Heap> {
    fn kind(&self) -> &'static str {
        Config::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), BuildError> {
        Ok(self.change(&super::parse_words(words)?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        let v = self.parameters();
        p.both("limit", v.limit, format!("limit {}p ", v.limit));
        p.both("memory-limit", v.memlimit_bytes, format!("memlimit {}B ", v.memlimit_bytes));
        p.both("target", v.target_us, format!("target {} ", times::text(v.target_us)));
        p.both("tupdate", v.tupdate_us, format!("tupdate {} ", times::text(v.tupdate_us)));
        for (name, hz_256) in [("alpha", v.alpha_hz_256), ("beta", v.beta_hz_256)] {
            let hz = f64::from(hz_256) / 256.0;
            p.both(name, six_digits(hz), format!("{name} {hz:.6} "));
        }
        match v.step_thresh {
            StepThreshold::Time(us) => p.both("step-thresh-us", us, format!("step_thresh {} ", times::text(us))),
            StepThreshold::Packets(n) => p.both("step-thresh-pkts", n, format!("step_thresh {n}p ")),
        }
        p.both("min-qlen-step", v.min_qlen_step, format!("min_qlen_step {}p ", v.min_qlen_step));
        p.both("coupling", v.coupling_factor, format!("coupling_factor {} ", v.coupling_factor));
        match v.drop_on_overload {
            true => p.both("drop-overload", "drop", "drop_on_overload "),
            false => p.both("drop-overload", "overflow", "overflow "),
        }
        match v.drop_early {
            true => p.both("drop-early", "drop-enqueue", "drop_enqueue "),
            false => p.both("drop-early", "drop-dequeue", "drop_dequeue "),
        }
        let protection = v.classic_protection_percent;
        p.both("c-protection", protection, format!("classic_protection {protection}% "));
        match v.ecn_mask {
            1 => p.both("ecn-mask", "l4s-ect", "l4s_ect "),
            _ => p.both("ecn-mask", "any-ect", "any_ect "),
        }
        match v.split_gso {
            true => p.both("split-gso", serde_json::Value::Null, "split_gso "),
            false => p.text("no_split_gso "),
        }
    }

    fn statistics(&self, now_ns: u64, p: &mut Printer) {
        let s = DualPi2::stats(self, &mut Context::at(now_ns));
        let prob = f64::from(s.prob) / f64::from(u32::MAX);
        p.both("prob", six_digits(prob), format!("prob {prob:.6}"));
        p.both("delay-c", s.delay_c_us, format!(" delay_c {}", times::text(s.delay_c_us)));
        p.both("delay-l", s.delay_l_us, format!(" delay_l {}", times::text(s.delay_l_us)));
        p.both("pkts-in-c", s.packets_in_c, format!("\npkts_in_c {}", s.packets_in_c));
        p.both("pkts-in-l", s.packets_in_l, format!(" pkts_in_l {}", s.packets_in_l));
        p.both("maxq", s.maxq, format!(" maxq {}", s.maxq));
        p.both("ecn-mark", s.ecn_mark, format!("\necn_mark {}", s.ecn_mark));
        p.both("step-mark", s.step_marks, format!(" step_mark {}", s.step_marks));
        let turn = if s.credit > 0 { "C" } else { "L" };
        p.both("credit", s.credit, format!("\ncredit {} ({turn}-queue)", s.credit));
        p.both("memory-used", s.memory_used_bytes, format!("\nmemory_used {}", s.memory_used_bytes));
        p.both("max-memory-used", s.max_memory_used_bytes, format!(" (max {})", s.max_memory_used_bytes));
        p.both("memory-limit", s.memory_limit_bytes, format!(" of memory limit {}\n", s.memory_limit_bytes));
    }
}

/// A number as tc prints it in JSON.
fn six_digits(value: f64) -> f64 {
    general(value, 6).parse().unwrap_or(value)
}
