//! Software segmentation: one large TCP or UDP packet over real bytes into the packets that go over the wire, as
//! Linux's GSO does it for cake, tbf, dualpi2 and netem.
//!
//! The packet is as Linux has it: headers once, then all the payload; the buffer's length counts, not the length
//! fields, which may be too small for it. Each segment gets its own IPv4 identification (counting up), lengths,
//! sequence number and complete checksums. FIN and PSH stay on the last segment only, CWR on the first only (unless
//! the connection uses AccECN), all other flags, options and ECN on each.

use super::checksum::{Sum, ipv4_header, pseudo_header};
use super::ecn::ethertype_after_vlans;
use super::headers::{Headers, array_at, be16_at, ethertype, ip_protocol};
use super::tcp::{TcpView, flags};

/// Why a packet cannot be segmented. Offsets are bytes from the start of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Not IPv4 or IPv6.
    #[error("EtherType {0:#06x} cannot be segmented: expected IPv4 or IPv6")]
    NotIp(u16),
    /// The frame ends within a header, or that header's length field is too small.
    #[error("no complete {header} header at byte {offset}")]
    Header {
        /// Which header was expected.
        header: &'static str,
        /// Where.
        offset: usize,
    },
    /// A fragment cannot be segmented.
    #[error("the IP packet at byte {0} is a fragment")]
    Fragment(usize),
    /// Neither TCP nor UDP.
    #[error("IP protocol {0} cannot be segmented: expected TCP (6) or UDP (17)")]
    Protocol(u8),
    /// The payload fits one segment, or the segment size is 0.
    #[error("{payload} bytes of payload do not make two segments of {segment_bytes}")]
    NothingToSplit {
        /// Bytes behind the headers.
        payload: usize,
        /// The segment size asked for.
        segment_bytes: u16,
    },
    /// There is no segment with this number.
    #[error("segment {index} of {segments}")]
    Index {
        /// The number asked for, from 0.
        index: usize,
        /// How many there are.
        segments: usize,
    },
    /// The buffer is too small for the segment.
    #[error("the segment needs {needed} bytes, the buffer has {given}")]
    Buffer {
        /// The segment's length.
        needed: usize,
        /// The buffer's.
        given: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Tcp,
    Udp,
}

/// The headers of a TCP or UDP packet: where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    ipv6: bool,
    transport: Transport,
    network: usize,
    transport_offset: usize,
    /// Where the payload starts, so how many header bytes each segment repeats.
    pub(super) headers: usize,
}

impl Layout {
    pub(super) fn is_tcp(&self) -> bool {
        self.transport == Transport::Tcp
    }

    pub(super) fn of(packet: &Headers<'_>) -> Result<Self, SegmentError> {
        let (bytes, network) = (packet.bytes, packet.network_offset);
        let ethertype =
            ethertype_after_vlans(bytes, packet.network_offset, packet.ethertype).unwrap_or(packet.ethertype);
        let (protocol, transport_offset) = match ethertype {
            ethertype::IPV4 => behind_ipv4(bytes, network)?,
            ethertype::IPV6 => behind_ipv6(bytes, network)?,
            other => return Err(SegmentError::NotIp(other)),
        };
        let rest = bytes.get(transport_offset..).unwrap_or(&[]);
        let (transport, length) = match protocol {
            ip_protocol::TCP => {
                let header = TcpView::parse(rest);
                let missing = SegmentError::Header { header: "TCP", offset: transport_offset };
                (Transport::Tcp, header.ok_or(missing)?.header_length())
            }
            ip_protocol::UDP if rest.len() >= 8 => (Transport::Udp, 8),
            ip_protocol::UDP => return Err(SegmentError::Header { header: "UDP", offset: transport_offset }),
            other => return Err(SegmentError::Protocol(other)),
        };
        let ipv6 = ethertype == ethertype::IPV6;
        Ok(Self { ipv6, transport, network, transport_offset, headers: transport_offset + length })
    }
}

