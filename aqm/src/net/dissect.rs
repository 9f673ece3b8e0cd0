//! The flow dissector (spec/common.md §8.1, spec/cake.md A.3): from header bytes to [`FlowKeys`].
//!
//! fq_codel, fq_pie, fq and sfq dissect as common.md says and CAKE as its Appendix A says: the same walk, so there is
//! one function. It follows tunnels inwards and keeps what it stored when it has to stop: a damaged packet still
//! hashes to something, and Linux's something.

use super::flow_keys::{AddressKind, FlowKeys, VlanKey};
use super::headers::{Headers, VlanTag, array_at, ethertype, ip_protocol};
use super::siphash::SipKey;

mod tunnel;

#[cfg(test)]
mod tests;

/// Headers beyond the first network header that are followed at most.
const MAX_HEADERS: u32 = 15;

/// Dissects a packet. Never fails: what could not be read stays zero.
#[inline]
#[must_use]
pub fn dissect(headers: &Headers<'_>) -> FlowKeys {
    match plain(headers) {
        Some(keys) => keys,
        None => walk(headers),
    }
}

/// The general way.
fn walk(headers: &Headers<'_>) -> FlowKeys {
    let mut walk = Walk {
        bytes: headers.bytes,
        offset: headers.network_offset,
        ethertype: headers.vlan.map_or(headers.ethertype, |tag| tag.tpid),
        keys: FlowKeys::default(),
        steps: 0,
    };
    walk.run(headers);
    walk.keys.ethertype = walk.ethertype;
    walk.keys
}

/// The flow hash of a packet: [`dissect`], then [`FlowKeys::hash`].
#[must_use]
pub fn flow_hash(headers: &Headers<'_>, key: &SipKey) -> u32 {
    dissect(headers).hash(key)
}

/// The common case: TCP or UDP directly behind an IP header without options, unfragmented, perhaps with a tag beside
/// the frame. One bounds check for each kind.
#[inline]
fn plain(headers: &Headers<'_>) -> Option<FlowKeys> {
    let vlan = match headers.vlan {
        None => None,
        Some(tag) if ethertype::is_vlan(tag.tpid) => Some(beside(headers, tag)),
        Some(_) => return None,
    };
    let mut keys = FlowKeys { ethertype: headers.ethertype, vlan, ..FlowKeys::default() };
    match headers.ethertype {
        ethertype::IPV4 => {
            let header: &[u8; 24] = array_at(headers.bytes, headers.network_offset)?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & IPV4_FRAGMENT != 0;
            if header[0] & 0x0f != 5 || fragment || !has_plain_ports(header[9]) {
                return None;
            }
            keys.kind = AddressKind::Ipv4;
            keys.ip_protocol = header[9];
            keys.ports = word(header, 20);
            keys.addresses[0] = word(header, 12);
            keys.addresses[1] = word(header, 16);
        }
        ethertype::IPV6 => {
            let header: &[u8; 44] = array_at(headers.bytes, headers.network_offset)?;
            let label = word(header, 0) & IPV6_LABEL;
            if label != 0 || !has_plain_ports(header[6]) {
                return None;
            }
            keys.kind = AddressKind::Ipv6;
            keys.ip_protocol = header[6];
            keys.ports = word(header, 40);
            for (index, address) in keys.addresses.iter_mut().enumerate() {
                *address = word(header, 8 + 4 * index);
            }
        }
        _ => return None,
    }
    Some(keys)
}

#[inline]
const fn has_plain_ports(protocol: u8) -> bool {
    matches!(protocol, ip_protocol::TCP | ip_protocol::UDP)
}

/// The record's part for a tag beside the frame.
#[inline]
fn beside(headers: &Headers<'_>, tag: VlanTag) -> VlanKey {
    let encapsulated = tag.encapsulated.unwrap_or(headers.ethertype);
    VlanKey { id: tag.id(), priority: tag.priority(), tpid: tag.tpid, encapsulated }
}

/// More-fragments flag or a fragment offset.
const IPV4_FRAGMENT: u16 = 0x3fff;

/// The flow label in the first four bytes of an IPv6 header, as [`word`] reads them.
const IPV6_LABEL: u32 = 0x000f_ffff_u32.swap_bytes();

/// What follows one header.
enum Next {
    /// The network layer named by [`Walk::ethertype`].
    Network,
    /// The protocol named by [`FlowKeys::ip_protocol`].
    Transport,
    /// Nothing more is looked at.
    Stop,
}

struct Walk<'a> {
    bytes: &'a [u8],
    offset: usize,
    ethertype: u16,
    keys: FlowKeys,
    steps: u32,
}

