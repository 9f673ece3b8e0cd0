//! Structured random frames: every kind of packet that the dissector knows, nested, damaged and cut short.
//!
//! For fuzz targets and for comparisons with the kernel; the same seed or input gives the same frame everywhere.

extern crate alloc;

use alloc::vec::Vec;

use super::checksum::ipv4_header;
use super::headers::{Headers, VlanTag, ethertype, ip_protocol};
use crate::context::SplitMix64;

mod transport;
mod tunnels;

/// Where choices come from: bytes, say a fuzzer's, as long as there are any, then a generator.
#[derive(Clone, Debug)]
pub struct Dice<'a> {
    bytes: &'a [u8],
    generator: SplitMix64,
}

impl<'a> Dice<'a> {
    /// All choices from a generator.
    pub fn seeded(seed: u64) -> Self {
        Self { bytes: &[], generator: SplitMix64(seed) }
    }

    /// The first choices from these bytes, so that a fuzzer can steer them.
    pub fn steered(bytes: &'a [u8]) -> Self {
        Self { bytes, generator: SplitMix64(0) }
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                first
            }
            None => (self.generator.next_u64() >> 56) as u8,
        }
    }

    /// A number below `n`, which is at most 65536.
    pub fn below(&mut self, n: usize) -> usize {
        let (number, bits) = if n <= 256 { (u32::from(self.byte()), 8) } else { (u32::from(self.u16()), 16) };
        (number as usize * n) >> bits
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        // Zero bytes must not make the rare the rule.
        self.below(n) == n - 1
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Sixteen bits.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Thirty-two bits.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }
}

/// What a frame is made of, for counting what a campaign has reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    /// A tag beside the frame.
    VlanBeside,
    /// A tag in the frame.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv4 options.
    Ipv4Options,
    /// A fragment of IPv4.
    Ipv4Fragment,
    /// IPv6.
    Ipv6,
    /// IPv6 with a flow label.
    FlowLabel,
    /// An extension header.
    Extension,
    /// A fragment header.
    Ipv6Fragment,
    /// GRE version 0.
    Gre,
    /// Enhanced GRE.
    Pptp,
    /// Ethernet in GRE.
    Bridged,
    /// MPLS.
    Mpls,
    /// PPPoE.
    Pppoe,
    /// Mesh.
    Batman,
    /// HSR or PRP.
    Redundancy,
    /// TIPC.
    Tipc,
    /// ARP.
    Arp,
    /// An unknown EtherType.
    Unknown,
    /// TCP.
    Tcp,
    /// Another protocol with four bytes of ports or SPI.
    Ports,
    /// The authentication header.
    Ah,
    /// A protocol without ports.
    NoPorts,
    /// Random bytes were changed.
    Mutated,
    /// The end was cut off.
    Truncated,
}

/// A frame and what a network stack would know of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestFrame {
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// See [`Headers::network_offset`].
    pub network_offset: usize,
    /// See [`Headers::ethertype`].
    pub ethertype: u16,
    /// See [`Headers::vlan`].
    pub vlan: Option<VlanTag>,
    /// From the outermost to the innermost, then the damage.
    pub layers: Vec<Layer>,
}

impl TestFrame {
    /// As the dissector takes it.
    pub fn headers(&self) -> Headers<'_> {
        let (network_offset, ethertype, vlan) = (self.network_offset, self.ethertype, self.vlan);
        Headers { bytes: &self.bytes, network_offset, ethertype, vlan }
    }
}

