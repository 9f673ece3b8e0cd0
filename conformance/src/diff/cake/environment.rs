//! Feeds the port what the kernel read, and keeps what the port does.

use debloat_aqm::net::SipKey;
use debloat_aqm::{Classified, DropReason, Environment, TreeCorrection};
use debloat_oracle::{Event, Width};

use super::packet::Mirror;

/// The environment of one operation.
#[derive(Debug, Default)]
pub(super) struct Replay {
    clocks: Vec<u64>,
    draws: Vec<(u8, u64)>,
    clock_reads: usize,
    draws_taken: usize,
    /// Draws beyond the kernel's, or of another width.
    wrong_draws: usize,
    pub(super) dropped: Vec<(u64, DropReason)>,
    pub(super) corrections: Vec<(i32, i32)>,
}

impl Replay {
    /// Starts the next operation, in which the kernel did this.
    pub(super) fn start(&mut self, events: &[Event]) {
        self.clocks.clear();
        self.draws.clear();
        self.dropped.clear();
        self.corrections.clear();
        (self.clock_reads, self.draws_taken, self.wrong_draws) = (0, 0, 0);
        for event in events {
            match *event {
                Event::Clock { ns } => self.clocks.push(ns),
                Event::Draw { width, value } => self.draws.push((bits(width), value)),
                _ => {}
            }
        }
    }

    /// Clock reads of the kernel and the port.
    pub(super) fn clock_reads(&self) -> (usize, usize) {
        (self.clocks.len(), self.clock_reads)
    }

    /// Draws of the kernel and the port; draws of another width count as further ones.
    pub(super) fn draws(&self) -> (usize, usize) {
        (self.draws.len(), self.draws_taken + self.wrong_draws)
    }

    fn draw(&mut self, bits: u8) -> u64 {
        let draw = self.draws.get(self.draws_taken).copied();
        self.draws_taken += 1;
        match draw {
            Some((width, value)) if width == bits => value,
            _ => {
                self.wrong_draws += 1;
                0
            }
        }
    }
}

fn bits(width: Width) -> u8 {
    match width {
        Width::U8 => 8,
        Width::U16 => 16,
        Width::U32 | Width::Below(_) => 32,
        Width::U64 => 64,
        Width::Bytes(bytes) => 8 * bytes,
    }
}

impl Environment<Mirror> for Replay {
    fn now_ns(&mut self) -> u64 {
        let now = self.clocks.get(self.clock_reads).or(self.clocks.last()).copied();
        self.clock_reads += 1;
        now.unwrap_or(0)
    }
    fn random_u16(&mut self) -> u16 {
        self.draw(16) as u16
    }
    fn random_u32(&mut self) -> u32 {
        self.draw(32) as u32
    }
    fn flow_secret(&self) -> SipKey {
        // The default of the oracle's worlds.
        SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908])
    }
    fn dropped(&mut self, packet: Mirror, reason: DropReason) {
        self.dropped.push((packet.id(), reason));
    }
    fn correct_tree(&mut self, correction: TreeCorrection) {
        self.corrections.push((correction.packets, correction.bytes));
    }
    fn classify(&mut self, packet: &Mirror) -> Classified {
        packet.about().class
    }
}
