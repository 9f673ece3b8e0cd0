extern crate std;

use std::vec::Vec;
use std::{assert_eq, vec};

use super::*;
use crate::net::testing::{Dice, frame};
use crate::net::{HostHashes, VlanTag};

/// The key of spec/common.md §8.4 and spec/cake.md §23.16: bytes 00 01 … 0f.
const KEY: SipKey = SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn ipv4(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = hex("4500 0000 0000 0000 40 00 0000");
    bytes[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    bytes[9] = protocol;
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(payload);
    bytes
}

fn ipv6(next: u8, label: u32, source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (0x6000_0000 | label).to_be_bytes().to_vec();
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    for address in [source, destination] {
        bytes.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    bytes.extend(payload);
    bytes
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    let mut bytes = source.to_be_bytes().to_vec();
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0; 16]);
    bytes
}

fn ethernet(network: &[u8]) -> Vec<u8> {
    [&[0; 14], network].concat()
}

fn keys(ethertype: u16, network: &[u8]) -> FlowKeys {
    dissect(&Headers::new(&ethernet(network), 14, ethertype))
}

fn key_hex(keys: &FlowKeys) -> Vec<u8> {
    let (bytes, length) = keys.key_bytes();
    bytes[..length].to_vec()
}

fn scale(hash: u32, n: u64) -> u64 {
    (u64::from(hash) * n) >> 32
}

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8::2";

#[test]
fn common_vectors() {
    let tcp = ipv4(6, A, B, &ports(12345, 80));
    let rows: Vec<(FlowKeys, &str, u32, u64)> = vec![
        (
            keys(0x0800, &tcp),
            "0800060000000000 0000000000000000 0000000000000000 00000000 30390050 00000000 0a000001 0a000002 00000000",
            0xbaf8_7ff2,
            747,
        ),
        (
            keys(0x0800, &ipv4(6, B, A, &ports(80, 12345))),
            "0800060000000000 0000000000000000 0000000000000000 00000000 30390050 00000000 0a000001 0a000002 00000000",
            0xbaf8_7ff2,
            747,
        ),
        (
            keys(0x0800, &ipv4(17, A, B, &ports(12345, 80))),
            "0800110000000000 0000000000000000 0000000000000000 00000000 30390050 00000000 0a000001 0a000002 00000000",
            0x03e9_c424,
            15,
        ),
        (
            keys(0x0800, &ipv4(1, A, B, &ports(0x0800, 0x1234))),
            "0800010000000000 0000000000000000 0000000000000000 00000000 00000000 00000000 0a000001 0a000002 00000000",
            0xf831_5a71,
            992,
        ),
        (
            keys(0x0800, &ipv4(6, [192, 168, 1, 200], [192, 168, 2, 7], &ports(5001, 443))),
            "0800060000000000 0000000000000000 0000000000000000 00000000 138901bb 00000000 c0a80207 c0a801c8 00000000",
            0xcc36_7517,
            816,
        ),
        (
            keys(0x86dd, &ipv6(6, 0, A6, B6, &ports(12345, 80))),
            "86dd060000000000 0000000000000000 0000000000000000 00000000 30390050 00000000
             20010db8000000000000000000000001 20010db8000000000000000000000002 00000000",
            0xc5ee_decd,
            791,
        ),
        (
            keys(0x86dd, &ipv6(6, 0x12345, A6, B6, &ports(12345, 80))),
            "86dd060045230100 0000000000000000 0000000000000000 00000000 00000000 00000000
             20010db8000000000000000000000001 20010db8000000000000000000000002 00000000",
            0xc090_eb4d,
            770,
        ),
        (
            keys(0x0806, &[0; 28]),
            "0806000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            0x145f_fb0f,
            81,
        ),
        (
            dissect(&Headers::new(&ethernet(&tcp), 14, 0x0800).with_vlan(VlanTag::new(0x8100, 0x6064))),
            "0800060000000000 6460810008000000 0000000000000000 00000000 30390050 00000000 0a000001 0a000002 00000000",
            0x8e43_8747,
            569,
        ),
        (
            // The same tag inside the frame.
            keys(0x8100, &[&hex("60640800"), &tcp[..]].concat()),
            "0800060000000000 6460810008000000 0000000000000000 00000000 30390050 00000000 0a000001 0a000002 00000000",
            0x8e43_8747,
            569,
        ),
    ];
    for (row, (keys, bytes, hash, bucket)) in rows.into_iter().enumerate() {
        assert_eq!(key_hex(&keys), hex(bytes), "row {row}");
        assert_eq!(keys.hash(&KEY), hash, "row {row}");
        assert_eq!(scale(hash, 1024), bucket, "row {row}");
    }
}

