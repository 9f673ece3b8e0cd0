//! What real kernels answered for the same bytes (the files beside this one say which and how).

extern crate std;

use std::vec;
use std::vec::Vec;

use super::{Headers, Segmenter, SipKey, VlanTag, ecn, flow_hash};

/// Bytes 00 01 … 0f.
const KEY: SipKey = SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

/// The lines of an answer file, split into fields, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    numbered.map(|(index, line)| (index + 1, line.split_whitespace().collect()))
}

fn number(hex: &str) -> u32 {
    u32::from_str_radix(hex, 16).unwrap()
}

/// `before` zero bytes, then these; "-" stands for none.
fn bytes(before: usize, hex: &str) -> Vec<u8> {
    let mut bytes = vec![0; before];
    if hex != "-" {
        bytes.extend((0..hex.len()).step_by(2).map(|at| number(&hex[at..at + 2]) as u8));
    }
    bytes
}

#[test]
fn flow_hashes() {
    let mut count = 0;
    for (line, fields) in lines(include_str!("dissect.txt")) {
        let [ethertype, tag, frame, hash] = fields[..] else { panic!("line {line}") };
        let frame = bytes(14, frame);
        let mut headers = Headers::new(&frame, 14, number(ethertype) as u16);
        if tag != "-" {
            let tag = number(tag);
            headers = headers.with_vlan(VlanTag::new((tag >> 16) as u16, tag as u16));
        }
        assert_eq!(flow_hash(&headers, &KEY), number(hash), "line {line}");
        count += 1;
    }
    assert_eq!(count, 420);
}

#[test]
fn rewritten_headers() {
    let (mut marked, mut washed) = (0, 0);
    for (line, fields) in lines(include_str!("rewrite.txt")) {
        let [offset, ethertype, frame, mark, wash] = fields[..] else { panic!("line {line}") };
        let (offset, ethertype) = (offset.parse().unwrap(), number(ethertype) as u16);
        let before = bytes(12, frame);
        let expected = |answer: &str| {
            let mut frame = before.clone();
            if answer != "-" {
                let header = bytes(0, answer);
                frame[offset..offset + header.len()].copy_from_slice(&header);
            }
            frame
        };
        let mut frame = before.clone();
        ecn::try_mark_ce(&mut frame, offset, ethertype);
        assert_eq!(frame, expected(mark), "line {line}: mark");
        let mut frame = before.clone();
        ecn::cake_wash(&mut frame, offset, ethertype);
        assert_eq!(frame, expected(wash), "line {line}: wash");
        marked += u32::from(mark != "-");
        washed += u32::from(wash != "-");
    }
    assert!(marked > 70 && washed > 100, "{marked} {washed}");
}

#[test]
fn segments() {
    let (mut refused, mut count) = (0, 0);
    for (line, fields) in lines(include_str!("segment.txt")) {
        let [size, fixed, frame, answer] = fields[..] else { panic!("line {line}") };
        let frame = bytes(12, frame);
        let segmenter = match Segmenter::new(&frame, size.parse().unwrap()) {
            Ok(segmenter) if fixed == "fixed" => segmenter.with_fixed_id(),
            Ok(segmenter) => segmenter,
            Err(_) => {
                assert_eq!(answer, "-", "line {line}");
                refused += 1;
                continue;
            }
        };
        let expected: Vec<Vec<u8>> = answer.split(',').map(|segment| bytes(12, segment)).collect();
        assert_eq!(segmenter.segments(), expected.len(), "line {line}");
        for (index, expected) in expected.iter().enumerate() {
            let mut segment = vec![0; frame.len()];
            let length = segmenter.write_segment(index, &mut segment).unwrap();
            // The answers leave the two addresses out.
            segment[..12].fill(0);
            assert_eq!(segment[..length], expected[..], "line {line}, segment {index}");
            count += 1;
        }
    }
    assert!(refused == 6 && count > 100, "{refused} refused, {count} segments");
}
