//! Worked examples of spec/cubic.md.

use super::*;
use crate::clock::Hz;
use crate::conn::PaceMode;
use crate::env::Fixed;

fn env(hz: Hz, jiffies: u32) -> Fixed {
    Fixed { hz, jiffies, draw: 0 }
}

#[test]
fn derived_factors() {
    for (beta, fscale) in [(512, 8), (614, 10), (717, 15), (819, 23), (922, 50)] {
        let p = Params { beta, ..Params::default() };
        assert_eq!(Scale::new(&p).unwrap().fscale, fscale, "{beta}");
    }
    for (bic_scale, kfactor) in [(20, 5_497_558_138), (41, 2_681_735_677), (82, 1_340_867_838), (410, 268_173_567)] {
        let p = Params { bic_scale, ..Params::default() };
        assert_eq!(Scale::new(&p).unwrap().kfactor, kfactor, "{bic_scale}");
    }
    assert_eq!(Cubic::new(Params::default()).unwrap(), Cubic::default());
    assert_eq!(Cubic::new(Params { beta: 1024, ..Params::default() }), Err(BadParams::Beta(1024)));
    assert_eq!(Cubic::new(Params { bic_scale: 0, ..Params::default() }), Err(BadParams::BicScale(0)));
}

#[test]
fn threshold_and_fast_convergence() {
    for (cwnd, wmax, ssthresh, after) in [
        (100, 0, 70, 100),
        (100, 100, 70, 100),
        (80, 100, 56, 68),
        (101, 200, 70, 85),
        (1000, 5000, 700, 850),
        (10, 10, 7, 10),
        (3, 10, 2, 2),
        (2, 5, 2, 1),
        (5_990_187, 0, 4_194_300, 5_990_187),
        (6_000_000, 0, 6867, 6_000_000),
    ] {
        let mut c = Conn::new(1448, Hz::H250, 0);
        let mut a = Cubic::default();
        (c.cwnd, a.state.wmax, a.state.epoch) = (cwnd, wmax, 7);
        assert_eq!(a.ssthresh(&mut c, &mut env(Hz::H250, 0)), ssthresh, "{cwnd}");
        assert_eq!((a.state.wmax, a.state.epoch), (after, 0), "{cwnd}");
    }
}

#[test]
fn idle_time_is_cut_out_of_the_epoch() {
    for (epoch, want) in [(5000, 8000), (8900, 9000), (0, 0)] {
        let mut c = Conn::new(1448, Hz::H250, 0);
        let mut a = Cubic::default();
        (a.state.epoch, c.last_send_j) = (epoch, 6000);
        a.cwnd_event(&mut c, &mut env(Hz::H250, 9000), CwndEvent::TxStart);
        assert_eq!(a.state.epoch, want);
    }
}

#[test]
fn cube_roots() {
    for (a, want) in [
        (0u64, 0u32),
        (1, 1),
        (3, 1),
        (4, 2),
        (7, 2),
        (8, 2),
        (15, 2),
        (16, 3),
        (41, 3),
        (42, 4),
        (63, 4),
        (64, 4),
        (100, 5),
        (125, 5),
        (216, 6),
        (343, 7),
        (511, 8),
        (512, 8),
        (1000, 10),
        (4096, 16),
        (10_000, 21),
        (32_768, 32),
        (1_000_000, 100),
        (1 << 20, 101),
        (1 << 24, 256),
        (1_000_000_000, 1000),
        (1 << 30, 1024),
        (1_000_000_000_000, 9999),
        (1 << 40, 10_323),
        (1 << 45, 32_783),
        (1_000_000_000_000_000, 100_014),
        (1 << 53, 208_084),
        (1 << 60, 1_049_071),
        (1 << 62, 1_664_674),
    ] {
        assert_eq!(cube_root(a), want, "{a}");
    }
}

#[test]
fn cube_root_stays_within_a_per_cent_above_a_million() {
    let mut a = 1u64 << 20;
    while a < 1 << 62 {
        let r = u128::from(cube_root(a));
        let (low, high) = (r * 99 / 100, r * 101 / 100 + 1);
        assert!(low.pow(3) <= u128::from(a) && high.pow(3) >= u128::from(a), "{a}: {r}");
        a += a / 17;
    }
}

