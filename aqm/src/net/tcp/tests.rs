extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;

fn tcp(flags: u16, options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x30, 0x39, 0x00, 0x50, 0xde, 0xad, 0xbe, 0xef, 0x01, 0x02, 0x03, 0x04];
    let words = 5 + options.len().div_ceil(4) as u16;
    bytes.extend((words << 12 | flags).to_be_bytes());
    bytes.extend([0x12, 0x34, 0, 0, 0x56, 0x78]);
    bytes.extend(options);
    bytes.resize(4 * usize::from(words), 0);
    bytes
}

fn ipv4(protocol: u8, ihl: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4 * usize::from(ihl)];
    bytes[0] = 0x40 | ihl;
    let total = bytes.len() + payload.len();
    bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    bytes[9] = protocol;
    bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(payload);
    bytes
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend(1..=32);
    bytes.extend(payload);
    bytes
}

#[test]
fn fields() {
    let bytes = tcp(flags::ACK | flags::ECE | flags::AE, &[1, 1, 8, 10, 0, 0, 0, 1, 0xff, 0, 0, 2]);
    let view = TcpView::parse(&bytes).unwrap();
    assert_eq!((view.source_port(), view.destination_port()), (12345, 80));
    assert_eq!((view.sequence(), view.acknowledgement()), (0xdead_beef, 0x0102_0304));
    assert_eq!((view.flags(), view.header_length()), (0x150, 32));
    assert_eq!((view.window(), view.urgent_pointer()), (0x1234, 0x5678));
    assert_eq!(view.timestamps(), Some((1, 0xff00_0002)));
    assert_eq!(view.sack_blocks().len(), 0);
    for cut in 0..bytes.len() {
        assert_eq!(TcpView::parse(&bytes[..cut]), None);
    }
    let mut short = bytes;
    short[12] = 0x40;
    assert_eq!(TcpView::parse(&short), None);
}

#[test]
fn finding_tcp() {
    let segment = tcp(flags::ACK, &[]);
    let found = |network: &[u8]| TcpView::find(network).map(|view| view.source_port());
    assert_eq!(found(&ipv4(6, 5, &segment)), Some(12345));
    assert_eq!(found(&ipv4(6, 7, &segment)), Some(12345));
    assert_eq!(found(&ipv6(6, &segment)), Some(12345));
    assert_eq!(found(&ipv4(41, 6, &ipv6(6, &segment))), Some(12345));
    // Not through another tunnel, extension header, protocol or version.
    assert_eq!(found(&ipv4(4, 5, &ipv4(6, 5, &segment))), None);
    assert_eq!(found(&ipv6(41, &ipv6(6, &segment))), None);
    assert_eq!(found(&ipv4(41, 5, &ipv6(17, &segment))), None);
    assert_eq!(found(&ipv6(0, &[&[6, 0, 0, 0, 0, 0, 0, 0], &segment[..]].concat())), None);
    assert_eq!(found(&ipv4(17, 5, &segment)), None);
    let mut other = ipv4(6, 5, &segment);
    other[0] = 0x55;
    assert_eq!(found(&other), None);
    // Forty bytes are needed even for an IPv4 packet of which the rest is malformed; so are all header bytes.
    let whole = ipv4(6, 5, &segment);
    assert_eq!(found(&whole[..39]), None);
    // A header length of 0 is believed: the IP header itself is read as TCP.
    let mut zero = whole.clone();
    (zero[0], zero[12]) = (0x40, 0x50);
    assert_eq!((found(&zero), found(&zero[..39])), (Some(0x4000), None));
    // A fragment is not looked at.
    let mut fragment = ipv4(6, 5, &segment);
    fragment[6] = 0x20;
    assert_eq!(found(&fragment), Some(12345));
}

