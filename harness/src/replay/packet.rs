use debloat_aqm::net::gso::{GsoKind, GsoPacket};
use debloat_aqm::net::{self, AddressKind, FlowKeys, Headers, HostHashes, SipKey, VlanTag, ecn};
use debloat_aqm::{Gso, GsoDetails, Linux, Packet};

use crate::trace::{Arrival, ByteChange, Delivered, Hashes, PacketRef, SegmentInfo, Step};

/// A packet of a trace, as the ports see it.
#[derive(Clone, Debug)]
pub struct TracePacket {
    arrival: Box<Arrival>,
    /// The header bytes as they are now.
    bytes: Vec<u8>,
    hashes: Hashes,
    /// Which segment of the packet this is, from 1; 0 for the whole.
    segment: u16,
    /// What the call hashed, and the result.
    hashed: Vec<(Vec<u8>, u32)>,
}

impl TracePacket {
    /// The packet of an arrival.
    pub fn new(arrival: &Arrival, hashes: Hashes) -> Self {
        Self {
            bytes: arrival.bytes.clone(),
            arrival: Box::new(arrival.clone()),
            hashes,
            segment: 0,
            hashed: Vec::new(),
        }
    }

    /// Knows the hashes which the call made: a secret that is not known can only be asked for those.
    #[must_use]
    pub fn with_recorded_hashes(mut self, steps: &[Step]) -> Self {
        self.hashed = steps
            .iter()
            .filter_map(|step| match step {
                Step::FlowHash { value, keys } => Some((keys.clone(), *value)),
                _ => None,
            })
            .collect();
        self
    }

    /// The recorded hash of these keys, byte for byte; 0 if the call hashed nothing like them.
    fn recorded_hash(&self, keys: &FlowKeys) -> u32 {
        let (bytes, len) = keys.key_bytes();
        self.hashed.iter().find(|(hashed, _)| *hashed == bytes[..len]).map_or(0, |(_, value)| *value)
    }

    /// Its name in the trace.
    pub const fn reference(&self) -> PacketRef {
        PacketRef { id: self.arrival.id, segment: self.segment }
    }

    /// The flow hash that the packet must have, or `None` if it can only be taken from the trace: recomputed from
    /// the bytes where the secret is known and the packet did not bring a hash along.
    pub fn recomputed_hash(&self) -> Option<u32> {
        match self.hashes {
            Hashes::Secret(secret) if !self.arrival.hash_carried => {
                Some(net::flow_hash(&self.headers_now(), &SipKey(secret)))
            }
            _ => None,
        }
    }

    /// How a trace describes the packet as it is now.
    pub fn delivered(&self) -> Delivered {
        // The headers of a segment are new.
        let compared = if self.segment == 0 { &*self.bytes } else { &[] };
        let changed = compared.iter().zip(&self.arrival.bytes).zip(0u16..);
        Delivered {
            packet: self.reference(),
            buffer_bytes: self.buffer_bytes(),
            ds_field: self.ds_field(),
            changed: changed
                .filter(|((now, before), _)| now != before)
                .map(|((&value, _), offset)| ByteChange { offset, value })
                .collect(),
        }
    }

    /// Did the packet's ECN field become CE while it was queued?
    pub fn was_marked(&self) -> bool {
        let ecn = |ds: Option<u8>| ds.map(|ds| ds & 3);
        ecn(self.ds_field()) == Some(3) && ecn(self.arrival.ds_field()) != Some(3)
    }

    fn segment_info(&self) -> Option<&SegmentInfo> {
        self.arrival.segments.get(usize::from(self.segment.checked_sub(1)?))
    }

    fn headers_now(&self) -> Headers<'_> {
        let headers = Headers::new(&self.bytes, self.arrival.network_offset.into(), self.arrival.protocol);
        match self.arrival.vlan {
            Some(tag) => headers.with_vlan(VlanTag::new(tag.tpid, tag.tci)),
            None => headers,
        }
    }
}

