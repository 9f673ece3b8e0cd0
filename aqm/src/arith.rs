//! Arithmetic that several qdiscs share (spec/common.md §1).

/// Serial comparison on a wrapping 32-bit clock: is `a` strictly later than `b`?
#[inline]
pub(crate) const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Serial comparison: is `a` later than `b`, or equal?
#[inline]
pub(crate) const fn after_eq(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) >= 0
}

/// Serial comparison: is `a` strictly earlier than `b`?
#[inline]
pub(crate) const fn before(a: u32, b: u32) -> bool {
    after(b, a)
}

/// Maps a 32-bit value onto `[0, n)` by multiplication: the *high* bits of `value` decide.
#[inline]
pub(crate) const fn scale(value: u32, n: u32) -> u32 {
    ((value as u64 * n as u64) >> 32) as u32
}

/// A moving average; both terms are shifted on their own, which loses their low bits (spec/cake.md §2).
#[inline]
pub(crate) const fn ewma(average: u64, sample: u64, shift: u32) -> u64 {
    (average - (average >> shift)).wrapping_add(sample >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_time_wraps() {
        assert!(after(0, u32::MAX) && before(u32::MAX, 0) && after_eq(7, 7) && !after(7, 7));
        assert!(!after(0x8000_0000, 0), "half the range away counts as before");
    }

    #[test]
    fn scale_uses_the_high_bits() {
        assert_eq!(scale(0xbaf8_7ff2, 1024), 747); // spec/common.md §8.4
        assert_eq!(scale(1000, 1024), 0);
    }
}
