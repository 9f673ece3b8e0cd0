use debloat_cc::Reno;
use debloat_oracle::{Error, World};

use super::{Call, Rig};
use crate::diff::cc::CcReport;
use crate::diff::cc::draw::{self, Random};

const STEPS: usize = 200;

pub(in super::super) fn case(world: &World, r: &mut Random, report: &mut CcReport) -> Result<(), Error> {
    let socket = world.create_socket()?;
    let mut rig = Rig::new(world, &socket, "reno", r, report)?;
    let mut a = Reno;
    for _ in 0..STEPS {
        let acked = draw::delivered(r);
        let call = match r.below(12) {
            0 => Call::Ssthresh,
            1 => Call::Undo,
            _ => {
                draw::ack(r, &mut rig.c, &mut rig.clock, acked);
                Call::CongAvoid(acked)
            }
        };
        let was = rig.c;
        let Some(around) = rig.step(&mut a, |_, _| {}, call)? else { return Ok(()) };
        match call {
            Call::CongAvoid(_) => {
                let limited = was.is_cwnd_limited();
                rig.hit("not limited", !limited);
                rig.hit("slow start", limited && was.in_slow_start());
                let ends = was.in_slow_start() && rig.c.cwnd >= was.ssthresh && rig.c.ai_credit != was.ai_credit;
                rig.hit("slow start ends inside an ACK", limited && ends);
                rig.hit("avoidance", limited && !was.in_slow_start());
            }
            Call::Ssthresh if !r.one_in(3) => {
                rig.c.ssthresh = around.result.unwrap_or(2) as u32;
                rig.c.cwnd_before = rig.c.cwnd;
                rig.c.cwnd = rig.c.ssthresh;
            }
            Call::Undo => rig.hit("undo raises", rig.c.cwnd < around.result.unwrap_or(0) as u32),
            _ => {}
        }
        if r.one_in(30) {
            draw::connection(r, &mut rig.c);
        }
    }
    Ok(())
}
