//! A packet's memory: one arena block that holds the buffer structure, the data and the shared info.
//!
//! ```text
//! | arena header (64) | sk_buff | inner header (64) | headroom | frame ... tailroom | skb_shared_info |
//! ```
//! The inner header makes the kernel's own freeing of the data area (when it replaces a shared one) a no-op.
//! Freed packets stay readable until the next call, then their blocks are reused.

use super::{Hash, PacketRef, PacketSpec};
use crate::error::Result;
use crate::memory::{H_USER, HEADER};
use crate::runtime::Runtime;

/// Room in front of the frame, for headers that kernel code may push.
pub(crate) const HEADROOM: u64 = 64;
/// Room behind it.
const TAILROOM: u64 = 64;

// Words in the arena header that belong to packets.
const P_ID: u64 = H_USER; // u64
const P_GENERATION: u64 = H_USER + 8; // u32
const P_STATE: u64 = H_USER + 12; // u32

/// Made by `PacketSpec`: buffer, data and shared info are one block.
const OURS: u32 = 0x5eed;
/// Ours, and bytes beyond the linear area do not exist.
pub(super) const ELIDED: u32 = 0x5eee;

/// `CHECKSUM_PARTIAL`: the transport checksum is still to be filled in.
const CHECKSUM_PARTIAL: u64 = 3;

impl Runtime {
    /// Builds a packet. The caller owns it until an enqueue takes it.
    pub(crate) fn build_packet(&self, spec: &PacketSpec<'_>) -> Result<u64> {
        spec.check()?;
        let (lay, mem) = (&self.layout, &self.mem);
        let at = &lay.at;
        let frame = spec.frame.len() as u64;
        let linear = spec.linear.map_or(frame, u64::from);
        let skb_room = lay.skb_size.next_multiple_of(64);
        let area = (HEADROOM + frame + TAILROOM).next_multiple_of(64);
        let total = skb_room + HEADER + area + lay.shinfo_size;
        let skb = self.arena.alloc_raw(mem, total);
        if skb == 0 {
            return Err(self.arena_full());
        }
        let head = skb + skb_room + HEADER;
        let shinfo = head + area;
        mem.zero(skb, lay.skb_size);
        mem.zero(shinfo, lay.shinfo_size);
        self.arena.mark_inner(mem, head, area + lay.shinfo_size);
        mem.write_bytes(head + HEADROOM, spec.frame);

        let len = spec.total();
        let elided = u64::from(len) > frame;
        mem.write(skb - HEADER + P_ID, spec.id);
        mem.write(skb - HEADER + P_GENERATION, self.next_generation());
        mem.write(skb - HEADER + P_STATE, if elided { ELIDED } else { OURS });

        let (network, transport) = spec.headers();
        let from_head = |offset: u16| HEADROOM as u16 + offset;
        mem.write(skb + at.len, len);
        mem.write(skb + at.data_len, len - linear as u32);
        mem.write(skb + at.head, head);
        mem.write(skb + at.data, head + HEADROOM);
        mem.write(skb + at.tail, (HEADROOM + linear) as u32);
        mem.write(skb + at.end, area as u32);
        let truesize = if spec.truesize == 0 { default_truesize(len) } else { spec.truesize };
        mem.write(skb + at.truesize, truesize);
        mem.write(skb + at.mac, from_head(0));
        mem.write(skb + at.network, from_head(network));
        mem.write(skb + at.transport, from_head(transport));
        mem.write(skb + at.mac_len, network);
        mem.write(skb + at.protocol, spec.protocol.unwrap_or_else(|| spec.word(12)).to_be());
        mem.write::<u32>(skb + at.users, 1);
        mem.write(skb + at.priority, spec.priority);
        mem.write(skb + at.mark, spec.mark);
        mem.write(skb + at.tstamp, spec.tstamp);
        mem.write::<u32>(shinfo + at.dataref, 1);
        mem.write(skb + at.cb + at.pkt_len, spec.accounted_len());
        if let Some(segs) = lay.pkt_segs {
            mem.write(skb + at.cb + segs, spec.segments());
        }
        match spec.hash {
            Hash::None => {}
            Hash::L4(h) | Hash::Software(h) | Hash::Other(h) => {
                mem.write(skb + at.hash, h);
                lay.l4_hash.write(mem, skb, u64::from(matches!(spec.hash, Hash::L4(_))));
                lay.sw_hash.write(mem, skb, u64::from(matches!(spec.hash, Hash::Software(_))));
            }
        }
        if let Some(vlan) = spec.vlan {
            mem.write(skb + at.vlan_proto, vlan.protocol.to_be());
            mem.write(skb + at.vlan_tci, vlan.tci);
            if let Some(present) = &lay.vlan_present {
                present.write(mem, skb, 1);
            }
        }
        if let Some((inner_network, inner_transport)) = spec.inner {
            lay.encapsulation.write(mem, skb, 1);
            mem.write(skb + at.inner_mac, from_head(inner_network));
            mem.write(skb + at.inner_network, from_head(inner_network));
            mem.write(skb + at.inner_transport, from_head(inner_transport));
        }
        if let Some(gso) = spec.gso {
            mem.write(shinfo + at.gso_size, gso.size);
            mem.write(shinfo + at.gso_segs, spec.segments());
            mem.write(shinfo + at.gso_type, gso.kind.bits());
            let transport = spec.inner.map_or(transport, |(_, t)| t);
            let sum = if matches!(gso.kind, super::GsoType::Udp) { 6u16 } else { 16 };
            lay.ip_summed.write(mem, skb, CHECKSUM_PARTIAL);
            mem.write(skb + at.csum_start, from_head(transport));
            mem.write(skb + at.csum_offset, sum);
        }
        if spec.tstamp != 0
            && let Some(kind) = &lay.tstamp_type
        {
            kind.write(mem, skb, 1); // monotonic
        }
        if let Some(socket) = spec.socket {
            mem.write(skb + at.sk, socket.address);
            if spec.charged {
                mem.write(skb + at.destructor, self.write_free());
            }
        }
        Ok(skb)
    }

