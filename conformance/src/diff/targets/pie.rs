use debloat_aqm::net::testing::Dice;
use debloat_aqm::pie::{MAX_PROBABILITY as MP, UNSET};
use debloat_harness::trace::{Arrival, Operation, Outcome, Step};

use super::codel::cover_common;
use crate::diff::case::OptionSet;
use crate::diff::coverage::Coverage;
use crate::diff::target::{Seen, StateSchema, Target};

/// The plain pie qdisc.
pub struct Pie;

/// Attribute numbers of the options which pie and fq_pie share.
pub(super) struct Numbers {
    pub(super) target: u16,
    pub(super) tupdate: u16,
    pub(super) alpha: u16,
    pub(super) beta: u16,
    pub(super) ecn: u16,
    pub(super) bytemode: u16,
    pub(super) dq_rate_estimator: u16,
}

/// Draws them. 0 is not among the values: tc does not send it.
pub(super) fn law_options(dice: &mut Dice<'_>, set: &mut OptionSet, numbers: &Numbers, change: bool) {
    if dice.one_in(3) {
        // Slow gains, so that the probability stays among those at which packets are marked.
        let (us, gain) = (dice.pick(&[1, 1000]), dice.pick(&[1, 1, 2]));
        set.u32(numbers.target, us, format!("target {us}us"));
        set.u32(numbers.alpha, gain, format!("alpha {gain}"));
        set.u32(numbers.beta, 1, "beta 1");
        set.u32(numbers.ecn, 1, "ecn");
        return;
    }
    let often = if change { 4 } else { 2 };
    if dice.below(often) != 0 {
        let us = dice.pick(&[1, 50, 1000, 1000, 5000, 15_000, 15_000, 100_000]);
        set.u32(numbers.target, us, format!("target {us}us"));
    }
    if dice.one_in(4) {
        let us = dice.pick(&[1, 4000, 4001, 15_000, 16_000, 100_000]);
        set.u32(numbers.tupdate, us, format!("tupdate {us}us"));
    }
    if dice.below(often) == 0 {
        let gain = dice.pick(&[1, 2, 8, 32]);
        set.u32(numbers.alpha, gain, format!("alpha {gain}"));
    }
    if dice.below(often) == 0 {
        let gain = dice.pick(&[1, 3, 20, 32]);
        set.u32(numbers.beta, gain, format!("beta {gain}"));
    }
    let mut switch = |dice: &mut Dice<'_>, number, name: &str, off: &str, one_in| {
        if dice.below(one_in) == 0 {
            let on = dice.below(3) != 0;
            set.u32(number, on.into(), if on { name } else { off });
        }
    };
    switch(dice, numbers.ecn, "ecn", "noecn", often);
    switch(dice, numbers.bytemode, "bytemode", "nobytemode", 2 * often);
    switch(dice, numbers.dq_rate_estimator, "dq_rate_estimator", "no_dq_rate_estimator", 2 * often);
}

/// The rows of a controller's schema below a path. The kernel also notes the backlog of the last update, and never looks
/// at it.
macro_rules! controller_rows {
    ($prefix:literal) => {
        [
            ("delay", 64, false, concat!($prefix, "qdelay")),
            ("old_delay", 64, false, concat!($prefix, "qdelay_old")),
            ("burst", 64, false, concat!($prefix, "burst_time")),
            ("last_dequeue", 64, false, concat!($prefix, "dq_tstamp")),
            ("probability", 64, false, concat!($prefix, "prob")),
            ("accumulated", 64, false, concat!($prefix, "accu_prob")),
            ("cycle_bytes", 64, false, concat!($prefix, "dq_count")),
            ("drain_rate", 32, false, concat!($prefix, "avg_dq_rate")),
        ]
    };
}
pub(super) use controller_rows;

/// The rows of the shared parameters below a path.
macro_rules! parameter_rows {
    ($prefix:literal) => {
        [
            ("limit", 32, false, concat!($prefix, "limit")),
            ("target", 64, false, concat!($prefix, "target")),
            ("tupdate", 32, false, concat!($prefix, "tupdate")),
            ("alpha", 32, false, concat!($prefix, "alpha")),
            ("beta", 32, false, concat!($prefix, "beta")),
            ("ecn", 8, false, concat!($prefix, "ecn")),
            ("bytemode", 8, false, concat!($prefix, "bytemode")),
            ("dq_rate_estimator", 8, false, concat!($prefix, "dq_rate_estimator")),
        ]
    };
}
pub(super) use parameter_rows;

