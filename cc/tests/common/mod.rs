//! A minimal TCP sender and path for the tests: segments with tags, RACK, PRR, timers; one packet per segment.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::collections::VecDeque;

use debloat_cc::algorithm::{AckFlags, AckSample, CwndEvent};
use debloat_cc::clock::{after, before, delta_us};
use debloat_cc::env::Fixed;
use debloat_cc::machine::{AckEvent, Machine, Next, Recovery, Scoreboard};
use debloat_cc::rack::Rack;
use debloat_cc::rate::{RateSample, Snapshot};
use debloat_cc::{Algorithm, Conn, Hz, Sysctl, pacing, rtt, validate};

/// One packet of the retransmission queue.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub seq: u32,
    pub xmit_us: u64,
    pub snapshot: Snapshot,
    pub sacked: bool,
    pub retrans: bool,
    pub lost: bool,
    pub ever: bool,
}

/// The scoreboard.
#[derive(Clone, Debug, Default)]
pub struct Board {
    pub queue: VecDeque<Segment>,
}

impl Board {
    fn mark(&mut self, c: &mut Conn, i: usize) -> bool {
        let s = &mut self.queue[i];
        let mut retransmission_lost = false;
        if s.lost && s.retrans {
            s.retrans = false;
            c.retrans -= 1;
            c.lost_total += 1;
            retransmission_lost = true;
        } else if !s.lost && !s.sacked {
            s.lost = true;
            c.lost += 1;
            c.lost_total += 1;
            if s.retrans {
                s.retrans = false;
                c.retrans -= 1;
            }
        }
        retransmission_lost
    }
}

impl Scoreboard for Board {
    fn detect_losses(&mut self, c: &mut Conn, rack: &mut Rack, sysctl: &Sysctl) -> bool {
        if !std::mem::take(&mut rack.advanced) {
            return false;
        }
        let window = rack.window(c, sysctl);
        let mut fell = false;
        for i in 0..self.queue.len() {
            let s = self.queue[i];
            if s.sacked || (s.lost && !s.retrans) || !rack.is_older(s.xmit_us, s.seq + 1) {
                continue;
            }
            if rack.remaining(c, window, s.xmit_us) <= 0 {
                fell |= self.mark(c, i);
            }
        }
        fell
    }

    fn head_retransmitted(&self) -> bool {
        self.queue.front().is_some_and(|s| s.ever)
    }

    fn unmark_lost(&mut self, c: &mut Conn) {
        for s in &mut self.queue {
            s.lost = false;
        }
        c.lost = 0;
    }

    fn mark_timeout(&mut self, c: &mut Conn) -> bool {
        for i in 0..self.queue.len() {
            self.mark(c, i);
        }
        false
    }
}

/// A sender whose application always has data.
#[derive(Clone, Debug)]
pub struct Tcp<A> {
    pub c: Conn,
    pub algorithm: A,
    pub env: Fixed,
    pub sysctl: Sysctl,
    pub recovery: Recovery,
    pub board: Board,
    highest_sacked: u32,
    /// Packets the application still has; `u32::MAX`: endless.
    pub left: u32,
    /// When the oldest outstanding packet was last (re)transmitted.
    timer_us: u64,
}

impl<A: Algorithm> Tcp<A> {
    pub fn new(algorithm: A, mss: u32, hz: Hz) -> Self {
        let env = Fixed { hz, jiffies: hz.jiffies_at(0), draw: 3 };
        let c = Conn::new(mss, hz, env.jiffies);
        Self {
            c,
            algorithm,
            env,
            sysctl: Sysctl::default(),
            recovery: Recovery::default(),
            board: Board::default(),
            highest_sacked: 0,
            left: u32::MAX,
            timer_us: 0,
        }
    }

    pub fn at(&mut self, us: u64) {
        self.c.set_now(us * 1000);
        self.env.jiffies = self.env.hz.jiffies_at(us * 1000);
    }

