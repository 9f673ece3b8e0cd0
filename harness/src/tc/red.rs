//! red's text, and what tc derives from it with C's floating point (spec/red.md §1). sfq shares the derivation.

use debloat_aqm::red::{Config, Red};
use debloat_aqm::{ConfigError, Configure, Environment, Heap, Packet, Setup};

use super::units::{Bytes, RATE, Rate, SIZE, general, sizes};
use super::words::{ParseError, Word, Words};
use super::{BuildError, Options, Printer, Subject};

pub(super) const PROBABILITY: &str = "a probability such as 0.02";

/// What tc's text says of RED's curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) limit: u32,
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) avpkt: u32,
    pub(super) burst: u32,
    pub(super) probability: f64,
}

impl Default for Curve {
    fn default() -> Self {
        Self { limit: 0, min: 0, max: 0, avpkt: 0, burst: 0, probability: 0.02 }
    }
}

/// The shape of the average and of the probability, as Linux takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) wlog: u8,
    pub(super) plog: u8,
    pub(super) max_p: u32,
}

impl Curve {
    /// Takes one of the options which red and sfq have in common.
    pub(super) fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "min" => self.min = words.parsed::<Bytes>(option, SIZE)?.0,
            "max" => self.max = words.parsed::<Bytes>(option, SIZE)?.0,
            "avpkt" => self.avpkt = words.parsed::<Bytes>(option, SIZE)?.0,
            "burst" => self.burst = words.integer(option, "a number of packets")?,
            "probability" => {
                self.probability = words.value_by(option, PROBABILITY, |text| {
                    text.parse().ok().filter(|probability: &f64| probability.is_finite())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Fills in what was left out. `max` is a quarter of the limit, or where `follows_min` is set three times `min`.
    pub(super) fn complete(&mut self, follows_min: bool) {
        if self.max == 0 {
            self.max = if follows_min && self.min != 0 { self.min.wrapping_mul(3) } else { self.limit / 4 };
        }
        if self.min == 0 {
            self.min = self.max / 3;
        }
        if self.burst == 0 {
            let both = self.min.wrapping_mul(2).wrapping_add(self.max);
            self.burst = both.checked_div(self.avpkt.wrapping_mul(3)).unwrap_or(0);
        }
    }

    /// Derives the shape.
    pub(super) fn shape(&self, words: &Words<'_>) -> Result<Shape, ParseError> {
        Ok(Shape {
            wlog: self.weight().ok_or_else(|| words.conflict("burst is too small for min and avpkt"))?,
            plog: self.scale().ok_or_else(|| words.conflict("the probability has no scale between min and max"))?,
            max_p: (self.probability * 4_294_967_296.0) as i64 as u32,
        })
    }

    /// The smallest weight that lets a burst pass below `min`.
    fn weight(&self) -> Option<u8> {
        let room = f64::from(self.burst) + 1.0 - f64::from(self.min) / f64::from(self.avpkt);
        if room < 1.0 {
            return None;
        }
        (1..=31u8).find(|&log| {
            let weight = (-f64::from(log)).exp2();
            room <= (1.0 - (1.0 - weight).powf(self.burst.into())) / weight
        })
    }

    /// How often the probability per byte must be doubled to exceed 1.
    fn scale(&self) -> Option<u8> {
        if self.max < self.min {
            return None;
        }
        if self.max == self.min {
            return Some(0);
        }
        let step = self.probability / f64::from(self.max - self.min);
        (0..32u8).find(|&log| step * f64::from(log).exp2() > 1.0)
    }
}

/// How tc turns a transmission time into psched ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticks {
    /// Upwards, as current versions do.
    Up,
    /// Whole microseconds first and then downwards, as version 6.1 does.
    #[cfg_attr(not(test), allow(dead_code))]
    Down,
}

impl Ticks {
    /// Time to send `bytes`, 64 ns ticks, cut to 32 bits.
    fn of(self, bytes: u32, bytes_per_second: u32) -> u32 {
        let us = 1_000_000.0 * (f64::from(bytes) / f64::from(bytes_per_second));
        match self {
            Self::Up => (us * 15.625).ceil() as i64 as u32,
            Self::Down => (f64::from(us as i64 as u32) * 15.625) as i64 as u32,
        }
    }
}

/// The idle table and the granularity of its index.
fn idle_table(wlog: u8, ticks: u32) -> Option<(u8, [u8; 256])> {
    // tc's shifts have 32 signed bits: the weight 2^-31 turns negative, and so does the last granularity.
    let decay = -(1.0 - 1.0 / f64::from(1i32 << wlog)).ln() / f64::from(ticks);
    let longest = 31.0 / decay;
    let cell_log = (0..32u8).find(|&log| longest / f64::from(1i32 << log) < 512.0)?;
    let mut table = [0u8; 256];
    for (cell, shift) in (0u32..).zip(&mut table).skip(1) {
        // Again 32 signed bits; of the product tc keeps eight, and those of what is not a 32-bit number are 0.
        let shifts = f64::from((cell << cell_log) as i32) * decay;
        let fits = shifts.abs() < 2_147_483_648.0;
        *shift = if fits { (shifts as i32 as u8).min(31) } else { 0 };
    }
    table[255] = 31;
    Some((cell_log, table))
}

/// Options of `red`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RedOptions {
    curve: Curve,
    bandwidth: u32,
    ecn: bool,
    harddrop: bool,
    adaptive: bool,
    nodrop: bool,
    legacy_flags: bool,
    derived: Option<Config>,
}

impl Configure for RedOptions {}

impl RedOptions {
    /// The parameters which tc sends to Linux.
    ///
    /// # Errors
    ///
    /// Options that no text gave: tc requires some.
    pub fn derived(&self) -> Result<Config, ConfigError> {
        let missing = ConfigError { qdisc: "red", option: "limit", value: 0, allowed: "required, like avpkt" };
        self.derived.ok_or(missing)
    }

