//! Columns into events: the mirror of `encode.rs`.

use super::cause::REASONS;
use super::columns::{Column as C, ColumnReader, narrow};
use super::encode::HOOKS;
use super::state::{
    CodingState, MAX_BYTES, MAX_CHANGES, MAX_SEGMENTS, MAX_SNAPSHOTS, MAX_STEPS, MAX_VALUES, arrival_flags, check_draw,
    drop_flags,
};
use super::{
    Arrival, ByteChange, Call, Delivered, DropCause, Event, Fault, GsoInfo, Hook, Moment, NamedValue, Operation,
    Outcome, PacketRef, SegmentInfo, Snapshot, State, Statistics, Step, VlanTag,
};

/// Counts in the file are bounded, but a hostile one is believed only up to here before the things arrive.
const TRUSTED_COUNT: usize = 64;

/// Reads events off the columns of one block.
pub(super) struct Decoder<'a> {
    pub(super) input: &'a mut ColumnReader,
    pub(super) state: &'a mut CodingState,
}

impl Decoder<'_> {
    pub(super) fn event(&mut self) -> Result<Event, Fault> {
        let kind = self.input.byte(C::EventKind)?;
        let time_ns = self.input.difference(C::Time, self.state.time_ns)?;
        self.state.time_ns = time_ns;
        match kind {
            0 => Ok(Event::Call(self.call(time_ns)?)),
            1 => Ok(Event::Hook(self.hook(time_ns)?)),
            2 => Ok(Event::State(State { time_ns, snapshots: self.snapshots()? })),
            3 => Ok(Event::Statistics(self.statistics(time_ns)?)),
            _ => Err(unknown("an event's kind", kind)),
        }
    }

    fn call(&mut self, time_ns: u64) -> Result<Call, Fault> {
        let operation = match self.input.byte(C::Operation)? {
            0 => Operation::Enqueue(Box::new(self.arrival(time_ns)?)),
            1 => Operation::Dequeue,
            2 => Operation::Peek,
            3 => Operation::DequeuePeeked,
            4 => Operation::Timer,
            5 => Operation::Change(self.text()?),
            6 => Operation::Reset,
            kind => return Err(unknown("an operation's kind", kind)),
        };
        let steps = self.steps(time_ns)?;
        let outcome = self.outcome()?;
        let qlen = self.input.narrow_delta(C::Qlen, "a queue length")?;
        let backlog_bytes = self.input.narrow_delta(C::Backlog, "a backlog")?;
        let snapshots = self.snapshots()?;
        Ok(Call { time_ns, operation, steps, outcome, qlen, backlog_bytes, snapshots })
    }

    fn arrival(&mut self, time_ns: u64) -> Result<Arrival, Fault> {
        use arrival_flags as flag;
        let input = &mut *self.input;
        let flags = input.byte(C::ArrivalFlags)?;
        if flags & !flag::ALL != 0 {
            return Err(unknown("an arrival's flags", flags));
        }
        let len_bytes = input.narrow(C::Length, "a packet's length")?;
        let buffer_bytes = narrow(input.difference(C::BufferBytes, u64::from(len_bytes))?, "a buffer's length")?;
        let arrival = Arrival {
            id: self.state.next_packet,
            len_bytes,
            buffer_bytes,
            linear_bytes: narrow(input.difference(C::LinearBytes, u64::from(buffer_bytes))?, "a linear length")?,
            truesize_bytes: input.narrow(C::Truesize, "a truesize")?,
            priority: input.narrow(C::Priority, "a priority")?,
            mark: input.narrow(C::Mark, "a mark")?,
            hash: read_u32(input, C::Hash)?,
            hash_carried: flags & flag::HASH_CARRIED != 0,
            protocol: input.narrow(C::Protocol, "a protocol")?,
            network_offset: input.narrow(C::NetworkOffset, "a network offset")?,
            transport_offset: match flags & flag::TRANSPORT {
                0 => None,
                _ => Some(input.narrow(C::TransportOffset, "a transport offset")?),
            },
            gso: match flags & flag::GSO {
                0 => None,
                _ => Some(GsoInfo {
                    segment_bytes: input.narrow(C::GsoSize, "a segment size")?,
                    segments: input.narrow(C::GsoSegments, "a segment count")?,
                    kind: input.narrow(C::GsoKind, "a GSO type")?,
                }),
            },
            segments: if flags & flag::SPLIT == 0 { Vec::new() } else { segments(input)? },
            charged_to_socket: flags & flag::CHARGED != 0,
            departure_ns: match flags & flag::DEPARTURE {
                0 => 0,
                _ => match input.difference(C::Departure, time_ns)? {
                    0 => return Err(Fault::Value { what: "a departure time", value: 0 }),
                    departure_ns => departure_ns,
                },
            },
            vlan: match flags & flag::VLAN {
                0 => None,
                _ => Some(VlanTag {
                    tpid: input.narrow(C::VlanTpid, "a VLAN protocol")?,
                    tci: input.narrow(C::VlanTci, "a VLAN tag")?,
                }),
            },
            bytes: self.bytes(C::FrameLength, C::Frame)?,
        };
        self.state.next_packet += 1;
        Ok(arrival)
    }

    fn steps(&mut self, time_ns: u64) -> Result<Vec<Step>, Fault> {
        let count = self.input.count(C::StepCount, "steps", MAX_STEPS)?;
        let mut steps = Vec::with_capacity(count.min(TRUSTED_COUNT));
        let mut clock_ns = time_ns;
        for _ in 0..count {
            steps.push(match self.input.byte(C::StepKind)? {
                0 => {
                    clock_ns = self.input.difference(C::Clock, clock_ns)?;
                    Step::Clock(clock_ns)
                }
                1 => Step::Jiffies(self.input.delta(C::Jiffies)?),
                2 => self.draw()?,
                3 => Step::FlowHash {
                    value: read_u32(self.input, C::HashValue)?,
                    keys: self.bytes(C::KeyLength, C::Keys)?,
                },
                4 => self.drop()?,
                5 => Step::Correction {
                    packets: self.signed(C::CorrectionPackets)?,
                    bytes: self.signed(C::CorrectionBytes)?,
                    emptied: match self.input.byte(C::CorrectionEmptied)? {
                        0 => Some(false),
                        1 => Some(true),
                        2 => None,
                        other => return Err(unknown("a correction's \"emptied\"", other)),
                    },
                },
                6 => Step::Watchdog {
                    expires_ns: self.input.difference(C::WatchdogExpires, clock_ns)?,
                    slack_ns: self.input.number(C::WatchdogSlack)?,
                },
                kind => return Err(unknown("a step's kind", kind)),
            });
        }
        Ok(steps)
    }

    fn draw(&mut self) -> Result<Step, Fault> {
        let bits = self.input.byte(C::DrawBits)?;
        check_draw(bits, 0)?;
        let mut value = [0; 8];
        let len = usize::from(bits / 8);
        value[..len].copy_from_slice(self.input.raw(C::DrawValue, len)?);
        Ok(Step::Draw { bits, value: u64::from_le_bytes(value) })
    }

    fn drop(&mut self) -> Result<Step, Fault> {
        use drop_flags as flag;
        let flags = self.input.byte(C::DropFlags)?;
        if flags & !flag::ALL != 0 {
            return Err(unknown("a drop's flags", flags));
        }
        let packet = if flags & flag::PACKET == 0 { None } else { Some(self.reference()?) };
        let reason = match flags & flag::REASON {
            0 => None,
            _ => {
                let index = self.input.byte(C::DropReason)?;
                Some(*REASONS.get(usize::from(index)).ok_or_else(|| unknown("a drop's reason", index))?)
            }
        };
        let code = if flags & flag::CODE == 0 { None } else { Some(self.input.narrow(C::DropCode, "a drop code")?) };
        Ok(Step::Drop { packet, cause: DropCause { reason, code } })
    }

    fn signed(&mut self, column: C) -> Result<i32, Fault> {
        let value = self.input.difference(column, 0)?;
        i32::try_from(value as i64).map_err(|_| Fault::Value { what: "a correction", value })
    }

    fn reference(&mut self) -> Result<PacketRef, Fault> {
        let id = self.input.delta(C::PacketId)?;
        let packet = PacketRef { id, segment: self.input.narrow(C::PacketSegment, "a segment number")? };
        self.state.check_reference(packet)?;
        Ok(packet)
    }

    fn outcome(&mut self) -> Result<Outcome, Fault> {
        Ok(match self.input.byte(C::OutcomeKind)? {
            0 => Outcome::Done,
            1 => Outcome::Verdict(self.input.narrow(C::OutcomeCode, "a verdict")?),
            2 => Outcome::Nothing,
            3 => Outcome::Packet(self.delivered(false)?),
            4 => Outcome::Packet(self.delivered(true)?),
            5 => Outcome::Refused(self.input.narrow(C::OutcomeCode, "an errno")?),
            kind => return Err(unknown("an outcome's kind", kind)),
        })
    }

    fn delivered(&mut self, with_ds_field: bool) -> Result<Delivered, Fault> {
        let packet = self.reference()?;
        let buffer_bytes = self.input.narrow(C::DeliveredBytes, "a buffer's length")?;
        let ds_field = if with_ds_field { Some(self.input.byte(C::DeliveredDs)?) } else { None };
        let count = self.input.count(C::ChangeCount, "changed bytes", MAX_CHANGES)?;
        let mut changed = Vec::with_capacity(count.min(TRUSTED_COUNT));
        for _ in 0..count {
            changed.push(ByteChange {
                offset: self.input.narrow(C::ChangeOffset, "an offset")?,
                value: self.input.byte(C::ChangeValue)?,
            });
        }
        Ok(Delivered { packet, buffer_bytes, ds_field, changed })
    }

    fn snapshots(&mut self) -> Result<Vec<Snapshot>, Fault> {
        let count = self.input.count(C::SnapshotCount, "snapshots", MAX_SNAPSHOTS)?;
        let mut snapshots = Vec::with_capacity(count.min(TRUSTED_COUNT));
        for _ in 0..count {
            let schema = self.input.narrow(C::SnapshotSchema, "a schema's number")?;
            let (first_column, fields) = self.state.schema(schema)?;
            let moment = match self.input.byte(C::SnapshotMoment)? {
                0 => Moment::Before,
                1 => Moment::During,
                2 => Moment::After,
                kind => return Err(unknown("a snapshot's moment", kind)),
            };
            let key = self.input.number(C::SnapshotKey)?;
            let mut values = Vec::with_capacity(fields);
            let base = self.state.base(schema, key);
            for index in 0..fields {
                let base = base.and_then(|values| values.get(index)).copied().unwrap_or(0);
                values.push(self.input.value(first_column + index, base)?);
            }
            let snapshot = Snapshot { schema, moment, key, values };
            self.state.check_snapshot(&snapshot)?;
            self.state.remember(&snapshot);
            snapshots.push(snapshot);
        }
        Ok(snapshots)
    }

    fn hook(&mut self, time_ns: u64) -> Result<Hook, Fault> {
        let connection = self.input.narrow(C::Connection, "a connection's number")?;
        let kind = self.input.byte(C::HookKind)?;
        let hook = *HOOKS.get(usize::from(kind)).ok_or_else(|| unknown("a hook's kind", kind))?;
        let count = self.input.count(C::ArgumentCount, "arguments", MAX_VALUES)?;
        let mut arguments = Vec::with_capacity(count.min(TRUSTED_COUNT));
        for _ in 0..count {
            arguments.push(self.input.number(C::Argument)?);
        }
        let result = match self.input.byte(C::ResultKind)? {
            0 => None,
            1 => Some(self.input.number(C::HookResult)?),
            kind => return Err(unknown("a hook's result kind", kind)),
        };
        let jiffies = [self.input.delta(C::Jiffies)?, self.input.delta(C::Jiffies)?];
        let steps = self.steps(time_ns)?;
        let snapshots = self.snapshots()?;
        Ok(Hook { time_ns, connection, hook, arguments, result, jiffies, steps, snapshots })
    }

    fn statistics(&mut self, time_ns: u64) -> Result<Statistics, Fault> {
        let count = self.input.count(C::ValueCount, "values", MAX_VALUES)?;
        let mut values = Vec::with_capacity(count.min(TRUSTED_COUNT));
        for _ in 0..count {
            values.push(NamedValue { name: self.text()?, value: self.input.difference(C::Value, 0)? as i64 });
        }
        Ok(Statistics { time_ns, values, text: self.text()? })
    }

    fn bytes(&mut self, lengths: C, column: C) -> Result<Vec<u8>, Fault> {
        let len = self.input.count(lengths, "bytes", MAX_BYTES)?;
        Ok(self.input.raw(column, len)?.to_vec())
    }

    fn text(&mut self) -> Result<String, Fault> {
        String::from_utf8(self.bytes(C::TextLength, C::Text)?).map_err(|_| Fault::Text)
    }
}

fn segments(input: &mut ColumnReader) -> Result<Vec<SegmentInfo>, Fault> {
    let count = input.count(C::SegmentCount, "segments", MAX_SEGMENTS)?;
    if count == 0 {
        return Err(Fault::Value { what: "a count of segments", value: 0 });
    }
    let mut segments = Vec::with_capacity(count.min(TRUSTED_COUNT));
    for _ in 0..count {
        segments.push(SegmentInfo {
            len_bytes: input.narrow(C::SegmentLength, "a segment's length")?,
            truesize_bytes: input.narrow(C::SegmentTruesize, "a segment's truesize")?,
        });
    }
    Ok(segments)
}

fn read_u32(input: &mut ColumnReader, column: C) -> Result<u32, Fault> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(input.raw(column, 4)?);
    Ok(u32::from_le_bytes(bytes))
}

fn unknown(what: &'static str, value: u8) -> Fault {
    Fault::Value { what, value: value.into() }
}
