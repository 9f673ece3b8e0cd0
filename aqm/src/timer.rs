//! The timers of Linux as deadlines: jiffies and their timer wheel, and the high-resolution watchdog
//! (spec/common.md §2). Nothing here fires by itself; the caller reads [`Event`]s and calls back.

use crate::{Event, EventKind, Host, TimerModel};

/// The device host's jiffies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jiffies {
    hz: u32,
    model: TimerModel,
}

impl Jiffies {
    pub(crate) const fn new(host: &Host) -> Self {
        // A host without a tick does not exist; 1 keeps the divisions defined.
        Self { hz: if host.hz == 0 { 1 } else { host.hz }, model: host.timers }
    }

    /// Jiffies per second.
    pub(crate) const fn hz(self) -> u32 {
        self.hz
    }

    const fn ns_per_jiffy(self) -> u64 {
        1_000_000_000 / self.hz as u64
    }

    /// Microseconds to jiffies, rounded up.
    pub(crate) const fn us_to_jiffies(self, us: u32) -> u32 {
        (us as u64 * self.hz as u64).div_ceil(1_000_000) as u32
    }

    /// Jiffies to the microseconds that Linux reports, cut to 32 bits.
    pub(crate) const fn jiffies_to_us(self, jiffies: u32) -> u32 {
        (jiffies as u64 * 1_000_000 / self.hz as u64) as u32
    }

    /// The number of the jiffy at a time.
    pub(crate) const fn at(self, now_ns: u64) -> u64 {
        now_ns / self.ns_per_jiffy()
    }

    /// When a timer fires that is armed at `now_ns` for `jiffies` later.
    pub(crate) const fn fires_at_ns(self, now_ns: u64, jiffies: u32) -> u64 {
        match self.model {
            TimerModel::Nominal => now_ns.saturating_add(jiffies as u64 * self.ns_per_jiffy()),
            TimerModel::KernelLike => wheel_expiry(self.at(now_ns), jiffies).saturating_mul(self.ns_per_jiffy()),
        }
    }
}

/// The jiffy at which the timer wheel runs a timer armed at jiffy `now` for `delta` jiffies later: never before that,
/// and rounded up to the granularity of the wheel's level, which grows eightfold with each.
const fn wheel_expiry(now: u64, delta: u32) -> u64 {
    const LAST_LEVEL: u32 = 8;
    let mut level = 0;
    while level < LAST_LEVEL && delta as u64 >= 63 << (3 * level) {
        level += 1;
    }
    let shift = 3 * level;
    ((now.saturating_add(delta as u64) >> shift) + 1) << shift
}

/// A timer on jiffies, which its handler arms again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JiffyTimer {
    jiffies: Jiffies,
    due_ns: Option<u64>,
}

impl JiffyTimer {
    /// A timer that is not armed.
    pub(crate) const fn idle(host: &Host) -> Self {
        Self { jiffies: Jiffies::new(host), due_ns: None }
    }

    pub(crate) const fn jiffies(&self) -> Jiffies {
        self.jiffies
    }

    /// Arms it anew for `jiffies` after `now_ns`, which is [`Environment::coarse_now_ns`] in a handler.
    ///
    /// [`Environment::coarse_now_ns`]: crate::Environment::coarse_now_ns
    #[inline]
    pub(crate) const fn arm(&mut self, now_ns: u64, jiffies: u32) {
        self.due_ns = Some(self.jiffies.fires_at_ns(now_ns, jiffies));
    }

    #[inline]
    pub(crate) const fn disarm(&mut self) {
        self.due_ns = None;
    }

    /// The call that the timer asks for.
    #[inline]
    pub(crate) fn event(&self) -> Option<Event> {
        Some(Event { at_ns: self.due_ns?, kind: EventKind::Timer })
    }
}

/// The high-resolution timer that makes the root dequeue again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watchdog {
    due_ns: Option<u64>,
}

impl Watchdog {
    /// Asks for a call between `at_ns` and `at_ns + slack_ns`. Ignored if a pending call falls into that span.
    #[inline]
    pub(crate) const fn schedule(&mut self, at_ns: u64, slack_ns: u64) {
        if let Some(due_ns) = self.due_ns
            && due_ns.wrapping_sub(at_ns) <= slack_ns
        {
            return;
        }
        self.due_ns = Some(at_ns);
    }