#[test]
fn plateau_times() {
    let k = Scale::new(&Params::default()).unwrap().kfactor;
    for (deficit, want) in [
        (1u64, 1388u32),
        (2, 1750),
        (3, 2003),
        (5, 2375),
        (10, 2991),
        (30, 4316),
        (50, 5120),
        (100, 6451),
        (200, 8125),
        (300, 9294),
        (500, 11_027),
        (1000, 13_897),
        (3000, 20_033),
        (10_000, 29_930),
        (30_000, 43_169),
        (100_000, 64_487),
        (300_000, 92_967),
        (1_000_000, 138_877),
        (4_194_304, 224_011),
        (u64::from(u32::MAX), 2_256_306),
    ] {
        assert_eq!(cube_root(k.wrapping_mul(deficit)), want, "{deficit}");
    }
}

/// The target of the curve, read back through a hook-free evaluation.
fn target(hz: Hz, dmin: u32, ms: u32) -> u32 {
    let j0 = 100_000;
    let mut a = Cubic::default();
    a.state = State { wmax: 1000, origin: 1000, k: 9294, epoch: j0, dmin, ..State::default() };
    a.params.tcp_friendliness = false;
    a.update(&mut env(hz, j0 + ms * hz.get() / 1000), 1, 1);
    // With w = 1 the divisor is 1/(target − 1) lifted to 2, so evaluate by search instead: target > w ⇔ cnt ≠ 100·w.
    let (mut low, mut high) = (1u32, 1 << 20);
    while low < high {
        let w = (low + high) / 2;
        let mut b = Cubic::default();
        b.state = State { wmax: 1000, origin: 1000, k: 9294, epoch: j0, dmin, last_j: j0 - 1, ..State::default() };
        b.params.tcp_friendliness = false;
        b.update(&mut env(hz, j0 + ms * hz.get() / 1000), w, 1);
        if b.state.cnt == 100 * w { high = w } else { low = w + 1 }
    }
    low
}

#[test]
fn curve_values() {
    // spec/cubic.md §6.
    for (ms, want) in [
        (0, 705),
        (1, 705),
        (4, 705),
        (10, 706),
        (100, 715),
        (500, 751),
        (1000, 793),
        (2000, 861),
        (5000, 974),
        (9036, 1000),
        (12_000, 1010),
        (20_000, 1527),
        (60_000, 53_996),
    ] {
        assert_eq!(target(Hz::H250, 40_000, ms), want, "{ms} ms");
        assert_eq!(target(Hz::H1000, 40_000, ms), want, "{ms} ms");
    }
    for (ms, at250, at1000) in
        [(0, 702, 701), (100, 711, 711), (500, 748, 748), (2000, 859, 859), (9036, 1000, 1000), (20_000, 1522, 1522)]
    {
        assert_eq!(target(Hz::H250, 1001, ms), at250, "{ms} ms");
        assert_eq!(target(Hz::H1000, 1001, ms), at1000, "{ms} ms");
    }
}

/// The script of spec/cubic.md §7; yields (cwnd, cnt, ai_credit, rw, ackc) after each listed millisecond.
fn trajectory(hz: Hz, window: u32, acked: u32, friendly: bool, rows: &[(u32, [u32; 5])]) {
    let j0 = 100_000;
    let mut e = env(hz, j0);
    let mut c = Conn::new(1448, hz, j0);
    let mut a = Cubic::new(Params { tcp_friendliness: friendly, ..Params::default() }).unwrap();
    a.init(&mut c, &mut e);
    (c.cwnd, c.ssthresh, a.state.dmin, c.limited) = (window, window, 40_000, true);
    c.ssthresh = a.ssthresh(&mut c, &mut e);
    (c.cwnd, c.ai_credit) = (c.ssthresh, 0);
    let mut k = 0;
    for &(at, want) in rows {
        while k < at {
            k += 1;
            e.jiffies = j0 + k * hz.get() / 1000;
            a.pkts_acked(&mut c, &mut e, &AckSample { acked, rtt_us: 40_000, in_flight_bytes: 0 });
            a.cong_avoid(&mut c, &mut e, 0, acked);
        }
        let s = &a.state;
        let got =
            if friendly { [c.cwnd, s.cnt, c.ai_credit, s.rw, s.ackc] } else { [c.cwnd, s.cnt, c.ai_credit, 0, 0] };
        assert_eq!(got, want, "HZ {}, {at} ms", hz.get());
    }
}

