use std::collections::VecDeque;

use debloat_aqm::net::SipKey;
use debloat_aqm::{DropReason, Event as Deadline};

use super::environment::Recorded;
use super::{Difference, Divergence, ReplayError, Report, TracePacket};
use crate::tc::{self, Attachment, BuildError, Subject, Words};
use crate::trace::{Call, Event, Hashes, Header, Moment, Operation, Outcome, PacketRef, QdiscSubject, Snapshot, Step};

/// Events shown before a divergence.
const CONTEXT: usize = 5;

/// The replay of one qdisc trace, event by event.
pub struct QdiscReplay<'a> {
    header: &'a Header,
    about: &'a QdiscSubject,
    subject: Box<dyn Subject<TracePacket>>,
    report: Report,
    recent: VecDeque<String>,
    keeps_context: bool,
    values: Vec<Option<u64>>,
}

/// Collects the differences of one event.
#[derive(Default)]
struct Comparison(Vec<Difference>);

impl Comparison {
    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, expected: T, actual: T) {
        if expected != actual {
            self.note(what, format!("{expected:?}"), format!("{actual:?}"));
        }
    }

    fn note(&mut self, what: impl Into<String>, expected: impl Into<String>, actual: impl Into<String>) {
        self.0.push(Difference { what: what.into(), expected: expected.into(), actual: actual.into() });
    }
}

impl<'a> QdiscReplay<'a> {
    /// Makes the port which the header describes.
    ///
    /// # Errors
    ///
    /// An unknown kernel or qdisc, or refused options.
    pub fn new(header: &'a Header) -> Result<Self, ReplayError> {
        let Some(about) = header.qdisc() else {
            return Err(ReplayError::UnknownSubject { name: header.subject.name().into() });
        };
        let series = &header.kernel.series;
        let linux = header.kernel.linux().ok_or_else(|| ReplayError::UnknownKernel { series: series.clone() })?;
        if !tc::KINDS.contains(&about.name.as_str()) {
            return Err(ReplayError::UnknownSubject { name: about.name.clone() });
        }
        let subject = tc::build(&format!("{} {}", about.name, about.options), linux, header.host())?;
        Ok(Self {
            header,
            about,
            subject,
            report: Report::default(),
            recent: VecDeque::new(),
            keeps_context: true,
            values: Vec::new(),
        })
    }

    /// The same, without remembering the last events for a divergence's report: for runs that make events fast.
    pub fn without_context(mut self) -> Self {
        self.keeps_context = false;
        self
    }

    /// The first divergence, if there is one by now; taken.
    pub fn take_divergence(&mut self) -> Option<Divergence> {
        self.report.first.take()
    }

    /// Replays one event.
    ///
    /// # Errors
    ///
    /// An event that does not fit the header, or a state that the port cannot show.
    pub fn event(&mut self, event: &Event) -> Result<(), ReplayError> {
        let mut comparison = Comparison::default();
        match event {
            Event::Call(call) => self.call(call, &mut comparison)?,
            Event::State(state) => self.snapshots(&state.snapshots, &mut comparison)?,
            Event::Statistics(statistics) => {
                let attachment = if self.about.root {
                    Attachment::Root { refcnt: 2 }
                } else {
                    Attachment::Parent(self.about.parent)
                };
                let shown = self.subject.shown(self.about.handle, attachment, statistics.time_ns);
                let json = shown.json();
                for value in &statistics.values {
                    match json.get(&value.name).and_then(serde_json::Value::as_i64) {
                        Some(actual) => comparison.expect(&value.name, value.value, actual),
                        // tc leaves some values out while they are 0.
                        None => comparison.expect(&value.name, value.value, 0),
                    }
                }
                if !statistics.text.is_empty() {
                    comparison.expect("tc -s -d qdisc show", statistics.text.as_str(), shown.text().as_str());
                }
            }
            Event::Hook(_) => {
                let (event, subject) = (self.report.events, self.about.name.clone());
                return Err(ReplayError::WrongEvent { event, kind: "hook call", subject });
            }
        }
        self.finish_event(event, comparison);
        Ok(())
    }

