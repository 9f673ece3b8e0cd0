//! Worked examples of spec/bbr.md and the cases BB-01 to BB-22 that concern version 1.

use super::control::{goal, rate};
use super::*;
use crate::clock::Hz;
use crate::env::Fixed;

/// The common set-up of spec/bbr.md §15.
struct Trace {
    c: Conn,
    a: Bbr,
    e: Fixed,
    start_ms: u32,
    ms: u32,
}

/// One ACK of a trace.
#[derive(Clone, Copy)]
struct Ack {
    d: u32,
    in_flight: u32,
    losses: u32,
    rtt: i64,
    app: bool,
    interval_us: Option<i64>,
    span: Option<u32>,
}

impl Default for Ack {
    fn default() -> Self {
        Self { d: 100, in_flight: 100, losses: 0, rtt: 40_000, app: false, interval_us: None, span: None }
    }
}

impl Trace {
    fn new(hz: Hz, draw: u32) -> Self {
        let mut c = Conn::new(1448, hz, 100_000);
        c.set_now(1_000_000_000);
        (c.delivered_us, c.srtt8, c.app_lim) = (1_000_000, 320_000, 0);
        c.edt_ns = c.now_ns;
        c.min_rtt.reset(100_000, 40_000);
        let mut t = Self { c, a: Bbr::default(), e: Fixed { hz, jiffies: 100_000, draw }, start_ms: 0, ms: 0 };
        t.a.init(&mut t.c, &mut t.e);
        assert_eq!(t.c.pace_rate, 1_034_467);
        t
    }

    fn at(&mut self, ms: u32) {
        self.ms = ms;
        self.c.set_now((1_000_000 + u64::from(ms) * 1000) * 1000);
        self.c.edt_ns = self.c.now_ns;
        self.e.jiffies = 100_000 + ms * self.e.hz.get() / 1000;
    }

    fn ack(&mut self, ms: u32, ack: Ack) {
        let elapsed = i64::from(ms - self.ms) * 1000;
        self.at(ms);
        let before = self.c.delivered;
        self.c.delivered += ack.d;
        self.c.delivered_us = self.c.now_us;
        self.c.unacked = ack.in_flight;
        let span = ack.span.unwrap_or(ack.d);
        let rs = RateSample {
            delivered: span as i32,
            interval_us: ack.interval_us.unwrap_or(elapsed),
            prior_delivered: self.c.delivered - span,
            acked_sacked: ack.d,
            prior_in_flight: ack.in_flight + ack.d,
            losses: ack.losses as i32,
            rtt_us: ack.rtt,
            is_app_limited: ack.app,
            ..RateSample::default()
        };
        assert!(ack.span.is_some() || rs.prior_delivered == before);
        self.a.cong_control(&mut self.c, &mut self.e, 0, AckFlags::default(), &rs);
    }

    fn nine(&mut self) {
        for i in 1..=9 {
            self.ack(i * 40, Ack::default());
        }
        self.start_ms = 360;
    }
}