/// Branches of a controller (spec/pie.md §4 to §6). The wrap of the probability takes 6401 updates; a test of its own
/// makes them.
macro_rules! controller_branches {
    ($($more:literal),* $(,)?) => {
        &[
            "early 1: burst allowance left",
            "early 2: delay and probability low",
            "early 3: backlog below two MTUs",
            "early 4: byte mode scales",
            "early 4: byte mode, packet above the MTU",
            "early 5: local probability 0 clears the sum",
            "early 6: sum below 0.85",
            "early 7: forced at 8.5, dropped",
            "early 7: forced at 8.5, marked, sum kept",
            "early 8: drawn, hit",
            "early 8: drawn, missed",
            "ecn: marked",
            "ecn: capable, but the probability is too high",
            "ecn: not capable",
            "depart: first timestamp",
            "depart: no time has passed",
            "depart: queue ran empty, delay 0",
            "depart: burst allowance used up",
            "depart: queue too short to measure",
            "depart: cycle begins",
            "depart: cycle ends, first rate",
            "depart: cycle ends, rate averaged",
            "depart: cycle ends, queue short",
            "depart: cycle without duration goes on",
            "update: probability from 10 %",
            "update: from 1 %",
            "update: from 0.1 %",
            "update: from 0.01 %",
            "update: from 0.001 %",
            "update: from 0.0001 %",
            "update: below 0.0001 %",
            "update: step capped at 2 %",
            "update: step of high delay",
            "update: probability above 1",
            "update: cut at 0",
            "update: decay",
            "update: no decay, for the backlog",
            "update: restart",
            "update: delay from the rate",
            "update: no rate yet",
            $($more),*
        ]
    };
}
pub(super) use controller_branches;

/// Where a controller and the parameters stand in a target's schemas.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) controller: usize,
    pub(super) key: u64,
    pub(super) qdisc: usize,
    /// The largest probability at which packets are marked.
    pub(super) mark_up_to: u64,
    /// The verdict of a drop.
    pub(super) dropped: u32,
}

impl At {
    fn both(&self, seen: &Seen<'_>, field: &str) -> (u64, u64) {
        seen.both(self.controller, self.key, field).unwrap_or_default()
    }

    fn before(&self, seen: &Seen<'_>, field: &str) -> u64 {
        seen.before(self.controller, self.key, field).unwrap_or_default()
    }

    fn option(&self, seen: &Seen<'_>, field: &str) -> u64 {
        seen.before(self.qdisc, 0, field).unwrap_or_default()
    }
}

/// Counts the branches of a controller. The state before the call must be known.
pub(super) fn cover_controller(seen: &Seen<'_>, coverage: &mut Coverage, at: At) {
    if seen.before(at.controller, at.key, "probability").is_none() {
        return;
    }
    match &seen.call.operation {
        Operation::Enqueue(arrival) if !seen.grew(at.qdisc, 0, "overlimit") => {
            cover_arrival(seen, coverage, at, arrival);
        }
        Operation::Dequeue | Operation::DequeuePeeked | Operation::Peek => cover_departure(seen, coverage, at),
        Operation::Timer => cover_update(seen, coverage, at),
        _ => {}
    }
}

