//! What `tc red` derives from its options before Linux sees them (spec/red.md §1), in integers.

use super::Config;
use super::config::refuse;
use crate::ConfigError;

/// A probability: a fraction of 1 in units of 2^−64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(pub u64);

impl Fraction {
    /// So many millionths; a million and more are the largest fraction below 1.
    pub const fn from_ppm(ppm: u32) -> Self {
        if ppm >= 1_000_000 { Self(u64::MAX) } else { Self((((ppm as u128) << 64) / 1_000_000) as u64) }
    }
}

/// The options of `tc … red`, from which [`config`](Self::config) derives Linux's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `limit`: bytes that may be queued.
    pub limit_bytes: u32,
    /// `avpkt`: average packet size, bytes.
    pub avpkt_bytes: u32,
    /// `min`: default a third of `max`.
    pub min_bytes: Option<u32>,
    /// `max`: default three times `min`, without `min` a quarter of `limit`.
    pub max_bytes: Option<u32>,
    /// `burst`: packets that may arrive at once; default (2·`min` + `max`)/(3·`avpkt`).
    pub burst: Option<u32>,
    /// `probability`: of a mark or drop at `max`; tc's default is 0.02.
    pub probability: Fraction,
    /// `bandwidth`: bytes per second, for the idle table; tc's default is 10 Mbit/s.
    pub bandwidth: u64,
    /// `ecn`.
    pub ecn: bool,
    /// `harddrop`.
    pub harddrop: bool,
    /// `adaptive`: see [`Config::legacy_flags`].
    pub adaptive: bool,
    /// `nodrop`.
    pub nodrop: bool,
}

impl Options {
    /// The two options that tc requires, and tc's defaults for the others.
    pub const fn new(limit_bytes: u32, avpkt_bytes: u32) -> Self {
        Self {
            limit_bytes,
            avpkt_bytes,
            min_bytes: None,
            max_bytes: None,
            burst: None,
            probability: Fraction::from_ppm(20_000),
            bandwidth: 1_250_000,
            ecn: false,
            harddrop: false,
            adaptive: false,
            nodrop: false,
        }
    }

    /// Derives the parameters, like a current tc (which rounds the transmission time up and sends the flags in an
    /// attribute of their own). Where tc's floating point is at the end of its digits (a burst of a few packets with
    /// `min` equal to `avpkt`) its weight can differ from this exact one.
    ///
    /// # Errors
    ///
    /// A missing or inconsistent size; a burst or a probability for which tc finds no weight or scale.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let Self { limit_bytes, avpkt_bytes, probability, .. } = *self;
        if limit_bytes == 0 {
            return Err(refuse("limit", 0, "at least 1 byte"));
        }
        if avpkt_bytes == 0 {
            return Err(refuse("avpkt", 0, "at least 1 byte"));
        }
        let max_bytes =
            self.max_bytes.unwrap_or_else(|| self.min_bytes.map_or(limit_bytes / 4, |min| min.wrapping_mul(3)));
        let min_bytes = self.min_bytes.unwrap_or(max_bytes / 3);
        if self.bandwidth == 0 {
            return Err(refuse("bandwidth", 0, "at least 1 byte/s"));
        }
        let thrice = u64::from(avpkt_bytes) * 3;
        let burst = self.burst.unwrap_or(((2 * u64::from(min_bytes) + u64::from(max_bytes)) / thrice) as u32);
        let wlog = weight(min_bytes, burst, avpkt_bytes).ok_or(refuse(
            "burst",
            burst.into(),
            "large enough for min and avpkt",
        ))?;
        let plog = scale(probability, max_bytes.saturating_sub(min_bytes)).ok_or(refuse(
            "max",
            max_bytes.into(),
            "so far above min that the probability has a scale",
        ))?;
        // 64 ns ticks, cut to 32 bits.
        let ticks = (15_625_000 * u128::from(avpkt_bytes)).div_ceil(u128::from(self.bandwidth).max(1)) as u32;
        let (scell_log, idle_table) =
            idle_table(wlog, ticks.into()).ok_or(refuse("bandwidth", self.bandwidth, "large enough for avpkt"))?;
        Ok(Config {
            limit_bytes,
            min_bytes,
            max_bytes,
            wlog,
            plog,
            scell_log,
            idle_table,
            max_p: (probability.0 >> 32) as u32,
            ecn: self.ecn,
            harddrop: self.harddrop,
            adaptive: self.adaptive,
            nodrop: self.nodrop,
            legacy_flags: false,
        })
    }
}

/// The smallest weight under which a burst does not lift the average above `min`:
/// burst + 1 − min/avpkt ≤ (1 − (1−W)^burst)/W with W = 2^−w.
fn weight(min: u32, burst: u32, avpkt: u32) -> Option<u8> {
    // Both sides times avpkt, the right one in units of 2^-64.
    let left = (u128::from(burst) + 1) * u128::from(avpkt);
    let left = left.checked_sub(min.into()).filter(|&left| left >= avpkt.into())?;
    let fits = |w: &u8| {
        let kept = power((1u128 << 64) - (1u128 << (64 - w)), burst);
        let right = ((1u128 << 64) - kept) << w;
        left <= (right * u128::from(avpkt)) >> 64
    };
    (1..=31u8).find(fits)
}

/// `base` to the power of `exponent`, 64 fraction bits.
fn power(base: u128, exponent: u32) -> u128 {
    let times = |a: u128, b: u128| -> u128 {
        // At most 2^64 each: exact but for the truncated fraction.
        if a == 1 << 64 {
            b
        } else if b == 1 << 64 {
            a
        } else {
            (a * b) >> 64
        }
    };
    let (mut square, mut exponent, mut product) = (base, exponent, 1u128 << 64);
    while exponent != 0 {
        if exponent & 1 != 0 {
            product = times(product, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    product
}

/// The smallest power of two that lifts the probability per byte of `span` above 1.
fn scale(probability: Fraction, span: u32) -> Option<u8> {
    if span == 0 {
        return None;
    }
    (0..32u8).find(|&log| u128::from(probability.0) << log > u128::from(span) << 64)
}

/// How far the average shrinks while the queue is idle: (1−W) per `ticks`, in steps of 2^c. tc computes the steps with
/// 32 signed bits, and of each entry it keeps eight; both show in the tables for very slow links.
fn idle_table(wlog: u8, ticks: u128) -> Option<(u8, [u8; 256])> {
    let ticks = Some(ticks).filter(|&ticks| ticks != 0)?;
    let mut table = [0u8; 256];
    table[255] = 31;
    if wlog == 31 {
        // The weight itself does not fit.
        return Some((0, table));
    }
    let loss = minus_ln_kept(wlog);
    let scell_log = (0..31u8).find(|&c| 31 * (ticks << LOG_BITS) < 512 * (loss << c)).unwrap_or(31);
    for (cell, shift) in (0u32..).zip(&mut table).take(255) {
        let step = (cell << scell_log) as i32;
        let size = (u128::from(step.unsigned_abs()) * loss / (ticks << LOG_BITS)) as u8;
        *shift = if step < 0 { size.wrapping_neg() } else { size }.min(31);
    }
    Some((scell_log, table))
}

const LOG_BITS: u32 = 80;

/// −ln(1 − 2^−wlog) with [`LOG_BITS`] fraction bits, by its series Σ W^k/k.
fn minus_ln_kept(wlog: u8) -> u128 {
    let (mut sum, mut k) = (0u128, 1u32);
    while k * u32::from(wlog) < LOG_BITS {
        sum += ((1u128 << LOG_BITS) >> (k * u32::from(wlog))) / u128::from(k);
        k += 1;
    }
    sum
}
