use debloat_aqm::sfq::Sfq;
use debloat_aqm::{Packet, Qdisc, Storage};

use super::{Probe, codel, red};

/// What Linux has where there is no slot.
const NONE: u64 = u16::MAX as u64;

impl<P: Packet, S: Storage> Probe for Sfq<P, S> {
    fn probe(&self, schema: &str, key: u64, field: &str) -> Option<u64> {
        let number = u32::try_from(key).ok()?;
        match schema {
            "sfq.row" if field == "slot" => Some(self.row(number).map_or(NONE, u64::from)),
            "sfq.slot" => {
                let slot = self.slot(number)?;
                Some(match field {
                    "qlen" => slot.qlen.into(),
                    "backlog" => slot.backlog_bytes.into(),
                    "allot" => i64::from(slot.allot_bytes) as u64,
                    "row" => slot.row.into(),
                    _ => return red::average(&slot.average, field),
                })
            }
            "sfq.qdisc" => {
                let s = self.stats();
                Some(match field {
                    "longest" => self.longest().into(),
                    "prob_drop" => s.prob_drop.into(),
                    "forced_drop" => s.forced_drop.into(),
                    "prob_mark" => s.prob_mark.into(),
                    "forced_mark" => s.forced_mark.into(),
                    "prob_mark_head" => s.prob_mark_head.into(),
                    "forced_mark_head" => s.forced_mark_head.into(),
                    _ => return codel::counter(self.counters(), field),
                })
            }
            _ => None,
        }
    }
}