    /// The report so far.
    pub fn finish(self) -> Report {
        self.report
    }

    /// The port's next deadline, for those who make traces.
    pub fn next_event(&self) -> Option<Deadline> {
        self.subject.dyn_next_event()
    }

    fn finish_event(&mut self, event: &Event, comparison: Comparison) {
        if !comparison.0.is_empty() {
            self.report.divergences += 1;
            if self.report.first.is_none() {
                self.report.first = Some(Divergence {
                    event: self.report.events,
                    time_ns: event.time_ns(),
                    what: one_line(event),
                    differences: comparison.0,
                    before: self.recent.iter().cloned().collect(),
                });
            }
        }
        if self.keeps_context && self.report.first.is_none() {
            if self.recent.len() == CONTEXT {
                self.recent.pop_front();
            }
            self.recent.push_back(format!("event {}: {}", self.report.events, one_line(event)));
        }
        self.report.events += 1;
    }

    fn secret(&self) -> SipKey {
        match self.about.hashes {
            Hashes::Secret(secret) => SipKey(secret),
            Hashes::Recorded => SipKey::default(),
        }
    }

    fn call(&mut self, call: &Call, comparison: &mut Comparison) -> Result<(), ReplayError> {
        let mut cx = Recorded::new(call, self.secret());
        let outcome = match &call.operation {
            Operation::Enqueue(arrival) => {
                self.report.packets += 1;
                let packet = TracePacket::new(arrival, self.about.hashes).with_recorded_hashes(&call.steps);
                if let Some(hash) = packet.recomputed_hash().filter(|_| arrival.hash != 0) {
                    self.report.hashes += 1;
                    comparison.expect("flow hash", arrival.hash, hash);
                }
                Outcome::Verdict(self.subject.dyn_enqueue(packet, &mut cx).code())
            }
            Operation::Dequeue => self.delivered(|subject, cx| subject.dyn_dequeue(cx), &mut cx),
            Operation::DequeuePeeked => self.delivered(|subject, cx| subject.dyn_dequeue_peeked(cx), &mut cx),
            Operation::Peek => match self.subject.dyn_peek(&mut cx) {
                Some(packet) => Outcome::Packet(packet.delivered()),
                None => Outcome::Nothing,
            },
            Operation::Timer => {
                self.subject.dyn_on_timer(&mut cx);
                Outcome::Done
            }
            Operation::Change(text) => {
                let mut words = Words::new(self.subject.kind(), text);
                match self.subject.change_text(&mut words, &mut cx) {
                    Ok(()) => Outcome::Done,
                    // Linux answers "invalid argument" to values; text that tc refuses never reaches it.
                    Err(BuildError::Config(_)) => Outcome::Refused(22),
                    Err(BuildError::Parse(error)) => return Err(BuildError::Parse(error).into()),
                }
            }
            Operation::Reset => {
                self.subject.dyn_reset(&mut cx);
                Outcome::Done
            }
        };
        compare_outcome(&call.outcome, &outcome, comparison);
        self.compare_effects(call, &cx, comparison);
        let counters = self.subject.dyn_counters();
        comparison.expect("qlen", call.qlen, counters.qlen);
        comparison.expect("backlog", call.backlog_bytes, counters.backlog_bytes);
        self.snapshots(&call.snapshots, comparison)
    }

