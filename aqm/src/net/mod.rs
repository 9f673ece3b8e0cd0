//! Header bytes: what queue disciplines read from frames and write into them.

/// The 128-bit key of the flow hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SipKey(pub [u64; 2]);

/// A VLAN tag carried outside the frame, as hardware hands it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// Priority (bits 13–15), drop eligibility (bit 12), id (bits 0–11).
    pub tci: u16,
}

/// The linear bytes of a packet, with what the stack knows about them.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// Bytes from the start of the link-layer header.
    pub bytes: &'a [u8],
    /// Offset of the network header in `bytes`.
    pub network_offset: usize,
    /// The packet's protocol, an EtherType.
    pub ethertype: u16,
    /// The outermost VLAN tag, if it is not in `bytes`.
    pub vlan: Option<VlanTag>,
}
