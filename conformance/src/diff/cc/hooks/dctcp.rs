use debloat_cc::algorithm::{Algorithm, CwndEvent};
use debloat_cc::dctcp::{Params, State};
use debloat_cc::{CaState, Dctcp};
use debloat_harness::cc::private;
use debloat_oracle::{Error, World};

use super::{Call, Rig};
use crate::diff::cc::CcReport;
use crate::diff::cc::draw::{self, Random};

const STEPS: usize = 300;

pub(in super::super) const BRANCHES: &[&str] = &[
    "α falls to 0 in one step",
    "α at its top of 1024",
    "α rises",
    "α decays",
    "a fraction too small to count",
    "the round goes on",
    "nothing delivered in the round",
    "threshold without a cut",
    "the product of the threshold wraps",
    "loss halves",
    "Recovery again does not",
    "loss event",
    "CE state changes with a delayed ACK pending",
    "CE state changes without one",
    "CE state stays",
    "undo to the window at the cut",
    "falls back to Reno",
];

fn scramble(r: &mut Random, s: &mut State) {
    match r.below(6) {
        0 => s.alpha = r.pick(&[0, 1, 14, 15, 16, 17, 31, 1023, 1024]),
        1 => s.alpha = r.below(1025) as u32,
        2 => s.d0 = s.d0.wrapping_sub(r.magnitude(28) as u32),
        3 => s.ce0 = s.ce0.wrapping_sub(r.magnitude(28) as u32),
        4 => s.cwnd_at_cut = r.window(),
        _ => s.ce_state = r.below(2) as u32,
    }
}

pub(in super::super) fn case(world: &World, r: &mut Random, report: &mut CcReport) -> Result<(), Error> {
    let socket = world.create_socket()?;
    let (group, first) = ((report.cases - 1) / 16, (report.cases - 1) % 16 == 0);
    let mut rig = Rig::new(world, &socket, "dctcp", r, report)?;
    // Sixteen cases share a setting of the module's parameters: setting them is slow.
    let shared = &mut Random::new(group);
    let params =
        Params { shift_g: shared.pick(&[4, 4, 0, 1, 2, 8, 10]), alpha_on_init: shared.pick(&[1024, 0, 500, 5000]) };
    if first {
        world.set_parameter("tcp_dctcp", "dctcp_shift_g", &params.shift_g.to_string())?;
        world.set_parameter("tcp_dctcp", "dctcp_alpha_on_init", &params.alpha_on_init.to_string())?;
    }
    let mut a = Dctcp::new(params);
    let put = |a: &Dctcp, bytes: &mut private::Private| private::put_dctcp(bytes, &a.state);
    if rig.step(&mut a, put, Call::Init)?.is_none() {
        return Ok(());
    }
    let attached = rig.control.attached()?;
    if attached != a.name() {
        rig.diverges(format!("attached: kernel {attached}, port {}", a.name()));
        return Ok(());
    }
    if !a.enabled() {
        rig.hit("falls back to Reno", true);
        return Ok(());
    }
    for _ in 0..STEPS {
        let acked = draw::delivered(r);
        let call = match r.below(32) {
            0 | 1 => Call::Ssthresh,
            2 => Call::Undo,
            3 => Call::SetState(draw::state(r)),
            4 => Call::Event(CwndEvent::Loss),
            5 => Call::Event(r.pick(&[CwndEvent::TxStart, CwndEvent::WindowRestart, CwndEvent::CwrComplete])),
            6..=11 => {
                rig.c.delack_pending = r.one_in(2);
                rig.c.ack_now = r.one_in(4);
                rig.c.ecn.echo = r.one_in(3);
                rig.c.rcv_nxt = rig.c.rcv_nxt.wrapping_add(r.below(3000) as u32);
                Call::Event(if r.one_in(2) { CwndEvent::EcnIsCe } else { CwndEvent::EcnNoCe })
            }
            12 | 13 => Call::CongAvoid(acked),
            14 => Call::Info,
            _ => {
                draw::ack(r, &mut rig.c, &mut rig.clock, acked);
                Call::InAck(r.below(8) as u32)
            }
        };
        let was = a.state;
        let Some(around) = rig.step(&mut a, put, call)? else { return Ok(()) };
        cover(&mut rig, &was, &a.state, call, around.conn_before);
        match call {
            Call::SetState(new) => rig.c.state = new,
            Call::Ssthresh if !r.one_in(3) => {
                rig.c.cwnd_before = rig.c.cwnd;
                rig.c.ssthresh = around.result.unwrap_or(2) as u32;
                rig.c.cwnd = rig.c.ssthresh.max(1);
            }
            _ => {}
        }
        if r.one_in(25) {
            let mode = rig.c.ecn.mode;
            draw::connection(r, &mut rig.c);
            rig.c.ecn.mode = mode;
        }
        if r.one_in(6) {
            scramble(r, &mut a.state);
            let mut bytes = rig.mirror.private();
            put(&a, &mut bytes);
            rig.mirror.set_private(&bytes);
        }
    }
    Ok(())
}

fn cover(rig: &mut Rig<'_, '_, '_>, was: &State, is: &State, call: Call, c: debloat_cc::Conn) {
    match call {
        Call::InAck(_) => {
            let ended = c.una_reached(was.round_end);
            let (d, e) = (c.delivered.wrapping_sub(was.d0), c.delivered_ce.wrapping_sub(was.ce0));
            rig.hit("the round goes on", !ended);
            rig.hit("α falls to 0 in one step", ended && was.alpha > 0 && is.alpha == 0);
            rig.hit("α at its top of 1024", ended && is.alpha == 1024);
            rig.hit("α rises", ended && is.alpha > was.alpha);
            rig.hit("α decays", ended && is.alpha < was.alpha && is.alpha > 0);
            rig.hit("a fraction too small to count", ended && e > 0 && d / 64 > e);
            rig.hit("nothing delivered in the round", ended && d == 0);
        }
        Call::Ssthresh => {
            rig.hit("threshold without a cut", u64::from(c.cwnd) * u64::from(was.alpha) < 2048);
            rig.hit("the product of the threshold wraps", u64::from(c.cwnd) * u64::from(was.alpha) > u32::MAX.into());
        }
        Call::SetState(CaState::Recovery) => {
            rig.hit("loss halves", c.state != CaState::Recovery);
            rig.hit("Recovery again does not", c.state == CaState::Recovery);
        }
        Call::Event(CwndEvent::Loss) => rig.hit("loss event", true),
        Call::Event(CwndEvent::EcnIsCe | CwndEvent::EcnNoCe) => {
            let changed = was.ce_state != is.ce_state;
            rig.hit("CE state changes with a delayed ACK pending", changed && c.delack_pending);
            rig.hit("CE state changes without one", changed && !c.delack_pending);
            rig.hit("CE state stays", !changed);
        }
        Call::Undo => rig.hit("undo to the window at the cut", was.cwnd_at_cut > c.cwnd),
        _ => {}
    }
}
