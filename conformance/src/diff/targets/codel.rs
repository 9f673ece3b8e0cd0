use debloat_aqm::net::testing::Dice;
use debloat_harness::trace::Outcome;

use crate::diff::case::OptionSet;
use crate::diff::coverage::Coverage;
use crate::diff::target::{Seen, StateSchema, Target};

/// The plain codel qdisc.
pub struct Codel;

/// Draws the options which codel and fq_codel share: target, interval, ce_threshold, ecn, under these attribute
/// numbers.
pub(super) fn law_options(dice: &mut Dice<'_>, set: &mut OptionSet, numbers: [u16; 4], change: bool) {
    let [target, interval, ce_threshold, ecn] = numbers;
    let often = if change { 3 } else { 2 };
    if dice.below(often) == 0 {
        let us = dice.pick(&[1, 50, 1000, 5000, 5000, 20_000, 100_000]);
        set.u32(target, us, format!("target {us}us"));
    }
    if dice.below(often) == 0 {
        let us = dice.pick(&[1, 50, 1000, 10_000, 30_000, 100_000, 1_000_000]);
        set.u32(interval, us, format!("interval {us}us"));
    }
    if dice.one_in(4) {
        let us = dice.pick(&[0, 100, 1000, 10_000]);
        set.u32(ce_threshold, us, format!("ce_threshold {us}us"));
    }
    if dice.below(often) == 0 {
        let on = dice.below(2) as u32;
        set.u32(ecn, on, if on == 1 { "ecn" } else { "noecn" });
    }
}

/// The rows of a controller's schema below a path.
macro_rules! controller_rows {
    ($prefix:literal) => {
        [
            ("count", 32, false, concat!($prefix, "count")),
            ("lastcount", 32, false, concat!($prefix, "lastcount")),
            ("dropping", 8, false, concat!($prefix, "dropping")),
            ("rec_inv_sqrt", 16, false, concat!($prefix, "rec_inv_sqrt")),
            ("first_above_time", 32, false, concat!($prefix, "first_above_time")),
            ("drop_next", 32, false, concat!($prefix, "drop_next")),
            ("ldelay", 32, false, concat!($prefix, "ldelay")),
        ]
    };
}
pub(super) use controller_rows;

/// Branches of a controller (spec/codel.md §4), by what changed in its state.
pub(super) const CONTROLLER_BRANCHES: &[&str] = &[
    "codel: above target, timer started",
    "codel: dropping entered",
    "codel: dropping entered with the count kept",
    "codel: dropping left",
    "codel: several drops in one call",
    "codel: marked instead of dropped",
    "codel: marked by ce_threshold",
    "codel: every packet dropped",
];

/// Counts them.
pub(super) fn cover_controller(seen: &Seen<'_>, coverage: &mut Coverage, controller: usize, key: u64, qdisc: usize) {
    let both = |field| seen.both(controller, key, field);
    if let Some((before, after)) = both("first_above_time") {
        coverage.hit_if("codel: above target, timer started", before == 0 && after != 0);
    }
    if let (Some((was, is)), Some(count)) = (both("dropping"), seen.after(controller, key, "count")) {
        coverage.hit_if("codel: dropping entered", was == 0 && is == 1);
        coverage.hit_if("codel: dropping entered with the count kept", was == 0 && is == 1 && count > 1);
        coverage.hit_if("codel: dropping left", was == 1 && is == 0);
    }
    let drops = seen.call.steps.iter().filter(|step| matches!(step, debloat_harness::trace::Step::Drop { .. })).count();
    if seen.call.arrival().is_none() {
        coverage.hit_if("codel: several drops in one call", drops > 1);
        coverage.hit_if("codel: every packet dropped", drops > 0 && seen.call.outcome == Outcome::Nothing);
    }
    coverage.hit_if("codel: marked instead of dropped", seen.grew(qdisc, 0, "ecn_mark"));
    coverage.hit_if("codel: marked by ce_threshold", seen.grew(qdisc, 0, "ce_mark"));
}

impl Target for Codel {
    fn kind(&self) -> &'static str {
        "codel"
    }

    fn options(&self, dice: &mut Dice<'_>, change: bool) -> OptionSet {
        let mut set = OptionSet::default();
        law_options(dice, &mut set, [1, 3, 5, 4], change);
        if dice.below(3) != 0 {
            let limit = dice.pick(&[1, 2, 5, 20, 100, 1000]);
            set.u32(2, limit, format!("limit {limit}"));
        }
        set
    }

    fn schemas(&self) -> Vec<StateSchema> {
        vec![
            StateSchema::new("codel.controller", "the controller", &controller_rows!("vars.")),
            StateSchema::new(
                "codel.qdisc",
                "the qdisc",
                &[
                    ("maxpacket", 32, false, "stats.maxpacket"),
                    ("ecn_mark", 32, false, "stats.ecn_mark"),
                    ("ce_mark", 32, false, "stats.ce_mark"),
                    ("drop_count", 32, false, "stats.drop_count"),
                    ("drop_len", 32, false, "stats.drop_len"),
                    ("drop_overlimit", 32, false, "drop_overlimit"),
                    ("drops", 32, false, "qdisc:qstats.drops"),
                    ("sent_bytes", 64, false, "qdisc:bstats.bytes"),
                    ("sent_packets", 64, false, "qdisc:bstats.packets"),
                ],
            ),
        ]
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
            "tail drop",
            "change removed packets",
            "peeked",
        ]
    }

    fn cover(&self, seen: &Seen<'_>, coverage: &mut Coverage) {
        cover_controller(seen, coverage, 0, 0, 1);
        coverage.hit_if("tail drop", seen.grew(1, 0, "drop_overlimit"));
        cover_common(seen, coverage);
    }
}

/// Branches that every AQM has.
pub(super) fn cover_common(seen: &Seen<'_>, coverage: &mut Coverage) {
    use debloat_harness::trace::{Operation, Step};
    let drops = seen.call.steps.iter().any(|step| matches!(step, Step::Drop { .. }));
    coverage.hit_if("change removed packets", drops && matches!(seen.call.operation, Operation::Change(_)));
    coverage.hit_if(
        "peeked",
        matches!(seen.call.operation, Operation::Peek) && matches!(seen.call.outcome, Outcome::Packet(_)),
    );
}
