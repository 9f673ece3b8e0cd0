//! Lengths of GSO packets: what the core of Linux's traffic control charges for them, and what CAKE does
//! (spec/common.md §3, spec/cake.md §3.1 and §7.2).

use super::headers::array_at;
use crate::Linux;

/// The kind of segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP datagrams (`UDP_SEGMENT`).
    UdpL4,
    /// Any other.
    Other,
}

impl GsoKind {
    const fn is_tcp(self) -> bool {
        matches!(self, Self::TcpV4 | Self::TcpV6)
    }
}

/// What Linux knows of a GSO packet besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GsoPacket {
    /// The buffer's length with link-layer header, bytes.
    pub length: u32,
    /// Payload bytes per segment; 0 for a packet that is not GSO.
    pub segment_bytes: u16,
    /// Segments as the sender states them.
    pub segments: u16,
    /// The sender, say a guest, is not believed about `segments`.
    pub untrusted: bool,
    /// What is segmented.
    pub kind: GsoKind,
    /// Where the (outer) transport header starts, if that is known, from the start of the link-layer header.
    pub transport_offset: Option<usize>,
    /// The packet is a tunnel's.
    pub encapsulated: bool,
    /// Where the inner transport header starts, for a tunnel's packet.
    pub inner_transport_offset: Option<usize>,
}

/// A packet's length in the qdisc's accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireLength {
    /// Bytes of all segments together, each with its headers: qdisc length `L`.
    pub bytes: u32,
    /// Segments, `G`. Linux 7.2 keeps this with the packet.
    pub segments: u16,
}

/// Linux refuses such a packet before it reaches the qdisc.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("GSO packet with a truncated or absurd transport header")]
pub struct RefusedGso;

impl GsoPacket {
    /// The qdisc length. `frame` holds the packet's header bytes from the link-layer header on.
    ///
    /// # Errors
    ///
    /// For packets that 6.12 and 7.2 refuse: without a whole TCP or UDP header, with a TCP header length below 20,
    /// or untrusted and without payload. 6.1 accepts them all.
    pub fn wire_length(&self, linux: Linux, frame: &[u8]) -> Result<WireLength, RefusedGso> {
        let plain = WireLength { bytes: self.length, segments: 1 };
        if self.segment_bytes == 0 {
            return Ok(plain);
        }
        let lenient = linux == Linux::V6_1;
        let mut segments = self.segments;
        let Some(offset) = self.charged_offset(lenient) else {
            return Ok(WireLength { segments, ..plain });
        };
        let transport = match self.kind {
            kind if kind.is_tcp() => match tcp_length(frame, offset) {
                Some(length) if length >= 20 || lenient => length,
                None if lenient => 0,
                _ => return Err(RefusedGso),
            },
            GsoKind::UdpL4 => match array_at::<8>(frame, offset) {
                Some(_) => 8,
                None if lenient => 0,
                None => return Err(RefusedGso),
            },
            _ => 0,
        };
        let headers = (offset as u32).wrapping_add(transport);
        if self.untrusted {
            let payload = self.length.wrapping_sub(headers);
            if payload.cast_signed() <= 0 {
                return if lenient { Ok(WireLength { segments, ..plain }) } else { Err(RefusedGso) };
            }
            segments = payload.div_ceil(u32::from(self.segment_bytes)) as u16;
        }
        let repeated = u32::from(segments).wrapping_sub(1).wrapping_mul(headers);
        Ok(WireLength { bytes: self.length.wrapping_add(repeated), segments })
    }

    /// The header bytes that CAKE reckons with for a GSO packet it keeps whole (spec/cake.md §7.2 step 3, `h`).
    #[must_use]
    pub fn cake_header_length(&self, linux: Linux, frame: &[u8]) -> u32 {
        let Some(offset) = self.charged_offset(linux < Linux::V7_2) else { return 0 };
        let transport =
            if self.kind.is_tcp() { tcp_length(frame, offset) } else { array_at::<8>(frame, offset).map(|_| 8) };
        (offset as u32).wrapping_add(transport.unwrap_or(0))
    }

    const fn charged_offset(&self, outer_only: bool) -> Option<usize> {
        if self.encapsulated && !outer_only { self.inner_transport_offset } else { self.transport_offset }
    }
}

/// The TCP header length that the header at `offset` states, if 20 bytes of it are there.
fn tcp_length(frame: &[u8], offset: usize) -> Option<u32> {
    array_at::<20>(frame, offset).map(|header| 4 * u32::from(header[12] >> 4))
}

#[cfg(test)]
mod tests;
