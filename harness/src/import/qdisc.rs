use std::io::Read;

use super::layout::{self, Layout};
use super::packets::Packets;
use super::record::{Body, RawDequeueReturn, RawEnqueue, RawEnqueueReturn, Record, Records};
use super::{ImportError, ImportErrorKind, Meta, Symbols};
use crate::trace::{Call, DropCause, Event, Operation, Outcome, Schema, Snapshot, Step, Subject, Trace};

/// What an import knows of a qdisc.
struct Kind {
    layouts: &'static [Layout],
    /// Function names of its text begin with one of these.
    text: &'static [&'static str],
    /// Its packets' control block holds the CoDel time of the last clock read, and their memory charge.
    codel_stamps: bool,
}

const FQ_CODEL: Kind =
    Kind { layouts: layout::FQ_CODEL, text: &["fq_codel_", "__fq_codel_", "codel_"], codel_stamps: true };

/// Imports the raw recording of a qdisc, decompressed.
///
/// Clock reads and draws that were not the qdisc's own (an interrupt's inside the call) are left out and counted in
/// the header's remarks.
///
/// # Errors
///
/// Records that are damaged or contradict each other, with the record's number and place.
pub fn qdisc(recording: impl Read, symbols: &Symbols, meta: &Meta) -> Result<Trace, ImportError> {
    let name = meta.subject.name();
    let kind = match (&meta.subject, name) {
        (Subject::Qdisc(_), "fq_codel") => FQ_CODEL,
        _ => {
            let kind = ImportErrorKind::UnknownSubject(name.to_owned());
            return Err(ImportError { record: 0, byte: 0, kind });
        }
    };
    let schemas = layout::schemas(kind.layouts);
    let mut header = meta.header(schemas.clone());
    let mut import = Import {
        kind,
        symbols,
        schemas,
        forgets_socket_memory: meta.kernel.series == "7.2",
        packets: Packets::default(),
        open: None,
        last: (0, 0),
        events: Vec::new(),
        foreign_clock_reads: 0,
        foreign_draws: 0,
    };
    let mut records = Records::new(recording);
    while let Some(record) = records.next()? {
        let (index, byte) = (record.index, record.byte);
        import.take(record).map_err(|kind| ImportError { record: index, byte, kind })?;
    }
    let remarks = [
        ("foreign_clock_reads", import.foreign_clock_reads),
        ("foreign_draws", import.foreign_draws),
        ("records_out_of_sequence", records.out_of_sequence),
        ("calls_cut_off_at_the_end", u64::from(import.open.is_some())),
    ];
    header.remarks = remarks.into_iter().filter(|(_, count)| *count != 0).map(|(k, v)| (k.to_owned(), v)).collect();
    Ok(Trace { header, events: import.events })
}

struct Import<'a> {
    kind: Kind,
    symbols: &'a Symbols,
    schemas: Vec<Schema>,
    /// 7.2 charges no memory for packets that a local socket still pays for.
    forgets_socket_memory: bool,
    packets: Packets,
    open: Option<Open>,
    /// Queue length and backlog as last recorded.
    last: (u32, u32),
    events: Vec<Event>,
    foreign_clock_reads: u64,
    foreign_draws: u64,
}

/// A call whose return has not come yet.
struct Open {
    time_ns: u64,
    call: OpenCall,
    steps: Vec<Step>,
    snapshots: Vec<Snapshot>,
}

enum OpenCall {
    Enqueue(Box<RawEnqueue>),
    Dequeue,
}

/// Interrupt bits of the preemption count: hard interrupts and non-maskable ones.
const IN_INTERRUPT: u32 = 0x00ff_0000;

