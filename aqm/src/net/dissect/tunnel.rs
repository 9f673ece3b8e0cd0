//! Dissection of what wraps another packet: GRE and PPTP, PPPoE, batman-adv, HSR and PRP; and TIPC's key.

use super::{Next, Walk};
use crate::net::flow_keys::AddressKind;
use crate::net::headers::{array_at, ethertype};

/// GRE flag bits (RFC 2890, RFC 2637), of the first 16-bit word.
mod gre {
    pub(super) const CHECKSUM: u16 = 0x8000;
    pub(super) const ROUTING: u16 = 0x4000;
    pub(super) const KEY: u16 = 0x2000;
    pub(super) const SEQUENCE: u16 = 0x1000;
    pub(super) const ACKNOWLEDGEMENT: u16 = 0x0080;
    pub(super) const VERSION: u16 = 0x0007;
}

/// PPP protocol numbers.
mod ppp {
    pub(super) const IPV4: u16 = 0x0021;
    pub(super) const IPV6: u16 = 0x0057;
    pub(super) const MPLS_UNICAST: u16 = 0x0281;
    pub(super) const MPLS_MULTICAST: u16 = 0x0283;
}

/// The batman-adv unicast packet: its type, and the protocol version looked for.
const BATMAN_UNICAST: u8 = 0x40;
const BATMAN_VERSION: u8 = 15;

/// The bits of a TIPC header's first two bytes that all stand in a link probe.
const TIPC_PROBE: [u8; 2] = [0x0e, 0x08];

impl Walk<'_> {
    /// GRE versions 0 and 1. The record's EtherType becomes GRE's protocol as soon as that is believed.
    pub(super) fn gre(&mut self) -> Option<Next> {
        let [flags_high, flags_low, protocol @ ..] = *self.array::<4>(self.offset)?;
        let flags = u16::from_be_bytes([flags_high, flags_low]);
        let version = flags & gre::VERSION;
        if flags & gre::ROUTING != 0 || version > 1 {
            return Some(Next::Stop);
        }
        self.ethertype = u16::from_be_bytes(protocol);
        let pptp = version == 1;
        if pptp && (self.ethertype != ethertype::PPP || flags & gre::KEY == 0) {
            return Some(Next::Stop);
        }
        let mut offset = self.offset + 4;
        if flags & gre::CHECKSUM != 0 {
            offset += 4;
        }
        if flags & gre::KEY != 0 {
            let mut key = *self.array::<4>(offset)?;
            if pptp {
                // The first half is the payload length, the second the call.
                key[..2].fill(0);
            }
            self.keys.gre_key = u32::from_le_bytes(key);
            offset += 4;
        }
        if flags & gre::SEQUENCE != 0 {
            offset += 4;
        }
        if pptp {
            if flags & gre::ACKNOWLEDGEMENT != 0 {
                offset += 4;
            }
            // Address and control byte, then the protocol.
            let [_, _, protocol @ ..] = *self.array::<4>(offset)?;
            match u16::from_be_bytes(protocol) {
                ppp::IPV4 => self.ethertype = ethertype::IPV4,
                ppp::IPV6 => self.ethertype = ethertype::IPV6,
                _ => {}
            }
            offset += 4;
        } else if self.ethertype == ethertype::TRANSPARENT_ETHERNET {
            let ethernet: &[u8; 14] = array_at(self.bytes, offset)?;
            self.ethertype = u16::from_be_bytes([ethernet[12], ethernet[13]]);
            offset += 14;
        }
        self.offset = offset;
        Some(Next::Network)
    }

    /// A PPPoE session header and the PPP protocol behind it; one compressed to a byte is not understood.
    pub(super) fn pppoe(&mut self) -> Option<Next> {
        let [version_type, code, _, _, _, _, protocol @ ..] = *self.array::<8>(self.offset)?;
        if version_type != 0x11 || code != 0 {
            return None;
        }
        let protocol = u16::from_be_bytes(protocol);
        self.ethertype = match protocol {
            ppp::IPV4 => ethertype::IPV4,
            ppp::IPV6 => ethertype::IPV6,
            ppp::MPLS_UNICAST => ethertype::MPLS,
            ppp::MPLS_MULTICAST => ethertype::MPLS_MULTICAST,
            _ => return Some(Next::Stop),
        };
        self.offset += 8;
        Some(Next::Network)
    }

    /// A batman-adv unicast header (10 bytes) and the Ethernet header in it.
    pub(super) fn batman(&mut self) -> Option<Next> {
        let header: &[u8; 24] = array_at(self.bytes, self.offset)?;
        if header[0] != BATMAN_UNICAST || header[1] != BATMAN_VERSION {
            return None;
        }
        self.ethertype = u16::from_be_bytes([header[22], header[23]]);
        self.offset += 24;
        Some(Next::Network)
    }

    /// An HSR or PRP tag: path and size, sequence number, EtherType.
    pub(super) fn redundancy(&mut self) -> Option<Next> {
        let [_, _, _, _, ethertype @ ..] = *self.array::<6>(self.offset)?;
        self.ethertype = u16::from_be_bytes(ethertype);
        self.offset += 6;
        Some(Next::Network)
    }

    /// TIPC's key: the fourth word of its header, the sending node. Linux spreads link probes by a random key instead.
    pub(super) fn tipc(&mut self) -> Option<Next> {
        let header: &[u8; 16] = array_at(self.bytes, self.offset)?;
        self.keys.kind = AddressKind::Tipc;
        self.keys.addresses[0] = super::word(header, 12);
        let [first, second] = TIPC_PROBE;
        self.keys.random_tipc = header[0] & first == first && header[1] & second == second;
        Some(Next::Stop)
    }
}
