//! The 104-byte private area of a socket as the three kernels lay it out, field by field.
//!
//! The layouts come from the type information (BTF) of the images and modules of 6.1, 6.12 and 7.2, which agree; 6.12
//! appends PLB's state to DCTCP's, which never moves a window and is carried over untouched.

use debloat_cc::bbr::{self, Mode};
use debloat_cc::minmax::{Reading, WindowedFilter};
use debloat_cc::{CaState, cubic, dctcp};

/// A socket's private area.
pub type Private = [u8; 104];

fn u8_at(p: &Private, at: usize) -> u8 {
    p[at]
}

fn u16_at(p: &Private, at: usize) -> u16 {
    u16::from_le_bytes([p[at], p[at + 1]])
}

fn u32_at(p: &Private, at: usize) -> u32 {
    u32::from_le_bytes([p[at], p[at + 1], p[at + 2], p[at + 3]])
}

fn u64_at(p: &Private, at: usize) -> u64 {
    u64::from(u32_at(p, at)) | u64::from(u32_at(p, at + 4)) << 32
}

fn put<const N: usize>(p: &mut Private, at: usize, bytes: [u8; N]) {
    p[at..at + N].copy_from_slice(&bytes);
}

fn bits(word: u32, from: u32, width: u32) -> u32 {
    word >> from & ((1 << width) - 1)
}

fn put_bits(word: &mut u32, from: u32, width: u32, value: u32) {
    let mask = ((1 << width) - 1) << from;
    *word = *word & !mask | value << from & mask;
}

/// Reads CUBIC's state (`struct bictcp`).
#[must_use]
pub fn cubic(p: &Private) -> cubic::State {
    cubic::State {
        cnt: u32_at(p, 0),
        wmax: u32_at(p, 4),
        last_w: u32_at(p, 8),
        last_j: u32_at(p, 12),
        origin: u32_at(p, 16),
        k: u32_at(p, 20),
        dmin: u32_at(p, 24),
        epoch: u32_at(p, 28),
        ackc: u32_at(p, 32),
        rw: u32_at(p, 36),
        hs_n: u8_at(p, 42),
        found: u8_at(p, 43),
        hs_start: u32_at(p, 44),
        hs_end: u32_at(p, 48),
        hs_last: u32_at(p, 52),
        hs_rtt: u32_at(p, 56),
    }
}

/// Writes CUBIC's state; bytes that are no field stay.
pub fn put_cubic(p: &mut Private, s: &cubic::State) {
    let words = [s.cnt, s.wmax, s.last_w, s.last_j, s.origin, s.k, s.dmin, s.epoch, s.ackc, s.rw];
    for (i, w) in words.into_iter().enumerate() {
        put(p, 4 * i, w.to_le_bytes());
    }
    (p[42], p[43]) = (s.hs_n, s.found);
    for (i, w) in [s.hs_start, s.hs_end, s.hs_last, s.hs_rtt].into_iter().enumerate() {
        put(p, 44 + 4 * i, w.to_le_bytes());
    }
}

/// Reads DCTCP's state (`struct dctcp`).
#[must_use]
pub fn dctcp(p: &Private) -> dctcp::State {
    dctcp::State {
        d0: u32_at(p, 0),
        ce0: u32_at(p, 4),
        prior_rcv: u32_at(p, 8),
        alpha: u32_at(p, 12),
        round_end: u32_at(p, 16),
        ce_state: u32_at(p, 20),
        cwnd_at_cut: u32_at(p, 24),
    }
}

/// Writes DCTCP's state; PLB's and unused bytes stay.
pub fn put_dctcp(p: &mut Private, s: &dctcp::State) {
    let words = [s.d0, s.ce0, s.prior_rcv, s.alpha, s.round_end, s.ce_state, s.cwnd_at_cut];
    for (i, w) in words.into_iter().enumerate() {
        put(p, 4 * i, w.to_le_bytes());
    }
}

