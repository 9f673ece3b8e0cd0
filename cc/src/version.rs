//! Which Linux a port behaves like.

/// The Linux version whose behaviour is reproduced.
///
/// The arithmetic of reno, cubic, dctcp and bbr is the same in all three (spec/cc-interface.md §19); the stack
/// around them is not: RFC 6675 loss marking, AccECN, the RTO cap and small details of transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Linux {
    /// Linux 6.1 (measured on 6.1.192).
    V6_1,
    /// Linux 6.12 (measured on 6.12.117).
    V6_12,
    /// Linux 7.2 (measured on 7.2.13); the default.
    #[default]
    V7_2,
}

impl core::fmt::Display for Linux {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7_2 => "7.2",
        })
    }
}
