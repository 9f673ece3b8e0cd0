use std::collections::BTreeMap;
use std::io::Read;

use debloat_cc::algorithm::AckSample;
use debloat_cc::conn::PaceMode;
use debloat_cc::rate::RateSample;
use debloat_cc::{CaState, Conn, Hz};

use super::record::{Body, Fields, RawHook, Records};
use super::{ImportError, ImportErrorKind, Meta, draw};
use crate::cc::names::{self, Named};
use crate::cc::private::{self, Private};
use crate::trace::{Event, Field, Hook, HookKind, Moment, Schema, Snapshot, Step, Subject, Trace};

/// The recorder's twin programs of a hook differ in this bit of the function's number.
const TWIN: u32 = 1 << 16;

/// Imports the raw recording of a congestion control, decompressed.
///
/// Every hook was recorded twice; one record of each side is kept. What the recorder did not see but the outcome tells
/// (RCV.NXT at DCTCP's ECN events, the time of the last transmission at CUBIC's idle restarts) is filled in and
/// counted in the header's remarks.
///
/// # Errors
///
/// Records that are damaged or contradict each other, with the record's number and place.
pub fn congestion_control(recording: impl Read, meta: &Meta) -> Result<Trace, ImportError> {
    let fail = |kind| ImportError { record: 0, byte: 0, kind };
    let unknown = || fail(ImportErrorKind::UnknownSubject(meta.subject.name().to_owned()));
    let Subject::CongestionControl(subject) = &meta.subject else { return Err(unknown()) };
    let area = Area::of(&subject.name).ok_or_else(unknown)?;
    let hz = Hz::new(meta.kernel.hz).map_err(|_| {
        fail(ImportErrorKind::Field { field: "HZ", value: meta.kernel.hz.into(), allowed: "24 to 10000" })
    })?;
    let mut header = meta.header(schemas(area));
    let mut import =
        Import { area, hz, sockets: Vec::new(), open: Vec::new(), events: Vec::new(), seen: Seen::default() };
    let mut records = Records::new(recording);
    while let Some(record) = records.next()? {
        let (index, byte) = (record.index, record.byte);
        import.take(record.time_ns, record.body).map_err(|kind| ImportError { record: index, byte, kind })?;
    }
    let seen = import.seen;
    let remarks = [
        ("twin_records", seen.twins),
        ("draws_outside_hooks", seen.foreign_draws),
        ("rcv_nxt_inferred", seen.rcv_nxt),
        ("delayed_ack_inferred", seen.delayed_acks),
        ("last_send_inferred", seen.last_send),
        ("states_changed_between_calls", seen.gaps),
        ("calls_cut_off_at_the_end", import.open.len() as u64),
    ];
    header.remarks = remarks.into_iter().filter(|(_, count)| *count != 0).map(|(k, v)| (k.to_owned(), v)).collect();
    Ok(Trace { header, events: import.events })
}

/// Whose private area it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    Cubic,
    Dctcp,
    Bbr,
}

impl Area {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "cubic" => Self::Cubic,
            "dctcp" => Self::Dctcp,
            "bbr" => Self::Bbr,
            _ => return None,
        })
    }

    fn schema(self) -> (&'static str, Vec<Field>) {
        fn fields<S>(names: &[Named<S>]) -> Vec<Field> {
            names.iter().map(Named::field).collect()
        }
        match self {
            Self::Cubic => ("cc.cubic", fields(names::CUBIC)),
            Self::Dctcp => ("cc.dctcp", fields(names::DCTCP)),
            Self::Bbr => ("cc.bbr", fields(names::BBR)),
        }
    }

    /// The named values, and the area with them written over `base`.
    fn values(self, bytes: &Private, base: &Private) -> Result<(Vec<u64>, Private), ImportErrorKind> {
        let mut rebuilt = *base;
        let values = match self {
            Self::Cubic => {
                let state = private::cubic(bytes);
                private::put_cubic(&mut rebuilt, &state);
                names::values(names::CUBIC, &state)
            }
            Self::Dctcp => {
                let state = private::dctcp(bytes);
                private::put_dctcp(&mut rebuilt, &state);
                names::values(names::DCTCP, &state)
            }
            Self::Bbr => {
                let state = private::bbr(bytes).ok_or(ImportErrorKind::Field {
                    field: "bbr's mode or congestion state",
                    value: bytes[56].into(),
                    allowed: "0 to 3 and 0 to 4",
                })?;
                private::put_bbr(&mut rebuilt, &state);
                names::values(names::BBR, &state)
            }
        };
        Ok((values, rebuilt))
    }
}

