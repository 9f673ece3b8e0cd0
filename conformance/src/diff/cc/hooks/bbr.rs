use debloat_cc::algorithm::CwndEvent;
use debloat_cc::bbr::{Mode, State};
use debloat_cc::minmax::{Reading, WindowedFilter};
use debloat_cc::{Bbr, CaState};
use debloat_harness::cc::private;
use debloat_oracle::{Error, World};

use super::{Call, Rig};
use crate::diff::cc::CcReport;
use crate::diff::cc::draw::{self, Random};

const STEPS: usize = 300;

pub(in super::super) const BRANCHES: &[&str] = &[
    "startup",
    "startup to drain",
    "drain to cruising",
    "cruising",
    "startup through drain in one ACK",
    "phase advances",
    "phase 0",
    "phase 1",
    "PROBE_RTT begins",
    "PROBE_RTT armed",
    "PROBE_RTT ends in cruising",
    "PROBE_RTT ends in startup",
    "PROBE_RTT ends at a transmission",
    "minimum RTT replaced",
    "pipe full",
    "full-pipe count grows",
    "bandwidth grows",
    "invalid sample",
    "packet conservation begins",
    "packet conservation ends",
    "window restored",
    "losses cut the window",
    "aggregation slot turns",
    "aggregation epoch restarts",
    "aggregation excess grows",
    "policer sampling begins",
    "policer interval ends",
    "policer in use",
    "policer reset by application limit",
    "policer given up after 16 rounds",
    "policer forgotten after 48 rounds",
    "loss state feeds the policer",
    "idle restart in cruising",
    "idle restart elsewhere",
    "undo",
    "init without RTT",
    "pacing initialised late",
];

/// A private area in mid-life. Only values that the kernel's own fields can hold.
fn scramble(r: &mut Random, s: &mut State, c: &debloat_cc::Conn, j: u32) {
    match r.below(22) {
        0 => s.mode = r.pick(&[Mode::Startup, Mode::Drain, Mode::ProbeBw, Mode::ProbeRtt]),
        1 => s.min_rtt = if r.one_in(5) { u32::MAX } else { 1 + r.magnitude(20) as u32 },
        2 => s.min_rtt_j = j.wrapping_sub(2498 + r.below(6) as u32),
        3 => s.min_rtt_j = j.wrapping_sub(r.magnitude(13) as u32),
        4 => s.probe_rtt_done = if r.one_in(3) { 0 } else { j.wrapping_add(r.below(5) as u32).wrapping_sub(3) },
        5 => {
            let e = || Reading { t: s.rounds.wrapping_sub(1), v: 1 };
            s.bw = WindowedFilter { e: [e(); 3] };
            for reading in &mut s.bw.e {
                reading.t = s.rounds.wrapping_sub(r.below(13) as u32);
                reading.v = r.magnitude(30) as u32;
            }
        }
        6 => s.bw = WindowedFilter::new(s.rounds, r.magnitude(32) as u32),
        7 => s.next_round = c.delivered.wrapping_sub(r.below(400) as u32),
        8 => s.full = !s.full,
        9 => (s.full_bw, s.full_n) = (r.magnitude(30) as u32, r.below(4) as u8),
        10 => s.idx = r.below(8) as u8,
        11 => (s.pol_on, s.pol_use) = (r.one_in(2), r.one_in(3)),
        12 => s.pol_n = r.pick(&[0, 3, 4, 15, 16, 17, 47, 48, 127]),
        13 => s.pol_bw = r.magnitude(30) as u32,
        14 => {
            s.pol_del = c.delivered.wrapping_sub(r.below(500) as u32);
            s.pol_lost = c.lost_total.wrapping_sub(r.below(200) as u32);
            s.pol_ms = ((c.delivered_us / 1000) as u32).wrapping_sub(r.magnitude(24) as u32);
        }
        15 => s.prev_state = draw::state(r),
        16 => (s.conserve, s.idle_restart, s.probe_rtt_round) = (r.one_in(2), r.one_in(3), r.one_in(2)),
        17 => (s.xa_acked, s.xa_us) = (r.magnitude(20) as u32 & 0xf_ffff, c.now_us.saturating_sub(r.magnitude(24))),
        18 => (s.xa_n, s.xa_slot) = (r.below(32) as u8, r.below(2) as u8),
        19 => s.xa = [r.magnitude(16) as u16, r.magnitude(16) as u16],
        20 => s.phase_us = c.delivered_us.saturating_sub(r.magnitude(22)),
        _ => (s.saved_cwnd, s.seen_rtt) = (r.window(), r.one_in(2)),
    }
}