#[test]
fn trajectory_from_a_thousand() {
    trajectory(
        Hz::H250,
        1000,
        20,
        true,
        &[
            (1, [700, 140, 20, 700, 20]),
            (10, [701, 140, 60, 700, 200]),
            (50, [706, 176, 18, 700, 1000]),
            (100, [711, 237, 76, 701, 673]),
            (250, [725, 241, 91, 703, 982]),
            (500, [748, 186, 10, 707, 458]),
            (1000, [789, 263, 102, 714, 347]),
            (1500, [826, 275, 161, 720, 1258]),
            (2000, [858, 429, 212, 727, 194]),
            (2500, [886, 443, 48, 733, 358]),
            (3000, [910, 455, 28, 739, 236]),
            (3500, [931, 931, 115, 744, 1604]),
            (4000, [948, 948, 107, 750, 1043]),
            (5000, [973, 973, 357, 761, 1225]),
            (6000, [989, 98_900, 1140, 772, 978]),
            (8000, [1000, 100_000, 6340, 793, 1765]),
        ],
    );
    trajectory(
        Hz::H1000,
        1000,
        20,
        true,
        &[
            (1, [700, 140, 20, 700, 20]),
            (10, [701, 140, 60, 700, 200]),
            (50, [706, 176, 18, 700, 1000]),
            (100, [711, 237, 76, 701, 673]),
            (250, [725, 241, 92, 703, 982]),
            (500, [748, 186, 10, 707, 456]),
            (1000, [789, 263, 102, 714, 343]),
            (1500, [826, 275, 161, 720, 1254]),
            (2000, [858, 429, 212, 727, 190]),
            (2500, [886, 295, 49, 733, 354]),
            (3000, [910, 455, 30, 739, 232]),
            (3500, [930, 465, 460, 744, 1598]),
            (4000, [947, 947, 640, 750, 1037]),
            (5000, [973, 973, 443, 761, 1219]),
            (6000, [989, 98_900, 960, 772, 970]),
            (8000, [1000, 100_000, 6180, 793, 1755]),
        ],
    );
}

#[test]
fn trajectory_from_a_hundred() {
    trajectory(
        Hz::H250,
        100,
        2,
        true,
        &[
            (1, [70, 70, 2, 70, 2]),
            (10, [70, 70, 20, 70, 20]),
            (50, [71, 71, 38, 70, 100]),
            (100, [72, 72, 67, 71, 65]),
            (250, [76, 7600, 22, 73, 89]),
            (500, [80, 8000, 106, 76, 151]),
            (1000, [88, 8800, 18, 83, 55]),
            (1500, [93, 9300, 18, 89, 42]),
            (2000, [96, 9600, 290, 94, 156]),
            (2500, [100, 10_000, 42, 100, 63]),
            (3000, [105, 10_500, 106, 105, 108]),
            (4000, [115, 11_500, 42, 115, 60]),
            (6000, [132, 13_200, 130, 132, 147]),
            (8000, [147, 14_700, 234, 147, 244]),
        ],
    );
    trajectory(
        Hz::H1000,
        100,
        2,
        true,
        &[
            (50, [71, 71, 36, 70, 100]),
            (100, [72, 72, 70, 71, 65]),
            (250, [76, 7600, 22, 73, 87]),
            (500, [80, 8000, 109, 76, 149]),
            (1000, [88, 8800, 6, 83, 51]),
            (2000, [96, 9600, 262, 94, 152]),
            (3000, [105, 10_500, 68, 105, 104]),
            (4000, [114, 11_400, 258, 114, 269]),
            (6000, [132, 13_200, 126, 132, 143]),
            (8000, [147, 14_700, 192, 147, 240]),
        ],
    );
}

