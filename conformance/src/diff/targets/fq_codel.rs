use debloat_aqm::net::testing::Dice;
use debloat_harness::trace::{Operation, Outcome};

use super::codel::{controller_rows, cover_common, cover_controller, law_options};
use crate::diff::case::OptionSet;
use crate::diff::coverage::Coverage;
use crate::diff::target::{Seen, StateSchema, Target};

/// fq_codel.
pub struct FqCodel;

const FLOW: usize = 0;
const QDISC: usize = 1;

impl Target for FqCodel {
    fn kind(&self) -> &'static str {
        "fq_codel"
    }

    fn options(&self, dice: &mut Dice<'_>, change: bool) -> OptionSet {
        let mut set = OptionSet::default();
        let flows = dice.pick(&[1, 2, 3, 8, 8, 64, 1024]);
        if !change {
            set.u32(5, flows, format!("flows {flows}"));
            set.notes.push(flows.into());
        } else if dice.one_in(30) {
            set.u32(5, flows, format!("flows {flows}"));
        }
        law_options(dice, &mut set, [1, 3, 7, 4], change);
        if dice.below(2) == 0 {
            let limit = dice.pick(&[1, 2, 5, 20, 60, 300, 10_240]);
            set.u32(2, limit, format!("limit {limit}"));
        }
        if dice.one_in(3) {
            let quantum = dice.pick(&[1, 255, 256, 300, 1514, 9014, 1_048_576, 1_048_577]);
            set.u32(6, quantum, format!("quantum {quantum}"));
        }
        if dice.one_in(3) {
            let batch = dice.pick(&[1, 2, 5, 64]);
            set.u32(8, batch, format!("drop_batch {batch}"));
        }
        if dice.one_in(3) {
            // Multiples of the uniform packets' truesize are hit exactly.
            let bytes = dice.pick(&[0, 2304, 23_040, 46_080, 100_000, 33_554_432]);
            set.u32(9, bytes, format!("memory_limit {bytes}"));
        }
        if dice.one_in(4) {
            let (value, mask) = dice.pick(&[(1, 3), (2, 3), (0xb8, 0xfc), (0, 0)]);
            set.u8(10, value, format!("ce_threshold_selector {value}/{mask}"));
            set.u8(11, mask, "");
        }
        set
    }

    fn schemas(&self) -> Vec<StateSchema> {
        let mut flow = controller_rows!("flows[{}].cvars.").to_vec();
        flow.push(("deficit", 32, true, "flows[{}].deficit"));
        flow.push(("backlog", 32, false, "backlogs[{}]"));
        vec![
            StateSchema::new("fq_codel.flow", "the bucket of this number", &flow),
            StateSchema::new(
                "fq_codel.qdisc",
                "the qdisc",
                &[
                    ("maxpacket", 32, false, "cstats.maxpacket"),
                    ("drop_count", 32, false, "cstats.drop_count"),
                    ("drop_len", 32, false, "cstats.drop_len"),
                    ("ecn_mark", 32, false, "cstats.ecn_mark"),
                    ("ce_mark", 32, false, "cstats.ce_mark"),
                    ("memory_usage", 32, false, "memory_usage"),
                    ("drop_overmemory", 32, false, "drop_overmemory"),
                    ("drop_overlimit", 32, false, "drop_overlimit"),
                    ("new_flow_count", 32, false, "new_flow_count"),
                    ("drops", 32, false, "qdisc:qstats.drops"),
                    ("sent_bytes", 64, false, "qdisc:bstats.bytes"),
                    ("sent_packets", 64, false, "qdisc:bstats.packets"),
                ],
            ),
        ]
    }

    fn keys(&self, schema: usize, options: &OptionSet, turn: u64, keys: &mut Vec<u64>) {
        let flows = options.notes.first().copied().unwrap_or(1024);
        match schema {
            FLOW if flows <= 8 => keys.extend(0..flows),
            // Of many buckets, a few in turn; all of them every so often.
            FLOW if turn % 512 == 511 => keys.extend(0..flows),
            FLOW => keys.extend((0..4).map(|at| (turn * 4 + at) % flows)),
            _ => keys.push(0),
        }
    }

    fn branches(&self) -> &'static [&'static str] {
        &[
            "codel: above target, timer started",
            "codel: dropping entered",
            "codel: dropping entered with the count kept",
            "codel: dropping left",
            "codel: several drops in one call",
            "codel: marked instead of dropped",
            "codel: marked by ce_threshold",
            "codel: every packet dropped",
            "batch drop: limit",
            "batch drop: memory",
            "batch drop: congested",
            "batch drop: other flow pays",
            "new flow",
            "deficit negative",
            "class by priority",
            "socket-charged packet",
            "change removed packets",
            "change refused",
            "peeked",
        ]
    }

    fn cover(&self, seen: &Seen<'_>, coverage: &mut Coverage) {
        for snapshot in seen.call.snapshots.iter().filter(|snapshot| usize::from(snapshot.schema) == FLOW) {
            cover_controller(seen, coverage, FLOW, snapshot.key, QDISC);
            let deficit = seen.after(FLOW, snapshot.key, "deficit");
            coverage.hit_if("deficit negative", deficit.is_some_and(|deficit| (deficit as i64) < 0));
        }
        cover_common(seen, coverage);
        let memory = seen.grew(QDISC, 0, "drop_overmemory");
        let batch = seen.grew(QDISC, 0, "drop_overlimit");
        coverage.hit_if("batch drop: memory", memory);
        coverage.hit_if("batch drop: limit", batch && !memory);
        coverage.hit_if("batch drop: congested", seen.call.outcome == Outcome::Verdict(2));
        coverage.hit_if("batch drop: other flow pays", batch && seen.call.outcome == Outcome::Verdict(0));
        coverage.hit_if("new flow", seen.grew(QDISC, 0, "new_flow_count"));
        if let Some(arrival) = seen.call.arrival() {
            coverage.hit_if("class by priority", arrival.priority >> 16 == 1 && arrival.priority & 0xffff != 0);
            coverage.hit_if("socket-charged packet", arrival.charged_to_socket);
        }
        let refused = matches!(seen.call.outcome, Outcome::Refused(_));
        coverage.hit_if("change refused", refused && matches!(seen.call.operation, Operation::Change(_)));
    }
}
