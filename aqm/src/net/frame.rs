//! A ready [`Packet`] over real bytes: Ethernet frames (with VLAN tags) and bare IP packets.

use super::dissect::flow_hash;
use super::ecn;
use super::headers::{Headers, VlanTag, ethertype};
use super::segment::{Layout, SegmentError, Segmenter};
use super::siphash::SipKey;
use crate::Linux;
use crate::packet::{Gso, GsoDetails, Packet};

/// A packet over bytes: a plain slice or array, `Vec<u8>`, `bytes::BytesMut`, or the buffer type of a driver.
///
/// The headers are parsed once, when the packet is made. A VLAN tag in the frame is treated as Linux treats a
/// received one: the outermost is kept beside the packet for the flow hash; all are looked through for ECN and DSCP.
/// Any bytes make a packet; what cannot be parsed hashes like it would in Linux and is never ECN-capable.
///
/// ```
/// use debloat_aqm::{Packet, net::Frame};
///
/// // Destination, source, EtherType; then an IPv4 header with ECT(0).
/// let mut bytes = [0_u8; 60];
/// bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]);
/// let mut frame = Frame::ethernet(&mut bytes[..]);
/// assert_eq!((frame.len_bytes(), frame.ds_field()), (60, Some(0b10)));
/// assert!(frame.try_mark_ce());
/// assert_eq!(frame.ds_field(), Some(0b11));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<B> {
    buffer: B,
    network_offset: usize,
    /// Behind all tags.
    ethertype: u16,
    vlan: Option<VlanTag>,
    len_bytes: u32,
    truesize_bytes: u32,
    gso: Gso,
    hash: Option<u32>,
    priority: u32,
    fwmark: u32,
    departure_ns: u64,
    charged_to_socket: bool,
}

impl<B: AsRef<[u8]>> Frame<B> {
    /// A frame that starts with an Ethernet header, without FCS.
    pub fn ethernet(buffer: B) -> Self {
        let Headers { network_offset, ethertype, vlan, .. } = Headers::ethernet(buffer.as_ref());
        Self::new(buffer, network_offset, ethertype, vlan)
    }

    /// An IP packet without link-layer header, as a TUN device has it. A first byte that is neither IPv4's nor
    /// IPv6's makes a packet of unknown protocol.
    pub fn ip(buffer: B) -> Self {
        let ethertype = match buffer.as_ref().first().map(|first| first >> 4) {
            Some(4) => ethertype::IPV4,
            Some(6) => ethertype::IPV6,
            _ => 0,
        };
        Self::new(buffer, 0, ethertype, None)
    }

    fn new(buffer: B, network_offset: usize, ethertype: u16, vlan: Option<VlanTag>) -> Self {
        let len_bytes = u32::try_from(buffer.as_ref().len()).unwrap_or(u32::MAX);
        Self {
            buffer,
            network_offset,
            ethertype,
            vlan,
            len_bytes,
            truesize_bytes: len_bytes.saturating_add(METADATA_BYTES),
            gso: Gso::NONE,
            hash: None,
            priority: 0,
            fwmark: 0,
            departure_ns: 0,
            charged_to_socket: false,
        }
    }

    /// Makes it a GSO packet: a TCP or UDP packet that goes over the wire in segments of `segment_bytes` of payload.
    /// Its qdisc length then counts the headers of every segment (spec/common.md §3).
    ///
    /// # Errors
    ///
    /// If the packet cannot be segmented.
    pub fn with_gso(mut self, segment_bytes: u16) -> Result<Self, SegmentError> {
        let headers = Layout::of(&self.parsed())?.headers;
        let length = self.buffer.as_ref().len();
        let payload = length - headers;
        if segment_bytes == 0 || payload == 0 {
            return Err(SegmentError::NothingToSplit { payload, segment_bytes });
        }
        let segments = payload.div_ceil(usize::from(segment_bytes));
        let segments = u16::try_from(segments).unwrap_or(u16::MAX);
        let total = length + (usize::from(segments) - 1) * headers;
        self.len_bytes = u32::try_from(total).unwrap_or(u32::MAX);
        self.gso = Gso { segments, segment_bytes };
        Ok(self)
    }

    /// A VLAN tag that the network card took out of the frame: now the outermost one.
    #[must_use]
    pub fn with_vlan(mut self, tpid: u16, tci: u16) -> Self {
        let encapsulated = self.vlan.map(|inner| inner.tpid);
        self.vlan = Some(VlanTag { tpid, tci, encapsulated });
        self
    }

    /// Overrides the memory charge. The default is the length and 768 bytes of metadata.
    #[must_use]
    pub fn with_truesize(mut self, bytes: u32) -> Self {
        self.truesize_bytes = bytes;
        self
    }

    /// Overrides the qdisc length, as a size table does (spec/common.md §11).
    #[must_use]
    pub fn with_len_bytes(mut self, bytes: u32) -> Self {
        self.len_bytes = bytes;
        self
    }

    /// Gives the flow hash, as a socket or a network card does. Otherwise it is computed once, when first wanted.
    #[must_use]
    pub fn with_flow_hash(mut self, hash: u32) -> Self {
        self.hash = Some(hash);
        self
    }

    /// Sets the packet priority.
    #[must_use]
    pub fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the firewall mark.
    #[must_use]
    pub fn with_fwmark(mut self, mark: u32) -> Self {
        self.fwmark = mark;
        self
    }

    /// Sets the earliest departure time, ns on the environment's clock.
    #[must_use]
    pub fn with_departure_ns(mut self, ns: u64) -> Self {
        self.departure_ns = ns;
        self
    }