pub(in super::super) fn case(world: &World, r: &mut Random, report: &mut CcReport) -> Result<(), Error> {
    let socket = world.create_socket()?;
    let mut rig = Rig::new(world, &socket, "bbr", r, report)?;
    let mut a = Bbr::default();
    let put = |a: &Bbr, bytes: &mut private::Private| private::put_bbr(bytes, &a.state);
    // An active open: one ACK before init, with the private area all zero.
    let mut calls = 0;
    if r.one_in(4) {
        let rs = draw::sample(r, &rig.c, 1, 1000);
        if rig.step(&mut a, put, Call::CongControl(rs))?.is_none() {
            return Ok(());
        }
    }
    rig.hit("init without RTT", rig.c.srtt8 == 0);
    if rig.step(&mut a, put, Call::Init)?.is_none() {
        return Ok(());
    }
    // A path: most of a case stays on it, so that the modes follow one another by themselves.
    let base = 500 + r.magnitude(16) as u32;
    let per_ack = 1 + r.below(40) as u32;
    let wild = r.one_in(2);
    while calls < STEPS {
        calls += 1;
        let acked = if wild { draw::delivered(r) } else { per_ack + r.below(3) as u32 };
        let call = match r.below(48) {
            0 => Call::Ssthresh,
            1 => Call::Undo,
            2 => Call::SetState(draw::state(r)),
            3 => {
                rig.clock.advance(r);
                rig.c.set_now(rig.clock.ns);
                Call::Event(CwndEvent::TxStart)
            }
            4 => Call::MinTsoSegs,
            5 => Call::Info,
            6 if r.one_in(4) => Call::SndbufExpand,
            _ => Call::CongControl(if wild {
                random_ack(r, &mut rig, acked, base)
            } else {
                path_ack(r, &mut rig, acked, base)
            }),
        };
        if r.one_in(40) {
            rare(r, &mut rig, &mut a.state, call);
            let mut bytes = rig.mirror.private();
            put(&a, &mut bytes);
            rig.mirror.set_private(&bytes);
        }
        let was = a.state;
        let Some(around) = rig.step(&mut a, put, call)? else { return Ok(()) };
        cover(&mut rig, &was, &a.state, call, &around.conn_before);
        if let Call::SetState(new) = call {
            rig.c.state = new;
            if new == CaState::Loss {
                rig.c.cwnd = rig.c.in_flight().wrapping_add(1).clamp(1, 1 << 20);
            }
        }
        // Stay below what the kernel would warn of.
        if rig.c.cwnd > 1 << 28 {
            rig.c.cwnd = r.window();
        }
        if wild && r.one_in(20) {
            draw::connection(r, &mut rig.c);
            rig.c.delivered_us = rig.c.now_us;
        }
        if r.one_in(if wild { 4 } else { 30 }) {
            let j = rig.env.jiffies;
            scramble(r, &mut a.state, &rig.c, j);
            let mut bytes = rig.mirror.private();
            put(&a, &mut bytes);
            rig.mirror.set_private(&bytes);
        }
    }
    Ok(())
}

/// States that random steps hardly reach before the call that needs them.
fn rare(r: &mut Random, rig: &mut Rig<'_, '_, '_>, s: &mut State, call: Call) {
    match call {
        Call::Event(_) => {
            s.mode = Mode::ProbeRtt;
            s.probe_rtt_done = rig.env.jiffies.wrapping_sub(r.below(3) as u32);
            rig.c.app_lim = 1 + r.below(9) as u32;
        }
        Call::CongControl(rs) => {
            (s.mode, s.pol_use, s.pol_on) = (Mode::ProbeBw, true, true);
            s.pol_n = 45 + r.below(4) as u8;
            s.next_round = rs.prior_delivered.wrapping_sub(r.below(2) as u32);
        }
        _ => {}
    }
}

fn random_ack(r: &mut Random, rig: &mut Rig<'_, '_, '_>, acked: u32, base: u32) -> debloat_cc::rate::RateSample {
    draw::ack(r, &mut rig.c, &mut rig.clock, acked);
    let rtt = base + r.below(2000) as u32;
    let rs = draw::sample(r, &rig.c, acked, rtt);
    rig.c.lost_total = rig.c.lost_total.wrapping_add(rs.losses as u32);
    rs
}

/// An ACK of a steady path: rounds of one RTT, losses in bursts.
fn path_ack(r: &mut Random, rig: &mut Rig<'_, '_, '_>, acked: u32, base: u32) -> debloat_cc::rate::RateSample {
    let c = &mut rig.c;
    rig.clock.ns += u64::from(base) * 1000 / 2 + r.below(u64::from(base)) * 1000;
    c.set_now(rig.clock.ns);
    c.delivered = c.delivered.wrapping_add(acked);
    c.delivered_us = c.now_us;
    c.edt_ns = c.now_ns + if r.one_in(3) { r.below(2_000_000) } else { 0 };
    (c.sacked, c.lost, c.retrans) = (0, 0, 0);
    c.unacked = if r.one_in(5) { r.below(6) as u32 } else { c.cwnd.min(4 * acked) };
    if c.srtt8 == 0 && r.one_in(10) {
        c.srtt8 = 8 * base;
    }
    let lossy = r.one_in(3);
    let losses = if lossy { acked / 3 + r.below(4) as u32 } else { 0 };
    c.lost_total = c.lost_total.wrapping_add(losses);
    debloat_cc::rate::RateSample {
        delivered: (2 * acked) as i32,
        interval_us: i64::from(base),
        prior_delivered: c.delivered.wrapping_sub(2 * acked),
        acked_sacked: acked,
        prior_in_flight: c.unacked.wrapping_add(acked),
        losses: losses as i32,
        rtt_us: i64::from(base + r.below(300) as u32),
        is_app_limited: r.one_in(40),
        ..debloat_cc::rate::RateSample::default()
    }
}

