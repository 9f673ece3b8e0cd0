//! Drawing connections and events: mostly plausible, now and then wild, often exactly on a threshold.

use debloat_cc::conn::{EcnMode, PaceMode};
use debloat_cc::rate::RateSample;
use debloat_cc::{CaState, Conn};

/// A small generator (SplitMix64).
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// One time in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Any magnitude up to `bits` bits: small values as likely as large ones.
    pub fn magnitude(&mut self, bits: u64) -> u64 {
        let width = 1 + self.below(bits);
        self.bits() & (u64::MAX >> (64 - width))
    }

    /// A value of 32 bits: near 0, near the top, or any magnitude.
    pub fn word(&mut self) -> u32 {
        match self.below(6) {
            0 => self.below(4) as u32,
            1 => u32::MAX - self.below(4) as u32,
            2 => self.bits() as u32,
            _ => self.magnitude(32) as u32,
        }
    }

    /// A window: small, usual, or large; never 0.
    pub fn window(&mut self) -> u32 {
        match self.below(8) {
            0 => 1 + self.below(5) as u32,
            1 => 1 + self.magnitude(23) as u32,
            2 => self.pick(&[15, 16, 17, 5_990_191, 5_990_192, 4_194_304]),
            _ => 2 + self.below(400) as u32,
        }
    }
}

/// A clock that mostly moves by a little, sometimes by much, and sometimes sits near a wrap.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds.
    pub ns: u64,
}

impl Clock {
    /// Anywhere from the boot on, with the wraps of jiffies (five minutes) and of 32-bit µs (71 minutes) near by.
    pub fn draw(r: &mut Random) -> Self {
        let second = 1_000_000_000;
        Self {
            ns: match r.below(5) {
                0 => 300 * second - r.below(20 * second),
                1 => 4_294_967_296_000 - r.below(20 * second),
                2 => second,
                _ => second + r.below(100_000 * second),
            },
        }
    }

    /// The next event.
    pub fn advance(&mut self, r: &mut Random) {
        self.ns += match r.below(12) {
            0 => 0,
            1 => r.below(5_000_000_000),
            2 => 1_000_000 * r.below(300),
            3 | 4 => 1_000_000 * r.below(8),
            5 => 4_000_000,
            _ => 1000 * r.below(2100),
        };
    }
}

/// A fresh connection of a plausible or a wild kind.
pub fn connection(r: &mut Random, c: &mut Conn) {
    c.cwnd = r.window();
    c.ssthresh = match r.below(4) {
        0 => 0x7fff_ffff,
        1 => c.cwnd.wrapping_add(r.below(60) as u32),
        2 => r.window(),
        _ => (c.cwnd / 2).max(2),
    };
    c.cwnd_cap = if r.one_in(8) { 1 + r.window() } else { u32::MAX };
    c.ai_credit = if r.one_in(3) { r.below(300) as u32 } else { 0 };
    c.mss = r.pick(&[1448, 1448, 1448, 536, 1460, 8948, 65_483, 1]);
    c.srtt8 = match r.below(6) {
        0 => 0,
        1 => 1 + r.magnitude(27) as u32,
        _ => 8 * (100 + r.below(200_000) as u32),
    };
    c.min_rtt.reset(0, if r.one_in(8) { u32::MAX } else { 1 + r.magnitude(20) as u32 });
    c.delivered = if r.one_in(4) { r.bits() as u32 } else { 1 + r.below(1 << 20) as u32 };
    c.delivered_ce = r.below(u64::from(c.delivered.min(1 << 20)) + 1) as u32;
    c.lost_total = r.magnitude(16) as u32;
    c.una = r.bits() as u32;
    flight(r, c);
    c.limited = !r.one_in(6);
    c.app_lim = if r.one_in(4) { r.word() } else { 0 };
    c.pace_rate = if r.one_in(6) { r.bits() } else { 1 + r.magnitude(33) };
    c.max_pace = if r.one_in(6) { r.magnitude(36) } else { u64::MAX };
    c.pace_mode = r.pick(&[PaceMode::None, PaceMode::None, PaceMode::Internal, PaceMode::Fq]);
    c.cwnd_before = r.window();
    c.state = CaState::Open;
    c.ecn.mode = if r.one_in(6) { EcnMode::Off } else { EcnMode::Classic };
    c.rcv_nxt = r.bits() as u32;
}