#[test]
fn finding_ip() {
    let segment = tcp(flags::ACK, &[]);
    let four = ipv4(6, 6, &segment);
    let view = IpView::find(&four).unwrap();
    assert_eq!((view.version(), view.addresses()), (4, Some(&[10, 0, 0, 1, 10, 0, 0, 2][..])));
    assert_eq!((view.length_field(), view.payload_length()), (Some(44), Some(20)));
    let six = ipv6(6, &segment);
    let inside = ipv4(41, 5, &six);
    let addresses: Vec<u8> = (1..=32).collect();
    for bytes in [&six, &inside] {
        let view = IpView::find(bytes).unwrap();
        assert_eq!((view.version(), view.addresses()), (6, Some(&addresses[..])));
        assert_eq!((view.length_field(), view.payload_length()), (Some(20), Some(20)));
    }
    assert_eq!(IpView::find(&four[..19]), None);
    assert!(IpView::find(&four[..20]).is_some());
    assert_eq!(IpView::find(&six[..39]), None);
    assert_eq!(IpView::find(&inside[..59]), None);
    assert_eq!(IpView::find(&[0x55; 60]), None);
    // An inner header is looked for as IPv6 and read as what it says it is.
    let odd = ipv4(41, 5, &[0x45; 40]);
    let view = IpView::find(&odd).unwrap();
    assert_eq!((view.version(), view.payload_length()), (4, Some(0x4545 - 20)));
    let odd = ipv4(41, 5, &[0x15; 40]);
    let view = IpView::find(&odd).unwrap();
    assert_eq!((view.addresses(), view.payload_length()), (None, None));
    let mut negative = ipv4(6, 5, &[]);
    negative[2..4].fill(0);
    assert_eq!(IpView::find(&negative).unwrap().payload_length(), Some(-20));
}

#[test]
fn options() {
    let list = |options: &[u8]| -> Vec<(u8, usize)> {
        let bytes = tcp(0, options);
        TcpView::parse(&bytes).unwrap().options().map(|option| (option.kind, option.length())).collect()
    };
    assert_eq!(list(&[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7]), [(2, 4), (4, 2), (3, 3)]);
    assert_eq!(list(&[1, 1, 1, 1]), []);
    // The end option; a length too short; one that leads out of the header; none at all.
    assert_eq!(list(&[4, 2, 0, 4, 2, 1, 1, 1]), [(4, 2)]);
    assert_eq!(list(&[4, 2, 9, 1, 4, 2, 1, 1]), [(4, 2)]);
    assert_eq!(list(&[4, 2, 9, 0, 4, 2, 1, 1]), [(4, 2)]);
    assert_eq!(list(&[4, 2, 9, 7, 4, 2, 1, 1]), [(4, 2)]);
    assert_eq!(list(&[4, 2, 9, 6, 4, 2, 1, 1]), [(4, 2), (9, 6)]);
    assert_eq!(list(&[1, 1, 1, 4]), []);
    // The first of its kind counts; a timestamp of another length does not.
    let twice = tcp(0, &[8, 3, 0, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(TcpView::parse(&twice).unwrap().timestamps(), None);
}

#[test]
fn sack_blocks() {
    let blocks = |length: u8, data: &[u8]| -> Vec<(u32, u32)> {
        let bytes = tcp(0, &[&[5, length], data].concat());
        TcpView::parse(&bytes).unwrap().sack_blocks().collect()
    };
    let data = [0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3];
    assert_eq!(blocks(18, &data), [(1, 2), (u32::MAX, 3)]);
    assert_eq!(blocks(17, &data), [(1, 2)]);
    assert_eq!(blocks(9, &data[..7]), []);
    assert_eq!(blocks(2, &[]), []);
}

#[test]
fn any_bytes() {
    bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, first)| {
        for first in [*first, 0x45, 0x46, 0x60] {
            for protocol in [6, 41] {
                let mut network = bytes.clone();
                network.resize(bytes.len() + 90, *bytes.first().unwrap_or(&0));
                network[0] = first;
                network[if first >> 4 == 6 { 6 } else { 9 }] = protocol;
                for cut in [network.len(), 40, 60, bytes.len()] {
                    let network = &network[..cut];
                    let _ = IpView::find(network).map(|view| (view.addresses(), view.payload_length()));
                    let Some(view) = TcpView::find(network) else { continue };
                    let total: usize = view.options().map(|option| option.length()).sum();
                    assert!(total <= view.header_length() - 20);
                    assert!(view.sack_blocks().count() <= 4);
                }
            }
        }
    });
}
