use debloat_aqm::net::testing::Dice;
use debloat_aqm::pie::MAX_PROBABILITY as MP;
use debloat_harness::trace::{Operation, Outcome};

use super::pie::{
    At, Numbers, controller_branches, controller_rows, cover_controller, cover_qdisc, law_options, parameter_rows,
};
use crate::diff::case::OptionSet;
use crate::diff::coverage::Coverage;
use crate::diff::target::{Seen, StateSchema, Target};

/// fq_pie.
pub struct FqPie;

const FLOW: usize = 0;
const QDISC: usize = 1;

impl Target for FqPie {
    fn kind(&self) -> &'static str {
        "fq_pie"
    }

    fn options(&self, dice: &mut Dice<'_>, change: bool) -> OptionSet {
        const NUMBERS: Numbers =
            Numbers { target: 3, tupdate: 4, alpha: 5, beta: 6, ecn: 10, bytemode: 11, dq_rate_estimator: 12 };
        let mut set = OptionSet::default();
        if dice.below(2) == 0 {
            let limit = dice.pick(&[1, 2, 5, 20, 60, 300, 10_240]);
            set.u32(1, limit, format!("limit {limit}"));
        }
        let flows = if dice.one_in(50) { dice.pick(&[1024, 2048, 2049, 5000]) } else { dice.pick(&[1, 1, 1, 2, 3, 8]) };
        if !change {
            set.u32(2, flows, format!("flows {flows}"));
            set.notes.push(flows.into());
        } else if dice.one_in(30) {
            set.u32(2, flows, format!("flows {flows}"));
        }
        law_options(dice, &mut set, &NUMBERS, change);
        if dice.one_in(3) {
            let quantum = dice.pick(&[1, 255, 256, 300, 1514, 9014, 1_048_576, 1_048_577]);
            set.u32(7, quantum, format!("quantum {quantum}"));
        }
        if dice.one_in(3) {
            // Multiples of the uniform packets' truesize are hit exactly.
            let bytes = dice.pick(&[1, 2304, 23_040, 46_080, 100_000, 33_554_432]);
            set.u32(8, bytes, format!("memory_limit {bytes}"));
        }
        if dice.one_in(3) {
            let percent = dice.pick(&[1, 3, 10, 50, 99]);
            set.u32(9, percent, format!("ecn_prob {percent}"));
        }
        set
    }

    fn schemas(&self) -> Vec<StateSchema> {
        let mut flow = controller_rows!("flows[{}].vars.").to_vec();
        flow.push(("deficit", 32, true, "flows[{}].deficit"));
        flow.push(("backlog", 32, false, "flows[{}].backlog"));
        flow.push(("qlen", 32, false, "flows[{}].qlen"));
        let mut qdisc = vec![
            ("packets_in", 32, false, "stats.packets_in"),
            ("dropped", 32, false, "stats.dropped"),
            ("overlimit", 32, false, "stats.overlimit"),
            ("ecn_mark", 32, false, "stats.ecn_mark"),
            ("overmemory", 32, false, "overmemory"),
            ("memory_usage", 32, false, "memory_usage"),
            ("new_flow_count", 32, false, "new_flow_count"),
            ("cursor", 32, false, "flows_cursor"),
            ("flows", 32, false, "flows_cnt"),
            ("quantum", 32, false, "quantum"),
            ("memory_limit", 32, false, "memory_limit"),
            ("ecn_prob", 32, false, "ecn_prob"),
            ("drops", 32, false, "qdisc:qstats.drops"),
            ("sent_bytes", 64, false, "qdisc:bstats.bytes"),
            ("sent_packets", 64, false, "qdisc:bstats.packets"),
        ];
        qdisc.extend(parameter_rows!("p_params."));
        vec![
            StateSchema::new("fq_pie.flow", "the bucket of this number", &flow),
            StateSchema::new("fq_pie.qdisc", "the qdisc", &qdisc),
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

    fn high_draws(&self, dice: &mut Dice<'_>) -> bool {
        dice.one_in(4)
    }

    fn has_timer(&self) -> bool {
        true
    }

    fn branches(&self) -> &'static [&'static str] {
        controller_branches![
            "full queue",
            "change removed packets",
            "change refused",
            "peeked",
            "reset",
            "GSO packet",
            "above the memory limit, queued all the same",
            "congested",
            "new flow",
            "stale bucket after a reset",
            "deficit negative",
            "cursor stops half-way",
            "cursor starts anew",
            "class by priority",
        ]
    }

    fn cover(&self, seen: &Seen<'_>, coverage: &mut Coverage) {
        let percent = seen.before(QDISC, 0, "ecn_prob").unwrap_or(10);
        let at = |key| At { controller: FLOW, key, qdisc: QDISC, mark_up_to: MP / 100 * percent, dropped: 2 };
        let is_timer = matches!(seen.call.operation, Operation::Timer);
        let flows = seen.call.snapshots.iter().filter(|snapshot| usize::from(snapshot.schema) == FLOW);
        let mut looked_at = 0;
        for snapshot in flows {
            looked_at += 1;
            let deficit = seen.after(FLOW, snapshot.key, "deficit");
            coverage.hit_if("deficit negative", deficit.is_some_and(|deficit| (deficit as i64) < 0));
            let backlog = seen.after(FLOW, snapshot.key, "backlog").unwrap_or(0);
            coverage.hit_if("stale bucket after a reset", seen.call.qlen == 0 && backlog > 0);
            if is_timer {
                cover_controller(seen, coverage, at(snapshot.key));
            }
        }
        // Which bucket an arrival or departure met is only certain where there is one.
        if !is_timer && looked_at == 1 {
            cover_controller(seen, coverage, at(0));
        }
        cover_qdisc(seen, coverage, QDISC);
        let over = seen.grew(QDISC, 0, "overmemory") && seen.grew(QDISC, 0, "packets_in");
        coverage.hit_if("above the memory limit, queued all the same", over);
        coverage.hit_if("congested", seen.call.outcome == Outcome::Verdict(2));
        coverage.hit_if("new flow", seen.grew(QDISC, 0, "new_flow_count"));
        let cursor = seen.after(QDISC, 0, "cursor");
        coverage.hit_if("cursor stops half-way", is_timer && cursor.is_some_and(|cursor| cursor > 0));
        coverage.hit_if("cursor starts anew", is_timer && seen.grew(QDISC, 0, "cursor") && cursor == Some(0));
        if let Some(arrival) = seen.call.arrival() {
            coverage.hit_if("class by priority", arrival.priority >> 16 == 1 && arrival.priority & 0xffff != 0);
        }
        let refused = matches!(seen.call.outcome, Outcome::Refused(_));
        coverage.hit_if("change refused", refused && matches!(seen.call.operation, Operation::Change(_)));
    }
}
