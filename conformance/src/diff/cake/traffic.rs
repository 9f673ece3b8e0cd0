//! Random traffic: flows of every kind between few or many hosts.

use debloat_aqm::Classified;
use debloat_aqm::net::checksum::pseudo_header;
use debloat_aqm::net::testing::{self, Dice};

use super::frames::{self, Around, Built, Ends, Tcp, Transport};
use super::packet::{Description, Segmentation, gso_bits};

/// What a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    TcpData,
    /// Acknowledgements, and what may stand among them.
    Acks,
    /// Large TCP or UDP packets whose payload exists in number only.
    Gso,
    /// Whole large packets, for the kernel's own segmentation.
    WholeGso,
    /// ICMP or another protocol.
    Other,
    Arp,
    /// Any frame: tunnels, tags, fragments, damage.
    Any,
}

#[derive(Clone, Debug)]
struct Flow {
    kind: Kind,
    around: Around,
    ends: Ends,
    ds_field: u8,
    len: usize,
    hash: Option<u32>,
    tcp: Tcp,
    stamp: u32,
}

/// The traffic of one case.
#[derive(Clone, Debug)]
pub struct Traffic {
    flows: Vec<Flow>,
    filters: bool,
    handle: u32,
    next_id: u64,
    /// Mean memory charge besides the length.
    metadata: u32,
}

const KINDS: [Kind; 16] = [
    Kind::Udp,
    Kind::Udp,
    Kind::Udp,
    Kind::Udp,
    Kind::TcpData,
    Kind::TcpData,
    Kind::TcpData,
    Kind::Acks,
    Kind::Acks,
    Kind::Acks,
    Kind::Gso,
    Kind::WholeGso,
    Kind::Other,
    Kind::Arp,
    Kind::Any,
    Kind::Any,
];

const DS_FIELDS: [u8; 24] = [
    0,
    0,
    0,
    0,
    1,
    2,
    3,
    2,
    8 << 2,
    46 << 2,
    46 << 2 | 2,
    34 << 2,
    34 << 2 | 1,
    16 << 2,
    1 << 2,
    56 << 2,
    48 << 2,
    10 << 2,
    44 << 2,
    4 << 2,
    2 << 2,
    24 << 2,
    40 << 2,
    63 << 2 | 3,
];

impl Traffic {
    /// Random flows.
    pub fn random(dice: &mut Dice<'_>, filters: bool, handle: u32) -> Self {
        let count = dice.pick(&[1, 2, 3, 5, 8, 20, 40, 100, 1500]);
        let hosts = dice.pick(&[1, 2, 3, 8, 40, 2000]);
        // Hashes that meet in few sets, or in one.
        let crowded = dice.one_in(4).then(|| dice.pick(&[1, 2, 8, 64]));
        let given = dice.below(4);
        let only = dice.one_in(3).then(|| dice.pick(&KINDS));
        let flows = (0..count)
            .map(|number| {
                let hash = match crowded {
                    Some(sets) => {
                        Some((number as u32 % sets) * 8 + 1024 * (number as u32 / sets) + dice.below(8) as u32)
                    }
                    None if dice.below(4) < given => Some(dice.u32()),
                    None => None,
                };
                Flow::random(dice, only, hosts, hash)
            })
            .collect();
        let metadata = dice.pick(&[0, 0, 300, 768, 2304, 8000]);
        Self { flows, filters, handle, next_id: 0, metadata }
    }

    /// The number of flows.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// A packet of flow `number`.
    pub fn packet(&mut self, dice: &mut Dice<'_>, number: usize) -> Description {
        let id = self.next_id;
        self.next_id += 1;
        let flow = &mut self.flows[number];
        let mut description = flow.packet(dice);
        description.id = id;
        description.truesize = match dice.below(16) {
            0 => 0x2_0000,
            1 => dice.u16().into(),
            _ => description.len + self.metadata,
        }
        .max(1);
        if dice.one_in(6) {
            let handle = dice.pick(&[self.handle, self.handle, 0, 0x5_0000]);
            description.priority = handle | dice.below(12) as u32;
        }
        if dice.one_in(6) {
            description.mark = dice.u32() & dice.pick(&[0x3, 0xff, 0xffff, u32::MAX]);
        }
        if self.filters {
            description.class = class(dice);
        }
        description
    }
}

fn class(dice: &mut Dice<'_>) -> Classified {
    match dice.below(64) {
        0 => Classified::Stolen,
        1 => Classified::Shot,
        2..=15 => Classified::NoMatch,
        16 => Classified::Class(dice.u32()),
        17 => Classified::Class(dice.pick(&[1024, 1025, 1024 << 16, 1025 << 16, 0xffff_ffff])),
        18..=39 => Classified::Class(dice.below(6) as u32),
        _ => Classified::Class((dice.below(4) as u32) << 16 | dice.below(6) as u32),
    }
}

