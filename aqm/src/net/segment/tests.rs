extern crate std;

use std::vec;
use std::vec::Vec;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpHeader, TransportSlice, UdpHeader};

use super::*;
use crate::net::testing::{Dice, gso_frame};

fn cut(segmenter: &Segmenter<'_>) -> Vec<Vec<u8>> {
    let one = |index| {
        let mut frame = vec![0xaa; segmenter.segment_length(index).unwrap()];
        assert_eq!(segmenter.write_segment(index, &mut frame), Ok(frame.len()));
        frame
    };
    (0..segmenter.segments()).map(one).collect()
}

/// What etherparse reads: TCP or UDP header and payload, after checking all lengths and checksums.
fn read(frame: &[u8]) -> (u16, Transports, Vec<u8>) {
    let network = if frame[12] == 0x81 { 18 } else { 14 };
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let net = packet.net.unwrap();
    let id = match &net {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            assert_eq!(usize::from(header.total_len), frame.len() - network);
            header.identification
        }
        NetSlice::Ipv6(ip) => {
            assert_eq!(usize::from(ip.header().payload_length()), frame.len() - network - 40);
            0
        }
        NetSlice::Arp(_) => unreachable!(),
    };
    match packet.transport.unwrap() {
        TransportSlice::Tcp(tcp) => {
            let checksum = match &net {
                NetSlice::Ipv4(ip) => tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()),
                NetSlice::Ipv6(ip) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
                NetSlice::Arp(_) => unreachable!(),
            };
            assert_eq!(checksum, Ok(tcp.checksum()));
            (id, Transports::Tcp(tcp.to_header()), tcp.payload().to_vec())
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let checksum = match &net {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
                NetSlice::Arp(_) => unreachable!(),
            };
            assert_eq!(checksum, Ok(header.checksum));
            (id, Transports::Udp(header), udp.payload().to_vec())
        }
        _ => unreachable!(),
    }
}

enum Transports {
    Tcp(TcpHeader),
    Udp(UdpHeader),
}

/// The original's header, without checking what segmentation makes right.
fn original(frame: &[u8], size: u16) -> (u16, Transports) {
    let segmenter = Segmenter::new(frame, size).unwrap();
    let at = segmenter.layout.transport_offset;
    let network = segmenter.layout.network;
    let id = if segmenter.layout.ipv6 { 0 } else { be16_at(frame, network + 4).unwrap() };
    let transport = match segmenter.layout.transport {
        Transport::Tcp => Transports::Tcp(TcpHeader::from_slice(&frame[at..]).unwrap().0),
        Transport::Udp => Transports::Udp(UdpHeader::from_slice(&frame[at..]).unwrap().0),
    };
    (id, transport)
}

