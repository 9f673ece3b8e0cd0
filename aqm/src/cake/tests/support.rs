//! Packets over bytes, and an environment that owns time, chance and filters.

use crate::net::{FlowKeys, Headers, SipKey, ecn, flow_hash};
use crate::{Classified, DropReason, Environment, Gso, GsoDetails, Linux, NatTuple, Packet, TreeCorrection};
use std::vec::Vec;

/// A frame for tests. `Clone` makes equal packets with other ids.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) id: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) wire_len: u32,
    pub(crate) truesize: u32,
    pub(crate) given_hash: Option<u32>,
    pub(crate) class: Classified,
    pub(crate) priority: u32,
    pub(crate) mark: u32,
    pub(crate) gso: Gso,
    pub(crate) details: GsoDetails,
    pub(crate) segment_lens: Vec<u32>,
}

impl Frame {
    /// An IPv4 packet as the reference runs have them (spec/cake.md §24.1).
    pub(crate) fn ipv4(id: u32, len: usize, ds_field: u8, protocol: u8, hosts: [[u8; 4]; 2], ports: [u16; 2]) -> Self {
        let mut bytes = std::vec![0; len];
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[15] = ds_field;
        bytes[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
        bytes[22] = 0x40;
        bytes[23] = protocol;
        bytes[26..30].copy_from_slice(&hosts[0]);
        bytes[30..34].copy_from_slice(&hosts[1]);
        bytes[34..36].copy_from_slice(&ports[0].to_be_bytes());
        bytes[36..38].copy_from_slice(&ports[1].to_be_bytes());
        Self::of_bytes(id, bytes)
    }

    pub(crate) fn of_bytes(id: u32, bytes: Vec<u8>) -> Self {
        let wire_len = bytes.len() as u32;
        Self {
            id,
            bytes,
            wire_len,
            truesize: 256 * wire_len.div_ceil(256) + 512,
            given_hash: None,
            class: Classified::NoFilters,
            priority: 0,
            mark: 0,
            gso: Gso::NONE,
            details: GsoDetails::default(),
            segment_lens: Vec::new(),
        }
    }

    /// A UDP packet of that length and DS field.
    pub(crate) fn udp(id: u32, len: usize, ds_field: u8) -> Self {
        Self::ipv4(id, len, ds_field, 17, [[10, 0, 0, 1], [10, 0, 0, 2]], [1, 2])
    }

    pub(crate) fn with_hash(self, hash: u32) -> Self {
        Self { given_hash: Some(hash), ..self }
    }

    pub(crate) fn with_class(self, class: u32) -> Self {
        Self { class: Classified::Class(class), ..self }
    }

    pub(crate) fn numbered(&self, id: u32) -> Self {
        Self { id, ..self.clone() }
    }

    fn ethertype(&self) -> u16 {
        u16::from_be_bytes([self.bytes[12], self.bytes[13]])
    }
}

impl Packet for Frame {
    fn len_bytes(&self) -> u32 {
        self.wire_len
    }
    fn buffer_bytes(&self) -> u32 {
        self.bytes.len() as u32
    }
    fn truesize_bytes(&self) -> u32 {
        self.truesize
    }
    fn gso(&self) -> Gso {
        self.gso
    }
    fn gso_details(&self, _: Linux) -> GsoDetails {
        self.details
    }
    fn priority(&self) -> u32 {
        self.priority
    }
    fn fwmark(&self) -> u32 {
        self.mark
    }
    fn headers(&self) -> Option<Headers<'_>> {
        Some(Headers::new(&self.bytes, 14, self.ethertype()))
    }
    fn flow_hash(&mut self, secret: SipKey) -> u32 {
        flow_hash(&Headers::new(&self.bytes, 14, self.ethertype()), &secret)
    }
    fn ds_field(&self) -> Option<u8> {
        ecn::ds_field(&self.bytes, 14, self.ethertype())
    }
    fn try_mark_ce(&mut self) -> bool {
        let ethertype = self.ethertype();
        ecn::try_mark_ce(&mut self.bytes, 14, ethertype)
    }
    fn wash(&mut self) -> u8 {
        let ethertype = self.ethertype();
        ecn::cake_wash(&mut self.bytes, 14, ethertype)
    }
    fn given_hash(&self) -> Option<u32> {
        self.given_hash
    }
    fn flow_keys(&self) -> Option<FlowKeys> {
        Some(crate::net::dissect(&self.headers()?))
    }
    fn segment(&self, index: usize) -> Option<Self> {
        let len = *self.segment_lens.get(index)?;
        let mut segment = Self::of_bytes(self.id * 100 + index as u32, self.bytes.clone());
        segment.bytes.resize(len as usize, 0);
        segment.wire_len = len;
        segment.given_hash = self.given_hash;
        Some(segment)
    }
}

/// The generator of §24.1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XorShift(pub(crate) u64);

impl XorShift {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `k`.
    pub(crate) fn below(&mut self, k: u64) -> u64 {
        (self.next() >> 32) % k
    }
}

/// The qdisc's world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) draws: XorShift,
    pub(crate) drawn: u64,
    pub(crate) dropped: Vec<(u32, DropReason)>,
    pub(crate) corrections: Vec<TreeCorrection>,
    pub(crate) clock_reads: u64,
    pub(crate) nat: Option<NatTuple>,
}

/// The reference runs' start: 10^12 ns.
pub(crate) const T0: u64 = 1_000_000_000_000;

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: T0,
            draws: XorShift(seed),
            drawn: 0,
            dropped: Vec::new(),
            corrections: Vec::new(),
            clock_reads: 0,
            nat: None,
        }
    }

    /// What was dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.dropped).into_iter().map(|(id, _)| id).collect()
    }
}

impl Environment<Frame> for World {
    fn now_ns(&mut self) -> u64 {
        self.clock_reads += 1;
        self.now
    }
    fn random_u32(&mut self) -> u32 {
        self.drawn += 1;
        (self.draws.next() >> 32) as u32
    }
    fn random_u16(&mut self) -> u16 {
        self.drawn += 1;
        (self.draws.next() >> 48) as u16
    }
    fn flow_secret(&self) -> SipKey {
        SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908])
    }
    fn dropped(&mut self, packet: Frame, reason: DropReason) {
        self.dropped.push((packet.id, reason));
    }
    fn correct_tree(&mut self, correction: TreeCorrection) {
        self.corrections.push(correction);
    }
    fn classify(&mut self, packet: &Frame) -> Classified {
        packet.class
    }
    fn conntrack(&mut self, _: &Frame) -> Option<NatTuple> {
        self.nat
    }
}
