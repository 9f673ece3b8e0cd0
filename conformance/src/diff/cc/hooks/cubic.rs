use debloat_cc::algorithm::{AckSample, CwndEvent};
use debloat_cc::cubic::{Params, State};
use debloat_cc::{CaState, Cubic};
use debloat_harness::cc::private;
use debloat_oracle::{Error, World};

use super::{Around, Call, Rig};
use crate::diff::cc::CcReport;
use crate::diff::cc::draw::{self, Random};

const STEPS: usize = 300;

pub(in super::super) const BRANCHES: &[&str] = &[
    "HyStart: ACK train ends slow start",
    "HyStart: delay ends slow start",
    "HyStart: below the low window",
    "HyStart off",
    "idle time cut out of the epoch",
    "idle time clamped to now",
    "epoch begins below the maximum",
    "epoch begins at or above the maximum",
    "curve below the plateau",
    "curve above the plateau",
    "divisor at its minimum of 2",
    "divisor capped at 20",
    "same tick: only the Reno part",
    "window unchanged: nothing evaluated",
    "friendliness lowers the divisor",
    "friendliness off",
    "fast convergence",
    "fast convergence off",
    "the product of the threshold wraps",
    "loss forgets",
    "undo",
    "no sample in the epoch's first second",
];

/// Cases that share one setting of the module's parameters: setting them is slow.
const CASES_PER_SETTING: u64 = 16;

/// What a group of cases changes in the module, on both sides.
fn parameters(world: &World, case: u64) -> Result<Params, Error> {
    let r = &mut Random::new(case / CASES_PER_SETTING);
    let mut p = Params::default();
    if !r.one_in(3) {
        p.tcp_friendliness = !r.one_in(4);
        p.fast_convergence = !r.one_in(4);
        p.hystart = !r.one_in(5);
        p.hystart_detect = r.pick(&[0, 1, 2, 3, 3]);
        p.hystart_low_window = r.pick(&[16, 16, 2, 100]);
        p.hystart_ack_delta_us = r.pick(&[2000, 2000, 100, 50_000]);
        p.initial_ssthresh = r.pick(&[0, 0, 10, 100]);
        p.beta = r.pick(&[717, 717, 512, 819, 922, 1, 1023]);
    }
    if case % CASES_PER_SETTING != 0 {
        return Ok(p);
    }
    for (name, value) in [
        ("tcp_friendliness", u32::from(p.tcp_friendliness)),
        ("fast_convergence", u32::from(p.fast_convergence)),
        ("hystart", u32::from(p.hystart)),
        ("hystart_detect", p.hystart_detect),
        ("hystart_low_window", p.hystart_low_window),
        ("hystart_ack_delta_us", p.hystart_ack_delta_us),
        ("initial_ssthresh", p.initial_ssthresh),
        ("beta", p.beta),
    ] {
        world.set_parameter("tcp_cubic", name, &value.to_string())?;
    }
    Ok(p)
}

/// A private area in mid-life, with values on both sides of every comparison.
fn scramble(r: &mut Random, s: &mut State, cwnd: u32, j: u32) {
    match r.below(9) {
        0 => s.wmax = r.window(),
        1 => s.wmax = cwnd.wrapping_add(r.pick(&[0, 1, 2, 30])),
        2 => s.epoch = if r.one_in(3) { 0 } else { j.wrapping_sub(r.magnitude(18) as u32) },
        3 => (s.origin, s.k) = (r.window(), r.magnitude(22) as u32),
        4 => s.dmin = r.magnitude(19) as u32,
        5 => (s.ackc, s.rw) = (r.below(20_000) as u32, cwnd.wrapping_add(r.below(9) as u32).wrapping_sub(4)),
        6 => (s.last_w, s.last_j) = (cwnd, j.wrapping_sub(r.below(12) as u32)),
        7 => (s.hs_n, s.found) = (r.below(10) as u8, u8::from(r.one_in(4))),
        _ => s.cnt = 2 + r.window(),
    }
}