/// Random packets: what etherparse reads from the segments is what went in, and every checksum verifies.
#[test]
fn segments_add_up() {
    let (mut tcp_segments, mut udp_segments) = (0, 0);
    for seed in 0..3000 {
        let (packet, size) = gso_frame(&mut Dice::seeded(seed));
        let segmenter = Segmenter::new(&packet.bytes, size).unwrap();
        let headers = segmenter.header_length();
        let (first_id, before) = original(&packet.bytes, size);
        let mut payload = vec![];
        let segments = cut(&segmenter);
        let last = segments.len() - 1;
        for (index, frame) in segments.iter().enumerate() {
            let (id, after, piece) = read(frame);
            assert_eq!(id, if segmenter.layout.ipv6 { 0 } else { first_id.wrapping_add(index as u16) });
            assert!(index == last || piece.len() == usize::from(size));
            match (&before, after) {
                (Transports::Tcp(before), Transports::Tcp(after)) => {
                    tcp_segments += 1;
                    let mut expected = before.clone();
                    expected.sequence_number = before.sequence_number.wrapping_add(payload.len() as u32);
                    expected.fin &= index == last;
                    expected.psh &= index == last;
                    expected.cwr &= index == 0;
                    expected.checksum = after.checksum;
                    assert_eq!(after, expected, "seed {seed} segment {index}");
                }
                (Transports::Udp(before), Transports::Udp(after)) => {
                    udp_segments += 1;
                    assert_eq!(
                        (after.source_port, after.destination_port),
                        (before.source_port, before.destination_port)
                    );
                    assert_eq!(usize::from(after.length), 8 + piece.len());
                }
                _ => panic!("the protocol changed"),
            }
            // Everything before the IP header, then addresses, options and extension headers.
            let (network, transport) = (packet.network_offset, segmenter.transport_offset());
            assert_eq!(frame[..network + 2], packet.bytes[..network + 2]);
            assert_eq!(frame[network + 6..network + 10], packet.bytes[network + 6..network + 10]);
            assert_eq!(frame[network + 12..transport], packet.bytes[network + 12..transport]);
            payload.extend(piece);
        }
        assert_eq!(payload, packet.bytes[headers..]);
        #[cfg(feature = "bytes")]
        assert!(segmenter.frames().map(|frame| frame.to_vec()).eq(segments));
    }
    assert!(tcp_segments > 20_000 && udp_segments > 10_000, "{tcp_segments} {udp_segments}");
}

fn tcp_packet(payload: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6])
        .single_vlan(100.try_into().unwrap())
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .tcp(1, 2, 0xffff_ff00, 1000)
        .psh()
        .fin()
        .cwr()
        .ece()
        .ack(5);
    let mut frame = vec![];
    builder.write(&mut frame, &vec![7; payload]).unwrap();
    frame
}

#[test]
fn one_packet_by_hand() {
    let packet = tcp_packet(1448 * 2 + 100);
    let segmenter = Segmenter::new(&packet, 1448).unwrap();
    assert_eq!((segmenter.segments(), segmenter.header_length()), (3, 58));
    let segments = cut(&segmenter);
    let lengths: Vec<usize> = segments.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1506, 1506, 158]);
    // Flags: CWR ECE ACK PSH FIN, spread over the three; the sequence number wraps.
    let flags: Vec<u8> = segments.iter().map(|frame| frame[51]).collect();
    assert_eq!(flags, [0xd0, 0x50, 0x59]);
    let sequence = |frame: &Vec<u8>| u32::from_be_bytes(*frame[42..].first_chunk().unwrap());
    let sequences: Vec<u32> = segments.iter().map(sequence).collect();
    assert_eq!(sequences, [0xffff_ff00, 0x4a8, 0xa50]);
    let accurate: Vec<u8> = cut(&segmenter.with_accurate_ecn()).iter().map(|frame| frame[51]).collect();
    assert_eq!(accurate, [0xd0, 0xd0, 0xd9]);
    let ids = |segmenter: &Segmenter<'_>| -> Vec<u8> { cut(segmenter).iter().map(|frame| frame[23]).collect() };
    assert_eq!(ids(&segmenter), [0, 1, 2]);
    assert_eq!(ids(&segmenter.with_fixed_id()), [0, 0, 0]);
    // Gathering: the same headers.
    let mut headers = [0; 60];
    assert_eq!(segmenter.write_headers(1, &mut headers), Ok(58));
    assert_eq!(headers[..58], segments[1][..58]);
    assert_eq!(segmenter.payload(2).map(<[u8]>::len), Some(100));
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_ones() {
    let mut packet = vec![];
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([0; 4], [0; 4], 64).udp(0, 0);
    builder.write(&mut packet, &[0; 64]).unwrap();
    // Choose the payload so that the true checksum is 0: protocol 17, length 40 twice.
    packet[40..42].fill(0);
    packet[42..44].copy_from_slice(&(0xffff_u16 - 17 - 40 - 40).to_be_bytes());
    let segments = cut(&Segmenter::new(&packet, 32).unwrap());
    assert_eq!(segments[0][40..42], [0xff, 0xff]);
    read(&segments[1]);
}

