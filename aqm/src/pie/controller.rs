use super::config::Law;

/// The probability 1: 2^56 − 1 (spec/pie.md §2). A probability may exceed it; only a wrap of 64 bits is caught.
pub const MAX_PROBABILITY: u64 = (1 << 56) - 1;
/// "Unset" in [`Controller::last_dequeue`] and [`Controller::cycle_bytes`].
pub const UNSET: u64 = u64::MAX;

/// 150 ms in psched ticks.
const BURST_ALLOWANCE: u64 = 2_343_750;
/// 250 ms in psched ticks: a delay above it raises the probability by another 2 %.
const HIGH_DELAY: u64 = 3_906_250;
/// A measurement cycle of the departure rate covers this many bytes.
const RATE_THRESHOLD_BYTES: u64 = 16_384;
const TICKS_PER_SECOND: u64 = 15_625_000;
/// Below 0.85 accumulated nothing is dropped, from 8.5 on everything.
const NEVER_BELOW: u64 = MAX_PROBABILITY / 100 * 85;
const ALWAYS_FROM: u64 = MAX_PROBABILITY / 2 * 17;

/// One PIE controller (spec/pie.md §3): one per `pie` qdisc, one per bucket of fq_pie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Drop probability, of [`MAX_PROBABILITY`].
    pub probability: u64,
    /// Probability summed up since the last drop.
    pub accumulated: u64,
    /// Queue delay now, psched ticks.
    pub delay: u64,
    /// Queue delay before, psched ticks.
    pub old_delay: u64,
    /// What is left of the burst allowance, psched ticks.
    pub burst: u64,
    /// Time of the last dequeue, or start of the measurement cycle, psched ticks; or [`UNSET`].
    pub last_dequeue: u64,
    /// Bytes departed in the measurement cycle; or [`UNSET`].
    pub cycle_bytes: u64,
    /// Average departure rate, bytes · 256 per psched tick.
    pub drain_rate: u32,
}

impl Default for Controller {
    fn default() -> Self {
        Self::INITIAL
    }
}

impl Controller {
    /// The state at creation.
    pub const INITIAL: Self = Self {
        probability: 0,
        accumulated: 0,
        delay: 0,
        old_delay: 0,
        burst: BURST_ALLOWANCE,
        last_dequeue: UNSET,
        cycle_bytes: UNSET,
        drain_rate: 0,
    };

    /// The average departure rate as Linux reports it, bytes per second.
    pub const fn drain_rate_bytes(&self) -> u32 {
        ((self.drain_rate as u64 * TICKS_PER_SECOND) >> 8) as u32
    }

    /// Starts anew after idleness or a reset. Probability and delays survive.
    pub(crate) const fn restart(&mut self) {
        self.accumulated = 0;
        self.burst = BURST_ALLOWANCE;
        self.last_dequeue = UNSET;
        self.cycle_bytes = UNSET;
        self.drain_rate = 0;
    }

    /// Is the arriving packet of `buffer_bytes` to be dropped or marked, with `backlog_bytes` already queued
    /// (spec/pie.md §4)? `draw` is called at most once.
    #[inline]
    pub(crate) fn hits(
        &mut self,
        law: &Law,
        backlog_bytes: u32,
        buffer_bytes: u32,
        draw: impl FnOnce() -> u64,
    ) -> bool {
        self.burst == 0 && self.hits_after_burst(law, backlog_bytes, buffer_bytes, draw)
    }

    fn hits_after_burst(
        &mut self,
        law: &Law,
        backlog_bytes: u32,
        buffer_bytes: u32,
        draw: impl FnOnce() -> u64,
    ) -> bool {
        if self.delay < law.target / 2 && self.probability < MAX_PROBABILITY / 5 || backlog_bytes < 2 * law.mtu {
            return false;
        }
        let local = if law.bytemode && buffer_bytes <= law.mtu {
            u64::from(buffer_bytes).wrapping_mul(self.probability / u64::from(law.mtu))
        } else {
            self.probability
        };
        self.accumulated = if local == 0 { 0 } else { self.accumulated.wrapping_add(local) };
        if self.accumulated < NEVER_BELOW {
            return false;
        }
        if self.accumulated >= ALWAYS_FROM {
            return true;
        }
        if draw() >> 8 < local {
            self.accumulated = 0;
            return true;
        }
        false
    }

