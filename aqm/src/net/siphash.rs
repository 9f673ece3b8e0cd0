//! SipHash-2-4 with a 128-bit key and a 64-bit result (Aumasson and Bernstein, "SipHash: a fast short-input PRF").
//!
//! Linux hashes flow keys with it (spec/common.md §8.3, spec/cake.md A.2). The flow records have a handful of fixed
//! sizes, so the hash works on whole little-endian words: no loop over bytes, no buffer.

/// The 128-bit secret of SipHash, as two little-endian words (`k0`, `k1`).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SipKey(pub [u64; 2]);

impl SipKey {
    /// The key whose 16 bytes, in order, are `bytes`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let whole = u128::from_le_bytes(bytes);
        Self([whole as u64, (whole >> 64) as u64])
    }
}

/// The key is a secret: it is not printed.
impl core::fmt::Debug for SipKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SipKey(..)")
    }
}

/// The four words of state. Messages that begin alike can share it.
#[derive(Clone, Copy)]
pub(super) struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline(always)]
    pub(super) const fn new(key: &SipKey) -> Self {
        let [k0, k1] = key.0;
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline(always)]
    const fn round(mut self) -> Self {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
        self
    }

    #[inline(always)]
    pub(super) const fn absorb(mut self, word: u64) -> Self {
        self.v3 ^= word;
        self = self.round().round();
        self.v0 ^= word;
        self
    }

    #[inline(always)]
    pub(super) const fn finish(mut self) -> u64 {
        self.v2 ^= 0xff;
        self = self.round().round().round().round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

/// SipHash-2-4 of `8 · N` bytes, given as little-endian words.
#[inline]
#[must_use]
pub fn siphash_words<const N: usize>(key: &SipKey, words: &[u64; N]) -> u64 {
    siphash_words_and_half(key, words, None)
}

/// SipHash-2-4 of `8 · N` bytes given as little-endian words, then, if there is one, four more bytes.
#[inline(always)]
#[must_use]
pub fn siphash_words_and_half<const N: usize>(key: &SipKey, words: &[u64; N], half: Option<u32>) -> u64 {
    let mut state = State::new(key);
    for &word in words {
        state = state.absorb(word);
    }
    let length = 8 * N as u64 + if half.is_some() { 4 } else { 0 };
    let last = (length << 56) | half.unwrap_or(0) as u64;
    state.absorb(last).finish()
}

/// SipHash-2-4 of any bytes.
#[must_use]
pub fn siphash(key: &SipKey, bytes: &[u8]) -> u64 {
    let mut state = State::new(key);
    let (words, rest) = bytes.as_chunks::<8>();
    for &word in words {
        state = state.absorb(u64::from_le_bytes(word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    // Only the low eight bits of the length take part.
    last[7] = bytes.len() as u8;
    state.absorb(u64::from_le_bytes(last)).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key 00 01 … 0f, message 00 01 … of the stated length (the reference implementation's `vectors_sip64`).
    const PUBLISHED: [(usize, [u8; 8]); 17] = [
        (0, [0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72]),
        (1, [0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74]),
        (2, [0x5a, 0x4f, 0xa9, 0xd9, 0x09, 0x80, 0x6c, 0x0d]),
        (3, [0x2d, 0x7e, 0xfb, 0xd7, 0x96, 0x66, 0x67, 0x85]),
        (4, [0xb7, 0x87, 0x71, 0x27, 0xe0, 0x94, 0x27, 0xcf]),
        (5, [0x8d, 0xa6, 0x99, 0xcd, 0x64, 0x55, 0x76, 0x18]),
        (6, [0xce, 0xe3, 0xfe, 0x58, 0x6e, 0x46, 0xc9, 0xcb]),
        (7, [0x37, 0xd1, 0x01, 0x8b, 0xf5, 0x00, 0x02, 0xab]),
        (8, [0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]),
        (9, [0xb0, 0xe4, 0xa9, 0x0b, 0xdf, 0x82, 0x00, 0x9e]),
        (10, [0xf3, 0xb9, 0xdd, 0x94, 0xc5, 0xbb, 0x5d, 0x7a]),
        (11, [0xa7, 0xad, 0x6b, 0x22, 0x46, 0x2f, 0xb3, 0xf4]),
        (12, [0xfb, 0xe5, 0x0e, 0x86, 0xbc, 0x8f, 0x1e, 0x75]),
        (13, [0x90, 0x3d, 0x84, 0xc0, 0x27, 0x56, 0xea, 0x14]),
        (14, [0xee, 0xf2, 0x7a, 0x8e, 0x90, 0xca, 0x23, 0xf7]),
        // The example of the paper's appendix A: a129ca6149be45e5.
        (15, [0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1]),
        (16, [0xdb, 0x9b, 0xc2, 0x57, 0x7f, 0xcc, 0x2a, 0x3f]),
    ];

    fn counting<const N: usize>() -> [u8; N] {
        core::array::from_fn(|i| i as u8)
    }

    #[test]
    fn published_vectors() {
        let key = SipKey::from_bytes(counting());
        assert_eq!(key.0, [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let message = counting::<16>();
        for (length, expected) in PUBLISHED {
            let got = siphash(&key, &message[..length]);
            assert_eq!(got.to_le_bytes(), expected, "{length} bytes");
        }
        assert_eq!(siphash(&key, &message[..15]), 0xa129_ca61_49be_45e5);
    }

    /// The standard library keeps an (otherwise retired) SipHash-2-4.
    #[allow(deprecated)]
    fn reference(key: &SipKey, bytes: &[u8]) -> u64 {
        use core::hash::Hasher;
        let mut hasher = core::hash::SipHasher::new_with_keys(key.0[0], key.0[1]);
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn any_bytes_equal_the_standard_library() {
        bolero::check!().with_type::<(u64, u64, [u8; 72], u8)>().for_each(|(k0, k1, bytes, cut)| {
            let key = SipKey([*k0, *k1]);
            let bytes = &bytes[..*cut as usize % 73];
            assert_eq!(siphash(&key, bytes), reference(&key, bytes));
        });
    }

    #[test]
    fn whole_words_equal_bytes() {
        bolero::check!().with_type::<(u64, u64, [u64; 9], u32)>().for_each(|(k0, k1, words, half)| {
            let key = SipKey([*k0, *k1]);
            let mut bytes = [0; 76];
            for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *to = word.to_le_bytes();
            }
            assert_eq!(siphash_words(&key, words), reference(&key, &bytes[..72]));
            bytes[72..].copy_from_slice(&half.to_le_bytes());
            assert_eq!(siphash_words_and_half(&key, words, Some(*half)), reference(&key, &bytes));
        });
    }
}
