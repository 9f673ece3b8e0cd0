use debloat_aqm::pie::{Controller, Pie};
use debloat_aqm::{Packet, Storage};

use super::Probe;

/// A PIE controller's fields.
pub(super) fn controller(c: &Controller, field: &str) -> Option<u64> {
    Some(match field {
        "delay" => c.delay,
        "old_delay" => c.old_delay,
        "burst" => c.burst,
        "last_dequeue" => c.last_dequeue,
        "probability" => c.probability,
        "accumulated" => c.accumulated,
        "cycle_bytes" => c.cycle_bytes,
        "drain_rate" => c.drain_rate.into(),
        _ => return None,
    })
}

impl<P: Packet, S: Storage> Probe for Pie<P, S> {
    fn probe(&self, schema: &str, _: u64, field: &str) -> Option<u64> {
        let s = self.stats();
        match schema {
            "pie.controller" => controller(self.controller(), field),
            "pie.qdisc" => Some(match field {
                "packets_in" => s.packets_in.into(),
                "dropped" => s.dropped.into(),
                "overlimit" => s.overlimit.into(),
                "ecn_mark" => s.ecn_mark.into(),
                "maxq" => s.maxq.into(),
                _ => return None,
            }),
            _ => None,
        }
    }
}
