use debloat_aqm::fq::{FlowStatus, Fq};
use debloat_aqm::{Context, Packet, Qdisc, Storage};

use super::{Probe, codel};

impl<P: Packet, S: Storage> Probe for Fq<P, S> {
    fn probe(&self, schema: &str, key: u64, field: &str) -> Option<u64> {
        match schema {
            "fq.flow" => {
                // A flow that one side has forgotten shows as zeros.
                let Some(flow) = self.flow(key) else { return Some(0) };
                Some(match field {
                    "there" => 1,
                    "qlen" => flow.qlen.into(),
                    "credit" => i64::from(flow.credit_bytes) as u64,
                    "band" => flow.band.into(),
                    "socket_hash" => flow.socket_hash.into(),
                    "time_next_packet" => flow.next_departure_ns,
                    "status" => match flow.status {
                        FlowStatus::Detached(since) => since,
                        FlowStatus::Listed => 0,
                        FlowStatus::Throttled => 2,
                    },
                    _ => return None,
                })
            }
            "fq.qdisc" => qdisc(self, field),
            _ => None,
        }
    }
}

fn qdisc<P: Packet, S: Storage>(queue: &Fq<P, S>, field: &str) -> Option<u64> {
    let s = queue.stats(&mut Context::at(0));
    let (credits, current) = queue.band_credits();
    let numbered = |prefix: &str| field.strip_prefix(prefix)?.parse::<usize>().ok().filter(|&band| band < 3);
    if let Some(band) = numbered("band_credit") {
        return Some(i64::from(credits[band]) as u64);
    }
    if let Some(band) = numbered("band_drops") {
        return Some(s.band_drops[band]);
    }
    if let Some(band) = numbered("band_pkt_count") {
        return Some(s.band_pkt_count[band].into());
    }
    Some(match field {
        "band" => current as u64,
        "next_delayed" => queue.next_delayed_ns().unwrap_or(u64::MAX),
        "internal_qlen" => queue.internal_len().into(),
        "flows" => s.flows.into(),
        "inactive_flows" => s.inactive_flows.into(),
        "throttled_flows" => s.throttled_flows.into(),
        "gc_flows" => s.gc_flows,
        "fastpath_packets" => s.fastpath_packets,
        "throttled" => s.throttled,
        "flows_plimit" => s.flows_plimit,
        "pkts_too_long" => s.pkts_too_long,
        "unthrottle_latency" => s.unthrottle_latency_ns,
        "ce_mark" => s.ce_mark,
        "horizon_drops" => s.horizon_drops,
        "horizon_caps" => s.horizon_caps,
        _ => return codel::counter(queue.counters(), field),
    })
}
