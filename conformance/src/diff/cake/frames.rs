//! Headers of the frames that the traffic is made of.

use debloat_aqm::net::checksum::ipv4_header;
use debloat_aqm::net::testing::Dice;

/// The IP version around a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Around {
    Ipv4,
    Ipv6,
    /// IPv6 in IPv4.
    Tunnel,
}

/// The ends of a flow: small numbers, so that hosts meet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

/// What differs between the packets of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transport {
    pub(super) protocol: u8,
    pub(super) header: Vec<u8>,
    pub(super) payload: usize,
}

/// A frame's headers and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Built {
    pub(super) frame: Vec<u8>,
    /// With the payload.
    pub(super) len: usize,
    pub(super) network_offset: u16,
    pub(super) transport_offset: u16,
    pub(super) inner: Option<(u16, u16)>,
}

/// Builds Ethernet, IP and transport headers; the length fields count the payload.
pub(super) fn build(around: Around, ends: Ends, ds_field: u8, transport: &Transport) -> Built {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let body = transport.header.len() + transport.payload;
    let mut inner = None;
    match around {
        Around::Ipv4 => ipv4(&mut frame, ends, ds_field, transport.protocol, body),
        Around::Ipv6 => {
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            ipv6(&mut frame, ends, ds_field, transport.protocol, body);
        }
        Around::Tunnel => {
            ipv4(&mut frame, Ends { source: 900, destination: 901, ..ends }, ds_field, 41, body + 40);
            inner = Some((34, 74));
            ipv6(&mut frame, ends, ds_field, transport.protocol, body);
        }
    }
    let transport_offset = if inner.is_some() { 34 } else { frame.len() as u16 };
    frame.extend_from_slice(&transport.header);
    let len = frame.len() + transport.payload;
    Built { frame, len, network_offset: 14, transport_offset, inner }
}

fn ipv4(frame: &mut Vec<u8>, ends: Ends, ds_field: u8, protocol: u8, body: usize) {
    let start = frame.len();
    let total = (body + 20) as u16;
    frame.extend_from_slice(&[
        0x45,
        ds_field,
        (total >> 8) as u8,
        total as u8,
        0x12,
        0x34,
        0x40,
        0,
        64,
        protocol,
        0,
        0,
    ]);
    for host in [ends.source, ends.destination] {
        frame.extend_from_slice(&[10, 0, (host >> 8) as u8, host as u8]);
    }
    let checksum = ipv4_header(&frame[start..]);
    frame[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
}

fn ipv6(frame: &mut Vec<u8>, ends: Ends, ds_field: u8, protocol: u8, body: usize) {
    frame.extend_from_slice(&[0x60 | ds_field >> 4, ds_field << 4, 0, 0, (body >> 8) as u8, body as u8, protocol, 64]);
    for host in [ends.source, ends.destination] {
        frame.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend_from_slice(&host.to_be_bytes());
    }
}

/// A UDP header.
pub(super) fn udp(ends: Ends, payload: usize) -> Transport {
    let length = (payload + 8) as u16;
    let mut header = Vec::with_capacity(8);
    for word in [ends.source_port, ends.destination_port, length, 0x5555] {
        header.extend_from_slice(&word.to_be_bytes());
    }
    Transport { protocol: 17, header, payload }
}

/// An ICMP echo, or any protocol without ports.
pub(super) fn other(protocol: u8, payload: usize) -> Transport {
    Transport { protocol, header: vec![8, 0, 0, 0, 0, 1, 0, 1], payload }
}

/// What a TCP header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) sequence: u32,
    pub(super) ack: u32,
    /// Flags and reserved bits, as in the header's word.
    pub(super) flags: u16,
    pub(super) options: Vec<u8>,
}

/// A TCP header; options are padded with "no operation".
pub(super) fn tcp(ends: Ends, about: &Tcp, payload: usize) -> Transport {
    let mut header = Vec::with_capacity(60);
    header.extend_from_slice(&ends.source_port.to_be_bytes());
    header.extend_from_slice(&ends.destination_port.to_be_bytes());
    header.extend_from_slice(&about.sequence.to_be_bytes());
    header.extend_from_slice(&about.ack.to_be_bytes());
    let options = about.options.len().min(40).next_multiple_of(4);
    let word = ((5 + options / 4) as u16) << 12 | about.flags & 0xfff;
    header.extend_from_slice(&word.to_be_bytes());
    header.extend_from_slice(&[0x20, 0, 0x77, 0x77, 0, 0]);
    header.extend_from_slice(&about.options[..about.options.len().min(40)]);
    header.resize(20 + options, 1);
    Transport { protocol: 6, header, payload }
}

/// Options that the ACK filter looks at, sensible ones and others. `now` is the connection's time stamp.
pub(super) fn ack_options(dice: &mut Dice<'_>, ack: u32, now: u32) -> Vec<u8> {
    let mut options = Vec::new();
    match dice.below(16) {
        0..=6 => timestamps(&mut options, now, 7),
        7 | 8 => {}
        9..=11 => {
            timestamps(&mut options, now, 7);
            sack(&mut options, dice, ack);
        }
        12 => sack(&mut options, dice, ack),
        13 => {
            let step = dice.pick(&[0, 1, u32::MAX, 1 << 31]);
            timestamps(&mut options, now.wrapping_add(step), dice.pick(&[7, 8, 6]));
        }
        14 => options.extend_from_slice(dice.pick::<&[u8]>(&[
            &[2, 4, 5, 180],
            &[4, 2],
            &[3, 3, 7],
            &[30, 4, 0, 0],
            &[253, 4, 1, 2],
            &[8, 4, 0, 0],
            &[5, 4, 0, 0],
            &[19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[5, 2],
            &[0, 2, 4, 5, 180],
        ])),
        _ => {
            for _ in 0..dice.below(13) {
                options.push(dice.byte() & dice.pick(&[0x0f, 0x1f, 0xff]));
            }
        }
    }
    options
}

fn timestamps(options: &mut Vec<u8>, value: u32, echo: u32) {
    options.extend_from_slice(&[1, 1, 8, 10]);
    options.extend_from_slice(&value.to_be_bytes());
    options.extend_from_slice(&echo.to_be_bytes());
}

fn sack(options: &mut Vec<u8>, dice: &mut Dice<'_>, ack: u32) {
    let blocks = 1 + dice.below(3);
    options.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks as u8]);
    for block in 0..blocks as u32 {
        let before = dice.one_in(8);
        let distance = (1 + block) * 2000 + 1000 * dice.below(3) as u32;
        let start = if before { ack.wrapping_sub(distance) } else { ack.wrapping_add(distance) };
        let end = start.wrapping_add(500 + 500 * dice.below(3) as u32);
        options.extend_from_slice(&start.to_be_bytes());
        options.extend_from_slice(&end.to_be_bytes());
    }
}