/// What is out there.
pub fn flight(r: &mut Random, c: &mut Conn) {
    c.unacked = match r.below(6) {
        0 => r.below(5) as u32,
        1 => r.word() >> 4,
        _ => c.cwnd.saturating_sub(r.below(6) as u32).min(1 << 24),
    };
    c.sacked = if r.one_in(5) { r.below(u64::from(c.unacked) + 1) as u32 } else { 0 };
    c.lost = if r.one_in(5) { r.below(u64::from(c.unacked - c.sacked) + 1) as u32 } else { 0 };
    c.retrans = if c.lost > 0 { r.below(u64::from(c.lost) + 1) as u32 } else { 0 };
    c.nxt = c.una.wrapping_add(c.unacked.wrapping_mul(c.mss));
    c.peak_out = if r.one_in(3) { c.cwnd / 2 + r.below(3) as u32 } else { c.unacked };
}

/// An ACK moves the connection on.
pub fn ack(r: &mut Random, c: &mut Conn, clock: &mut Clock, delivered: u32) {
    clock.advance(r);
    c.set_now(clock.ns);
    c.delivered = c.delivered.wrapping_add(delivered);
    if delivered > 0 {
        c.delivered_us = c.now_us;
    }
    if r.one_in(8) {
        let marked = r.below(u64::from(delivered) + 1) as u32;
        c.delivered_ce = c.delivered_ce.wrapping_add(if r.one_in(2) { delivered } else { marked });
    }
    c.una = c.una.wrapping_add(delivered.wrapping_mul(c.mss));
    if r.one_in(9) {
        c.una = c.nxt;
    }
    if r.one_in(4) {
        flight(r, c);
    } else {
        c.nxt = c.una.wrapping_add(c.unacked.wrapping_mul(c.mss));
    }
    if r.one_in(12) {
        c.limited = !c.limited;
    }
    if r.one_in(20) {
        c.app_lim = if r.one_in(2) { 0 } else { r.word() };
    }
    c.edt_ns = match r.below(4) {
        0 => c.now_ns + r.below(8_000_000),
        1 => c.now_ns.saturating_sub(r.below(8_000_000)),
        _ => c.now_ns,
    };
    if r.one_in(40) {
        c.pace_rate = if r.one_in(4) { 0 } else { 1 + r.magnitude(34) };
    }
}

/// How many packets an ACK delivers.
pub fn delivered(r: &mut Random) -> u32 {
    match r.below(10) {
        0 => 0,
        1 => r.below(400) as u32,
        2 => r.magnitude(16) as u32,
        _ => 1 + r.below(4) as u32,
    }
}

/// A rate sample for an ACK that delivered `acked`.
pub fn sample(r: &mut Random, c: &Conn, acked: u32, rtt: u32) -> RateSample {
    let span = acked.wrapping_add(r.below(200) as u32);
    let mut rs = RateSample {
        prior_us: c.now_us.saturating_sub(u64::from(rtt)).max(1),
        prior_delivered: c.delivered.wrapping_sub(span),
        delivered: span as i32,
        interval_us: i64::from(rtt) + r.below(3000) as i64,
        rtt_us: if r.one_in(10) { -1 } else { i64::from(rtt) },
        losses: if r.one_in(6) { r.below(20) as i32 } else { 0 },
        acked_sacked: acked,
        prior_in_flight: c.in_flight().wrapping_add(acked),
        is_app_limited: r.one_in(9),
        is_ack_delayed: r.one_in(9),
        ..RateSample::default()
    };
    match r.below(24) {
        0 => (rs.delivered, rs.interval_us) = (-1, -1),
        1 => rs.interval_us = r.pick(&[0, -1, 1]),
        2 => rs.delivered = (r.bits() as i32) & 0x7fff_ffff,
        3 => rs.prior_delivered = r.bits() as u32,
        4 => rs.prior_in_flight = r.word(),
        5 => rs.interval_us = r.magnitude(33) as i64,
        // The kernel warns of windows that are negative as 32-bit numbers.
        6 => rs.acked_sacked = r.magnitude(28) as u32,
        _ => {}
    }
    rs
}

/// Any state.
pub fn state(r: &mut Random) -> CaState {
    r.pick(&[CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss])
}
