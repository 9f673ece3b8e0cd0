use std::collections::VecDeque;

use debloat_cc::algorithm::{AckFlags, AckSample, Algorithm, CwndEvent};
use debloat_cc::conn::EcnMode;
use debloat_cc::rate::RateSample;
use debloat_cc::{Bbr, CaState, Conn, Cubic, Dctcp, Env, Hz, Reno, cubic, dctcp};

use super::{Difference, Divergence, ReplayError, Report};
use crate::cc::names::{self, Named};
use crate::trace::{CcSubject, Event, Header, Hook, HookKind, Moment, Snapshot, Step, Subject};

/// Events shown before a divergence.
const CONTEXT: usize = 3;

/// The replay of one congestion-control trace, hook by hook.
///
/// Each hook starts from the recorded state before it; connection variables, private area and return value after it
/// are compared. Where a jiffy tick fell into the recorder's own window either tick is accepted, and counted.
pub struct CcReplay<'a> {
    header: &'a Header,
    about: &'a CcSubject,
    hz: Hz,
    report: Report,
    recent: VecDeque<String>,
}

/// The port under replay.
#[derive(Clone, Copy)]
enum Port {
    Reno(Reno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Bbr(Bbr),
}

/// What the world was like in one hook.
#[derive(Clone)]
struct World<'a> {
    hz: Hz,
    jiffies: u32,
    draws: std::slice::Iter<'a, Step>,
    taken: u64,
    missing: bool,
    acks: u32,
}

impl Env for World<'_> {
    fn hz(&self) -> Hz {
        self.hz
    }

    fn jiffies(&mut self) -> u32 {
        self.jiffies
    }

    /// Bytes are drawn until one maps without bias (Lemire's method), as the kernel does below 256.
    fn random_below(&mut self, bound: u32) -> u32 {
        loop {
            let next = self.draws.find_map(|step| match step {
                Step::Draw { bits: 8, value } => Some(*value as u32),
                _ => None,
            });
            let Some(byte) = next else {
                self.missing = true;
                return 0;
            };
            self.taken += 1;
            let product = byte * bound;
            if product & 0xff >= 256 % bound {
                return product >> 8;
            }
        }
    }

    fn send_ack(&mut self, _ack: u32, _echo: bool) {
        self.acks += 1;
    }
}

impl<'a> CcReplay<'a> {
    /// Makes the port which the header describes.
    ///
    /// # Errors
    ///
    /// An unknown kernel, congestion control, HZ or parameter.
    pub fn new(header: &'a Header) -> Result<Self, ReplayError> {
        let Subject::CongestionControl(about) = &header.subject else {
            return Err(ReplayError::UnknownSubject { name: header.subject.name().into() });
        };
        let series = &header.kernel.series;
        header.kernel.linux().ok_or_else(|| ReplayError::UnknownKernel { series: series.clone() })?;
        let bad = || ReplayError::Parameter { name: "hz".into(), value: header.kernel.hz.into() };
        let hz = Hz::new(header.kernel.hz).map_err(|_| bad())?;
        let replay = Self { header, about, hz, report: Report::default(), recent: VecDeque::new() };
        replay.port()?;
        Ok(replay)
    }

    fn port(&self) -> Result<Port, ReplayError> {
        let mut cubic = cubic::Params::default();
        let mut dctcp = dctcp::Params::default();
        for (name, &value) in &self.about.parameters {
            let number = value as u32;
            match (self.about.name.as_str(), name.as_str()) {
                (_, "ecn") => {}
                ("cubic", "fast_convergence") => cubic.fast_convergence = value != 0,
                ("cubic", "beta") => cubic.beta = number,
                ("cubic", "initial_ssthresh") => cubic.initial_ssthresh = number,
                ("cubic", "bic_scale") => cubic.bic_scale = number,
                ("cubic", "tcp_friendliness") => cubic.tcp_friendliness = value != 0,
                ("cubic", "hystart") => cubic.hystart = value != 0,
                ("cubic", "hystart_detect") => cubic.hystart_detect = number,
                ("cubic", "hystart_low_window") => cubic.hystart_low_window = number,
                ("cubic", "hystart_ack_delta_us") => cubic.hystart_ack_delta_us = number,
                ("dctcp", "dctcp_shift_g") => dctcp.shift_g = number,
                ("dctcp", "dctcp_alpha_on_init") => dctcp.alpha_on_init = number,
                _ => return Err(ReplayError::Parameter { name: name.clone(), value }),
            }
        }
        Ok(match self.about.name.as_str() {
            "reno" => Port::Reno(Reno),
            "cubic" => Port::Cubic(
                Cubic::new(cubic)
                    .map_err(|error| ReplayError::Parameter { name: error.to_string(), value: cubic.beta.into() })?,
            ),
            "dctcp" => Port::Dctcp(Dctcp::new(dctcp)),
            "bbr" => Port::Bbr(Bbr::default()),
            _ => return Err(ReplayError::UnknownSubject { name: self.about.name.clone() }),
        })
    }

