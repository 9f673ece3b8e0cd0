//! A queue discipline's records as calls: what each read and did between its begin and its return.

use std::collections::VecDeque;

use debloat_harness::trace::{
    Call, Delivered, Device, DropCause, Event, Field, Hashes, Header, Moment, Operation, Outcome, QdiscSubject, Schema,
    Snapshot, Step, Subject, Trace,
};

use super::fields::{Configure, DequeueReturn, Enqueue, EnqueueReturn, Fields};
use super::packets::{Packets, RawSegment};
use super::schema::Schemas;
use super::statistics::Reading;
use super::{bad, header, qdisc_subject};
use crate::error::Error;
use crate::raw::{Raw, Record, kind};
use crate::recording::Recording;
use crate::scenario::Scenario;

/// The recorder's number for a buffer that was consumed, not dropped.
const CONSUMED: u64 = 0x10000;

pub(super) fn trace(raw: &Raw, recording: &Recording) -> Result<Trace, Error> {
    let scenario = &recording.scenario;
    let (name, options) = qdisc_subject(scenario);
    let (created, created_ns) = creation(raw, scenario)?;
    let subject = QdiscSubject {
        name: name.clone(),
        options,
        parameters: Default::default(),
        handle: created.handle,
        root: scenario.qdisc.parent.is_none(),
        parent: if scenario.qdisc.parent.is_some() { created.parent } else { 0 },
        created_ns,
        device: Device {
            mtu_bytes: created.mtu,
            link_header_bytes: created.link_header,
            // veth's; no kernel structure that the recorder reads has it.
            tx_queue_len: 1000,
        },
        hashes: match raw.hash_secret() {
            Some(bytes) => {
                let (low, high) = bytes.split_at(8);
                let word = |b: &[u8]| b.iter().rev().fold(0, |v, byte| v << 8 | u64::from(*byte));
                Hashes::Secret([word(low), word(high)])
            }
            None => Hashes::Recorded,
        },
    };
    let mut header = header(raw, recording, Subject::Qdisc(subject));
    let mut schemas = Schemas::of(raw, &name)?;
    let extra = Extra::add(&mut schemas, &name);
    header.schemas = schemas.schemas.clone();
    let mut convert = Convert {
        name: &name,
        qdisc: created.qdisc,
        handle: created.handle,
        forgets_socket_memory: header.kernel.series == "7.2" && matches!(name.as_str(), "codel" | "fq_codel"),
        schemas,
        extra,
        changes: scenario.change.iter().map(|c| c.command.get_ref().clone()).collect(),
        readings: recording.readings()?.into(),
        packets: Packets::default(),
        open: None,
        reading: None,
        parked: None,
        first_steps: Vec::new(),
        queue: (0, 0),
        remarks: Remarks::default(),
        events: Vec::new(),
    };
    let mut at = 0;
    for record in raw.records() {
        convert.take(&record, at)?;
        at += record.bytes.len();
    }
    convert.end(&mut header)?;
    Ok(Trace { header, events: convert.events })
}

/// The creation of the qdisc under test, and when: the first with its handle.
fn creation(raw: &Raw, scenario: &Scenario) -> Result<(Configure, u64), Error> {
    let handle = if scenario.qdisc.parent.is_some() { 0x2_0000 } else { 0x1_0000 };
    let mut at = 0;
    for record in raw.records() {
        if record.kind == kind::CONF {
            let configure = Configure::parse(&record, at)?;
            if configure.what == Configure::INIT && configure.handle == handle {
                return Ok((configure, record.at_ns));
            }
        }
        at += record.bytes.len();
    }
    bad(0, format!("the creation of {} was not recorded", scenario.kind()))
}

/// Schemas that are filled from records of their own.
struct Extra {
    /// pie's early-drop decisions.
    decision: Option<u16>,
    /// cake's queue lookups.
    lookup: Option<u16>,
}

