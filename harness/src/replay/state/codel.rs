use debloat_aqm::codel::{Codel, Controller};
use debloat_aqm::{Context, Counters, Packet, Qdisc, Storage};

use super::Probe;

/// The counters that every qdisc has.
pub(super) fn counter(c: &Counters, field: &str) -> Option<u64> {
    Some(match field {
        "drops" => c.drops.into(),
        "overlimits" => c.overlimits.into(),
        "requeues" => c.requeues.into(),
        "sent_bytes" => c.sent_bytes,
        "sent_packets" => c.sent_packets,
        _ => return None,
    })
}

/// A CoDel controller's fields.
pub(super) fn controller(c: &Controller, field: &str) -> Option<u64> {
    Some(match field {
        "count" => c.count.into(),
        "lastcount" => c.lastcount.into(),
        "dropping" => c.dropping.into(),
        "rec_inv_sqrt" => c.rec_inv_sqrt.into(),
        "first_above_time" => c.first_above_time.into(),
        "drop_next" => c.drop_next.into(),
        "ldelay" => c.ldelay.into(),
        _ => return None,
    })
}

impl<P: Packet, S: Storage> Probe for Codel<P, S> {
    fn probe(&self, schema: &str, _: u64, field: &str) -> Option<u64> {
        let s = self.stats(&mut Context::at(0));
        match schema {
            "codel.controller" => controller(self.controller(), field),
            "codel.qdisc" => Some(match field {
                "maxpacket" => s.maxpacket_bytes.into(),
                "ecn_mark" => s.ecn_mark.into(),
                "ce_mark" => s.ce_mark.into(),
                "drop_overlimit" => s.drop_overlimit.into(),
                "drops" | "sent_bytes" | "sent_packets" => return counter(self.counters(), field),
                // Handed to the parents and cleared before the call ends.
                "drop_count" | "drop_len" => 0,
                _ => return None,
            }),
            _ => None,
        }
    }
}