/// One frame; about a quarter of them are damaged.
pub fn frame(dice: &mut Dice<'_>) -> TestFrame {
    let mut writer = Writer { dice, bytes: Vec::new(), layers: Vec::new(), depth: 0 };
    let ethertype = writer.any_ethertype();
    let vlan = writer.dice.one_in(6).then(|| {
        writer.layers.push(Layer::VlanBeside);
        VlanTag::new(writer.dice.pick(&[ethertype::VLAN, ethertype::SERVICE_VLAN]), writer.dice.u16())
    });
    writer.ethernet(ethertype);
    writer.network(ethertype);
    let Writer { mut bytes, mut layers, .. } = writer;
    if dice.one_in(8) {
        layers.push(Layer::Mutated);
        for _ in 0..=dice.below(4) {
            let at = 14 + dice.below((bytes.len() - 14).min(128));
            bytes[at] ^= dice.byte();
        }
    }
    if dice.one_in(8) {
        layers.push(Layer::Truncated);
        let length = 14 + dice.below(bytes.len() - 14);
        bytes.truncate(length);
    }
    TestFrame { bytes, network_offset: 14, ethertype, vlan, layers }
}

/// A whole TCP or UDP packet over IP with several segments of payload, and the segment size. Nothing is damaged;
/// flags, options, identification and sequence numbers are random.
pub fn gso_frame(dice: &mut Dice<'_>) -> (TestFrame, u16) {
    let (ethertype, ipv6) = dice.pick(&[(ethertype::IPV4, false), (ethertype::IPV6, true)]);
    let protocol = dice.pick(&[ip_protocol::TCP, ip_protocol::TCP, ip_protocol::UDP]);
    let segment_bytes = dice.pick(&[1, 7, 100, 536, 1400, 1448, 1460]);
    let segments = 2 + dice.below(if segment_bytes < 200 { 60 } else { 20 });
    let last = 1 + dice.below(usize::from(segment_bytes));
    let payload = (segments - 1) * usize::from(segment_bytes) + last;
    let mut writer = Writer { dice, bytes: Vec::new(), layers: Vec::new(), depth: 0 };
    let tagged = writer.dice.one_in(6);
    writer.ethernet(if tagged { ethertype::VLAN } else { ethertype });
    if tagged {
        writer.layers.push(Layer::Vlan);
        let tci = writer.dice.u16();
        writer.put16(tci);
        writer.put16(ethertype);
    }
    if ipv6 && writer.dice.one_in(6) {
        let (first, second) = (ip_protocol::HOP_BY_HOP, ip_protocol::DESTINATION_OPTIONS);
        writer.ipv6_around(first, 0, |writer| {
            writer.extension_header(second, 0);
            writer.extension_header(protocol, 2);
            writer.l4_with(protocol, payload);
        });
    } else if ipv6 {
        writer.ipv6_around(protocol, 0, |writer| writer.l4_with(protocol, payload));
    } else {
        writer.ipv4_around(protocol, 0x4000, |writer| writer.l4_with(protocol, payload));
    }
    let Writer { bytes, layers, .. } = writer;
    let (network_offset, ethertype) = if tagged { (18, ethertype::VLAN) } else { (14, ethertype) };
    (TestFrame { bytes, network_offset, ethertype, vlan: None, layers }, segment_bytes)
}

struct Writer<'d, 'a> {
    dice: &'d mut Dice<'a>,
    bytes: Vec<u8>,
    layers: Vec<Layer>,
    depth: usize,
}

/// Beyond this many nested network layers only simple ones follow.
const MAX_DEPTH: usize = 20;

impl Writer<'_, '_> {
    fn put16(&mut self, value: u16) {
        self.bytes.extend(value.to_be_bytes());
    }

    fn patch16(&mut self, at: usize, value: usize) {
        self.bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
    }

    fn random(&mut self, length: usize) {
        for _ in 0..length {
            let byte = self.dice.byte();
            self.bytes.push(byte);
        }
    }

    fn ethernet(&mut self, ethertype: u16) {
        self.bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        self.put16(ethertype);
    }

    fn any_ethertype(&mut self) -> u16 {
        match self.dice.below(32) {
            0..=10 => ethertype::IPV4,
            11..=19 => ethertype::IPV6,
            20..=23 => self.dice.pick(&[ethertype::VLAN, ethertype::SERVICE_VLAN]),
            24 | 25 => ethertype::PPPOE_SESSION,
            26 => ethertype::BATMAN,
            27 => self.dice.pick(&[ethertype::HSR, ethertype::PRP]),
            28 => ethertype::TIPC,
            29 => ethertype::ARP,
            30 => self.dice.pick(&[ethertype::MPLS, ethertype::MPLS_MULTICAST]),
            _ => self.dice.u16(),
        }
    }

