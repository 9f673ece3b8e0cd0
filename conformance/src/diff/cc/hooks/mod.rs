//! One hook on both sides.

pub(super) mod bbr;
pub(super) mod cubic;
pub(super) mod dctcp;
pub(super) mod reno;

use debloat_cc::algorithm::{AckFlags, AckSample, Algorithm, CwndEvent, Info};
use debloat_cc::rate::RateSample;
use debloat_cc::{CaState, Conn, Env, Hz};
use debloat_harness::cc::private::Private;
use debloat_oracle::{Control, Error, Event, Hook, KernelSocket, World};

use super::CcReport;
use super::draw::{Clock, Random};
use super::mirror::Mirror;

/// A hook call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Init,
    Ssthresh,
    CongAvoid(u32),
    SetState(CaState),
    Event(CwndEvent),
    InAck(u32),
    PktsAcked(AckSample),
    CongControl(RateSample),
    Undo,
    MinTsoSegs,
    SndbufExpand,
    Info,
}

/// The port's side of the world: the kernel's draws in order.
pub(super) struct PortEnv {
    hz: Hz,
    pub(super) jiffies: u32,
    draws: Vec<u64>,
    taken: usize,
    acks: u64,
}

impl Env for PortEnv {
    fn hz(&self) -> Hz {
        self.hz
    }

    fn jiffies(&mut self) -> u32 {
        self.jiffies
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        loop {
            let Some(&byte) = self.draws.get(self.taken) else {
                self.taken += 1;
                return 0;
            };
            self.taken += 1;
            let product = byte as u32 * bound;
            if product & 0xff >= 256 % bound {
                return product >> 8;
            }
        }
    }

    fn send_ack(&mut self, _ack: u32, _echo: bool) {
        self.acks += 1;
    }
}

/// Kernel and port on one connection.
pub(super) struct Rig<'r, 's, 'w> {
    world: &'w World,
    pub(super) mirror: Mirror<'s, 'w>,
    pub(super) control: Control<'s, 'w>,
    pub(super) c: Conn,
    pub(super) env: PortEnv,
    pub(super) clock: Clock,
    report: &'r mut CcReport,
    events: Vec<Event>,
}

/// Both sides of the private area around a call.
pub(super) struct Around {
    pub(super) before: Private,
    pub(super) after: Private,
    pub(super) conn_before: Conn,
    pub(super) result: Option<u64>,
}

impl<'r, 's, 'w> Rig<'r, 's, 'w> {
    pub(super) fn new(
        world: &'w World,
        socket: &'s KernelSocket<'w>,
        name: &str,
        r: &mut Random,
        report: &'r mut CcReport,
    ) -> Result<Self, Error> {
        let control = socket.attach(name)?;
        let hz = Hz::new(world.env().hz() as u32).unwrap_or_default();
        let clock = Clock::draw(r);
        world.set_time(clock.ns);
        world.env().seed_draws(r.bits());
        let mut mirror = Mirror::new(world, socket)?;
        report.absent = std::mem::take(&mut mirror.absent);
        let mut c = mirror.conn(hz);
        super::draw::connection(r, &mut c);
        c.set_now(clock.ns);
        c.delivered_us = c.now_us.saturating_sub(r.below(100_000));
        c.edt_ns = c.now_ns;
        c.last_send_j = (world.jiffies() as u32).wrapping_sub(r.below(2000) as u32);
        let env = PortEnv { hz, jiffies: world.jiffies() as u32, draws: Vec::new(), taken: 0, acks: 0 };
        Ok(Self { world, mirror, control, c, env, clock, report, events: Vec::new() })
    }

    pub(super) fn hit(&mut self, branch: &str, reached: bool) {
        self.report.coverage.hit_if(branch, reached);
    }

    /// Notes a divergence outside a hook.
    pub(super) fn diverges(&mut self, what: String) {
        self.report.divergence = Some(format!("case {}: {what}", self.report.cases));
    }

    /// Makes the call on both sides; `None` after a divergence, which is in the report.
    pub(super) fn step<A: Algorithm>(
        &mut self,
        a: &mut A,
        put: fn(&A, &mut Private),
        call: Call,
    ) -> Result<Option<Around>, Error> {
        self.world.set_time(self.clock.ns);
        self.env.jiffies = self.world.jiffies() as u32;
        self.mirror.store(&self.c);
        let (before, conn_before) = (self.mirror.private(), self.c);
        let acks_before = self.world.env().acks_sent();
        self.world.env().clear_events();
        let kernel = self.kernel(call)?;
        self.world.env().take_events(&mut self.events);
        self.env.draws.clear();
        self.env.draws.extend(self.events.iter().filter_map(|event| match event {
            Event::Draw { value, .. } => Some(*value),
            _ => None,
        }));
        (self.env.taken, self.env.acks) = (0, 0);
        let port = port(a, &mut self.c, &mut self.env, call);
        let after = self.mirror.private();
        self.report.calls += 1;
        let mut rebuilt = before;
        put(a, &mut rebuilt);
        let acks = self.world.env().acks_sent() - acks_before;
        let mut difference = self
            .mirror
            .compare(&self.c, &mut self.report.values)
            .map(|(name, kernel, port)| format!("{name}: kernel {kernel}, port {port}"));
        self.report.values += 13;
        if rebuilt != after {
            let at = (0..104).find(|&i| rebuilt[i] != after[i]).unwrap_or(0);
            difference.get_or_insert(format!(
                "private area from byte {at}: kernel {:?}, port {:?}",
                &after[at..],
                &rebuilt[at..]
            ));
        }
        if kernel != port {
            difference.get_or_insert(format!("result: kernel {kernel:?}, port {port:?}"));
        }
        if self.env.taken != self.env.draws.len() {
            difference.get_or_insert(format!("draws: kernel {}, port {}", self.env.draws.len(), self.env.taken));
        }
        if acks != self.env.acks {
            difference.get_or_insert(format!("ACKs sent: kernel {acks}, port {}", self.env.acks));
        }
        if let Some(difference) = difference {
            let place = format!("call {} of case {}", self.report.calls, self.report.cases);
            self.report.divergence = Some(format!(
                "{place}: {call:?} at jiffies {}: {difference}\nbefore: {conn_before:?}\nprivate before: {before:?}",
                self.env.jiffies
            ));
            return Ok(None);
        }
        Ok(Some(Around { before, after, conn_before, result: port }))
    }

