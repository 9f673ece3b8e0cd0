//! tc's units (spec/common.md §10): times in µs, sizes in 1024-based units, and how both are printed.

use std::str::FromStr;

/// What times accept, for error texts.
pub(super) const TIME: &str = "a time such as 5ms, 100us, 1.5s or a bare number of µs";
/// What sizes accept, for error texts.
pub(super) const SIZE: &str = "a size in bytes such as 1514, 64k, 32mb or 8mbit, at most 4294967295 bytes";

/// A time as tc reads it for most qdiscs: whole microseconds, truncated; a bare number is microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micros(pub u32);

/// A size as tc reads it: `k`, `m`, `g` are 1024-based, `kbit` and its like 1024-based and divided by 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u32);

/// What rates accept, for error texts.
pub(super) const RATE: &str = "a rate such as 20mbit, 1.5gbit, 100kbps or a bare number of bits per second";

/// A rate as tc reads it, in bytes per second: a bare number is bits per second, `bps` and its like are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

impl FromStr for Rate {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let bits = scaled(text, |unit| {
            let (unit, bits) = match unit {
                "" => return Some(1.0),
                unit => {
                    unit.strip_suffix("bit").map(|unit| (unit, 1.0)).or(unit.strip_suffix("bps").map(|u| (u, 8.0)))?
                }
            };
            Some(bits * PREFIXES.iter().find(|(prefix, _)| *prefix == unit)?.1)
        })?;
        Ok(Self(bits / 8))
    }
}

const PREFIXES: [(&str, f64); 9] = [
    ("", 1.0),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
    ("t", 1e12),
    ("ki", 1024.0),
    ("mi", 1_048_576.0),
    ("gi", 1_073_741_824.0),
    ("ti", 1_099_511_627_776.0),
];

/// How tc prints rates.
pub mod rates {
    /// Bytes per second, as bits per second in the largest unit that loses nothing (or that is far below the number).
    pub fn text(bytes_per_second: u64) -> String {
        let mut value = bytes_per_second.wrapping_mul(8);
        let mut units = ["", "K", "M", "G", "T"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        while value >= 1000 && (value % 1000 == 0 || value >= 1_000_000) {
            let Some(larger) = units.next() else { break };
            value /= 1000;
            unit = larger;
        }
        format!("{value}{unit}bit")
    }
}

/// Text that is no time or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither a number nor a number with a unit")]
pub struct BadUnit;

/// A time as tc reads it where it needs more than microseconds: whole nanoseconds, truncated; a bare number is
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanos(pub u64);

impl FromStr for Nanos {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let ns = scaled(text, |unit| {
            Some(match unit {
                "s" | "sec" | "secs" => 1e9,
                "ms" | "msec" | "msecs" => 1e6,
                "us" | "usec" | "usecs" => 1e3,
                "ns" | "nsec" | "nsecs" | "" => 1.0,
                _ => return None,
            })
        })?;
        Ok(Self(ns))
    }
}

impl FromStr for Micros {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let us = scaled(text, |unit| {
            Some(match unit {
                "s" | "sec" | "secs" => 1e6,
                "ms" | "msec" | "msecs" => 1e3,
                "us" | "usec" | "usecs" | "" => 1.0,
                _ => return None,
            })
        })?;
        Ok(Self(us.try_into().map_err(|_| BadUnit)?))
    }
}

impl FromStr for Bytes {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let bytes = scaled(text, |unit| {
            Some(match unit {
                "b" | "" => 1.0,
                "k" | "kb" => 1024.0,
                "m" | "mb" => 1024.0 * 1024.0,
                "g" | "gb" => 1024.0 * 1024.0 * 1024.0,
                "kbit" => 1024.0 / 8.0,
                "mbit" => 1024.0 * 1024.0 / 8.0,
                "gbit" => 1024.0 * 1024.0 * 1024.0 / 8.0,
                _ => return None,
            })
        })?;
        Ok(Self(bytes.try_into().map_err(|_| BadUnit)?))
    }
}

/// A decimal number with a unit, in any case, truncated to an integer.
pub(super) fn scaled(text: &str, unit: impl FnOnce(&str) -> Option<f64>) -> Result<u64, BadUnit> {
    let lower = text.to_ascii_lowercase();
    let split = number_len(&lower);
    let factor = unit(&lower[split..]).ok_or(BadUnit)?;
    let number: f64 = lower[..split].parse().map_err(|_| BadUnit)?;
    let value = number * factor;
    // The comparison also refuses NaN.
    if (0.0..18_446_744_073_709_551_616.0).contains(&value) { Ok(value as u64) } else { Err(BadUnit) }
}

/// Bytes of the number at the start: sign, digits, point, and an exponent only where digits follow it.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'+'));
    at += digits(at);
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        at += digits(at);
    }
    if bytes.get(at) == Some(&b'e') {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = if at + 1 + sign <= bytes.len() { digits(at + 1 + sign) } else { 0 };
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

/// How tc prints times.
pub mod times {
    use super::significant;

    /// Microseconds, with three significant digits: 4999 prints as `5ms`.
    pub fn text(us: u32) -> String {
        match us {
            1_000_000.. => format!("{}s", significant(f64::from(us) / 1e6)),
            1_000.. => format!("{}ms", significant(f64::from(us) / 1e3)),
            _ => format!("{us}us"),
        }
    }
}

/// How tc prints times of nanoseconds.
pub mod nanos {
    use super::significant;

    /// Nanoseconds, with three significant digits.
    pub fn text(ns: u64) -> String {
        match ns {
            1_000_000_000.. => format!("{}s", significant(ns as f64 / 1e9)),
            1_000_000.. => format!("{}ms", significant(ns as f64 / 1e6)),
            1_000.. => format!("{}us", significant(ns as f64 / 1e3)),
            _ => format!("{ns}ns"),
        }
    }
}

/// How tc prints sizes.
pub mod sizes {
    /// Bytes: in `Mb` or `Kb` where that is nearly exact, else in `b`.
    pub fn text(bytes: u32) -> String {
        const KIB: u64 = 1024;
        const MIB: u64 = KIB * KIB;
        let bytes = u64::from(bytes);
        let nearest = |unit: u64| (bytes + unit / 2) / unit;
        let off = |unit: u64| bytes.abs_diff(nearest(unit) * unit);
        if bytes >= MIB && off(MIB) < 1024 {
            format!("{}Mb", nearest(MIB))
        } else if bytes >= KIB && off(KIB) < 16 {
            format!("{}Kb", nearest(KIB))
        } else {
            format!("{bytes}b")
        }
    }
}

/// C's `%.3g`: three significant digits.
pub(super) fn significant(value: f64) -> String {
    general(value, 3)
}

/// C's `%g` with that many significant digits: no trailing zeros, an exponent where it would be shorter.
pub(super) fn general(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let places = i32::try_from(digits).unwrap_or(i32::MAX) - 1 - exponent;
    if exponent >= -4 && places >= 0 {
        trim(&format!("{value:.*}", usize::try_from(places).unwrap_or(0)))
    } else {
        format!("{}e{}{:02}", trim(mantissa), if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}
