//! The windowed extremum filter (spec/cc-interface.md §9.5).

/// One reading of a [`WindowedFilter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When it was taken, in the caller's unit (ticks, rounds).
    pub t: u32,
    /// Its value.
    pub v: u32,
}

/// Best, second and third best readings of a sliding window: Linux's three-entry running minimum or maximum.
///
/// It keeps no history, so the answer is an approximation of the true windowed extremum, and the exact answer depends
/// on these steps; the same state serves both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowedFilter {
    /// The three readings, best first.
    pub e: [Reading; 3],
}

impl WindowedFilter {
    /// A filter that has seen only (`t`, `v`).
    #[inline]
    #[must_use]
    pub const fn new(t: u32, v: u32) -> Self {
        Self { e: [Reading { t, v }; 3] }
    }

    /// The current extremum.
    #[inline(always)]
    #[must_use]
    pub const fn get(&self) -> u32 {
        self.e[0].v
    }

    /// Forgets everything but (`t`, `v`).
    #[inline]
    pub fn reset(&mut self, t: u32, v: u32) -> u32 {
        *self = Self::new(t, v);
        v
    }

    /// Takes a reading into a running maximum over `window` (same unit as `t`).
    #[inline]
    pub fn running_max(&mut self, window: u32, t: u32, v: u32) -> u32 {
        self.update(window, t, v, |new, old| new >= old)
    }

    /// Takes a reading into a running minimum over `window`.
    #[inline]
    pub fn running_min(&mut self, window: u32, t: u32, v: u32) -> u32 {
        self.update(window, t, v, |new, old| new <= old)
    }

    #[inline(always)]
    fn update(&mut self, window: u32, t: u32, v: u32, better: impl Fn(u32, u32) -> bool) -> u32 {
        let new = Reading { t, v };
        if better(v, self.e[0].v) || t.wrapping_sub(self.e[2].t) > window {
            return self.reset(t, v);
        }
        if better(v, self.e[1].v) {
            self.e[1] = new;
            self.e[2] = new;
        } else if better(v, self.e[2].v) {
            self.e[2] = new;
        }
        self.age(window, new);
        self.e[0].v
    }

    /// Readings that left the window make room; a quarter and a half of the window without a better reading fill the
    /// second and third places.
    #[inline(always)]
    fn age(&mut self, window: u32, new: Reading) {
        let dt = new.t.wrapping_sub(self.e[0].t);
        if dt > window {
            self.shift(new);
            if new.t.wrapping_sub(self.e[0].t) > window {
                self.shift(new);
            }
        } else if self.e[1].t == self.e[0].t && dt > window / 4 {
            self.e[1] = new;
            self.e[2] = new;
        } else if self.e[2].t == self.e[1].t && dt > window / 2 {
            self.e[2] = new;
        }
    }

    #[inline(always)]
    fn shift(&mut self, new: Reading) {
        self.e = [self.e[1], self.e[2], new];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(f: &WindowedFilter) -> [(u32, u32); 3] {
        f.e.map(|r| (r.t, r.v))
    }

    #[test]
    fn maximum_over_ten_rounds() {
        // spec/cc-interface.md §9.5, the table.
        let mut f = WindowedFilter::new(0, 5);
        for (t, v, out, e) in [
            (1, 7, 7, [(1, 7), (1, 7), (1, 7)]),
            (2, 3, 7, [(1, 7), (1, 7), (1, 7)]),
            (4, 6, 7, [(1, 7), (4, 6), (4, 6)]),
            (5, 4, 7, [(1, 7), (4, 6), (4, 6)]),
            (7, 5, 7, [(1, 7), (4, 6), (7, 5)]),
            (9, 2, 7, [(1, 7), (4, 6), (7, 5)]),
            (11, 3, 7, [(1, 7), (4, 6), (7, 5)]),
            (12, 3, 6, [(4, 6), (7, 5), (12, 3)]),
            (13, 1, 6, [(4, 6), (7, 5), (12, 3)]),
            (15, 1, 5, [(7, 5), (12, 3), (15, 1)]),
            (18, 1, 3, [(12, 3), (18, 1), (18, 1)]),
            (30, 1, 1, [(30, 1), (30, 1), (30, 1)]),
        ] {
            assert_eq!(f.running_max(10, t, v), out, "at {t}");
            assert_eq!(flat(&f), e, "at {t}");
        }
    }

    #[test]
    fn minimum_over_three_hundred_seconds() {
        let mut f = WindowedFilter::new(0, u32::MAX);
        for (t, v, out) in [
            (0, 40_000, 40_000),
            (1000, 41_000, 40_000),
            (80_000, 42_000, 40_000),
            (160_000, 40_500, 40_000),
            (299_999, 45_000, 40_000),
            (300_000, 46_000, 40_000),
            (300_001, 47_000, 40_500),
            (400_000, 60_000, 40_500),
            (460_001, 61_000, 45_000),
        ] {
            assert_eq!(f.running_min(300_000, t, v), out, "at {t}");
        }
    }
}
