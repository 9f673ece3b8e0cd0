//! The connection variables that hooks and the core share (spec/cc-interface.md §2).

use crate::clock::{Hz, before};
use crate::minmax::WindowedFilter;

/// "Infinite" slow-start threshold.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Initial congestion window, packets (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;

/// Congestion state of the sender (`ss -i` shows it as `ca_state`). Order matters: `Recovery` and `Loss` repair losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CaState {
    /// Nothing odd.
    #[default]
    Open = 0,
    /// SACKs or duplicate ACKs seen, no reduction.
    Disorder = 1,
    /// Window being reduced for ECN or local congestion, nothing lost.
    Cwr = 2,
    /// Window being reduced and losses repaired.
    Recovery = 3,
    /// After a retransmission timeout.
    Loss = 4,
}

impl CaState {
    /// The state with this number, if there is one.
    #[must_use]
    pub const fn from_number(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::Open,
            1 => Self::Disorder,
            2 => Self::Cwr,
            3 => Self::Recovery,
            4 => Self::Loss,
            _ => return None,
        })
    }

    /// CWR or Recovery: the window is being reduced by PRR.
    #[inline(always)]
    #[must_use]
    pub const fn in_reduction(self) -> bool {
        matches!(self, Self::Cwr | Self::Recovery)
    }
}

/// Who enforces the pacing rate (`sk_pacing_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PaceMode {
    /// Nobody; the rate still sizes bursts and feeds HyStart.
    #[default]
    None = 0,
    /// The stack's own timer.
    Internal = 1,
    /// The fq queue discipline.
    Fq = 2,
}

/// ECN feedback negotiated for the connection (spec/ecn-tcp.md §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnMode {
    /// No ECN.
    #[default]
    Off,
    /// RFC 3168: ECE and CWR.
    Classic,
    /// AccECN asked for, not yet answered (7.2).
    Pending,
    /// AccECN (7.2).
    AccEcn,
}

/// ECN flags of a connection, both directions (spec/ecn-tcp.md §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnFlags {
    /// What was negotiated.
    pub mode: EcnMode,
    /// Receiver: put ECE on everything sent.
    pub echo: bool,
    /// Sender: put CWR on the next new data segment.
    pub cwr_due: bool,
    /// Receiver: some ECN-capable data has arrived.
    pub ect_seen: bool,
    /// The reduction being started answers an ECN echo, not a loss; only ABE looks.
    pub cut: bool,
}

impl EcnFlags {
    /// Classic or AccECN feedback is in use.
    #[inline]
    #[must_use]
    pub const fn negotiated(&self) -> bool {
        matches!(self.mode, EcnMode::Classic | EcnMode::AccEcn)
    }
}