    /// Replays one event.
    ///
    /// # Errors
    ///
    /// An event that does not fit the header, or a state that the port cannot hold.
    pub fn event(&mut self, event: &Event) -> Result<(), ReplayError> {
        let Event::Hook(hook) = event else {
            let kind = match event {
                Event::Call(_) => "qdisc call",
                Event::State(_) => "state",
                _ => "report",
            };
            return Err(ReplayError::WrongEvent { event: self.report.events, kind, subject: self.about.name.clone() });
        };
        let differences = self.hook(hook)?;
        let line = || format!("event {}: {}", self.report.events, one_line(hook));
        if !differences.is_empty() {
            self.report.divergences += 1;
            if self.report.first.is_none() {
                self.report.first = Some(Divergence {
                    event: self.report.events,
                    time_ns: hook.time_ns,
                    what: one_line(hook),
                    differences,
                    before: self.recent.iter().cloned().collect(),
                });
            }
        } else if self.report.first.is_none() {
            if self.recent.len() == CONTEXT {
                self.recent.pop_front();
            }
            self.recent.push_back(line());
        }
        self.report.events += 1;
        self.report.packets += 1;
        Ok(())
    }

    /// The report so far.
    pub fn finish(self) -> Report {
        self.report
    }

    /// Runs the hook; with two possible ticks the second is tried when the first does not fit.
    fn hook(&mut self, hook: &Hook) -> Result<Vec<Difference>, ReplayError> {
        let [first, last] = hook.jiffies.map(|j| j as u32);
        let differences = self.hook_at(hook, first)?;
        if first == last {
            return Ok(differences);
        }
        self.report.ambiguous += 1;
        if differences.is_empty() { Ok(differences) } else { self.hook_at(hook, last) }
    }

    fn hook_at(&mut self, hook: &Hook, jiffies: u32) -> Result<Vec<Difference>, ReplayError> {
        let mut c = Conn::new(1, self.hz, jiffies);
        self.load(hook, "cc.conn", names::CONN, &mut c)?;
        if self.about.parameters.get("ecn").is_some_and(|&ecn| ecn != 0) {
            c.ecn.mode = EcnMode::Classic;
        }
        let mut rs = RateSample::default();
        let mut sample = AckSample::default();
        match hook.hook {
            HookKind::CongControl => self.load(hook, "cc.rate_sample", names::RATE_SAMPLE, &mut rs)?,
            HookKind::PktsAcked => self.load(hook, "cc.ack_sample", names::ACK_SAMPLE, &mut sample)?,
            _ => {}
        }
        let call = HookCall { hook, event: self.report.events, rs, sample };
        let mut world = World { hz: self.hz, jiffies, draws: hook.steps.iter(), taken: 0, missing: false, acks: 0 };
        let mut differences = Vec::new();
        let result = match self.port()? {
            Port::Reno(mut a) => call.run(&mut a, &mut c, &mut world)?,
            Port::Cubic(mut a) => {
                self.load(hook, "cc.cubic", names::CUBIC, &mut a.state)?;
                let result = call.run(&mut a, &mut c, &mut world)?;
                self.compare(hook, "cc.cubic", names::CUBIC, &a.state, &mut differences)?;
                result
            }
            Port::Dctcp(mut a) => {
                self.load(hook, "cc.dctcp", names::DCTCP, &mut a.state)?;
                let result = call.run(&mut a, &mut c, &mut world)?;
                self.compare(hook, "cc.dctcp", names::DCTCP, &a.state, &mut differences)?;
                result
            }
            Port::Bbr(mut a) => {
                self.load(hook, "cc.bbr", names::BBR, &mut a.state)?;
                let result = call.run(&mut a, &mut c, &mut world)?;
                self.compare(hook, "cc.bbr", names::BBR, &a.state, &mut differences)?;
                result
            }
        };
        if world.acks > 0 {
            // DCTCP's extra ACK is stamped on its way out (spec/cc-interface.md §8.2).
            debloat_cc::pacing::stamp(&mut c);
        }
        self.compare(hook, "cc.conn", names::CONN, &c, &mut differences)?;
        let mut expect = |what: &str, expected: String, actual: String| {
            if expected != actual {
                differences.push(Difference { what: what.into(), expected, actual });
            }
        };
        expect("result", format!("{:?}", hook.result), format!("{:?}", result.map(u64::from)));
        let recorded = hook.steps.iter().filter(|step| matches!(step, Step::Draw { .. })).count() as u64;
        expect("draws", recorded.to_string(), (world.taken + u64::from(world.missing)).to_string());
        self.report.draws += world.taken;
        Ok(differences)
    }

