//! The table of spec/cake.md §23.15, and the cases CK-07, CK-08, CK-09 and CK-25.

use crate::cake::tests::support::{Frame, T0, World};
use crate::cake::{AckFilter, Cake, Config, Diffserv, FlowMode};
use crate::{Configure, Gso, GsoDetails, Linux, Qdisc};
use std::vec::Vec;

const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const PSH: u8 = 0x08;
const FIN: u8 = 0x01;

/// A segment of one connection.
#[derive(Clone, Debug)]
struct Segment {
    ack: u32,
    flags: u8,
    options: Vec<u8>,
    payload: usize,
    source_port: u16,
}

fn ack(ack: u32) -> Segment {
    Segment { ack, flags: ACK, options: Vec::new(), payload: 0, source_port: 5000 }
}

impl Segment {
    fn flags(self, flags: u8) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    fn data(self) -> Self {
        Self { payload: 100, ..self }
    }

    fn other(self) -> Self {
        Self { source_port: 5001, ..self }
    }

    fn option(mut self, bytes: &[u8]) -> Self {
        self.options.extend_from_slice(bytes);
        while self.options.len() % 4 != 0 {
            self.options.push(1);
        }
        self
    }

    fn sack(self, start: u32, end: u32) -> Self {
        let mut bytes = [5, 10, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[2..6].copy_from_slice(&start.to_be_bytes());
        bytes[6..].copy_from_slice(&end.to_be_bytes());
        self.option(&bytes)
    }

    fn timestamp(self, value: u32) -> Self {
        let mut bytes = [8, 10, 0, 0, 0, 0, 0, 0, 0, 7];
        bytes[2..6].copy_from_slice(&value.to_be_bytes());
        self.option(&bytes)
    }

    fn tcp(&self) -> Vec<u8> {
        let mut tcp = std::vec![0; 20];
        tcp[..2].copy_from_slice(&self.source_port.to_be_bytes());
        tcp[2..4].copy_from_slice(&80u16.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        tcp[12] = (5 + self.options.len() as u8 / 4) << 4;
        tcp[13] = self.flags;
        tcp.extend_from_slice(&self.options);
        tcp.resize(tcp.len() + self.payload, 0xaa);
        tcp
    }

    fn ipv4(&self, id: u32) -> Frame {
        let tcp = self.tcp();
        let mut frame =
            Frame::ipv4(id, 34 + tcp.len().max(20), 0, 6, [[10, 0, 0, 1], [192, 0, 2, 1]], [self.source_port, 80]);
        frame.bytes[34..34 + tcp.len()].copy_from_slice(&tcp);
        frame
    }

    fn ipv6(&self, id: u32) -> Frame {
        let tcp = self.tcp();
        let mut bytes = std::vec![0; 54];
        bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        bytes[18..20].copy_from_slice(&(tcp.len() as u16).to_be_bytes());
        bytes[20] = 6;
        bytes[22] = 0x20;
        bytes[38] = 0x20;
        bytes.extend_from_slice(&tcp);
        Frame::of_bytes(id, bytes)
    }

    /// IPv6 in IPv4.
    fn tunnelled(&self, id: u32) -> Frame {
        let inner = self.ipv6(id).bytes;
        let mut frame = Frame::ipv4(id, 20 + inner.len(), 0, 41, [[10, 0, 0, 1], [192, 0, 2, 1]], [0, 0]);
        frame.bytes[34..].copy_from_slice(&inner[14..]);
        frame
    }
}

fn cake(mode: AckFilter, linux: Linux) -> Cake<Frame> {
    let config = Config {
        ack_filter: Some(mode),
        diffserv: Some(Diffserv::Besteffort),
        flow_mode: Some(FlowMode::FLOWBLIND),
        split_gso: Some(false),
        ..Config::default()
    };
    Cake::new(config.behave_like(linux)).unwrap()
}

/// Which of the frames, numbered from 1, stay.
fn stay(mode: AckFilter, linux: Linux, frames: impl IntoIterator<Item = Frame>) -> Vec<u32> {
    let mut queue = cake(mode, linux);
    let mut world = World::new(1);
    assert_eq!(world.now, T0);
    for frame in frames {
        let _ = queue.enqueue(frame, &mut world);
    }
    queue.packets(0, 0).map(|frame| frame.id).collect()
}

#[test]
fn table() {
    let rows: Vec<(Vec<Segment>, &[u32], &[u32])> = std::vec![
        (std::vec![ack(1000), ack(2000), ack(3000)], &[2, 3], &[3]),
        (std::vec![ack(1000), ack(2000)], &[1, 2], &[2]),
        (std::vec![ack(1000), ack(2000), ack(3000).data()], &[2, 3], &[3]),
        (std::vec![ack(1000), ack(2000).flags(ECE), ack(3000)], &[1, 2, 3], &[1, 2, 3]),
        (std::vec![ack(1000).flags(ECE), ack(2000).flags(ECE), ack(3000)], &[2, 3], &[2, 3]),
        (std::vec![ack(1000), ack(1000), ack(1000)], &[1, 2, 3], &[1, 2, 3]),
        (std::vec![ack(1000).sack(2000, 3000), ack(1000).sack(2000, 4000), ack(1000).sack(2000, 5000)], &[2, 3], &[3],),
        (std::vec![ack(1000).sack(3000, 4000), ack(1500).sack(3000, 4000), ack(2000).sack(3000, 4000)], &[2, 3], &[3],),
        (std::vec![ack(1000).sack(500, 600), ack(2000), ack(3000)], &[1, 2, 3], &[1, 3]),
        (std::vec![ack(1000).timestamp(50), ack(2000).timestamp(60), ack(3000).timestamp(55)], &[1, 2, 3], &[2, 3],),
        (std::vec![ack(1000).timestamp(50), ack(2000).timestamp(60), ack(3000)], &[1, 2, 3], &[2, 3]),
        (std::vec![ack(1000).flags(PSH), ack(2000), ack(3000)], &[1, 2, 3], &[1, 3]),
        (std::vec![ack(1000), ack(2000), ack(3000).flags(FIN)], &[2, 3], &[3]),
        (std::vec![ack(1000), ack(1).other(), ack(2000), ack(3000)], &[2, 3, 4], &[2, 3, 4]),
        (std::vec![ack(1000), ack(1).other(), ack(2000)], &[1, 2, 3], &[1, 2, 3]),
        (std::vec![ack(1000), ack(3000), ack(2000)], &[1, 2, 3], &[2, 3]),
        (std::vec![ack(1000).option(&[99, 4, 0, 0]), ack(2000), ack(3000)], &[1, 2, 3], &[1, 3]),
    ];
    for (segments, normal, aggressive) in rows {
        let numbered = || segments.iter().zip(1..);
        for linux in Linux::ALL {
            for (mode, left) in [(AckFilter::Normal, normal), (AckFilter::Aggressive, aggressive)] {
                let name = std::format!("{mode:?} on {linux}: {segments:#?}");
                assert_eq!(stay(mode, linux, numbered().map(|(segment, id)| segment.ipv4(id))), left, "{name}");
                assert_eq!(stay(mode, linux, numbered().map(|(segment, id)| segment.ipv6(id))), left, "IPv6, {name}");
                let tunnelled = numbered().map(|(segment, id)| segment.tunnelled(id));
                assert_eq!(stay(mode, linux, tunnelled), left, "6in4, {name}");
            }
        }
    }
}

fn aggressive(segments: [Segment; 2]) -> Vec<u32> {
    let frames = segments.iter().zip(1..).map(|(segment, id)| segment.ipv4(id));
    stay(AckFilter::Aggressive, Linux::V7_2, frames.collect::<Vec<_>>())
}

/// CK-07: acknowledgement numbers wrap.
#[test]
fn numbers_wrap() {
    assert_eq!(aggressive([ack(0xffff_ff00), ack(0x100)]), [2]);
    assert_eq!(aggressive([ack(0x100), ack(0xffff_ff00)]), [1, 2]);
}

/// CK-08: each flag on the queued packet.
#[test]
fn flags_of_the_queued_packet() {
    for flag in [0x01, 0x02, 0x04, 0x08, 0x20] {
        assert_eq!(aggressive([ack(1).flags(flag), ack(2)]), [1, 2], "flag {flag:#x}");
    }
    for flag in [0x40, 0x80] {
        assert_eq!(aggressive([ack(1).flags(flag), ack(2)]), [1, 2], "flag {flag:#x} on the queued one only");
        assert_eq!(aggressive([ack(1).flags(flag), ack(2).flags(flag)]), [2], "flag {flag:#x} on both");
    }
    let mut reserved = ack(1).ipv4(1);
    reserved.bytes[46] |= 1;
    assert_eq!(stay(AckFilter::Aggressive, Linux::V7_2, [reserved, ack(2).ipv4(2)]), [1, 2], "accurate ECN");
    let no_ack = Segment { flags: 0, ..ack(1) };
    assert_eq!(aggressive([no_ack, ack(2)]), [1, 2]);
}

/// CK-09: option bytes that end early leave the ACK droppable.
#[test]
fn options_that_end_early() {
    for options in [[1, 1, 1, 8], [1, 1, 8, 0], [1, 1, 8, 1], [8, 11, 0, 0]] {
        assert_eq!(aggressive([ack(1).option(&options), ack(2)]), [2], "{options:?}");
    }
    for options in [[8, 4, 0, 0], [5, 4, 0, 0], [2, 4, 5, 180], [4, 2, 1, 1]] {
        assert_eq!(aggressive([ack(1).option(&options), ack(2)]), [1, 2], "{options:?}");
    }
    let mut md5 = [0; 18];
    (md5[0], md5[1]) = (19, 18);
    assert_eq!(aggressive([ack(1).option(&md5), ack(2)]), [2]);
}

/// CK-25: malformed headers pass unfiltered.
#[test]
fn malformed_headers() {
    let broken: [(&str, fn(&mut Vec<u8>)); 5] = [
        ("IPv4 header of four words", |bytes| bytes[14] = 0x44),
        ("truncated TCP header", |bytes| bytes.truncate(53)),
        ("TCP data offset 3", |bytes| bytes[46] = 0x30),
        ("TCP options cut", |bytes| bytes[46] = 0x60),
        ("neither IPv4 nor IPv6", |bytes| bytes[14] = 0x55),
    ];
    for (name, breaks) in broken {
        for (first, second) in [(true, false), (false, true), (true, true)] {
            let (mut one, mut two) = (ack(1).ipv4(1), ack(2).ipv4(2));
            for (frame, apply) in [(&mut one, first), (&mut two, second)] {
                if apply {
                    breaks(&mut frame.bytes);
                }
            }
            let left = stay(AckFilter::Aggressive, Linux::V7_2, [one, two]);
            // With a header of four words both parse, alike, 4 bytes too early: as data offset 0.
            assert_eq!(left, [1, 2], "{name}, {first} {second}");
        }
    }
    let mut cut = [ack(1).tunnelled(1), ack(2).tunnelled(2)];
    for frame in &mut cut {
        frame.bytes.truncate(34 + 30);
    }
    assert_eq!(stay(AckFilter::Aggressive, Linux::V7_2, cut), [1, 2]);
}

/// §13.3 step 2: length fields of 0 when the trigger is a TCP GSO packet.
#[test]
fn zero_length_fields() {
    let gso = |mut frame: Frame| {
        frame.gso = Gso { segments: 2, segment_bytes: 50 };
        frame.details = GsoDetails { header_bytes: 54, untrusted: false, tcp: true };
        frame
    };
    for linux in Linux::ALL {
        let zero4 = || {
            let mut frame = ack(1).ipv4(1);
            frame.bytes[16..18].fill(0);
            frame
        };
        // The trigger's 20 bytes of TCP make the queued one a pure ACK.
        assert_eq!(stay(AckFilter::Aggressive, linux, [zero4(), gso(ack(2).ipv4(2))]), [2], "{linux}");
        assert_eq!(stay(AckFilter::Aggressive, linux, [zero4(), gso(ack(2).data().ipv4(2))]), [1, 2], "{linux}");
        assert_eq!(stay(AckFilter::Aggressive, linux, [zero4(), ack(2).ipv4(2)]), [1, 2], "{linux}");
        let zero6 = || {
            let mut frame = ack(1).ipv6(1);
            frame.bytes[18..20].fill(0);
            frame
        };
        let left: &[u32] = if linux == Linux::V6_1 { &[1, 2] } else { &[2] };
        assert_eq!(stay(AckFilter::Aggressive, linux, [zero6(), gso(ack(2).ipv6(2))]), left, "{linux}");
        assert_eq!(stay(AckFilter::Aggressive, linux, [zero6(), ack(2).ipv6(2)]), [1, 2], "{linux}");
    }
}