#[test]
fn rates() {
    let mut c = Conn::new(1448, Hz::H1000, 0);
    for (cwnd, srtt8, mss, want) in [
        (10, 0, 1448, 41_381_651u64),
        (10, 0, 1460, 41_724_593),
        (10, 8, 1448, 41_381_690_625),
        (10, 80_000, 1448, 4_138_115),
        (10, 320_000, 1448, 1_034_467),
        (10, 800_000, 1448, 413_638),
        (20, 320_000, 536, 765_848),
        (10, 320_000, 8948, 6_392_550),
        (300, 8, 1448, 182_079_438_750),
    ] {
        (c.cwnd, c.srtt8, c.mss) = (cwnd, srtt8, mss);
        let mut a = Bbr::default();
        a.init_pacing(&mut c);
        assert_eq!(c.pace_rate, want, "{cwnd} {srtt8} {mss}");
    }
    c.mss = 1448;
    for (delivered, interval, bw, rates, exported) in [
        (1u64, 1000u64, 16_777u64, [4_138_115u64, 1_791_876, 1_433_501, 1_075_126, 492_766], 1_447_981u64),
        (10, 40_000, 4194, [1_034_467, 447_942, 358_354, 268_765, 123_184], 361_973),
        (100, 10_000, 167_772, [41_381_651, 17_918_982, 14_335_186, 10_751_389, 4_927_720], 14_479_986),
        (100, 40_000, 41_943, [10_345_412, 4_479_745, 3_583_796, 2_687_847, 1_231_930], 3_619_996),
        (1000, 10_000, 1_677_721, [413_816_758, 179_189_935, 143_351_948, 107_513_961, 49_277_232], 144_799_948),
        (
            83_333,
            100_000,
            13_980_957,
            [3_448_460_323, 1_493_243_983, 1_194_595_186, 895_946_389, 410_642_095],
            1_206_661_804,
        ),
        (4, 1_000_000, 67, [16_525, 7155, 5724, 4293, 1967], 5782),
        (
            10_000,
            1000,
            167_772_160,
            [41_381_690_625, 17_919_000_000, 14_335_200_000, 10_751_400_000, 4_927_725_000],
            14_480_000_000,
        ),
    ] {
        assert_eq!((delivered << BW_SCALE) / interval, bw);
        assert_eq!([739, 320, 256, 192, 88].map(|g| rate(&c, bw, g)), rates);
        let mut a = Bbr::default();
        a.state.bw = WindowedFilter::new(0, bw as u32);
        let Info::Bbr { bw, .. } = a.info(&c) else { panic!() };
        assert_eq!(bw, exported);
    }
}

#[test]
fn window_targets() {
    // spec/bbr.md §4.
    for (bw, min_rtt, want_goal, bdps, inflights, idx0) in [
        (4194, 100, 2, [1, 1, 1, 1], [8, 8, 8], 10),
        (4194, 10_000, 2, [3, 4, 5, 8], [10, 10, 12], 12),
        (4194, 40_000, 2, [10, 13, 20, 29], [16, 20, 26], 22),
        (41_943, 10_000, 2, [25, 32, 50, 73], [32, 38, 56], 40),
        (41_943, 40_000, 2, [100, 125, 200, 289], [106, 132, 206], 134),
        (167_772, 100, 9, [1, 2, 2, 3], [28, 30, 30], 32),
        (167_772, 40_000, 9, [400, 500, 800, 1155], [428, 528, 828], 530),
        (1_677_721, 10_000, 45, [1000, 1250, 2000, 2887], [1136, 1386, 2136], 1388),
        (16_777_216, 40_000, 45, [40_000, 50_000, 80_000, 115_469], [40_136, 50_136, 80_136], 50_138),
    ] {
        let mut c = Conn::new(1448, Hz::H1000, 0);
        c.pace_rate = rate(&c, u64::from(bw), GAIN_ONE);
        let mut s = State { min_rtt, ..State::default() };
        assert_eq!(goal(&c), want_goal);
        assert_eq!([256, 320, 512, 739].map(|g| s.bdp(bw, g)), bdps);
        assert_eq!([256, 320, 512].map(|g| s.inflight(&c, bw, g)), inflights);
        s.mode = Mode::ProbeBw;
        assert_eq!(s.inflight(&c, bw, 320), idx0);
    }
    // BB-22: without an RTT the initial window stands in.
    assert_eq!(State { min_rtt: u32::MAX, ..State::default() }.bdp(u32::MAX, 739), 10);
}

