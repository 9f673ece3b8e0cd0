//! What follows an IP header, except tunnels.

extern crate alloc;

use super::{Layer, MAX_DEPTH, Writer};
use crate::net::headers::ip_protocol;

impl Writer<'_, '_> {
    pub(super) fn any_protocol(&mut self) -> u8 {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return ip_protocol::UDP;
        }
        match self.dice.below(40) {
            0..=9 => ip_protocol::TCP,
            10..=15 => ip_protocol::UDP,
            16 => ip_protocol::DCCP,
            17 => ip_protocol::SCTP,
            18 => ip_protocol::UDP_LITE,
            19 => ip_protocol::ESP,
            20 => ip_protocol::AH,
            21 | 22 => self.dice.pick(&[1, 58]),
            23 | 24 => ip_protocol::IPV4,
            25 | 26 => ip_protocol::IPV6,
            27..=30 => ip_protocol::GRE,
            31 => ip_protocol::MPLS,
            32..=36 => self.dice.pick(&[
                ip_protocol::HOP_BY_HOP,
                ip_protocol::ROUTING,
                ip_protocol::DESTINATION_OPTIONS,
                ip_protocol::DESTINATION_OPTIONS,
            ]),
            37 => ip_protocol::FRAGMENT,
            _ => self.dice.byte(),
        }
    }

    pub(super) fn transport(&mut self, protocol: u8, in_ipv6: bool) {
        match protocol {
            ip_protocol::IPV4 => self.ipv4(),
            ip_protocol::IPV6 => self.ipv6(),
            ip_protocol::GRE => self.gre(),
            ip_protocol::HOP_BY_HOP | ip_protocol::ROUTING | ip_protocol::DESTINATION_OPTIONS if in_ipv6 => {
                self.extension();
            }
            ip_protocol::FRAGMENT if in_ipv6 => self.fragment_header(),
            ip_protocol::TCP => {
                let payload = self.dice.below(100);
                self.l4_with(protocol, payload);
            }
            ip_protocol::UDP => {
                let payload = self.dice.below(100);
                self.l4_with(protocol, payload);
            }
            ip_protocol::DCCP | ip_protocol::SCTP | ip_protocol::UDP_LITE | ip_protocol::ESP => {
                self.layers.push(Layer::Ports);
                self.ports();
                self.random(20);
            }
            ip_protocol::AH => self.filler(Layer::Ah, 24),
            _ => self.filler(Layer::NoPorts, 24),
        }
    }

    fn ports(&mut self) {
        for _ in 0..2 {
            let port = if self.dice.one_in(8) { self.dice.u16() } else { self.dice.pick(&[80, 443, 0x0100, 0x0001]) };
            self.put16(port);
        }
    }

    /// A TCP or UDP header and payload.
    pub(super) fn l4_with(&mut self, protocol: u8, payload: usize) {
        if protocol == ip_protocol::TCP {
            self.layers.push(Layer::Tcp);
            self.ports();
            self.random(8);
            let options = self.tcp_options();
            let flags = if self.dice.one_in(4) { self.dice.u16() & 0x0fff } else { self.dice.pick(&[0x10, 0x18]) };
            self.put16((5 + options.len() as u16 / 4) << 12 | flags);
            self.random(6);
            self.bytes.extend(options);
        } else {
            self.layers.push(Layer::Ports);
            self.ports();
            self.put16((payload + 8) as u16);
            self.random(2);
        }
        // The content only matters for checksums.
        let seed = self.dice.byte();
        self.bytes.extend((0..payload).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)));
    }

    fn tcp_options(&mut self) -> alloc::vec::Vec<u8> {
        let mut options = alloc::vec::Vec::new();
        match self.dice.below(4) {
            0 => {}
            1 => {
                options.extend([1, 1, 8, 10]);
                options.extend(self.dice.u32().to_be_bytes());
                options.extend(self.dice.u32().to_be_bytes());
            }
            2 => {
                let blocks = 1 + self.dice.below(3);
                options.extend([1, 1, 5, 2 + 8 * blocks as u8]);
                options.extend((0..8 * blocks).map(|_| self.dice.byte()));
            }
            _ => options.extend((0..4 * self.dice.below(11)).map(|_| self.dice.byte())),
        }
        options
    }

    fn extension(&mut self) {
        let next = self.any_protocol();
        let length = if self.dice.one_in(8) { self.dice.below(4) } else { 0 };
        self.extension_header(next, length);
        self.transport(next, true);
    }

    /// An extension header of `8 + 8 * length` bytes with random content.
    pub(super) fn extension_header(&mut self, next: u8, length: usize) {
        self.layers.push(Layer::Extension);
        self.bytes.extend([next, length as u8]);
        self.random(6 + 8 * length);
    }

    fn fragment_header(&mut self) {
        self.layers.push(Layer::Ipv6Fragment);
        let next = self.any_protocol();
        let offset = self.dice.pick(&[0x0000, 0x0001, 0x0008, 0xfff9]);
        self.bytes.extend([next, 0]);
        self.put16(offset);
        self.random(4);
        self.transport(next, true);
    }
}