    /// Data transfer starts, with the handshake's RTT.
    pub fn start(&mut self, us: u64, rtt_us: u32) {
        self.at(us);
        rtt::update(&mut self.c, &self.sysctl, self.env.hz, self.env.jiffies, rtt_us, rtt_us, false);
        (self.c.cwnd_stamp, self.c.last_send_j) = (self.env.jiffies, self.env.jiffies);
        (self.c.delivered_us, self.c.first_us) = (us, us);
        pacing::update_rate(&mut self.c, &self.sysctl);
        self.algorithm.init(&mut self.c, &mut self.env);
    }

    fn transmit(&mut self, again: Option<usize>) -> u32 {
        if self.c.in_flight() == 0 {
            self.algorithm.cwnd_event(&mut self.c, &mut self.env, CwndEvent::TxStart);
        }
        let departure = pacing::stamp(&mut self.c);
        let xmit_us = departure.at_ns / 1000;
        let snapshot = Snapshot::on_sent(&mut self.c, xmit_us);
        let seq = match again {
            Some(i) => {
                let s = &mut self.board.queue[i];
                (s.xmit_us, s.snapshot, s.retrans, s.ever) = (xmit_us, snapshot, true, true);
                self.c.retrans += 1;
                self.c.undo_pending = self.c.undo_pending.max(0) + 1;
                if self.c.first_rexmit_ts == 0 {
                    self.c.first_rexmit_ts = (xmit_us / 1000) as u32;
                }
                s.seq
            }
            None => {
                let seq = self.c.nxt;
                self.c.nxt = self.c.nxt.wrapping_add(1);
                self.c.unacked += 1;
                self.left = if self.left == u32::MAX { self.left } else { self.left - 1 };
                let flags = (false, false, false);
                self.board.queue.push_back(Segment {
                    seq,
                    xmit_us,
                    snapshot,
                    sacked: flags.0,
                    retrans: flags.1,
                    lost: flags.2,
                    ever: false,
                });
                seq
            }
        };
        self.c.data_segs_out += 1;
        self.c.last_send_j = self.env.jiffies;
        if self.c.state.in_reduction() {
            self.c.prr_out += 1;
        }
        let bytes = self.c.mss + 32;
        pacing::paced(&mut self.c, departure, bytes);
        seq
    }

    /// Sends what window and pacing allow: lost packets first. Returns the sequence numbers.
    pub fn fill(&mut self, next: Next) -> Vec<u32> {
        let mut sent = Vec::new();
        if next == Next::Retransmit || self.c.lost > self.c.retrans {
            for i in 0..self.board.queue.len() {
                let s = self.board.queue[i];
                if s.lost && !s.sacked && !s.retrans {
                    if self.c.in_flight() >= self.c.cwnd || pacing::blocked(&self.c) {
                        break;
                    }
                    sent.push(self.transmit(Some(i)));
                }
            }
        }
        while self.left > 0 && self.c.in_flight() < self.c.cwnd && !pacing::blocked(&self.c) {
            sent.push(self.transmit(None));
        }
        if sent.iter().any(|&s| self.board.queue.front().is_some_and(|h| h.seq == s)) {
            self.timer_us = self.c.now_us;
        }
        let full = self.c.in_flight() >= self.c.cwnd;
        if !sent.is_empty() || full {
            let itself = self.algorithm.has_cong_control();
            validate::after_transmit(&mut self.c, &mut self.env, &self.sysctl, full, false, itself);
        }
        sent
    }

    /// When the retransmission timer fires, µs.
    pub fn timeout_at(&self) -> Option<u64> {
        (self.c.unacked > 0).then(|| self.timer_us + u64::from(self.env.hz.us_from_ticks(self.c.rto)))
    }

    pub fn timeout(&mut self, us: u64) -> Vec<u32> {
        self.at(us);
        self.timer_us = us;
        self.machine().on_timeout();
        self.fill(Next::Retransmit)
    }