fn cover_arrival(seen: &Seen<'_>, coverage: &mut Coverage, at: At, arrival: &Arrival) {
    let (sum, sum_after) = at.both(seen, "accumulated");
    let probability = at.before(seen, "probability");
    let drew = seen.call.steps.iter().any(|step| matches!(step, Step::Draw { .. }));
    let marked = seen.grew(at.qdisc, 0, "ecn_mark");
    let dropped = seen.call.outcome == Outcome::Verdict(at.dropped);
    let target = at.option(seen, "target");
    if at.before(seen, "burst") > 0 {
        coverage.hit("early 1: burst allowance left");
        return;
    }
    if at.before(seen, "delay") < target / 2 && probability < MP / 5 {
        coverage.hit("early 2: delay and probability low");
        return;
    }
    let missed = !drew && !marked && !dropped;
    coverage.hit_if("early 3: backlog below two MTUs", missed && probability > 0 && sum_after == sum);
    coverage.hit_if("early 5: local probability 0 clears the sum", missed && sum > 0 && sum_after == 0);
    coverage.hit_if("early 6: sum below 0.85", missed && sum_after != sum && sum_after > 0);
    if at.option(seen, "bytemode") == 1 && sum_after > sum {
        coverage.hit_if("early 4: byte mode scales", sum_after - sum < probability);
        let large = arrival.buffer_bytes > 1514 && sum_after - sum == probability;
        coverage.hit_if("early 4: byte mode, packet above the MTU", large);
    }
    coverage.hit_if("early 7: forced at 8.5, dropped", dropped && !drew);
    coverage.hit_if("early 7: forced at 8.5, marked, sum kept", marked && !drew && sum_after > MP);
    coverage.hit_if("early 8: drawn, hit", drew && (marked || dropped));
    coverage.hit_if("early 8: drawn, missed", drew && !marked && !dropped);
    let capable = arrival.ds_field().is_some_and(|ds| ds & 3 != 0);
    let ecn = at.option(seen, "ecn") == 1;
    coverage.hit_if("ecn: marked", marked);
    coverage.hit_if(
        "ecn: capable, but the probability is too high",
        dropped && ecn && capable && probability > at.mark_up_to,
    );
    coverage.hit_if("ecn: not capable", dropped && ecn && !capable && probability <= at.mark_up_to);
}

fn cover_departure(seen: &Seen<'_>, coverage: &mut Coverage, at: At) {
    if !matches!(seen.call.outcome, Outcome::Packet(_)) {
        return;
    }
    let (last, last_after) = at.both(seen, "last_dequeue");
    let (burst, burst_after) = at.both(seen, "burst");
    let (cycle, cycle_after) = at.both(seen, "cycle_bytes");
    let clock = seen.call.steps.iter().find_map(|step| match step {
        Step::Clock(ns) => Some(ns >> 6),
        _ => None,
    });
    // A packet that was parked is accounted for already; of fq_pie's buckets, only one has a departure.
    let Some(now) = clock else { return };
    coverage.hit_if("depart: burst allowance used up", burst > 0 && burst_after == 0);
    if at.option(seen, "dq_rate_estimator") == 0 {
        coverage.hit_if("depart: first timestamp", last == UNSET && last_after != UNSET);
        coverage.hit_if("depart: no time has passed", last == now && last_after == now);
        coverage.hit_if("depart: queue ran empty, delay 0", last_after == now && at.both(seen, "delay").1 == 0);
        return;
    }
    let (rate, rate_after) = at.both(seen, "drain_rate");
    coverage.hit_if("depart: queue too short to measure", cycle == UNSET && cycle_after == UNSET);
    coverage.hit_if("depart: cycle begins", cycle == UNSET && cycle_after != UNSET && cycle_after > 0);
    let ended = cycle != UNSET && (cycle_after == 0 || cycle_after == UNSET);
    coverage.hit_if("depart: cycle ends, first rate", ended && rate == 0 && rate_after > 0);
    coverage.hit_if("depart: cycle ends, rate averaged", ended && rate > 0);
    coverage.hit_if("depart: cycle ends, queue short", ended && cycle_after == UNSET);
    let goes_on = cycle_after != UNSET && cycle_after >= 16_384 && cycle_after != cycle;
    coverage.hit_if("depart: cycle without duration goes on", goes_on);
}

