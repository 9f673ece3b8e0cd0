extern crate std;

use std::vec;
use std::vec::Vec;

use etherparse::{IpNumber, Ipv4Header, Ipv6Header, PacketBuilder};

use super::*;
use crate::net::{FlowKeys, dissect};

const KEY: SipKey = SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

fn tcp() -> Vec<u8> {
    let mut bytes = vec![];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.tcp(12345, 80, 1, 1000).write(&mut bytes, &[0; 100]).unwrap();
    bytes
}

/// The same frame with these tags in it.
fn tagged(tags: &[(u16, u16)]) -> Vec<u8> {
    let mut bytes = tcp();
    let inner = bytes.split_off(12);
    for (tpid, tci) in tags {
        bytes.extend(tpid.to_be_bytes());
        bytes.extend(tci.to_be_bytes());
    }
    bytes.extend(inner);
    bytes
}

#[test]
fn plain() {
    let mut frame = Frame::ethernet(tcp());
    assert_eq!((frame.len_bytes(), frame.buffer_bytes(), frame.truesize_bytes()), (154, 154, 922));
    assert_eq!((frame.ethertype(), frame.network_offset(), frame.vlan()), (0x0800, 14, None));
    // spec/common.md §8.4, first row; a stack that knows better is believed.
    assert_eq!(frame.flow_hash(KEY), 0xbaf8_7ff2);
    assert_eq!(frame.flow_hash(SipKey([0, 0])), 0xbaf8_7ff2, "kept");
    assert_eq!(Frame::ethernet(tcp()).with_flow_hash(7).flow_hash(KEY), 7);
    assert_eq!((frame.ds_field(), frame.try_mark_ce()), (Some(0), false));
    assert_eq!(frame.gso(), Gso::NONE);
    let ip = &tcp()[14..];
    let mut bare = Frame::ip(ip.to_vec());
    assert_eq!((bare.flow_hash(KEY), bare.len_bytes()), (0xbaf8_7ff2, 140));
    assert_eq!(Frame::ip(&[0x60][..]).ethertype(), 0x86dd);
    assert_eq!(Frame::ip(&[0x10][..]).ethertype(), 0);
}

#[test]
fn attributes() {
    let frame = Frame::ethernet(tcp())
        .with_priority(6)
        .with_fwmark(3)
        .with_departure_ns(9)
        .with_truesize(2304)
        .with_len_bytes(1000)
        .with_socket_charge();
    assert_eq!((frame.priority(), frame.fwmark(), frame.departure_ns()), (6, 3, 9));
    assert_eq!((frame.truesize_bytes(), frame.len_bytes(), frame.buffer_bytes()), (2304, 1000, 154));
    assert!(frame.is_charged_to_socket());
    assert_eq!((frame.as_bytes(), frame.clone().into_buffer()), (&tcp()[..], tcp()));
}

/// As Linux hashes it after taking the outermost tag out (spec/common.md §8.4, last row).
#[test]
fn tags() {
    let mut one = Frame::ethernet(tagged(&[(0x8100, 0x6064)]));
    assert_eq!((one.ethertype(), one.network_offset()), (0x0800, 18));
    assert_eq!(one.flow_hash(KEY), 0x8e43_8747);
    let mut beside = Frame::ethernet(tcp()).with_vlan(0x8100, 0x6064);
    assert_eq!(beside.flow_hash(KEY), 0x8e43_8747);
    // Two tags: what the walk from the tags' start finds.
    let bytes = tagged(&[(0x88a8, 0x2005), (0x8100, 0x6064)]);
    let walked = dissect(&Headers::new(&bytes, 14, 0x88a8));
    let two = Frame::ethernet(&bytes[..]);
    assert_eq!((two.ethertype(), two.network_offset()), (0x0800, 22));
    assert_eq!(dissect(&two.parsed()), walked);
    let _ = two.vlan().map(|tag| assert_eq!((tag.id(), tag.priority()), (5, 1)));
    let mut mixed = Frame::ethernet(tagged(&[(0x8100, 0x6064)])).with_vlan(0x88a8, 0x2005);
    let mut copy = Frame::ethernet(bytes.clone());
    assert_eq!(mixed.flow_hash(KEY), copy.flow_hash(KEY));
    // ECN behind the tags.
    let mut ect = bytes.clone();
    ect[23] |= 1;
    let mut ect = Frame::ethernet(&mut ect[..]);
    assert!(ect.try_mark_ce());
    assert_eq!((ect.ds_field(), ect.as_bytes()[23]), (Some(3), 3));
    // Sixteen are too many, and a cut one is none.
    let deep = |tags| Frame::ethernet(tagged(&vec![(0x8100, 1); tags]));
    assert_eq!((deep(15).ethertype(), deep(15).ds_field()), (0x0800, Some(0)));
    assert_eq!((deep(16).ethertype(), deep(16).ds_field()), (0, None));
    let cut = Frame::ethernet(bytes[..17].to_vec());
    assert_eq!((cut.ethertype(), cut.vlan(), cut.network_offset()), (0x88a8, None, 14));
}

