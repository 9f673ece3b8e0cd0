//! TCP Prague (spec/prague.md). **Not Linux-exact**: no mainline kernel has it and the public module has several
//! versions; this port reproduces the stated arithmetic of version 0.6.

use crate::algorithm::{AckFlags, Algorithm, CwndEvent, Flags, Info};
use crate::conn::{CaState, Conn, EcnMode, PaceMode};
use crate::env::Env;
use crate::rate::RateSample;
use crate::reno;
use crate::window::slow_start;

/// Bits of fraction of α and of the window.
const FRACTION: u32 = 20;
const ONE: u64 = 1 << FRACTION;
/// α is kept multiplied by 16 so that remainders are not lost.
const ALPHA_SCALE: u32 = 4;
/// IP and TCP header with timestamps: pacing counts whole IP packets.
const HEADERS: u32 = 52;

/// How the increase depends on the RTT (§2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RttScaling {
    /// One packet per RTT.
    None,
    /// As if the RTT were the target's, in terms of rate.
    #[default]
    Rate,
}

/// Module parameters (§2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// A burst lasts 2^−shift seconds.
    pub burst_shift: u8,
    /// Independence of the RTT.
    pub rtt_scaling: RttScaling,
    /// Virtual RTT, µs.
    pub rtt_target_us: u32,
    /// Rounds after slow start before the RTT is scaled.
    pub rtt_transition: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self { burst_shift: 12, rtt_scaling: RttScaling::Rate, rtt_target_us: 25_000, rtt_transition: 500 }
    }
}

/// Prague's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// α · 2^24.
    pub alpha_scaled: u64,
    /// Fractional window, 2^20 = one packet.
    pub window: u64,
    /// Rounds since slow start ended.
    pub rounds: u32,
    round_end: u32,
    d0: u32,
    ce0: u32,
    last_ce: u32,
    ce_seen: bool,
    updated_us: u64,
    cut_us: u64,
    in_loss: bool,
    window_before: u64,
    cwnd_before: u32,
}

/// Prague. Without AccECN it becomes Reno ("prague-reno") at `init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prague {
    /// Parameters.
    pub params: Params,
    /// State, for diagnostics.
    pub state: State,
    enabled: bool,
}

impl Default for Prague {
    fn default() -> Self {
        Self::new(Params::default())
    }
}

/// The marked fraction after a round of `d` packets with `e` marks: `a` is α · 2^24 (§2.3).
#[must_use]
pub fn next_alpha(a: u64, d: u32, e: u32) -> u64 {
    let gain = (u64::from(e) << FRACTION) / u64::from(d.max(1));
    (a - (a >> 4) + gain).min(ONE << ALPHA_SCALE)
}

/// Packets · 2^20 that one window's worth of ACKs adds, for an RTT of `rtt_us` (§2.5).
#[must_use]
pub fn increment(p: &Params, rtt_us: u32) -> u64 {
    let (r, t) = (u64::from(rtt_us) >> 7, u64::from(p.rtt_target_us) >> 7);
    if p.rtt_scaling == RttScaling::None || r == 0 || r >= t || rtt_us > 100_000 {
        return ONE;
    }
    (ONE * r * r + t * t / 2) / (t * t)
}

impl Prague {
    /// Prague with these parameters.
    #[must_use]
    pub fn new(params: Params) -> Self {
        Self { params, state: State::default(), enabled: true }
    }

    /// False once the connection runs "prague-reno" for lack of AccECN.
    #[must_use]
    pub const fn enabled(&self) -> bool {
        self.enabled
    }

    /// α, 2^20 = 1.
    #[must_use]
    pub const fn alpha(&self) -> u64 {
        self.state.alpha_scaled >> ALPHA_SCALE
    }

    fn scales(&self, c: &Conn) -> bool {
        self.params.rtt_scaling != RttScaling::None
            && !c.in_slow_start()
            && self.state.rounds >= self.params.rtt_transition
    }

