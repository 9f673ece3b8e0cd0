//! The contract between the stack and an algorithm: Linux's hooks (spec/cc-interface.md §3).

use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::rate::{RateSample, Snapshot};

/// Something that happened to the window, or, for algorithms that need ECN, an arriving segment (§3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CwndEvent {
    /// A segment with payload is about to be sent while nothing is in flight.
    TxStart,
    /// Start of an idle restart.
    WindowRestart,
    /// CWR or Recovery ended, the window has been set.
    CwrComplete,
    /// RTO processing replaced the threshold.
    Loss,
    /// Receiver: a data segment arrived marked CE.
    EcnIsCe,
    /// Receiver: a data segment arrived ECN-capable but unmarked.
    EcnNoCe,
}

/// What `pkts_acked` is told (§3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Packets cumulatively acknowledged.
    pub acked: u32,
    /// RTT of the newest segment, µs; −1: none.
    pub rtt_us: i32,
    /// Bytes delivered since the driving segment was sent.
    pub in_flight_bytes: u32,
}

/// Flags handed to `in_ack_event` and `cong_control`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckFlags {
    /// The ACK took the slow path.
    pub slow_path: bool,
    /// It updated the window.
    pub window_update: bool,
    /// It echoed congestion.
    pub ece: bool,
}

/// A packet that has just been marked lost, with what it remembers (used by BBRv3 only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostPackets {
    /// Packets marked.
    pub packets: u32,
    /// Delivery snapshot of the segment.
    pub snapshot: Snapshot,
    /// In flight right after it was sent, itself included.
    pub tx_in_flight: u32,
    /// `lost_total` when it was sent.
    pub lost_at_send: u32,
}

/// What an algorithm asks of the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Usable without privilege.
    pub non_restricted: bool,
    /// Negotiates ECN whatever the configuration says, and marks every packet.
    pub needs_ecn: bool,
    /// Needs AccECN feedback.
    pub needs_accecn: bool,
    /// Marks with ECT(1).
    pub ect1: bool,
    /// Must not fall back to RFC 3168 feedback.
    pub no_rfc3168_fallback: bool,
}

/// Algorithm-specific diagnostics (`ss -i`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Info {
    /// Nothing to tell.
    #[default]
    None,
    /// `tcp_dctcp_info` (spec/dctcp.md §7).
    Dctcp {
        /// False after the fall-back to Reno; the rest is 0 then.
        enabled: bool,
        /// Last CE state received.
        ce_state: u16,
        /// Marked fraction, 1024 = 1.
        alpha: u32,
        /// Bytes marked in the running round.
        ab_ecn: u32,
        /// Bytes delivered in the running round.
        ab_tot: u32,
    },
    /// `tcp_bbr_info` (spec/bbr.md §14).
    Bbr {
        /// Bandwidth estimate, bytes/s, without margin.
        bw: u64,
        /// Minimum RTT, µs.
        min_rtt_us: u32,
        /// Pacing gain, 256 = 1.
        pacing_gain: u32,
        /// Window gain, 256 = 1.
        cwnd_gain: u32,
    },
    /// Prague (not Linux).
    Prague {
        /// Marked fraction, 2^20 = 1.
        alpha: u64,
        /// Fractional window, 2^20 = one packet.
        fractional_window: u64,
    },
}

/// A congestion-control algorithm: Linux's hooks over [`Conn`].
///
/// `self` is the 104-byte private area of a socket: fresh (all zero) when attached, before [`init`](Self::init). The
/// hooks change `c` in place as Linux's do; the driver and the state machine call them in Linux's order.
pub trait Algorithm {
    /// The name `tcp_congestion_control` knows it by.
    fn name(&self) -> &'static str;

    /// What it asks of the stack.
    fn flags(&self) -> Flags {
        Flags { non_restricted: true, ..Flags::default() }
    }

    /// Data transfer starts.
    fn init<E: Env>(&mut self, c: &mut Conn, env: &mut E) {
        let _ = (c, env);
    }

    /// A reduction starts: the new threshold, packets.
    fn ssthresh<E: Env>(&mut self, c: &mut Conn, env: &mut E) -> u32;

    /// Window growth for an ACK outside a reduction; `acked` packets newly delivered, SACKed ones included.
    fn cong_avoid<E: Env>(&mut self, c: &mut Conn, env: &mut E, ack: u32, acked: u32) {
        let _ = (c, env, ack, acked);
    }

    /// Whether [`cong_control`](Self::cong_control) replaces PRR, growth and pacing.
    fn has_cong_control(&self) -> bool {
        false
    }

    /// The whole window step, for algorithms that have it.
    fn cong_control<E: Env>(&mut self, c: &mut Conn, env: &mut E, ack: u32, flags: AckFlags, rs: &RateSample) {
        let _ = (c, env, ack, flags, rs);
    }

    /// The congestion state is about to become `new`; `c.state` is still the old one.
    fn set_state<E: Env>(&mut self, c: &mut Conn, env: &mut E, new: CaState) {
        let _ = (c, env, new);
    }

    /// A window event.
    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, event: CwndEvent) {
        let _ = (c, env, event);
    }

    /// Every ACK, after its deliveries were counted, before the state machine.
    fn in_ack_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, flags: AckFlags) {
        let _ = (c, env, flags);
    }

    /// Every ACK while data is outstanding, after the RTT was processed.
    fn pkts_acked<E: Env>(&mut self, c: &mut Conn, env: &mut E, sample: &AckSample) {
        let _ = (c, env, sample);
    }

    /// A reduction was spurious: the window to return to, packets.
    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, env: &mut E) -> u32;

    /// Least segments in a burst; `None`: the system's setting (2).
    fn min_tso_segs(&self, c: &Conn) -> Option<u32> {
        let _ = c;
        None
    }

    /// How many windows the send buffer should hold.
    fn sndbuf_expand(&self) -> u32 {
        2
    }

    /// Packets were marked lost, told one by one; BBRv3 only, no Linux hook.
    fn on_lost<E: Env>(&mut self, c: &mut Conn, env: &mut E, lost: &LostPackets) {
        let _ = (c, env, lost);
    }

    /// More about the segment that drives the coming rate sample; BBRv3 only, no Linux hook.
    fn on_sample<E: Env>(&mut self, c: &mut Conn, env: &mut E, tx_in_flight: u32, lost_at_send: u32) {
        let _ = (c, env, tx_in_flight, lost_at_send);
    }

    /// Diagnostics.
    fn info(&self, c: &Conn) -> Info {
        let _ = c;
        Info::None
    }
}
