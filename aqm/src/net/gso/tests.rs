use super::*;

/// The packet of spec/cake.md §23.6: TCP over IPv4, 32-byte TCP header, payloads 1448, 1448, 100.
fn packet() -> (GsoPacket, [u8; 100]) {
    let mut frame = [0; 100];
    frame[34 + 12] = 0x80;
    let packet = GsoPacket {
        length: 3062,
        segment_bytes: 1448,
        segments: 3,
        untrusted: false,
        kind: GsoKind::TcpV4,
        transport_offset: Some(34),
        encapsulated: false,
        inner_transport_offset: None,
    };
    (packet, frame)
}

fn wire(packet: GsoPacket, frame: &[u8]) -> [Option<(u32, u16)>; 3] {
    let one = |linux| packet.wire_length(linux, frame).ok().map(|wire| (wire.bytes, wire.segments));
    Linux::ALL.map(one)
}

fn all(bytes: u32, segments: u16) -> [Option<(u32, u16)>; 3] {
    [Some((bytes, segments)); 3]
}

/// 6.1 gives this, the later ones refuse.
fn lenient(bytes: u32, segments: u16) -> [Option<(u32, u16)>; 3] {
    [Some((bytes, segments)), None, None]
}

#[test]
fn worked_example() {
    let (packet, frame) = packet();
    assert_eq!(wire(packet, &frame), all(3194, 3));
    for linux in Linux::ALL {
        assert_eq!(packet.cake_header_length(linux, &frame), 66);
    }
}

#[test]
fn kinds() {
    let (packet, frame) = packet();
    let of = |kind| wire(GsoPacket { kind, ..packet }, &frame);
    assert_eq!(of(GsoKind::TcpV6), all(3194, 3));
    assert_eq!(of(GsoKind::UdpL4), all(3062 + 2 * 42, 3));
    assert_eq!(of(GsoKind::Other), all(3062 + 2 * 34, 3));
    assert_eq!(wire(GsoPacket { segment_bytes: 0, segments: 9, ..packet }, &frame), all(3062, 1));
    assert_eq!(wire(GsoPacket { segments: 1, ..packet }, &frame), all(3062, 1));
    // CAKE adds eight bytes for anything that is not TCP.
    let cake = |kind, frame: &[u8]| GsoPacket { kind, ..packet }.cake_header_length(Linux::V7_2, frame);
    assert_eq!((cake(GsoKind::UdpL4, &frame), cake(GsoKind::Other, &frame)), (42, 42));
    assert_eq!((cake(GsoKind::Other, &frame[..41]), cake(GsoKind::TcpV4, &frame[..53])), (34, 34));
}

#[test]
fn missing_and_absurd_headers() {
    let (packet, mut frame) = packet();
    assert_eq!(wire(packet, &frame[..53]), lenient(3062 + 2 * 34, 3));
    assert_eq!(wire(packet, &frame[..54]), all(3194, 3));
    let udp = GsoPacket { kind: GsoKind::UdpL4, ..packet };
    assert_eq!(wire(udp, &frame[..41]), lenient(3062 + 2 * 34, 3));
    frame[34 + 12] = 0x40;
    assert_eq!(wire(packet, &frame), lenient(3062 + 2 * 50, 3));
    // A transport header never noted: nothing is added.
    assert_eq!(wire(GsoPacket { transport_offset: None, ..packet }, &frame), all(3062, 3));
}

#[test]
fn tunnels_count_to_the_inner_transport_header() {
    let (packet, mut frame) = packet();
    frame[54 + 12] = 0x50;
    let tunnel = GsoPacket { encapsulated: true, inner_transport_offset: Some(54), ..packet };
    assert_eq!(wire(tunnel, &frame), [Some((3194, 3)), Some((3062 + 2 * 74, 3)), Some((3062 + 2 * 74, 3))]);
    let cake = |linux| tunnel.cake_header_length(linux, &frame);
    assert_eq!(Linux::ALL.map(cake), [66, 66, 74]);
}

#[test]
fn untrusted_segment_counts_are_recomputed() {
    let (packet, frame) = packet();
    let untrusted = GsoPacket { untrusted: true, segments: 40, ..packet };
    assert_eq!(wire(untrusted, &frame), all(3194, 3));
    assert_eq!(wire(GsoPacket { length: 66 + 2896, ..untrusted }, &frame), all(2962 + 66, 2));
    for length in [10, 66] {
        assert_eq!(wire(GsoPacket { length, ..untrusted }, &frame), lenient(length, 40));
    }
    // Sixteen bits of count: 65537 segments of one byte are 1.
    let many = GsoPacket { length: 66 + 65_537, segment_bytes: 1, ..untrusted };
    assert_eq!(wire(many, &frame), all(66 + 65_537, 1));
}
