//! Clocks: ticks of HZ, microseconds, and serial-number order (spec/cc-interface.md §1).

use thiserror::Error;

/// `a` comes before `b` in serial-number order of 32 bits.
#[inline(always)]
#[must_use]
pub const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// `a` comes after `b` in serial-number order of 32 bits.
#[inline(always)]
#[must_use]
pub const fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// Microseconds from `t0` to `t1`, 0 if `t1` is earlier, truncated to 32 bits (spec/cc-interface.md §1.1).
#[inline(always)]
#[must_use]
pub const fn delta_us(t1: u64, t0: u64) -> u32 {
    let d = t1.wrapping_sub(t0) as i64;
    if d < 0 { 0 } else { d as u32 }
}

/// The tick rate is not one a kernel is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("HZ {0}: expected 24 to 10000")]
pub struct BadHz(
    /// The refused value.
    pub u32,
);

/// The kernel's tick rate. Jiffies are visible in CUBIC's and BBR's windows, so the rate is part of the behaviour.
///
/// Debian builds its amd64 kernels with 250; 100, 300 and 1000 are also common. Conversions are those of
/// spec/cc-interface.md §1.1; rates that do not divide 10^6 round in the same direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hz(u32);

impl Default for Hz {
    fn default() -> Self {
        Self::H250
    }
}

impl Hz {
    /// 100 ticks a second.
    pub const H100: Self = Self(100);
    /// 250 ticks a second: Debian's kernels.
    pub const H250: Self = Self(250);
    /// 300 ticks a second.
    pub const H300: Self = Self(300);
    /// 1000 ticks a second.
    pub const H1000: Self = Self(1000);

    /// A tick rate between 24 and 10000.
    ///
    /// # Errors
    /// [`BadHz`] outside that range.
    pub const fn new(hz: u32) -> Result<Self, BadHz> {
        if hz < 24 || hz > 10_000 { Err(BadHz(hz)) } else { Ok(Self(hz)) }
    }

    /// Ticks per second.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Microseconds to ticks, rounded up. The sum before the division wraps in 32 bits, as in Linux.
    #[inline]
    #[must_use]
    pub const fn ticks_from_us(self, us: u32) -> u32 {
        // The two common rates get constant divisors.
        match self.0 {
            250 => us.wrapping_add(3999) / 4000,
            1000 => us.wrapping_add(999) / 1000,
            hz if 1_000_000 % hz == 0 => us.wrapping_add(1_000_000 / hz - 1) / (1_000_000 / hz),
            hz => (us as u64 * hz as u64).div_ceil(1_000_000) as u32,
        }
    }

    /// Milliseconds to ticks, rounded up.
    #[inline]
    #[must_use]
    pub const fn ticks_from_ms(self, ms: u32) -> u32 {
        (ms as u64 * self.0 as u64).div_ceil(1000) as u32
    }

    /// Nanoseconds to ticks, rounded down.
    #[inline]
    #[must_use]
    pub const fn ticks_from_ns(self, ns: u64) -> u32 {
        let s = ns / 1_000_000_000;
        let rest = ns % 1_000_000_000;
        s.wrapping_mul(self.0 as u64).wrapping_add(rest * self.0 as u64 / 1_000_000_000) as u32
    }

    /// Ticks to microseconds (32 bits, wrapping).
    #[inline]
    #[must_use]
    pub const fn us_from_ticks(self, ticks: u32) -> u32 {
        if 1_000_000 % self.0 == 0 {
            ticks.wrapping_mul(1_000_000 / self.0)
        } else {
            (ticks as u64 * 1_000_000 / self.0 as u64) as u32
        }
    }

    /// The tick counter at `now_ns` of a machine that booted at 0: it starts at −300·HZ and so wraps five minutes
    /// after boot.
    #[inline]
    #[must_use]
    pub const fn jiffies_at(self, now_ns: u64) -> u32 {
        self.ticks_from_ns(now_ns).wrapping_sub(300 * self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_order_wraps() {
        assert!(before(0xffff_fff0, 5) && after(5, 0xffff_fff0) && !before(5, 5) && !after(5, 5));
    }

    #[test]
    fn microseconds_to_ticks_round_up() {
        // spec/cc-interface.md §1.1, the table.
        for (us, h100, h250, h1000) in [
            (0, 0, 0, 0),
            (1, 1, 1, 1),
            (1000, 1, 1, 1),
            (1001, 1, 1, 2),
            (4000, 1, 1, 4),
            (4001, 1, 2, 5),
            (10_000, 1, 3, 10),
            (40_000, 4, 10, 40),
            (200_000, 20, 50, 200),
        ] {
            assert_eq!(Hz::H100.ticks_from_us(us), h100, "{us}");
            assert_eq!(Hz::H250.ticks_from_us(us), h250, "{us}");
            assert_eq!(Hz::H1000.ticks_from_us(us), h1000, "{us}");
        }
        assert_eq!(Hz::H300.ticks_from_us(3333), 1);
        assert_eq!(Hz::H300.ticks_from_us(3334), 2);
    }

    #[test]
    fn other_conversions() {
        assert_eq!(Hz::H250.ticks_from_ms(200), 50);
        assert_eq!(Hz::H250.ticks_from_ms(1), 1);
        assert_eq!(Hz::H100.ticks_from_ms(11), 2);
        assert_eq!(Hz::H250.ticks_from_ns(3_999_999), 0);
        assert_eq!(Hz::H250.us_from_ticks(3), 12_000);
        assert_eq!(Hz::H250.jiffies_at(0), 0u32.wrapping_sub(75_000));
        assert_eq!(Hz::H250.jiffies_at(300_000_000_000), 0);
        assert_eq!(Hz::new(10), Err(BadHz(10)));
    }

    #[test]
    fn differences_clamp_at_zero() {
        assert_eq!(delta_us(5, 9), 0);
        assert_eq!(delta_us(9, 5), 4);
        assert_eq!(delta_us(1 << 33, 1), u32::MAX);
    }
}