#[test]
fn trajectory_without_friendliness() {
    trajectory(
        Hz::H250,
        100,
        2,
        false,
        &[
            (2000, [96, 9600, 290, 0, 0]),
            (2500, [99, 9900, 50, 0, 0]),
            (3000, [100, 10_000, 338, 0, 0]),
            (5000, [100, 10_000, 4338, 0, 0]),
            (6000, [102, 10_200, 178, 0, 0]),
            (8000, [121, 12_100, 122, 0, 0]),
        ],
    );
    trajectory(
        Hz::H1000,
        100,
        2,
        false,
        &[
            (2000, [96, 9600, 262, 0, 0]),
            (2500, [99, 9900, 40, 0, 0]),
            (3000, [100, 10_000, 334, 0, 0]),
            (5000, [100, 10_000, 4334, 0, 0]),
            (6000, [102, 10_200, 186, 0, 0]),
            (8000, [121, 12_100, 116, 0, 0]),
        ],
    );
}

/// The set-up of spec/cubic.md §9: returns the number of the ACK at which HyStart fires.
fn train_fires(gap: u64, mode: PaceMode, rate: u64) -> Option<u32> {
    let mut e = env(Hz::H1000, 5000);
    let mut c = Conn::new(1448, Hz::H1000, 5000);
    c.set_now(1_000_000_000);
    (c.nxt, c.cwnd, c.pace_rate, c.pace_mode) = (1000, 16, rate, mode);
    let mut a = Cubic::default();
    a.init(&mut c, &mut e);
    a.state.dmin = 40_000;
    for n in 1..200 {
        c.set_now((1_000_000 + u64::from(n) * gap) * 1000);
        a.pkts_acked(&mut c, &mut e, &AckSample { acked: 1, rtt_us: 40_000, in_flight_bytes: 0 });
        if a.state.found != 0 {
            assert_eq!(c.ssthresh, c.cwnd);
            return Some(n);
        }
    }
    None
}

#[test]
fn ack_trains() {
    assert_eq!(train_fires(1000, PaceMode::None, 12_500_000), Some(21));
    assert_eq!(train_fires(1000, PaceMode::Internal, 12_500_000), Some(42));
    assert_eq!(train_fires(1000, PaceMode::Fq, 12_500_000), Some(42));
    assert_eq!(train_fires(2000, PaceMode::None, 12_500_000), Some(11));
    assert_eq!(train_fires(2001, PaceMode::None, 12_500_000), None);
    assert_eq!(train_fires(1000, PaceMode::None, 1_000_000_000), Some(21));
    // 20130 µs of threshold: 20131 µs is reached at the 21st ACK, 20500 at the 21st too; a gap of 503 tells them apart.
    assert_eq!(train_fires(503, PaceMode::None, 1_000_000_000), Some(41));
    assert_eq!(train_fires(503, PaceMode::None, 12_500_000), Some(41));
    assert_eq!(train_fires(510, PaceMode::None, 1_000_000_000), Some(40));
    assert_eq!(train_fires(510, PaceMode::None, 12_500_000), Some(41));
}

/// Delay test alone; returns the sample (1-based) at which it fires.
fn delay_fires(cwnd: u32, dmin: u32, samples: &[i32]) -> (Option<usize>, u32) {
    let mut e = env(Hz::H1000, 5000);
    let mut c = Conn::new(1448, Hz::H1000, 5000);
    (c.nxt, c.cwnd) = (1000, cwnd);
    let mut a = Cubic::new(Params { hystart_detect: 2, ..Params::default() }).unwrap();
    a.init(&mut c, &mut e);
    a.state.dmin = dmin;
    for (i, &rtt_us) in samples.iter().enumerate() {
        a.pkts_acked(&mut c, &mut e, &AckSample { acked: 1, rtt_us, in_flight_bytes: 0 });
        if a.state.found != 0 {
            return (Some(i + 1), a.state.hs_rtt);
        }
    }
    (None, a.state.hs_rtt)
}