/// Numbers of the schemas.
const CONN: u16 = 0;
const PRIVATE: u16 = 1;
const RATE_SAMPLE: u16 = 2;
const ACK_SAMPLE: u16 = 3;

fn schemas(area: Area) -> Vec<Schema> {
    let (name, fields) = area.schema();
    let schema = |name: &str, object: &str, fields| Schema { name: name.into(), object: object.into(), fields };
    vec![
        schema("cc.conn", "the connection's variables", names::CONN.iter().map(Named::field).collect()),
        schema(name, "the socket's private area", fields),
        schema(
            "cc.rate_sample",
            "the sample that cong_control gets",
            names::RATE_SAMPLE.iter().map(Named::field).collect(),
        ),
        schema(
            "cc.ack_sample",
            "the sample that pkts_acked gets",
            names::ACK_SAMPLE.iter().map(Named::field).collect(),
        ),
    ]
}

#[derive(Default)]
struct Seen {
    twins: u64,
    foreign_draws: u64,
    rcv_nxt: u64,
    delayed_acks: u64,
    last_send: u64,
    gaps: u64,
}

struct Import {
    area: Area,
    hz: Hz,
    /// Sockets (address and ports: addresses are used again) in order of appearance, with their private area after the
    /// last call.
    sockets: Vec<((u64, [u16; 2]), Option<Private>)>,
    open: Vec<Open>,
    events: Vec<Event>,
    seen: Seen,
}

/// A call whose return has not come yet.
struct Open {
    time_ns: u64,
    entry: Box<RawHook>,
    steps: Vec<Step>,
}

impl Import {
    fn take(&mut self, time_ns: u64, body: Body) -> Result<(), ImportErrorKind> {
        match body {
            Body::Hook(raw) => self.enter(time_ns, raw),
            Body::HookReturn(raw) => return self.leave(&raw),
            Body::Draw { value, bits } => match self.open.last_mut() {
                Some(open) => open.steps.push(draw(bits, value)?),
                None => self.seen.foreign_draws += 1,
            },
            _ => {}
        }
        Ok(())
    }

    fn position(&self, raw: &RawHook) -> Option<usize> {
        let same = |open: &Open| open.entry.socket == raw.socket && open.entry.function | TWIN == raw.function | TWIN;
        self.open.iter().position(same)
    }

    /// The second twin's entry is nearer to the call: it replaces the first's.
    fn enter(&mut self, time_ns: u64, raw: Box<RawHook>) {
        match self.position(&raw) {
            Some(at) => {
                self.seen.twins += 1;
                self.open[at].entry = raw;
            }
            None => self.open.push(Open { time_ns, entry: raw, steps: Vec::new() }),
        }
    }

    /// The first return ends the call; its twin's finds none open.
    fn leave(&mut self, raw: &RawHook) -> Result<(), ImportErrorKind> {
        let Some(at) = self.position(raw) else {
            self.seen.twins += 1;
            return Ok(());
        };
        let open = self.open.remove(at);
        let hook = self.hook(&open, raw)?;
        self.events.push(Event::Hook(hook));
        Ok(())
    }

