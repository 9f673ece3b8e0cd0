use debloat_aqm::red::{Average, Red};
use debloat_aqm::{Packet, Qdisc, Storage};

use super::{Probe, codel};

/// RED's running state, in red itself and in each of sfq's slots.
pub(super) fn average(average: &Average, field: &str) -> Option<u64> {
    Some(match field {
        "qavg" => average.scaled_bytes,
        "qcount" => i64::from(average.count) as u64,
        "q_random" => average.random.into(),
        "qidlestart" => average.idle_since_ns,
        _ => return None,
    })
}

impl<P: Packet, S: Storage, C: Qdisc<P>> Probe for Red<P, S, C> {
    fn probe(&self, schema: &str, _: u64, field: &str) -> Option<u64> {
        if schema == "red.average" {
            return average(self.average(), field);
        }
        if schema != "red.qdisc" {
            return None;
        }
        let (s, inner) = (self.stats(), self.child_counters());
        Some(match field {
            "prob_drop" => s.prob_drop.into(),
            "prob_mark" => s.prob_mark.into(),
            "forced_drop" => s.forced_drop.into(),
            "forced_mark" => s.forced_mark.into(),
            "pdrop" => s.pdrop.into(),
            "max_p" => self.parameters().max_p.into(),
            "inner_qlen" => inner.qlen.into(),
            "inner_backlog" => inner.backlog_bytes.into(),
            "inner_drops" => inner.drops.into(),
            "inner_sent_bytes" => inner.sent_bytes,
            _ => return codel::counter(self.counters(), field),
        })
    }
}
