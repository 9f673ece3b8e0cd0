//! What the dissector found in a packet, and its hash (spec/common.md §8.2 and §8.3, spec/cake.md A.1, A.2, A.5).

use super::siphash::{SipKey, State, siphash_words, siphash_words_and_half};

/// Which kind of addresses a dissected packet has. It decides how much of the record is hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddressKind {
    /// None was reached: 40 bytes are hashed.
    #[default]
    None,
    /// IPv4: 48 bytes.
    Ipv4,
    /// IPv6: 72 bytes.
    Ipv6,
    /// A four-byte TIPC key: 44 bytes.
    Tipc,
}

/// The VLAN part of the record: the outermost tag and what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanKey {
    /// VLAN id, 12 bits.
    pub id: u16,
    /// Priority code point, 3 bits.
    pub priority: u8,
    /// The tag's own EtherType, host order.
    pub tpid: u16,
    /// The EtherType after the tag, host order.
    pub encapsulated: u16,
}

/// The fields that identify a flow.
///
/// Addresses live in one 32-byte area which an inner packet overwrites as far as it reaches, as in Linux: that makes
/// the four bytes behind inner IPv4 addresses part of the hash (spec/common.md §8.2).
///
/// Words are kept in wire order: `u32::from_le_bytes` of the bytes as they stand in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowKeys {
    pub(super) ethertype: u16,
    pub(super) ip_protocol: u8,
    pub(super) kind: AddressKind,
    pub(super) fragment: bool,
    pub(super) random_tipc: bool,
    pub(super) vlan: Option<VlanKey>,
    pub(super) flow_label: u32,
    /// Wire order.
    pub(super) gre_key: u32,
    /// Wire order: source port in the low half.
    pub(super) ports: u32,
    /// Wire order.
    pub(super) addresses: [u32; 8],
}

/// The number of key bytes at most.
pub const MAX_KEY_BYTES: usize = 72;

impl FlowKeys {
    /// The EtherType of the last network layer reached.
    #[must_use]
    pub const fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// The IP protocol or last IPv6 next header seen; 0 if none.
    #[must_use]
    pub const fn ip_protocol(&self) -> u8 {
        self.ip_protocol
    }

    /// Which addresses there are.
    #[must_use]
    pub const fn address_kind(&self) -> AddressKind {
        self.kind
    }