    /// Takes note of the time at the start of a dequeue: a watchdog that is due has fired.
    #[inline]
    pub(crate) const fn observe(&mut self, now_ns: u64) {
        if let Some(due_ns) = self.due_ns
            && due_ns <= now_ns
        {
            self.due_ns = None;
        }
    }

    #[inline]
    pub(crate) const fn cancel(&mut self) {
        self.due_ns = None;
    }

    /// The call that the watchdog asks for.
    #[inline]
    pub(crate) fn event(&self) -> Option<Event> {
        Some(Event { at_ns: self.due_ns?, kind: EventKind::Watchdog })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Host = Host {
        mtu_bytes: 1500,
        link_header_bytes: 14,
        tx_queue_len: 1000,
        hz: 250,
        timers: TimerModel::KernelLike,
        handle: 0,
        is_root: true,
        pacing_offload_ns: 0,
        created_ns: 0,
    };
    const JIFFY_NS: u64 = 4_000_000;

    #[test]
    fn microseconds_round_up_to_jiffies() {
        let jiffies = Jiffies::new(&HOST);
        assert_eq!([0, 1, 4000, 4001, 15_000, 16_000].map(|us| jiffies.us_to_jiffies(us)), [0, 1, 1, 2, 4, 4]);
        assert_eq!(jiffies.us_to_jiffies(u32::MAX), 1_073_742);
        assert_eq!(jiffies.jiffies_to_us(4), 16_000);
        assert_eq!(jiffies.jiffies_to_us(1_073_742), 704, "4294968000 µs are cut to 32 bits");
    }

    #[test]
    fn periodic_timers_run_one_jiffy_late() {
        let mut timer = JiffyTimer::idle(&HOST);
        assert_eq!(timer.event(), None);
        let mut now = 1_000 * JIFFY_NS + 17;
        for expected in [1_005, 1_010, 1_015] {
            timer.arm(now, 4);
            now = timer.event().map_or(0, |event| event.at_ns);
            assert_eq!(now, expected * JIFFY_NS);
        }
        timer.disarm();
        assert_eq!(timer.event(), None);
    }

    #[test]
    fn half_a_second_is_126_to_133_jiffies() {
        for now in 0..64 {
            let expiry = wheel_expiry(now, 125);
            assert!((126..=133).contains(&(expiry - now)) && expiry.is_multiple_of(8), "{now} → {expiry}");
        }
        assert_eq!((wheel_expiry(0, 125), wheel_expiry(3, 125)), (128, 136), "never at the jiffy itself");
    }

    #[test]
    fn wheel_levels_begin_at_63_504_4032() {
        assert_eq!(wheel_expiry(1, 0), 2);
        assert_eq!(wheel_expiry(1, 62), 64);
        assert_eq!(wheel_expiry(1, 63), 72);
        assert_eq!(wheel_expiry(0, 503), 504);
        assert_eq!(wheel_expiry(0, 504), 512);
        assert_eq!(wheel_expiry(0, 4032), 4096);
        assert_eq!(wheel_expiry(0, 4032 + 512), 4608);
    }

    #[test]
    fn nominal_timers_fire_exactly() {
        let jiffies = Jiffies::new(&Host { timers: TimerModel::Nominal, ..HOST });
        assert_eq!(jiffies.fires_at_ns(17, 4), 16_000_017);
        assert_eq!(jiffies.fires_at_ns(17, 0), 17);
    }

    #[test]
    fn watchdog_keeps_a_pending_call_within_the_slack() {
        let mut watchdog = Watchdog::default();
        assert_eq!(watchdog.event(), None);
        watchdog.schedule(1_000, 0);
        watchdog.schedule(900, 100);
        assert_eq!(watchdog.event().map(|event| event.at_ns), Some(1_000), "1000 lies in 900..=1000");
        watchdog.schedule(899, 100);
        assert_eq!(watchdog.event().map(|event| event.at_ns), Some(899));
        watchdog.schedule(1_100, 5);
        assert_eq!(watchdog.event().map(|event| event.at_ns), Some(1_100), "a later call replaces an earlier one");
        watchdog.observe(1_099);
        assert!(watchdog.event().is_some());
        watchdog.observe(1_100);
        assert_eq!(watchdog.event(), None, "fired");
        watchdog.schedule(5, 0);
        watchdog.cancel();
        assert_eq!(watchdog.event(), None);
    }
}
