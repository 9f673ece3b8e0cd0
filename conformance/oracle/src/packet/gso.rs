//! Splitting GSO packets: by the kernel's own segmentation, seen from outside; or, for packets whose
//! payload exists in number only, by repeating the headers.

use super::block::{ELIDED, HEADROOM};
use super::{Gso, GsoType, Hash, PacketSpec, Vlan};
use crate::env::{Event, GSO_SEGMENT, record};
use crate::runtime::Runtime;

/// Errors come back as pointers in the last page.
const ERR_LIMIT: u64 = u64::MAX - 4095;

impl Runtime {
    /// What the kernel code gets when it asks for segments.
    pub(crate) fn split(&self, skb: u64, features: u64, tx_path: u64) -> u64 {
        let list = if self.packet_state(skb) == ELIDED {
            self.split_elided(skb)
        } else {
            self.original(GSO_SEGMENT, [skb, features, tx_path])
        };
        self.log_split(skb, list);
        list
    }

    fn log_split(&self, skb: u64, list: u64) {
        let packet = self.packet_ref(skb);
        let (mem, at) = (&self.mem, &self.layout.at);
        let mut segments = Vec::new();
        let mut next = if list >= ERR_LIMIT { 0 } else { list };
        while next != 0 && segments.len() < 1 << 16 {
            segments.push(next);
            next = mem.read(next + at.next);
        }
        self.env.log(record::ACTIONS, Event::Split { packet, segments: segments.len() as u32 });
        for (index, segment) in segments.into_iter().enumerate() {
            self.adopt_packet(segment, packet.id);
            let event = Event::Segment {
                packet: self.packet_ref(segment),
                index: index as u32,
                len: mem.read(segment + at.len),
                truesize: mem.read(segment + at.truesize),
            };
            self.env.log(record::ACTIONS, event);
        }
    }

    /// Headers repeated, lengths, identification and sequence numbers advanced; no transport checksums.
    fn split_elided(&self, skb: u64) -> u64 {
        let (mem, lay) = (&self.mem, &self.layout);
        let at = &lay.at;
        let head: u64 = mem.read(skb + at.head);
        let shinfo = head + u64::from(mem.read::<u32>(skb + at.end));
        let offset = |field: u64| (u64::from(mem.read::<u16>(skb + field)) - HEADROOM) as u16;
        let (network, transport) = (offset(at.network), offset(at.transport));
        let bits = mem.read::<u32>(shinfo + at.gso_type);
        let gso = Gso { size: mem.read(shinfo + at.gso_size), segments: 0, kind: kind_of(bits) };
        let linear = u64::from(mem.read::<u32>(skb + at.tail)) - HEADROOM;
        let header = mem.bytes(head + HEADROOM, linear).to_vec();
        let len: u32 = mem.read(skb + at.len);
        let whole = PacketSpec {
            len,
            network_offset: Some(network),
            transport_offset: Some(transport),
            gso: Some(gso),
            protocol: Some(u16::from_be(mem.read(skb + at.protocol))),
            ..PacketSpec::new(&header)
        };
        let header_len = whole.header_len();
        let mut left = len.saturating_sub(header_len);
        let (mut first, mut last, mut done) = (0, 0, 0);
        while left > 0 {
            let payload = left.min(u32::from(gso.size.max(1)));
            left -= payload;
            let mut frame = header.get(..header_len as usize).unwrap_or(&header).to_vec();
            let part =
                Part { network, transport, index: done / u32::from(gso.size.max(1)), done, payload, last: left == 0 };
            part.rewrite(&mut frame, gso.kind);
            done += payload;
            let spec = PacketSpec {
                frame: &frame,
                len: header_len + payload,
                gso: None,
                priority: mem.read(skb + at.priority),
                mark: mem.read(skb + at.mark),
                tstamp: mem.read(skb + at.tstamp),
                hash: self.hash_of(skb),
                vlan: self.vlan_of(skb),
                ..whole
            };
            let Ok(segment) = self.build_packet(&spec) else {
                return ERR_LIMIT;
            };
            mem.write(segment + at.dev, mem.read::<u64>(skb + at.dev));
            mem.write(segment + at.sk, mem.read::<u64>(skb + at.sk));
            if first == 0 {
                first = segment;
            } else {
                mem.write(last + at.next, segment);
            }
            last = segment;
        }
        first
    }

    pub(crate) fn hash_of(&self, skb: u64) -> Hash {
        let h = self.mem.read(skb + self.layout.at.hash);
        match (self.layout.l4_hash.read(&self.mem, skb), self.layout.sw_hash.read(&self.mem, skb)) {
            (1, _) => Hash::L4(h),
            (_, 1) => Hash::Software(h),
            _ if h != 0 => Hash::Other(h),
            _ => Hash::None,
        }
    }

    fn vlan_of(&self, skb: u64) -> Option<Vlan> {
        let at = &self.layout.at;
        let protocol = u16::from_be(self.mem.read(skb + at.vlan_proto));
        (protocol != 0).then(|| Vlan { protocol, tci: self.mem.read(skb + at.vlan_tci) })
    }
}

fn kind_of(bits: u32) -> GsoType {
    [GsoType::Tcp4, GsoType::Tcp6, GsoType::Udp]
        .into_iter()
        .find(|k| bits & k.bits() != 0)
        .unwrap_or(GsoType::Bits(bits))
}

struct Part {
    network: u16,
    transport: u16,
    index: u32,
    done: u32,
    payload: u32,
    last: bool,
}

impl Part {
    fn rewrite(&self, frame: &mut [u8], kind: GsoType) {
        let (ip, tp) = (usize::from(self.network), usize::from(self.transport));
        let own = (frame.len() as u32).saturating_sub(u32::from(self.network));
        let put16 = |frame: &mut [u8], at: usize, v: u16| {
            if let Some(b) = frame.get_mut(at..at + 2) {
                b.copy_from_slice(&v.to_be_bytes());
            }
        };
        let get16 = |frame: &[u8], at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
        match frame.get(ip).map(|b| b >> 4) {
            Some(4) => {
                put16(frame, ip + 2, (own + self.payload) as u16);
                let id = get16(frame, ip + 4).wrapping_add(self.index as u16);
                put16(frame, ip + 4, id);
                put16(frame, ip + 10, 0);
                let sum = (ip..tp).step_by(2).fold(0u32, |s, at| s + u32::from(get16(frame, at)));
                let sum = (sum & 0xffff) + (sum >> 16);
                put16(frame, ip + 10, !(((sum & 0xffff) + (sum >> 16)) as u16));
            }
            Some(6) => put16(frame, ip + 4, (own + self.payload).saturating_sub(40) as u16),
            _ => {}
        }
        match kind {
            GsoType::Tcp4 | GsoType::Tcp6 => {
                if let Some(seq) = frame.get_mut(tp + 4..tp + 8) {
                    let old = u32::from_be_bytes([seq[0], seq[1], seq[2], seq[3]]);
                    seq.copy_from_slice(&old.wrapping_add(self.done).to_be_bytes());
                }
                if let Some(flags) = frame.get_mut(tp + 13) {
                    const FIN_PSH: u8 = 0x09;
                    const CWR: u8 = 0x80;
                    *flags &= if self.last { 0xff } else { !FIN_PSH };
                    *flags &= if self.index == 0 { 0xff } else { !CWR };
                }
            }
            GsoType::Udp => {
                let own = (frame.len() as u32).saturating_sub(u32::from(self.transport));
                put16(frame, tp + 4, (own + self.payload) as u16);
            }
            GsoType::Bits(_) => {}
        }
    }
}
