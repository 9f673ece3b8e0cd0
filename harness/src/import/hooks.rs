use std::collections::BTreeMap;
use std::io::Read;

use super::layout::{self, Layout};
use super::record::{Body, RawHook, Records};
use super::{ImportError, ImportErrorKind, Meta, cc_layout};
use crate::trace::{Event, Hook, HookKind, Moment, Schema, Snapshot, Step, Subject, Trace};

/// Imports the raw recording of a congestion control, decompressed.
///
/// Each hook was recorded by twins, because either may miss a call; they are merged, and where one is missing the
/// other is used. Calls whose beginning or end neither twin saw are left out and counted in the header's remarks.
///
/// # Errors
///
/// Records that are damaged or contradict each other, with the record's number and place.
pub fn congestion_control(recording: impl Read, meta: &Meta) -> Result<Trace, ImportError> {
    let name = meta.subject.name();
    let layouts = match (&meta.subject, name) {
        (Subject::CongestionControl(_), "reno") => cc_layout::RENO,
        (Subject::CongestionControl(_), "cubic") => cc_layout::CUBIC,
        (Subject::CongestionControl(_), "bbr") => cc_layout::BBR,
        (Subject::CongestionControl(_), "dctcp") => cc_layout::DCTCP,
        _ => {
            let kind = ImportErrorKind::UnknownSubject(name.to_owned());
            return Err(ImportError { record: 0, byte: 0, kind });
        }
    };
    let schemas = layout::schemas(layouts);
    let mut header = meta.header(schemas.clone());
    let mut import = Import { layouts, schemas, ..Import::default() };
    let mut records = Records::new(recording);
    while let Some(record) = records.next()? {
        let fail = |kind| ImportError { record: record.index, byte: record.byte, kind };
        match record.body {
            Body::Hook(raw) => import.begin(record.time_ns, raw),
            Body::HookReturn(raw) => import.end(raw),
            Body::Draw { value, bits } => import.draw(value, bits),
            _ => Err(ImportErrorKind::Order { found: "a record of a qdisc", expected: "a hook" }),
        }
        .map_err(fail)?;
    }
    let end = ImportError { record: 0, byte: 0, kind: ImportErrorKind::Truncated };
    import.close_all().map_err(|kind| ImportError { kind, ..end })?;
    import.count_gaps();
    header.remarks = import.remarks.into_iter().filter(|(_, count)| *count != 0).map(|(k, v)| (k.into(), v)).collect();
    Ok(Trace { header, events: import.events.into_iter().map(|(_, hook)| Event::Hook(hook)).collect() })
}

#[derive(Default)]
struct Import {
    layouts: &'static [Layout],
    schemas: Vec<Schema>,
    /// Connection numbers by socket address and ports.
    connections: BTreeMap<(u64, [u16; 2]), u32>,
    /// Calls that have begun, innermost last: an interrupt may put one connection's call inside another's.
    open: Vec<Open>,
    /// The events, with the number of their first record, by which they are in order.
    events: Vec<(u64, Hook)>,
    begun: u64,
    remarks: BTreeMap<&'static str, u64>,
}

/// A call whose end has not come yet.
struct Open {
    number: u64,
    time_ns: u64,
    /// What the twins saw when the call began and when it ended, by twin.
    before: [Option<Box<RawHook>>; 2],
    after: [Option<Box<RawHook>>; 2],
    steps: Vec<Step>,
}

/// More calls than this inside each other mean that returns were lost.
const MAX_NESTING: usize = 4;

impl Import {
    fn remark(&mut self, what: &'static str) {
        *self.remarks.entry(what).or_default() += 1;
    }