#[test]
fn startup_drain_and_first_cycle() {
    // spec/bbr.md §15.1.
    let mut t = Trace::new(Hz::H1000, 3);
    use Mode::{Drain, ProbeBw, Startup};
    for (n, d, in_flight, bw, full, mode, idx, gains, pace, cwnd, xa, want_goal) in [
        (1u32, 10, 10, 4194, (4194, 0), Startup, 0, (739, 739), 1_034_467, 20, [10, 0], 2),
        (2, 20, 20, 8388, (8388, 0), Startup, 0, (739, 739), 2_068_934, 40, [20, 0], 2),
        (3, 40, 40, 16_777, (16_777, 0), Startup, 0, (739, 739), 4_138_115, 80, [40, 0], 2),
        (4, 80, 80, 33_554, (33_554, 0), Startup, 0, (739, 739), 8_276_231, 160, [80, 0], 5),
        (5, 100, 160, 41_943, (41_943, 0), Startup, 0, (739, 739), 10_345_412, 260, [80, 100], 6),
        (6, 100, 200, 41_943, (41_943, 1), Startup, 0, (739, 739), 10_345_412, 360, [80, 101], 6),
        (7, 100, 200, 41_943, (41_943, 2), Startup, 0, (739, 739), 10_345_412, 360, [80, 101], 6),
        (8, 100, 200, 41_943, (41_943, 3), Drain, 0, (88, 739), 1_231_930, 396, [80, 101], 2),
        (9, 100, 140, 41_943, (41_943, 3), Drain, 0, (88, 739), 1_231_930, 396, [80, 101], 2),
        (10, 60, 100, 41_943, (41_943, 3), ProbeBw, 5, (256, 512), 3_583_796, 308, [61, 101], 2),
        (11, 50, 70, 41_943, (41_943, 3), ProbeBw, 5, (256, 512), 3_583_796, 308, [61, 101], 2),
        (12, 50, 70, 41_943, (41_943, 3), ProbeBw, 6, (256, 512), 3_583_796, 308, [61, 101], 2),
        (13, 50, 60, 41_943, (41_943, 3), ProbeBw, 6, (256, 512), 3_583_796, 308, [61, 101], 2),
        (14, 50, 60, 41_943, (41_943, 3), ProbeBw, 7, (256, 512), 3_583_796, 308, [61, 101], 2),
        (15, 50, 60, 41_943, (41_943, 3), ProbeBw, 7, (256, 512), 3_583_796, 268, [61, 50], 2),
        (16, 50, 60, 41_943, (41_943, 3), ProbeBw, 0, (320, 512), 4_479_745, 272, [61, 50], 3),
    ] {
        t.ack(n * 40, Ack { d, in_flight, rtt: if n < 5 { 40_000 } else { 50_000 }, ..Ack::default() });
        let s = &t.a.state;
        assert_eq!(s.bw.get(), bw, "ACK {n}");
        assert_eq!((s.full_bw, s.full_n), full, "ACK {n}");
        assert_eq!((s.mode, s.idx, (s.pacing_gain, s.cwnd_gain)), (mode, idx, gains), "ACK {n}");
        assert_eq!((t.c.pace_rate, t.c.cwnd), (pace, cwnd), "ACK {n}");
        assert_eq!((s.xa, goal(&t.c)), (xa, want_goal), "ACK {n}");
        if n == 8 {
            assert_eq!(t.c.ssthresh, 118);
        }
    }
}

#[test]
fn probe_rtt_comes_after_ten_seconds() {
    // spec/bbr.md §15.2.
    for (hz, done) in [(Hz::H1000, 110_280), (Hz::H250, 102_570)] {
        let mut t = Trace::new(hz, 3);
        t.nine();
        assert_eq!((t.a.state.mode, t.a.state.idx, t.c.cwnd, t.c.ssthresh), (Mode::ProbeBw, 7, 308, 118));
        let mut ms = 400;
        while ms < 10_040 {
            t.ack(ms, Ack { rtt: 45_000, ..Ack::default() });
            assert_eq!(t.a.state.mode, Mode::ProbeBw, "{ms}");
            ms += 40;
        }
        assert_eq!((t.a.state.idx, t.c.cwnd, t.a.state.min_rtt), (0, 312, 40_000));
        t.ack(10_040, Ack { rtt: 45_000, ..Ack::default() });
        let s = t.a.state;
        assert_eq!((s.mode, t.c.cwnd, s.saved_cwnd, s.min_rtt, s.probe_rtt_done), (Mode::ProbeRtt, 4, 312, 45_000, 0));
        assert_eq!(t.c.app_lim, 25_201);
        t.ack(10_080, Ack { d: 96, in_flight: 4, rtt: 41_000, ..Ack::default() });
        let s = t.a.state;
        assert_eq!((s.mode, t.c.cwnd, s.min_rtt), (Mode::ProbeRtt, 4, 41_000));
        assert_eq!((s.probe_rtt_done, s.probe_rtt_round, t.c.app_lim), (done, false, 25_201));
        for (i, ms) in (10_120..=10_280).step_by(40).enumerate() {
            t.ack(ms, Ack { d: 4, in_flight: 4, rtt: 40_500, app: true, ..Ack::default() });
            let s = t.a.state;
            assert_eq!((s.mode, t.c.cwnd, s.saved_cwnd, s.min_rtt), (Mode::ProbeRtt, 4, 312, 40_500), "{ms}");
            assert_eq!((s.probe_rtt_round, t.c.app_lim), (true, 25_205 + 4 * i as u32), "{ms}");
        }
        t.ack(10_320, Ack { d: 4, in_flight: 4, rtt: 40_500, app: true, ..Ack::default() });
        let s = t.a.state;
        assert_eq!((s.mode, s.idx, t.c.cwnd, s.saved_cwnd, t.c.app_lim), (Mode::ProbeBw, 5, 310, 312, 25_225));
    }
}