pub(in super::super) fn case(world: &World, r: &mut Random, report: &mut CcReport) -> Result<(), Error> {
    let socket = world.create_socket()?;
    // The first case of a part makes the setting of its group.
    let p = parameters(world, report.cases - 1)?;
    let mut rig = Rig::new(world, &socket, "cubic", r, report)?;
    // The derived factors belong to module load: the defaults.
    let mut a = Cubic::default();
    a.set_params(p);
    let put = |a: &Cubic, bytes: &mut private::Private| private::put_cubic(bytes, &a.state);
    rig.hit("HyStart off", !p.hystart);
    rig.hit("friendliness off", !p.tcp_friendliness);
    if rig.step(&mut a, put, Call::Init)?.is_none() {
        return Ok(());
    }
    // An ordinary path: a base RTT, and a stretch of ACKs close together now and then.
    let base = 1000 + r.magnitude(17) as u32;
    let mut train = 0;
    for _ in 0..STEPS {
        let acked = draw::delivered(r).min(100_000);
        let mut call = Call::CongAvoid(acked);
        match r.below(40) {
            0 => call = Call::Ssthresh,
            1 => call = Call::Undo,
            2 => call = Call::SetState(draw::state(r)),
            3 | 4 => {
                rig.clock.advance(r);
                rig.c.set_now(rig.clock.ns);
                rig.c.last_send_j =
                    rig.env.jiffies.wrapping_sub(r.magnitude(13) as u32).wrapping_add(r.below(3) as u32);
                call = Call::Event(CwndEvent::TxStart);
            }
            5 => train = r.below(60),
            _ => {}
        }
        if let Call::CongAvoid(_) = call {
            let rising = if r.one_in(3) { r.below(30_000) as u32 } else { r.below(500) as u32 };
            if train > 0 {
                train -= 1;
                rig.clock.ns += r.below(2000) * 1000;
                rig.c.set_now(rig.clock.ns);
                if r.one_in(20) {
                    rig.c.una = rig.c.nxt;
                }
            } else {
                draw::ack(r, &mut rig.c, &mut rig.clock, acked);
            }
            let rtt_us = if r.one_in(12) { -1 } else { (base + rising) as i32 };
            let sample = AckSample { acked, rtt_us, in_flight_bytes: 0 };
            let Some(around) = rig.step(&mut a, put, Call::PktsAcked(sample))? else { return Ok(()) };
            cover_sample(&mut rig, &around, &p, rtt_us);
        }
        let Some(around) = rig.step(&mut a, put, call)? else { return Ok(()) };
        cover(&mut rig, &around, &p, call);
        match call {
            Call::Ssthresh if !r.one_in(4) => {
                rig.c.cwnd_before = rig.c.cwnd;
                rig.c.ssthresh = around.result.unwrap_or(2) as u32;
                rig.c.cwnd = rig.c.ssthresh.max(1);
                rig.c.ai_credit = 0;
            }
            Call::Undo if r.one_in(2) => rig.c.cwnd = around.result.unwrap_or(1).max(1) as u32,
            _ => {}
        }
        if r.one_in(25) {
            draw::connection(r, &mut rig.c);
        }
        if r.one_in(6) {
            let j = rig.env.jiffies;
            scramble(r, &mut a.state, rig.c.cwnd, j);
            let mut bytes = rig.mirror.private();
            put(&a, &mut bytes);
            rig.mirror.set_private(&bytes);
        }
    }
    Ok(())
}

fn cover_sample(rig: &mut Rig<'_, '_, '_>, around: &Around, p: &Params, rtt_us: i32) {
    let (before, after) = (private::cubic(&around.before), private::cubic(&around.after));
    if before.found == 0 && after.found == 1 {
        let delay = p.hystart_detect & 2 != 0 && before.hs_n >= 8 && after.hs_rtt > after.dmin;
        let train = p.hystart_detect & 1 != 0 && after.hs_last == around.conn_before.now_us as u32;
        rig.hit("HyStart: ACK train ends slow start", train && !delay);
        rig.hit("HyStart: delay ends slow start", delay && !train);
    }
    let c = &around.conn_before;
    let active = p.hystart && before.found == 0 && c.in_slow_start() && rtt_us >= 0 && c.cwnd < p.hystart_low_window;
    rig.hit("HyStart: below the low window", active);
    let blocked = before.epoch != 0 && rtt_us >= 0 && before == after;
    rig.hit("no sample in the epoch's first second", blocked);
}

fn cover(rig: &mut Rig<'_, '_, '_>, around: &Around, p: &Params, call: Call) {
    let (before, after) = (private::cubic(&around.before), private::cubic(&around.after));
    let c = around.conn_before;
    match call {
        Call::Event(_) => {
            rig.hit("idle time cut out of the epoch", after.epoch != before.epoch);
            rig.hit("idle time clamped to now", after.epoch != before.epoch && after.epoch == rig.env.jiffies);
        }
        Call::Ssthresh => {
            rig.hit("fast convergence", p.fast_convergence && c.cwnd < before.wmax);
            rig.hit("fast convergence off", !p.fast_convergence && c.cwnd < before.wmax);
            rig.hit("the product of the threshold wraps", u64::from(c.cwnd) * u64::from(p.beta) > u32::MAX.into());
        }
        Call::SetState(CaState::Loss) => rig.hit("loss forgets", before.wmax != 0 || before.dmin != 0),
        Call::Undo => rig.hit("undo", true),
        Call::CongAvoid(_) if after.ackc != before.ackc || after.cnt != before.cnt => {
            let evaluated = after.last_j == rig.env.jiffies && (before.last_j != after.last_j || before.epoch == 0);
            rig.hit("epoch begins below the maximum", before.epoch == 0 && after.k > 0);
            rig.hit("epoch begins at or above the maximum", before.epoch == 0 && after.epoch != 0 && after.k == 0);
            let t = after.last_j.wrapping_sub(after.epoch) as u64 * 1024 / 250;
            rig.hit("curve below the plateau", evaluated && t < after.k.into());
            rig.hit("curve above the plateau", evaluated && t > after.k.into());
            rig.hit("divisor at its minimum of 2", after.cnt == 2);
            rig.hit("divisor capped at 20", evaluated && after.wmax == 0 && after.cnt == 20);
            rig.hit("same tick: only the Reno part", !evaluated && after.rw != before.rw);
            let unchanged = after.cnt == before.cnt && after.last_j == before.last_j && after.ackc != before.ackc;
            rig.hit("window unchanged: nothing evaluated", unchanged);
            rig.hit("friendliness lowers the divisor", p.tcp_friendliness && after.rw > after.last_w && after.cnt > 2);
        }
        _ => {}
    }
}
