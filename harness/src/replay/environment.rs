use debloat_aqm::net::SipKey;
use debloat_aqm::{DropReason, Environment, TreeCorrection};

use super::packet::TracePacket;
use crate::trace::{Call, PacketRef, Step};

/// Feeds one call's recorded clock reads and draws, in order, and keeps what the port does.
#[derive(Debug)]
pub(super) struct Recorded<'a> {
    clocks: Vec<u64>,
    draws: Vec<(u8, u64)>,
    clock_reads: usize,
    draws_taken: usize,
    /// Draws asked for in another width than recorded, or beyond the last.
    pub(super) wrong_draws: Vec<u8>,
    pub(super) dropped: Vec<(PacketRef, DropReason)>,
    pub(super) corrections: Vec<TreeCorrection>,
    secret: SipKey,
    call: &'a Call,
}

impl<'a> Recorded<'a> {
    pub(super) fn new(call: &'a Call, secret: SipKey) -> Self {
        let mut clocks = Vec::new();
        let mut draws = Vec::new();
        for step in &call.steps {
            match step {
                Step::Clock(ns) => clocks.push(*ns),
                Step::Draw { bits, value } => draws.push((*bits, *value)),
                _ => {}
            }
        }
        Self {
            clocks,
            draws,
            clock_reads: 0,
            draws_taken: 0,
            wrong_draws: Vec::new(),
            dropped: Vec::new(),
            corrections: Vec::new(),
            secret,
            call,
        }
    }

    /// Clock reads: recorded and made.
    pub(super) fn clock_reads(&self) -> (usize, usize) {
        (self.clocks.len(), self.clock_reads)
    }

    /// Draws: recorded and taken.
    pub(super) fn draws(&self) -> (usize, usize) {
        (self.draws.len(), self.draws_taken)
    }

    fn draw(&mut self, bits: u8) -> u64 {
        let draw = self.draws.get(self.draws_taken).copied();
        self.draws_taken += 1;
        match draw {
            Some((recorded, value)) if recorded == bits => value,
            _ => {
                self.wrong_draws.push(bits);
                draw.map_or(0, |(_, value)| value)
            }
        }
    }
}

impl Environment<TracePacket> for Recorded<'_> {
    fn now_ns(&mut self) -> u64 {
        let now = self.clocks.get(self.clock_reads).or(self.clocks.last()).copied();
        self.clock_reads += 1;
        now.unwrap_or(self.call.time_ns)
    }
    fn coarse_now_ns(&mut self) -> u64 {
        self.call.time_ns
    }
    fn random_u8(&mut self) -> u8 {
        self.draw(8) as u8
    }
    fn random_u16(&mut self) -> u16 {
        self.draw(16) as u16
    }
    fn random_u32(&mut self) -> u32 {
        self.draw(32) as u32
    }
    fn random_u64(&mut self) -> u64 {
        self.draw(64)
    }
    fn flow_secret(&self) -> SipKey {
        self.secret
    }
    fn dropped(&mut self, packet: TracePacket, reason: DropReason) {
        self.dropped.push((packet.reference(), reason));
    }
    fn correct_tree(&mut self, correction: TreeCorrection) {
        // Linux's own call is made even where there is nothing to correct; a recorder sees only those that matter.
        self.corrections.push(correction);
    }
}
