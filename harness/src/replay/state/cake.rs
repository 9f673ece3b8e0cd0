use debloat_aqm::Packet;
use debloat_aqm::cake::{Cake, QueueState, Storage};

use super::Probe;

impl<P: Packet, S: Storage> Probe for Cake<P, S> {
    fn probe(&self, schema: &str, key: u64, field: &str) -> Option<u64> {
        match schema {
            "cake.qdisc" => qdisc(self, field),
            "cake.queue" => queue(self, key, field),
            "cake.tin" => tin(self, key, field),
            _ => None,
        }
    }
}

fn qdisc<P: Packet, S: Storage>(cake: &Cake<P, S>, field: &str) -> Option<u64> {
    let (shaper, memory) = (cake.shaper(), cake.memory());
    Some(match field {
        "next_ns" => shaper.next_ns as u64,
        "failsafe_ns" => shaper.failsafe_ns as u64,
        "time_per_byte" => shaper.time.mult,
        "memory_used" => memory.used.into(),
        "memory_peak" => memory.peak.into(),
        "memory_limit" => memory.limit.into(),
        "current_tin" => cake.scan_position().0.into(),
        "current_queue" => cake.scan_position().1.into(),
        "heap_lifetime" => cake.heap_lifetime().into(),
        _ => return None,
    })
}

/// A queue; the key is its tin · 65536 + its number.
fn queue<P: Packet, S: Storage>(cake: &Cake<P, S>, key: u64, field: &str) -> Option<u64> {
    let queue = cake.queue((key >> 16) as usize, (key & 0xffff) as usize)?;
    let cobalt = queue.cobalt;
    Some(match field {
        "deficit" => i64::from(queue.deficit_bytes) as u64,
        "dropped" => queue.dropped.into(),
        "backlog" => queue.backlog_bytes.into(),
        "tag" => queue.tag.into(),
        "count" => cobalt.count.into(),
        "inverse_sqrt" => cobalt.inverse_sqrt.into(),
        "next_signal_ns" => cobalt.next_signal_ns as u64,
        "blue_changed_ns" => cobalt.blue_changed_ns as u64,
        "p_drop" => cobalt.p_drop.into(),
        "signalling" => cobalt.signalling.into(),
        "marked" => cobalt.marked.into(),
        "source_slot" => queue.source_slot.into(),
        "destination_slot" => queue.destination_slot.into(),
        "state" => match queue.state {
            QueueState::Idle => 0,
            QueueState::Sparse => 1,
            QueueState::SparseWait => 2,
            QueueState::Bulk => 3,
            QueueState::Decaying => 4,
        },
        _ => return None,
    })
}

/// A tin, by index.
fn tin<P: Packet, S: Storage>(cake: &Cake<P, S>, key: u64, field: &str) -> Option<u64> {
    let tin = cake.tin(key as usize)?;
    Some(match field {
        "next_ns" => tin.next_ns as u64,
        "time_per_byte" => tin.time.mult,
        "rate" => tin.rate,
        "deficit" => i64::from(tin.deficit_bytes) as u64,
        "sparse" => tin.sparse.into(),
        "bulk" => tin.bulk.into(),
        "decaying" => tin.decaying.into(),
        "unresponsive" => tin.unresponsive.into(),
        "backlog" => tin.backlog_bytes.into(),
        _ => return None,
    })
}
