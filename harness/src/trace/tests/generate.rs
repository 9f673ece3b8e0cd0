//! Events out of arbitrary bytes.

use super::*;
use crate::trace::cause::REASONS;
use crate::trace::encode::HOOKS;

/// Takes choices and numbers off a byte string; zeros when it is used up.
pub(super) struct Choices<'a> {
    bytes: &'a [u8],
    /// Packets that have arrived.
    packets: u64,
}

impl<'a> Choices<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, packets: 0 }
    }

    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&byte, rest)) => {
                self.bytes = rest;
                byte
            }
            None => 0,
        }
    }

    /// A number of 0 to 8 bytes, so that small ones and large ones both happen.
    fn number(&mut self) -> u64 {
        let len = self.byte() % 9;
        (0..len).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.number() as usize % limit
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        (0..self.byte() % 70).map(|_| self.byte()).collect()
    }

    fn text(&mut self) -> String {
        self.some_bytes().into_iter().map(char::from).collect()
    }

    fn some<T>(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| one(self)).collect()
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while !self.bytes.is_empty() {
            events.push(self.event());
        }
        events
    }

    fn event(&mut self) -> Event {
        let time_ns = self.number();
        match self.below(6) {
            0 => Event::Hook(Hook {
                time_ns,
                connection: self.number() as u32,
                hook: HOOKS[self.below(HOOKS.len())],
                arguments: self.some(4, Self::number),
                result: self.flag().then(|| self.number()),
                jiffies: [self.number(), self.number()],
                steps: self.some(6, Self::step),
                snapshots: self.some(3, Self::snapshot),
            }),
            1 => Event::State(State { time_ns, snapshots: self.some(3, Self::snapshot) }),
            2 => Event::Statistics(Statistics {
                time_ns,
                values: self.some(3, |c| NamedValue { name: c.text(), value: c.number() as i64 }),
                text: self.text(),
            }),
            _ => Event::Call(Call {
                time_ns,
                operation: self.operation(),
                steps: self.some(9, Self::step),
                outcome: self.outcome(),
                qlen: self.number() as u32,
                backlog_bytes: self.number() as u32,
                snapshots: self.some(3, Self::snapshot),
            }),
        }
    }

    fn operation(&mut self) -> Operation {
        match self.below(10) {
            0 => Operation::Peek,
            1 => Operation::DequeuePeeked,
            2 => Operation::Timer,
            3 => Operation::Change(self.text()),
            4 => Operation::Reset,
            5 | 6 => Operation::Dequeue,
            _ => Operation::Enqueue(Box::new(self.arrival())),
        }
    }

    fn arrival(&mut self) -> Arrival {
        let id = self.packets;
        self.packets += 1;
        Arrival {
            id,
            len_bytes: self.number() as u32,
            buffer_bytes: self.number() as u32,
            linear_bytes: self.number() as u32,
            truesize_bytes: self.number() as u32,
            priority: self.number() as u32,
            mark: self.number() as u32,
            hash: self.number() as u32,
            hash_carried: self.flag(),
            protocol: self.number() as u16,
            network_offset: self.number() as u16,
            transport_offset: self.flag().then(|| self.number() as u16),
            gso: self.flag().then(|| GsoInfo {
                segment_bytes: self.number() as u16,
                segments: self.number() as u16,
                kind: self.number() as u32,
            }),
            segments: self.some(3, |c| SegmentInfo { len_bytes: c.number() as u32, truesize_bytes: c.number() as u32 }),
            charged_to_socket: self.flag(),
            departure_ns: self.number(),
            vlan: self.flag().then(|| VlanTag { tpid: self.number() as u16, tci: self.number() as u16 }),
            bytes: self.some_bytes(),
        }
    }

    fn reference(&mut self) -> Option<PacketRef> {
        let id = self.number().checked_rem(self.packets)?;
        Some(PacketRef { id, segment: self.number() as u16 })
    }

    fn step(&mut self) -> Step {
        match self.below(7) {
            0 => Step::Jiffies(self.number()),
            1 => {
                let bits = [8, 16, 32, 64][self.below(4)];
                Step::Draw { bits, value: self.number() & u64::MAX >> (64 - bits) }
            }
            2 => Step::FlowHash { value: self.number() as u32, keys: self.some_bytes() },
            3 => Step::Drop {
                packet: self.reference(),
                cause: DropCause {
                    reason: self.flag().then(|| REASONS[self.below(REASONS.len())]),
                    code: self.flag().then(|| self.number() as u32),
                },
            },
            4 => Step::Correction {
                packets: self.number() as i32,
                bytes: self.number() as i32,
                emptied: self.flag().then(|| self.flag()),
            },
            5 => Step::Watchdog { expires_ns: self.number(), slack_ns: self.number() },
            _ => Step::Clock(self.number()),
        }
    }

    fn outcome(&mut self) -> Outcome {
        match self.below(6) {
            0 => Outcome::Done,
            1 => Outcome::Verdict(self.number() as u32),
            2 => Outcome::Refused(self.number() as u32),
            3 => Outcome::Nothing,
            _ => match self.reference() {
                None => Outcome::Nothing,
                Some(packet) => Outcome::Packet(Delivered {
                    packet,
                    buffer_bytes: self.number() as u32,
                    ds_field: self.flag().then(|| self.byte()),
                    changed: self.some(3, |c| ByteChange { offset: c.number() as u16, value: c.byte() }),
                }),
            },
        }
    }

    /// Of the schemas of [`header`].
    fn snapshot(&mut self) -> Snapshot {
        let schema = self.below(2) as u16;
        let moment = [Moment::Before, Moment::During, Moment::After][self.below(3)];
        let key = self.number();
        let fields = &header().schemas[usize::from(schema)].fields;
        let values = fields.iter().map(|field| {
            let unused = 64 - u32::from(field.bits);
            let value = self.number() << unused;
            if field.signed { (value as i64 >> unused) as u64 } else { value >> unused }
        });
        Snapshot { schema, moment, key, values: values.collect() }
    }
}
