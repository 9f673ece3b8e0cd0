//! The Internet checksum (RFC 1071): sums over bytes, IPv4 headers, and TCP and UDP with their pseudo headers.

/// A running ones'-complement sum of 16-bit words.
///
/// The words are added as they lie in memory, which gives the same sum with its bytes swapped (RFC 1071 §2 B).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes. Only the last piece of a message may have an odd length.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (quads, rest) = bytes.as_chunks::<4>();
        let mut sum = self.0;
        for &quad in quads {
            // 2^32 additions of 32 bits fit: no message is that long.
            sum = sum.wrapping_add(u64::from(u32::from_le_bytes(quad)));
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Self(fold_to_32(sum.wrapping_add(u64::from(u32::from_le_bytes(last)))))
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0.wrapping_add(word.swap_bytes() as u64))
    }

    /// The sum as a 16-bit number.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u16 {
        let sum = fold_to_32(self.0);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum as u16).swap_bytes()
    }

    /// The checksum: the sum's complement.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

const fn fold_to_32(sum: u64) -> u64 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    (sum & 0xffff_ffff) + (sum >> 32)
}

/// The checksum of an IPv4 header, whatever its checksum field holds.
#[must_use]
pub fn ipv4_header(header: &[u8]) -> u16 {
    let (before, after) = header.split_at(header.len().min(10));
    Sum::new().bytes(before).bytes(after.get(2..).unwrap_or(&[])).checksum()
}

/// The sum of a pseudo header (RFC 9293 §3.1, RFC 8200 §8.1). `addresses` holds source and destination, 8 or 32
/// bytes; `length` is that of transport header and payload.
#[must_use]
pub fn pseudo_header(addresses: &[u8], protocol: u8, length: u32) -> Sum {
    let high = (length >> 16) as u16;
    Sum::new().bytes(addresses).word(protocol.into()).word(high).word(length as u16)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// RFC 1071 §3.
    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::new().bytes(&bytes).checksum(), 0x220d);
    }

    fn slowly(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn any_bytes() {
        bolero::check!().with_type::<(Vec<u8>, u8, u16)>().for_each(|(bytes, cut, word)| {
            let bytes: Vec<u8> = bytes.iter().copied().chain([0xff; 70]).collect();
            let (first, rest) = bytes.split_at(usize::from(cut & 0xfe).min(bytes.len() & !1));
            assert_eq!(Sum::new().bytes(&bytes).folded(), slowly(&bytes));
            assert_eq!(Sum::new().bytes(first).bytes(rest).folded(), slowly(&bytes));
            let with_word = [&word.to_be_bytes(), &bytes[..]].concat();
            assert_eq!(Sum::new().bytes(&bytes).word(*word).folded(), slowly(&with_word));
        });
    }

    #[test]
    fn a_header_verifies() {
        let mut header = *b"\x45\x00\x00\x73\x00\x00\x40\x00\x40\x11\xff\xff\xc0\xa8\x00\x01\xc0\xa8\x00\xc7";
        let checksum = ipv4_header(&header);
        assert_eq!(checksum, 0xb861);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(Sum::new().bytes(&header).checksum(), 0);
        assert_eq!(ipv4_header(&[]), 0xffff);
    }
}