#[test]
fn recovery_and_timeout() {
    // spec/bbr.md §15.3.
    let mut t = Trace::new(Hz::H1000, 3);
    t.nine();
    assert_eq!(t.a.ssthresh(&mut t.c, &mut t.e), 118);
    assert_eq!(t.a.state.saved_cwnd, 308);
    for (plus, d, in_flight, losses, state, span, cwnd, conserve) in [
        (1, 2, 95, 3, CaState::Recovery, 100, 97, true),
        (2, 2, 95, 0, CaState::Recovery, 100, 97, true),
        (3, 2, 96, 5, CaState::Recovery, 100, 98, true),
        (41, 90, 90, 0, CaState::Recovery, 94, 188, false),
        (42, 2, 92, 0, CaState::Recovery, 100, 190, false),
        (43, 2, 92, 0, CaState::Open, 100, 310, false),
    ] {
        t.c.state = state;
        t.c.lost_total += losses;
        let ack = Ack { d, in_flight, losses, interval_us: Some(40_000), span: Some(span), ..Ack::default() };
        t.ack(360 + plus, ack);
        assert_eq!((t.c.cwnd, t.a.state.conserve), (cwnd, conserve), "+{plus}");
        if plus == 1 {
            assert_eq!((t.a.state.idx, t.a.state.pol_on), (0, true));
        }
    }
    t.a.ssthresh(&mut t.c, &mut t.e);
    t.a.set_state(&mut t.c, &mut t.e, CaState::Loss);
    let s = t.a.state;
    assert_eq!((s.saved_cwnd, s.full_bw, s.pol_n, s.prev_state), (310, 0, 2, CaState::Loss));
    (t.c.cwnd, t.c.state) = (1, CaState::Loss);
    for (plus, d, in_flight, interval, state, cwnd) in [
        (343, 1, 0, 300_000, CaState::Loss, 4),
        (383, 2, 2, 40_000, CaState::Loss, 6),
        (423, 4, 8, 40_000, CaState::Loss, 10),
        (463, 8, 16, 40_000, CaState::Open, 312),
    ] {
        t.c.state = state;
        t.ack(360 + plus, Ack { d, in_flight, interval_us: Some(interval), ..Ack::default() });
        assert_eq!(t.c.cwnd, cwnd, "+{plus}");
    }
}

