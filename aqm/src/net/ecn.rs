//! The ECN field and the DS field of the outer IP header: reading, CE marking (spec/common.md §7, spec/cake.md
//! Appendix C) and CAKE's DSCP reading and washing (spec/cake.md §8.3).
//!
//! Each function takes the packet's bytes from the link-layer header on, the offset of the IP header, and the
//! packet's EtherType, as [`Headers`](super::Headers) has them. If that EtherType is a VLAN's, the tags before the IP
//! header are looked through ([`ethertype_after_vlans`]); the IP header is taken from the offset all the same.

use super::headers::{ETHERNET_HEADER, VLAN_TAG, array_at, be16_at, ethertype};

/// The four ECN codepoints (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    NotEct = 0,
    /// ECN-capable, L4S.
    Ect1 = 1,
    /// ECN-capable.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The codepoint in the low two bits of a DS field.
    #[inline]
    #[must_use]
    pub const fn of(ds_field: u8) -> Self {
        match ds_field & ECN_MASK {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

const ECN_MASK: u8 = 3;

/// How many VLAN tags are looked through.
const MAX_VLAN_DEPTH: usize = 7;

/// The EtherType after all in-band VLAN tags; `None` if there are too many or the frame ends in them.
///
/// Linux starts four bytes before the network header, so that with a network header directly behind the Ethernet
/// header the first of the seven looks finds the frame's own EtherType (docs/spec-errata.md).
#[inline]
#[must_use]
pub fn ethertype_after_vlans(bytes: &[u8], network_offset: usize, ethertype: u16) -> Option<u16> {
    if ethertype::is_vlan(ethertype) { behind_tags(bytes, network_offset) } else { Some(ethertype) }
}

#[cold]
fn behind_tags(bytes: &[u8], network_offset: usize) -> Option<u16> {
    let start = if network_offset == 0 { ETHERNET_HEADER } else { network_offset.checked_sub(VLAN_TAG)? };
    (0..MAX_VLAN_DEPTH)
        .map(|depth| be16_at(bytes, start + VLAN_TAG * depth + 2))
        .find(|found| !found.is_some_and(ethertype::is_vlan))?
}

/// The 8-bit DS field: IPv4's TOS or IPv6's traffic class. `None` for other packets, and unless the whole basic
/// header (20 or 40 bytes) is there.
#[inline]
#[must_use]
pub fn ds_field(bytes: &[u8], network_offset: usize, ethertype: u16) -> Option<u8> {
    match ethertype_after_vlans(bytes, network_offset, ethertype)? {
        ethertype::IPV4 => array_at::<20>(bytes, network_offset).map(|header| header[1]),
        ethertype::IPV6 => array_at::<40>(bytes, network_offset).map(|header| traffic_class(header[0], header[1])),
        _ => None,
    }
}

/// The ECN codepoint; `None` where [`ds_field`] finds none.
#[inline]
#[must_use]
pub fn ecn(bytes: &[u8], network_offset: usize, ethertype: u16) -> Option<Ecn> {
    ds_field(bytes, network_offset, ethertype).map(Ecn::of)
}

/// What [`mark_ce`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Nothing: the packet is not ECN-capable, not IP, or cut short.
    Failed,
    /// Nothing, since it carried CE already. Counts as a successful mark.
    Already,
    /// The packet now carries CE.
    Marked {
        /// By how much the Internet checksum's sum over the whole packet, taken as big-endian words, has grown. 0 for
        /// IPv4, whose header checksum makes up for the mark. A checksum that a network card computed over the packet
        /// is adjusted by this.
        sum_growth: u16,
    },
}

/// Marks the packet CE if it is ECN-capable. True if it carries CE afterwards, also if it did before.
#[inline]
pub fn try_mark_ce(bytes: &mut [u8], network_offset: usize, ethertype: u16) -> bool {
    mark_ce(bytes, network_offset, ethertype) != Mark::Failed
}

/// Marks the packet CE if it is ECN-capable, and says what changed.
#[inline]
pub fn mark_ce(bytes: &mut [u8], network_offset: usize, ethertype: u16) -> Mark {
    match ethertype_after_vlans(bytes, network_offset, ethertype) {
        Some(ethertype::IPV4) => header_mut(bytes, network_offset).map_or(Mark::Failed, mark_ipv4),
        Some(ethertype::IPV6) => header_mut(bytes, network_offset).map_or(Mark::Failed, mark_ipv6),
        _ => Mark::Failed,
    }
}

fn mark_ipv4(header: &mut [u8; 20]) -> Mark {
    let growth = match Ecn::of(header[1]) {
        Ecn::NotEct => return Mark::Failed,
        Ecn::Ce => return Mark::Already,
        Ecn::Ect1 => 2,
        Ecn::Ect0 => 1,
    };
    header[1] |= ECN_MASK;
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    // The word grew, so the checksum, its complement, shrinks: in ones' complement, the inverse is added.
    let (sum, carry) = checksum.overflowing_add(!growth);
    header[10..12].copy_from_slice(&sum.wrapping_add(carry.into()).to_be_bytes());
    Mark::Marked { sum_growth: 0 }
}

fn mark_ipv6(header: &mut [u8; 40]) -> Mark {
    let before = Ecn::of(traffic_class(header[0], header[1]));
    header[1] |= match before {
        Ecn::NotEct => return Mark::Failed,
        Ecn::Ce => return Mark::Already,
        Ecn::Ect1 | Ecn::Ect0 => ECN_MASK << 4,
    };
    Mark::Marked { sum_growth: u16::from(ECN_MASK - before as u8) << 4 }
}

/// The DSCP as CAKE reads it (spec/cake.md §8.3): from the first two bytes of the header, whatever follows. ARP
/// counts as 56 (CS7), anything else that is not IP as 0.
#[inline]
#[must_use]
pub fn cake_dscp(bytes: &[u8], network_offset: usize, ethertype: u16) -> u8 {
    let after_vlans = ethertype_after_vlans(bytes, network_offset, ethertype);
    let ds_field = match (after_vlans, array_at::<2>(bytes, network_offset)) {
        (Some(ethertype::IPV4), Some(header)) => header[1],
        (Some(ethertype::IPV6), Some(header)) => traffic_class(header[0], header[1]),
        (Some(ethertype::ARP), _) => return 56,
        _ => 0,
    };
    ds_field >> 2
}

/// Reads the DSCP like [`cake_dscp`], then clears it in the packet; ECN stays. A packet whose DSCP is not zero but
/// whose basic IP header is not all there is left alone and read as 0.
pub fn cake_wash(bytes: &mut [u8], network_offset: usize, ethertype: u16) -> u8 {
    let dscp = cake_dscp(bytes, network_offset, ethertype);
    if dscp == 0 {
        return 0;
    }
    match ethertype_after_vlans(bytes, network_offset, ethertype) {
        Some(ethertype::IPV4) => {
            let Some(header) = header_mut(bytes, network_offset) else { return 0 };
            wash_ipv4(header);
        }
        Some(ethertype::IPV6) => {
            let Some(header) = header_mut::<40>(bytes, network_offset) else { return 0 };
            header[0] &= 0xf0;
            header[1] &= 0x3f;
        }
        // ARP has a DSCP here, but no field.
        _ => {}
    }
    dscp
}

/// The checksum arithmetic of spec/cake.md Appendix C, which is not the ones'-complement sum everywhere.
fn wash_ipv4(header: &mut [u8; 20]) {
    let old = u32::from(header[1]);
    let new = old & u32::from(ECN_MASK);
    let mut checksum = u32::from(u16::from_be_bytes([header[10], header[11]])).wrapping_add(old);
    if checksum.wrapping_add(1) >= 0x1_0000 {
        checksum = checksum.wrapping_add(1) & 0xffff;
    }
    checksum = checksum.wrapping_sub(new);
    checksum = checksum.wrapping_add(checksum >> 16);
    header[10..12].copy_from_slice(&(checksum as u16).to_be_bytes());
    header[1] = new as u8;
}

#[inline]
const fn traffic_class(first: u8, second: u8) -> u8 {
    first << 4 | second >> 4
}

#[inline]
fn header_mut<const N: usize>(bytes: &mut [u8], offset: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(offset..)?.first_chunk_mut()
}

#[cfg(test)]
mod tests;
