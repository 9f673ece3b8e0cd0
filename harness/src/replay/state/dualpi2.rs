use debloat_aqm::dualpi2::DualPi2;
use debloat_aqm::{Context, Packet, Storage};

use super::Probe;

impl<P: Packet, S: Storage> Probe for DualPi2<P, S> {
    fn probe(&self, schema: &str, _: u64, field: &str) -> Option<u64> {
        if schema != "dualpi2.qdisc" {
            return None;
        }
        let s = self.stats(&mut Context::at(0));
        Some(match field {
            "probability" => s.prob.into(),
            "last_delay_ns" => self.base().last_delay_ns,
            "classic_head_ns" => self.heads().classic_ns,
            "low_latency_head_ns" => self.heads().low_latency_ns,
            "credit" => i64::from(s.credit) as u64,
            "memory_used" => s.memory_used_bytes.into(),
            "max_memory_used" => s.max_memory_used_bytes.into(),
            "packets_in_c" => s.packets_in_c.into(),
            "packets_in_l" => s.packets_in_l.into(),
            "maxq" => s.maxq.into(),
            "ecn_mark" => s.ecn_mark.into(),
            "step_marks" => s.step_marks.into(),
            _ => return None,
        })
    }
}