impl Flow {
    fn random(dice: &mut Dice<'_>, only: Option<Kind>, hosts: usize, hash: Option<u32>) -> Self {
        let kind = only.unwrap_or_else(|| dice.pick(&KINDS));
        let around = match dice.below(8) {
            0..=4 => Around::Ipv4,
            5 | 6 => Around::Ipv6,
            _ => Around::Tunnel,
        };
        let ends = Ends {
            source: dice.below(hosts) as u16,
            destination: dice.below(hosts) as u16,
            source_port: 1024 + dice.u16() % 512,
            destination_port: dice.pick(&[80, 443, 53]),
        };
        let len = dice.pick(&[20, 60, 100, 300, 700, 1200, 1400, 1440]);
        let tcp = Tcp { sequence: dice.u32(), ack: dice.u32(), flags: 0x10, options: Vec::new() };
        Self { kind, around, ends, ds_field: dice.pick(&DS_FIELDS), len, hash, tcp, stamp: dice.u32() }
    }

    fn packet(&mut self, dice: &mut Dice<'_>) -> Description {
        if dice.one_in(32) {
            self.ds_field = dice.pick(&DS_FIELDS);
        }
        match self.kind {
            Kind::Udp => {
                let payload = self.len.saturating_sub(8) + dice.below(8);
                self.whole(&frames::udp(self.ends, payload))
            }
            Kind::TcpData => {
                let payload = if dice.one_in(8) { dice.below(3) } else { self.len };
                let transport = self.segment(payload);
                self.whole(&transport)
            }
            Kind::Acks => self.ack(dice),
            Kind::Gso => self.gso(dice),
            Kind::WholeGso => self.whole_gso(dice),
            Kind::Other => {
                let protocol = dice.pick(&[1, 1, 58, 47, 50, 51, 132, 2, 99]);
                self.whole(&frames::other(protocol, self.len))
            }
            Kind::Arp => {
                let mut description = self.whole(&frames::other(1, 20));
                description.frame[12..14].copy_from_slice(&[8, 6]);
                description.protocol = 0x0806;
                description
            }
            Kind::Any => self.any(dice),
        }
    }

    fn segment(&mut self, payload: usize) -> Transport {
        self.tcp.sequence = self.tcp.sequence.wrapping_add(payload as u32);
        self.tcp.options.clear();
        frames::tcp(self.ends, &self.tcp, payload)
    }

    /// A packet without segmentation.
    fn whole(&self, transport: &Transport) -> Description {
        let Built { frame, len, network_offset, transport_offset, inner } =
            frames::build(self.around, self.ends, self.ds_field, transport);
        let protocol = u16::from_be_bytes([frame[12], frame[13]]);
        Description {
            id: 0,
            frame,
            len: len as u32,
            wire_len: len as u32,
            truesize: 1,
            hash: self.hash,
            priority: 0,
            mark: 0,
            protocol,
            network_offset,
            transport_offset,
            inner,
            vlan: None,
            gso: None,
            class: Classified::NoFilters,
        }
    }

    /// Mostly pure ACKs of a connection that goes forward.
    fn ack(&mut self, dice: &mut Dice<'_>) -> Description {
        let step = dice.pick(&[0, 1, 1000, 1448, 2896, 2896, 2896, 100_000, u32::MAX - 999]);
        self.tcp.ack = self.tcp.ack.wrapping_add(step);
        self.stamp = self.stamp.wrapping_add(dice.below(3) as u32);
        self.tcp.flags = 0x10;
        match dice.below(32) {
            0 => self.tcp.flags = dice.u16() & 0xfff,
            1..=3 => self.tcp.flags |= 0x40,
            4 => self.tcp.flags |= 0xc0,
            5 => self.tcp.flags |= 1 << dice.below(12),
            _ => {}
        }
        self.tcp.options = frames::ack_options(dice, self.tcp.ack, self.stamp);
        let payload = if dice.one_in(12) { 1 + dice.below(300) } else { 0 };
        let transport = frames::tcp(self.ends, &self.tcp, payload);
        let mut description = self.whole(&transport);
        let ip = usize::from(description.inner.map_or(14, |(network, _)| network));
        match dice.below(48) {
            // A length field of 0.
            0 | 1 if description.frame[ip] >> 4 == 4 => description.frame[ip + 2..ip + 4].fill(0),
            0 | 1 => description.frame[ip + 4..ip + 6].fill(0),
            // Damage.
            2 => {
                let at = 14 + dice.below(description.frame.len() - 14);
                description.frame[at] ^= dice.byte();
            }
            3 => {
                let len = 14 + dice.below(description.frame.len() - 14);
                description.frame.truncate(len);
                description.len = len as u32;
                description.wire_len = len as u32;
            }
            // Bytes beyond the linear ones. The kernel must be able to pull the IP header, since nothing else is there.
            4 => {
                let least = 54.min(description.frame.len());
                description.frame.truncate(least + dice.below(description.frame.len() - least + 1));
            }
            5 if description.frame[12] == 8 => {
                let bits = gso_bits::TCP_V4 | if dice.one_in(4) { gso_bits::DODGY } else { 0 };
                description.gso = Some(Segmentation { size: 100, segments: 1 + dice.below(2) as u16, bits });
            }
            _ => {}
        }
        description
    }

