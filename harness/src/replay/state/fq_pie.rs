use debloat_aqm::fq_pie::FqPie;
use debloat_aqm::{Packet, Storage};

use super::{Probe, pie};

impl<P: Packet, S: Storage> Probe for FqPie<P, S> {
    fn probe(&self, schema: &str, key: u64, field: &str) -> Option<u64> {
        match schema {
            "fq_pie.qdisc" => qdisc(self, field),
            "fq_pie.flow" => {
                let flow = self.flow(u32::try_from(key).ok()?)?;
                Some(match field {
                    "deficit" => i64::from(flow.deficit_bytes) as u64,
                    "backlog" => flow.backlog_bytes.into(),
                    "qlen" => flow.qlen.into(),
                    _ => return pie::controller(&flow.controller, field),
                })
            }
            _ => None,
        }
    }
}

fn qdisc<P: Packet, S: Storage>(queue: &FqPie<P, S>, field: &str) -> Option<u64> {
    let s = queue.stats();
    Some(match field {
        "cursor" => queue.cursor().into(),
        "packets_in" => s.packets_in.into(),
        "dropped" => s.dropped.into(),
        "overlimit" => s.overlimit.into(),
        "overmemory" => s.overmemory.into(),
        "ecn_mark" => s.ecn_mark.into(),
        "memory_usage" => s.memory_usage_bytes.into(),
        "new_flow_count" => s.new_flow_count.into(),
        "new_flows_len" => s.new_flows_len.into(),
        "old_flows_len" => s.old_flows_len.into(),
        _ => return None,
    })
}
