//! Lengths on the link: overhead compensation (spec/cake.md §7).

use super::config::{Framing, Parameters};
use crate::arith::ewma;
use crate::{GsoDetails, Linux, Packet};

/// What packet lengths were seen, before and after overhead compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRecords {
    /// Mean offset of the network header, in 1/65536 bytes.
    pub network_offset_mean: u32,
    /// Shortest length counted from where the configuration says.
    pub network_min: u16,
    /// Longest.
    pub network_max: u16,
    /// Shortest length with overhead.
    pub adjusted_min: u16,
    /// Longest.
    pub adjusted_max: u16,
}

impl Default for LengthRecords {
    fn default() -> Self {
        Self { network_offset_mean: 0, network_min: u16::MAX, network_max: 0, adjusted_min: u16::MAX, adjusted_max: 0 }
    }
}

impl LengthRecords {
    /// Forgets the extremes, keeps the mean.
    pub(super) fn restart(&mut self) {
        *self = Self { network_offset_mean: self.network_offset_mean, ..Self::default() };
    }

    /// The adjusted length of a packet that is put in a queue, which is what the shaper and the deficits count.
    #[inline]
    pub(super) fn adjusted_len<P: Packet>(
        &mut self,
        packet: &P,
        wire_len: u32,
        parameters: &Parameters,
        linux: Linux,
    ) -> u32 {
        let offset = packet.network_offset();
        self.network_offset_mean = ewma(self.network_offset_mean.into(), (offset << 16).into(), 8) as u32;
        let gso = packet.gso();
        if if linux >= Linux::V7_2 { gso.segments <= 1 } else { gso.segment_bytes == 0 } {
            return self.adjust(wire_len, offset, parameters);
        }
        let (len, segment_bytes) = (packet.buffer_bytes(), u32::from(gso.segment_bytes));
        let GsoDetails { header_bytes, untrusted, .. } = packet.gso_details(linux);
        let segments = if untrusted && linux < Linux::V7_2 {
            len.wrapping_sub(header_bytes).div_ceil(segment_bytes) as u16
        } else {
            gso.segments
        };
        self.whole_gso(len, segment_bytes, segments, header_bytes, offset, parameters)
    }

    /// A GSO packet that is not split is charged segment by segment.
    fn whole_gso(
        &mut self,
        len: u32,
        segment_bytes: u32,
        segments: u16,
        header: u32,
        offset: u32,
        parameters: &Parameters,
    ) -> u32 {
        let others = u32::from(segments).wrapping_sub(1);
        let full = self.adjust(segment_bytes.wrapping_add(header), offset, parameters);
        let last = self.adjust(len.wrapping_sub(segment_bytes.wrapping_mul(others)), offset, parameters);
        full.wrapping_mul(others).wrapping_add(last)
    }