/// The protocol behind an IPv4 header, and where it starts.
fn behind_ipv4(bytes: &[u8], offset: usize) -> Result<(u8, usize), SegmentError> {
    let missing = SegmentError::Header { header: "IPv4", offset };
    let header: &[u8; 20] = array_at(bytes, offset).ok_or(missing)?;
    let length = 4 * usize::from(header[0] & 0x0f);
    if length < 20 || bytes.len() < offset + length {
        return Err(missing);
    }
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(SegmentError::Fragment(offset));
    }
    Ok((header[9], offset + length))
}

/// The protocol behind an IPv6 header and its extension headers, and where it starts.
fn behind_ipv6(bytes: &[u8], network: usize) -> Result<(u8, usize), SegmentError> {
    let missing = |offset| SegmentError::Header { header: "IPv6", offset };
    let header: &[u8; 40] = array_at(bytes, network).ok_or(missing(network))?;
    let (mut protocol, mut offset) = (header[6], network + 40);
    loop {
        match protocol {
            ip_protocol::HOP_BY_HOP | ip_protocol::ROUTING | ip_protocol::DESTINATION_OPTIONS => {
                let [next, length] = *array_at(bytes, offset).ok_or(missing(offset))?;
                protocol = next;
                offset += 8 * (usize::from(length) + 1);
            }
            ip_protocol::FRAGMENT => return Err(SegmentError::Fragment(network)),
            _ => return Ok((protocol, offset)),
        }
    }
}

/// A packet being cut into segments.
#[derive(Clone, Copy, Debug)]
pub struct Segmenter<'a> {
    frame: &'a [u8],
    layout: Layout,
    segment_bytes: usize,
    segments: usize,
    fixed_id: bool,
    accurate_ecn: bool,
}

impl<'a> Segmenter<'a> {
    /// Prepares to cut an Ethernet frame, with or without VLAN tags, into segments of `segment_bytes` of payload.
    ///
    /// # Errors
    ///
    /// If it is not a whole TCP or UDP packet over IPv4 or IPv6, or its payload fits one segment: what Linux refuses
    /// to segment as well.
    pub fn new(frame: &'a [u8], segment_bytes: u16) -> Result<Self, SegmentError> {
        Self::of_headers(&Headers::ethernet(frame), segment_bytes)
    }

    /// The same for a packet whose network header is known. `packet.bytes` must be the whole packet.
    ///
    /// # Errors
    ///
    /// As [`Segmenter::new`].
    pub fn of_headers(packet: &Headers<'a>, segment_bytes: u16) -> Result<Self, SegmentError> {
        let layout = Layout::of(packet)?;
        let payload = packet.bytes.len() - layout.headers;
        let size = usize::from(segment_bytes);
        if size == 0 || payload <= size {
            return Err(SegmentError::NothingToSplit { payload, segment_bytes });
        }
        let segments = payload.div_ceil(size);
        let (fixed_id, accurate_ecn) = (false, false);
        Ok(Self { frame: packet.bytes, layout, segment_bytes: size, segments, fixed_id, accurate_ecn })
    }

    /// Keeps the IPv4 identification the same on all segments (Linux's `SKB_GSO_TCP_FIXEDID`).
    #[must_use]
    pub const fn with_fixed_id(mut self) -> Self {
        self.fixed_id = true;
        self
    }

    /// Keeps CWR on all segments: with AccECN it is part of a counter (Linux's `SKB_GSO_TCP_ACCECN`).
    #[must_use]
    pub const fn with_accurate_ecn(mut self) -> Self {
        self.accurate_ecn = true;
        self
    }

    /// How many segments there are: at least 2.
    #[must_use]
    pub const fn segments(&self) -> usize {
        self.segments
    }

