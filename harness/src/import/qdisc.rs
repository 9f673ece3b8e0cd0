use std::io::Read;

use super::cake::{self, Cake};
use super::layout::{self, Layout};
use super::packets::Packets;
use super::record::{Body, RawDequeueReturn, RawEnqueue, RawEnqueueReturn, Record, Records};
use super::{ImportError, ImportErrorKind, Meta, Symbols, draw, expect_equal};
use crate::trace::{Call, DropCause, Event, Operation, Outcome, Schema, Snapshot, Step, Subject, Trace};

/// What an import knows of a qdisc.
struct Kind {
    layouts: &'static [Layout],
    /// Function names of its text begin with one of these.
    text: &'static [&'static str],
    stamp: Stamp,
    /// The state whose record ends a timer's run; without one the run ends at once.
    timer_ends_with: Option<u32>,
}

/// The enqueue time which the qdisc stores in a packet's control block, at byte 8.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamp {
    /// CoDel time, u32, with the memory charge, u32, behind it.
    Codel,
    /// psched ticks, u64.
    Ticks,
    /// ns, u64.
    Nanoseconds,
}

impl Kind {
    fn of(name: &str, series: &str) -> Option<Self> {
        let kind = match name {
            "fq_codel" => Self {
                layouts: layout::FQ_CODEL,
                text: &["fq_codel_", "__fq_codel_", "codel_"],
                stamp: Stamp::Codel,
                timer_ends_with: None,
            },
            "pie" => Self {
                layouts: layout::PIE,
                text: &["pie_"],
                stamp: Stamp::Ticks,
                timer_ends_with: Some(layout::PIE_AFTER_TIMER),
            },
            "fq_pie" => {
                Self { layouts: layout::FQ_PIE, text: &["fq_pie_", "pie_"], stamp: Stamp::Ticks, timer_ends_with: None }
            }
            "cake" => Self {
                layouts: if series == "7.2" { layout::CAKE_7 } else { layout::CAKE_6 },
                text: &["cake_", "cobalt_"],
                stamp: Stamp::Nanoseconds,
                timer_ends_with: None,
            },
            _ => return None,
        };
        Some(kind)
    }
}