#[test]
fn delay_rises() {
    assert_eq!(delay_fires(20, 40_000, &[46_000; 12]).0, Some(9));
    assert_eq!(delay_fires(20, 40_000, &[45_001; 12]).0, Some(9));
    assert_eq!(delay_fires(20, 40_000, &[45_000; 12]).0, None);
    let mut mixed = [60_000; 20];
    mixed[..8].fill(50_000);
    mixed[8] = 44_000;
    assert_eq!(delay_fires(20, 40_000, &mixed), (None, 44_000));
    assert_eq!(delay_fires(15, 40_000, &[50_000; 12]), (None, u32::MAX));
    for (dmin, above) in [
        (1000, 5000),
        (10_000, 14_000),
        (32_000, 36_000),
        (40_000, 45_000),
        (100_000, 112_500),
        (128_000, 144_000),
        (200_000, 216_000),
    ] {
        assert_eq!(delay_fires(20, dmin, &[above; 12]).0, None);
        assert_eq!(delay_fires(20, dmin, &[above + 1; 12]).0, Some(9));
    }
}

#[test]
fn a_fresh_round_cannot_end_slow_start_at_once() {
    // CU-24.
    let mut e = env(Hz::H250, 77);
    let mut c = Conn::new(1448, Hz::H250, 77);
    (c.cwnd, c.nxt) = (64, 92_672);
    c.set_now(5_000_000_000);
    let mut a = Cubic::default();
    a.init(&mut c, &mut e);
    a.pkts_acked(&mut c, &mut e, &AckSample { acked: 1, rtt_us: 90_000, in_flight_bytes: 0 });
    assert_eq!((a.state.found, c.ssthresh), (0, crate::conn::INFINITE_SSTHRESH));
}

#[test]
fn first_epoch_is_capped_at_one_in_twenty() {
    // spec/cubic.md §10.
    let mut e = env(Hz::H250, 5000);
    let mut c = Conn::new(1448, Hz::H250, 5000);
    (c.cwnd, c.ssthresh, c.limited) = (100, 100, true);
    let mut a = Cubic::default();
    a.init(&mut c, &mut e);
    a.state.dmin = 40_000;
    a.cong_avoid(&mut c, &mut e, 0, 1);
    assert_eq!((a.state.cnt, a.state.origin, a.state.k), (20, 100, 0));
    for _ in 0..19 {
        a.cong_avoid(&mut c, &mut e, 0, 1);
    }
    assert_eq!(c.cwnd, 101);
}

#[test]
fn loss_forgets_the_maximum_and_rearms_hystart() {
    let mut e = env(Hz::H250, 5000);
    let mut c = Conn::new(1448, Hz::H250, 5000);
    c.nxt = 4711;
    c.set_now(3_000_000_000);
    let mut a = Cubic::default();
    a.state = State { wmax: 9, dmin: 8, found: 1, epoch: 7, cnt: 6, hs_n: 5, ..State::default() };
    a.set_state(&mut c, &mut e, CaState::Recovery);
    assert_eq!(a.state.wmax, 9);
    a.set_state(&mut c, &mut e, CaState::Loss);
    let want = State { hs_start: 3_000_000, hs_last: 3_000_000, hs_end: 4711, hs_rtt: u32::MAX, ..State::default() };
    assert_eq!(a.state, want);
}

#[test]
fn the_reno_loop_equals_its_division() {
    for (ackc, q_window, rw) in
        [(100u32, 7u32, 3u32), (13, 7, 3), (14, 7, 3), (26, 7, 3), (27, 7, 3), (1_000_000, 1, 0)]
    {
        let mut a = Cubic::default();
        a.state = State { ackc, rw, cnt: 1000, ..State::default() };
        a.keep_up_with_reno(q_window);
        let q = (q_window * 15) >> 3;
        let (mut left, mut r) = (ackc, rw);
        while left > q {
            left -= q;
            r += 1;
        }
        assert_eq!((a.state.ackc, a.state.rw), (left, r));
    }
}