    fn find<'h>(&self, hook: &'h Hook, name: &str, moment: Moment) -> Option<&'h Snapshot> {
        let (schema, _) = self.header.schema(name)?;
        hook.snapshots.iter().find(|s| s.schema == schema && s.moment == moment)
    }

    fn bad_snapshot(&self, name: &str) -> ReplayError {
        let schema = self.header.schema(name).map_or(u16::MAX, |(schema, _)| schema);
        ReplayError::BadSnapshot { event: self.report.events, schema }
    }

    /// The port's fields, in the order in which the header's schema has them.
    fn matching<'n, S>(
        &self,
        snapshot: &Snapshot,
        name: &str,
        names: &'n [Named<S>],
    ) -> Result<Vec<&'n Named<S>>, ReplayError> {
        let schema = self.header.schemas.get(usize::from(snapshot.schema)).ok_or_else(|| self.bad_snapshot(name))?;
        if schema.fields.len() != snapshot.values.len() {
            return Err(self.bad_snapshot(name));
        }
        let find = |field: &str| {
            names.iter().find(|named| named.name == field).ok_or_else(|| self.unknown(name, field, snapshot.key))
        };
        schema.fields.iter().map(|field| find(&field.name)).collect()
    }

    fn unknown(&self, schema: &str, field: &str, key: u64) -> ReplayError {
        ReplayError::UnknownState { event: self.report.events, schema: schema.into(), field: field.into(), key }
    }

    fn load<S>(&self, hook: &Hook, name: &str, names: &[Named<S>], state: &mut S) -> Result<(), ReplayError> {
        let snapshot = self.find(hook, name, Moment::Before).ok_or_else(|| self.bad_snapshot(name))?;
        for (named, &value) in self.matching(snapshot, name, names)?.into_iter().zip(&snapshot.values) {
            if !(named.set)(state, value) {
                return Err(self.unknown(name, named.name, snapshot.key));
            }
        }
        Ok(())
    }

    fn compare<S>(
        &mut self,
        hook: &Hook,
        name: &str,
        names: &[Named<S>],
        state: &S,
        differences: &mut Vec<Difference>,
    ) -> Result<(), ReplayError> {
        let snapshot = self.find(hook, name, Moment::After).ok_or_else(|| self.bad_snapshot(name))?;
        let fields = self.matching(snapshot, name, names)?;
        for (named, &expected) in fields.into_iter().zip(&snapshot.values) {
            let actual = (named.get)(state);
            self.report.state_values += 1;
            if actual != expected {
                let number = |bits| named.field().number(bits).to_string();
                differences.push(Difference {
                    what: format!("{name}[{}].{}", snapshot.key, named.name),
                    expected: number(expected),
                    actual: number(actual),
                });
            }
        }
        Ok(())
    }
}

/// One hook with its samples.
struct HookCall<'h> {
    hook: &'h Hook,
    event: u64,
    rs: RateSample,
    sample: AckSample,
}

impl HookCall<'_> {
    fn argument(&self, index: usize) -> Result<u32, ReplayError> {
        let value = self.hook.arguments.get(index).and_then(|&v| u32::try_from(v).ok());
        value.ok_or(ReplayError::BadHook { event: self.event, what: "an argument is missing or too large" })
    }

    fn run<A: Algorithm>(&self, a: &mut A, c: &mut Conn, env: &mut World<'_>) -> Result<Option<u32>, ReplayError> {
        let bad = |what| ReplayError::BadHook { event: self.event, what };
        match self.hook.hook {
            HookKind::Init => a.init(c, env),
            HookKind::Ssthresh => return Ok(Some(a.ssthresh(c, env))),
            HookKind::UndoCwnd => return Ok(Some(a.undo_cwnd(c, env))),
            HookKind::MinTsoSegs => return Ok(a.min_tso_segs(c)),
            HookKind::SndbufExpand => return Ok(Some(a.sndbuf_expand())),
            HookKind::CongAvoid => a.cong_avoid(c, env, self.argument(0)?, self.argument(1)?),
            HookKind::SetState => {
                let new = u8::try_from(self.argument(0)?).ok().and_then(CaState::from_number);
                a.set_state(c, env, new.ok_or_else(|| bad("a congestion state is 0 to 4"))?);
            }
            HookKind::CwndEvent => {
                let event = match self.argument(0)? {
                    0 => CwndEvent::TxStart,
                    1 => CwndEvent::WindowRestart,
                    2 => CwndEvent::CwrComplete,
                    3 => CwndEvent::Loss,
                    4 => CwndEvent::EcnNoCe,
                    5 => CwndEvent::EcnIsCe,
                    _ => return Err(bad("a window event is 0 to 5")),
                };
                a.cwnd_event(c, env, event);
            }
            HookKind::InAckEvent => {
                let bits = self.argument(0)?;
                let flags = AckFlags { slow_path: bits & 1 != 0, window_update: bits & 2 != 0, ece: bits & 4 != 0 };
                a.in_ack_event(c, env, flags);
            }
            HookKind::PktsAcked => a.pkts_acked(c, env, &self.sample),
            HookKind::CongControl => a.cong_control(c, env, 0, AckFlags::default(), &self.rs),
            _ => return Err(bad("this hook is not replayed")),
        }
        Ok(None)
    }
}

fn one_line(hook: &Hook) -> String {
    format!("{:?}({:?}) of connection {}, jiffies {:?}", hook.hook, hook.arguments, hook.connection, hook.jiffies)
}
