//! The average and the decision on it (spec/red.md §1–4).

/// What a configuration says of RED's law, as Linux receives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thresholds {
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) wlog: u8,
    pub(crate) plog: u8,
    /// Maximum probability times 2^32; 0 takes it from `plog`.
    pub(crate) max_p: u32,
}

/// The option that makes thresholds invalid, its value, and what is allowed.
pub(crate) type Invalid = (&'static str, u64, &'static str);

impl Thresholds {
    /// Refuses what Linux refuses (the two halves of its check that need no table).
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        // The position of the highest one bit, from 1.
        let bits = |value: u32| 32 - value.leading_zeros();
        if bits(self.min) + u32::from(self.wlog) >= 32 {
            return Err(("min", self.min.into(), "scaled by the average's weight it must stay below 2^31"));
        }
        if bits(self.max) + u32::from(self.wlog) >= 32 {
            return Err(("max", self.max.into(), "scaled by the average's weight it must stay below 2^31"));
        }
        if self.max < self.min {
            return Err(("max", self.max.into(), "at least min"));
        }
        Ok(())
    }
}

/// The derived parameters (spec/red.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Law {
    /// Thresholds on the scaled average.
    min: u32,
    max: u32,
    delta: u32,
    pub(crate) wlog: u8,
    pub(crate) max_p: u32,
    /// The divisor that maps a draw onto the distance to the next mark.
    divisor: u32,
    /// What adaptation aims at, on the unscaled average.
    target_low: u32,
    target_high: u32,
}

impl Law {
    /// From checked thresholds.
    pub(crate) fn new(thresholds: &Thresholds) -> Self {
        let Thresholds { min, max, wlog, plog, max_p } = *thresholds;
        let delta = max.saturating_sub(min).max(1);
        let max_p =
            if max_p != 0 { max_p } else { u32::MAX.checked_shr(plog.into()).unwrap_or(u32::MAX).wrapping_mul(delta) };
        let fifth = delta / 5;
        Self {
            min: min << wlog,
            max: max << wlog,
            delta,
            wlog,
            max_p,
            divisor: (max_p / delta).max(1),
            target_low: min.wrapping_add(2 * fifth),
            target_high: min.wrapping_add(3 * fifth),
        }
    }

    /// One step of adaptation, on the unscaled average (spec/red.md §6).
    pub(crate) fn adapt(&mut self, average: u64) {
        /// One percent.
        const ONE: u32 = 42_949_673;
        if average > u64::from(self.target_high) && self.max_p <= 50 * ONE {
            self.max_p = self.max_p.wrapping_add((self.max_p >> 2).min(ONE));
        } else if average < u64::from(self.target_low) && self.max_p >= ONE {
            self.max_p = self.max_p / 10 * 9;
        }
        // Rounded here, floored when configured.
        self.divisor = (self.max_p.wrapping_add(self.delta / 2) / self.delta).max(1);
    }
}

/// What RED makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Below the region, or spared.
    Pass,
    /// Picked by chance between the thresholds.
    Probabilistic,
    /// The average is at or above the upper threshold.
    Hard,
}

/// RED's running state, for those who compare states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// The average queue length in bytes, times 2^`wlog`.
    pub scaled_bytes: u64,
    /// Packets since the last mark or drop between the thresholds; −1 outside.
    pub count: i32,
    /// The cached draw: the next mark falls due when count times excess reaches it.
    pub random: u32,
    /// When the queue became idle, ns; 0 while it is not.
    pub idle_since_ns: u64,
}

impl Average {
    pub(crate) const START: Self = Self { scaled_bytes: 0, count: -1, random: 0, idle_since_ns: 0 };

    /// Starts over; the cached draw and the idle period stay.
    pub(crate) const fn restart(&mut self) {
        self.scaled_bytes = 0;
        self.count = -1;
    }

    /// The average after an arrival that finds `backlog` bytes queued.
    #[inline]
    pub(crate) const fn follow(&mut self, law: &Law, backlog: u32) {
        let avg = self.scaled_bytes;
        self.scaled_bytes = avg.wrapping_add(backlog as u64).wrapping_sub(avg >> law.wlog);
    }

    /// Decides on the average as it stands. Draws when a new distance is needed.
    #[inline]
    pub(crate) fn decide(&mut self, law: &Law, draw: impl FnOnce() -> u32) -> Decision {
        let avg = self.scaled_bytes;
        if avg < u64::from(law.min) {
            self.count = -1;
            return Decision::Pass;
        }
        if avg >= u64::from(law.max) {
            self.count = -1;
            return Decision::Hard;
        }
        self.count = self.count.wrapping_add(1);
        if self.count == 0 {
            self.random = draw() / law.divisor;
            return Decision::Pass;
        }
        // A count above 2^31 would sign-extend, as Linux's does.
        let excess = (avg - u64::from(law.min)) >> law.wlog;
        if excess.wrapping_mul(i64::from(self.count) as u64) < u64::from(self.random) {
            return Decision::Pass;
        }
        self.count = 0;
        self.random = draw() / law.divisor;
        Decision::Probabilistic
    }
}
