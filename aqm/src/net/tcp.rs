//! Views of TCP headers for CAKE's ACK filter (spec/cake.md §13.1). Only views: what they mean is the filter's.
//!
//! The filter's way to the TCP header is its own: one level of IPv6-in-IPv4, no extension headers, no look at
//! fragments. It differs from the flow dissector's on purpose.

use super::headers::{array_at, ip_protocol};

/// The IP header that the ACK filter compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpView<'a> {
    /// 20 bytes, or 40 of a header looked for as IPv6.
    header: &'a [u8],
}

impl<'a> IpView<'a> {
    /// The IP header in `network`, the packet's bytes from the network header on. If that is an IPv4 header which
    /// carries IPv6, the inner header.
    #[inline]
    #[must_use]
    pub fn find(network: &'a [u8]) -> Option<Self> {
        let outer: &[u8; 20] = array_at(network, 0)?;
        let header: &[u8] = match outer[0] >> 4 {
            4 if outer[9] == ip_protocol::IPV6 => array_at::<40>(network, ipv4_length(outer))?,
            4 => outer,
            6 => array_at::<40>(network, 0)?,
            _ => return None,
        };
        Some(Self { header })
    }

    /// The version nibble as it stands in the header: of an inner header, whatever is there.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.header[0] >> 4
    }

    /// Source and destination address, one after the other: 8 bytes of version 4, 32 of version 6, none of others.
    #[inline]
    #[must_use]
    pub fn addresses(&self) -> Option<&'a [u8]> {
        match self.version() {
            4 => self.header.get(12..20),
            6 => self.header.get(8..40),
            _ => None,
        }
    }

    /// The length field as it stands: total length of version 4, payload length of version 6.
    #[must_use]
    pub const fn length_field(&self) -> Option<u16> {
        match self.version() {
            4 => Some(u16::from_be_bytes([self.header[2], self.header[3]])),
            6 => Some(u16::from_be_bytes([self.header[4], self.header[5]])),
            _ => None,
        }
    }

    /// The bytes behind the header by its length field (spec/cake.md §13.3 step 2, `L`). May be negative in a
    /// malformed packet.
    #[must_use]
    pub const fn payload_length(&self) -> Option<i32> {
        match (self.version(), self.length_field()) {
            (4, Some(total)) => Some(total as i32 - 4 * (self.header[0] & 0x0f) as i32),
            (6, Some(payload)) => Some(payload as i32),
            _ => None,
        }
    }
}

/// The TCP flag bits, in the 16-bit word that also holds the data offset (bits 12 to 15).
pub mod flags {
    /// No more data.
    pub const FIN: u16 = 0x001;
    /// Synchronise sequence numbers.
    pub const SYN: u16 = 0x002;
    /// Reset.
    pub const RST: u16 = 0x004;
    /// Push.
    pub const PSH: u16 = 0x008;
    /// The acknowledgement number counts.
    pub const ACK: u16 = 0x010;
    /// The urgent pointer counts.
    pub const URG: u16 = 0x020;
    /// ECN echo.
    pub const ECE: u16 = 0x040;
    /// Congestion window reduced.
    pub const CWR: u16 = 0x080;
    /// Accurate ECN, formerly the nonce sum: the lowest of the four reserved bits.
    pub const AE: u16 = 0x100;
    /// The four reserved bits.
    pub const RESERVED: u16 = 0xf00;
}

/// Option kinds.
pub mod option_kind {
    /// End of the options.
    pub const END: u8 = 0;
    /// One byte of nothing.
    pub const NOP: u8 = 1;
    /// Selective acknowledgement.
    pub const SACK: u8 = 5;
    /// Timestamps.
    pub const TIMESTAMP: u8 = 8;
    /// MD5 signature.
    pub const MD5: u8 = 19;
}

/// A complete TCP header: 20 bytes and its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpView<'a> {
    /// 20 to 60 bytes: as many as the data offset says.
    header: &'a [u8],
    fixed: &'a [u8; 20],
}

