//! Rates as times per byte (spec/cake.md §6.4).

/// How long a byte lasts: `mult / 2^shift` nanoseconds. Both 0 for an unlimited rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimePerByte {
    /// Numerator.
    pub mult: u64,
    /// Binary logarithm of the denominator.
    pub shift: u16,
}

impl TimePerByte {
    /// For a rate in bytes per second; 0 is unlimited. Rates below 64 bytes/s last as 64 bytes/s would.
    pub(super) const fn of(bytes_per_second: u64) -> Self {
        if bytes_per_second == 0 {
            return Self { mult: 0, shift: 0 };
        }
        let floored = if bytes_per_second < 64 { 64 } else { bytes_per_second };
        let (mut mult, mut shift) = ((1_000_000_000 << 34) / floored, 34);
        while mult >= 1 << 34 {
            mult >>= 1;
            shift -= 1;
        }
        Self { mult, shift }
    }

    /// How long `bytes` last, nanoseconds.
    #[inline]
    pub(super) const fn duration_ns(self, bytes: u32) -> u64 {
        (bytes as u64).wrapping_mul(self.mult) >> self.shift
    }

    /// Is there no limit?
    #[inline]
    pub(super) const fn is_unlimited(self) -> bool {
        self.mult == 0
    }
}

/// Bytes a queue may send in one round of the deficit round robin, before it is divided by the host's load.
pub(super) const fn flow_quantum(bytes_per_second: u64) -> u16 {
    match bytes_per_second {
        0 => 1514,
        rate => match rate >> 12 {
            0..300 => 300,
            quantum @ 300..1514 => quantum as u16,
            _ => 1514,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec/cake.md §23.1, all rows.
    #[test]
    fn worked_examples() {
        for (rate, mult, shift, quantum, frame_ns, small_ns) in [
            (0, 0, 0, 1514, 0, 0),
            (1, 16_000_000_000, 10, 300, 23_656_250_000, 1_000_000_000),
            (8_000, 16_384_000_000, 17, 300, 189_250_000, 8_000_000),
            (125_000, 16_777_216_000, 21, 300, 12_112_000, 512_000),
            (625_000, 13_421_772_800, 23, 300, 2_422_400, 102_400),
            (1_250_000, 13_421_772_800, 24, 305, 1_211_200, 51_200),
            (2_500_000, 13_421_772_800, 25, 610, 605_600, 25_600),
            (12_500_000, 10_737_418_240, 27, 1514, 121_120, 5_120),
            (125_000_000, 8_589_934_592, 30, 1514, 12_112, 512),
            (1_250_000_000, 13_743_895_347, 34, 1514, 1_211, 51),
            (12_500_000_000, 1_374_389_534, 34, 1514, 121, 5),
            // §23.17: one gigabit among two, three and four children.
            (62_500_000, 8_589_934_592, 29, 1514, 24_224, 1_024),
            (41_666_666, 12_884_902_094, 29, 1514, 36_336, 1_536),
            (31_250_000, 8_589_934_592, 28, 1514, 48_448, 2_048),
            (2_604_166, 12_884_905_186, 25, 635, 581_376, 24_576),
        ] {
            let time = TimePerByte::of(rate);
            assert_eq!(time, TimePerByte { mult, shift }, "{rate} B/s");
            assert_eq!((time.duration_ns(1514), time.duration_ns(64)), (frame_ns, small_ns), "{rate} B/s");
            assert_eq!(flow_quantum(rate), quantum, "{rate} B/s");
        }
    }
}
