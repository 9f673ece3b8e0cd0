//! Headers that wrap another packet.

use super::{Layer, Writer};
use crate::net::headers::{ethertype, ip_protocol};

impl Writer<'_, '_> {
    pub(super) fn vlans(&mut self) {
        self.layers.push(Layer::Vlan);
        let tci = self.dice.u16();
        self.put16(tci);
        // Deep stacks must occur, or the limits on depth stay unseen.
        let deep = self.dice.one_in(3) && self.depth < super::MAX_DEPTH;
        self.depth += usize::from(deep);
        let inner =
            if deep { self.dice.pick(&[ethertype::VLAN, ethertype::SERVICE_VLAN]) } else { self.inner_ethertype() };
        self.put16(inner);
        self.network(inner);
    }

    pub(super) fn pppoe(&mut self) {
        self.layers.push(Layer::Pppoe);
        let header = if self.dice.one_in(8) { self.dice.pick(&[[0x12, 0], [0x21, 0], [0x11, 9]]) } else { [0x11, 0] };
        self.bytes.extend(header);
        self.random(4);
        let (protocol, inner) = match self.dice.below(8) {
            0..=2 => (0x0021, ethertype::IPV4),
            3..=5 => (0x0057, ethertype::IPV6),
            6 => self.dice.pick(&[(0x0281, ethertype::MPLS), (0x0283, ethertype::MPLS_MULTICAST)]),
            _ => (self.dice.u16(), 0),
        };
        if protocol < 0x100 && protocol & 1 == 1 && self.dice.one_in(3) {
            self.bytes.push(protocol as u8);
        } else {
            self.put16(protocol);
        }
        self.network(inner);
    }

    pub(super) fn batman(&mut self) {
        self.layers.push(Layer::Batman);
        let header =
            if self.dice.one_in(8) { self.dice.pick(&[[0x41, 15], [0x40, 14], [0x42, 15]]) } else { [0x40, 15] };
        self.bytes.extend(header);
        self.random(8);
        let inner = self.inner_ethertype();
        self.ethernet(inner);
        self.network(inner);
    }

    pub(super) fn redundancy(&mut self) {
        self.layers.push(Layer::Redundancy);
        self.random(4);
        let inner = self.inner_ethertype();
        self.put16(inner);
        self.network(inner);
    }

    pub(super) fn tipc(&mut self) {
        self.layers.push(Layer::Tipc);
        self.random(24);
    }

    pub(super) fn gre(&mut self) {
        let [checksum, routing, key, sequence] = [0x8000, 0x4000, 0x2000, 0x1000];
        let pick = |writer: &mut Self, bit, n| if writer.dice.one_in(n) { bit } else { 0 };
        if self.dice.one_in(3) {
            return self.pptp();
        }
        self.layers.push(Layer::Gre);
        let flags = pick(self, checksum, 3) | pick(self, routing, 12) | pick(self, key, 2) | pick(self, sequence, 3);
        let version = if self.dice.one_in(12) { self.dice.u16() & 7 } else { 0 };
        self.put16(flags | version);
        let bridged = self.dice.one_in(4);
        let inner = self.inner_ethertype();
        self.put16(if bridged { ethertype::TRANSPARENT_ETHERNET } else { inner });
        for bit in [checksum, key, sequence] {
            self.random(if flags & bit != 0 { 4 } else { 0 });
        }
        if bridged {
            self.layers.push(Layer::Bridged);
            self.ethernet(inner);
        }
        self.network(inner);
    }

    fn pptp(&mut self) {
        self.layers.push(Layer::Pptp);
        let flags: u16 = self.dice.pick(&[0x2001, 0x3001, 0x3081, 0x2081, 0x2001, 0x3081, 0x0001, 0xb081]);
        let protocol = if self.dice.one_in(12) { ethertype::IPV4 } else { ethertype::PPP };
        self.put16(flags);
        self.put16(protocol);
        for bit in [0x8000, 0x2000, 0x1000, 0x0080] {
            self.random(if flags & bit != 0 { 4 } else { 0 });
        }
        let (ppp, inner) = self.dice.pick(&[
            (0x0021, ip_protocol::IPV4),
            (0x0021, ip_protocol::IPV4),
            (0x0057, ip_protocol::IPV6),
            (0x0281, ip_protocol::MPLS),
            (0xc021, 0),
        ]);
        self.bytes.extend([0xff, 0x03]);
        self.put16(ppp);
        self.depth += 1;
        match inner {
            _ if self.depth > super::MAX_DEPTH => self.filler(Layer::Unknown, 40),
            ip_protocol::IPV4 => self.ipv4(),
            ip_protocol::IPV6 => self.ipv6(),
            _ => self.filler(Layer::Unknown, 40),
        }
    }
}
