//! The shaper: a clock for the whole qdisc and one for each tin (spec/cake.md §11).

use super::rate::TimePerByte;

/// The clock of the whole qdisc. Times are signed nanoseconds on the environment's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shaper {
    /// How long a byte lasts.
    pub time: TimePerByte,
    /// When the next packet may leave.
    pub next_ns: i64,
    /// When it may leave although drops have pushed `next_ns` away (ingress mode).
    pub failsafe_ns: i64,
}

/// The clock of one tin: it decides which tin is served, not whether one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TinClock {
    /// How long a byte lasts at the tin's threshold rate.
    pub time: TimePerByte,
    /// Until when the tin has used up its share.
    pub next_ns: i64,
}

/// Was the packet sent or dropped?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Sent,
    Dropped,
}

impl Shaper {
    /// Advances both clocks by a packet of this adjusted length.
    #[inline]
    pub(super) fn charge(&mut self, tin: &mut TinClock, len: u32, now_ns: i64, fate: Fate) {
        if self.time.is_unlimited() {
            return;
        }
        let tin_ns = tin.time.duration_ns(len) as i64;
        let all_ns = self.time.duration_ns(len);
        // A tin that is behind catches up from where it was; one that is ahead is ahead by one packet at most.
        if tin.next_ns < now_ns {
            tin.next_ns = tin.next_ns.wrapping_add(tin_ns);
        } else {
            let after_this = now_ns.wrapping_add(tin_ns);
            tin.next_ns = tin.next_ns.max(after_this);
        }
        self.next_ns = self.next_ns.wrapping_add(all_ns as i64);
        if fate == Fate::Sent {
            self.failsafe_ns = self.failsafe_ns.wrapping_add(all_ns.wrapping_add(all_ns >> 1) as i64);
        }
    }

    /// Must everything wait?
    #[inline]
    pub(super) const fn holds_back(&self, now_ns: i64) -> bool {
        self.next_ns > now_ns && self.failsafe_ns > now_ns
    }

    /// When to look again.
    #[inline]
    pub(super) fn wake_ns(&self) -> i64 {
        self.next_ns.min(self.failsafe_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        let (mut all, mut tin) = (Shaper::default(), TinClock::default());
        all.charge(&mut tin, 1514, 1_000, Fate::Sent);
        assert_eq!((all, tin), Default::default(), "unlimited: nothing moves");

        all.time = TimePerByte::of(125_000);
        tin.time = TimePerByte::of(62_500);
        (all.next_ns, all.failsafe_ns, tin.next_ns) = (10_000, 10_000, 10_000);
        all.charge(&mut tin, 125, 20_000, Fate::Sent);
        assert_eq!((all.next_ns, all.failsafe_ns, tin.next_ns), (1_010_000, 1_510_000, 2_010_000), "catches up");
        all.charge(&mut tin, 125, 20_000, Fate::Dropped);
        assert_eq!((all.next_ns, all.failsafe_ns, tin.next_ns), (2_010_000, 1_510_000, 2_020_000), "one packet ahead");
        all.charge(&mut tin, 1, 20_000, Fate::Sent);
        assert_eq!((all.next_ns, all.failsafe_ns, tin.next_ns), (2_018_000, 1_522_000, 2_020_000), "not further");
        assert!(all.holds_back(1_521_999) && !all.holds_back(1_522_000));
        assert_eq!(all.wake_ns(), 1_522_000);
    }
}
