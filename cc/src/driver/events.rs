//! The events a stack reports.

use super::Driver;
use crate::algorithm::{AckFlags, AckSample, Algorithm, CwndEvent, LostPackets};
use crate::clock::{after, delta_us};
use crate::conn::{Conn, EcnMode};
use crate::machine::{AckEvent, Machine, Next, Scoreboard};
use crate::rack::Rack;
use crate::rate::{RateSample, Snapshot, mark_app_limited};
use crate::sysctl::Sysctl;
use crate::{pacing, rate, validate};

/// What a packet remembers; keep it beside the packet (56 bytes) and hand it back when it is acknowledged or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Delivery snapshot.
    pub snapshot: Snapshot,
    /// Position behind the last packet of the burst, counted in packets sent.
    pub end: u32,
    /// Packets in the burst.
    pub packets: u32,
    /// In flight right after it was sent, itself included.
    pub tx_in_flight: u32,
    /// Packets lost so far when it was sent.
    pub lost_at_send: u32,
    /// It was a retransmission (segments only).
    pub retransmission: bool,
}

impl Stamp {
    /// When the packet departs, ns: at once, or later under pacing.
    #[must_use]
    pub const fn departure_ns(&self) -> u64 {
        (self.snapshot.xmit_us * 1000).saturating_sub(super::ORIGIN_NS)
    }
}

/// A TCP scoreboard's counts **after** an ACK, packets (`tcp_info` has the same four).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Sent and not cumulatively acknowledged.
    pub unacked: u32,
    /// Of those, SACKed.
    pub sacked: u32,
    /// Of those, marked lost.
    pub lost: u32,
    /// Retransmissions outstanding.
    pub retrans: u32,
}

/// One acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Packets delivered for the first time, SACKed ones included.
    pub delivered: u32,
    /// Packets this ACK showed to be lost; or report them one by one with [`Driver::on_packet_lost`].
    pub newly_lost: u32,
    /// The stamp of the latest-sent packet among those delivered. Without it there is no rate sample (BBR needs one).
    pub newest: Option<Stamp>,
    /// RTT of the newest packet, µs, receiver delay taken off; `None`: computed from `newest`.
    pub rtt_us: Option<u32>,
    /// RTT of the oldest packet newly acknowledged, for smoothing; `None`: the same.
    pub srtt_us: Option<u32>,
    /// The receiver may have delayed this ACK.
    pub maybe_delayed: bool,
    /// Packets newly reported CE-marked (QUIC counts, AccECN).
    pub ce: u32,
    /// ECE of RFC 3168 (also DCTCP's echo): all of `delivered` counts as marked.
    pub ece: bool,
    /// Packets once declared lost that turn out to have been delivered (late ACK, DSACK).
    pub spurious: u32,
    /// The scoreboard after this ACK, for stacks that keep one; `None`: datagrams.
    pub flight: Option<Flight>,
}

/// The driver's view of segments: counts only.
struct Counts {
    /// Loss marks to apply when the machine detects.
    newly_lost: u32,
    /// Scoreboard after the ACK; `None`: datagrams.
    flight: Option<Flight>,
    lost_seen: bool,
}

impl Scoreboard for Counts {
    fn detect_losses(&mut self, c: &mut Conn, _rack: &mut Rack, _sysctl: &Sysctl) -> bool {
        let lost = core::mem::take(&mut self.newly_lost);
        self.lost_seen |= lost > 0;
        c.lost_total = c.lost_total.wrapping_add(lost);
        match self.flight {
            Some(f) => {
                let fell = f.retrans < c.retrans;
                (c.lost, c.retrans) = (f.lost, f.retrans);
                fell && lost > 0
            }
            None => {
                c.unacked = c.unacked.saturating_sub(lost);
                false
            }
        }
    }

    fn has_lost(&self, c: &Conn) -> bool {
        self.lost_seen || c.lost > 0
    }

    fn head_retransmitted(&self) -> bool {
        self.flight.is_some_and(|f| f.retrans > 0)
    }

    fn unmark_lost(&mut self, c: &mut Conn) {
        c.lost = 0;
    }