/// Reads BBR's state (`struct bbr`); `None` for a mode or congestion state that does not exist.
#[must_use]
pub fn bbr(p: &Private) -> Option<bbr::State> {
    let (a, b, c) = (u32_at(p, 56), u32_at(p, 76), u32_at(p, 100));
    let reading = |at| Reading { t: u32_at(p, at), v: u32_at(p, at + 4) };
    Some(bbr::State {
        min_rtt: u32_at(p, 0),
        min_rtt_j: u32_at(p, 4),
        probe_rtt_done: u32_at(p, 8),
        bw: WindowedFilter { e: [reading(12), reading(20), reading(28)] },
        rounds: u32_at(p, 36),
        next_round: u32_at(p, 40),
        phase_us: u64_at(p, 48),
        mode: Mode::from_number(bits(a, 0, 3) as u8)?,
        prev_state: CaState::from_number(bits(a, 3, 3) as u8)?,
        conserve: bits(a, 6, 1) != 0,
        round_start: bits(a, 7, 1) != 0,
        idle_restart: bits(a, 8, 1) != 0,
        probe_rtt_round: bits(a, 9, 1) != 0,
        pol_on: bits(a, 23, 1) != 0,
        pol_n: bits(a, 24, 7) as u8,
        pol_use: bits(a, 31, 1) != 0,
        pol_bw: u32_at(p, 60),
        pol_del: u32_at(p, 64),
        pol_ms: u32_at(p, 68),
        pol_lost: u32_at(p, 72),
        pacing_gain: bits(b, 0, 10),
        cwnd_gain: bits(b, 10, 10),
        full: bits(b, 20, 1) != 0,
        full_n: bits(b, 21, 2) as u8,
        idx: bits(b, 23, 3) as u8,
        seen_rtt: bits(b, 26, 1) != 0,
        saved_cwnd: u32_at(p, 80),
        full_bw: u32_at(p, 84),
        xa_us: u64_at(p, 88),
        xa: [u16_at(p, 96), u16_at(p, 98)],
        xa_acked: bits(c, 0, 20),
        xa_n: bits(c, 20, 5) as u8,
        xa_slot: bits(c, 25, 1) as u8,
    })
}

/// Writes BBR's state; unused bits and padding stay.
pub fn put_bbr(p: &mut Private, s: &bbr::State) {
    let (mut a, mut b, mut c) = (u32_at(p, 56), u32_at(p, 76), u32_at(p, 100));
    for (from, width, value) in [
        (0, 3, s.mode as u32),
        (3, 3, s.prev_state as u32),
        (6, 1, s.conserve.into()),
        (7, 1, s.round_start.into()),
        (8, 1, s.idle_restart.into()),
        (9, 1, s.probe_rtt_round.into()),
        (23, 1, s.pol_on.into()),
        (24, 7, s.pol_n.into()),
        (31, 1, s.pol_use.into()),
    ] {
        put_bits(&mut a, from, width, value);
    }
    for (from, width, value) in [
        (0, 10, s.pacing_gain),
        (10, 10, s.cwnd_gain),
        (20, 1, s.full.into()),
        (21, 2, s.full_n.into()),
        (23, 3, s.idx.into()),
        (26, 1, s.seen_rtt.into()),
    ] {
        put_bits(&mut b, from, width, value);
    }
    for (from, width, value) in [(0, 20, s.xa_acked), (20, 5, s.xa_n.into()), (25, 1, s.xa_slot.into())] {
        put_bits(&mut c, from, width, value);
    }
    let e = s.bw.e;
    let low = [s.min_rtt, s.min_rtt_j, s.probe_rtt_done, e[0].t, e[0].v, e[1].t, e[1].v, e[2].t, e[2].v];
    for (i, w) in low.into_iter().chain([s.rounds, s.next_round]).enumerate() {
        put(p, 4 * i, w.to_le_bytes());
    }
    put(p, 48, s.phase_us.to_le_bytes());
    for (i, w) in [a, s.pol_bw, s.pol_del, s.pol_ms, s.pol_lost, b, s.saved_cwnd, s.full_bw].into_iter().enumerate() {
        put(p, 56 + 4 * i, w.to_le_bytes());
    }
    put(p, 88, s.xa_us.to_le_bytes());
    put(p, 96, s.xa[0].to_le_bytes());
    put(p, 98, s.xa[1].to_le_bytes());
    put(p, 100, c.to_le_bytes());
}
