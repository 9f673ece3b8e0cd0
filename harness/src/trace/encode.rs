//! Events into columns. `decode.rs` is its mirror; `docs/trace-format.md` lists the columns.

use super::cause::REASONS;
use super::columns::{Column as C, ColumnWriter};
use super::state::{CodingState, arrival_flags, drop_flags};
use super::{
    Arrival, Call, Delivered, DropCause, Event, Hook, HookKind, Moment, Operation, Outcome, PacketRef, Snapshot,
    Statistics, Step,
};

/// Every hook, in the order of the numbers in the file.
pub(super) const HOOKS: [HookKind; 12] = [
    HookKind::Init,
    HookKind::Release,
    HookKind::Ssthresh,
    HookKind::CongAvoid,
    HookKind::SetState,
    HookKind::CwndEvent,
    HookKind::InAckEvent,
    HookKind::UndoCwnd,
    HookKind::PktsAcked,
    HookKind::MinTsoSegs,
    HookKind::SndbufExpand,
    HookKind::CongControl,
];

/// Writes events which [`CodingState::admit`] let pass.
pub(super) struct Encoder<'a> {
    pub(super) out: &'a mut ColumnWriter,
    pub(super) state: &'a mut CodingState,
}

impl Encoder<'_> {
    pub(super) fn event(&mut self, event: &Event) {
        let (kind, time_ns) = match event {
            Event::Call(call) => (0, call.time_ns),
            Event::Hook(hook) => (1, hook.time_ns),
            Event::State(state) => (2, state.time_ns),
            Event::Statistics(statistics) => (3, statistics.time_ns),
        };
        self.out.byte(C::EventKind, kind);
        self.out.difference(C::Time, time_ns, self.state.time_ns);
        self.state.time_ns = time_ns;
        match event {
            Event::Call(call) => self.call(call),
            Event::Hook(hook) => self.hook(hook),
            Event::State(state) => self.snapshots(&state.snapshots),
            Event::Statistics(statistics) => self.statistics(statistics),
        }
    }

    fn call(&mut self, call: &Call) {
        let operation = match &call.operation {
            Operation::Enqueue(_) => 0,
            Operation::Dequeue => 1,
            Operation::Peek => 2,
            Operation::DequeuePeeked => 3,
            Operation::Timer => 4,
            Operation::Change(_) => 5,
            Operation::Reset => 6,
        };
        self.out.byte(C::Operation, operation);
        match &call.operation {
            Operation::Enqueue(arrival) => self.arrival(arrival, call.time_ns),
            Operation::Change(options) => self.text(options),
            _ => {}
        }
        self.steps(&call.steps, call.time_ns);
        self.outcome(&call.outcome);
        self.out.delta(C::Qlen, call.qlen.into());
        self.out.delta(C::Backlog, call.backlog_bytes.into());
        self.snapshots(&call.snapshots);
    }

    fn arrival(&mut self, arrival: &Arrival, time_ns: u64) {
        use arrival_flags as flag;
        let out = &mut *self.out;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = bit(arrival.hash_carried, flag::HASH_CARRIED)
            | bit(arrival.charged_to_socket, flag::CHARGED)
            | bit(arrival.transport_offset.is_some(), flag::TRANSPORT)
            | bit(arrival.gso.is_some(), flag::GSO)
            | bit(arrival.departure_ns != 0, flag::DEPARTURE)
            | bit(arrival.vlan.is_some(), flag::VLAN)
            | bit(!arrival.segments.is_empty(), flag::SPLIT);
        out.byte(C::ArrivalFlags, flags);
        out.number(C::Length, arrival.len_bytes.into());
        out.difference(C::BufferBytes, arrival.buffer_bytes.into(), arrival.len_bytes.into());
        out.difference(C::LinearBytes, arrival.linear_bytes.into(), arrival.buffer_bytes.into());
        out.number(C::Truesize, arrival.truesize_bytes.into());
        out.number(C::Priority, arrival.priority.into());
        out.number(C::Mark, arrival.mark.into());
        out.raw(C::Hash, &arrival.hash.to_le_bytes());
        out.number(C::Protocol, arrival.protocol.into());
        out.number(C::NetworkOffset, arrival.network_offset.into());
        if let Some(offset) = arrival.transport_offset {
            out.number(C::TransportOffset, offset.into());
        }
        if let Some(gso) = arrival.gso {
            out.number(C::GsoSize, gso.segment_bytes.into());
            out.number(C::GsoSegments, gso.segments.into());
            out.number(C::GsoKind, gso.kind.into());
        }
        if !arrival.segments.is_empty() {
            out.number(C::SegmentCount, arrival.segments.len() as u64);
            for segment in &arrival.segments {
                out.number(C::SegmentLength, segment.len_bytes.into());
                out.number(C::SegmentTruesize, segment.truesize_bytes.into());
            }
        }
        if arrival.departure_ns != 0 {
            out.difference(C::Departure, arrival.departure_ns, time_ns);
        }
        if let Some(vlan) = arrival.vlan {
            out.number(C::VlanTpid, vlan.tpid.into());
            out.number(C::VlanTci, vlan.tci.into());
        }
        out.number(C::FrameLength, arrival.bytes.len() as u64);
        out.raw(C::Frame, &arrival.bytes);
    }

    fn steps(&mut self, steps: &[Step], time_ns: u64) {
        self.out.number(C::StepCount, steps.len() as u64);
        let mut clock_ns = time_ns;
        for step in steps {
            match step {
                Step::Clock(ns) => {
                    self.out.byte(C::StepKind, 0);
                    self.out.difference(C::Clock, *ns, clock_ns);
                    clock_ns = *ns;
                }
                Step::Jiffies(jiffies) => {
                    self.out.byte(C::StepKind, 1);
                    self.out.delta(C::Jiffies, *jiffies);
                }
                Step::Draw { bits, value } => {
                    self.out.byte(C::StepKind, 2);
                    self.out.byte(C::DrawBits, *bits);
                    self.out.raw(C::DrawValue, &value.to_le_bytes()[..usize::from(bits / 8)]);
                }
                Step::FlowHash { value, keys } => {
                    self.out.byte(C::StepKind, 3);
                    self.out.raw(C::HashValue, &value.to_le_bytes());
                    self.out.number(C::KeyLength, keys.len() as u64);
                    self.out.raw(C::Keys, keys);
                }
                Step::Drop { packet, cause } => {
                    self.out.byte(C::StepKind, 4);
                    self.drop(*packet, *cause);
                }
                Step::Correction { packets, bytes, emptied } => {
                    self.out.byte(C::StepKind, 5);
                    self.out.difference(C::CorrectionPackets, i64::from(*packets) as u64, 0);
                    self.out.difference(C::CorrectionBytes, i64::from(*bytes) as u64, 0);
                    self.out.byte(C::CorrectionEmptied, emptied.map_or(2, u8::from));
                }
                Step::Watchdog { expires_ns, slack_ns } => {
                    self.out.byte(C::StepKind, 6);
                    self.out.difference(C::WatchdogExpires, *expires_ns, clock_ns);
                    self.out.number(C::WatchdogSlack, *slack_ns);
                }
            }
        }
    }

    fn drop(&mut self, packet: Option<PacketRef>, cause: DropCause) {
        use drop_flags as flag;
        let reason = cause.reason.and_then(|reason| REASONS.iter().position(|known| *known == reason));
        let mut flags = 0;
        if let Some(packet) = packet {
            flags |= flag::PACKET;
            self.reference(packet);
        }
        if let Some(index) = reason {
            flags |= flag::REASON;
            self.out.byte(C::DropReason, index as u8);
        }
        if let Some(code) = cause.code {
            flags |= flag::CODE;
            self.out.number(C::DropCode, code.into());
        }
        self.out.byte(C::DropFlags, flags);
    }

    fn reference(&mut self, packet: PacketRef) {
        self.out.delta(C::PacketId, packet.id);
        self.out.number(C::PacketSegment, packet.segment.into());
    }

    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Done => self.out.byte(C::OutcomeKind, 0),
            Outcome::Verdict(code) => {
                self.out.byte(C::OutcomeKind, 1);
                self.out.number(C::OutcomeCode, (*code).into());
            }
            Outcome::Nothing => self.out.byte(C::OutcomeKind, 2),
            Outcome::Packet(delivered) => {
                self.out.byte(C::OutcomeKind, if delivered.ds_field.is_some() { 4 } else { 3 });
                self.delivered(delivered);
            }
            Outcome::Refused(errno) => {
                self.out.byte(C::OutcomeKind, 5);
                self.out.number(C::OutcomeCode, (*errno).into());
            }
        }
    }

    fn delivered(&mut self, delivered: &Delivered) {
        self.reference(delivered.packet);
        self.out.number(C::DeliveredBytes, delivered.buffer_bytes.into());
        if let Some(ds) = delivered.ds_field {
            self.out.byte(C::DeliveredDs, ds);
        }
        self.out.number(C::ChangeCount, delivered.changed.len() as u64);
        for change in &delivered.changed {
            self.out.number(C::ChangeOffset, change.offset.into());
            self.out.byte(C::ChangeValue, change.value);
        }
    }

    fn snapshots(&mut self, snapshots: &[Snapshot]) {
        self.out.number(C::SnapshotCount, snapshots.len() as u64);
        for snapshot in snapshots {
            self.out.number(C::SnapshotSchema, snapshot.schema.into());
            let moment = match snapshot.moment {
                Moment::Before => 0,
                Moment::During => 1,
                Moment::After => 2,
            };
            self.out.byte(C::SnapshotMoment, moment);
            self.out.number(C::SnapshotKey, snapshot.key);
            let first_column = self.state.schema(snapshot.schema).map_or(0, |(first, _)| first);
            let base = self.state.base(snapshot.schema, snapshot.key);
            for (index, &value) in snapshot.values.iter().enumerate() {
                let base = base.and_then(|values| values.get(index)).copied().unwrap_or(0);
                self.out.value(first_column + index, value, base);
            }
            self.state.remember(snapshot);
        }
    }

    fn hook(&mut self, hook: &Hook) {
        self.out.number(C::Connection, hook.connection.into());
        let kind = HOOKS.iter().position(|kind| *kind == hook.hook).unwrap_or(0);
        self.out.byte(C::HookKind, kind as u8);
        self.out.number(C::ArgumentCount, hook.arguments.len() as u64);
        for argument in &hook.arguments {
            self.out.number(C::Argument, *argument);
        }
        self.out.byte(C::ResultKind, u8::from(hook.result.is_some()));
        if let Some(result) = hook.result {
            self.out.number(C::HookResult, result);
        }
        self.out.delta(C::Jiffies, hook.jiffies[0]);
        self.out.delta(C::Jiffies, hook.jiffies[1]);
        self.steps(&hook.steps, hook.time_ns);
        self.snapshots(&hook.snapshots);
    }

    fn statistics(&mut self, statistics: &Statistics) {
        self.out.number(C::ValueCount, statistics.values.len() as u64);
        for named in &statistics.values {
            self.text(&named.name);
            self.out.difference(C::Value, named.value as u64, 0);
        }
        self.text(&statistics.text);
    }

    fn text(&mut self, text: &str) {
        self.out.number(C::TextLength, text.len() as u64);
        self.out.raw(C::Text, text.as_bytes());
    }
}