    fn begin(&mut self, time_ns: u64, raw: Box<RawHook>) -> Result<(), ImportErrorKind> {
        let twin = raw.twin();
        if let Some(open) = self.open.last_mut()
            && open.after.iter().all(Option::is_none)
            && open.before[twin].is_none()
            && open.before[1 - twin].as_ref().is_some_and(|other| other.sees_the_same(&raw))
        {
            open.before[twin] = Some(raw);
            return Ok(());
        }
        // A call that one twin saw end has ended.
        while self.open.last().is_some_and(|open| open.after.iter().any(Option::is_some)) {
            self.close()?;
        }
        if self.open.len() == MAX_NESTING {
            self.open.remove(0);
            self.remark("calls_without_end");
        }
        let mut before = [None, None];
        before[twin] = Some(raw);
        let (after, steps) = ([None, None], Vec::new());
        self.open.push(Open { number: self.begun, time_ns, before, after, steps });
        self.begun += 1;
        Ok(())
    }

    fn end(&mut self, raw: Box<RawHook>) -> Result<(), ImportErrorKind> {
        let twin = raw.twin();
        let fits = |open: &Open| {
            let mut begun = open.before.iter().flatten();
            begun.all(|before| before.is_same_call(&raw))
                && open.after[twin].is_none()
                && open.after[1 - twin].as_ref().is_none_or(|other| other.sees_the_same(&raw))
        };
        let Some(position) = self.open.iter().rposition(fits) else {
            self.remark("ends_without_call");
            return Ok(());
        };
        // What began inside it and did not end has lost its end.
        while self.open.len() > position + 1 {
            match self.open.last() {
                Some(open) if open.after.iter().any(Option::is_some) => self.close()?,
                _ => {
                    self.open.pop();
                    self.remark("calls_without_end");
                }
            }
        }
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        open.after[twin] = Some(raw);
        if open.after.iter().all(Option::is_some) {
            self.close()?;
        }
        Ok(())
    }

    /// Any part of the kernel may draw: only a draw inside a call can be the algorithm's.
    fn draw(&mut self, value: u64, bits: u64) -> Result<(), ImportErrorKind> {
        match self.open.last_mut() {
            Some(open) if open.after.iter().all(Option::is_none) => {
                let bits = match bits {
                    8 | 16 | 32 | 64 => bits as u8,
                    _ => {
                        let allowed = "8, 16, 32 or 64";
                        return Err(ImportErrorKind::Field { field: "the width of a draw", value: bits, allowed });
                    }
                };
                open.steps.push(Step::Draw { bits, value: value & u64::MAX >> (64 - bits) });
            }
            _ => self.remark("foreign_draws"),
        }
        Ok(())
    }

    fn close_all(&mut self) -> Result<(), ImportErrorKind> {
        while let Some(open) = self.open.last() {
            if open.after.iter().any(Option::is_some) {
                self.close()?;
            } else {
                self.open.pop();
                self.remark("calls_without_end");
            }
        }
        self.events.sort_unstable_by_key(|(number, _)| *number);
        Ok(())
    }

    /// The innermost call has ended.
    fn close(&mut self) -> Result<(), ImportErrorKind> {
        let Some(Open { number, time_ns, before, after, steps }) = self.open.pop() else { return Ok(()) };
        let lone = [&before, &after].into_iter().any(|seen| seen.iter().any(Option::is_none));
        // The twin that came last before the call, and the first after it, frame it most closely. Twin 1 comes first.
        let [late, early] = before;
        let (Some(before), [second, first]) = (late.or(early), after) else { return Ok(()) };
        let Some(after) = first.or(second) else { return Ok(()) };
        if lone {
            self.remark("calls_seen_by_one_twin");
        }
        let connection = self.connection(&before);
        let hook = before.kind()?;
        let mut snapshots = Vec::with_capacity(5);
        for (raw, moment) in [(&before, Moment::Before), (&after, Moment::After)] {
            snapshots.push(self.snapshot(cc_layout::CONNECTION, &cc_layout::connection(raw), connection, moment)?);
            if self.layouts.iter().any(|layout| layout.what == cc_layout::PRIVATE) {
                snapshots.push(self.snapshot(cc_layout::PRIVATE, &raw.private, connection, moment)?);
            }
        }
        let sample = match hook {
            HookKind::PktsAcked => Some(cc_layout::ACK_SAMPLE),
            HookKind::CongControl => Some(cc_layout::RATE_SAMPLE),
            _ => None,
        };
        if let Some(what) = sample {
            let recorded = before.sample.len().min(before.sample_bytes as usize);
            snapshots.push(self.snapshot(what, &before.sample[..recorded], 0, Moment::Before)?);
        }
        let hook = Hook {
            time_ns,
            connection,
            hook,
            arguments: before.numbers(hook),
            result: matches!(hook, HookKind::Ssthresh | HookKind::UndoCwnd).then_some(after.result & 0xffff_ffff),
            jiffies: [before.jiffies, after.jiffies],
            steps,
            snapshots,
        };
        self.events.push((number, hook));
        Ok(())
    }