    fn kernel(&self, call: Call) -> Result<Option<u64>, Error> {
        let k = &self.control;
        Ok(match call {
            Call::Init => {
                k.init()?;
                None
            }
            Call::Ssthresh => Some(k.ssthresh()?.into()),
            Call::CongAvoid(acked) => {
                k.cong_avoid(self.c.una, acked)?;
                None
            }
            Call::SetState(new) => {
                k.set_state(new as u8)?;
                None
            }
            Call::Event(CwndEvent::TxStart) => {
                k.tx_start()?;
                None
            }
            Call::Event(event) => {
                let name = match event {
                    CwndEvent::TxStart => "CA_EVENT_TX_START",
                    CwndEvent::WindowRestart => "CA_EVENT_CWND_RESTART",
                    CwndEvent::CwrComplete => "CA_EVENT_COMPLETE_CWR",
                    CwndEvent::Loss => "CA_EVENT_LOSS",
                    CwndEvent::EcnIsCe => "CA_EVENT_ECN_IS_CE",
                    CwndEvent::EcnNoCe => "CA_EVENT_ECN_NO_CE",
                };
                if k.has(Hook::CwndEvent) {
                    k.cwnd_event(k.event(name)?)?;
                }
                None
            }
            Call::InAck(flags) => {
                k.in_ack_event(flags)?;
                None
            }
            Call::PktsAcked(s) => {
                let (pkts_acked, in_flight) = (s.acked, s.in_flight_bytes);
                k.pkts_acked(&debloat_oracle::AckSample { pkts_acked, rtt_us: s.rtt_us, in_flight })?;
                None
            }
            Call::CongControl(s) => {
                k.cong_control(self.c.una, 0, &kernel_sample(&s))?;
                None
            }
            Call::Undo => Some(k.undo_cwnd()?.into()),
            Call::MinTsoSegs => Some(k.min_tso_segs()?.into()),
            Call::SndbufExpand => Some(k.sndbuf_expand()?.into()),
            Call::Info => k.get_info(u32::MAX)?.map(|(_, bytes)| digest(&bytes)),
        })
    }
}

/// The port's sample in the kernel's terms.
pub(super) fn kernel_sample(s: &RateSample) -> debloat_oracle::RateSample {
    debloat_oracle::RateSample {
        prior_mstamp: s.prior_us,
        prior_delivered: s.prior_delivered,
        prior_delivered_ce: s.prior_delivered_ce,
        delivered: s.delivered,
        delivered_ce: s.delivered_ce,
        interval_us: s.interval_us,
        snd_interval_us: s.send_us,
        rcv_interval_us: s.ack_us,
        rtt_us: s.rtt_us,
        losses: s.losses,
        acked_sacked: s.acked_sacked,
        prior_in_flight: s.prior_in_flight,
        last_end_seq: s.last_end_seq,
        is_app_limited: s.is_app_limited,
        is_retrans: s.is_retrans,
        is_ack_delayed: s.is_ack_delayed,
    }
}

fn port<A: Algorithm>(a: &mut A, c: &mut Conn, env: &mut PortEnv, call: Call) -> Option<u64> {
    match call {
        Call::Init => a.init(c, env),
        Call::Ssthresh => return Some(a.ssthresh(c, env).into()),
        Call::CongAvoid(acked) => {
            let ack = c.una;
            a.cong_avoid(c, env, ack, acked);
        }
        Call::SetState(new) => a.set_state(c, env, new),
        Call::Event(event) => a.cwnd_event(c, env, event),
        Call::InAck(bits) => {
            let flags = AckFlags { slow_path: bits & 1 != 0, window_update: bits & 2 != 0, ece: bits & 4 != 0 };
            a.in_ack_event(c, env, flags);
        }
        Call::PktsAcked(sample) => a.pkts_acked(c, env, &sample),
        Call::CongControl(rs) => a.cong_control(c, env, 0, AckFlags::default(), &rs),
        Call::Undo => return Some(a.undo_cwnd(c, env).into()),
        Call::MinTsoSegs => return a.min_tso_segs(c).map(u64::from),
        Call::SndbufExpand => return Some(a.sndbuf_expand().into()),
        Call::Info => return info(&a.info(c)).map(|bytes| digest(&bytes)),
    }
    None
}

/// Diagnostics as the kernel lays them out.
fn info(info: &Info) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(20);
    match *info {
        Info::Bbr { bw, min_rtt_us, pacing_gain, cwnd_gain } => {
            for word in [bw as u32, (bw >> 32) as u32, min_rtt_us, pacing_gain, cwnd_gain] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        Info::Dctcp { enabled, ce_state, alpha, ab_ecn, ab_tot } => {
            bytes.extend_from_slice(&u16::from(enabled).to_le_bytes());
            bytes.extend_from_slice(&ce_state.to_le_bytes());
            for word in [alpha, ab_ecn, ab_tot] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        _ => return None,
    }
    Some(bytes)
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
