//! The worked values of spec/bbr3.md parts A12, B1, B3, B4, and BB-16, BB-18.

use super::control::rate;
use super::model::{is_too_lossy, next_ecn_alpha, sample_bw};
use super::probe::safe_level;
use super::*;
use crate::clock::Hz;
use crate::env::Fixed;

#[test]
fn rates_are_rounded_as_listed() {
    let c = Conn::new(1448, Hz::H1000, 0);
    for (delivered, interval_us, bw, want) in [
        (10, 40_000, 4195, [994_109u64, 448_049, 358_439, 324_835, 123_213]),
        (100, 40_000, 41_944, [9_939_672, 4_479_852, 3_583_882, 3_247_893, 1_231_959]),
        (1000, 10_000, 1_677_722, [397_577_907, 179_190_042, 143_352_034, 129_912_780, 49_277_261]),
        (4, 1_000_000, 68, [16_114, 7262, 5810, 5265, 1997]),
    ] {
        let rs = RateSample { delivered, interval_us, ..RateSample::default() };
        assert_eq!(sample_bw(&rs), bw);
        assert_eq!([710, 320, 256, 232, 88].map(|g| rate(&c, bw, g)), want);
    }
    assert_eq!(rate(&c, 0, 256), 1);
    for (srtt8, want) in [(320_000, 993_872), (0, 39_757_743)] {
        let mut c = Conn::new(1448, Hz::H1000, 0);
        c.srtt8 = srtt8;
        Bbr3::default().init_pacing(&mut c);
        assert_eq!(c.pace_rate, want);
    }
}

#[test]
fn limits() {
    for (in_flight, allowed) in [(51, 0), (52, 1), (100, 1), (103, 2), (256, 5), (1000, 19), (10_000, 195)] {
        assert!(!is_too_lossy(allowed, in_flight) && is_too_lossy(allowed + 1, in_flight), "{in_flight}");
    }
    for (hi, want) in [(4, 4), (5, 4), (6, 5), (10, 9), (50, 43), (100, 86), (1000, 852), (10_000, 8516)] {
        let a = Bbr3 { state: State { inflight_hi: hi, ..State::default() }, ..Bbr3::default() };
        assert_eq!(a.with_headroom(), want, "{hi}");
    }
    for (tx, lost, size, want) in [
        (100, 3, 1, 99),
        (100, 2, 2, 100),
        (1000, 30, 10, 990),
        (1000, 45, 45, 974),
        (200, 6, 1, 199),
        (1000, 20, 2, 1000),
    ] {
        assert_eq!(safe_level(tx, lost, size), want);
    }
    let a = Bbr3 { state: State { min_rtt: 40_000, ..State::default() }, ..Bbr3::default() };
    assert_eq!([128, 256, 512, 576].map(|g| a.bdp(41_944, g)), [51, 101, 201, 226]);
}

#[test]
fn alpha_of_marks() {
    let run = |start, ratio| {
        let mut alpha = start;
        core::array::from_fn::<u32, 10, _>(|i| {
            if i > 0 {
                alpha = next_ecn_alpha(alpha, ratio);
            }
            alpha
        })
    };
    assert_eq!(run(256, 0), [256, 240, 225, 210, 196, 183, 171, 160, 150, 140]);
    assert_eq!(run(256, 128), [256, 248, 240, 233, 226, 219, 213, 207, 202, 197]);
    assert_eq!(run(0, 256), [0, 16, 31, 45, 58, 70, 81, 91, 101, 110]);
}

/// A flow on a path of `bw` packets per 40 ms round, with all the loss hooks.
struct Path {
    c: Conn,
    a: Bbr3,
    e: Fixed,
    us: u64,
}

impl Path {
    fn new() -> Self {
        let (mut c, mut a, mut e) = (Conn::new(1448, Hz::H1000, 0), Bbr3::default(), Fixed::default());
        c.set_now(1_000_000_000);
        (c.srtt8, c.app_lim, c.delivered_us, c.limited) = (320_000, 0, 1_000_000, true);
        c.min_rtt.reset(0, 40_000);
        a.init(&mut c, &mut e);
        Self { c, a, e, us: 1_000_000 }
    }

    /// One round of `d` packets.
    fn round(&mut self, d: u32) {
        self.us += 40_000;
        self.c.set_now(self.us * 1000);
        self.c.edt_ns = self.c.now_ns;
        let prior_delivered = self.c.delivered;
        self.c.delivered += d;
        self.c.delivered_us = self.us;
        self.c.unacked = self.c.cwnd.min(d);
        let lost = self.c.lost_total;
        self.a.on_sample(&mut self.c, &mut self.e, d, lost);
        let rs = RateSample {
            delivered: d as i32,
            interval_us: 40_000,
            prior_delivered,
            acked_sacked: d,
            prior_in_flight: d,
            rtt_us: 40_000,
            ..RateSample::default()
        };
        self.a.cong_control(&mut self.c, &mut self.e, 0, AckFlags::default(), &rs);
    }

    fn fill(&mut self) {
        for d in [10, 20, 40, 80, 100, 100, 100, 100, 100] {
            self.round(d);
        }
    }
}

#[test]
fn startup_drains_and_cycles() {
    let mut p = Path::new();
    p.fill();
    assert!(p.a.state.full_reached && p.a.state.phase.probes_bw(), "{:?}", p.a.state.phase);
    let mut seen = [false; 4];
    for _ in 0..200 {
        p.round(100);
        match p.a.state.phase {
            Phase::Down => seen[0] = true,
            Phase::Cruise => seen[1] = true,
            Phase::Refill => seen[2] = true,
            Phase::Up => seen[3] = true,
            _ => {}
        }
        assert!(p.c.cwnd >= 4 && p.c.cwnd < 500);
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn a_lossy_round_cuts_the_short_term_limits_to_what_was_delivered() {
    let mut p = Path::new();
    p.fill();
    while p.a.state.phase != Phase::Cruise {
        p.round(100);
    }
    let before = p.c.cwnd;
    let lost = LostPackets { packets: 1, tx_in_flight: 100, ..LostPackets::default() };
    p.c.lost_total += 1;
    p.a.on_lost(&mut p.c, &mut p.e, &lost);
    p.round(100);
    p.round(100);
    let s = &p.a.state;
    assert!(s.bw_lo != UNSET && s.inflight_lo != UNSET && s.inflight_lo <= before);
    // Undo restores what the round's first loss found.
    p.a.undo_cwnd(&mut p.c, &mut p.e);
    assert_eq!((p.a.state.bw_lo, p.a.state.inflight_lo), (UNSET, UNSET));
}

#[test]
fn probe_rtt_halves_the_flight_every_five_seconds() {
    let mut p = Path::new();
    p.fill();
    let mut low = u32::MAX;
    for _ in 0..400 {
        let d = p.c.cwnd.min(100);
        p.round(d);
        if p.a.state.phase == Phase::ProbeRtt {
            low = low.min(p.c.cwnd);
        }
    }
    assert_eq!(low, 51);
    assert_ne!(p.a.state.phase, Phase::Startup);
}

#[test]
fn the_window_grows_while_the_pipe_is_not_full() {
    // BB-16: below twice the initial window growth is unconditional.
    let mut p = Path::new();
    p.c.cwnd = 12;
    p.a.state.min_rtt = 1;
    p.a.set_cwnd(&mut p.c, &RateSample { acked_sacked: 3, ..RateSample::default() });
    assert_eq!(p.c.cwnd, 15);
}