#[test]
fn cake_vectors() {
    let server = [192, 0, 2, 1];
    let there = keys(0x0800, &ipv4(6, A, server, &ports(1024, 443)));
    let back = keys(0x0800, &ipv4(6, server, A, &ports(443, 1024)));
    assert_eq!(
        key_hex(&there),
        hex(
            "08000600 00000000 0000000000000000 0000000000000000 00000000 040001bb 00000000 0a000001 c0000201 00000000"
        )
    );
    assert_eq!((there.hash(&KEY), back.hash(&KEY)), (0x3cff_a376, 0x3cff_a376));
    assert_eq!(keys(0x0800, &ipv4(17, A, server, &ports(1024, 443))).hash(&KEY), 0x5d7a_53e3);
    let (source, destination) = (0x22bf_97ca, 0x2c8d_f0f3);
    assert_eq!(there.host_hashes(&KEY), HostHashes { source, destination });
    assert_eq!(back.host_hashes(&KEY), HostHashes { source: destination, destination: source });
    assert_eq!(keys(0x86dd, &ipv6(6, 0, A6, B6, &ports(1024, 443))).hash(&KEY), 0xf1de_eff4);
    assert_eq!(keys(0x86dd, &ipv6(6, 0x12345, A6, B6, &[])).hash(&KEY), 0xc090_eb4d);
    assert_eq!(keys(0x0806, &[]).hash(&KEY), 0x145f_fb0f);
    assert_eq!(keys(0x0806, &[]).host_hashes(&KEY), HostHashes::default());
}

/// Host hashes are the hash of the record with the other fields gone (spec/cake.md A.5).
#[test]
fn host_hashes_are_hashes_of_reduced_records() {
    let tagged = |network: &[u8], ethertype| {
        dissect(&Headers::new(&ethernet(network), 14, ethertype).with_vlan(VlanTag::new(0x88a8, 0xe00a)))
    };
    let v4_in_v6 = ipv6(4, 0, "2001:db8::abcd:0:0", B6, &ipv4(17, A, B, &ports(53, 54)));
    let packets = [
        tagged(&ipv4(6, A, B, &ports(1, 2)), 0x0800),
        tagged(&ipv6(6, 0, A6, B6, &ports(1, 2)), 0x86dd),
        tagged(&ipv6(6, 7, B6, A6, &ports(1, 2)), 0x86dd),
        tagged(&v4_in_v6, 0x86dd),
    ];
    for keys in packets {
        let mut reduced = keys;
        reduced.ip_protocol = 0;
        reduced.flow_label = 0;
        reduced.gre_key = 0;
        reduced.ports = 0;
        let half = if keys.kind == AddressKind::Ipv4 { 1 } else { 4 };
        let (mut source, mut destination) = (reduced, reduced);
        source.addresses[half..2 * half].fill(0);
        destination.addresses[..half].fill(0);
        let expected = HostHashes { source: source.hash(&KEY), destination: destination.hash(&KEY) };
        assert_eq!(keys.host_hashes(&KEY), expected);
    }
}

#[test]
fn fragments_have_no_ports() {
    for field in ["2000", "0001", "3fff", "1000"] {
        let mut packet = ipv4(6, A, B, &ports(12345, 80));
        packet[6..8].copy_from_slice(&hex(field));
        let keys = keys(0x0800, &packet);
        assert!(keys.is_fragment() && !keys.has_ports() && keys.ip_protocol() == 6, "{field}");
    }
    // Don't-fragment and the reserved bit are no fragments.
    for field in ["4000", "8000"] {
        let mut packet = ipv4(6, A, B, &ports(12345, 80));
        packet[6..8].copy_from_slice(&hex(field));
        assert_eq!(keys(0x0800, &packet).ports(), (12345, 80), "{field}");
    }
    // IPv6: the first fragment too; and the header itself may be cut off.
    let fragment = [hex("06 00 0001 00000001"), ports(12345, 80)].concat();
    let whole = keys(0x86dd, &ipv6(44, 0, A6, B6, &fragment));
    assert!(whole.is_fragment() && !whole.has_ports() && whole.ip_protocol() == 6);
    let cut = keys(0x86dd, &ipv6(44, 0, A6, B6, &fragment[..7]));
    assert!(cut.is_fragment() && cut.ip_protocol() == 44);
    // Inside IPv4 the number means nothing.
    assert!(!keys(0x0800, &ipv4(44, A, B, &fragment)).is_fragment());
}

