//! Operation models for fuzzing: a byte string becomes a run of events, and what must hold is asserted.
//!
//! The same models serve libFuzzer and the property tests of `cargo test`.

use crate::algorithm::{AckFlags, AckSample, Algorithm, CwndEvent};
use crate::conn::{CaState, Conn, EcnMode, PaceMode};
use crate::driver::{Ack, Config, Driver, Flight, Stamp};
use crate::env::Fixed;
use crate::rate::RateSample;
use crate::{Any, Bbr, Cubic, Dctcp, Hz, Linux};

/// Reads numbers off the input; past its end they are 0.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn u8(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes([self.u8(), self.u8(), self.u8(), self.u8()])
    }

    /// Small, large or any: one byte chooses.
    fn word(&mut self) -> u32 {
        match self.u8() {
            n @ 0..=199 => u32::from(n),
            200..=219 => u32::MAX - u32::from(self.u8()),
            _ => self.u32(),
        }
    }
}

fn wild_conn(i: &mut Input<'_>, c: &mut Conn) {
    for field in [
        &mut c.cwnd,
        &mut c.ssthresh,
        &mut c.ai_credit,
        &mut c.unacked,
        &mut c.sacked,
        &mut c.lost,
        &mut c.retrans,
        &mut c.delivered,
        &mut c.delivered_ce,
        &mut c.lost_total,
        &mut c.una,
        &mut c.nxt,
        &mut c.srtt8,
        &mut c.mss,
        &mut c.app_lim,
        &mut c.peak_out,
        &mut c.cwnd_before,
        &mut c.last_send_j,
        &mut c.rcv_nxt,
        &mut c.cwnd_cap,
    ] {
        if i.u8() & 1 != 0 {
            *field = i.word();
        }
    }
    let flags = i.u8();
    c.limited = flags & 1 != 0;
    c.pace_mode = [PaceMode::None, PaceMode::Internal, PaceMode::Fq][usize::from(flags >> 1 & 3) % 3];
    c.ecn.mode = [EcnMode::Off, EcnMode::Classic, EcnMode::Pending, EcnMode::AccEcn][usize::from(flags >> 3 & 3)];
    if flags & 32 != 0 {
        c.pace_rate = u64::from(i.u32()) << (i.u8() & 32);
    }
    if flags & 64 != 0 {
        c.min_rtt.reset(0, i.word());
    }
    c.set_now(u64::from(i.u32()) << (i.u8() & 31));
    if flags & 128 != 0 {
        (c.delivered_us, c.edt_ns) = (u64::from(i.u32()), u64::from(i.u32()) << 10);
    }
}

fn hook<A: Algorithm>(i: &mut Input<'_>, a: &mut A, c: &mut Conn, e: &mut Fixed) {
    e.jiffies = i.word();
    e.draw = i.u8().into();
    match i.u8() % 11 {
        0 => a.init(c, e),
        1 => c.ssthresh = a.ssthresh(c, e),
        2 => {
            let (ack, acked) = (i.u32(), i.word());
            a.cong_avoid(c, e, ack, acked);
        }
        3 => {
            let new = CaState::from_number(i.u8() % 5).unwrap_or_default();
            a.set_state(c, e, new);
            c.state = new;
        }
        4 => {
            let event = [
                CwndEvent::TxStart,
                CwndEvent::WindowRestart,
                CwndEvent::CwrComplete,
                CwndEvent::Loss,
                CwndEvent::EcnIsCe,
                CwndEvent::EcnNoCe,
            ][usize::from(i.u8() % 6)];
            a.cwnd_event(c, e, event);
        }
        5 => a.in_ack_event(c, e, AckFlags { ece: i.u8() & 1 != 0, ..AckFlags::default() }),
        6 => {
            let sample = AckSample { acked: i.word(), rtt_us: i.u32() as i32, in_flight_bytes: i.u32() };
            a.pkts_acked(c, e, &sample);
        }
        7 => c.cwnd = a.undo_cwnd(c, e),
        8 => {
            let rs = RateSample {
                delivered: i.u32() as i32,
                interval_us: i64::from(i.u32() as i32),
                prior_delivered: i.word(),
                losses: i32::from(i.u8()),
                acked_sacked: i.word(),
                prior_in_flight: i.word(),
                rtt_us: i64::from(i.u32() as i32),
                is_app_limited: i.u8() & 1 != 0,
                is_ack_delayed: i.u8() & 1 != 0,
                ..RateSample::default()
            };
            a.cong_control(c, e, 0, AckFlags::default(), &rs);
        }
        9 => {
            let _ = (a.min_tso_segs(c), a.sndbuf_expand(), a.info(c));
        }
        _ => wild_conn(i, c),
    }
    assert!(c.cwnd <= c.cwnd_cap.max(c.cwnd));
}