    fn new_round(&mut self, c: &Conn) {
        let s = &mut self.state;
        (s.round_end, s.d0, s.ce0, s.updated_us) = (c.nxt, c.delivered, c.delivered_ce, c.now_us);
    }

    /// Once per (virtual) round.
    fn update_alpha(&mut self, c: &Conn) {
        let target = u64::from(self.params.rtt_target_us);
        if !c.una_reached(self.state.round_end)
            || (self.scales(c) && c.now_us.saturating_sub(self.state.updated_us) < target)
        {
            return;
        }
        let (d, e) = (c.delivered.wrapping_sub(self.state.d0), c.delivered_ce.wrapping_sub(self.state.ce0));
        if self.state.ce_seen {
            self.state.alpha_scaled = next_alpha(self.state.alpha_scaled, d, e);
        }
        if !c.in_slow_start() {
            self.state.rounds = self.state.rounds.saturating_add(1);
        }
        self.new_round(c);
    }

    /// Growth by unmarked deliveries, also during CWR, not during loss recovery.
    fn grow(&mut self, c: &mut Conn, n: u32) {
        if n == 0 || self.state.in_loss || !c.is_cwnd_limited() {
            return;
        }
        let mut n = n;
        if c.in_slow_start() {
            n = slow_start(c, n);
            self.state.window = u64::from(c.cwnd) << FRACTION;
            if n == 0 {
                return;
            }
        }
        let packets = self.state.window.div_ceil(ONE).max(1);
        let inc = if self.scales(c) { increment(&self.params, c.srtt8 >> 3) } else { ONE };
        let n = u64::from(n);
        self.state.window = self.state.window.saturating_add(n.max((n * inc + packets / 2) / packets));
    }

    /// The window follows the model by one packet per ACK.
    fn follow(&mut self, c: &mut Conn) {
        let target = self.state.window.div_ceil(ONE).min(u64::from(c.cwnd_cap)) as u32;
        if c.cwnd < target {
            c.cwnd += 1;
        } else if c.cwnd > target && c.cwnd > 2 {
            c.cwnd -= 1;
            c.ssthresh = c.cwnd;
        }
    }

    fn pace(&self, c: &mut Conn) {
        let mtu = c.mss.saturating_add(HEADERS);
        c.pace_rate = rate(self.state.window, c.srtt8, mtu, c.cwnd < c.ssthresh / 2).min(c.max_pace);
    }

    fn react_to_loss(&mut self, c: &Conn) {
        let s = &mut self.state;
        (s.window_before, s.cwnd_before) = (s.window, c.cwnd);
        s.window -= s.window / 2;
        s.in_loss = true;
    }
}

/// Pacing rate, bytes/s, of a fractional window (§2.6).
#[must_use]
pub fn rate(window: u64, srtt8: u32, mtu: u32, double: bool) -> u64 {
    let per_window = 8_000_000 * u64::from(mtu) / u64::from(srtt8.max(1));
    let per_window = if double { per_window * 2 } else { per_window };
    ((u128::from(per_window) * u128::from(window) + u128::from(ONE / 2)) >> FRACTION).min(u128::from(u64::MAX)) as u64
}