impl Packet for TracePacket {
    fn len_bytes(&self) -> u32 {
        self.segment_info().map_or(self.arrival.len_bytes, |segment| segment.len_bytes)
    }
    fn buffer_bytes(&self) -> u32 {
        self.segment_info().map_or(self.arrival.buffer_bytes, |segment| segment.len_bytes)
    }
    fn truesize_bytes(&self) -> u32 {
        self.segment_info().map_or(self.arrival.truesize_bytes, |segment| segment.truesize_bytes)
    }
    fn gso(&self) -> Gso {
        self.arrival
            .gso
            .filter(|_| self.segment == 0)
            .map_or(Gso::NONE, |gso| Gso { segments: gso.segments.max(1), segment_bytes: gso.segment_bytes })
    }
    fn is_charged_to_socket(&self) -> bool {
        self.arrival.charged_to_socket
    }
    fn priority(&self) -> u32 {
        self.arrival.priority
    }
    fn fwmark(&self) -> u32 {
        self.arrival.mark
    }
    fn departure_ns(&self) -> u64 {
        self.arrival.departure_ns
    }
    fn headers(&self) -> Option<Headers<'_>> {
        Some(self.headers_now())
    }
    fn flow_hash(&mut self, _: SipKey) -> u32 {
        match self.arrival.hash {
            0 => self.recorded_hash(&net::dissect(&self.headers_now())),
            hash => hash,
        }
    }
    fn flow_keys(&self) -> Option<FlowKeys> {
        match self.hashes {
            Hashes::Secret(_) => Some(net::dissect(&self.headers_now())),
            Hashes::Recorded => None,
        }
    }
    fn host_hashes(&self) -> HostHashes {
        let keys = net::dissect(&self.headers_now());
        match keys.address_kind() {
            AddressKind::Ipv4 | AddressKind::Ipv6 => HostHashes {
                source: self.recorded_hash(&keys.source_host()),
                destination: self.recorded_hash(&keys.destination_host()),
            },
            AddressKind::Tipc | AddressKind::None => HostHashes::default(),
        }
    }
    fn ds_field(&self) -> Option<u8> {
        ecn::ds_field(&self.bytes, self.arrival.network_offset.into(), self.arrival.protocol)
    }
    fn try_mark_ce(&mut self) -> bool {
        ecn::try_mark_ce(&mut self.bytes, self.arrival.network_offset.into(), self.arrival.protocol)
    }
    fn wash(&mut self) -> u8 {
        ecn::cake_wash(&mut self.bytes, self.arrival.network_offset.into(), self.arrival.protocol)
    }
    fn given_hash(&self) -> Option<u32> {
        (self.arrival.hash_carried && self.arrival.hash != 0).then_some(self.arrival.hash)
    }
    fn gso_details(&self, linux: Linux) -> GsoDetails {
        let Some(gso) = self.arrival.gso else { return GsoDetails::default() };
        let kind = match gso.kind {
            kind if kind & TCP_V4 != 0 => GsoKind::TcpV4,
            kind if kind & TCP_V6 != 0 => GsoKind::TcpV6,
            _ => GsoKind::Other,
        };
        let packet = GsoPacket {
            length: self.arrival.buffer_bytes,
            segment_bytes: gso.segment_bytes,
            segments: gso.segments,
            untrusted: gso.kind & DODGY != 0,
            kind,
            transport_offset: self.arrival.transport_offset.map(usize::from),
            encapsulated: false,
            inner_transport_offset: None,
        };
        GsoDetails {
            header_bytes: packet.cake_header_length(linux, &self.bytes),
            untrusted: packet.untrusted,
            tcp: kind != GsoKind::Other,
        }
    }
    fn segment(&self, index: usize) -> Option<Self> {
        self.arrival.segments.get(index)?;
        Some(Self { segment: u16::try_from(index + 1).ok()?, ..self.clone() })
    }
}

/// Linux's type bits of GSO packets.
const TCP_V4: u32 = 1;
const DODGY: u32 = 1 << 1;
const TCP_V6: u32 = 1 << 4;