#[test]
fn policer_is_found_and_forgotten() {
    // spec/bbr.md §15.4.
    let mut t = Trace::new(Hz::H1000, 0);
    t.nine();
    assert_eq!((t.a.state.mode, t.a.state.idx, t.c.cwnd, t.c.delivered), (Mode::ProbeBw, 2, 308, 901));
    for (n, d, losses, pol_n, pol_bw, pol_use, start, bw, idx, pace, cwnd) in [
        (1, 80, 20, 1, 0, false, Some((1400, 981, 20)), 41_943, 3, 3_583_796, 308),
        (2, 80, 20, 2, 0, false, None, 41_943, 3, 3_583_796, 308),
        (3, 80, 20, 3, 0, false, None, 41_943, 4, 3_583_796, 308),
        (4, 80, 20, 0, 33_554, false, Some((1520, 1221, 80)), 41_943, 4, 3_583_796, 308),
        (5, 80, 0, 1, 33_554, false, None, 41_943, 5, 3_583_796, 308),
        (6, 80, 20, 2, 33_554, false, None, 41_943, 5, 3_583_796, 288),
        (7, 78, 22, 3, 33_554, false, None, 41_943, 6, 3_583_796, 288),
        (8, 78, 22, 0, 33_344, true, None, 41_943, 6, 2_849_059, 246),
        (9, 78, 22, 1, 33_344, true, None, 41_943, 7, 2_849_059, 246),
        (10, 78, 22, 2, 33_344, true, None, 41_943, 7, 2_849_059, 246),
        (11, 78, 22, 3, 33_344, true, None, 33_554, 0, 2_849_059, 248),
    ] {
        t.c.lost_total += losses;
        t.ack(360 + n * 40, Ack { d, in_flight: 80, losses, ..Ack::default() });
        let s = t.a.state;
        assert_eq!((s.pol_on, s.pol_n, s.pol_bw, s.pol_use), (true, pol_n, pol_bw, pol_use), "#{n}");
        if let Some(start) = start {
            assert_eq!((s.pol_ms, s.pol_del, s.pol_lost), start, "#{n}");
        }
        assert_eq!((s.bw.get(), s.idx, s.pacing_gain, t.c.pace_rate, t.c.cwnd), (bw, idx, 256, pace, cwnd), "#{n}");
    }
    for n in 12..=56 {
        assert!(t.a.state.pol_use, "#{n}");
        t.ack(360 + n * 40, Ack { d: 78, in_flight: 80, ..Ack::default() });
    }
    assert_eq!((t.a.state.pol_use, t.a.state.pol_bw, t.a.state.idx, t.a.state.pacing_gain), (false, 0, 0, 320));
}

#[test]
fn policer_intervals_agree_or_not() {
    // spec/bbr.md §12, the table.
    for (old, bw, used, result) in [
        (40_000, 41_943, true, 40_971),
        (36_000, 41_943, false, 41_943),
        (690, 700, true, 695),
        (16_777_216, 33_554_432, true, 25_165_824),
        (0, 41_943, false, 41_943),
    ] {
        let c = Conn::new(1448, Hz::H1000, 0);
        let mut s = State { pol_bw: old, pol_n: 9, ..State::default() };
        s.end_interval(&c, bw);
        assert_eq!((s.pol_use, s.pol_bw, s.pol_n), (used, result, 0), "{old} {bw}");
    }
}

#[test]
fn a_connection_that_delivered_much_starts_rounds_where_it_is() {
    // BB-01.
    let mut c = Conn::new(1448, Hz::H250, 0);
    c.delivered = 0x8000_0001;
    let mut a = Bbr::default();
    a.init(&mut c, &mut Fixed::default());
    assert_eq!(a.state.next_round, 0x8000_0001);
    c.delivered += 5;
    let rs = RateSample {
        delivered: 4,
        interval_us: 1000,
        prior_delivered: 0x8000_0002,
        acked_sacked: 1,
        ..RateSample::default()
    };
    a.cong_control(&mut c, &mut Fixed::default(), 0, AckFlags::default(), &rs);
    assert_eq!((a.state.round_start, a.state.rounds), (true, 1));
}

#[test]
fn the_margin_is_one_per_cent() {
    // BB-03: 10 Mbit/s.
    let mut c = Conn::new(1250, Hz::H250, 0);
    c.min_rtt.reset(0, 40_000);
    let bw = (1u64 << BW_SCALE) / 1000;
    let r = rate(&c, bw, GAIN_ONE);
    assert!((1_237_400..=1_237_500).contains(&r), "{r}");
}

#[test]
fn unusable_samples_leave_the_filter_alone() {
    // BB-04.
    for (delivered, interval_us) in [(-1, -1), (5, 0), (5, -1)] {
        let mut t = Trace::new(Hz::H1000, 0);
        t.nine();
        let before = t.a.state.bw;
        let rs = RateSample { delivered, interval_us, acked_sacked: 3, prior_delivered: 901, ..RateSample::default() };
        t.a.cong_control(&mut t.c, &mut t.e, 0, AckFlags::default(), &rs);
        assert_eq!((t.a.state.bw, t.a.state.round_start), (before, false));
    }
}

#[test]
fn minimum_rtt_takes_the_samples() {
    // BB-05.
    let mut t = Trace::new(Hz::H1000, 0);
    t.a.state.min_rtt = u32::MAX;
    for (i, rtt) in [100_000, 100_000, 60_000, 100_000].into_iter().enumerate() {
        t.ack(40 * (i as u32 + 1), Ack { rtt, ..Ack::default() });
    }
    assert_eq!(t.a.state.min_rtt, 60_000);
}

