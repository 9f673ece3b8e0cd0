extern crate std;

use std::vec::Vec;

use super::*;

fn ipv4(tos: u8, checksum: u16) -> [u8; 34] {
    let mut frame = [0x5a; 34];
    frame[14] = 0x45;
    frame[15] = tos;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn ipv6(traffic_class: u8) -> [u8; 54] {
    let mut frame = [0x5a; 54];
    let first = 0x6000_0000 | u32::from(traffic_class) << 20 | 0xa_bcde;
    frame[14..18].copy_from_slice(&first.to_be_bytes());
    frame
}

#[test]
fn ce_on_ipv4() {
    // spec/cake.md §23.7 and spec/common.md §7.
    let rows = [
        (0x01, 0x1234, 0x03, 0x1232),
        (0x02, 0x1234, 0x03, 0x1233),
        (0xb9, 0x0001, 0xbb, 0xfffe),
        (0x02, 0x0000, 0x03, 0xfffe),
        (0x02, 0xffff, 0x03, 0xfffe),
        (0x02, 0x0001, 0x03, 0xffff),
        (0x01, 0x0003, 0x03, 0x0001),
        (0x03, 0x4321, 0x03, 0x4321),
    ];
    for (tos, before, new_tos, after) in rows {
        let mut frame = ipv4(tos, before);
        assert!(try_mark_ce(&mut frame, 14, 0x0800));
        assert_eq!(frame, ipv4(new_tos, after), "{tos:02x} {before:04x}");
    }
    let mut frame = ipv4(0xfc, 0x1234);
    assert_eq!(mark_ce(&mut frame, 14, 0x0800), Mark::Failed);
    assert_eq!(frame, ipv4(0xfc, 0x1234));
    assert_eq!(mark_ce(&mut ipv4(1, 0), 14, 0x0800), Mark::Marked { sum_growth: 0 });
    assert_eq!(mark_ce(&mut ipv4(3, 0), 14, 0x0800), Mark::Already);
}

#[test]
fn ce_on_ipv6() {
    let rows = [
        (0x01, 0x03, Mark::Marked { sum_growth: 0x20 }),
        (0xb9, 0xbb, Mark::Marked { sum_growth: 0x20 }),
        (0xfe, 0xff, Mark::Marked { sum_growth: 0x10 }),
        (0x03, 0x03, Mark::Already),
        (0xfc, 0xfc, Mark::Failed),
    ];
    for (before, after, mark) in rows {
        let mut frame = ipv6(before);
        assert_eq!(mark_ce(&mut frame, 14, 0x86dd), mark, "{before:02x}");
        assert_eq!(frame, ipv6(after));
    }
}

#[test]
fn truncated_headers_and_other_protocols_fail() {
    let mut four = ipv4(1, 0x1234);
    assert!(!try_mark_ce(&mut four[..33], 14, 0x0800));
    assert!(!try_mark_ce(&mut four, 15, 0x0800));
    assert!(!try_mark_ce(&mut four, usize::MAX, 0x0800));
    let mut six = ipv6(1);
    assert!(!try_mark_ce(&mut six[..53], 14, 0x86dd));
    for ethertype in [0, 0x0806, 0x8847, 0x8864, 0x86de] {
        assert!(!try_mark_ce(&mut six, 14, ethertype) && !try_mark_ce(&mut four, 14, ethertype));
    }
    assert_eq!((four, six), (ipv4(1, 0x1234), ipv6(1)));
}

/// A frame with `depth` tags in band before an IPv4 header with ECT(0).
fn tagged(depth: usize) -> Vec<u8> {
    let mut frame = [0; 14].to_vec();
    for tag in 1..=depth {
        frame.extend([0, tag as u8]);
        frame.extend(if tag == depth { [0x08, 0x00] } else { [0x88, 0xa8] });
    }
    frame.extend_from_slice(&ipv4(2, 0x1234)[14..]);
    frame
}

#[test]
fn vlans_are_looked_through() {
    for depth in 1..=9 {
        let mut frame = tagged(depth);
        let at = 14 + 4 * depth;
        // Behind the tags, only the last one is looked at, however many there are.
        assert_eq!(ecn(&frame, at, 0x8100), Some(Ecn::Ect0), "{depth}");
        assert!(try_mark_ce(&mut frame, at, 0x8100), "{depth}");
        assert_eq!(frame[at + 1], 3);
        assert_eq!(cake_dscp(&[&frame[..at], &[0x45, 0xb8]].concat(), at, 0x8100), 46);
        // Before the tags there are seven looks, the first at the frame's own EtherType; without a link-layer header
        // the first is at the first tag.
        let frame = [&frame[..12], &[0x81, 0], &frame[14..]].concat();
        assert_eq!(ethertype_after_vlans(&frame, 14, 0x8100), (depth <= 6).then_some(0x0800), "{depth}");
        assert_eq!(ethertype_after_vlans(&frame, 0, 0x8100), (depth <= 7).then_some(0x0800), "{depth}");
        assert_eq!(ethertype_after_vlans(&frame, 3, 0x8100), None);
    }
    // The tags' end is missing.
    assert_eq!(ethertype_after_vlans(&tagged(1)[..17], 18, 0x8100), None);
    assert_eq!(ethertype_after_vlans(&[], 14, 0x0800), Some(0x0800));
}

#[test]
fn ds_field_needs_the_whole_basic_header() {
    for tos in 0..=255 {
        let (four, six) = (ipv4(tos, 0), ipv6(tos));
        assert_eq!(ds_field(&four, 14, 0x0800), Some(tos));
        assert_eq!(ds_field(&four[..33], 14, 0x0800), None);
        assert_eq!(ds_field(&six, 14, 0x86dd), Some(tos));
        assert_eq!(ds_field(&six[..53], 14, 0x86dd), None);
        assert_eq!(ds_field(&four, 14, 0x0806), None);
        assert_eq!(ecn(&four, 14, 0x0800).map(|ecn| ecn as u8), Some(tos & 3));
        // CAKE is content with two bytes.
        assert_eq!(cake_dscp(&four[..16], 14, 0x0800), tos >> 2);
        assert_eq!(cake_dscp(&six[..16], 14, 0x86dd), tos >> 2);
        assert_eq!(cake_dscp(&four[..15], 14, 0x0800), 0);
        assert_eq!(cake_dscp(&four, 14, 0x88cc), 0);
    }
    assert_eq!(cake_dscp(&[], 14, 0x0806), 56);
}

#[test]
fn wash() {
    // spec/cake.md §23.7.
    let rows = [
        (0xb8, 0x1234, 0x00, 0x12ec),
        (0xb9, 0x0000, 0x01, 0x00b8),
        (0xb8, 0xffff, 0x00, 0x00b8),
        (0x20, 0xfff0, 0x00, 0x0011),
        (0x22, 0x00ff, 0x02, 0x011f),
        (0xff, 0xff10, 0x03, 0x000d),
        // Where ones' complement has two zeros, this writes the positive one.
        (0x20, 0xffdf, 0x00, 0x0000),
        (0x21, 0xffde, 0x01, 0xfffe),
    ];
    for (tos, before, new_tos, after) in rows {
        let mut frame = ipv4(tos, before);
        assert_eq!(cake_wash(&mut frame, 14, 0x0800), tos >> 2);
        assert_eq!(frame, ipv4(new_tos, after), "{tos:02x} {before:04x}");
        let mut frame = ipv6(tos);
        assert_eq!(cake_wash(&mut frame, 14, 0x86dd), tos >> 2);
        assert_eq!(frame, ipv6(tos & 3));
    }
    let mut clean = ipv4(0x03, 0x1234);
    assert_eq!((cake_wash(&mut clean, 14, 0x0800), clean), (0, ipv4(0x03, 0x1234)));
    let mut short = ipv4(0xb8, 0x1234);
    assert_eq!((cake_wash(&mut short[..33], 14, 0x0800), short), (0, ipv4(0xb8, 0x1234)));
    let mut short = ipv6(0xb8);
    assert_eq!((cake_wash(&mut short[..53], 14, 0x86dd), short), (0, ipv6(0xb8)));
    assert_eq!(cake_wash(&mut [], 14, 0x0806), 56);
}

/// From a valid header, every rewrite leads to a valid header.
#[test]
fn rewritten_checksums_verify() {
    let sum = |header: &[u8]| {
        let sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        (sum & 0xffff) + (sum >> 16)
    };
    for id in 0..=0xffff_u16 {
        let tos = (id >> 3) as u8 | 0x04;
        let mut frame = ipv4(tos, 0);
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        let valid = !(sum(&frame[14..34]) as u16);
        frame[24..26].copy_from_slice(&valid.to_be_bytes());
        let verifies = |frame: &[u8]| matches!(sum(&frame[14..34]), 0xffff | 0x1_fffe);
        assert!(verifies(&frame), "{id:04x}");
        let mut marked = frame;
        try_mark_ce(&mut marked, 14, 0x0800);
        assert!(verifies(&marked), "{id:04x}: mark");
        cake_wash(&mut frame, 14, 0x0800);
        assert!(verifies(&frame), "{id:04x}: wash");
    }
}

#[test]
fn any_bytes() {
    bolero::check!().with_type::<(Vec<u8>, u8, u16)>().for_each(|(bytes, offset, ethertype)| {
        for ethertype in [*ethertype, 0x0800, 0x86dd, 0x8100, 0x0806] {
            let mut frame = bytes.clone();
            let offset = usize::from(*offset);
            let before = ecn(&frame, offset, ethertype);
            let marked = try_mark_ce(&mut frame, offset, ethertype);
            assert_eq!(marked, before.is_some_and(|ecn| ecn != Ecn::NotEct));
            if marked {
                assert_eq!(ecn(&frame, offset, ethertype), Some(Ecn::Ce));
            }
            let dscp = cake_dscp(&frame, offset, ethertype);
            let washed = cake_wash(&mut frame, offset, ethertype);
            assert!(washed == dscp || washed == 0);
        }
    });
}