    /// Whether dissection ended at a fragment, first ones included.
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.fragment
    }

    /// The outermost VLAN tag.
    #[must_use]
    pub const fn vlan(&self) -> Option<VlanKey> {
        self.vlan
    }

    /// The 20-bit IPv6 flow label; 0 if none.
    #[must_use]
    pub const fn flow_label(&self) -> u32 {
        self.flow_label
    }

    /// The GRE key as a number; 0 if none.
    #[must_use]
    pub const fn gre_key(&self) -> u32 {
        self.gre_key.swap_bytes()
    }

    /// Source and destination port as numbers; both 0 if there are none.
    #[must_use]
    pub const fn ports(&self) -> (u16, u16) {
        ((self.ports as u16).swap_bytes(), ((self.ports >> 16) as u16).swap_bytes())
    }

    /// Whether the four port bytes are not all zero: only then NAT may replace them (spec/cake.md Appendix B).
    #[must_use]
    pub const fn has_ports(&self) -> bool {
        self.ports != 0
    }

    /// Source and destination address of an IPv4 packet.
    #[must_use]
    pub const fn ipv4(&self) -> Option<([u8; 4], [u8; 4])> {
        match self.kind {
            AddressKind::Ipv4 => Some((self.addresses[0].to_le_bytes(), self.addresses[1].to_le_bytes())),
            _ => None,
        }
    }

    /// Source and destination address of an IPv6 packet.
    #[must_use]
    pub fn ipv6(&self) -> Option<([u8; 16], [u8; 16])> {
        (self.kind == AddressKind::Ipv6).then(|| (self.address(0), self.address(4)))
    }

    /// The TIPC key as it stands in the packet.
    #[must_use]
    pub fn tipc(&self) -> Option<[u8; 4]> {
        (self.kind == AddressKind::Tipc).then(|| self.addresses[0].to_le_bytes())
    }

    /// Whether Linux hashes this packet with a random key: so it does for TIPC's link probes, drawing 32 bits for each
    /// dissection. Whoever wants that draws and calls [`FlowKeys::set_tipc`]; otherwise the key is the sending node,
    /// as for other TIPC packets.
    #[must_use]
    pub const fn wants_random_tipc(&self) -> bool {
        self.random_tipc
    }

    /// Overwrites the key of a TIPC packet; other address kinds are left alone.
    pub const fn set_tipc(&mut self, key: [u8; 4]) {
        if matches!(self.kind, AddressKind::Tipc) {
            self.addresses[0] = u32::from_le_bytes(key);
        }
    }

    /// Overwrites the addresses of an IPv4 packet, as CAKE does from a connection-tracking entry
    /// (spec/cake.md Appendix B). Returns whether anything changed; other address kinds are left alone.
    pub const fn set_ipv4(&mut self, source: [u8; 4], destination: [u8; 4]) -> bool {
        if !matches!(self.kind, AddressKind::Ipv4) {
            return false;
        }
        let new = [u32::from_le_bytes(source), u32::from_le_bytes(destination)];
        let changed = self.addresses[0] != new[0] || self.addresses[1] != new[1];
        self.addresses[0] = new[0];
        self.addresses[1] = new[1];
        changed
    }

    /// Overwrites the ports if the packet has any ([`FlowKeys::has_ports`]). Returns whether anything changed.
    pub const fn set_ports(&mut self, source: u16, destination: u16) -> bool {
        let new = source.swap_bytes() as u32 | (destination.swap_bytes() as u32) << 16;
        let changed = self.has_ports() && self.ports != new;
        if changed {
            self.ports = new;
        }
        changed
    }

    /// The flow hash: the low half of SipHash-2-4 over the record, with 1 in place of 0. Both directions of a
    /// connection hash alike (spec/common.md §8.2 and §8.3).
    #[must_use]
    pub fn hash(&self, key: &SipKey) -> u32 {
        let [w0, w1, w2, w3, w4, w5, w6, w7, w8] = self.sorted().words();
        let hash = match self.kind {
            AddressKind::Ipv4 => siphash_words(key, &[w0, w1, w2, w3, w4, w5]),
            AddressKind::Ipv6 => siphash_words(key, &[w0, w1, w2, w3, w4, w5, w6, w7, w8]),
            AddressKind::Tipc => siphash_words_and_half(key, &[w0, w1, w2, w3, w4], Some(w5 as u32)),
            AddressKind::None => siphash_words(key, &[w0, w1, w2, w3, w4]),
        };
        nonzero(hash)
    }

    /// CAKE's host hashes (spec/cake.md A.5): of the packet's network and VLAN with one address only. An address
    /// hashes alike as source and as destination. Both are 0 without IPv4 or IPv6 addresses.
    #[must_use]
    pub fn host_hashes(&self, key: &SipKey) -> HostHashes {
        let [w0, w1, ..] = self.words();
        // Only the EtherType stays of the first word; ports and GRE key are gone.
        let common = State::new(key).absorb(w0 & 0xffff).absorb(w1).absorb(0).absorb(0).absorb(0);
        // The zeroed address sorts into the source place, so the other stands in the destination place.
        let a = &self.addresses;
        match self.kind {
            AddressKind::Ipv4 => {
                let one = |address: u32| nonzero(common.absorb(pair(address, a[2])).absorb(48 << 56).finish());
                HostHashes { source: one(a[0]), destination: one(a[1]) }
            }
            AddressKind::Ipv6 => {
                let common = common.absorb(0);
                let one = |address: &[u32]| {
                    let tail = common
                        .absorb(pair(0, address[0]))
                        .absorb(pair(address[1], address[2]))
                        .absorb(u64::from(address[3]));
                    nonzero(tail.absorb(72 << 56).finish())
                };
                HostHashes { source: one(&a[..4]), destination: one(&a[4..]) }
            }
            AddressKind::Tipc | AddressKind::None => HostHashes::default(),
        }
    }

    /// The record of which cake hashes the source host: its address alone, in the packet's network and VLAN
    /// (spec/cake.md A.5).
    #[must_use]
    pub fn source_host(&self) -> Self {
        self.one_host(4)
    }

    /// As [`FlowKeys::source_host`], of the destination.
    #[must_use]
    pub fn destination_host(&self) -> Self {
        self.one_host(0)
    }

    /// Only hosts' fields, without the address of which the IPv6 form starts at this word.
    fn one_host(&self, without: usize) -> Self {
        let mut host = Self { ip_protocol: 0, flow_label: 0, gre_key: 0, ports: 0, ..*self };
        match self.kind {
            AddressKind::Ipv4 => host.addresses[without / 4] = 0,
            AddressKind::Ipv6 => host.addresses[without..without + 4].fill(0),
            AddressKind::Tipc | AddressKind::None => {}
        }
        host
    }

    /// The bytes that are hashed, after sorting (spec/common.md §8.2), and how many of them count.
    #[must_use]
    pub fn key_bytes(&self) -> ([u8; MAX_KEY_BYTES], usize) {
        let mut bytes = [0; MAX_KEY_BYTES];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.sorted().words()) {
            *to = word.to_le_bytes();
        }
        let length = match self.kind {
            AddressKind::None => 40,
            AddressKind::Tipc => 44,
            AddressKind::Ipv4 => 48,
            AddressKind::Ipv6 => 72,
        };
        bytes[length..].fill(0);
        (bytes, length)
    }

    fn address(&self, first: usize) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(&self.addresses[first..]) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// Makes both directions equal: addresses and ports are swapped, each pair on its own, if the destination is
    /// smaller. IPv4 addresses and ports compare as little-endian numbers of their wire bytes, IPv6 bytewise.
    #[inline]
    fn sorted(mut self) -> Self {
        match self.kind {
            AddressKind::Ipv4 => {
                if self.addresses[1] < self.addresses[0] {
                    self.addresses.swap(0, 1);
                }
            }
            AddressKind::Ipv6 => {
                if self.address(4) < self.address(0) {
                    self.addresses.rotate_left(4);
                }
            }
            AddressKind::Tipc | AddressKind::None => return self,
        }
        if self.ports >> 16 < self.ports & 0xffff {
            self.ports = self.ports.rotate_left(16);
        }
        self
    }

    /// The record as little-endian words.
    #[inline]
    fn words(&self) -> [u64; 9] {
        let head = u32::from(self.ethertype.swap_bytes()) | u32::from(self.ip_protocol) << 16;
        let vlan = match self.vlan {
            None => 0,
            Some(tag) => {
                u64::from(tag.id & 0x0fff | u16::from(tag.priority) << 13)
                    | u64::from(tag.tpid.swap_bytes()) << 16
                    | u64::from(tag.encapsulated.swap_bytes()) << 32
            }
        };
        let a = &self.addresses;
        [
            pair(head, self.flow_label),
            vlan,
            0,
            pair(self.gre_key, self.ports),
            pair(0, a[0]),
            pair(a[1], a[2]),
            pair(a[3], a[4]),
            pair(a[5], a[6]),
            pair(a[7], 0),
        ]
    }
}

/// CAKE's hashes of the two hosts of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostHashes {
    /// Of the source address.
    pub source: u32,
    /// Of the destination address.
    pub destination: u32,
}

#[inline]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn nonzero(hash: u64) -> u32 {
    (hash as u32).max(1)
}
