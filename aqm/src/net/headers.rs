//! A packet's header bytes as the queue disciplines see them, and the protocol numbers they look for.

/// EtherTypes (IEEE 802 numbers), in host order.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// B.A.T.M.A.N. advanced mesh frames.
    pub const BATMAN: u16 = 0x4305;
    /// Transparent Ethernet bridging: a whole Ethernet frame inside GRE.
    pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
    /// IEEE 802.1Q VLAN tag.
    pub const VLAN: u16 = 0x8100;
    /// PPP, as enhanced GRE (PPTP) carries it.
    pub const PPP: u16 = 0x880b;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS, unicast.
    pub const MPLS: u16 = 0x8847;
    /// MPLS, multicast.
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// PPPoE session.
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// IEEE 802.1ad service VLAN tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// TIPC.
    pub const TIPC: u16 = 0x88ca;
    /// Parallel Redundancy Protocol.
    pub const PRP: u16 = 0x88fb;
    /// High-availability Seamless Redundancy.
    pub const HSR: u16 = 0x892f;

    /// Whether a tag with this EtherType is a VLAN tag that is looked through (802.1Q or 802.1ad).
    #[inline]
    #[must_use]
    pub const fn is_vlan(ethertype: u16) -> bool {
        matches!(ethertype, VLAN | SERVICE_VLAN)
    }
}

/// IP protocol and IPv6 next-header numbers.
pub mod ip_protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// IPv4 in IP.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 in IP.
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// GRE.
    pub const GRE: u8 = 47;
    /// IPsec encapsulating security payload.
    pub const ESP: u8 = 50;
    /// IPsec authentication header.
    pub const AH: u8 = 51;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// MPLS in IP.
    pub const MPLS: u8 = 137;
}

/// The length of an untagged Ethernet header in bytes.
pub const ETHERNET_HEADER: usize = 14;

/// The length of an in-band VLAN tag in bytes.
pub const VLAN_TAG: usize = 4;

/// EtherTypes below this are lengths (IEEE 802.3).
const LEAST_ETHERTYPE: u16 = 0x0600;

/// What Linux calls the protocol of frames with a length: with an LLC header, and without (Novell's).
const LLC: u16 = 0x0004;
const RAW_802_3: u16 = 0x0001;

/// VLAN tags that [`Headers::ethernet`] looks through: as many headers as the flow dissector follows.
const MAX_TAGS: usize = 15;

/// A VLAN tag carried beside the frame, as a network card (or Linux's receive path) strips it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanTag {
    /// The tag's EtherType: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// The tag control information: priority (3 bits), DEI, VLAN id (12 bits).
    pub tci: u16,
    /// The EtherType that followed this tag, if that is another VLAN tag which [`Headers::network_offset`] already
    /// skips. `None` stands for [`Headers::ethertype`], which is all Linux knows.
    pub encapsulated: Option<u16>,
}

impl VlanTag {
    /// A tag directly before [`Headers::ethertype`].
    #[must_use]
    pub const fn new(tpid: u16, tci: u16) -> Self {
        Self { tpid, tci, encapsulated: None }
    }

    /// The VLAN id, 0 to 4095.
    #[must_use]
    pub const fn id(self) -> u16 {
        self.tci & 0x0fff
    }

    /// The priority code point, 0 to 7.
    #[must_use]
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }
}

/// Header bytes of one packet and where to start in them (spec/cake.md §3.1).
///
/// `bytes` begins with the link-layer header and holds at least the headers; bytes beyond its end count as missing,
/// exactly as a truncated packet. Nothing is assumed of the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers<'a> {
    /// From the start of the link-layer header.
    pub bytes: &'a [u8],
    /// Where the network header starts in `bytes`: 14 on untagged Ethernet. The dissector starts here; if
    /// `ethertype` is a VLAN type, it expects the tag control information here.
    pub network_offset: usize,
    /// The packet's protocol as Linux keeps it with the packet (`skb->protocol`), in host order.
    pub ethertype: u16,
    /// The outermost VLAN tag, if it is kept beside the frame.
    pub vlan: Option<VlanTag>,
}

impl<'a> Headers<'a> {
    /// Headers without a VLAN tag beside the frame.
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8], network_offset: usize, ethertype: u16) -> Self {
        Self { bytes, network_offset, ethertype, vlan: None }
    }

    /// The headers of an Ethernet frame (without FCS): EtherType and network offset behind all VLAN tags, the
    /// outermost of which is taken for the tag beside the frame, as Linux does on receipt. Behind more than 15 tags
    /// nothing is known, and in a frame without a whole Ethernet header neither: EtherType 0.
    #[must_use]
    pub fn ethernet(bytes: &'a [u8]) -> Self {
        let mut found = Self::new(bytes, ETHERNET_HEADER, protocol(bytes, 12));
        for _ in 0..MAX_TAGS {
            if !ethertype::is_vlan(found.ethertype) {
                return found;
            }
            let at = found.network_offset;
            let (Some(tci), Some(_)) = (be16_at(bytes, at), be16_at(bytes, at + 2)) else { return found };
            let next = protocol(bytes, at + 2);
            let outermost = VlanTag { encapsulated: Some(next), ..VlanTag::new(found.ethertype, tci) };
            found.vlan = found.vlan.or(Some(outermost));
            found.network_offset = at + VLAN_TAG;
            found.ethertype = next;
        }
        if ethertype::is_vlan(found.ethertype) {
            found.ethertype = 0;
        }
        found
    }

    /// The same headers with a VLAN tag beside the frame.
    #[must_use]
    pub const fn with_vlan(mut self, tag: VlanTag) -> Self {
        self.vlan = Some(tag);
        self
    }

    /// The bytes from the network header on; empty if the packet ends before.
    #[inline]
    #[must_use]
    pub fn network(&self) -> &'a [u8] {
        self.bytes.get(self.network_offset..).unwrap_or(&[])
    }
}

/// `N` bytes at `offset`, if they are there.
#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}

/// The big-endian 16-bit number at `offset`, if it is there.
#[inline]
pub(crate) fn be16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(|word| u16::from_be_bytes(*word))
}

/// The EtherType at `offset`, or Linux's name for frames that have a length there; 0 if the frame ends before.
fn protocol(bytes: &[u8], offset: usize) -> u16 {
    match be16_at(bytes, offset) {
        Some(ethertype) if ethertype >= LEAST_ETHERTYPE => ethertype,
        Some(_) if be16_at(bytes, offset + 2) == Some(0xffff) => RAW_802_3,
        Some(_) => LLC,
        None => 0,
    }
}