#[test]
fn application_limited_rounds_do_not_fill_the_pipe() {
    // BB-07.
    let mut t = Trace::new(Hz::H1000, 0);
    for n in 1..=10 {
        t.ack(n * 40, Ack { d: 10, in_flight: 10, app: n > 1, ..Ack::default() });
    }
    assert!(!t.a.state.full && t.a.state.full_n == 0);
}

#[test]
fn growth_is_five_quarters() {
    // BB-13.
    for (bw, grown) in [(124, false), (125, true), (130, true)] {
        let mut a = Bbr::default();
        a.state = State { full_bw: 100, bw: WindowedFilter::new(0, bw), round_start: true, ..State::default() };
        a.check_full_pipe(&RateSample::default());
        assert_eq!((a.state.full_bw == bw, a.state.full_n == 0), (grown, grown), "{bw}");
    }
}

#[test]
fn large_products_do_not_overflow() {
    // BB-10: 10 Gbit/s for 2 s.
    let mut c = Conn::new(1250, Hz::H250, 0);
    c.pace_rate = u64::MAX;
    let s = State { min_rtt: 2_000_000, ..State::default() };
    let bw = (1u32 << BW_SCALE) as u64;
    assert_eq!(u64::from(s.bdp(bw as u32, GAIN_ONE)) * 1250, 2_500_000_000);
    let s = State { min_rtt: u32::MAX - 1, ..State::default() };
    let _ = (s.bdp(u32::MAX, 739), s.inflight(&c, u32::MAX, 739), rate(&c, u64::MAX, 739));
}

#[test]
fn bandwidth_resolution() {
    // BB-17: 1.5 and 12.5 GB/s within 1.5 per cent.
    let c = Conn::new(1448, Hz::H250, 0);
    for want in [1_500_000_000u64, 12_500_000_000] {
        let packets = want / 1448 / 100;
        let bw = (packets << BW_SCALE) / 10_000;
        let got = (bw * u64::from(c.mss) * 1_000_000) >> BW_SCALE;
        assert!(got.abs_diff(want) * 1000 < want * 15, "{want} {got}");
    }
}

#[test]
fn the_first_phase_is_never_the_draining_one() {
    for (draw, idx) in [(0, 0), (1, 7), (2, 6), (3, 5), (4, 4), (5, 3), (6, 2)] {
        let mut a = Bbr::default();
        let c = Conn::new(1448, Hz::H250, 0);
        a.enter_probe_bw(&c, &mut Fixed { draw, ..Fixed::default() });
        assert_eq!(a.state.idx, idx);
    }
}

#[test]
fn idle_restart_paces_at_the_bandwidth() {
    let mut t = Trace::new(Hz::H1000, 0);
    t.nine();
    t.ack(400, Ack::default());
    t.a.state.idx = 0;
    t.c.app_lim = 0;
    let before = t.a.state;
    t.a.cwnd_event(&mut t.c, &mut t.e, CwndEvent::TxStart);
    assert_eq!(t.a.state, before);
    t.c.app_lim = 5;
    t.at(5000);
    t.a.cwnd_event(&mut t.c, &mut t.e, CwndEvent::TxStart);
    let s = t.a.state;
    assert_eq!((s.idle_restart, s.xa_us, s.xa_acked, s.idx, t.c.pace_rate), (true, 6_000_000, 0, 0, 3_583_796));
    // An expired minimum does not start PROBE_RTT on the first ACK after idle.
    t.ack(10_500, Ack { rtt: 45_000, ..Ack::default() });
    assert_eq!((t.a.state.mode, t.a.state.idle_restart), (Mode::ProbeBw, false));
}

#[test]
fn undo_forgets_the_pipe_and_the_policer() {
    let mut t = Trace::new(Hz::H1000, 0);
    t.nine();
    t.a.state.pol_use = true;
    t.c.cwnd = 77;
    assert_eq!(t.a.undo_cwnd(&mut t.c, &mut t.e), 77);
    let s = t.a.state;
    assert_eq!((s.full_bw, s.full_n, s.full, s.pol_use, s.pol_bw), (0, 0, true, false, 0));
}