    fn hook(&mut self, open: &Open, after: &RawHook) -> Result<Hook, ImportErrorKind> {
        let before = &*open.entry;
        let kind = kind(before.function)?;
        let number = self.connection(before);
        let key = u64::from(number);
        let (private_before, _) = self.area.values(&before.private, &before.private)?;
        let (private_after, rebuilt) = self.area.values(&after.private, &before.private)?;
        if rebuilt != after.private {
            let at = (0..104).find(|&i| rebuilt[i] != after.private[i]).unwrap_or(0);
            return Err(ImportErrorKind::Contradiction {
                what: "a byte of the private area outside its fields",
                found: after.private[at].into(),
                expected: rebuilt[at].into(),
            });
        }
        if self.sockets[number as usize].1.replace(after.private).is_some_and(|last| last != before.private) {
            self.seen.gaps += 1;
        }
        let (mut from, to) = (self.conn(before)?, self.conn(after)?);
        self.infer(kind, before, after, &mut from);
        let at = |schema, moment, values| Snapshot { schema, moment, key, values };
        let mut to_values = names::values(names::CONN, &to);
        // The inferred values did not change.
        for inferred in ["last_send_j", "rcv_nxt", "delack_pending"] {
            if let Some(i) = names::CONN.iter().position(|named| named.name == inferred) {
                to_values[i] = (names::CONN[i].get)(&from);
            }
        }
        let mut snapshots = vec![
            at(CONN, Moment::Before, names::values(names::CONN, &from)),
            at(PRIVATE, Moment::Before, private_before),
        ];
        let needed = match kind {
            HookKind::CongControl => 67,
            HookKind::PktsAcked => 12,
            _ => 0,
        };
        if before.sample_bytes < needed {
            let (field, value) = ("the length of a sample", before.sample_bytes.into());
            return Err(ImportErrorKind::Field { field, value, allowed: "enough for its fields" });
        }
        match kind {
            HookKind::CongControl => {
                let values = names::values(names::RATE_SAMPLE, &rate_sample(&before.sample));
                snapshots.push(at(RATE_SAMPLE, Moment::Before, values));
            }
            HookKind::PktsAcked => {
                let values = names::values(names::ACK_SAMPLE, &ack_sample(&before.sample));
                snapshots.push(at(ACK_SAMPLE, Moment::Before, values));
            }
            _ => {}
        }
        snapshots.push(at(CONN, Moment::After, to_values));
        snapshots.push(at(PRIVATE, Moment::After, private_after));
        Ok(Hook {
            time_ns: open.time_ns,
            connection: number,
            hook: kind,
            arguments: arguments(kind, before),
            result: matches!(kind, HookKind::Ssthresh | HookKind::UndoCwnd).then_some(after.result & 0xffff_ffff),
            jiffies: [before.jiffies, after.jiffies],
            steps: open.steps.clone(),
            snapshots,
        })
    }

    fn connection(&mut self, raw: &RawHook) -> u32 {
        let socket = (raw.socket, raw.ports);
        let found = self.sockets.iter().position(|(known, _)| *known == socket);
        found.unwrap_or_else(|| {
            self.sockets.push((socket, None));
            self.sockets.len() - 1
        }) as u32
    }

    fn conn(&self, raw: &RawHook) -> Result<Conn, ImportErrorKind> {
        let w = &raw.words;
        let mut c = Conn::new(w[10], self.hz, raw.jiffies as u32);
        [c.cwnd, c.ssthresh, c.ai_credit, c.cwnd_cap, c.peak_used, c.ssthresh_before, c.cwnd_before] =
            std::array::from_fn(|i| w[i]);
        [c.srtt8, c.mdev4, c.rttvar4, c.mss, c.delivered, c.delivered_ce, c.unacked, c.retrans, c.sacked, c.lost] =
            std::array::from_fn(|i| w[7 + i]);
        [c.lost_total, c.app_lim, c.una, c.nxt, c.peak_out] = std::array::from_fn(|i| w[17 + i]);
        c.min_rtt.reset(0, w[25]);
        (c.recovery_point, c.prr_out) = (w[26], w[27]);
        [c.now_us, c.now_ns, c.edt_ns, c.delivered_us, c.first_us, _, c.pace_rate, c.max_pace] = raw.longs;
        (c.last_send_j, c.rcv_nxt) = (0, 0);
        c.limited = raw.is_cwnd_limited;
        let field = |field, value: u32, allowed| ImportErrorKind::Field { field, value: value.into(), allowed };
        c.pace_mode = match raw.pacing_status {
            0 => PaceMode::None,
            1 => PaceMode::Internal,
            2 => PaceMode::Fq,
            other => return Err(field("the pacing status", other, "0 to 2")),
        };
        let state = u8::try_from(raw.state).ok().and_then(CaState::from_number);
        c.state = state.ok_or_else(|| field("the congestion state", raw.state, "0 to 4"))?;
        Ok(c)
    }