/// Imports the raw recording of a qdisc, decompressed.
///
/// Clock reads that were not the qdisc's own (an interrupt's inside the call) are left out and counted in
/// the header's remarks.
///
/// # Errors
///
/// Records that are damaged or contradict each other, with the record's number and place.
pub fn qdisc(recording: impl Read, symbols: &Symbols, meta: &Meta) -> Result<Trace, ImportError> {
    let name = meta.subject.name();
    let kind = match &meta.subject {
        Subject::Qdisc(_) => Kind::of(name, &meta.kernel.series),
        Subject::CongestionControl(_) => None,
    };
    let Some(kind) = kind else {
        let kind = ImportErrorKind::UnknownSubject(name.to_owned());
        return Err(ImportError { record: 0, byte: 0, kind });
    };
    let schemas = layout::schemas(kind.layouts);
    let mut header = meta.header(schemas.clone());
    let mut import = Import {
        kind,
        symbols,
        schemas,
        forgets_socket_memory: meta.kernel.series == "7.2",
        packets: Packets::default(),
        cake: (name == "cake").then(Cake::default),
        open: None,
        last: (0, 0),
        events: Vec::new(),
        foreign_clock_reads: 0,
    };
    let mut records = Records::new(recording);
    while let Some(record) = records.next()? {
        let (index, byte) = (record.index, record.byte);
        import.take(record).map_err(|kind| ImportError { record: index, byte, kind })?;
    }
    let cake = import.cake.unwrap_or_default();
    let remarks = [
        ("drops_known_by_their_correction", cake.inferred_drops),
        ("split_packets", cake.split_packets),
        ("foreign_clock_reads", import.foreign_clock_reads),
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
    cake: Option<Cake>,
    open: Option<Open>,
    /// Queue length and backlog as last recorded.
    last: (u32, u32),
    events: Vec<Event>,
    foreign_clock_reads: u64,
}

/// A call whose return has not come yet.
struct Open {
    time_ns: u64,
    call: OpenCall,
    steps: Vec<Step>,
    snapshots: Vec<Snapshot>,
    /// The queue that cake's lookup gave.
    lookup: Option<u64>,
    /// Which steps are drops whose packet is still to be found, and the address recorded for it.
    unnamed: Vec<(usize, u64)>,
}

enum OpenCall {
    Enqueue(Box<RawEnqueue>),
    Dequeue,
    Timer,
}

/// Interrupt bits of the preemption count: hard interrupts and non-maskable ones.
const IN_INTERRUPT: u32 = 0x00ff_0000;

impl Import<'_> {
    fn take(&mut self, record: Record) -> Result<(), ImportErrorKind> {
        match record.body {
            Body::Enqueue(raw) => {
                self.check_queue((raw.qlen, raw.backlog))?;
                self.begin(record.time_ns, OpenCall::Enqueue(raw))
            }
            Body::Dequeue { qlen, backlog } => {
                self.check_queue((qlen, backlog))?;
                self.begin(record.time_ns, OpenCall::Dequeue)
            }
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
            Body::Drop { packet, code } => self.drop(packet, code),
            Body::FlowHash { value, keys } => self.step(Step::FlowHash { value, keys: hashed_keys(&keys) }),
            Body::CakeHash { flow, mode, overrides } => {
                let mut bytes = flow.to_le_bytes().to_vec();
                bytes.extend_from_slice(&(mode as u32).to_le_bytes());
                bytes.extend_from_slice(&((overrides >> 16) as u16).to_le_bytes());
                bytes.extend_from_slice(&(overrides as u16).to_le_bytes());
                self.snapshot(layout::CAKE_HASH, &bytes)?;
                self.open()?.lookup = Some(flow.into());
                Ok(())
            }
            Body::Correction { packets, bytes } => self.step(Step::Correction { packets, bytes, emptied: None }),
            Body::Watchdog { expires_ns, slack_ns } => self.step(Step::Watchdog { expires_ns, slack_ns }),
            Body::Draw { value, bits } => self.draw(bits, value),
            Body::DrawBytes { count, bytes } => {
                self.draw(count.saturating_mul(8), u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| bytes[at])))
            }
            Body::Early { dropped, backlog_bytes, packet_bytes } => {
                let mut bytes = vec![u8::from(dropped)];
                bytes.extend_from_slice(&backlog_bytes.to_le_bytes());
                bytes.extend_from_slice(&packet_bytes.to_le_bytes());
                self.snapshot(layout::EARLY, &bytes)
            }
            Body::Timer { jiffies } => {
                self.begin(record.time_ns, OpenCall::Timer)?;
                self.step(Step::Jiffies(jiffies))?;
                if self.kind.timer_ends_with.is_none() { self.end_timer() } else { Ok(()) }
            }
            Body::Snapshot { what, bytes } => {
                self.snapshot(what, &bytes)?;
                if self.kind.timer_ends_with == Some(what) { self.end_timer() } else { Ok(()) }
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
        let (steps, snapshots, unnamed) = (Vec::new(), Vec::new(), Vec::new());
        self.open = Some(Open { time_ns, call, steps, snapshots, lookup: None, unnamed });
        Ok(())
    }

    /// Between calls nothing happens to the queue: else a call was lost.
    fn check_queue(&self, (qlen, backlog): (u32, u32)) -> Result<(), ImportErrorKind> {
        expect_equal("the queue length before a call", qlen.into(), self.last.0.into())?;
        expect_equal("the backlog before a call", backlog.into(), self.last.1.into())
    }

    fn open(&mut self) -> Result<&mut Open, ImportErrorKind> {
        self.open.as_mut().ok_or(ImportErrorKind::Order { found: "an effect", expected: "a call" })
    }

    fn snapshot(&mut self, what: u32, bytes: &[u8]) -> Result<(), ImportErrorKind> {
        let snapshots = layout::snapshots(self.kind.layouts, &self.schemas, what, bytes)?;
        self.open()?.snapshots.extend(snapshots);
        Ok(())
    }

    fn drop(&mut self, address: u64, code: u32) -> Result<(), ImportErrorKind> {
        let cause = DropCause { reason: None, code: Some(code) };
        if self.cake.is_some() {
            // The packet is named when the call ends.
            let open = self.open()?;
            open.unnamed.push((open.steps.len(), address));
            return self.step(Step::Drop { packet: None, cause });
        }
        let packet = Some(self.packets.drop(address)?);
        self.step(Step::Drop { packet, cause })
    }

    /// Draws are recorded only when the qdisc's own code asked for them.
    fn draw(&mut self, bits: u64, value: u64) -> Result<(), ImportErrorKind> {
        self.step(draw(bits, value)?)
    }

    fn step(&mut self, step: Step) -> Result<(), ImportErrorKind> {
        self.open()?.steps.push(step);
        Ok(())
    }

    fn end_enqueue(&mut self, raw: &RawEnqueueReturn) -> Result<(), ImportErrorKind> {
        let misplaced = ImportErrorKind::Order { found: "an enqueue's return", expected: "an enqueue" };
        let Some(mut open) = self.open.take() else { return Err(misplaced) };
        let OpenCall::Enqueue(arrived) = std::mem::replace(&mut open.call, OpenCall::Dequeue) else {
            return Err(misplaced);
        };
        expect_equal("the buffer of an enqueue's return", raw.packet, arrived.packet)?;
        let queued = raw.code == 0 || raw.code == 2;
        let no_memory = self.kind.stamp == Stamp::Codel && long(&raw.control_block, 8) >> 32 == 0;
        let charged = self.forgets_socket_memory && queued && no_memory;
        let mut arrival = self.packets.arrive(&arrived, raw.hash, charged);
        let split = match &mut self.cake {
            Some(cake) if queued => {
                cake.enqueued(&arrived, &mut arrival, &open.steps, open.lookup, &mut self.packets)?
            }
            _ => false,
        };
        if queued && !split {
            self.check_stamp(&open, raw)?;
        }
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
        let last_ns = open.steps.iter().rev().find_map(|step| match step {
            Step::Clock(ns) => Some(*ns),
            _ => None,
        });
        let last_ns = last_ns.unwrap_or(0);
        let stamp = long(&raw.control_block, 8);
        let (found, expected) = match self.kind.stamp {
            Stamp::Codel => (stamp & 0xffff_ffff, last_ns >> 10 & 0xffff_ffff),
            Stamp::Ticks => (stamp, last_ns >> 6),
            Stamp::Nanoseconds => (stamp, last_ns),
        };
        expect_equal("the packet's enqueue time", found, expected)
    }

    fn end_dequeue(&mut self, raw: &RawDequeueReturn) -> Result<(), ImportErrorKind> {
        let mut open = match self.open.take() {
            Some(open) if matches!(open.call, OpenCall::Dequeue) => open,
            _ => return Err(ImportErrorKind::Order { found: "a dequeue's return", expected: "a dequeue" }),
        };
        let outcome = match (raw.packet, &mut self.cake) {
            (0, _) => {
                expect_equal("drops in a call that delivered nothing", open.unnamed.len() as u64, 0)?;
                Outcome::Nothing
            }
            (_, None) => Outcome::Packet(self.packets.deliver(raw)?),
            (_, Some(cake)) => {
                cake::name_served_queue(&mut open.snapshots, &self.schemas);
                let Open { steps, snapshots, unnamed, .. } = &mut open;
                Outcome::Packet(cake.delivered(raw, snapshots, steps, unnamed, &mut self.packets)?)
            }
        };
        self.push(open, Operation::Dequeue, outcome, (raw.qlen, raw.backlog));
        Ok(())
    }

    fn end_timer(&mut self) -> Result<(), ImportErrorKind> {
        let open = match self.open.take() {
            Some(open) if matches!(open.call, OpenCall::Timer) => open,
            _ => return Err(ImportErrorKind::Order { found: "the state after a timer", expected: "a timer's run" }),
        };
        self.push(open, Operation::Timer, Outcome::Done, self.last);
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

fn long(bytes: &[u8; 48], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The bytes that were hashed of dissected keys: everything behind the 8 bytes of control, up to the addresses that
/// there are (spec/common.md §8.2).
fn hashed_keys(keys: &[u8; 96]) -> Vec<u8> {
    let length = match u16::from_le_bytes([keys[2], keys[3]]) {
        2 => 48,
        3 => 72,
        0 => 40,
        _ => 44,
    };
    keys[8..8 + length].to_vec()
}