#[test]
fn ports_and_spis() {
    for protocol in 0..=255 {
        let payload = hex("11112222 33334444 55556666");
        let got = keys(0x0800, &ipv4(protocol, A, B, &payload)).ports();
        let expected = match protocol {
            6 | 17 | 33 | 50 | 132 | 136 => (0x1111, 0x2222),
            51 => (0x3333, 0x4444),
            _ => (0, 0),
        };
        assert_eq!(got, expected, "protocol {protocol}");
        // Three of the four bytes are as good as none.
        let cut = if protocol == 51 { 7 } else { 3 };
        assert!(!keys(0x0800, &ipv4(protocol, A, B, &payload[..cut])).has_ports());
    }
    // Behind IPv4 options.
    let mut packet = ipv4(6, A, B, &[hex("01010101"), ports(7, 8)].concat());
    packet[0] = 0x46;
    assert_eq!(keys(0x0800, &packet).ports(), (7, 8));
    packet[0] = 0x44;
    assert_eq!(keys(0x0800, &packet), FlowKeys { ethertype: 0x0800, ..FlowKeys::default() });
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    let chain = [
        hex("2b 00 0102030405 06"),
        hex("3c 01 0000000000 00 0000000000000000"),
        hex("11 00 0000000000 00"),
        ports(53, 4000),
    ]
    .concat();
    let whole = keys(0x86dd, &ipv6(0, 0, A6, B6, &chain));
    assert_eq!((whole.ip_protocol(), whole.ports()), (17, (53, 4000)));
    // The header lengths are believed; what lies beyond the packet is missing.
    let cut = keys(0x86dd, &ipv6(0, 0, A6, B6, &chain[..9]));
    assert_eq!((cut.ip_protocol(), cut.ports()), (43, (0, 0)));
    // Behind IPv4 these numbers end the walk.
    assert_eq!(keys(0x0800, &ipv4(0, A, B, &chain)).ip_protocol(), 0);
}

#[test]
fn fifteen_headers_are_followed() {
    let chain = |n: usize| {
        let mut bytes = vec![];
        for index in 1..=n {
            bytes.extend([if index == n { 58 } else { 60 }, 0, 0, 0, 0, 0, 0, 0]);
        }
        [bytes, ports(1, 2)].concat()
    };
    // The next header is noted when an extension header is read, so only deeper chains show the limit.
    assert_eq!(keys(0x86dd, &ipv6(60, 0, A6, B6, &chain(16))).ip_protocol(), 58);
    assert_eq!(keys(0x86dd, &ipv6(60, 0, A6, B6, &chain(17))).ip_protocol(), 60);
    let stack = |n: usize| {
        let tags = hex("00018100").repeat(n - 1);
        keys(0x8100, &[tags, hex("00010800"), ipv4(6, A, B, &ports(1, 2))].concat())
    };
    assert_eq!(stack(15).ports(), (1, 2));
    assert_eq!((stack(16).ethertype(), stack(16).address_kind()), (0x0800, AddressKind::None));
    assert_eq!(stack(17).ethertype(), 0x8100);
}

#[test]
fn only_the_outermost_tag_is_stored() {
    let tcp = ipv4(6, A, B, &ports(1, 2));
    let inner = [hex("2002 8100 3003 0800"), tcp.clone()].concat();
    let outer = VlanKey { id: 2, priority: 1, tpid: 0x88a8, encapsulated: 0x8100 };
    assert_eq!(keys(0x88a8, &inner).vlan(), Some(outer));
    let beside = Headers::new(&inner, 0, 0x8100).with_vlan(VlanTag::new(0x88a8, 0xf005));
    let outer = VlanKey { id: 5, priority: 7, tpid: 0x88a8, encapsulated: 0x8100 };
    assert_eq!((dissect(&beside).vlan(), dissect(&beside).ports()), (Some(outer), (1, 2)));
    // A frame whose network offset already skips the inner tags hashes like the one above.
    let skipped = Headers::new(&inner, 8, 0x0800)
        .with_vlan(VlanTag { encapsulated: Some(0x8100), ..VlanTag::new(0x88a8, 0xf005) });
    assert_eq!(dissect(&skipped), dissect(&beside));
    // The drop-eligible bit is not part of the record.
    assert_eq!(key_hex(&keys(0x8100, &hex("f123 9000")))[8..16], hex("23e1 8100 9000 0000"));
    // A tag cut short is not stored.
    assert_eq!(keys(0x8100, &hex("f12390")).vlan(), None);
    assert_eq!(keys(0x8100, &hex("f12390")).ethertype(), 0x8100);
}

