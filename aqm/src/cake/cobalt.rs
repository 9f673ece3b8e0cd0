//! COBALT: CoDel and BLUE on one queue (spec/cake.md §16).

use crate::{Environment, Linux};

/// What one tin gives the controllers of its queues (spec/cake.md §6.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CobaltParameters {
    /// Delay to aim for, ns.
    pub target_ns: u64,
    /// Interval of the control law at count 1, ns.
    pub interval_ns: u64,
    /// How long one full frame lasts at the tin's rate, ns.
    pub mtu_time_ns: u64,
    /// Added to the drop probability at an overload; a fraction of 2^32.
    pub p_increment: u32,
    /// Taken off it when the queue runs empty.
    pub p_decrement: u32,
}

/// State of one controller. Times are signed nanoseconds on the environment's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cobalt {
    /// When the next signal is due; while `count` is 0, until when the queue counts as active.
    pub next_signal_ns: i64,
    /// When BLUE's probability last changed.
    pub blue_changed_ns: i64,
    /// CoDel's count.
    pub count: u32,
    /// Inverse square root of `count`, a fraction of 2^32. Starts at 0, not at all-ones.
    pub inverse_sqrt: u32,
    /// BLUE's drop probability, a fraction of 2^32.
    pub p_drop: u32,
    /// Is the delay above target?
    pub signalling: bool,
    /// Was the last packet marked?
    pub marked: bool,
}

/// What COBALT says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Deliver,
    /// Dropped by CoDel's control law.
    Codel,
    /// Dropped by BLUE.
    Blue,
}

/// The inverse square roots of the counts 0 to 15.
const ROOTS: [u32; 16] = [
    u32::MAX,
    u32::MAX,
    3_037_000_500,
    2_479_700_525,
    2_147_483_647,
    1_920_767_767,
    1_753_413_056,
    1_623_345_051,
    1_518_500_250,
    1_431_655_765,
    1_358_187_914,
    1_294_981_364,
    1_239_850_263,
    1_191_209_601,
    1_147_878_294,
    1_108_955_788,
];

/// 6.1 computes its table: four Newton steps each, from the entry before.
const ROOTS_6_1: [u32; 16] = {
    let mut table = [u32::MAX; 16];
    let mut count = 1;
    while count < 16 {
        let (mut root, mut steps) = (table[count - 1], 0);
        while steps < 4 {
            root = newton_step(root, count as u32);
            steps += 1;
        }
        table[count] = root;
        count += 1;
    }
    table
};

#[inline]
const fn newton_step(root: u32, count: u32) -> u32 {
    let root = root as u64;
    let square = (root * root) >> 32;
    let value = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square)) >> 2;
    (value.wrapping_mul(root) >> 31) as u32
}

/// The rules that depend on the Linux version.
#[derive(Clone, Copy)]
pub(super) struct Law {
    roots: &'static [u32; 16],
    /// BLUE draws also for packets that CoDel already drops.
    always_draws: bool,
}

impl Law {
    pub(super) const fn of(linux: Linux) -> Self {
        match linux {
            Linux::V6_1 => Self { roots: &ROOTS_6_1, always_draws: true },
            Linux::V6_12 => Self { roots: &ROOTS, always_draws: true },
            Linux::V7_2 => Self { roots: &ROOTS, always_draws: false },
        }
    }
}

impl Cobalt {
    /// One step per change of count: above the table the value depends on the path.
    #[inline]
    fn update_root(&mut self, law: &Law) {
        self.inverse_sqrt = match law.roots.get(self.count as usize) {
            Some(&root) => root,
            None => newton_step(self.inverse_sqrt, self.count),
        };
    }

    /// `time` + interval/√count. Only the interval's low 32 bits count.
    #[inline]
    const fn control_law(&self, time_ns: i64, parameters: &CobaltParameters) -> i64 {
        let step = (parameters.interval_ns as u32 as u64 * self.inverse_sqrt as u64) >> 32;
        time_ns.wrapping_add(step as i64)
    }

    /// Is it more than a target since BLUE moved? A clock that ran backwards counts as long ago.
    const fn blue_may_move(&self, now_ns: i64, parameters: &CobaltParameters) -> bool {
        now_ns.wrapping_sub(self.blue_changed_ns) as u64 > parameters.target_ns
    }

    /// §16.3, the queue lost a packet to the memory limit. True if BLUE became active.
    pub(super) fn on_overload(&mut self, now_ns: i64, parameters: &CobaltParameters) -> bool {
        let mut became_active = false;
        if self.blue_may_move(now_ns, parameters) {
            became_active = self.p_drop == 0;
            self.p_drop = self.p_drop.saturating_add(parameters.p_increment);
            self.blue_changed_ns = now_ns;
        }
        self.signalling = true;
        self.next_signal_ns = now_ns;
        self.count = self.count.max(1);
        became_active
    }

    /// §16.4, the queue ran empty. True if BLUE became inactive.
    pub(super) fn on_empty(&mut self, now_ns: i64, parameters: &CobaltParameters, law: &Law) -> bool {
        let mut became_inactive = false;
        if self.p_drop != 0 && self.blue_may_move(now_ns, parameters) {
            self.p_drop = self.p_drop.saturating_sub(parameters.p_decrement);
            self.blue_changed_ns = now_ns;
            became_inactive = self.p_drop == 0;
        }
        self.signalling = false;
        if self.count != 0 && now_ns.wrapping_sub(self.next_signal_ns) >= 0 {
            self.count -= 1;
            self.update_root(law);
            self.next_signal_ns = self.control_law(self.next_signal_ns, parameters);
        }
        became_inactive
    }