    /// The EtherType of a packet within another.
    fn inner_ethertype(&mut self) -> u16 {
        self.depth += 1;
        if self.depth > MAX_DEPTH { ethertype::ARP } else { self.any_ethertype() }
    }

    fn network(&mut self, ethertype: u16) {
        match ethertype {
            ethertype::IPV4 => self.ipv4(),
            ethertype::IPV6 => self.ipv6(),
            ethertype::VLAN | ethertype::SERVICE_VLAN => self.vlans(),
            ethertype::PPPOE_SESSION => self.pppoe(),
            ethertype::BATMAN => self.batman(),
            ethertype::HSR | ethertype::PRP => self.redundancy(),
            ethertype::TIPC => self.tipc(),
            ethertype::ARP => self.filler(Layer::Arp, 28),
            ethertype::MPLS | ethertype::MPLS_MULTICAST => self.filler(Layer::Mpls, 24),
            _ => self.filler(Layer::Unknown, 40),
        }
    }

    fn filler(&mut self, layer: Layer, length: usize) {
        self.layers.push(layer);
        self.random(length);
    }

    fn ipv4(&mut self) {
        let protocol = self.any_protocol();
        let fragment = match self.dice.below(12) {
            10 => self.dice.pick(&[0x2000, 0x0001, 0x3fff]),
            11 => self.dice.u16(),
            _ => self.dice.pick(&[0, 0x4000]),
        };
        if fragment & 0x3fff != 0 {
            self.layers.push(Layer::Ipv4Fragment);
        }
        self.ipv4_around(protocol, fragment, |writer| writer.transport(protocol, false));
    }

    fn ipv4_around(&mut self, protocol: u8, fragment: u16, payload: impl FnOnce(&mut Self)) {
        self.layers.push(Layer::Ipv4);
        let start = self.bytes.len();
        let options = if self.dice.one_in(6) { self.dice.below(11) } else { 0 };
        let tos = self.dice.byte();
        self.bytes.extend([0x45 + options as u8, tos, 0, 0]);
        let id = self.dice.u16();
        self.put16(id);
        self.put16(fragment);
        self.bytes.extend([64, protocol, 0, 0]);
        for _ in 0..2 {
            let mut address = [10, 0, 0, self.dice.byte() & 3];
            if self.dice.one_in(4) {
                address = self.dice.u32().to_be_bytes();
            }
            self.bytes.extend(address);
        }
        if options > 0 {
            self.layers.push(Layer::Ipv4Options);
            self.random(4 * options);
        }
        let end = self.bytes.len();
        payload(self);
        self.patch16(start + 2, self.bytes.len() - start);
        let checksum = ipv4_header(&self.bytes[start..end]);
        self.patch16(start + 10, checksum.into());
    }

    fn ipv6(&mut self) {
        let protocol = self.any_protocol();
        let label = if self.dice.one_in(6) { self.dice.u32() & 0xf_ffff } else { 0 };
        if label != 0 {
            self.layers.push(Layer::FlowLabel);
        }
        self.ipv6_around(protocol, label, |writer| writer.transport(protocol, true));
    }

    fn ipv6_around(&mut self, protocol: u8, label: u32, payload: impl FnOnce(&mut Self)) {
        self.layers.push(Layer::Ipv6);
        let start = self.bytes.len();
        let class = u32::from(self.dice.byte());
        self.bytes.extend((0x6000_0000 | class << 20 | label).to_be_bytes());
        self.bytes.extend([0, 0, protocol, 64]);
        for _ in 0..2 {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
            // Differences early and late, so that comparing bytewise matters.
            for at in [5, 9, 15] {
                address[at] = self.dice.byte() & 3;
            }
            self.bytes.extend(address);
        }
        let end = self.bytes.len();
        payload(self);
        self.patch16(start + 4, self.bytes.len() - end);
    }
}

#[cfg(test)]
mod tests;
