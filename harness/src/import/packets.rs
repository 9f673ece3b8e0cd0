//! Which packet of the trace a buffer address means.

use std::collections::HashMap;

use super::ImportErrorKind;
use super::record::{RawDequeueReturn, RawEnqueue};
use crate::trace::{Arrival, ByteChange, Delivered, GsoInfo, PacketRef, ds_field};

/// The buffers that are queued. Addresses are used again: the newest arrival wins.
#[derive(Debug, Default)]
pub(super) struct Packets {
    queued: HashMap<u64, Queued>,
    next_id: u64,
}

#[derive(Debug)]
struct Queued {
    id: u64,
    protocol: u16,
    network_offset: u16,
    bytes: Vec<u8>,
}

impl Packets {
    /// The arrival of a buffer; hash and memory charge are those of the call's end.
    pub(super) fn arrive(&mut self, raw: &RawEnqueue, hash: u32, charged_to_socket: bool) -> Arrival {
        let bytes = headers(raw);
        let known = |offset: u16| (usize::from(offset) <= bytes.len()).then_some(offset);
        let arrival = Arrival {
            id: self.next_id,
            len_bytes: u32::from_le_bytes([0, 1, 2, 3].map(|at| raw.control_block[at])),
            buffer_bytes: raw.len,
            linear_bytes: raw.len.saturating_sub(raw.data_len),
            truesize_bytes: raw.truesize,
            priority: raw.priority,
            mark: raw.mark,
            hash,
            hash_carried: raw.hash != 0 && raw.hash == hash,
            protocol: raw.protocol,
            network_offset: raw.network_offset,
            transport_offset: known(raw.transport_offset),
            gso: (raw.gso_size != 0).then_some(GsoInfo {
                segment_bytes: raw.gso_size,
                segments: raw.gso_segments,
                kind: raw.gso_kind,
            }),
            segments: Vec::new(),
            charged_to_socket,
            departure_ns: 0,
            vlan: None,
            bytes,
        };
        let queued = Queued {
            id: arrival.id,
            protocol: arrival.protocol,
            network_offset: arrival.network_offset,
            bytes: arrival.bytes.clone(),
        };
        self.queued.insert(raw.packet, queued);
        self.next_id += 1;
        arrival
    }

    /// Is a packet with a buffer at this address queued?
    pub(super) fn is_queued(&self, address: u64) -> bool {
        self.queued.contains_key(&address)
    }

    /// The packet with a buffer at this address, if one is queued.
    pub(super) fn find(&self, address: u64) -> Option<PacketRef> {
        Some(PacketRef::whole(self.queued.get(&address)?.id))
    }

    /// The buffer is gone, its packet was split into segments.
    pub(super) fn forget(&mut self, address: u64) {
        self.queued.remove(&address);
    }

    /// Packet `id` was dropped, as its queue shows.
    pub(super) fn drop_packet(&mut self, id: u64) {
        self.queued.retain(|_, queued| queued.id != id);
    }

    /// The buffer was dropped.
    pub(super) fn drop(&mut self, address: u64) -> Result<PacketRef, ImportErrorKind> {
        let queued = self.queued.remove(&address).ok_or(ImportErrorKind::UnknownPacket(address))?;
        Ok(PacketRef::whole(queued.id))
    }

    /// The buffer came out.
    pub(super) fn deliver(&mut self, raw: &RawDequeueReturn) -> Result<Delivered, ImportErrorKind> {
        let queued = self.queued.remove(&raw.packet).ok_or(ImportErrorKind::UnknownPacket(raw.packet))?;
        let changed = queued.bytes.iter().zip(&raw.data).enumerate().filter(|(_, (before, after))| before != after);
        Ok(Delivered {
            packet: PacketRef::whole(queued.id),
            buffer_bytes: raw.len,
            ds_field: ds_field(queued.protocol, queued.network_offset, &raw.data),
            changed: changed.map(|(at, (_, value))| ByteChange { offset: at as u16, value: *value }).collect(),
        })
    }
}

/// The linear bytes as far as they were recorded; of TCP and UDP packets only the headers.
fn headers(raw: &RawEnqueue) -> Vec<u8> {
    let linear = raw.len.saturating_sub(raw.data_len);
    let recorded = raw.data.len().min(linear as usize);
    let bytes = &raw.data[..recorded];
    let transport = usize::from(raw.transport_offset);
    let network = usize::from(raw.network_offset);
    let protocol = match raw.protocol {
        0x0800 => bytes.get(network + 9),
        0x86dd => bytes.get(network + 6),
        _ => None,
    };
    let end = match protocol {
        Some(6) => bytes.get(transport + 12).map(|offset| transport + usize::from(offset >> 4) * 4),
        Some(17) => Some(transport + 8),
        _ => None,
    };
    bytes[..end.unwrap_or(recorded).min(recorded)].to_vec()
}