fn hooks<A: Algorithm>(bytes: &[u8], mut a: A) {
    let mut i = Input(bytes);
    let hz = [Hz::H100, Hz::H250, Hz::H300, Hz::H1000][usize::from(i.u8() & 3)];
    let mut e = Fixed { hz, ..Fixed::default() };
    let mut c = Conn::new(1448, hz, 0);
    while !i.is_empty() {
        hook(&mut i, &mut a, &mut c, &mut e);
    }
}

/// CUBIC's hooks in any order on any connection.
pub fn cubic(bytes: &[u8]) {
    hooks(bytes, Cubic::default());
}

/// BBR's hooks in any order on any connection.
pub fn bbr(bytes: &[u8]) {
    hooks(bytes, Bbr::default());
}

/// DCTCP's hooks in any order on any connection.
pub fn dctcp(bytes: &[u8]) {
    hooks(bytes, Dctcp::default());
}

/// The driver around any algorithm: a stack that may send, acknowledge, lose and wait in any order.
///
/// Asserted after each event: the window is positive and below its cap; a threshold is at least 2; outside a reduction
/// an ACK never lowers a loss-based algorithm's window (CU-17).
pub fn driver(bytes: &[u8]) {
    let mut i = Input(bytes);
    let name = Any::NAMES[usize::from(i.u8()) % Any::NAMES.len()];
    let Some(algorithm) = Any::by_name(name) else { return };
    let version = [Linux::V6_1, Linux::V6_12, Linux::V7_2][usize::from(i.u8() % 3)];
    let mut config = Config { seed: i.u32().into(), ..Config::quic(1200) }.behave_like(version);
    config.ecn = [EcnMode::Off, EcnMode::Classic, EcnMode::AccEcn][usize::from(i.u8() % 3)];
    let mut cc = Driver::new(algorithm, config);
    let mut now = 0u64;
    // The last packets sent, in a ring.
    let mut sent = [Stamp::default(); 64];
    let (mut head, mut tail) = (0usize, 0usize);
    while !i.is_empty() {
        now += u64::from(i.u8()) * 500_000;
        let (window, state) = (cc.cwnd(), cc.state());
        let operation = i.u8() % 12;
        match operation {
            0..=3 => {
                for _ in 0..=i.u8() % 16 {
                    if head - tail < 64 && cc.can_send() {
                        sent[head % 64] = cc.on_sent(now, 1);
                        head += 1;
                    }
                }
                if !cc.can_send() {
                    cc.on_window_limited(now);
                }
            }
            4..=7 if head > tail => {
                let n = 1 + usize::from(i.u8()) % (head - tail);
                let newest = sent[(tail + n - 1) % 64];
                tail += n;
                let flags = i.u8();
                let ack = Ack {
                    delivered: n as u32,
                    newest: (flags & 1 == 0).then_some(newest),
                    rtt_us: (flags & 6 == 6).then(|| i.word()),
                    ce: u32::from(flags >> 3 & 3).min(n as u32),
                    ece: flags & 32 != 0,
                    maybe_delayed: flags & 64 != 0,
                    ..Ack::default()
                };
                cc.on_ack(now, &ack);
            }
            8 if head > tail => {
                cc.on_packet_lost(&sent[tail % 64]);
                tail += 1;
                if i.u8() & 1 != 0 {
                    cc.on_loss_timer(now, None);
                }
            }
            9 => {
                if i.u8() % 4 == 0 {
                    cc.on_rto(now, None);
                    tail = head;
                } else {
                    cc.on_ack(now, &Ack { spurious: 1, delivered: 1, ..Ack::default() });
                }
            }
            10 => {
                cc.on_app_limited();
                cc.on_data_queued(now);
            }
            _ => {
                let flight = Flight { unacked: i.word(), sacked: i.word(), lost: i.word(), retrans: i.word() };
                if i.u8() % 8 == 0 {
                    cc.on_ack(now, &Ack { delivered: i.word(), flight: Some(flight), ..Ack::default() });
                }
            }
        }
        let rises_only = matches!(name, "reno" | "cubic");
        if rises_only && (4..=7).contains(&operation) && state <= CaState::Disorder && cc.state() == state {
            assert!(cc.cwnd() >= window, "{name}: an ACK lowered the window from {window} to {}", cc.cwnd());
        }
        assert!(cc.cwnd() >= 1, "{name}: no window in {:?}", cc.state());
        assert!(cc.ssthresh() >= 1);
        let _ = (cc.burst_packets(), cc.metrics(), cc.next_departure_ns());
    }
}