    /// A large packet of which only the headers exist.
    fn gso(&mut self, dice: &mut Dice<'_>) -> Description {
        let size = dice.pick(&[100, 536, 1200, 1400, 1448]);
        let segments = 1 + dice.below(12);
        let payload = (segments - 1) * size + 1 + dice.below(size);
        let udp = dice.one_in(4);
        let transport = if udp { frames::udp(self.ends, payload) } else { self.segment(payload) };
        let mut description = self.whole(&transport);
        let stated = match dice.below(12) {
            0 => 1,
            1 => 1 + dice.below(40),
            _ => segments,
        };
        let header = u32::try_from(description.frame.len()).unwrap_or(0);
        description.wire_len += (segments as u32 - 1) * header;
        let bits = match (udp, self.around) {
            (true, _) => gso_bits::UDP_L4,
            (false, Around::Ipv4) => gso_bits::TCP_V4,
            (false, _) => gso_bits::TCP_V6,
        } | if dice.one_in(6) { gso_bits::DODGY } else { 0 };
        description.gso = Some(Segmentation { size: size as u16, segments: stated as u16, bits });
        description
    }

    /// A large packet, every byte of it.
    fn whole_gso(&mut self, dice: &mut Dice<'_>) -> Description {
        let (mut frame, size) = testing::gso_frame(dice);
        let len = frame.bytes.len() as u32;
        let ip = frame.network_offset;
        let ipv6 = frame.bytes[ip] >> 4 == 6;
        let (protocol, transport) = if ipv6 {
            let mut next = frame.bytes[ip + 6];
            let mut at = ip + 40;
            while matches!(next, 0 | 43 | 60) {
                next = frame.bytes[at];
                at += 8 * (usize::from(frame.bytes[at + 1]) + 1);
            }
            (next, at)
        } else {
            (frame.bytes[ip + 9], ip + 4 * usize::from(frame.bytes[ip] & 15))
        };
        let header =
            if protocol == 6 { transport + 4 * usize::from(frame.bytes[transport + 12] >> 4) } else { transport + 8 };
        let segments = (frame.bytes.len() - header).div_ceil(size.into());
        // The stack leaves the sum of the pseudo header where the checksum will be.
        let addresses = if ipv6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let sum = pseudo_header(&frame.bytes[addresses], protocol, (frame.bytes.len() - transport) as u32).folded();
        let at = transport + if protocol == 6 { 16 } else { 6 };
        frame.bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let bits = match (protocol, ipv6) {
            (6, false) => gso_bits::TCP_V4,
            (6, true) => gso_bits::TCP_V6,
            _ => gso_bits::UDP_L4,
        };
        Description {
            len,
            wire_len: len + (segments as u32 - 1) * header as u32,
            protocol: frame.ethertype,
            network_offset: ip as u16,
            transport_offset: transport as u16,
            gso: Some(Segmentation { size, segments: segments as u16, bits }),
            inner: None,
            frame: frame.bytes,
            ..self.whole(&frames::udp(self.ends, 0))
        }
    }

    fn any(&mut self, dice: &mut Dice<'_>) -> Description {
        let frame = testing::frame(dice);
        let frame_len = frame.bytes.len() as u32;
        let has_headers = frame.bytes.len() >= frame.network_offset + 40;
        let len = if has_headers && dice.one_in(4) { frame_len + 400 } else { frame_len };
        Description {
            len,
            wire_len: len,
            protocol: frame.ethertype,
            network_offset: frame.network_offset as u16,
            transport_offset: (frame.network_offset as u16 + 20).min(frame_len as u16),
            vlan: frame.vlan.map(|tag| (tag.tpid, tag.tci)),
            inner: None,
            frame: frame.bytes,
            ..self.whole(&frames::udp(self.ends, 0))
        }
    }
}