impl Algorithm for Prague {
    fn name(&self) -> &'static str {
        if self.enabled { "prague" } else { "prague-reno" }
    }

    fn flags(&self) -> Flags {
        let on = self.enabled;
        Flags { needs_ecn: on, needs_accecn: on, ect1: on, no_rfc3168_fallback: on, ..Flags::default() }
    }

    fn init<E: Env>(&mut self, c: &mut Conn, _env: &mut E) {
        if c.ecn.mode != EcnMode::AccEcn && !c.unconnected {
            self.enabled = false;
            return;
        }
        self.state = State {
            alpha_scaled: ONE << ALPHA_SCALE,
            window: u64::from(c.cwnd) << FRACTION,
            last_ce: c.delivered_ce,
            ..State::default()
        };
        self.new_round(c);
        if c.pace_mode == PaceMode::None {
            c.pace_mode = PaceMode::Internal;
        }
        self.pace(c);
    }

    fn ssthresh<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        if self.enabled { c.ssthresh } else { reno::ssthresh(c) }
    }

    fn cong_avoid<E: Env>(&mut self, c: &mut Conn, _env: &mut E, _ack: u32, acked: u32) {
        reno::cong_avoid(c, acked);
    }

    fn has_cong_control(&self) -> bool {
        self.enabled
    }

    fn cong_control<E: Env>(&mut self, c: &mut Conn, _env: &mut E, _ack: u32, _flags: AckFlags, rs: &RateSample) {
        let marks = c.delivered_ce.wrapping_sub(self.state.last_ce);
        self.state.last_ce = c.delivered_ce;
        self.state.ce_seen |= marks > 0;
        if c.state < CaState::Recovery {
            self.state.in_loss = false;
        }
        self.update_alpha(c);
        self.grow(c, rs.acked_sacked.saturating_sub(marks));
        if rs.acked_sacked > 0 {
            self.follow(c);
        }
        self.pace(c);
    }

    fn set_state<E: Env>(&mut self, c: &mut Conn, _env: &mut E, new: CaState) {
        if !self.enabled || new == c.state {
            return;
        }
        match new {
            CaState::Cwr => {
                // Scaled flows answer at most once per target RTT.
                let wait = if self.scales(c) { u64::from(self.params.rtt_target_us) } else { 0 };
                if c.now_us.saturating_sub(self.state.cut_us) >= wait {
                    let alpha = self.alpha();
                    let s = &mut self.state;
                    let cut = ((u128::from(alpha) * u128::from(s.window) + u128::from(ONE)) >> (FRACTION + 1)) as u64;
                    s.window -= cut.min(s.window);
                    s.cut_us = c.now_us;
                    // Slow start is over.
                    c.ssthresh = c.ssthresh.min(c.cwnd);
                }
            }
            CaState::Recovery => {
                c.ssthresh = c.ssthresh.min(c.cwnd);
                self.react_to_loss(c);
            }
            CaState::Open | CaState::Disorder | CaState::Loss => {}
        }
    }

    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, _env: &mut E, event: CwndEvent) {
        if self.enabled && event == CwndEvent::Loss {
            self.react_to_loss(c);
        }
    }

    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        if !self.enabled {
            return reno::undo_cwnd(c);
        }
        self.state.window = self.state.window.max(self.state.window_before);
        c.cwnd.max(self.state.cwnd_before)
    }

    fn min_tso_segs(&self, c: &Conn) -> Option<u32> {
        let mtu = u64::from(c.mss.saturating_add(HEADERS));
        let segments = (c.pace_rate / mtu) >> self.params.burst_shift.min(63);
        self.enabled.then_some(segments.clamp(1, 65_535) as u32)
    }

    fn info(&self, _c: &Conn) -> Info {
        Info::Prague { alpha: self.alpha(), fractional_window: self.state.window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;
    use crate::env::Fixed;

    fn started(cwnd: u32) -> (Conn, Prague, Fixed) {
        let (mut c, mut a, mut e) = (Conn::new(1448, Hz::H1000, 0), Prague::default(), Fixed::default());
        c.ecn.mode = EcnMode::AccEcn;
        (c.cwnd, c.ssthresh, c.srtt8, c.limited) = (cwnd, 2, 320_000, true);
        a.init(&mut c, &mut e);
        (c, a, e)
    }

    #[test]
    fn alpha_keeps_small_fractions() {
        let run = |start: u64, d, e| {
            let mut a = start << ALPHA_SCALE;
            core::array::from_fn::<u64, 6, _>(|i| {
                if i > 0 {
                    a = next_alpha(a, d, e);
                }
                a >> ALPHA_SCALE
            })
        };
        assert_eq!(run(ONE, 100, 0), [1_048_576, 983_040, 921_600, 864_000, 810_000, 759_375]);
        assert_eq!(run(ONE, 100, 10), [1_048_576, 989_593, 934_297, 882_457, 833_857, 788_295]);
        assert_eq!(run(0, 1000, 1), [0, 65, 126, 184, 238, 289]);
    }

    #[test]
    fn increments() {
        let p = Params::default();
        for (us, want) in
            [(500, 248), (1000, 1351), (5000, 41_943), (10_000, 167_772), (20_000, 671_089), (25_000, ONE)]
        {
            assert_eq!(increment(&p, us), want);
        }
        assert_eq!(increment(&p, 0), ONE);
    }

    #[test]
    fn cut_is_half_of_alpha_and_walked_down() {
        for (cwnd, half_alpha, want) in [(10u32, 1u64, 5.0), (10, 2, 7.5), (100, 1, 50.0), (100, 10, 95.0), (2, 2, 1.5)]
        {
            let (mut c, mut a, mut e) = started(cwnd);
            a.state.alpha_scaled = (ONE << ALPHA_SCALE) / half_alpha;
            a.set_state(&mut c, &mut e, CaState::Cwr);
            let window = a.state.window as f64 / ONE as f64;
            assert!((window - want).abs() < 0.001, "{cwnd}: {window}");
            c.state = CaState::Cwr;
            assert_eq!(c.cwnd, cwnd);
            for _ in 0..cwnd {
                let rs = RateSample { acked_sacked: 1, ..RateSample::default() };
                c.limited = false;
                a.cong_control(&mut c, &mut e, 0, AckFlags::default(), &rs);
            }
            assert_eq!(c.cwnd, (window.ceil() as u32).max(2));
        }
    }

    #[test]
    fn grows_by_unmarked_deliveries_even_in_cwr() {
        let (mut c, mut a, mut e) = started(10);
        c.state = CaState::Cwr;
        let rs = RateSample { acked_sacked: 10, ..RateSample::default() };
        a.cong_control(&mut c, &mut e, 0, AckFlags::default(), &rs);
        assert_eq!(a.state.window, 11 * ONE);
        c.delivered_ce += 10;
        a.cong_control(&mut c, &mut e, 0, AckFlags::default(), &rs);
        assert_eq!(a.state.window, 11 * ONE);
    }

    #[test]
    fn loss_halves_until_open() {
        let (mut c, mut a, mut e) = started(100);
        a.set_state(&mut c, &mut e, CaState::Recovery);
        c.state = CaState::Recovery;
        assert_eq!(a.state.window, 50 * ONE);
        let rs = RateSample { acked_sacked: 50, ..RateSample::default() };
        a.cong_control(&mut c, &mut e, 0, AckFlags::default(), &rs);
        assert_eq!((a.state.window, c.cwnd), (50 * ONE, 99));
        assert_eq!(a.undo_cwnd(&mut c, &mut e), 100);
        assert_eq!(a.state.window, 100 * ONE);
    }

    #[test]
    fn pacing_counts_whole_packets() {
        for (f, srtt, double, want) in [
            (10, 40_000, false, 375_000),
            (10, 40_000, true, 750_000),
            (100, 40_000, false, 3_750_000),
            (1000, 10_000, false, 150_000_000),
            (1000, 10_000, true, 300_000_000),
        ] {
            assert_eq!(rate(f * ONE, srtt * 8, 1500, double), want);
        }
        let (mut c, a, _) = started(10);
        for (rate, want) in [(375_000, 1), (150_000_000, 24), (300_000_000, 48)] {
            c.pace_rate = rate;
            assert_eq!(a.min_tso_segs(&c), Some(want));
        }
    }

    #[test]
    fn needs_accecn() {
        let (mut c, mut a, mut e) = (Conn::new(1448, Hz::H1000, 0), Prague::default(), Fixed::default());
        c.ecn.mode = EcnMode::Classic;
        a.init(&mut c, &mut e);
        assert_eq!((a.name(), a.has_cong_control(), a.flags().ect1), ("prague-reno", false, false));
    }
}