    /// The bytes of header that each segment repeats.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.layout.headers
    }

    /// Where the TCP or UDP header starts.
    #[must_use]
    pub const fn transport_offset(&self) -> usize {
        self.layout.transport_offset
    }

    /// The payload of segment `index`, counted from 0.
    #[must_use]
    pub fn payload(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.segments {
            return None;
        }
        let payload = self.frame.get(self.layout.headers..)?;
        let start = index * self.segment_bytes;
        payload.get(start..payload.len().min(start + self.segment_bytes))
    }

    /// The length of segment `index` with its headers.
    #[must_use]
    pub fn segment_length(&self, index: usize) -> Option<usize> {
        self.payload(index).map(|payload| self.layout.headers + payload.len())
    }

    /// Writes segment `index` to the start of `out` and returns its length.
    ///
    /// # Errors
    ///
    /// If there is no such segment, or `out` is too short; then `out` is unchanged.
    pub fn write_segment(&self, index: usize, out: &mut [u8]) -> Result<usize, SegmentError> {
        let payload = self.payload_or_error(index)?;
        let needed = self.layout.headers + payload.len();
        if out.len() < needed {
            return Err(SegmentError::Buffer { needed, given: out.len() });
        }
        let headers = self.write_headers(index, out)?;
        out[headers..needed].copy_from_slice(payload);
        Ok(needed)
    }

    /// Writes only the headers of segment `index` to the start of `out`, for callers that gather: the payload,
    /// [`Segmenter::payload`], follows. The checksums cover it.
    ///
    /// # Errors
    ///
    /// As [`Segmenter::write_segment`].
    pub fn write_headers(&self, index: usize, out: &mut [u8]) -> Result<usize, SegmentError> {
        let payload = self.payload_or_error(index)?;
        let (needed, given) = (self.layout.headers, out.len());
        let headers = out.get_mut(..needed).ok_or(SegmentError::Buffer { needed, given })?;
        headers.copy_from_slice(&self.frame[..needed]);
        let (before, transport) = headers.split_at_mut(self.layout.transport_offset);
        let network = &mut before[self.layout.network..];
        let length = transport.len() + payload.len();
        let addresses = if self.layout.ipv6 {
            // Extension headers count as payload.
            put16(network, 4, (network.len() - 40 + length) as u16);
            &network[8..40]
        } else {
            put16(network, 2, (network.len() + length) as u16);
            if !self.fixed_id {
                let id = be16_at(network, 4).unwrap_or(0);
                put16(network, 4, id.wrapping_add(index as u16));
            }
            put16(network, 10, ipv4_header(network));
            &network[12..20]
        };
        match self.layout.transport {
            Transport::Tcp => self.finish_tcp(index, transport, |segment| {
                pseudo_header(addresses, ip_protocol::TCP, length as u32).bytes(segment).bytes(payload)
            }),
            Transport::Udp => finish_udp(transport, length as u16, |segment| {
                pseudo_header(addresses, ip_protocol::UDP, length as u32).bytes(segment).bytes(payload)
            }),
        }
        Ok(needed)
    }

    fn payload_or_error(&self, index: usize) -> Result<&'a [u8], SegmentError> {
        self.payload(index).ok_or(SegmentError::Index { index, segments: self.segments })
    }

    fn finish_tcp(&self, index: usize, header: &mut [u8], sum: impl Fn(&[u8]) -> Sum) {
        let [_, _, _, _, sequence @ ..] = header.first_chunk().copied().unwrap_or([0; 8]);
        let skipped = (index * self.segment_bytes) as u32;
        header[4..8].copy_from_slice(&u32::from_be_bytes(sequence).wrapping_add(skipped).to_be_bytes());
        if index + 1 < self.segments {
            header[13] &= !(flags::FIN | flags::PSH) as u8;
        }
        if index > 0 && !self.accurate_ecn {
            header[13] &= !flags::CWR as u8;
        }
        put16(header, 16, 0);
        put16(header, 16, sum(header).checksum());
    }

    /// All segments as buffers of their own.
    #[cfg(feature = "bytes")]
    pub fn frames(self) -> impl ExactSizeIterator<Item = bytes::BytesMut> + use<'a> {
        (0..self.segments).map(move |index| {
            let length = self.segment_length(index).unwrap_or(0);
            let mut frame = bytes::BytesMut::zeroed(length);
            // It fits: the buffer was made for it.
            let written = self.write_segment(index, &mut frame);
            debug_assert_eq!(written, Ok(length));
            frame
        })
    }
}

/// UDP that is segmented always has a checksum: Linux refuses it otherwise.
fn finish_udp(header: &mut [u8], length: u16, sum: impl Fn(&[u8]) -> Sum) {
    put16(header, 4, length);
    put16(header, 6, 0);
    let checksum = sum(header).checksum();
    // 0 would say "no checksum"; all ones is the same number in ones' complement (RFC 768).
    put16(header, 6, if checksum == 0 { 0xffff } else { checksum });
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