    /// §16.5, a packet that waited for `sojourn_ns` leaves the queue. `bulk_flows` is 0 in egress mode. `mark` tries
    /// to set CE.
    #[inline]
    pub(super) fn on_packet<P, E: Environment<P> + ?Sized>(
        &mut self,
        now_ns: i64,
        sojourn_ns: u64,
        bulk_flows: u16,
        parameters: &CobaltParameters,
        law: &Law,
        cx: &mut E,
        mark: impl FnOnce() -> bool,
    ) -> Judgement {
        let mtu_time = parameters.mtu_time_ns;
        let over_target = sojourn_ns > parameters.target_ns
            && sojourn_ns > mtu_time.wrapping_mul(u64::from(bulk_flows)).wrapping_mul(2)
            && sojourn_ns > mtu_time.wrapping_mul(4);
        let mut since_due = now_ns.wrapping_sub(self.next_signal_ns);
        let mut due = self.count != 0 && since_due >= 0;
        let mut judgement = Judgement::Deliver;
        self.marked = false;

        if over_target {
            if !self.signalling {
                self.signalling = true;
                self.next_signal_ns = self.control_law(now_ns, parameters);
            }
            self.count = self.count.max(1);
        } else {
            self.signalling = false;
        }

        if due && self.signalling {
            self.marked = mark();
            if !self.marked {
                judgement = Judgement::Codel;
            }
            self.count = self.count.saturating_add(1);
            self.update_root(law);
            self.next_signal_ns = self.control_law(self.next_signal_ns, parameters);
            since_due = now_ns.wrapping_sub(self.next_signal_ns);
        } else {
            while due {
                self.count -= 1;
                self.update_root(law);
                self.next_signal_ns = self.control_law(self.next_signal_ns, parameters);
                since_due = now_ns.wrapping_sub(self.next_signal_ns);
                due = self.count != 0 && since_due >= 0;
            }
        }

        if self.p_drop != 0 && (law.always_draws || judgement == Judgement::Deliver) {
            // Some versions draw even where the draw can change nothing.
            let refused = cx.random_u32() < self.p_drop;
            if refused && judgement == Judgement::Deliver {
                judgement = Judgement::Blue;
            }
        }

        if self.count == 0 {
            self.next_signal_ns = now_ns.wrapping_add(parameters.interval_ns as i64);
        } else if since_due > 0 && judgement == Judgement::Deliver {
            self.next_signal_ns = now_ns;
        }
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec/cake.md §16.1: the three entries of 6.1's table that differ.
    #[test]
    fn roots_of_6_1() {
        for (count, (&old, &new)) in ROOTS_6_1.iter().zip(&ROOTS).enumerate() {
            let expected = match count {
                2 => 3_035_289_760,
                3 => 2_479_700_455,
                6 => 1_753_413_055,
                _ => new,
            };
            assert_eq!(old, expected, "count {count}");
        }
    }

    /// spec/cake.md §23.4: beyond the table the value depends on the way.
    #[test]
    fn roots_beyond_the_table() {
        let law = Law::of(Linux::V7_2);
        let mut cobalt = Cobalt::default();
        let mut at = |count| {
            cobalt.count = count;
            cobalt.update_root(&law);
            cobalt.inverse_sqrt
        };
        let up: [u32; 1001] = core::array::from_fn(|count| at(count as u32));
        for (count, root) in [
            (16, 1_071_990_595),
            (17, 1_040_347_021),
            (18, 1_011_159_980),
            (19, 984_308_765),
            (20, 959_482_442),
            (24, 876_134_612),
            (28, 811_283_381),
            (32, 758_971_400),
            (64, 536_821_668),
            (100, 429_480_604),
            (1000, 135_818_750),
        ] {
            assert_eq!(up[count], root, "count {count}, up");
        }
        let mut cobalt = Cobalt { inverse_sqrt: up[32], ..Cobalt::default() };
        for count in (15..32).rev() {
            cobalt.count = count;
            cobalt.update_root(&law);
            let expected = match count {
                31 => 771_100_196,
                30 => 783_826_196,
                24 => 876_142_304,
                20 => 959_496_827,
                17 => 1_040_356_054,
                16 => 1_072_200_871,
                15 => 1_108_955_788,
                _ => continue,
            };
            assert_eq!(cobalt.inverse_sqrt, expected, "count {count}, down");
        }
    }

    /// spec/cake.md §23.4 and §16.2: steps of the control law, for which the interval has 32 bits.
    #[test]
    fn control_law() {
        let parameters = |interval_ns| CobaltParameters { interval_ns, ..CobaltParameters::default() };
        for (linux, count2, count3) in [
            (Linux::V6_1, 70_670_846, 57_735_025),
            (Linux::V6_12, 70_710_678, 57_735_026),
            (Linux::V7_2, 70_710_678, 57_735_026),
        ] {
            let steps = [99_999_999, 99_999_999, count2, count3, 49_999_999, 44_721_359, 40_824_829];
            for (count, step) in steps.into_iter().enumerate() {
                let mut cobalt = Cobalt { count: count as u32, ..Cobalt::default() };
                cobalt.update_root(&Law::of(linux));
                assert_eq!(cobalt.control_law(1_000, &parameters(100_000_000)), 1_000 + step, "{linux}, {count}");
            }
        }
        let cobalt = Cobalt { inverse_sqrt: u32::MAX, ..Cobalt::default() };
        assert_eq!(cobalt.control_law(0, &parameters(1_000_000_000_000)), 3_567_587_327);
        assert_eq!(cobalt.control_law(0, &parameters(9_084_000_000)), 494_065_407);
    }
}
