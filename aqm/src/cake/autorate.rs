//! `autorate-ingress`: the bandwidth estimated from the arrivals (spec/cake.md §12.7).

use crate::Linux;
use crate::arith::ewma;

const SECOND_NS: u64 = 1_000_000_000;

/// At most this often the shaper follows the estimate.
const SPACING_NS: i64 = 250_000_000;

/// State of the estimator. Times are signed nanoseconds on the environment's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Autorate {
    /// The estimate, bytes per second. Starts as the configured bandwidth.
    pub capacity: u64,
    /// Mean gap between arrivals, ns.
    pub gap_mean_ns: u64,
    /// Bytes that arrived in the window.
    pub window_bytes: u64,
    /// The last arrival.
    pub last_arrival_ns: i64,
    /// When the window began.
    pub window_start_ns: i64,
    /// When the shaper last followed. Stays 0 before 7.2, which therefore follows at the end of every window.
    pub last_retune_ns: i64,
}

/// Bytes per second over a window, in 64 bits throughout.
const fn rate_over(bytes: u64, window_ns: u64) -> u64 {
    match bytes.wrapping_mul(SECOND_NS).checked_div(window_ns) {
        Some(rate) => rate,
        // Linux would divide by zero here; it cannot happen while the clock runs forward.
        None => 0,
    }
}

impl Autorate {
    /// An arrival while autorate is off.
    #[inline]
    pub(super) fn idle(&mut self, now_ns: i64) {
        self.window_bytes = 0;
        self.last_arrival_ns = now_ns;
    }

    /// An arrival, whose bytes are in the window already. Returns the bandwidth to shape to, if it is to change.
    pub(super) fn on_arrival(&mut self, now_ns: i64, linux: Linux) -> Option<u64> {
        let gap_ns = (now_ns.wrapping_sub(self.last_arrival_ns) as u64).min(SECOND_NS);
        self.gap_mean_ns = ewma(self.gap_mean_ns, gap_ns, if gap_ns > self.gap_mean_ns { 2 } else { 8 });
        self.last_arrival_ns = now_ns;
        // A burst ends with a gap longer than the mean.
        if gap_ns <= self.gap_mean_ns {
            return None;
        }
        let rate = rate_over(self.window_bytes, now_ns.wrapping_sub(self.window_start_ns) as u64);
        self.capacity = ewma(self.capacity, rate, if rate > self.capacity { 2 } else { 8 });
        self.window_bytes = 0;
        self.window_start_ns = now_ns;
        if now_ns <= self.last_retune_ns.wrapping_add(SPACING_NS) {
            return None;
        }
        if linux >= Linux::V7_2 {
            self.last_retune_ns = now_ns;
        }
        Some(self.capacity.wrapping_mul(15) >> 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CK-06: the window's length has more than 32 bits.
    #[test]
    fn long_windows() {
        assert_eq!(rate_over(1_000_000, 1 << 32), 232_830);
        assert_eq!(rate_over(1_000_000, (1 << 32) + 1), 232_830);
        assert_eq!(rate_over(1_000_000, 0), 0);
    }

    /// spec/cake.md §23.14.
    #[test]
    fn worked_example() {
        let mut now = 1_000_000_000_000;
        let mut autorate = Autorate { capacity: 125_000, ..Autorate::default() };
        let mut bandwidth = 125_000;
        for (gap, gap_mean_ns, window_bytes, capacity, rate) in [
            (0, 250_000_000, 0, 124_512, 116_730),
            (100_000, 249_023_828, 1514, 124_512, 116_730),
            (100_000, 248_051_469, 3028, 124_512, 116_730),
            (100_000, 247_082_908, 4542, 124_512, 116_730),
            (400_000_000, 285_312_181, 0, 124_085, 116_329),
            (100_000, 284_198_071, 1514, 124_085, 116_329),
            (100_000, 283_088_313, 3028, 124_085, 116_329),
            (100_000, 281_982_890, 4542, 124_085, 116_329),
            (400_000_000, 311_487_168, 0, 123_660, 115_931),
        ] {
            now += gap;
            autorate.window_bytes += 1514;
            if let Some(rate) = autorate.on_arrival(now, Linux::V7_2) {
                bandwidth = rate;
            }
            assert_eq!(
                (autorate.gap_mean_ns, autorate.window_bytes, autorate.capacity, bandwidth),
                (gap_mean_ns, window_bytes, capacity, rate)
            );
        }
    }

    /// 6.1 and 6.12 follow at the end of every window, 7.2 at most every 250 ms.
    #[test]
    fn spacing() {
        for linux in Linux::ALL {
            let start = 1_000_000_000_000;
            let mut autorate = Autorate { capacity: 125_000, ..Autorate::default() };
            assert!(autorate.on_arrival(start, linux).is_some());
            let follows = |later| Autorate { gap_mean_ns: 1000, ..autorate }.on_arrival(start + later, linux).is_some();
            assert_eq!(follows(250_000_000), linux < Linux::V7_2, "{linux}");
            assert!(follows(250_000_001), "{linux}");
        }
    }
}