    fn connection(&mut self, raw: &RawHook) -> u32 {
        let next = self.connections.len() as u32;
        *self.connections.entry((raw.socket, raw.ports)).or_insert(next)
    }

    fn snapshot(&self, what: u32, bytes: &[u8], key: u32, moment: Moment) -> Result<Snapshot, ImportErrorKind> {
        let mut snapshots = layout::snapshots(self.layouts, &self.schemas, what, bytes)?;
        let snapshot = snapshots.pop().ok_or(ImportErrorKind::UnknownSnapshot(what))?;
        Ok(Snapshot { key: key.into(), moment, ..snapshot })
    }

    /// Counts the calls before which the private area is not what the connection's last call left: a call between
    /// them was lost.
    fn count_gaps(&mut self) {
        let mut left: BTreeMap<u32, &Snapshot> = BTreeMap::new();
        let mut gaps = 0;
        for (_, hook) in &self.events {
            let [_, before, _, after, ..] = hook.snapshots.as_slice() else { continue };
            gaps += u64::from(left.get(&hook.connection).is_some_and(|left| left.values != before.values));
            left.insert(hook.connection, after);
        }
        self.remarks.insert("gaps_in_private_state", gaps);
    }
}

/// Bit 16 of the function's number marks the second twin.
const TWIN: u32 = 1 << 16;

impl RawHook {
    const fn twin(&self) -> usize {
        (self.function & TWIN != 0) as usize
    }

    /// The same hook of the same connection?
    fn is_same_call(&self, other: &Self) -> bool {
        self.function & !TWIN == other.function & !TWIN && self.socket == other.socket && self.ports == other.ports
    }

    /// Do twins show the same moment? Only the jiffies may have ticked between them.
    fn sees_the_same(&self, other: &Self) -> bool {
        self.is_same_call(other)
            && self.arguments == other.arguments
            && cc_layout::connection(self) == cc_layout::connection(other)
            && self.private == other.private
    }

    fn kind(&self) -> Result<HookKind, ImportErrorKind> {
        Ok(match self.function & !TWIN {
            1 => HookKind::CongAvoid,
            2 => HookKind::Ssthresh,
            3 => HookKind::SetState,
            4 => HookKind::PktsAcked,
            5 => HookKind::CwndEvent,
            6 => HookKind::Init,
            7 => HookKind::CongControl,
            8 => HookKind::InAckEvent,
            9 => HookKind::UndoCwnd,
            10 => HookKind::MinTsoSegs,
            function => {
                let allowed = "1 to 10";
                return Err(ImportErrorKind::Field { field: "a hook's number", value: function.into(), allowed });
            }
        })
    }

    /// The arguments that are numbers, cut to their types' widths.
    fn numbers(&self, hook: HookKind) -> Vec<u64> {
        let [_, first, second, _] = self.arguments;
        match hook {
            HookKind::CongAvoid => vec![first & 0xffff_ffff, second & 0xffff_ffff],
            HookKind::SetState => vec![first & 0xff],
            HookKind::CwndEvent | HookKind::InAckEvent => vec![first & 0xffff_ffff],
            _ => Vec::new(),
        }
    }
}