    /// The reference for a packet seen in kernel data.
    #[inline]
    pub(crate) fn packet_ref(&self, skb: u64) -> PacketRef {
        PacketRef {
            id: self.mem.read(skb - HEADER + P_ID),
            address: skb as u32,
            generation: self.mem.read(skb - HEADER + P_GENERATION),
        }
    }

    /// Gives a packet that the kernel made (a segment, a clone) an identity.
    pub(crate) fn adopt_packet(&self, skb: u64, id: u64) {
        self.mem.write(skb - HEADER + P_ID, id);
        self.mem.write(skb - HEADER + P_GENERATION, self.next_generation());
    }

    pub(super) fn packet_state(&self, skb: u64) -> u32 {
        self.mem.read(skb - HEADER + P_STATE)
    }

    /// The address behind a reference, if the packet is still there.
    pub(crate) fn packet_at(&self, packet: PacketRef) -> Option<u64> {
        let skb = u64::from(packet.address);
        let known = skb > HEADER && self.mem.covers(skb - HEADER, HEADER + self.layout.skb_size);
        (known && self.packet_ref(skb) == packet && packet.generation != 0).then_some(skb)
    }

    /// A packet is over: readable until the next call, then its memory is used again.
    #[inline]
    pub(crate) fn retire_packet(&self, skb: u64) {
        self.retired.borrow_mut().push(skb);
    }

    /// Frees what was retired before this call.
    #[inline]
    pub(crate) fn free_retired(&self) {
        let mut retired = self.retired.borrow_mut();
        for skb in retired.drain(..) {
            self.free_packet(skb);
        }
    }

    fn free_packet(&self, skb: u64) {
        let mem = &self.mem;
        let state = self.packet_state(skb);
        let head: u64 = mem.read(skb + self.layout.at.head);
        let end: u32 = mem.read(skb + self.layout.at.end);
        let inner = skb + self.layout.skb_size.next_multiple_of(64) + HEADER;
        let inside = (state == OURS || state == ELIDED) && head == inner;
        let shinfo = head.wrapping_add(u64::from(end));
        if head != 0 {
            let refs = mem.read::<u32>(shinfo + self.layout.at.dataref) & 0xffff;
            if refs > 1 {
                // A clone still uses the data. Ours keeps its whole block for it.
                mem.write(shinfo + self.layout.at.dataref, mem.read::<u32>(shinfo + self.layout.at.dataref) - 1);
                if inside {
                    return;
                }
            } else if !inside {
                // The data area of a segment, of a replaced head, or of the last clone.
                let freed = self.arena.free(mem, head);
                if freed == crate::memory::Freed::Inner {
                    self.free_block_around(head);
                }
            }
        }
        mem.write(skb - HEADER + P_GENERATION, 0u32);
        mem.write(skb - HEADER + P_STATE, 0u32);
        self.note_free(skb, self.arena.free(mem, skb));
    }

    /// The last user of an inner data area frees the block that its first owner left behind.
    fn free_block_around(&self, head: u64) {
        let skb = head - HEADER - self.layout.skb_size.next_multiple_of(64);
        if self.arena.is_live(&self.mem, skb) {
            self.mem.write(skb - HEADER + P_GENERATION, 0u32);
            self.mem.write(skb - HEADER + P_STATE, 0u32);
            self.note_free(skb, self.arena.free(&self.mem, skb));
        }
    }
}

/// A linear frame from a local sender: the data area rounded to a power of two, plus 576 bytes of structures.
fn default_truesize(len: u32) -> u32 {
    len.saturating_add(384).next_power_of_two().max(512).saturating_add(256)
}
