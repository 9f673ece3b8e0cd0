//! What writer and reader of a block both know of the events so far.

use std::collections::BTreeMap;

use super::columns::check_count;
use super::{Arrival, Call, Event, Fault, Header, Hook, Operation, Outcome, PacketRef, Schema, Snapshot, Step};

/// Steps in one event.
pub(super) const MAX_STEPS: usize = 1 << 20;
/// Snapshots in one event.
pub(super) const MAX_SNAPSHOTS: usize = 4096;
/// Bytes of one packet, key or text.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Segments of one packet.
pub(super) const MAX_SEGMENTS: usize = 1 << 16;
/// Changed bytes of one packet.
pub(super) const MAX_CHANGES: usize = 1 << 16;
/// Arguments of a hook, and values of a report.
pub(super) const MAX_VALUES: usize = 4096;
/// Fields of all schemas together.
pub(super) const MAX_FIELDS: usize = 4096;

/// State of the coding. Within a block, times and state values are told as differences to earlier ones.
#[derive(Debug)]
pub(super) struct CodingState {
    schemas: Vec<SchemaState>,
    /// The number that the next arrival gets; runs on from block to block.
    pub(super) next_packet: u64,
    /// The last event's time.
    pub(super) time_ns: u64,
    /// The last snapshot of each schema and key.
    previous: BTreeMap<(u16, u64), Vec<u64>>,
}

#[derive(Debug)]
struct SchemaState {
    first_column: usize,
    /// The width of each field, and whether it is signed.
    widths: Vec<(u8, bool)>,
}

impl CodingState {
    pub(super) fn new(schemas: &[Schema]) -> Self {
        let mut first_column = 0;
        let schemas = schemas
            .iter()
            .map(|schema| {
                let widths: Vec<_> = schema.fields.iter().map(|field| (field.bits, field.signed)).collect();
                let state = SchemaState { first_column, widths };
                first_column += state.widths.len();
                state
            })
            .collect();
        Self { schemas, next_packet: 0, time_ns: 0, previous: BTreeMap::new() }
    }

    pub(super) fn value_columns(&self) -> usize {
        self.schemas.iter().map(|schema| schema.widths.len()).sum()
    }

    /// Forgets what does not reach beyond a block.
    pub(super) fn start_block(&mut self) {
        self.time_ns = 0;
        self.previous.clear();
    }

    /// The number of a schema's first value column, and how many values it has.
    pub(super) fn schema(&self, schema: u16) -> Result<(usize, usize), Fault> {
        let state = self.schemas.get(usize::from(schema));
        let state = state.ok_or(Fault::Value { what: "the number of schemas", value: schema.into() })?;
        Ok((state.first_column, state.widths.len()))
    }

    /// The values that the next snapshot of this schema and key is told against.
    pub(super) fn base(&self, schema: u16, key: u64) -> Option<&Vec<u64>> {
        self.previous.get(&(schema, key))
    }

    pub(super) fn remember(&mut self, snapshot: &Snapshot) {
        let slot = self.previous.entry((snapshot.schema, snapshot.key)).or_default();
        slot.clone_from(&snapshot.values);
    }

