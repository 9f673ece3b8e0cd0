use debloat_aqm::net::{self, Headers, SipKey, VlanTag, ecn};
use debloat_aqm::{Gso, Packet};

use crate::trace::{Arrival, ByteChange, Delivered, Hashes, PacketRef};

/// A packet of a trace, as the ports see it.
#[derive(Clone, Debug)]
pub struct TracePacket {
    arrival: Box<Arrival>,
    /// The header bytes as they are now.
    bytes: Vec<u8>,
    hashes: Hashes,
}

impl TracePacket {
    /// The packet of an arrival.
    pub fn new(arrival: &Arrival, hashes: Hashes) -> Self {
        Self { bytes: arrival.bytes.clone(), arrival: Box::new(arrival.clone()), hashes }
    }

    /// Its name in the trace.
    pub const fn reference(&self) -> PacketRef {
        PacketRef::whole(self.arrival.id)
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
        let changed = self.bytes.iter().zip(&self.arrival.bytes).zip(0u16..);
        Delivered {
            packet: self.reference(),
            buffer_bytes: self.arrival.buffer_bytes,
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
        self.arrival.len_bytes
    }
    fn buffer_bytes(&self) -> u32 {
        self.arrival.buffer_bytes
    }
    fn truesize_bytes(&self) -> u32 {
        self.arrival.truesize_bytes
    }
    fn gso(&self) -> Gso {
        self.arrival
            .gso
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
        self.arrival.hash
    }
    fn ds_field(&self) -> Option<u8> {
        ecn::ds_field(&self.bytes, self.arrival.network_offset.into(), self.arrival.protocol)
    }
    fn try_mark_ce(&mut self) -> bool {
        ecn::try_mark_ce(&mut self.bytes, self.arrival.network_offset.into(), self.arrival.protocol)
    }
}