#[test]
fn lengths_instead_of_ethertypes() {
    let mut bytes = [0; 60];
    bytes[12..14].copy_from_slice(&46_u16.to_be_bytes());
    assert_eq!(Frame::ethernet(&bytes[..]).ethertype(), 4);
    bytes[14..16].fill(0xff);
    assert_eq!(Frame::ethernet(&bytes[..]).ethertype(), 1);
    assert_eq!(Frame::ethernet(&bytes[..13]).ethertype(), 0);
}

#[test]
fn gso() {
    let mut bytes = vec![];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let options = [etherparse::TcpOptionElement::Timestamp(1, 2)];
    builder.tcp(1, 2, 3, 4).options(&options).unwrap().write(&mut bytes, &[0; 2996]).unwrap();
    // spec/cake.md §23.6: 3062 bytes, three segments, 3194 over the wire.
    let frame = Frame::ethernet(bytes).with_gso(1448).unwrap().with_priority(2);
    assert_eq!((frame.buffer_bytes(), frame.len_bytes()), (3062, 3194));
    assert_eq!(frame.gso(), Gso { segments: 3, segment_bytes: 1448 });
    assert_eq!(frame.segments().unwrap().segments(), 3);
    #[cfg(feature = "bytes")]
    {
        let pieces: Vec<_> = frame.segment_frames().unwrap().collect();
        let lengths: Vec<u32> = pieces.iter().map(Packet::len_bytes).collect();
        assert_eq!(lengths, [1514, 1514, 166]);
        assert!(pieces.iter().all(|piece| piece.priority() == 2 && piece.gso() == Gso::NONE));
    }
    let one = Frame::ethernet(tcp()).with_gso(100).unwrap();
    assert_eq!((one.gso().segments, one.len_bytes()), (1, 154));
    assert!(one.segments().is_err() && Frame::ethernet(tcp()).segments().is_err());
    assert!(Frame::ethernet(tcp()).with_gso(0).is_err());
    assert!(Frame::ethernet([0; 60]).with_gso(10).is_err());
}

/// etherparse builds, the dissector reads.
#[test]
fn what_etherparse_builds() {
    let v4 = Ipv4Header::new(0, 9, IpNumber(0), [10, 1, 2, 3], [10, 4, 5, 6]).unwrap();
    let v6 = Ipv6Header { hop_limit: 9, source: [1; 16], destination: [2; 16], ..Ipv6Header::default() };
    for (ipv6, tagged, udp) in (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)) {
        let ip = if ipv6 {
            etherparse::IpHeaders::Ipv6(v6.clone(), Default::default())
        } else {
            etherparse::IpHeaders::Ipv4(v4.clone(), Default::default())
        };
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let net = if tagged { link.single_vlan(77.try_into().unwrap()).ip(ip) } else { link.ip(ip) };
        let mut bytes = vec![];
        if udp {
            net.udp(53, 5353).write(&mut bytes, &[1; 9]).unwrap();
        } else {
            net.tcp(53, 5353, 0, 0).write(&mut bytes, &[1; 9]).unwrap();
        }
        let keys: FlowKeys = dissect(&Frame::ethernet(&bytes[..]).parsed());
        assert_eq!(keys.ports(), (53, 5353));
        assert_eq!(keys.ip_protocol(), if udp { 17 } else { 6 });
        assert_eq!(keys.vlan().map(|tag| tag.id), tagged.then_some(77));
        assert_eq!(keys.ipv4(), (!ipv6).then_some(([10, 1, 2, 3], [10, 4, 5, 6])));
        assert_eq!(keys.ipv6(), ipv6.then_some(([1; 16], [2; 16])));
    }
}

#[test]
fn any_bytes() {
    bolero::check!().with_type::<(Vec<u8>, u16)>().for_each(|(bytes, size)| {
        for tags in 0..3 {
            let mut tagged = vec![0; 12];
            tagged.extend([0x81, 0, 0, 1].repeat(tags));
            tagged.extend(bytes);
            let mut frame = Frame::ethernet(tagged);
            assert_ne!(frame.flow_hash(KEY), 0);
            assert_eq!(frame.try_mark_ce(), frame.ds_field().is_some_and(|ds| ds & 3 != 0));
            let _ = frame.with_gso(*size);
        }
    });
}