#[test]
fn tunnels_show_the_inner_packet() {
    let inner = ipv4(17, [1, 2, 3, 4], [5, 6, 7, 8], &ports(1000, 2000));
    let inner6 = ipv6(17, 0, B6, A6, &ports(1000, 2000));
    let want = |outer: &FlowKeys| {
        assert_eq!((outer.ethertype(), outer.ip_protocol()), (0x0800, 17));
        assert_eq!(outer.ipv4(), Some(([1, 2, 3, 4], [5, 6, 7, 8])));
        assert_eq!(outer.ports(), (1000, 2000));
    };
    want(&keys(0x0800, &ipv4(4, A, B, &inner)));
    let six = keys(0x0800, &ipv4(41, A, B, &inner6));
    assert_eq!((six.ethertype(), six.ports()), (0x86dd, (1000, 2000)));
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    assert_eq!(six.ipv6(), Some((octets(B6), octets(A6))));
    // Behind an outer IPv6 header four bytes of its source stay in the record.
    let v4_in_v6 = keys(0x86dd, &ipv6(4, 0, "1:2:3:4:abcd:ef01:7:8", B6, &inner));
    want(&v4_in_v6);
    assert_eq!(key_hex(&v4_in_v6)[36..], hex("01020304 05060708 abcdef01"));
    // MPLS in IP ends there.
    let mpls = keys(0x0800, &ipv4(137, A, B, &inner));
    assert_eq!((mpls.ethertype(), mpls.ipv4()), (0x8847, Some((A, B))));
    // PPPoE: IPv4, compressed protocol field, another PPP protocol, a wrong header.
    want(&keys(0x8864, &[hex("1100 0007 0000 0021"), inner.clone()].concat()));
    assert_eq!(keys(0x8864, &[hex("1100 0007 0000 21"), inner.clone()].concat()).ethertype(), 0x8864);
    let ppp6 = keys(0x8864, &[hex("1100 0007 0000 0057"), inner6].concat());
    assert_eq!(ppp6.ports(), (1000, 2000));
    assert_eq!(keys(0x8864, &hex("1100 0007 0000 c021 00")).ethertype(), 0x8864);
    assert_eq!(keys(0x8864, &hex("1100 0007 0000 0281 00")).ethertype(), 0x8847);
    assert_eq!(keys(0x8864, &[hex("1109 0007 0000 0021"), inner.clone()].concat()).ports(), (0, 0));
    // batman-adv unicast of version 15.
    let mesh = |head: &str| {
        let ethernet = hex("0000 000000000000 0200 00000001 020000000002 0800");
        keys(0x4305, &[hex(head), ethernet, inner.clone()].concat())
    };
    want(&mesh("40 0f"));
    assert_eq!(mesh("40 0e").ethertype(), 0x4305);
    assert_eq!(mesh("41 0f").ethertype(), 0x4305);
    // HSR and PRP.
    for ethertype in [0x892f, 0x88fb] {
        want(&keys(ethertype, &[hex("1000 0001 0800"), inner.clone()].concat()));
    }
}

#[test]
fn gre() {
    let inner = ipv4(17, [1, 2, 3, 4], [5, 6, 7, 8], &ports(1000, 2000));
    let gre = |head: &str| keys(0x0800, &ipv4(47, A, B, &[hex(head), inner.clone()].concat()));
    let plain = gre("0000 0800");
    assert_eq!((plain.ports(), plain.gre_key()), ((1000, 2000), 0));
    let all = gre("b000 0800 ccccdddd 01020304 00000009");
    assert_eq!((all.ports(), all.gre_key()), ((1000, 2000), 0x0102_0304));
    assert_eq!(key_hex(&all)[24..28], hex("01020304"));
    let bridged = gre("0000 6558 020000000001 020000000002 0800");
    assert_eq!((bridged.ethertype(), bridged.ports()), (0x0800, (1000, 2000)));
    // PPTP: key and acknowledgement; only the call part of the key counts.
    let pptp = gre("3081 880b 00280007 00000001 00000002 ff03 0021");
    assert_eq!((pptp.ports(), pptp.gre_key()), ((1000, 2000), 7));
    assert_eq!(key_hex(&pptp)[24..28], hex("00000007"));
    let lcp = gre("2001 880b 00280007 ff03 c021");
    assert_eq!((lcp.ethertype(), lcp.ipv4(), lcp.gre_key()), (0x880b, Some((A, B)), 7));
    // The end, with the GRE protocol noted: version 1 without key, or of another protocol.
    assert_eq!(gre("0001 880b").ethertype(), 0x880b);
    assert_eq!(gre("2001 0800 00280007").ethertype(), 0x0800);
    assert_eq!(gre("2001 0800 00280007").ipv4(), Some((A, B)));
    // The end, without: routing, version 2.
    assert_eq!(gre("4000 86dd").ethertype(), 0x0800);
    assert_eq!(gre("0002 86dd").ethertype(), 0x0800);
    // A key cut off.
    let cut = keys(0x0800, &ipv4(47, A, B, &hex("2000 86dd 0102")));
    assert_eq!((cut.ethertype(), cut.gre_key(), cut.ip_protocol()), (0x86dd, 0, 47));
}

