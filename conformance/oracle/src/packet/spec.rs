//! The description of a packet.

use crate::error::{Error, Result};
use crate::socket::SocketRef;

/// Bytes of an untagged Ethernet header.
pub const ETH_HEADER: u32 = 14;

/// The hash a packet already carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Hash {
    /// None: the kernel dissects the headers.
    #[default]
    None,
    /// A level-4 hash (socket or network card).
    L4(u32),
    /// One computed earlier by software.
    Software(u32),
    /// A hash that is neither: it is not used by `skb_get_hash`.
    Other(u32),
}

/// Which protocol a GSO packet is to be segmented as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoType {
    /// TCP over IPv4 (`SKB_GSO_TCPV4`).
    Tcp4,
    /// TCP over IPv6 (`SKB_GSO_TCPV6`).
    Tcp6,
    /// UDP datagrams (`SKB_GSO_UDP_L4`).
    Udp,
    /// Raw `gso_type` bits.
    Bits(u32),
}

impl GsoType {
    /// The kernel's flag bits (`SKB_GSO_*`, user-visible through virtio and stable across these kernels).
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            GsoType::Tcp4 => 1,
            GsoType::Tcp6 => 1 << 4,
            GsoType::Udp => 1 << 17,
            GsoType::Bits(b) => b,
        }
    }
}

/// Segmentation still to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Payload bytes per segment.
    pub size: u16,
    /// Number of segments; 0 lets the packet say `⌈payload / size⌉`.
    pub segments: u16,
    /// Protocol.
    pub kind: GsoType,
}

/// A VLAN tag kept beside the frame ("hardware accelerated").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Tag protocol, host order (0x8100, 0x88a8).
    pub protocol: u16,
    /// Priority, DEI and id.
    pub tci: u16,
}

/// A packet as a test describes it. Only the frame is needed; everything else has the value that a locally
/// built frame on Ethernet would have.
///
/// ```
/// use debloat_oracle::PacketSpec;
/// let frame = [0u8; 60];
/// let spec = PacketSpec { id: 7, len: 1514, truesize: 2304, ..PacketSpec::new(&frame) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PacketSpec<'a> {
    /// The caller's number for it; comes back in events and from dequeue.
    pub id: u64,
    /// The frame from its link-layer header on: whole, or as many bytes as matter.
    pub frame: &'a [u8],
    /// Whole length in bytes with the link-layer header; bytes beyond `frame` exist in number only
    /// (and make the packet's split a simple one: see [`crate::World`]). 0 means `frame.len()`.
    pub len: u32,
    /// Bytes of the frame that lie in the linear area; `None`: all of `frame`.
    pub linear: Option<u32>,
    /// What the qdisc accounts ("qdisc length"). `None`: `len`, plus repeated headers for GSO.
    pub qdisc_len: Option<u32>,
    /// Memory charged. 0: a model of one locally built frame (data area plus overhead).
    pub truesize: u32,
    /// `skb->priority`.
    pub priority: u32,
    /// `skb->mark`.
    pub mark: u32,
    /// Hash carried along.
    pub hash: Hash,
    /// Segmentation to be done.
    pub gso: Option<Gso>,
    /// Tag beside the frame.
    pub vlan: Option<Vlan>,
    /// EtherType, host order. `None`: from the frame.
    pub protocol: Option<u16>,
    /// Offset of the network header from the frame's start. `None`: behind Ethernet and VLAN tags.
    pub network_offset: Option<u16>,
    /// Offset of the transport header from the frame's start. `None`: behind the IPv4 or IPv6 header.
    pub transport_offset: Option<u16>,
    /// Offsets of inner network and transport headers; sets `encapsulation`.
    pub inner: Option<(u16, u16)>,
    /// Time stamp (earliest departure), ns; 0 none.
    pub tstamp: u64,
    /// The sending socket.
    pub socket: Option<SocketRef>,
    /// Still charged to that socket's send buffer (matters to fq_codel on 7.x).
    pub charged: bool,
}

impl<'a> PacketSpec<'a> {
    /// A packet that is just this frame.
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Self {
        Self {
            id: 0,
            frame,
            len: 0,
            linear: None,
            qdisc_len: None,
            truesize: 0,
            priority: 0,
            mark: 0,
            hash: Hash::None,
            gso: None,
            vlan: None,
            protocol: None,
            network_offset: None,
            transport_offset: None,
            inner: None,
            tstamp: 0,
            socket: None,
            charged: false,
        }
    }

    /// Total length in bytes.
    #[must_use]
    pub fn total(&self) -> u32 {
        if self.len == 0 { self.frame.len() as u32 } else { self.len }
    }

    pub(super) fn check(&self) -> Result<()> {
        let frame = self.frame.len();
        if frame > 1 << 20 || (self.total() as usize) < frame {
            return Err(Error::Packet(format!("{frame} bytes of frame, length {}", self.total())));
        }
        if self.linear.is_some_and(|l| l as usize > frame) {
            return Err(Error::Packet(format!("linear area beyond the frame's {frame} bytes")));
        }
        Ok(())
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.frame.get(at).copied().unwrap_or(0)
    }

    pub(super) fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.byte(at), self.byte(at + 1)])
    }

    /// Offsets of the network and transport headers.
    pub(super) fn headers(&self) -> (u16, u16) {
        let mut network = usize::from(ETH_HEADER as u16);
        let mut ethertype = self.word(12);
        while matches!(ethertype, 0x8100 | 0x88a8) && network + 4 <= self.frame.len() {
            ethertype = self.word(network + 2);
            network += 4;
        }
        let network = self.network_offset.unwrap_or(network as u16);
        let ip = usize::from(network);
        let transport = self.transport_offset.unwrap_or(match self.byte(ip) >> 4 {
            4 => network + 4 * u16::from(self.byte(ip) & 15),
            6 => network + 40,
            _ => network,
        });
        (network, transport)
    }

    /// Bytes repeated in front of each segment.
    pub(super) fn header_len(&self) -> u32 {
        let transport = match self.inner {
            Some((_, t)) => t,
            None => self.headers().1,
        };
        let own = match self.gso.map(|g| g.kind) {
            Some(GsoType::Tcp4 | GsoType::Tcp6) => 4 * u32::from(self.byte(usize::from(transport) + 12) >> 4),
            Some(GsoType::Udp) => 8,
            _ => 0,
        };
        u32::from(transport) + own
    }

    /// Number of segments.
    pub(super) fn segments(&self) -> u16 {
        match self.gso {
            None => 1,
            Some(g) if g.segments != 0 => g.segments,
            Some(g) => self.total().saturating_sub(self.header_len()).div_ceil(u32::from(g.size.max(1))).max(1) as u16,
        }
    }

    /// What the qdisc accounts (spec/common.md §3).
    #[must_use]
    pub fn accounted_len(&self) -> u32 {
        self.qdisc_len.unwrap_or_else(|| {
            let extra = u32::from(self.segments()).saturating_sub(1).saturating_mul(self.header_len());
            self.total().saturating_add(extra)
        })
    }
}
