/// The Linux version that a port behaves like.
///
/// Each names the Debian kernel against which the port was checked: 6.1.192, 6.12.117 and 7.2.13. Other point
/// releases of a series may lack fixes which these contain (spec/common.md, head).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Linux {
    /// Linux 6.1 (Debian 12).
    V6_1,
    /// Linux 6.12 (Debian 13).
    V6_12,
    /// Linux 7.2 (Debian unstable), the newest and the default.
    #[default]
    V7_2,
}

impl Linux {
    /// All versions, oldest first.
    pub const ALL: [Self; 3] = [Self::V6_1, Self::V6_12, Self::V7_2];

    /// The series as Linux writes it, such as `"6.12"`.
    pub const fn series(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7_2 => "7.2",
        }
    }
}

impl core::fmt::Display for Linux {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.series())
    }
}

/// A text that names no supported Linux version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a supported Linux version; known are 6.1, 6.12 and 7.2")]
pub struct UnknownLinux;

impl core::str::FromStr for Linux {
    type Err = UnknownLinux;

    fn from_str(text: &str) -> Result<Self, UnknownLinux> {
        Self::ALL.into_iter().find(|version| version.series() == text).ok_or(UnknownLinux)
    }
}
