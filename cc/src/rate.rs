//! Delivery-rate sampling (spec/cc-interface.md §10).

use crate::clock::{after, delta_us};
use crate::conn::Conn;

/// What one segment remembers from its (re)transmission; keep it beside the segment (§10.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Departure stamp, µs; under pacing it can lie in the future.
    pub xmit_us: u64,
    /// Start of the send phase, µs.
    pub first_us: u64,
    /// When `delivered` had last grown, µs; 0 marks a consumed snapshot.
    pub delivered_us: u64,
    /// Packets delivered when it was sent.
    pub delivered: u32,
    /// CE-marked packets delivered when it was sent (20 bits).
    pub delivered_ce: u32,
    /// The sender was application-limited.
    pub app_limited: bool,
}

impl Snapshot {
    /// Takes the snapshot of a segment that departs at `xmit_us`, before it is added to `unacked` (§10.1).
    #[inline]
    pub fn on_sent(c: &mut Conn, xmit_us: u64) -> Self {
        if c.unacked == 0 {
            c.first_us = xmit_us;
            c.delivered_us = xmit_us;
        }
        Self {
            xmit_us,
            first_us: c.first_us,
            delivered_us: c.delivered_us,
            delivered: c.delivered,
            delivered_ce: c.delivered_ce & 0xf_ffff,
            app_limited: c.app_lim != 0,
        }
    }
}

/// The rate sample of one ACK, as `cong_control` sees it (§10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// `delivered_us` of the snapshot that drives the sample; 0: none contributed.
    pub prior_us: u64,
    /// Packets delivered when that segment was sent.
    pub prior_delivered: u32,
    /// CE-marked packets delivered when that segment was sent.
    pub prior_delivered_ce: u32,
    /// Packets delivered over the interval; −1: sample invalid.
    pub delivered: i32,
    /// Of those, CE-marked.
    pub delivered_ce: i32,
    /// Interval, µs; 0 or less: unusable as a bandwidth sample.
    pub interval_us: i64,
    /// Length of the send phase, µs.
    pub send_us: u32,
    /// Length of the ACK phase, µs.
    pub ack_us: u32,
    /// RTT for congestion control, µs; −1: none.
    pub rtt_us: i64,
    /// Packets newly marked lost.
    pub losses: i32,
    /// Packets newly delivered.
    pub acked_sacked: u32,
    /// In flight before this ACK.
    pub prior_in_flight: u32,
    /// End sequence of the last contributor.
    pub last_end_seq: u32,
    /// The driving segment was sent application-limited.
    pub is_app_limited: bool,
    /// The driving segment was a retransmission.
    pub is_retrans: bool,
    /// The ACK may have been delayed by the receiver.
    pub is_ack_delayed: bool,
}

impl Default for RateSample {
    fn default() -> Self {
        Self {
            prior_us: 0,
            prior_delivered: 0,
            prior_delivered_ce: 0,
            delivered: 0,
            delivered_ce: 0,
            interval_us: 0,
            send_us: 0,
            ack_us: 0,
            rtt_us: -1,
            losses: 0,
            acked_sacked: 0,
            prior_in_flight: 0,
            last_end_seq: 0,
            is_app_limited: false,
            is_retrans: false,
            is_ack_delayed: false,
        }
    }
}

impl RateSample {
    /// Takes in the first delivery of a segment (§10.2).
    ///
    /// Call once per newly delivered segment, SACKed ones in ascending order, then cumulatively acknowledged ones.
    /// The latest-sent segment drives the sample. `retransmitted`: it was ever sent again. The snapshot is consumed.
    #[inline]
    pub fn on_delivered(&mut self, c: &mut Conn, s: &mut Snapshot, end_seq: u32, retransmitted: bool) {
        if s.delivered_us == 0 {
            return;
        }
        let later = s.xmit_us > c.first_us || (s.xmit_us == c.first_us && after(end_seq, self.last_end_seq));
        if self.prior_delivered == 0 || later {
            self.prior_us = s.delivered_us;
            self.prior_delivered = s.delivered;
            self.prior_delivered_ce = s.delivered_ce;
            self.is_app_limited = s.app_limited;
            self.is_retrans = retransmitted;
            self.last_end_seq = end_seq;
            c.first_us = s.xmit_us;
            self.send_us = delta_us(s.xmit_us, s.first_us);
        }
        s.delivered_us = 0;
    }

    /// Completes the sample: `delivered` packets newly delivered, `lost` newly lost, `reneging` while the connection
    /// recovers from SACK reneging (§10.3).
    #[inline]
    pub fn generate(&mut self, c: &mut Conn, delivered: u32, lost: u32, reneging: bool) {
        if c.app_lim != 0 && after(c.delivered, c.app_lim) {
            c.app_lim = 0;
        }
        if delivered != 0 {
            c.delivered_us = c.now_us;
        }
        self.acked_sacked = delivered;
        self.losses = lost as i32;
        if self.prior_us == 0 || reneging {
            self.delivered = -1;
            self.interval_us = -1;
            return;
        }
        self.delivered = c.delivered.wrapping_sub(self.prior_delivered) as i32;
        self.delivered_ce = (c.delivered_ce.wrapping_sub(self.prior_delivered_ce) & 0xf_ffff) as i32;
        self.ack_us = delta_us(c.now_us, self.prior_us);
        let interval = self.send_us.max(self.ack_us);
        if interval < c.min_rtt.get() {
            self.interval_us = -1;
            return;
        }
        self.interval_us = i64::from(interval);
        self.keep(c, interval);
    }

    /// The best recent rate is kept for diagnostics; application-limited samples only replace it if they are not lower.
    #[inline]
    fn keep(&self, c: &mut Conn, interval: u32) {
        let new = (i64::from(self.delivered) as u64).wrapping_mul(u64::from(c.saved_interval));
        let old = u64::from(c.saved_delivered).wrapping_mul(u64::from(interval));
        if !self.is_app_limited || new >= old {
            c.saved_delivered = self.delivered as u32;
            c.saved_interval = interval;
            c.saved_app_limited = self.is_app_limited;
        }
    }
}

/// Delivery rate kept for diagnostics (`delivery_rate` of `ss -i`), bytes/s; 0 before the first sample.
#[must_use]
pub fn delivery_rate(c: &Conn) -> u64 {
    if c.saved_interval == 0 {
        return 0;
    }
    u64::from(c.saved_delivered).wrapping_mul(u64::from(c.mss)).wrapping_mul(1_000_000) / u64::from(c.saved_interval)
}

/// Marks the connection application-limited: the sender has nothing to fill the window with (§10.4).
///
/// The caller has checked that less than an MSS is unsent, nothing sits in the device queue, and no lost packet waits
/// for retransmission.
#[inline]
pub fn mark_app_limited(c: &mut Conn) {
    if c.in_flight() < c.cwnd && c.lost <= c.retrans {
        c.app_lim = c.delivered.wrapping_add(c.in_flight()).max(1);
    }
}

#[cfg(test)]
mod tests;