#[test]
fn extension_headers_are_kept() {
    let tcp = &tcp_packet(300)[38..];
    let mut packet = vec![0; 12];
    packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0, 64]);
    packet.extend([3; 32]);
    packet.extend([60, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend([6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(tcp);
    let segmenter = Segmenter::new(&packet, 200).unwrap();
    assert_eq!(segmenter.header_length(), 54 + 24 + 20);
    let segments = cut(&segmenter);
    assert_eq!(segments[1].len(), 98 + 100);
    for frame in &segments {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!() };
        assert_eq!(tcp.calc_checksum_ipv6([3; 16], [3; 16]), Ok(tcp.checksum()));
        assert_eq!(frame[18..20], (frame.len() as u16 - 54).to_be_bytes());
    }
}

#[test]
fn refusals() {
    use SegmentError as E;
    let packet = tcp_packet(200);
    let refused = |frame: &[u8], size| Segmenter::new(frame, size).unwrap_err();
    for (size, payload) in [(0, 200), (200, 200), (1448, 200)] {
        assert_eq!(refused(&packet, size), E::NothingToSplit { payload, segment_bytes: size });
    }
    let changed = |at: usize, byte: u8| {
        let mut frame = packet.clone();
        frame[at] = byte;
        frame
    };
    assert_eq!(refused(&changed(17, 6), 100), E::NotIp(0x0806));
    assert_eq!(refused(&changed(18, 0x44), 100), E::Header { header: "IPv4", offset: 18 });
    assert_eq!(refused(&changed(24, 0x20), 100), E::Fragment(18));
    assert_eq!(refused(&changed(27, 1), 100), E::Protocol(1));
    assert_eq!(refused(&changed(50, 0x40), 100), E::Header { header: "TCP", offset: 38 });
    assert_eq!(refused(&packet[..57], 100), E::Header { header: "TCP", offset: 38 });
    assert_eq!(refused(&packet[..37], 100), E::Header { header: "IPv4", offset: 18 });
    let mut udp = changed(27, 17);
    udp.truncate(45);
    assert_eq!(refused(&udp, 100), E::Header { header: "UDP", offset: 38 });
    assert_eq!(refused(&[], 100), E::NotIp(0));
    let segmenter = Segmenter::new(&packet, 150).unwrap();
    let mut small = [0x55; 207];
    assert_eq!(segmenter.write_segment(0, &mut small), Err(E::Buffer { needed: 208, given: 207 }));
    assert_eq!(segmenter.write_headers(0, &mut small[..57]), Err(E::Buffer { needed: 58, given: 57 }));
    assert_eq!(small, [0x55; 207]);
    assert_eq!(segmenter.write_segment(2, &mut small), Err(E::Index { index: 2, segments: 2 }));
    assert_eq!(segmenter.segment_length(2), None);
    assert_eq!(E::Fragment(18).to_string(), "the IP packet at byte 18 is a fragment");
}

use std::string::ToString;

#[test]
fn any_bytes() {
    bolero::check!().with_type::<(Vec<u8>, u16, u64)>().for_each(|(damage, size, seed)| {
        let (packet, _) = gso_frame(&mut Dice::seeded(*seed));
        let mut bytes = packet.bytes;
        for pair in damage.chunks_exact(2) {
            let at = usize::from(pair[0]) % bytes.len();
            bytes[at] ^= pair[1];
        }
        bytes.truncate(bytes.len() - usize::from(*size >> 4) % bytes.len());
        let Ok(segmenter) = Segmenter::new(&bytes, *size % 600) else { return };
        let mut out = vec![0; bytes.len()];
        for index in [0, 1, segmenter.segments() - 1] {
            let length = segmenter.segment_length(index);
            assert_eq!(segmenter.write_segment(index, &mut out).ok(), length);
        }
    });
}