    /// Marks it as charged to a local socket's send buffer.
    #[must_use]
    pub fn with_socket_charge(mut self) -> Self {
        self.charged_to_socket = true;
        self
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// The buffer, back.
    pub fn into_buffer(self) -> B {
        self.buffer
    }

    /// The EtherType behind all VLAN tags.
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// Where the network header starts.
    pub fn network_offset(&self) -> usize {
        self.network_offset
    }

    /// The outermost VLAN tag.
    pub fn vlan(&self) -> Option<VlanTag> {
        self.vlan
    }

    /// Cuts a GSO packet into its segments.
    ///
    /// # Errors
    ///
    /// If it is not a GSO packet, or has a single segment.
    pub fn segments(&self) -> Result<Segmenter<'_>, SegmentError> {
        Segmenter::of_headers(&self.parsed(), self.gso.segment_bytes)
    }

    /// The segments as packets of their own: each its own length, everything else as this packet has it.
    ///
    /// # Errors
    ///
    /// As [`Frame::segments`].
    #[cfg(feature = "bytes")]
    pub fn segment_frames(
        &self,
    ) -> Result<impl ExactSizeIterator<Item = Frame<bytes::BytesMut>> + use<'_, B>, SegmentError> {
        let segmenter = self.segments()?;
        Ok(segmenter.frames().map(|buffer| Frame {
            hash: self.hash,
            priority: self.priority,
            fwmark: self.fwmark,
            departure_ns: self.departure_ns,
            charged_to_socket: self.charged_to_socket,
            ..Frame::new(buffer, self.network_offset, self.ethertype, self.vlan)
        }))
    }

    #[inline]
    fn parsed(&self) -> Headers<'_> {
        let (network_offset, ethertype, vlan) = (self.network_offset, self.ethertype, self.vlan);
        Headers { bytes: self.buffer.as_ref(), network_offset, ethertype, vlan }
    }
}

/// Memory charged for a packet besides its bytes, in the default model.
const METADATA_BYTES: u32 = 768;

/// Bytes that can hold a frame.
///
/// The buffer type of a driver needs no more than `impl Buffer for DriverBuffer {}`; with
/// [`zeroed`](Buffer::zeroed), cake and others can split GSO packets in it.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Sized {
    /// A new buffer of `len` bytes, all 0. `None`, the default, if buffers cannot be made: then GSO packets cannot be
    /// split.
    fn zeroed(len: usize) -> Option<Self> {
        let _ = len;
        None
    }
}

impl Buffer for &mut [u8] {}

impl<const N: usize> Buffer for [u8; N] {}

#[cfg(feature = "alloc")]
impl Buffer for alloc::vec::Vec<u8> {
    fn zeroed(len: usize) -> Option<Self> {
        Some(alloc::vec![0; len])
    }
}

#[cfg(feature = "alloc")]
impl Buffer for alloc::boxed::Box<[u8]> {
    fn zeroed(len: usize) -> Option<Self> {
        Some(alloc::vec![0; len].into_boxed_slice())
    }
}

#[cfg(feature = "bytes")]
impl Buffer for bytes::BytesMut {
    fn zeroed(len: usize) -> Option<Self> {
        Some(Self::zeroed(len))
    }
}

impl<B: Buffer> Packet for Frame<B> {
    #[inline]
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    #[inline]
    fn buffer_bytes(&self) -> u32 {
        u32::try_from(self.buffer.as_ref().len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn truesize_bytes(&self) -> u32 {
        self.truesize_bytes
    }

    #[inline]
    fn gso(&self) -> Gso {
        self.gso
    }

    #[inline]
    fn is_charged_to_socket(&self) -> bool {
        self.charged_to_socket
    }

    #[inline]
    fn priority(&self) -> u32 {
        self.priority
    }

    #[inline]
    fn fwmark(&self) -> u32 {
        self.fwmark
    }

    #[inline]
    fn departure_ns(&self) -> u64 {
        self.departure_ns
    }

    #[inline]
    fn headers(&self) -> Option<Headers<'_>> {
        Some(self.parsed())
    }

    #[inline]
    fn flow_hash(&mut self, secret: SipKey) -> u32 {
        match self.hash {
            Some(hash) => hash,
            None => {
                let hash = flow_hash(&self.parsed(), &secret);
                self.hash = Some(hash);
                hash
            }
        }
    }

    #[inline]
    fn ds_field(&self) -> Option<u8> {
        ecn::ds_field(self.buffer.as_ref(), self.network_offset, self.ethertype)
    }

    #[inline]
    fn try_mark_ce(&mut self) -> bool {
        ecn::try_mark_ce(self.buffer.as_mut(), self.network_offset, self.ethertype)
    }

    #[inline]
    fn wash(&mut self) -> u8 {
        ecn::cake_wash(self.buffer.as_mut(), self.network_offset, self.ethertype)
    }

    #[inline]
    fn given_hash(&self) -> Option<u32> {
        self.hash
    }

    fn gso_details(&self, _: Linux) -> GsoDetails {
        Layout::of(&self.parsed()).map_or_else(
            |_| GsoDetails::default(),
            |layout| GsoDetails { header_bytes: layout.headers as u32, untrusted: false, tcp: layout.is_tcp() },
        )
    }

    fn segment(&self, index: usize) -> Option<Self> {
        let segmenter = self.segments().ok()?;
        let mut buffer = B::zeroed(segmenter.segment_length(index)?)?;
        segmenter.write_segment(index, buffer.as_mut()).ok()?;
        Some(Self {
            hash: self.hash,
            priority: self.priority,
            fwmark: self.fwmark,
            departure_ns: self.departure_ns,
            charged_to_socket: self.charged_to_socket,
            ..Self::new(buffer, self.network_offset, self.ethertype, self.vlan)
        })
    }
}

#[cfg(test)]
mod tests;