    /// Makes the qdisc.
    pub(super) fn make<P: Packet>(setup: Setup<Self>) -> Result<Red<P>, ConfigError> {
        Red::new(Setup { config: setup.config.derived()?, linux: setup.linux, host: setup.host })
    }

    pub(super) fn derive(&self, words: &Words<'_>, ticks: Ticks) -> Result<Config, ParseError> {
        let curve = &self.curve;
        let shape = curve.shape(words)?;
        let bandwidth = if self.bandwidth == 0 { 1_250_000 } else { self.bandwidth };
        let (scell_log, idle_table) = idle_table(shape.wlog, ticks.of(curve.avpkt, bandwidth))
            .ok_or_else(|| words.conflict("there is no idle damping table for avpkt and bandwidth"))?;
        Ok(Config {
            limit_bytes: curve.limit,
            min_bytes: curve.min,
            max_bytes: curve.max,
            wlog: shape.wlog,
            plog: shape.plog,
            scell_log,
            idle_table,
            max_p: shape.max_p,
            ecn: self.ecn,
            harddrop: self.harddrop,
            adaptive: self.adaptive,
            nodrop: self.nodrop,
            legacy_flags: self.legacy_flags,
        })
    }
}

impl Options for RedOptions {
    const KIND: &'static str = "red";
    const WORDS: &'static [&'static str] =
        &["limit", "min", "max", "avpkt", "burst", "probability", "bandwidth", "ecn", "harddrop", "adaptive", "nodrop"];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.curve.limit = words.parsed::<Bytes>(option, SIZE)?.0,
            "bandwidth" => {
                self.bandwidth =
                    words.value_by(option, RATE, |text| u32::try_from(text.parse::<Rate>().ok()?.0).ok())?;
            }
            "ecn" => self.ecn = true,
            "harddrop" => self.harddrop = true,
            "adaptive" | "adaptative" => self.adaptive = true,
            "nodrop" => self.nodrop = true,
            // Not tc's: send the flags as tc did before they had an attribute. Only then does `adaptive` adapt.
            "legacy_flags" => self.legacy_flags = true,
            _ => return self.curve.option(option, words),
        }
        Ok(true)
    }

    fn finish(&mut self, words: &Words<'_>) -> Result<(), ParseError> {
        if self.curve.limit == 0 || self.curve.avpkt == 0 {
            return Err(words.conflict("limit and avpkt are required"));
        }
        self.curve.complete(true);
        self.derived = Some(self.derive(words, Ticks::Up)?);
        Ok(())
    }
}

/// A `max_p` as tc shows it.
pub(super) fn show_probability(max_p: u32, p: &mut Printer) {
    let probability = f64::from(max_p) / 4_294_967_296.0;
    let text = general(probability, 6);
    let json: f64 = text.parse().unwrap_or(probability);
    p.both("probability", json, format!("probability {text} "));
}

impl<P: Packet> Subject<P> for Red<P, Heap> {
    fn kind(&self) -> &'static str {
        RedOptions::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), BuildError> {
        let options: RedOptions = super::parse_words(words)?;
        Ok(self.change(&options.derived()?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        let v = self.parameters();
        p.both("limit", v.limit_bytes, format!("limit {} ", sizes::text(v.limit_bytes)));
        p.both("min", v.min_bytes, format!("min {} ", sizes::text(v.min_bytes)));
        p.both("max", v.max_bytes, format!("max {} ", sizes::text(v.max_bytes)));
        let flags = [("ecn", v.ecn), ("harddrop", v.harddrop), ("adaptive", v.adaptive), ("nodrop", v.nodrop)];
        show_flags(&flags, p);
        p.both("ewma", v.wlog, format!("ewma {} ", v.wlog));
        show_probability(v.max_p, p);
        p.both("Scell_log", v.scell_log, format!("Scell_log {}", v.scell_log));
    }

    fn statistics(&self, _: u64, p: &mut Printer) {
        let s = Red::stats(self);
        p.both("marked", s.marked(), format!("  marked {} ", s.marked()));
        p.both("early", s.early(), format!("early {} ", s.early()));
        p.both("pdrop", s.pdrop, format!("pdrop {} ", s.pdrop));
        p.both("other", 0, "other 0 ");
    }
}

/// Flags: in JSON all of them, in text those that are set.
pub(super) fn show_flags(flags: &[(&str, bool)], p: &mut Printer) {
    for &(name, on) in flags {
        p.json(name, on);
        if on {
            p.text(format!("{name} "));
        }
    }
}