impl<'a> TcpView<'a> {
    /// The TCP header in `network`, the packet's bytes from the network header on: of which there must be 40, also
    /// for IPv4.
    #[inline]
    #[must_use]
    pub fn find(network: &'a [u8]) -> Option<Self> {
        let header: &[u8; 40] = array_at(network, 0)?;
        let offset = match (header[0] >> 4, header[9], header[6]) {
            (4, ip_protocol::TCP, _) => ipv4_length(header),
            (4, ip_protocol::IPV6, _) => {
                let outer = ipv4_length(header);
                let inner: &[u8; 40] = array_at(network, outer)?;
                if inner[6] != ip_protocol::TCP {
                    return None;
                }
                outer + 40
            }
            (6, _, ip_protocol::TCP) => 40,
            _ => return None,
        };
        Self::parse(network.get(offset..)?)
    }

    /// The TCP header at the start of `bytes`, if all of it is there and its data offset is at least 5.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let fixed: &[u8; 20] = array_at(bytes, 0)?;
        let length = 4 * usize::from(fixed[12] >> 4);
        let header = bytes.get(..length)?;
        (length >= 20).then_some(Self { header, fixed })
    }

    /// Source port.
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// Destination port.
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Sequence number.
    #[must_use]
    pub const fn sequence(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// Acknowledgement number.
    #[must_use]
    pub const fn acknowledgement(&self) -> u32 {
        u32::from_be_bytes([self.fixed[8], self.fixed[9], self.fixed[10], self.fixed[11]])
    }

    /// The header's length in bytes, 20 to 60.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.header.len()
    }

    /// The eight flags and four reserved bits ([`flags`]), without the data offset.
    #[must_use]
    pub const fn flags(&self) -> u16 {
        u16::from_be_bytes([self.fixed[12], self.fixed[13]]) & 0x0fff
    }

    /// The window field, unscaled.
    #[must_use]
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.fixed[14], self.fixed[15]])
    }

    /// The urgent pointer.
    #[must_use]
    pub const fn urgent_pointer(&self) -> u16 {
        u16::from_be_bytes([self.fixed[18], self.fixed[19]])
    }

    /// The options in order, without padding. A malformed one ends the walk.
    #[inline]
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        Options { rest: &self.header[20..] }
    }

    /// The first option of this kind.
    #[must_use]
    pub fn option(&self, kind: u8) -> Option<TcpOption<'a>> {
        self.options().find(|option| option.kind == kind)
    }

    /// TSval and TSecr of the first timestamp option, if that is exactly 10 bytes long.
    #[must_use]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.option(option_kind::TIMESTAMP)?.timestamps()
    }

    /// The blocks of the first SACK option; none if there is no such option.
    #[must_use]
    pub fn sack_blocks(&self) -> SackBlocks<'a> {
        self.option(option_kind::SACK).map_or(SackBlocks { rest: &[] }, |option| option.sack_blocks())
    }
}

/// One TCP option other than padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpOption<'a> {
    /// Its kind.
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

impl<'a> TcpOption<'a> {
    /// The length byte: that of the data and 2.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.data.len() + 2
    }

    /// Read as timestamps: TSval and TSecr, if the length is 10.
    #[must_use]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        let data: &[u8; 8] = self.data.try_into().ok()?;
        Some(halves(*data))
    }

    /// Read as SACK blocks: as many whole ones as there are.
    #[must_use]
    pub fn sack_blocks(&self) -> SackBlocks<'a> {
        SackBlocks { rest: self.data.as_chunks().0 }
    }
}

/// Iterator over TCP options.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = TcpOption<'a>;

    #[inline]
    fn next(&mut self) -> Option<TcpOption<'a>> {
        while let [kind, rest @ ..] = self.rest {
            match *kind {
                option_kind::END => break,
                option_kind::NOP => self.rest = rest,
                kind => {
                    let length = usize::from(*rest.first()?);
                    let data = self.rest.get(2..length)?;
                    self.rest = &self.rest[length..];
                    return Some(TcpOption { kind, data });
                }
            }
        }
        None
    }
}

/// Iterator over SACK blocks: start (inclusive) and end (exclusive).
#[derive(Clone, Debug)]
pub struct SackBlocks<'a> {
    rest: &'a [[u8; 8]],
}

impl Iterator for SackBlocks<'_> {
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(halves(*first))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl ExactSizeIterator for SackBlocks<'_> {}

#[inline]
const fn halves([a, b, c, d, e, f, g, h]: [u8; 8]) -> (u32, u32) {
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

#[inline]
const fn ipv4_length<const N: usize>(header: &[u8; N]) -> usize {
    4 * (header[0] & 0x0f) as usize
}

#[cfg(test)]
mod tests;