/// Sender and receiver variables of one connection, as Linux keeps them.
///
/// Windows and flight counts are in packets (one MSS-sized segment each); sequence numbers, `delivered` and ticks are
/// 32-bit serial numbers that wrap. All arithmetic of the core on these fields wraps as Linux's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conn {
    /// The event's clock, nanoseconds, sampled once per event.
    pub now_ns: u64,
    /// `now_ns / 1000`, kept because Linux keeps it.
    pub now_us: u64,

    /// Congestion window, packets.
    pub cwnd: u32,
    /// Slow-start threshold, packets.
    pub ssthresh: u32,
    /// Upper clamp on the window.
    pub cwnd_cap: u32,
    /// Additive-increase accumulator.
    pub ai_credit: u32,
    /// Initial window, packets.
    pub initial_window: u32,

    /// Packets between `una` and `nxt`.
    pub unacked: u32,
    /// Of those, SACKed.
    pub sacked: u32,
    /// Of those, marked lost.
    pub lost: u32,
    /// Retransmissions outstanding.
    pub retrans: u32,

    /// Packets delivered ever, SACKed ones and DSACK credit included; 1 after the handshake.
    pub delivered: u32,
    /// The same, reported CE-marked.
    pub delivered_ce: u32,
    /// Packets ever marked lost.
    pub lost_total: u32,

    /// Oldest unacknowledged sequence number.
    pub una: u32,
    /// Next sequence number to send.
    pub nxt: u32,

    /// Smoothed RTT times 8, µs; 0 before the first sample.
    pub srtt8: u32,
    /// Mean deviation times 4, µs.
    pub mdev4: u32,
    /// Largest `mdev4` of this round.
    pub mdev4_max: u32,
    /// Smoothed maximum of the deviation times 4, µs.
    pub rttvar4: u32,
    /// Sequence that ends the deviation's round.
    pub rtt_edge: u32,
    /// Windowed minimum RTT, µs; `u32::MAX` before the first sample.
    pub min_rtt: WindowedFilter,
    /// Retransmission timeout, ticks.
    pub rto: u32,
    /// Exponential back-off count.
    pub backoff: u8,
    /// Consecutive timeouts without progress.
    pub rto_streak: u8,

    /// Congestion state.
    pub state: CaState,
    /// `nxt` when the current episode began.
    pub recovery_point: u32,
    /// Window when the current reduction began.
    pub cwnd_before: u32,
    /// Threshold saved for undo; 0 forbids undoing the window.
    pub ssthresh_before: u32,
    /// `una` when the episode began; 0: nothing to undo.
    pub undo_mark: u32,
    /// Retransmissions of the episode not yet proved spurious; −1: none sent.
    pub undo_pending: i32,
    /// Timestamp clock of the episode's first retransmission; 0: none.
    pub first_rexmit_ts: u32,
    /// Packets delivered in this reduction.
    pub prr_delivered: u32,
    /// Packets sent in this reduction.
    pub prr_out: u32,
    /// Tail-loss probe: sequence that ends the open episode; 0: none.
    pub tlp_edge: u32,
    /// The open probe was a retransmission.
    pub tlp_rexmit: bool,
    /// Reordering degree, packets.
    pub reordering: u32,
    /// Reordering events seen.
    pub reord_seen: u32,

    /// Tick of the last validation or adjustment of the window.
    pub cwnd_stamp: u32,
    /// Largest flight of the current period that was not cwnd-limited.
    pub peak_used: u32,
    /// The window limited the sender in the current round.
    pub limited: bool,
    /// Flight at which `limited` was decided.
    pub peak_out: u32,
    /// Sequence that ends the limitation round.
    pub usage_edge: u32,
    /// Tick of the last data transmission.
    pub last_send_j: u32,

    /// Non-zero: samples are application-limited until `delivered` passes it.
    pub app_lim: u32,
    /// When `delivered` last grew, µs.
    pub delivered_us: u64,
    /// Departure of the most recently delivered segment, µs.
    pub first_us: u64,
    /// Delivery rate kept for diagnostics: packets.
    pub saved_delivered: u32,
    /// Delivery rate kept for diagnostics: interval, µs.
    pub saved_interval: u32,
    /// The kept delivery rate was application-limited.
    pub saved_app_limited: bool,

    /// Pacing rate, bytes/s; `u64::MAX`: unlimited.
    pub pace_rate: u64,
    /// Cap on the pacing rate, bytes/s.
    pub max_pace: u64,
    /// Who enforces the pacing rate.
    pub pace_mode: PaceMode,
    /// log2 of the fraction of a second that one burst may last (10: about 1 ms).
    pub pacing_shift: u8,
    /// Departure time given to the last packet, ns.
    pub edt_ns: u64,
    /// Largest burst, bytes of payload and headers: 65215 on Debian's amd64.
    pub gso_max: u32,
    /// Most segments in a burst (device limit).
    pub gso_max_segs: u32,
    /// Data segments sent so far.
    pub data_segs_out: u32,

    /// Payload bytes of a full packet.
    pub mss: u32,
    /// ECN state.
    pub ecn: EcnFlags,
    /// The socket is closed or listening (DCTCP initialises without negotiated ECN then).
    pub unconnected: bool,
    /// Selective acknowledgements are in use.
    pub sack_ok: bool,

    /// Receiver: next sequence number expected.
    pub rcv_nxt: u32,
    /// Receiver: the delayed-ACK timer is pending.
    pub delack_pending: bool,
    /// Receiver: an immediate ACK has been requested.
    pub ack_now: bool,
}