    /// Fills in what the recorder did not see.
    fn infer(&mut self, kind: HookKind, before: &RawHook, after: &RawHook, c: &mut Conn) {
        match (self.area, kind) {
            (Area::Dctcp, HookKind::CwndEvent | HookKind::Init) => {
                c.rcv_nxt = private::dctcp(&after.private).prior_rcv;
                self.seen.rcv_nxt += 1;
                // Only a sent ACK moves the departure time inside the hook: one was being delayed.
                c.delack_pending = before.longs[2] != after.longs[2];
                self.seen.delayed_acks += u64::from(c.delack_pending);
            }
            (Area::Cubic, HookKind::CwndEvent) if before.arguments[1] == 0 => {
                // The epoch moved by the idle time, at most up to now.
                let (from, to) = (private::cubic(&before.private).epoch, private::cubic(&after.private).epoch);
                let idle =
                    if from != 0 && to == after.jiffies as u32 { i32::MAX as u32 } else { to.wrapping_sub(from) };
                c.last_send_j = (after.jiffies as u32).wrapping_sub(idle);
                self.seen.last_send += 1;
            }
            _ => {}
        }
    }
}

fn kind(function: u32) -> Result<HookKind, ImportErrorKind> {
    Ok(match function & 0xffff {
        1 => HookKind::CongAvoid,
        2 => HookKind::Ssthresh,
        3 => HookKind::SetState,
        4 => HookKind::PktsAcked,
        5 => HookKind::CwndEvent,
        6 => HookKind::Init,
        7 => HookKind::CongControl,
        8 => HookKind::InAckEvent,
        9 => HookKind::UndoCwnd,
        other => {
            let field = "the hook's number";
            return Err(ImportErrorKind::Field { field, value: other.into(), allowed: "1 to 9" });
        }
    })
}

/// The arguments after the socket that are numbers.
fn arguments(kind: HookKind, raw: &RawHook) -> Vec<u64> {
    match kind {
        HookKind::CongAvoid => raw.arguments[1..3].iter().map(|v| v & 0xffff_ffff).collect(),
        HookKind::SetState => vec![raw.arguments[1] & 0xff],
        HookKind::CwndEvent | HookKind::InAckEvent => vec![raw.arguments[1] & 0xffff_ffff],
        _ => Vec::new(),
    }
}

fn rate_sample(bytes: &[u8]) -> RateSample {
    let mut f = Fields(bytes);
    let mut rs = RateSample {
        prior_us: f.u64(),
        prior_delivered: f.u32(),
        prior_delivered_ce: f.u32(),
        delivered: f.u32() as i32,
        delivered_ce: f.u32() as i32,
        interval_us: f.u64() as i64,
        send_us: f.u32(),
        ack_us: f.u32(),
        rtt_us: f.u64() as i64,
        losses: f.u32() as i32,
        acked_sacked: f.u32(),
        prior_in_flight: f.u32(),
        last_end_seq: f.u32(),
        ..RateSample::default()
    };
    let [app, retrans, delayed]: [u8; 3] = f.array();
    (rs.is_app_limited, rs.is_retrans, rs.is_ack_delayed) = (app != 0, retrans != 0, delayed != 0);
    rs
}

fn ack_sample(bytes: &[u8]) -> AckSample {
    let mut f = Fields(bytes);
    AckSample { acked: f.u32(), rtt_us: f.u32() as i32, in_flight_bytes: f.u32() }
}

/// Keeps the first part of a trace, a number of events.
///
/// The remark `events_cut_off` says how many were left out.
pub fn shorten(trace: &mut Trace, events: usize) {
    if trace.events.len() > events {
        let cut = (trace.events.len() - events) as u64;
        trace.events.truncate(events);
        let remarks: &mut BTreeMap<String, u64> = &mut trace.header.remarks;
        remarks.insert("events_cut_off".into(), cut);
    }
}