impl Extra {
    fn add(schemas: &mut Schemas, name: &str) -> Extra {
        let decision = matches!(name, "pie" | "fq_pie").then(|| Schema {
            name: "pie.decision".into(),
            object: "the early-drop decision: its answer, the backlog and the packet's length given to it".into(),
            fields: vec![
                Field::unsigned("hit", 8),
                Field::unsigned("backlog", 32),
                Field::unsigned("packet_bytes", 32),
            ],
        });
        let lookup = (name == "cake").then(|| Schema {
            name: "cake.lookup".into(),
            object: "the queue lookup: the queue it gave, and the mode and the filters' overrides given to it".into(),
            fields: vec![
                Field::unsigned("queue", 32),
                Field::unsigned("mode", 32),
                Field::unsigned("flow_override", 16),
                Field::unsigned("host_override", 16),
            ],
        });
        Extra { decision: decision.map(|s| schemas.add(s)), lookup: lookup.map(|s| schemas.add(s)) }
    }
}

#[derive(Debug, Default)]
struct Remarks {
    split_packets: u64,
    calls_cut_off_at_the_end: u64,
    unclaimed_consumed_buffers: u64,
}

/// A call whose return has not come yet.
struct Open {
    time_ns: u64,
    call: OpenCall,
    steps: Vec<Step>,
    snapshots: Vec<Snapshot>,
    segments: Vec<RawSegment>,
    /// The whole list of packets to be freed, when it is too long for the return's record.
    freed: Option<Vec<u64>>,
    /// The arriving packet was dropped inside the call.
    arrival_dropped: bool,
    /// Buffers consumed: position among the steps, address.
    consumed: Vec<(usize, u64)>,
}

enum OpenCall {
    Enqueue(Box<Enqueue>),
    Dequeue,
    Timer,
    Configure(u32),
}

struct Convert<'a> {
    name: &'a str,
    qdisc: u64,
    handle: u32,
    forgets_socket_memory: bool,
    schemas: Schemas,
    extra: Extra,
    changes: VecDeque<String>,
    readings: VecDeque<Reading>,
    packets: Packets,
    open: Option<Open>,
    /// A reading of the statistics that has begun: when, and its own clock read.
    reading: Option<(u64, u64)>,
    parked: Option<Delivered>,
    /// Draws of the creation: the ports take them when they first need them.
    first_steps: Vec<Step>,
    /// Queue length and backlog after the last call.
    queue: (u32, u32),
    remarks: Remarks,
    events: Vec<Event>,
}

