use debloat_aqm::fq_codel::{FqCodel, Stats};
use debloat_aqm::{Packet, Qdisc, Storage};

use super::{Probe, codel};
use crate::trace::Field;

impl<P: Packet, S: Storage> Probe for FqCodel<P, S> {
    fn probe(&self, schema: &str, key: u64, field: &str) -> Option<u64> {
        let bucket = match schema {
            "fq_codel.qdisc" => return qdisc(self, &self.stats(), field),
            "fq_codel.flow" => u32::try_from(key).ok()?,
            "fq_codel.head_flow" => {
                let (mut new, mut old) = self.lists();
                new.next().or_else(|| old.next())?
            }
            _ => return None,
        };
        let flow = self.flow(bucket)?;
        Some(match field {
            "deficit" => i64::from(flow.deficit_bytes) as u64,
            "backlog" => flow.backlog_bytes.into(),
            "bucket" => bucket.into(),
            _ => return codel::controller(&flow.controller, field),
        })
    }

    fn probe_all(&self, schema: &str, key: u64, fields: &[Field], values: &mut Vec<Option<u64>>) {
        if schema == "fq_codel.qdisc" {
            let stats = self.stats();
            values.extend(fields.iter().map(|field| qdisc(self, &stats, &field.name)));
        } else {
            values.extend(fields.iter().map(|field| self.probe(schema, key, &field.name)));
        }
    }
}

/// Values of the qdisc, for `stats` taken once: counting the lists walks them.
fn qdisc<P: Packet, S: Storage>(queue: &FqCodel<P, S>, s: &Stats, field: &str) -> Option<u64> {
    let p = queue.parameters();
    Some(match field {
        "flows" => p.flows.into(),
        "quantum" => p.quantum_bytes.into(),
        "drop_batch" => p.drop_batch.into(),
        "memory_limit" => p.memory_limit_bytes.into(),
        "limit" => p.limit.into(),
        "maxpacket" => s.maxpacket_bytes.into(),
        // Handed to the parents and cleared before the call ends.
        "drop_count" | "drop_len" => 0,
        "ecn_mark" => s.ecn_mark.into(),
        "ce_mark" => s.ce_mark.into(),
        "memory_usage" => s.memory_usage_bytes.into(),
        "drop_overmemory" => s.drop_overmemory.into(),
        "drop_overlimit" => s.drop_overlimit.into(),
        "new_flow_count" => s.new_flow_count.into(),
        "new_flows_len" => s.new_flows_len.into(),
        "old_flows_len" => s.old_flows_len.into(),
        _ => return codel::counter(queue.counters(), field),
    })
}