    fn delivered(
        &mut self,
        take: impl FnOnce(&mut dyn Subject<TracePacket>, &mut Recorded<'_>) -> Option<TracePacket>,
        cx: &mut Recorded<'_>,
    ) -> Outcome {
        match take(&mut *self.subject, cx) {
            Some(packet) => {
                self.report.marks += u64::from(packet.was_marked());
                Outcome::Packet(packet.delivered())
            }
            None => Outcome::Nothing,
        }
    }

    fn compare_effects(&mut self, call: &Call, cx: &Recorded<'_>, comparison: &mut Comparison) {
        let (recorded, made) = cx.clock_reads();
        comparison.expect("clock reads", recorded, made);
        self.report.clock_reads += made as u64;
        let (recorded, taken) = cx.draws();
        comparison.expect("draws", recorded, taken);
        if let Some(bits) = cx.wrong_draws.first() {
            comparison.note("draw", "another width, or none", format!("{bits} bits"));
        }
        self.report.draws += taken as u64;
        self.report.drops += cx.dropped.len() as u64;
        let mut drops = Vec::new();
        let mut corrections = Vec::new();
        for step in &call.steps {
            match step {
                Step::Drop { packet, cause } => drops.push((*packet, cause.reason)),
                Step::Correction { packets, bytes, emptied } => corrections.push((*packets, *bytes, *emptied)),
                _ => {}
            }
        }
        if !same_drops(&drops, &cx.dropped) {
            comparison.note("drops", format!("{drops:?}"), format!("{:?}", cx.dropped));
        }
        let same = corrections.len() == cx.corrections.len()
            && corrections.iter().zip(&cx.corrections).all(|((packets, bytes, emptied), ours)| {
                (*packets, *bytes) == (ours.packets, ours.bytes) && emptied.is_none_or(|told| told == ours.emptied)
            });
        if !same {
            comparison.note("tree corrections", format!("{corrections:?}"), format!("{:?}", cx.corrections));
        }
    }

    fn snapshots(&mut self, snapshots: &[Snapshot], comparison: &mut Comparison) -> Result<(), ReplayError> {
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.moment == Moment::After) {
            let event = self.report.events;
            let schema = self
                .header
                .schemas
                .get(usize::from(snapshot.schema))
                .filter(|schema| schema.fields.len() == snapshot.values.len())
                .ok_or(ReplayError::BadSnapshot { event, schema: snapshot.schema })?;
            self.values.clear();
            self.subject.probe_all(&schema.name, snapshot.key, &schema.fields, &mut self.values);
            for ((field, &expected), actual) in schema.fields.iter().zip(&snapshot.values).zip(&self.values) {
                let actual = actual.ok_or_else(|| ReplayError::UnknownState {
                    event,
                    schema: schema.name.clone(),
                    field: field.name.clone(),
                    key: snapshot.key,
                })?;
                self.report.state_values += 1;
                if expected != actual {
                    let what = format!("{}[{}].{}", schema.name, snapshot.key, field.name);
                    comparison.note(what, field.number(expected).to_string(), field.number(actual).to_string());
                }
            }
        }
        Ok(())
    }
}

fn compare_outcome(expected: &Outcome, actual: &Outcome, comparison: &mut Comparison) {
    match (expected, actual) {
        (Outcome::Packet(expected), Outcome::Packet(actual)) => {
            comparison.expect("packet", expected.packet, actual.packet);
            comparison.expect("buffer bytes", expected.buffer_bytes, actual.buffer_bytes);
            comparison.expect("DS field", expected.ds_field, actual.ds_field);
            comparison.expect("header bytes", &expected.changed, &actual.changed);
        }
        _ => comparison.expect("result", expected, actual),
    }
}

/// The same packets, in the same order, for the same reasons as far as either is known.
fn same_drops(expected: &[(Option<PacketRef>, Option<DropReason>)], actual: &[(PacketRef, DropReason)]) -> bool {
    expected.len() == actual.len()
        && expected.iter().zip(actual).all(|((packet, reason), (ours, why))| {
            packet.is_none_or(|packet| packet == *ours) && reason.is_none_or(|reason| reason == *why)
        })
}

fn one_line(event: &Event) -> String {
    format!("{event:?}")
}
