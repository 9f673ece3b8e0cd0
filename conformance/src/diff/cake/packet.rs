//! A packet as both sides see it.

use std::rc::Rc;

use debloat_aqm::net::gso::{GsoKind, GsoPacket};
use debloat_aqm::net::{Headers, SipKey, VlanTag, ecn, flow_hash};
use debloat_aqm::{Classified, Gso, GsoDetails, Linux, Packet};
use debloat_oracle as oracle;

/// What a test says of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The packet's number.
    pub id: u64,
    /// The frame, as far as it matters; may be shorter than `len`.
    pub frame: Vec<u8>,
    /// Whole length, bytes.
    pub len: u32,
    /// Qdisc length, bytes.
    pub wire_len: u32,
    /// Memory charge, bytes.
    pub truesize: u32,
    /// A level-4 hash.
    pub hash: Option<u32>,
    /// Priority.
    pub priority: u32,
    /// Firewall mark.
    pub mark: u32,
    /// EtherType.
    pub protocol: u16,
    /// Offset of the network header.
    pub network_offset: u16,
    /// Offset of the transport header.
    pub transport_offset: u16,
    /// Offsets of the inner network and transport headers, of a tunnel's packet.
    pub inner: Option<(u16, u16)>,
    /// A tag beside the frame.
    pub vlan: Option<(u16, u16)>,
    /// Segmentation.
    pub gso: Option<Segmentation>,
    /// The filters' answer.
    pub class: Classified,
}

/// Segmentation still to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Payload bytes per segment.
    pub size: u16,
    /// Segments, as stated.
    pub segments: u16,
    /// Linux's type bits.
    pub bits: u32,
}

/// Linux's type bits.
pub mod gso_bits {
    /// TCP over IPv4.
    pub const TCP_V4: u32 = 1;
    /// Untrusted.
    pub const DODGY: u32 = 1 << 1;
    /// TCP over IPv6.
    pub const TCP_V6: u32 = 1 << 4;
    /// UDP datagrams.
    pub const UDP_L4: u32 = 1 << 17;
}

impl Description {
    /// For the oracle.
    pub fn spec(&self) -> oracle::PacketSpec<'_> {
        oracle::PacketSpec {
            id: self.id,
            len: self.len,
            qdisc_len: Some(self.wire_len),
            truesize: self.truesize,
            priority: self.priority,
            mark: self.mark,
            hash: self.hash.map_or(oracle::Hash::None, oracle::Hash::L4),
            gso: self.gso.map(|gso| oracle::Gso {
                size: gso.size,
                segments: gso.segments,
                kind: oracle::GsoType::Bits(gso.bits),
            }),
            vlan: self.vlan.map(|(protocol, tci)| oracle::Vlan { protocol, tci }),
            protocol: Some(self.protocol),
            network_offset: Some(self.network_offset),
            transport_offset: Some(self.transport_offset),
            inner: self.inner,
            ..oracle::PacketSpec::new(&self.frame)
        }
    }
}

/// A segment that the kernel made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its length.
    pub len: u32,
    /// Its memory charge.
    pub truesize: u32,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// For the port.
#[derive(Clone, Debug)]
pub struct Mirror {
    about: Rc<Description>,
    /// The bytes as they are now.
    pub frame: Vec<u8>,
    segments: Rc<[Segment]>,
    /// Which segment this is, from 1.
    segment: usize,
}

impl Mirror {
    /// The whole packet, and what it splits into.
    pub fn new(about: Description, segments: Vec<Segment>) -> Self {
        Self { frame: about.frame.clone(), about: Rc::new(about), segments: segments.into(), segment: 0 }
    }

    /// The packet's number.
    pub fn id(&self) -> u64 {
        self.about.id
    }

    /// What the test says of it.
    pub fn about(&self) -> &Description {
        &self.about
    }

    fn this_segment(&self) -> Option<&Segment> {
        self.segments.get(self.segment.checked_sub(1)?)
    }
}

impl Packet for Mirror {
    fn len_bytes(&self) -> u32 {
        self.this_segment().map_or(self.about.wire_len, |segment| segment.len)
    }
    fn buffer_bytes(&self) -> u32 {
        self.this_segment().map_or(self.about.len, |segment| segment.len)
    }
    fn truesize_bytes(&self) -> u32 {
        self.this_segment().map_or(self.about.truesize, |segment| segment.truesize)
    }
    fn gso(&self) -> Gso {
        match self.about.gso {
            Some(gso) if self.segment == 0 => Gso { segments: gso.segments, segment_bytes: gso.size },
            _ => Gso::NONE,
        }
    }
    fn priority(&self) -> u32 {
        self.about.priority
    }
    fn fwmark(&self) -> u32 {
        self.about.mark
    }
    fn headers(&self) -> Option<Headers<'_>> {
        let headers = Headers::new(&self.frame, self.about.network_offset.into(), self.about.protocol);
        Some(match self.about.vlan {
            Some((tpid, tci)) => headers.with_vlan(VlanTag::new(tpid, tci)),
            None => headers,
        })
    }
    fn flow_hash(&mut self, secret: SipKey) -> u32 {
        self.headers().map_or(0, |headers| flow_hash(&headers, &secret))
    }
    fn ds_field(&self) -> Option<u8> {
        ecn::ds_field(&self.frame, self.about.network_offset.into(), self.about.protocol)
    }
    fn try_mark_ce(&mut self) -> bool {
        ecn::try_mark_ce(&mut self.frame, self.about.network_offset.into(), self.about.protocol)
    }
    fn wash(&mut self) -> u8 {
        ecn::cake_wash(&mut self.frame, self.about.network_offset.into(), self.about.protocol)
    }
    fn given_hash(&self) -> Option<u32> {
        self.about.hash
    }
    fn gso_details(&self, linux: Linux) -> GsoDetails {
        let Some(gso) = self.about.gso.filter(|_| self.segment == 0) else { return GsoDetails::default() };
        let kind = match gso.bits {
            bits if bits & gso_bits::TCP_V4 != 0 => GsoKind::TcpV4,
            bits if bits & gso_bits::TCP_V6 != 0 => GsoKind::TcpV6,
            _ => GsoKind::Other,
        };
        let packet = GsoPacket {
            length: self.about.len,
            segment_bytes: gso.size,
            segments: gso.segments,
            untrusted: gso.bits & gso_bits::DODGY != 0,
            kind,
            transport_offset: Some(self.about.transport_offset.into()),
            encapsulated: self.about.inner.is_some(),
            inner_transport_offset: self.about.inner.map(|(_, transport)| transport.into()),
        };
        GsoDetails {
            header_bytes: packet.cake_header_length(linux, &self.frame),
            untrusted: packet.untrusted,
            tcp: kind != GsoKind::Other,
        }
    }
    fn segment(&self, index: usize) -> Option<Self> {
        let frame = self.segments.get(index)?.frame.clone();
        Some(Self { frame, segment: index + 1, ..self.clone() })
    }
}