    fn mark_timeout(&mut self, c: &mut Conn) -> bool {
        match self.flight {
            Some(f) => {
                c.lost_total = c.lost_total.wrapping_add(f.lost.saturating_sub(c.lost));
                (c.unacked, c.sacked, c.lost, c.retrans) = (f.unacked, f.sacked, f.lost, f.retrans);
            }
            None => {
                c.lost_total = c.lost_total.wrapping_add(c.unacked);
                c.unacked = 0;
            }
        }
        false
    }
}

impl<A: Algorithm> Driver<A> {
    /// The application queues new data: after an idle period the window may restart (Linux's slow start after idle).
    /// Returns whether it did.
    pub fn on_data_queued(&mut self, now_ns: u64) -> bool {
        self.at(now_ns);
        self.started && validate::idle_restart(&mut self.conn, &mut self.algorithm, &mut self.world, &self.sysctl)
    }

    /// `packets` packets of new data leave as one burst. Returns the stamp to keep beside them.
    pub fn on_sent(&mut self, now_ns: u64, packets: u32) -> Stamp {
        self.at(now_ns);
        if !self.started {
            self.start();
        }
        let stamp = self.send(packets, false);
        let full = self.conn.in_flight() >= self.conn.cwnd;
        self.after_transmit(full);
        stamp
    }

    /// `packets` lost packets are sent again (segments; datagram stacks send new packets instead).
    pub fn on_retransmitted(&mut self, now_ns: u64, packets: u32) -> Stamp {
        self.at(now_ns);
        if self.conn.first_rexmit_ts == 0 {
            self.conn.first_rexmit_ts = ((now_ns / 1_000_000) as u32).max(1);
        }
        self.conn.undo_pending = self.conn.undo_pending.max(0).saturating_add_unsigned(packets);
        self.send(packets, true)
    }

    fn send(&mut self, packets: u32, again: bool) -> Stamp {
        let c = &mut self.conn;
        if c.in_flight() == 0 {
            self.algorithm.cwnd_event(c, &mut self.world, CwndEvent::TxStart);
        }
        let departure = pacing::stamp(c);
        let snapshot = Snapshot::on_sent(c, departure.at_ns / 1000);
        if again {
            c.retrans = c.retrans.wrapping_add(packets);
        } else {
            c.nxt = c.nxt.wrapping_add(packets);
            c.unacked = c.unacked.wrapping_add(packets);
        }
        c.data_segs_out = c.data_segs_out.saturating_add(packets);
        c.last_send_j = self.world.jiffies;
        if c.state.in_reduction() {
            c.prr_out = c.prr_out.wrapping_add(packets);
        }
        pacing::paced(c, departure, packets.wrapping_mul(c.mss).wrapping_add(self.header));
        Stamp {
            snapshot,
            end: c.nxt,
            packets,
            tx_in_flight: c.in_flight(),
            lost_at_send: c.lost_total,
            retransmission: again,
        }
    }

    /// Data waits, but the window (or the wish to fill a burst) holds it back: the sender counts as window-limited.
    pub fn on_window_limited(&mut self, now_ns: u64) {
        self.at(now_ns);
        self.after_transmit(true);
    }

    fn after_transmit(&mut self, full: bool) {
        let itself = self.algorithm.has_cong_control();
        validate::after_transmit(&mut self.conn, &mut self.world, &self.sysctl, full, false, itself);
    }

    /// Nothing is left to send: coming rate samples are application-limited.
    pub fn on_app_limited(&mut self) {
        mark_app_limited(&mut self.conn);
    }

    /// A packet is declared lost. The reaction follows with the next [`on_ack`](Self::on_ack) or
    /// [`on_loss_timer`](Self::on_loss_timer).
    pub fn on_packet_lost(&mut self, stamp: &Stamp) {
        self.pending_lost = self.pending_lost.saturating_add(stamp.packets);
        let lost = LostPackets {
            packets: stamp.packets,
            snapshot: stamp.snapshot,
            tx_in_flight: stamp.tx_in_flight,
            lost_at_send: stamp.lost_at_send,
        };
        // The algorithm sees the total with this packet counted.
        let total = self.conn.lost_total;
        self.conn.lost_total = total.wrapping_add(self.pending_lost);
        self.algorithm.on_lost(&mut self.conn, &mut self.world, &lost);
        self.conn.lost_total = total;
    }

