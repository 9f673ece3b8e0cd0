use super::config::Law;
use crate::DropReason;

/// The base probability p' and what it was last computed from (spec/dualpi2.md §2 and §7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseProbability {
    /// Of 2^32 − 1. The classic probability is its square, the low-latency one its product with the coupling factor.
    pub probability: u32,
    /// The delay at the last update, ns.
    pub last_delay_ns: u64,
}

/// What the random draws decided for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Untouched.
    Pass,
    /// To be marked, if it can be.
    Mark,
    /// To be dropped by the probability.
    Drop,
    /// To be dropped because the low-latency probability has reached 1.
    DropOverloaded,
}

impl Decision {
    pub(super) const fn reason(self) -> DropReason {
        match self {
            Self::DropOverloaded => DropReason::Overload,
            _ => DropReason::Early,
        }
    }
}

/// Where a packet belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Class {
    /// The classic queue.
    #[default]
    Classic,
    /// The low-latency queue, under the coupled AQM and the step.
    L4s,
    /// The low-latency queue, left alone.
    LowLatency,
}

impl BaseProbability {
    /// The periodic update, from the age of the oldest waiting packet.
    pub(super) fn update(&mut self, law: &Law, delay_ns: u64) {
        let term = |distance: u64, gain: u32| (distance as i64).wrapping_mul(i64::from(gain));
        let change = term(delay_ns.wrapping_sub(law.target_ns), law.alpha)
            .wrapping_add(term(delay_ns.wrapping_sub(self.last_delay_ns), law.beta));
        self.last_delay_ns = delay_ns;
        let before = self.probability;
        // Each sum is cut to 32 bits before the test for overflow, which a large step can so escape.
        let mut after = if change > 0 {
            let sum = u64::from(before).wrapping_add((change >> 6) as u64) as u32;
            if sum < before { u32::MAX } else { sum }
        } else {
            let rest = u64::from(before).wrapping_sub(change.unsigned_abs() >> 6) as u32;
            if rest > before { 0 } else { rest }
        };
        if !law.drop_on_overload {
            after = after.min(u32::MAX / u32::from(law.coupling));
        }
        self.probability = after;
    }

    /// Decides over a packet, with draws only as far as they matter (spec/dualpi2.md §4).
    #[inline]
    pub(super) fn decide(
        &self,
        law: &Law,
        class: Class,
        is_ecn_capable: bool,
        mut draw: impl FnMut() -> u32,
    ) -> Decision {
        let coupled = u64::from(self.probability) * u64::from(law.coupling);
        let overload = coupled > u64::from(u32::MAX);
        let mut roll = |probability: u64| u64::from(draw()) <= probability;
        let base = u64::from(self.probability);
        let hit = match class {
            Class::LowLatency => return Decision::Pass,
            // The second draw only if the first hits.
            Class::Classic => {
                let hit = roll(base) && roll(base);
                if hit && overload {
                    return Decision::DropOverloaded;
                }
                hit
            }
            Class::L4s if overload => {
                let hit = law.drop_on_overload && roll(base) && roll(base);
                return if hit { Decision::DropOverloaded } else { Decision::Mark };
            }
            Class::L4s => roll(coupled),
        };
        match hit {
            false => Decision::Pass,
            true if is_ecn_capable => Decision::Mark,
            true => Decision::Drop,
        }
    }
}