#[test]
fn tipc() {
    let mut probe = super::tests::keys(0x88ca, &hex("4e280000 11111111 22222222 0a0b0c0d"));
    assert!(probe.wants_random_tipc());
    probe.set_tipc([1, 2, 3, 4]);
    assert_eq!(probe.tipc(), Some([1, 2, 3, 4]));
    for other in ["4c280000", "4e200000"] {
        let header = [hex(other), std::vec![0; 12]].concat();
        assert!(!super::tests::keys(0x88ca, &header).wants_random_tipc());
    }
    let keys = keys(0x88ca, &hex("00000000 11111111 22222222 0a0b0c0d"));
    assert_eq!(keys.tipc(), Some([10, 11, 12, 13]));
    assert_eq!(key_hex(&keys).len(), 44);
    assert_eq!(key_hex(&keys)[36..], hex("0a0b0c0d 00000000"));
    let bytes = key_hex(&keys);
    assert_eq!(keys.hash(&KEY), crate::net::siphash::siphash(&KEY, &bytes) as u32);
}

#[test]
fn nat_overwrites() {
    let mut keys = keys(0x0800, &ipv4(6, A, B, &ports(1, 2)));
    assert!(!keys.set_ipv4(A, B) && !keys.set_ports(1, 2));
    assert!(keys.set_ipv4([9, 9, 9, 9], B) && keys.set_ports(3, 2));
    assert_eq!((keys.ipv4(), keys.ports()), (Some(([9, 9, 9, 9], B)), (3, 2)));
    let mut icmp = super::tests::keys(0x0800, &ipv4(1, A, B, &ports(1, 2)));
    assert!(!icmp.set_ports(3, 4));
    assert_eq!(icmp.ports(), (0, 0));
    let mut six = super::tests::keys(0x86dd, &ipv6(6, 0, A6, B6, &ports(1, 2)));
    assert!(!six.set_ipv4(A, B));
}

/// Never a panic, and the hash is SipHash of the key bytes.
#[test]
fn any_bytes() {
    bolero::check!().with_type::<(Vec<u8>, u8, u16, Option<(u16, u16)>)>().for_each(
        |(bytes, offset, ethertype, tag)| {
            let headers = Headers {
                bytes,
                network_offset: usize::from(*offset),
                ethertype: *ethertype,
                vlan: tag.map(|(tpid, tci)| VlanTag::new(tpid, tci)),
            };
            check(&headers);
            let beyond = usize::MAX - usize::from(*offset);
            for known in KNOWN {
                check(&Headers { ethertype: known, ..headers });
                check(&Headers { ethertype: known, network_offset: beyond, ..headers });
            }
        },
    );
}

const KNOWN: [u16; 9] = [0x0800, 0x86dd, 0x8100, 0x88a8, 0x8864, 0x88ca, 0x4305, 0x892f, 0x88fb];

fn check(headers: &Headers<'_>) {
    let keys = dissect(headers);
    let expected = crate::net::siphash::siphash(&KEY, &key_hex(&keys)) as u32;
    assert_eq!(keys.hash(&KEY), expected.max(1));
    let _ = keys.host_hashes(&KEY);
    // The short way finds what the walk finds.
    if let Some(short) = plain(headers) {
        assert_eq!(short, walk(headers));
    }
}

/// On structured frames too; the short way is taken often.
#[test]
fn random_frames() {
    let mut short = 0;
    let mut dice = Dice::seeded(3);
    for _ in 0..50_000 {
        let frame = frame(&mut dice);
        check(&frame.headers());
        short += u32::from(plain(&frame.headers()).is_some());
    }
    assert!(short > 5_000, "{short}");
}