    /// A loss-detection timer declared packets lost without an ACK: report them with
    /// [`on_packet_lost`](Self::on_packet_lost) first. `flight` for stacks with a scoreboard.
    pub fn on_loss_timer(&mut self, now_ns: u64, flight: Option<Flight>) {
        self.at(now_ns);
        let newly_lost = core::mem::take(&mut self.pending_lost);
        let mut board = Counts { newly_lost, flight, lost_seen: false };
        self.machine(&mut board).on_loss_timer();
        if flight.is_none() {
            self.datagrams_lost(newly_lost);
        }
    }

    /// The retransmission timer fired (QUIC: persistent congestion): everything outstanding is lost, except what
    /// `flight` (after marking) says for stacks with a scoreboard.
    pub fn on_rto(&mut self, now_ns: u64, flight: Option<Flight>) {
        self.at(now_ns);
        self.pending_lost = 0;
        let outstanding = self.conn.unacked;
        let mut board = Counts { newly_lost: 0, flight, lost_seen: false };
        let mut machine = self.machine(&mut board);
        machine.on_timeout();
        if flight.is_none() {
            self.datagrams_lost(outstanding);
        }
    }

    fn machine<'a>(&'a mut self, board: &'a mut Counts) -> Machine<'a, A, super::World, Counts> {
        Machine {
            c: &mut self.conn,
            algorithm: &mut self.algorithm,
            env: &mut self.world,
            board,
            sysctl: &self.sysctl,
            recovery: &mut self.recovery,
        }
    }

    /// Lost datagrams are repaired by new packets at once: the episode has its retransmissions.
    fn datagrams_lost(&mut self, packets: u32) {
        if packets == 0 {
            return;
        }
        self.conn.first_rexmit_ts = self.conn.first_rexmit_ts.max(1);
        self.conn.undo_pending = self.conn.undo_pending.max(0).saturating_add_unsigned(packets);
    }

    /// An acknowledgement arrived. Call it after [`on_packet_lost`](Self::on_packet_lost) for the losses it revealed.
    pub fn on_ack(&mut self, now_ns: u64, ack: &Ack) -> Next {
        self.at(now_ns);
        let (prior_una, prior_in_flight) = (self.conn.una, self.conn.in_flight());
        let had_data = self.conn.unacked > 0;
        let newly_lost = core::mem::take(&mut self.pending_lost).saturating_add(ack.newly_lost);
        self.count_flight(ack, newly_lost);
        let ece = self.count_marks(ack);
        let ev = self.classify(ack, prior_una, ece);
        if !had_data && newly_lost == 0 {
            let flags = AckFlags { slow_path: ece, window_update: ev.advanced, ece };
            self.algorithm.in_ack_event(&mut self.conn, &mut self.world, flags);
            return Next::Nothing;
        }
        let mut rs = self.sample(ack, prior_in_flight);
        let flags = AckFlags { slow_path: ece || ev.sacked, window_update: ev.advanced, ece };
        self.algorithm.in_ack_event(&mut self.conn, &mut self.world, flags);
        if ack.spurious > 0 && self.conn.undo_mark != 0 && self.conn.undo_pending > 0 {
            self.conn.undo_pending = self.conn.undo_pending.saturating_sub_unsigned(ack.spurious).max(0);
        }
        let next = self.run_machine(ack, &ev, newly_lost);
        rs.generate(&mut self.conn, ack.delivered, newly_lost, self.recovery.reneging);
        let mut board = Counts { newly_lost: 0, flight: ack.flight, lost_seen: false };
        self.machine(&mut board).window_step(&ev, flags, &rs);
        next
    }