    /// Takes note of a departure that left `backlog_bytes` behind (spec/pie.md §5). `now` reads the clock, in psched
    /// ticks; `enqueued` is the packet's stamp.
    #[inline]
    pub(crate) fn departed(
        &mut self,
        law: &Law,
        enqueued: u64,
        buffer_bytes: u32,
        backlog_bytes: u32,
        mut now: impl FnMut() -> u64,
    ) {
        let time = now();
        let elapsed = if law.dq_rate_estimator {
            self.measure_rate(time, buffer_bytes, backlog_bytes, now)
        } else {
            self.delay = if backlog_bytes != 0 { time.wrapping_sub(enqueued) } else { 0 };
            let last = core::mem::replace(&mut self.last_dequeue, time);
            if last == UNSET { 0 } else { time.wrapping_sub(last) as u32 }
        };
        self.burst = self.burst.saturating_sub(u64::from(elapsed));
    }

    /// The departure-rate estimator; returns the length of a cycle that ended, else 0.
    fn measure_rate(&mut self, time: u64, buffer_bytes: u32, backlog_bytes: u32, mut now: impl FnMut() -> u64) -> u32 {
        let long = u64::from(backlog_bytes) >= RATE_THRESHOLD_BYTES;
        if self.cycle_bytes == UNSET {
            if !long {
                return 0;
            }
            self.last_dequeue = now();
            self.cycle_bytes = 0;
        }
        self.cycle_bytes = self.cycle_bytes.wrapping_add(u64::from(buffer_bytes));
        if self.cycle_bytes < RATE_THRESHOLD_BYTES {
            return 0;
        }
        let elapsed = time.wrapping_sub(self.last_dequeue) as u32;
        let Some(rate) = ((self.cycle_bytes << 8) as u32).checked_div(elapsed) else { return 0 };
        self.drain_rate = if self.drain_rate == 0 {
            rate
        } else {
            (self.drain_rate - (self.drain_rate >> 3)).wrapping_add(rate >> 3)
        };
        if long {
            self.cycle_bytes = 0;
            self.last_dequeue = now();
        } else {
            self.cycle_bytes = UNSET;
        }
        elapsed
    }

    /// The periodic update of the probability (spec/pie.md §6).
    pub(crate) fn update(&mut self, law: &Law, backlog_bytes: u32) {
        let (delay, old_delay) = if law.dq_rate_estimator {
            self.old_delay = self.delay;
            ((backlog_bytes << 8).checked_div(self.drain_rate).unwrap_or(0).into(), self.old_delay)
        } else {
            (self.delay, self.old_delay)
        };
        let mut may_decay = delay != 0 || backlog_bytes == 0;

        let mut change = self.pi_step(law, delay, old_delay);
        if change > (MAX_PROBABILITY / 50) as i64 && self.probability >= MAX_PROBABILITY / 10 {
            change = (MAX_PROBABILITY / 100 * 2) as i64;
        }
        if delay > HIGH_DELAY {
            change = change.wrapping_add((MAX_PROBABILITY / 50) as i64);
        }
        let before = self.probability;
        self.probability = before.wrapping_add_signed(change);
        if change > 0 {
            if self.probability < before {
                self.probability = MAX_PROBABILITY;
                may_decay = false;
            }
        } else if self.probability > before {
            self.probability = 0;
        }
        if delay == 0 && old_delay == 0 && may_decay {
            self.probability -= self.probability / 64;
        }

        self.delay = delay;
        let low = law.target / 2;
        if self.delay < low
            && self.old_delay < low
            && self.probability == 0
            && (!law.dq_rate_estimator || self.drain_rate > 0)
        {
            self.restart();
        }
        if !law.dq_rate_estimator {
            self.old_delay = delay;
        }
    }

    /// The proportional-integral step, with gains that shrink with the probability.
    fn pi_step(&self, law: &Law, delay: u64, old_delay: u64) -> i64 {
        let gain = |weight: u32| u64::from(weight).wrapping_mul(MAX_PROBABILITY / TICKS_PER_SECOND) >> 4;
        let (mut alpha, mut beta) = (gain(law.alpha), gain(law.beta));
        if self.probability < MAX_PROBABILITY / 10 {
            alpha >>= 1;
            beta >>= 1;
            let mut power = 100;
            while power <= 1_000_000 && self.probability < MAX_PROBABILITY / power {
                alpha >>= 2;
                beta >>= 2;
                power *= 10;
            }
        }
        let integral = alpha.wrapping_mul(delay.wrapping_sub(law.target));
        let proportional = beta.wrapping_mul(delay.wrapping_sub(old_delay));
        integral.wrapping_add(proportional) as i64
    }
}
