//! Which packet of the trace a buffer's address means.

use std::collections::HashMap;

use debloat_aqm::net::ecn;
use debloat_harness::trace::{Arrival, ByteChange, Delivered, GsoInfo, PacketRef, SegmentInfo, VlanTag};

use super::fields::{DequeueReturn, Enqueue};

/// The queued buffers. Addresses are used again: the newest arrival wins.
#[derive(Debug, Default)]
pub(super) struct Packets {
    queued: HashMap<u64, Queued>,
    next_id: u64,
}

#[derive(Debug)]
struct Queued {
    packet: PacketRef,
    protocol: u16,
    network_offset: u16,
    /// Empty for a segment, whose headers are new.
    bytes: Vec<u8>,
}

/// A segment as the recorder saw it made.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawSegment {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) truesize: u32,
}

impl Packets {
    /// The arrival of a packet; `hash` is the one after the call. Its segments take its place if it was split.
    pub(super) fn arrive(&mut self, raw: &Enqueue, hash: u32, charged: bool, segments: &[RawSegment]) -> Arrival {
        let id = self.next_id;
        self.next_id += 1;
        let bytes = headers(raw);
        let known = |offset: u16| (usize::from(offset) <= bytes.len()).then_some(offset);
        let queued = |packet, bytes: &[u8]| Queued {
            packet,
            protocol: raw.protocol,
            network_offset: raw.network_offset,
            bytes: bytes.to_vec(),
        };
        if segments.is_empty() {
            self.queued.insert(raw.packet, queued(PacketRef::whole(id), &bytes));
        }
        for (segment, number) in segments.iter().zip(1..) {
            self.queued.insert(segment.address, queued(PacketRef { id, segment: number }, &[]));
        }
        Arrival {
            id,
            len_bytes: raw.qdisc_len,
            buffer_bytes: raw.len,
            linear_bytes: raw.len.saturating_sub(raw.data_len),
            truesize_bytes: raw.truesize,
            priority: raw.priority,
            mark: raw.mark,
            hash,
            hash_carried: raw.hash_carried,
            protocol: raw.protocol,
            network_offset: raw.network_offset,
            transport_offset: known(raw.transport_offset),
            gso: (raw.gso_size != 0).then_some(GsoInfo {
                segment_bytes: raw.gso_size,
                segments: raw.gso_segments,
                kind: raw.gso_kind,
            }),
            segments: segments.iter().map(|s| SegmentInfo { len_bytes: s.len, truesize_bytes: s.truesize }).collect(),
            charged_to_socket: charged,
            departure_ns: raw.timestamp,
            vlan: raw.vlan.map(|(tpid, tci)| VlanTag { tpid, tci }),
            bytes,
        }
    }

    /// What the packet that is now arriving will be called.
    pub(super) fn next(&self) -> PacketRef {
        PacketRef::whole(self.next_id)
    }

    /// Is a buffer at this address queued?
    pub(super) fn is_queued(&self, address: u64) -> bool {
        self.queued.contains_key(&address)
    }

    /// The buffer is gone.
    pub(super) fn drop(&mut self, address: u64) -> Option<PacketRef> {
        Some(self.queued.remove(&address)?.packet)
    }

    /// The buffer came out.
    pub(super) fn deliver(&mut self, raw: &DequeueReturn) -> Option<Delivered> {
        let queued = self.queued.remove(&raw.packet)?;
        let changed = queued.bytes.iter().zip(&raw.bytes).zip(0u16..);
        let changed = changed.filter(|((before, after), _)| before != after);
        Some(Delivered {
            packet: queued.packet,
            buffer_bytes: raw.len,
            ds_field: ecn::ds_field(&raw.bytes, queued.network_offset.into(), queued.protocol),
            changed: changed.map(|((_, &value), offset)| ByteChange { offset, value }).collect(),
        })
    }
}

/// The bytes up to the end of the transport header; payload is nobody's business.
fn headers(raw: &Enqueue) -> Vec<u8> {
    let bytes = raw.bytes.as_slice();
    let network = usize::from(raw.network_offset);
    let transport = usize::from(raw.transport_offset);
    let protocol = match bytes.get(network).map(|b| b >> 4) {
        Some(4) => bytes.get(network + 9),
        Some(6) => bytes.get(network + 6),
        _ => None,
    };
    let end = match protocol {
        Some(6) => bytes.get(transport + 12).map(|offset| transport + usize::from(offset >> 4) * 4),
        Some(17 | 1 | 58) => Some(transport + 8),
        _ => None,
    };
    bytes[..end.unwrap_or(bytes.len()).min(bytes.len())].to_vec()
}