fn cover(rig: &mut Rig<'_, '_, '_>, was: &State, is: &State, call: Call, c: &debloat_cc::Conn) {
    match call {
        Call::CongControl(rs) => {
            let to = |from, to| was.mode == from && is.mode == to;
            rig.hit("startup", to(Mode::Startup, Mode::Startup));
            rig.hit("startup to drain", to(Mode::Startup, Mode::Drain));
            rig.hit("drain to cruising", to(Mode::Drain, Mode::ProbeBw));
            rig.hit("startup through drain in one ACK", to(Mode::Startup, Mode::ProbeBw));
            rig.hit("cruising", to(Mode::ProbeBw, Mode::ProbeBw));
            rig.hit("phase advances", to(Mode::ProbeBw, Mode::ProbeBw) && is.idx == (was.idx + 1) & 7);
            rig.hit("phase 0", is.mode == Mode::ProbeBw && is.idx == 0);
            rig.hit("phase 1", is.mode == Mode::ProbeBw && is.idx == 1);
            rig.hit("PROBE_RTT begins", was.mode != Mode::ProbeRtt && is.mode == Mode::ProbeRtt);
            rig.hit("PROBE_RTT armed", is.mode == Mode::ProbeRtt && was.probe_rtt_done == 0 && is.probe_rtt_done != 0);
            rig.hit("PROBE_RTT ends in cruising", to(Mode::ProbeRtt, Mode::ProbeBw));
            rig.hit("PROBE_RTT ends in startup", to(Mode::ProbeRtt, Mode::Startup));
            rig.hit("minimum RTT replaced", is.min_rtt != was.min_rtt);
            rig.hit("pipe full", !was.full && is.full);
            rig.hit("full-pipe count grows", is.full_n == was.full_n + 1);
            rig.hit("bandwidth grows", is.bw.get() > was.bw.get());
            rig.hit("invalid sample", rs.delivered < 0 || rs.interval_us <= 0);
            rig.hit("packet conservation begins", !was.conserve && is.conserve);
            rig.hit("packet conservation ends", was.conserve && !is.conserve);
            let left = was.prev_state >= CaState::Recovery && is.prev_state < CaState::Recovery;
            rig.hit("window restored", left && rig.c.cwnd >= was.saved_cwnd && was.saved_cwnd > c.cwnd);
            rig.hit("losses cut the window", rs.losses > 0 && rig.c.cwnd < c.cwnd);
            rig.hit("aggregation slot turns", is.xa_slot != was.xa_slot);
            rig.hit("aggregation epoch restarts", is.xa_us != was.xa_us);
            rig.hit("aggregation excess grows", is.xa[usize::from(is.xa_slot)] > was.xa[usize::from(is.xa_slot)]);
            rig.hit("policer sampling begins", !was.pol_on && is.pol_on);
            rig.hit("policer interval ends", was.pol_on && is.pol_on && was.pol_n >= 3 && is.pol_n == 0);
            rig.hit("policer in use", !was.pol_use && is.pol_use);
            rig.hit("policer reset by application limit", was.pol_on && !is.pol_on && rs.is_app_limited);
            rig.hit("policer given up after 16 rounds", was.pol_on && !is.pol_on && was.pol_n >= 16 && !was.pol_use);
            rig.hit("policer forgotten after 48 rounds", was.pol_use && !is.pol_use);
            rig.hit("pacing initialised late", !was.seen_rtt && is.seen_rtt);
        }
        Call::SetState(CaState::Loss) => rig.hit("loss state feeds the policer", is.pol_on),
        Call::Event(_) => {
            rig.hit("idle restart in cruising", is.idle_restart && was.mode == Mode::ProbeBw);
            rig.hit("idle restart elsewhere", is.idle_restart && was.mode != Mode::ProbeBw);
            rig.hit("PROBE_RTT ends at a transmission", was.mode == Mode::ProbeRtt && is.mode != Mode::ProbeRtt);
        }
        Call::Undo => rig.hit("undo", was.full_bw != 0 || was.pol_on),
        _ => {}
    }
}