impl Walk<'_> {
    fn run(&mut self, headers: &Headers<'_>) {
        let mut next = self.network(headers).unwrap_or(Next::Stop);
        loop {
            next = match next {
                Next::Stop => return,
                Next::Network => {
                    if !self.may_go_on() {
                        return;
                    }
                    self.network(headers).unwrap_or(Next::Stop)
                }
                Next::Transport => self.transport(),
            };
        }
    }

    /// Counts one more header. The headers directly behind an IP header are not counted.
    fn may_go_on(&mut self) -> bool {
        self.steps += 1;
        self.steps <= MAX_HEADERS
    }

    fn array<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        array_at(self.bytes, offset)
    }

    /// One network-layer header; `None` if bytes are missing or wrong.
    fn network(&mut self, headers: &Headers<'_>) -> Option<Next> {
        match self.ethertype {
            ethertype::IPV4 => self.ipv4(),
            ethertype::IPV6 => self.ipv6(),
            ethertype::VLAN | ethertype::SERVICE_VLAN => self.vlan(headers),
            ethertype::PPPOE_SESSION => self.pppoe(),
            ethertype::TIPC => self.tipc(),
            ethertype::BATMAN => self.batman(),
            ethertype::HSR | ethertype::PRP => self.redundancy(),
            // MPLS, ARP, unknown EtherTypes.
            _ => Some(Next::Stop),
        }
    }

    fn ipv4(&mut self) -> Option<Next> {
        let header: &[u8; 20] = array_at(self.bytes, self.offset)?;
        let words = usize::from(header[0] & 0x0f);
        if words < 5 {
            return None;
        }
        self.keys.ip_protocol = header[9];
        self.keys.kind = AddressKind::Ipv4;
        self.keys.addresses[0] = word(header, 12);
        self.keys.addresses[1] = word(header, 16);
        if u16::from_be_bytes([header[6], header[7]]) & IPV4_FRAGMENT != 0 {
            self.keys.fragment = true;
            return Some(Next::Stop);
        }
        self.offset += 4 * words;
        Some(Next::Transport)
    }

    fn ipv6(&mut self) -> Option<Next> {
        let header: &[u8; 40] = array_at(self.bytes, self.offset)?;
        self.keys.ip_protocol = header[6];
        self.keys.kind = AddressKind::Ipv6;
        for (index, address) in self.keys.addresses.iter_mut().enumerate() {
            *address = word(header, 8 + 4 * index);
        }
        let label = (word(header, 0) & IPV6_LABEL).swap_bytes();
        if label != 0 {
            self.keys.flow_label = label;
            return Some(Next::Stop);
        }
        self.offset += 40;
        Some(Next::Transport)
    }

    fn vlan(&mut self, headers: &Headers<'_>) -> Option<Next> {
        let tpid = self.ethertype;
        // The tag beside the frame is the outermost one, so it is met first, and only once.
        if let (Some(tag), None) = (headers.vlan, self.keys.vlan) {
            self.keys.vlan = Some(beside(headers, tag));
            self.ethertype = headers.ethertype;
            return Some(Next::Network);
        }
        let [tci_high, tci_low, encapsulated @ ..] = *self.array::<4>(self.offset)?;
        let tag = VlanTag::new(tpid, u16::from_be_bytes([tci_high, tci_low]));
        let encapsulated = u16::from_be_bytes(encapsulated);
        self.offset += 4;
        self.ethertype = encapsulated;
        if self.keys.vlan.is_none() {
            self.keys.vlan = Some(VlanKey { id: tag.id(), priority: tag.priority(), tpid, encapsulated });
        }
        Some(Next::Network)
    }

    /// One header behind an IP header, then the ports of whatever protocol is known by then.
    fn transport(&mut self) -> Next {
        let next = match self.keys.ip_protocol {
            ip_protocol::TCP | ip_protocol::UDP => Some(Next::Stop),
            ip_protocol::IPV4 => Some(self.inner(ethertype::IPV4)),
            ip_protocol::IPV6 => Some(self.inner(ethertype::IPV6)),
            ip_protocol::MPLS => Some(self.inner(ethertype::MPLS)),
            ip_protocol::GRE => self.gre(),
            ip_protocol::HOP_BY_HOP | ip_protocol::ROUTING | ip_protocol::DESTINATION_OPTIONS
                if self.ethertype == ethertype::IPV6 =>
            {
                self.extension()
            }
            ip_protocol::FRAGMENT if self.ethertype == ethertype::IPV6 => self.fragment(),
            _ => Some(Next::Stop),
        };
        if !self.keys.fragment {
            self.keys.ports = self.ports();
        }
        match next {
            Some(Next::Transport) if !self.may_go_on() => Next::Stop,
            Some(next) => next,
            None => Next::Stop,
        }
    }

    fn inner(&mut self, ethertype: u16) -> Next {
        self.ethertype = ethertype;
        Next::Network
    }

    fn extension(&mut self) -> Option<Next> {
        let [next_header, length] = *self.array(self.offset)?;
        self.keys.ip_protocol = next_header;
        self.offset += (usize::from(length) + 1) * 8;
        Some(Next::Transport)
    }

    fn fragment(&mut self) -> Option<Next> {
        self.keys.fragment = true;
        let [next_header, ..] = *self.array::<8>(self.offset)?;
        self.keys.ip_protocol = next_header;
        Some(Next::Stop)
    }

    /// The four bytes where this protocol has its ports (or its SPI), in wire order.
    fn ports(&self) -> u32 {
        let offset = match self.keys.ip_protocol {
            ip_protocol::TCP
            | ip_protocol::UDP
            | ip_protocol::DCCP
            | ip_protocol::ESP
            | ip_protocol::SCTP
            | ip_protocol::UDP_LITE => 0,
            ip_protocol::AH => 4,
            _ => return 0,
        };
        self.array(self.offset + offset).map_or(0, |ports| u32::from_le_bytes(*ports))
    }
}

/// Four bytes of a header in wire order.
#[inline]
fn word<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
