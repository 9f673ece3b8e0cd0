//! Clock units (spec/common.md §2).
//!
//! The base clock everywhere is nanoseconds since some fixed moment, `u64`, monotonic. Linux derives coarser ones;
//! each conversion truncates where Linux truncates.

/// Nanoseconds to CoDel time: units of 1024 ns, `u32`, wrapping after about 4398 s.
#[inline]
pub const fn codel_time(now_ns: u64) -> u32 {
    (now_ns >> 10) as u32
}

/// Microseconds (as tc gives them) to CoDel time: 5000 µs are 4882 units.
#[inline]
pub const fn codel_from_us(us: u32) -> u32 {
    ((us as u64 * 1000) >> 10) as u32
}

/// CoDel time to the microseconds that Linux reports: 4882 units read back as 4999 µs.
#[inline]
pub const fn codel_to_us(time: u32) -> u32 {
    (((time as u64) << 10) / 1000) as u32
}

/// Nanoseconds to psched ticks: units of 64 ns.
#[inline]
pub const fn psched_ticks(now_ns: u64) -> u64 {
    now_ns >> 6
}

/// Psched ticks to nanoseconds.
#[inline]
pub const fn psched_to_ns(ticks: u64) -> u64 {
    ticks << 6
}

/// Milliseconds in nanoseconds, for readable tests and examples.
pub const fn ms(milliseconds: u64) -> u64 {
    milliseconds * 1_000_000
}

/// Microseconds in nanoseconds.
pub const fn us(microseconds: u64) -> u64 {
    microseconds * 1_000
}