    fn machine(&mut self) -> Machine<'_, A, Fixed, Board> {
        Machine {
            c: &mut self.c,
            algorithm: &mut self.algorithm,
            env: &mut self.env,
            board: &mut self.board,
            sysctl: &self.sysctl,
            recovery: &mut self.recovery,
        }
    }

    fn deliver(&mut self, i: usize, rs: &mut RateSample) {
        let c = &mut self.c;
        let s = &mut self.board.queue[i];
        if s.lost {
            s.lost = false;
            c.lost -= 1;
        }
        self.recovery.rack.advance(c, s.xmit_us, s.seq + 1, s.ever);
        rs.on_delivered(c, &mut s.snapshot, s.seq + 1, s.ever);
        c.delivered += 1;
    }

    /// An ACK: everything below `una`, SACKed ranges [from, to), `ece` of RFC 3168. Runs §4 of the specification and
    /// returns what may be retransmitted.
    pub fn ack(&mut self, us: u64, una: u32, sacks: &[(u32, u32)], ece: bool) -> Next {
        self.at(us);
        let prior_una = self.c.una;
        let (d0, l0) = (self.c.delivered, self.c.lost_total);
        let mut rs = RateSample { prior_in_flight: self.c.in_flight(), ..RateSample::default() };
        let advanced = after(una, prior_una);
        if advanced {
            self.c.una = una;
            self.c.rto_streak = 0;
        }
        let (mut srtt, mut cc) = (None, None);
        let mut newly_sacked = 0;
        for &(from, to) in sacks {
            for i in 0..self.board.queue.len() {
                let s = self.board.queue[i];
                if before(s.seq, from) || !before(s.seq, to) || s.sacked {
                    continue;
                }
                self.deliver(i, &mut rs);
                let s = &mut self.board.queue[i];
                s.sacked = true;
                self.c.sacked += 1;
                newly_sacked += 1;
                self.highest_sacked = self.highest_sacked.max(s.seq + 1);
                if !s.ever {
                    srtt.get_or_insert(delta_us(us, s.xmit_us));
                    cc = Some(delta_us(us, s.xmit_us));
                }
            }
        }
        let mut acked = 0;
        let (mut first, mut last, mut clean) = (None, None, true);
        let mut original = false;
        while self.board.queue.front().is_some_and(|s| before(s.seq, self.c.una)) {
            let s = self.board.queue[0];
            clean &= !s.ever;
            if s.sacked {
                self.c.sacked -= 1;
            } else {
                self.deliver(0, &mut rs);
                original |= !s.ever;
                first.get_or_insert(delta_us(us, s.xmit_us));
                last = Some(delta_us(us, s.xmit_us));
            }
            if s.retrans {
                self.c.retrans -= 1;
            }
            self.c.unacked -= 1;
            acked += 1;
            self.board.queue.pop_front();
        }
        if clean && first.is_some() {
            (srtt, cc) = (first, cc.or(last));
        }
        if advanced {
            self.timer_us = us;
        }
        if ece {
            self.c.delivered_ce += self.c.delivered - d0;
        }
        if let (Some(srtt), Some(cc)) = (srtt, cc) {
            rtt::update(&mut self.c, &self.sysctl, self.env.hz, self.env.jiffies, srtt, cc, false);
            rs.rtt_us = i64::from(cc);
        }
        let sample = AckSample { acked, rtt_us: cc.map_or(-1, |v| v as i32), in_flight_bytes: 0 };
        self.algorithm.pkts_acked(&mut self.c, &mut self.env, &sample);
        let flags = AckFlags { slow_path: ece || newly_sacked > 0, window_update: advanced, ece };
        self.algorithm.in_ack_event(&mut self.c, &mut self.env, flags);
        let ev = AckEvent {
            advanced,
            ece,
            acked: acked > 0,
            sacked: newly_sacked > 0,
            original_delivered: original,
            duplicates: u32::from(!advanced),
            mtu_probe_failed: false,
        };
        let mut next = Next::Nothing;
        if !advanced || newly_sacked > 0 || ece || self.c.state != debloat_cc::CaState::Open {
            next = self.machine().on_ack(&ev);
        }
        let (d, l) = (self.c.delivered - d0, self.c.lost_total - l0);
        rs.generate(&mut self.c, d, l, false);
        self.machine().window_step(&ev, flags, &rs);
        next
    }
}