impl Conn {
    /// A connection at the start of data transfer: window 10, no RTT yet, application-limited until the first ACKs.
    ///
    /// `mss` is the payload of a full packet in bytes (at least 1), `jiffies` the tick counter now.
    #[must_use]
    pub fn new(mss: u32, hz: Hz, jiffies: u32) -> Self {
        Self {
            now_ns: 0,
            now_us: 0,
            cwnd: INITIAL_WINDOW,
            ssthresh: INFINITE_SSTHRESH,
            cwnd_cap: u32::MAX,
            ai_credit: 0,
            initial_window: INITIAL_WINDOW,
            unacked: 0,
            sacked: 0,
            lost: 0,
            retrans: 0,
            delivered: 1,
            delivered_ce: 0,
            lost_total: 0,
            una: 0,
            nxt: 0,
            srtt8: 0,
            mdev4: 1_000_000,
            mdev4_max: 0,
            rttvar4: 0,
            rtt_edge: 0,
            min_rtt: WindowedFilter::new(jiffies, u32::MAX),
            rto: hz.get(),
            backoff: 0,
            rto_streak: 0,
            state: CaState::Open,
            recovery_point: 0,
            cwnd_before: 0,
            ssthresh_before: 0,
            undo_mark: 0,
            undo_pending: -1,
            first_rexmit_ts: 0,
            prr_delivered: 0,
            prr_out: 0,
            tlp_edge: 0,
            tlp_rexmit: false,
            reordering: 3,
            reord_seen: 0,
            cwnd_stamp: jiffies,
            peak_used: 0,
            limited: false,
            peak_out: 0,
            usage_edge: 0,
            last_send_j: jiffies,
            app_lim: u32::MAX,
            delivered_us: 0,
            first_us: 0,
            saved_delivered: 0,
            saved_interval: 0,
            saved_app_limited: false,
            pace_rate: u64::MAX,
            max_pace: u64::MAX,
            pace_mode: PaceMode::None,
            pacing_shift: 10,
            edt_ns: 0,
            gso_max: 65_215,
            gso_max_segs: 65_535,
            data_segs_out: 0,
            mss: mss.max(1),
            ecn: EcnFlags::default(),
            unconnected: false,
            sack_ok: true,
            rcv_nxt: 0,
            delack_pending: false,
            ack_now: false,
        }
    }

    /// Samples the clock for one event.
    #[inline(always)]
    pub fn set_now(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.now_us = now_ns / 1000;
    }

    /// Packets in flight: `unacked − (sacked + lost) + retrans`, wrapping.
    #[inline(always)]
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.unacked.wrapping_sub(self.sacked.wrapping_add(self.lost)).wrapping_add(self.retrans)
    }

    /// The sender is still in slow start.
    #[inline(always)]
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether the window limits the sender; growth asks this (spec/cc-interface.md §7.2).
    #[inline(always)]
    #[must_use]
    pub const fn is_cwnd_limited(&self) -> bool {
        self.limited || (self.in_slow_start() && self.cwnd < self.peak_out.wrapping_mul(2))
    }

    /// The threshold as diagnostics and undo see it (spec/cc-interface.md §5.3); the two shifts are separate.
    #[inline]
    #[must_use]
    pub const fn current_ssthresh(&self) -> u32 {
        if self.state.in_reduction() {
            self.ssthresh
        } else {
            let three_quarters = (self.cwnd >> 1).wrapping_add(self.cwnd >> 2);
            if self.ssthresh > three_quarters { self.ssthresh } else { three_quarters }
        }
    }

    /// `una` has reached or passed `edge` in serial order.
    #[inline(always)]
    #[must_use]
    pub const fn una_reached(&self, edge: u32) -> bool {
        !before(self.una, edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_threshold_shifts_separately() {
        let mut c = Conn::new(1448, Hz::H250, 0);
        c.ssthresh = 2;
        c.cwnd = 7;
        assert_eq!(c.current_ssthresh(), 4);
        c.state = CaState::Cwr;
        assert_eq!(c.current_ssthresh(), 2);
    }

    #[test]
    fn limitation_doubles_the_peak_in_slow_start_only() {
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.cwnd, c.peak_out) = (10, 5);
        assert!(!c.is_cwnd_limited());
        c.peak_out = 6;
        assert!(c.is_cwnd_limited());
        c.ssthresh = 10;
        assert!(!c.is_cwnd_limited());
        c.limited = true;
        assert!(c.is_cwnd_limited());
    }

    #[test]
    fn flight_counts_retransmissions() {
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.unacked, c.sacked, c.lost, c.retrans) = (20, 4, 3, 2);
        assert_eq!(c.in_flight(), 15);
    }
}