impl Import<'_> {
    fn take(&mut self, record: Record) -> Result<(), ImportErrorKind> {
        match record.body {
            Body::Enqueue(raw) => self.begin(record.time_ns, OpenCall::Enqueue(raw)),
            Body::Dequeue => self.begin(record.time_ns, OpenCall::Dequeue),
            Body::EnqueueReturn(raw) => self.end_enqueue(&raw),
            Body::DequeueReturn(raw) => self.end_dequeue(&raw),
            Body::Clock { value, caller, preemption } => {
                let own = preemption & IN_INTERRUPT == 0 && self.is_own(caller);
                match &mut self.open {
                    Some(open) if own => open.steps.push(Step::Clock(value)),
                    _ => self.foreign_clock_reads += 1,
                }
                Ok(())
            }
            // The hash that it computes is in the enqueue's return.
            Body::PacketHash => Ok(()),
            Body::Drop { packet, code } => {
                let packet = Some(self.packets.drop(packet)?);
                self.step(Step::Drop { packet, cause: DropCause { reason: None, code: Some(code) } })
            }
            Body::Correction { packets, bytes } => self.step(Step::Correction { packets, bytes, emptied: None }),
            Body::Watchdog { expires_ns, slack_ns } => self.step(Step::Watchdog { expires_ns, slack_ns }),
            Body::Snapshot { what, bytes } => {
                let snapshot = layout::snapshot(self.kind.layouts, &self.schemas, what, &bytes)?;
                self.open()?.snapshots.push(snapshot);
                Ok(())
            }
            _ => Err(ImportErrorKind::Order { found: "a record of another subject", expected: "one of this qdisc" }),
        }
    }

    fn is_own(&self, caller: u64) -> bool {
        let function = self.symbols.function(caller);
        function.is_some_and(|name| self.kind.text.iter().any(|prefix| name.starts_with(prefix)))
    }

    fn begin(&mut self, time_ns: u64, call: OpenCall) -> Result<(), ImportErrorKind> {
        if self.open.is_some() {
            return Err(ImportErrorKind::Order { found: "a call", expected: "the return of the call before it" });
        }
        self.open = Some(Open { time_ns, call, steps: Vec::new(), snapshots: Vec::new() });
        Ok(())
    }

    fn open(&mut self) -> Result<&mut Open, ImportErrorKind> {
        self.open.as_mut().ok_or(ImportErrorKind::Order { found: "an effect", expected: "a call" })
    }

    fn step(&mut self, step: Step) -> Result<(), ImportErrorKind> {
        self.open()?.steps.push(step);
        Ok(())
    }

    fn end_enqueue(&mut self, raw: &RawEnqueueReturn) -> Result<(), ImportErrorKind> {
        let (mut open, arrived) = match self.open.take() {
            Some(Open { call: OpenCall::Enqueue(arrived), time_ns, steps, snapshots }) => {
                (Open { call: OpenCall::Dequeue, time_ns, steps, snapshots }, arrived)
            }
            _ => return Err(ImportErrorKind::Order { found: "an enqueue's return", expected: "an enqueue" }),
        };
        expect_equal("the buffer of an enqueue's return", raw.packet, arrived.packet)?;
        let memory = word(&raw.control_block, 12);
        let queued = raw.code == 0 || raw.code == 2;
        if self.kind.codel_stamps && queued {
            self.check_stamp(&open, raw)?;
        }
        let charged = self.forgets_socket_memory && self.kind.codel_stamps && queued && memory == 0;
        let arrival = self.packets.arrive(&arrived, raw.hash, charged);
        for packet in self.freed(raw)? {
            let packet = Some(self.packets.drop(packet)?);
            open.steps.push(Step::Drop { packet, cause: DropCause::UNKNOWN });
        }
        let outcome = Outcome::Verdict(raw.code);
        self.push(open, Operation::Enqueue(Box::new(arrival)), outcome, (raw.qlen, raw.backlog));
        Ok(())
    }

    /// The packets freed by this call, newest first. The kernel may hand several enqueues one list: what an earlier
    /// call put on it comes after this call's own and is no longer queued.
    fn freed(&self, raw: &RawEnqueueReturn) -> Result<Vec<u64>, ImportErrorKind> {
        let listed = raw.freed.len().min(raw.freed_count as usize);
        let own: Vec<u64> = raw.freed[..listed].iter().copied().take_while(|at| self.packets.is_queued(*at)).collect();
        if own.len() == raw.freed.len() && raw.freed_count as usize > own.len() {
            return Err(ImportErrorKind::TooManyFreed(raw.freed_count));
        }
        Ok(own)
    }

    /// The packet's enqueue time must follow from the call's one clock read: else a read was lost or is foreign.
    fn check_stamp(&self, open: &Open, raw: &RawEnqueueReturn) -> Result<(), ImportErrorKind> {
        let last = open.steps.iter().rev().find_map(|step| match step {
            Step::Clock(ns) => Some((ns >> 10) as u32),
            _ => None,
        });
        let stamp = word(&raw.control_block, 8);
        expect_equal("the packet's enqueue time", stamp.into(), last.unwrap_or(0).into())
    }

    fn end_dequeue(&mut self, raw: &RawDequeueReturn) -> Result<(), ImportErrorKind> {
        let open = match self.open.take() {
            Some(open) if matches!(open.call, OpenCall::Dequeue) => open,
            _ => return Err(ImportErrorKind::Order { found: "a dequeue's return", expected: "a dequeue" }),
        };
        let outcome = if raw.packet == 0 { Outcome::Nothing } else { Outcome::Packet(self.packets.deliver(raw)?) };
        self.push(open, Operation::Dequeue, outcome, (raw.qlen, raw.backlog));
        Ok(())
    }

    fn push(&mut self, open: Open, operation: Operation, outcome: Outcome, queue: (u32, u32)) {
        self.last = queue;
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
}

fn word(bytes: &[u8; 48], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn expect_equal(what: &'static str, found: u64, expected: u64) -> Result<(), ImportErrorKind> {
    if found == expected { Ok(()) } else { Err(ImportErrorKind::Contradiction { what, found, expected }) }
}