    /// §7.1. The records keep 16 bits, but compare whole lengths.
    #[inline]
    fn adjust(&mut self, len: u32, network_offset: u32, parameters: &Parameters) -> u32 {
        let len = if parameters.raw { len } else { len.wrapping_sub(network_offset) };
        if u32::from(self.network_max) < len {
            self.network_max = len as u16;
        }
        if u32::from(self.network_min) > len {
            self.network_min = len as u16;
        }
        let len = (len as i32).wrapping_add(parameters.overhead_bytes.into()).max(parameters.mpu_bytes.into()) as u32;
        let len = match parameters.framing {
            Framing::Atm => (len.wrapping_add(47) / 48).wrapping_mul(53),
            Framing::Ptm => len.wrapping_add(len.wrapping_add(63) / 64),
            Framing::None | Framing::Unknown(_) => len,
        };
        if u32::from(self.adjusted_max) < len {
            self.adjusted_max = len as u16;
        }
        if u32::from(self.adjusted_min) > len {
            self.adjusted_min = len as u16;
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cake::Config;
    use std::vec::Vec;

    fn parameters(raw: bool, overhead: i32, mpu: u32, framing: Framing) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.apply(&Config {
            overhead_bytes: Some(overhead),
            mpu_bytes: Some(mpu),
            framing: Some(framing),
            raw,
            ..Config::default()
        });
        parameters
    }

    /// spec/cake.md §23.6.
    #[test]
    fn adjusted_lengths() {
        use Framing::{Atm, None, Ptm};
        for (len, offset, raw, overhead, mpu, framing, adjusted) in [
            (1514, 14, true, 0, 0, None, 1514),
            (1514, 14, false, 38, 84, None, 1538),
            (60, 14, false, 38, 84, None, 84),
            (1518, 18, false, 38, 84, None, 1538),
            (1514, 14, false, 48, 0, Atm, 1749),
            (1506, 14, false, 40, 0, Atm, 1696),
            (54, 14, false, 40, 0, Atm, 106),
            (66, 14, false, 40, 0, Atm, 106),
            (48, 0, false, 0, 0, Atm, 53),
            (49, 0, false, 0, 0, Atm, 106),
            (1514, 14, false, 30, 0, Ptm, 1554),
            (54, 14, false, 30, 0, Ptm, 72),
            (64, 0, false, 0, 0, Ptm, 65),
            (65, 0, false, 0, 0, Ptm, 67),
            (1514, 14, false, 18, 64, None, 1518),
            (54, 14, false, -64, 0, None, 0),
            (54, 14, false, -64, 64, Atm, 106),
            (1514, 14, true, 18, 0, None, 1532),
        ] {
            let result = LengthRecords::default().adjust(len, offset, &parameters(raw, overhead, mpu, framing));
            assert_eq!(result, adjusted, "{len} {offset} {raw} {overhead} {mpu} {framing:?}");
        }
    }

    /// spec/cake.md §23.6, last paragraph but two, and CK-21.
    #[test]
    fn gso_kept_whole_is_charged_per_segment() {
        for (len, overhead, mpu, framing, adjusted) in [
            (3062, 38, 84, Framing::None, 3266),
            (3062, 40, 0, Framing::Atm, 3710),
            (3062, 40, 0, Framing::Ptm, 3325),
            (3066, 38, 84, Framing::None, 3270),
        ] {
            let mut records = LengthRecords::default();
            let parameters = parameters(false, overhead, mpu, framing);
            assert_eq!(records.whole_gso(len, 1448, 3, 66, 14, &parameters), adjusted, "{framing:?}");
            assert_eq!((records.network_min, records.network_max), ((len - 2896 - 14) as u16, 1500));
            let mut one_by_one = LengthRecords::default();
            let sum: u32 = [1514, 1514, len - 2896].map(|len| one_by_one.adjust(len, 14, &parameters)).iter().sum();
            assert_eq!((sum, one_by_one), (adjusted, records));
        }
    }

    #[test]
    fn records_compare_whole_and_keep_half() {
        let mut records = LengthRecords::default();
        records.adjust(0x1_0010, 0, &Parameters::default());
        assert_eq!((records.network_max, records.network_min, records.adjusted_max), (0x10, u16::MAX, 0x10));
    }

    /// spec/cake.md §23.6: the mean from 0 with a constant offset of 14.
    #[test]
    fn network_offset_mean() {
        let (mut mean, mut shown) = (0u64, Vec::new());
        for packet in 1..=900 {
            mean = ewma(mean, 14 << 16, 8);
            match packet {
                1 => assert_eq!(mean, 3584),
                2 => assert_eq!(mean, 7154),
                3 => assert_eq!(mean, 10711),
                _ => {}
            }
            let display = (mean + 32768) >> 16;
            if [1, 2, 7, 13, 14].contains(&display) && shown.last().is_none_or(|&(last, _)| last != display) {
                shown.push((display, packet));
            }
        }
        assert_eq!(shown, [(1, 10), (2, 29), (7, 160), (13, 571), (14, 851)]);
    }
}