fn cover_update(seen: &Seen<'_>, coverage: &mut Coverage, at: At) {
    let (before, after) = at.both(seen, "probability");
    let (delay, delay_after) = at.both(seen, "delay");
    let estimator = at.option(seen, "dq_rate_estimator") == 1;
    let old_delay = if estimator { delay } else { at.before(seen, "old_delay") };
    let rate = at.before(seen, "drain_rate");
    // The power of ten below which the probability lies.
    let scale = [10, 100, 1_000, 10_000, 100_000, 1_000_000].iter().filter(|&&power| before < MP / power).count();
    const SCALES: [&str; 7] = [
        "update: probability from 10 %",
        "update: from 1 %",
        "update: from 0.1 %",
        "update: from 0.01 %",
        "update: from 0.001 %",
        "update: from 0.0001 %",
        "update: below 0.0001 %",
    ];
    coverage.hit(SCALES[scale]);
    const CAP: u64 = MP / 100 * 2;
    let step = after.wrapping_sub(before);
    coverage.hit_if("update: step capped at 2 %", before >= MP / 10 && (step == CAP || step == CAP + MP / 50));
    coverage.hit_if("update: step of high delay", delay_after > 3_906_250);
    coverage.hit_if("update: probability above 1", after > MP);
    coverage.hit_if("update: cut at 0", before > 0 && after == 0);
    let idle = delay_after == 0 && old_delay == 0 && before > 0;
    let backlog = seen.call.backlog_bytes;
    coverage.hit_if("update: decay", idle && backlog == 0 && after > 0);
    coverage.hit_if("update: no decay, for the backlog", idle && backlog > 0 && after > 0);
    let (burst, burst_after) = at.both(seen, "burst");
    coverage.hit_if("update: restart", burst_after > burst);
    coverage.hit_if("update: delay from the rate", estimator && rate > 0 && delay_after > 0);
    coverage.hit_if("update: no rate yet", estimator && rate == 0);
}

/// Branches of the qdisc around the controller.
pub(super) fn cover_qdisc(seen: &Seen<'_>, coverage: &mut Coverage, qdisc: usize) {
    cover_common(seen, coverage);
    coverage.hit_if("full queue", seen.grew(qdisc, 0, "overlimit"));
    coverage.hit_if("reset", matches!(seen.call.operation, Operation::Reset));
    let gso = seen.call.arrival().is_some_and(|arrival| arrival.gso.is_some());
    coverage.hit_if("GSO packet", gso && seen.grew(qdisc, 0, "packets_in"));
}

impl Target for Pie {
    fn kind(&self) -> &'static str {
        "pie"
    }

    fn options(&self, dice: &mut Dice<'_>, change: bool) -> OptionSet {
        const NUMBERS: Numbers =
            Numbers { target: 1, tupdate: 3, alpha: 4, beta: 5, ecn: 6, bytemode: 7, dq_rate_estimator: 8 };
        let mut set = OptionSet::default();
        law_options(dice, &mut set, &NUMBERS, change);
        if dice.below(2) == 0 {
            let limit = dice.pick(&[1, 2, 5, 20, 100, 1000, 10_000]);
            set.u32(2, limit, format!("limit {limit}"));
        }
        set
    }

    fn schemas(&self) -> Vec<StateSchema> {
        let mut qdisc = vec![
            ("packets_in", 32, false, "stats.packets_in"),
            ("dropped", 32, false, "stats.dropped"),
            ("overlimit", 32, false, "stats.overlimit"),
            ("ecn_mark", 32, false, "stats.ecn_mark"),
            ("maxq", 32, false, "stats.maxq"),
            ("drops", 32, false, "qdisc:qstats.drops"),
            ("sent_bytes", 64, false, "qdisc:bstats.bytes"),
            ("sent_packets", 64, false, "qdisc:bstats.packets"),
        ];
        qdisc.extend(parameter_rows!("params."));
        vec![
            StateSchema::new("pie.controller", "the controller", &controller_rows!("vars.")),
            StateSchema::new("pie.qdisc", "the qdisc", &qdisc),
        ]
    }

    fn high_draws(&self, dice: &mut Dice<'_>) -> bool {
        dice.one_in(4)
    }

    fn has_timer(&self) -> bool {
        true
    }

    fn branches(&self) -> &'static [&'static str] {
        controller_branches!["full queue", "maxq grew", "change removed packets", "peeked", "reset", "GSO packet"]
    }

    fn cover(&self, seen: &Seen<'_>, coverage: &mut Coverage) {
        let at = At { controller: 0, key: 0, qdisc: 1, mark_up_to: MP / 10, dropped: 1 };
        cover_controller(seen, coverage, at);
        cover_qdisc(seen, coverage, 1);
        coverage.hit_if("maxq grew", seen.grew(1, 0, "maxq"));
    }
}