    /// Counters of the flight as they are before loss detection.
    fn count_flight(&mut self, ack: &Ack, newly_lost: u32) {
        let c = &mut self.conn;
        c.delivered = c.delivered.wrapping_add(ack.delivered);
        if let Some(f) = ack.flight {
            (c.unacked, c.sacked) = (f.unacked, f.sacked);
            c.lost = f.lost.saturating_sub(newly_lost);
            // A retransmission that was found lost still counts until detection.
            c.retrans = if newly_lost > 0 { c.retrans.max(f.retrans) } else { f.retrans };
            c.una = c.nxt.wrapping_sub(f.unacked);
        } else {
            c.unacked = c.unacked.saturating_sub(ack.delivered.saturating_sub(ack.spurious));
            if let Some(s) = ack.newest
                && after(s.end, c.una)
            {
                c.una = s.end;
            }
        }
    }

    /// Counts CE marks; returns whether the ACK echoes congestion.
    fn count_marks(&mut self, ack: &Ack) -> bool {
        let c = &mut self.conn;
        match c.ecn.mode {
            EcnMode::Classic if ack.ece => {
                c.delivered_ce = c.delivered_ce.wrapping_add(ack.delivered);
                true
            }
            EcnMode::Classic | EcnMode::AccEcn if ack.ce > 0 => {
                c.delivered_ce = c.delivered_ce.wrapping_add(ack.ce);
                true
            }
            _ => false,
        }
    }

    fn classify(&mut self, ack: &Ack, prior_una: u32, ece: bool) -> AckEvent {
        let advanced = after(self.conn.una, prior_una);
        if advanced {
            self.conn.rto_streak = 0;
        }
        let delivered = ack.delivered > 0;
        AckEvent {
            advanced,
            ece,
            acked: if ack.flight.is_some() { advanced } else { delivered },
            sacked: delivered && ack.flight.is_some() && !advanced,
            original_delivered: delivered && ack.newest.is_some_and(|s| !s.retransmission) && ack.flight.is_some(),
            duplicates: u32::from(!advanced && !delivered),
            mtu_probe_failed: false,
        }
    }

    /// RTT and rate sample of the newest packet.
    fn sample(&mut self, ack: &Ack, prior_in_flight: u32) -> RateSample {
        let mut rs = RateSample { prior_in_flight, is_ack_delayed: ack.maybe_delayed, ..RateSample::default() };
        let mut rtt = ack.rtt_us;
        if let Some(mut s) = ack.newest {
            if rtt.is_none() && !s.retransmission {
                rtt = Some(delta_us(self.conn.now_us, s.snapshot.xmit_us));
            }
            rs.on_delivered(&mut self.conn, &mut s.snapshot, s.end, s.retransmission);
            self.algorithm.on_sample(&mut self.conn, &mut self.world, s.tx_in_flight, s.lost_at_send);
        }
        if let Some(us) = rtt {
            rs.rtt_us = i64::from(us);
            self.take_rtt(ack.srtt_us.unwrap_or(us), us, ack.maybe_delayed);
        }
        let packets = self.conn.delivered.wrapping_sub(rs.prior_delivered);
        let sample = AckSample {
            acked: ack.delivered,
            rtt_us: rtt.map_or(-1, |us| us.min(i32::MAX as u32) as i32),
            in_flight_bytes: if ack.newest.is_some() { self.conn.mss.wrapping_mul(packets) } else { 0 },
        };
        self.algorithm.pkts_acked(&mut self.conn, &mut self.world, &sample);
        rs
    }

    /// The state machine, if the ACK gives it reason to look.
    fn run_machine(&mut self, ack: &Ack, ev: &AckEvent, newly_lost: u32) -> Next {
        let mut board = Counts { newly_lost, flight: ack.flight, lost_seen: false };
        let mut next = Next::Nothing;
        let state = self.conn.state;
        let quiet = state == crate::CaState::Open && !ev.ece && !ev.sacked && newly_lost == 0 && ack.spurious == 0;
        if !quiet || ev.duplicates > 0 {
            next = self.machine(&mut board).on_ack(ev);
        }
        // Where the machine did not look for losses they still count.
        board.detect_losses(&mut self.conn, &mut self.recovery.rack, &self.sysctl);
        if ack.flight.is_none() {
            self.datagrams_lost(newly_lost);
        }
        next
    }

    /// Delivery rate of the last good sample, bytes/s.
    #[must_use]
    pub fn delivery_rate(&self) -> u64 {
        rate::delivery_rate(&self.conn)
    }
}