impl Convert<'_> {
    fn take(&mut self, record: &Record<'_>, at: usize) -> Result<(), Error> {
        let mut f = Fields::of(record);
        match record.kind {
            kind::HEAD | kind::END | kind::SKBHASH | kind::FLOWHASH | kind::PEEK => return Ok(()),
            kind::CONF => return self.configure(&Configure::parse(record, at)?, record.at_ns, at),
            kind::CONFR => return self.configured(f.u64(), f.u64() as u32, f.u64() as i64, at),
            kind::STATS => {
                self.reading = Some((record.at_ns, record.at_ns));
                return Ok(());
            }
            kind::STATSR => return self.statistics(at),
            // A change empties a queue by the qdisc's own dequeue: its clock reads and drops are the change's.
            kind::DEQ | kind::DEQR | kind::STATE if self.open.as_ref().is_some_and(Open::is_configuring) => {
                return Ok(());
            }
            _ => {}
        }
        match record.kind {
            kind::ENQ => {
                if f.u64s(2)[1] != self.qdisc {
                    return bad(at, "a packet for another qdisc of this kind");
                }
                let raw = Enqueue::parse(record, at)?;
                self.parking(raw.parked, (raw.qlen, raw.backlog), record.at_ns);
                self.begin(record.at_ns, OpenCall::Enqueue(Box::new(raw)), at)
            }
            kind::DEQ => {
                let (_qdisc, qlen, backlog) = (f.u64(), f.u32(), f.u32());
                let (_jiffies, parked) = (f.u64(), f.u32());
                self.parking(parked, (qlen, backlog), record.at_ns);
                self.begin(record.at_ns, OpenCall::Dequeue, at)
            }
            kind::TIMER => {
                self.begin(record.at_ns, OpenCall::Timer, at)?;
                let (_backlog, _timer, jiffies) = (f.u64(), f.u64(), f.u64());
                self.step(Step::Jiffies(jiffies), at)
            }
            kind::ENQR => self.enqueued(&EnqueueReturn::parse(record, at)?, at),
            kind::DEQR => self.dequeued(&DequeueReturn::parse(record, at)?, at),
            kind::TIMERR => {
                let open = self.close(at)?;
                self.push(open, Operation::Timer, Outcome::Done, self.queue);
                Ok(())
            }
            _ => self.effect(record, f, at),
        }
    }

    /// What a call reads and does.
    fn effect(&mut self, record: &Record<'_>, mut f: Fields<'_>, at: usize) -> Result<(), Error> {
        match record.kind {
            kind::KTIME => match (&mut self.open, &mut self.reading) {
                // The statistics are read without the lock: a call may come in between.
                (None, Some((_, clock))) => {
                    *clock = f.u64();
                    Ok(())
                }
                _ => self.step(Step::Clock(f.u64()), at),
            },
            kind::RND => {
                let (value, bits) = (f.u64(), f.u64() as u8);
                self.step(Step::Draw { bits, value }, at)
            }
            kind::RNDBYTES => {
                let count = f.u64();
                if count % 8 != 0 || count > 64 {
                    return bad(at, format!("a draw of {count} bytes"));
                }
                f.u64s(count as usize / 8)
                    .into_iter()
                    .try_for_each(|value| self.step(Step::Draw { bits: 64, value }, at))
            }
            kind::DROP => {
                let (address, reason) = (f.u64(), f.u64());
                if reason == CONSUMED {
                    let open = self.opened(at)?;
                    open.consumed.push((open.steps.len(), address));
                    return Ok(());
                }
                let next = self.packets.next();
                let arriving = match &mut self.open {
                    Some(Open { call: OpenCall::Enqueue(raw), arrival_dropped, .. }) if raw.packet == address => {
                        *arrival_dropped = true;
                        Some(next)
                    }
                    _ => None,
                };
                let Some(packet) = arriving.or_else(|| self.packets.drop(address)) else {
                    return bad(at, format!("an unknown packet ({address:#x}) was dropped"));
                };
                let code = (reason < CONSUMED).then_some(reason as u32);
                let cause = DropCause { reason: None, code };
                self.step(Step::Drop { packet: Some(packet), cause }, at)
            }
            kind::REDUCE => {
                let (_qdisc, packets, bytes) = (f.u64(), f.u64() as i32, f.u64() as i32);
                if (packets, bytes) == (0, 0) {
                    return Ok(());
                }
                self.step(Step::Correction { packets, bytes, emptied: None }, at)
            }
            kind::WATCHDOG => self.step(Step::Watchdog { expires_ns: f.u64(), slack_ns: f.u64() }, at),
            kind::STATE => {
                let (_qdisc, what, count) = (f.u64(), f.u32(), f.u32());
                let numbers = f.u64s(count as usize);
                f.complete(at, "a state")?;
                let snapshots: Vec<Snapshot> = self.schemas.snapshots(what, &numbers).collect();
                self.opened(at)?.snapshots.extend(snapshots);
                Ok(())
            }
            kind::EARLY => {
                let values = vec![f.u64(), f.u64() & 0xffff_ffff, f.u64() & 0xffff_ffff];
                self.during(self.extra.decision, values, at)
            }
            kind::CAKEHASH => {
                let (queue, mode, overrides) = (f.u64(), f.u64(), f.u64());
                let values = vec![queue, mode & 0xffff_ffff, overrides >> 16 & 0xffff, overrides & 0xffff];
                self.during(self.extra.lookup, values, at)
            }
            kind::FREED => {
                let (_qdisc, count, _) = (f.u64(), f.u32(), f.u32());
                self.opened(at)?.freed = Some(f.u64s(count as usize));
                Ok(())
            }
            kind::SEGS => {
                let (_packet, count, _) = (f.u64(), f.u32(), f.u32());
                let segments =
                    (0..count).map(|_| RawSegment { address: f.u64(), len: f.u32(), truesize: f.u32() }).collect();
                self.opened(at)?.segments = segments;
                Ok(())
            }
            kind::TUPLE => Ok(()),
            other => bad(at, format!("a record of type {other} in a queue discipline's recording")),
        }
    }

    fn during(&mut self, schema: Option<u16>, values: Vec<u64>, at: usize) -> Result<(), Error> {
        let Some(schema) = schema else { return bad(at, "a record of another subject") };
        self.opened(at)?.snapshots.push(Snapshot { schema, moment: Moment::During, key: 0, values });
        Ok(())
    }

    fn begin(&mut self, time_ns: u64, call: OpenCall, at: usize) -> Result<(), Error> {
        if self.open.is_some() {
            return bad(at, "a call inside another call");
        }
        self.open = Some(Open {
            time_ns,
            call,
            steps: Vec::new(),
            snapshots: Vec::new(),
            segments: Vec::new(),
            freed: None,
            arrival_dropped: false,
            consumed: Vec::new(),
        });
        Ok(())
    }

    fn opened(&mut self, at: usize) -> Result<&mut Open, Error> {
        self.open.as_mut().map_or_else(|| bad(at, "something happened outside of any call"), Ok)
    }

    fn close(&mut self, at: usize) -> Result<Open, Error> {
        self.open.take().map_or_else(|| bad(at, "a return without a call"), Ok)
    }

    fn step(&mut self, step: Step, at: usize) -> Result<(), Error> {
        self.opened(at)?.steps.push(step);
        Ok(())
    }

    fn configure(&mut self, raw: &Configure, time_ns: u64, at: usize) -> Result<(), Error> {
        if raw.qdisc != self.qdisc || self.open.as_ref().is_some_and(Open::is_configuring) {
            // Another one of this kind, or the change that is part of a creation.
            return Ok(());
        }
        self.begin(time_ns, OpenCall::Configure(raw.what), at)
    }

    fn configured(&mut self, qdisc: u64, what: u32, result: i64, at: usize) -> Result<(), Error> {
        let own = matches!(self.open, Some(Open { call: OpenCall::Configure(open), .. }) if open == what);
        if qdisc != self.qdisc || !own {
            return Ok(());
        }
        let mut open = self.close(at)?;
        match what {
            Configure::INIT => {
                self.first_steps = open.steps.drain(..).filter(|s| matches!(s, Step::Draw { .. })).collect();
            }
            Configure::CHANGE => {
                let Some(command) = self.changes.pop_front() else {
                    return bad(at, "a change that the scenario does not have");
                };
                let options = command.split_once(' ').map_or("", |(_, options)| options).to_owned();
                let outcome = if result == 0 { Outcome::Done } else { Outcome::Refused(result.unsigned_abs() as u32) };
                self.push(open, Operation::Change(options), outcome, self.queue);
            }
            Configure::RESET | Configure::DESTROY => {}
            other => return bad(at, format!("a configuration of unknown kind {other}")),
        }
        Ok(())
    }

    fn enqueued(&mut self, raw: &EnqueueReturn, at: usize) -> Result<(), Error> {
        let mut open = self.close(at)?;
        let OpenCall::Enqueue(arrived) = std::mem::replace(&mut open.call, OpenCall::Dequeue) else {
            return bad(at, "an enqueue's return without an enqueue");
        };
        if arrived.packet != raw.packet {
            return bad(at, "an enqueue's return for another packet");
        }
        let queued = raw.code == 0 || raw.code == 2;
        let charged = if self.forgets_socket_memory {
            queued && raw.control_block[12..16] == [0; 4]
        } else {
            arrived.socket != 0
        };
        let segments = std::mem::take(&mut open.segments);
        self.remarks.split_packets += u64::from(!segments.is_empty());
        let arrival = self.packets.arrive(&arrived, raw.hash, charged, &segments);
        if open.arrival_dropped {
            self.packets.drop(arrived.packet);
        }
        self.consumed(&mut open, arrived.packet);
        let listed = open.freed.take().unwrap_or_else(|| raw.freed.clone());
        self.freed(&mut open, &listed);
        if self.events.iter().all(|e| !matches!(e, Event::Call(_))) {
            let mut steps = std::mem::take(&mut self.first_steps);
            steps.append(&mut open.steps);
            open.steps = steps;
        }
        self.push(open, Operation::Enqueue(Box::new(arrival)), Outcome::Verdict(raw.code), (raw.qlen, raw.backlog));
        Ok(())
    }

    /// Acknowledgements that cake filtered away, among the buffers consumed in this call. The split packet's own
    /// buffer is consumed too, which is no drop.
    fn consumed(&mut self, open: &mut Open, arrived: u64) {
        for (at, address) in std::mem::take(&mut open.consumed).into_iter().rev() {
            if self.name == "cake" && address != arrived && self.packets.is_queued(address) {
                let packet = self.packets.drop(address);
                open.steps.insert(at, Step::Drop { packet, cause: DropCause::UNKNOWN });
            } else if address != arrived {
                self.remarks.unclaimed_consumed_buffers += 1;
            }
        }
    }

    /// The packets freed by this call, newest first. The kernel may hand several calls one list: what an earlier call
    /// put on it comes after this call's own and is no longer queued.
    fn freed(&mut self, open: &mut Open, listed: &[u64]) {
        for &address in listed {
            let Some(packet) = self.packets.drop(address) else { break };
            open.steps.push(Step::Drop { packet: Some(packet), cause: DropCause::UNKNOWN });
        }
    }

    fn dequeued(&mut self, raw: &DequeueReturn, at: usize) -> Result<(), Error> {
        let mut open = self.close(at)?;
        if !matches!(open.call, OpenCall::Dequeue) {
            return bad(at, "a dequeue's return without a dequeue");
        }
        let listed = open.freed.take().unwrap_or_else(|| raw.freed.clone());
        self.freed(&mut open, &listed);
        let outcome = if raw.packet == 0 {
            Outcome::Nothing
        } else {
            let Some(delivered) = self.packets.deliver(raw) else {
                return bad(at, format!("an unknown packet ({:#x}) came out", raw.packet));
            };
            Outcome::Packet(delivered)
        };
        self.push(open, Operation::Dequeue, outcome, (raw.qlen, raw.backlog));
        Ok(())
    }

    /// Sees from the side slot at the beginning of a call what the parent did since the last one: the last dequeue
    /// was a peek, or the packet that it parked has been taken.
    fn parking(&mut self, parked: u32, queue: (u32, u32), time_ns: u64) {
        if parked != 0 && self.parked.is_none() {
            if let Some(Event::Call(call)) = self.events.last_mut()
                && let (Operation::Dequeue, Outcome::Packet(delivered)) = (&call.operation, &call.outcome)
            {
                self.parked = Some(delivered.clone());
                call.operation = Operation::Peek;
                (call.qlen, call.backlog_bytes) = queue;
            }
        } else if parked == 0
            && let Some(delivered) = self.parked.take()
        {
            self.events.push(Event::Call(Call {
                time_ns,
                operation: Operation::DequeuePeeked,
                steps: Vec::new(),
                outcome: Outcome::Packet(delivered),
                qlen: queue.0,
                backlog_bytes: queue.1,
                snapshots: Vec::new(),
            }));
        }
    }

    fn statistics(&mut self, at: usize) -> Result<(), Error> {
        let Some((begun_ns, clock_ns)) = self.reading.take() else {
            return bad(at, "the end of a reading without its begin");
        };
        let Some(reading) = self.readings.pop_front_if(|r| r.is_at(begun_ns)) else { return Ok(()) };
        let event = reading.event(clock_ns, self.name, self.handle)?;
        self.events.push(Event::Statistics(event));
        Ok(())
    }

    fn push(&mut self, open: Open, operation: Operation, outcome: Outcome, queue: (u32, u32)) {
        self.queue = queue;
        // The call's own first clock read is the better time: the recorder's comes before its own overhead.
        let first_clock = open.steps.iter().find_map(|step| match step {
            Step::Clock(ns) => Some(*ns),
            _ => None,
        });
        self.events.push(Event::Call(Call {
            time_ns: first_clock.unwrap_or(open.time_ns),
            operation,
            steps: open.steps,
            outcome,
            qlen: queue.0,
            backlog_bytes: queue.1,
            snapshots: open.snapshots,
        }));
    }

    fn end(&mut self, header: &mut Header) -> Result<(), Error> {
        if let Some(reading) = self.readings.front() {
            return bad(0, format!("no reading of the statistics was recorded for what tc printed: {reading:?}"));
        }
        self.remarks.calls_cut_off_at_the_end = u64::from(self.open.is_some());
        let remarks = [
            ("split_packets", self.remarks.split_packets),
            ("calls_cut_off_at_the_end", self.remarks.calls_cut_off_at_the_end),
            ("unclaimed_consumed_buffers", self.remarks.unclaimed_consumed_buffers),
        ];
        header.remarks = remarks.into_iter().filter(|(_, n)| *n != 0).map(|(k, n)| (k.to_owned(), n)).collect();
        Ok(())
    }
}

impl Open {
    fn is_configuring(&self) -> bool {
        matches!(self.call, OpenCall::Configure(_))
    }
}