    /// Does the snapshot have the fields of its schema, in their widths?
    pub(super) fn check_snapshot(&self, snapshot: &Snapshot) -> Result<(), Fault> {
        let (_, fields) = self.schema(snapshot.schema)?;
        if snapshot.values.len() != fields {
            return Err(Fault::Schema { schema: snapshot.schema, fields, found: snapshot.values.len() });
        }
        let widths = &self.schemas[usize::from(snapshot.schema)].widths;
        for (&value, &(bits, signed)) in snapshot.values.iter().zip(widths) {
            let unused = 64 - u32::from(bits);
            let kept = if signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused };
            if kept != value {
                return Err(Fault::Value { what: "a snapshot's field", value });
            }
        }
        Ok(())
    }

    pub(super) fn check_reference(&self, packet: PacketRef) -> Result<(), Fault> {
        if packet.id < self.next_packet { Ok(()) } else { Err(Fault::UnknownPacket(packet.id)) }
    }

    /// Can the event be written? If so, also counts its arrival.
    pub(super) fn admit(&mut self, event: &Event) -> Result<(), Fault> {
        let next_packet = self.next_packet;
        let admitted = self.check(event);
        if admitted.is_err() {
            self.next_packet = next_packet;
        }
        admitted
    }

    fn check(&mut self, event: &Event) -> Result<(), Fault> {
        match event {
            Event::Call(call) => self.admit_call(call),
            Event::Hook(hook) => self.admit_hook(hook),
            Event::State(state) => self.check_snapshots(&state.snapshots),
            Event::Statistics(statistics) => {
                check_count("values", statistics.values.len() as u64, MAX_VALUES)?;
                for named in &statistics.values {
                    check_bytes(named.name.as_bytes())?;
                }
                check_bytes(statistics.text.as_bytes())
            }
        }
    }

    fn admit_call(&mut self, call: &Call) -> Result<(), Fault> {
        match &call.operation {
            Operation::Enqueue(arrival) => self.admit_arrival(arrival)?,
            Operation::Change(options) => check_bytes(options.as_bytes())?,
            _ => {}
        }
        self.check_steps(&call.steps)?;
        if let Outcome::Packet(delivered) = &call.outcome {
            self.check_reference(delivered.packet)?;
            check_count("changed bytes", delivered.changed.len() as u64, MAX_CHANGES)?;
        }
        self.check_snapshots(&call.snapshots)
    }

    fn admit_arrival(&mut self, arrival: &Arrival) -> Result<(), Fault> {
        if arrival.id != self.next_packet {
            return Err(Fault::PacketNumber { expected: self.next_packet, found: arrival.id });
        }
        check_bytes(&arrival.bytes)?;
        check_count("segments", arrival.segments.len() as u64, MAX_SEGMENTS)?;
        self.next_packet += 1;
        Ok(())
    }

    fn admit_hook(&self, hook: &Hook) -> Result<(), Fault> {
        check_count("arguments", hook.arguments.len() as u64, MAX_VALUES)?;
        self.check_steps(&hook.steps)?;
        self.check_snapshots(&hook.snapshots)
    }

    fn check_steps(&self, steps: &[Step]) -> Result<(), Fault> {
        check_count("steps", steps.len() as u64, MAX_STEPS)?;
        for step in steps {
            match step {
                Step::Draw { bits, value } => check_draw(*bits, *value)?,
                Step::FlowHash { keys, .. } => check_bytes(keys)?,
                Step::Drop { packet: Some(packet), .. } => self.check_reference(*packet)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_snapshots(&self, snapshots: &[Snapshot]) -> Result<(), Fault> {
        check_count("snapshots", snapshots.len() as u64, MAX_SNAPSHOTS)?;
        snapshots.iter().try_for_each(|snapshot| self.check_snapshot(snapshot))
    }
}

pub(super) fn check_draw(bits: u8, value: u64) -> Result<(), Fault> {
    match bits {
        8 | 16 | 32 if value >> bits != 0 => Err(Fault::Value { what: "a draw", value }),
        8 | 16 | 32 | 64 => Ok(()),
        _ => Err(Fault::Value { what: "the width of a draw", value: bits.into() }),
    }
}

fn check_bytes(bytes: &[u8]) -> Result<(), Fault> {
    check_count("bytes", bytes.len() as u64, MAX_BYTES).map(drop)
}

impl Header {
    /// What is wrong with the header itself, if anything.
    pub(super) fn contradiction(&self) -> Option<String> {
        let fields: usize = self.schemas.iter().map(|schema| schema.fields.len()).sum();
        if fields > MAX_FIELDS || self.schemas.len() > MAX_FIELDS {
            return Some(format!(
                "{} schemas with {fields} fields; at most {MAX_FIELDS} are allowed",
                self.schemas.len()
            ));
        }
        for (index, schema) in self.schemas.iter().enumerate() {
            if self.schemas[..index].iter().any(|earlier| earlier.name == schema.name) {
                return Some(format!("two schemas are called {:?}", schema.name));
            }
            if schema.fields.is_empty() {
                return Some(format!("schema {:?} has no fields", schema.name));
            }
            for field in &schema.fields {
                if !(1..=64).contains(&field.bits) {
                    return Some(format!("{}.{}: {} bits; 1 to 64 are allowed", schema.name, field.name, field.bits));
                }
            }
        }
        None
    }
}

/// The bits of an arrival's flag byte.
pub(super) mod arrival_flags {
    pub(in super::super) const HASH_CARRIED: u8 = 1;
    pub(in super::super) const CHARGED: u8 = 2;
    pub(in super::super) const TRANSPORT: u8 = 4;
    pub(in super::super) const GSO: u8 = 8;
    pub(in super::super) const DEPARTURE: u8 = 16;
    pub(in super::super) const VLAN: u8 = 32;
    pub(in super::super) const SPLIT: u8 = 64;
    pub(in super::super) const ALL: u8 = 127;
}

/// The bits of a drop's flag byte.
pub(super) mod drop_flags {
    pub(in super::super) const PACKET: u8 = 1;
    pub(in super::super) const REASON: u8 = 2;
    pub(in super::super) const CODE: u8 = 4;
    pub(in super::super) const ALL: u8 = 7;
}
