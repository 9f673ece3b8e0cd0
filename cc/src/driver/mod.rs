//! A driver for stack authors: tell it what was sent, acknowledged, lost; read window, pacing rate and burst size.
//!
//! It runs Linux's own per-ACK order around any [`Algorithm`]: rate sample, RTT, hooks, state machine, PRR or growth,
//! pacing (spec/cc-interface.md §4). Time is nanoseconds on the caller's monotonic clock.

mod bytes;
mod events;
mod metrics;

use crate::algorithm::{Algorithm, Flags};
use crate::clock::Hz;
use crate::conn::{CaState, Conn, EcnMode, INITIAL_WINDOW, PaceMode};
use crate::env::Env;
use crate::machine::Recovery;
use crate::sysctl::Sysctl;
use crate::version::Linux;
use crate::{pacing, rtt};

pub use bytes::ByteDriver;
pub use events::{Ack, Flight, Stamp};
pub use metrics::Metrics;

/// Settings of a [`Driver`]; `Config::new(mss)` is what a Linux host would use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Payload of a full packet, bytes.
    pub mss: u32,
    /// Bytes of header that pacing charges per burst.
    pub header: u32,
    /// Tick rate to reproduce; 250 like Debian's kernels.
    pub hz: Hz,
    /// System settings, the version among them.
    pub sysctl: Sysctl,
    /// Initial window, packets.
    pub initial_window: u32,
    /// ECN feedback in use. QUIC's counts are `AccEcn`.
    pub ecn: EcnMode,
    /// Who paces. BBR paces internally whatever is set here.
    pub pacing: PaceMode,
    /// Cap on the pacing rate, bytes/s.
    pub max_pacing_rate: u64,
    /// Seed of BBR's random phase: give each connection its own.
    pub seed: u64,
}

impl Config {
    /// Defaults of the newest Linux for packets of `mss` bytes.
    #[must_use]
    pub const fn new(mss: u32) -> Self {
        Self {
            mss,
            header: 32,
            hz: Hz::H250,
            sysctl: Sysctl::new(Linux::V7_2),
            initial_window: INITIAL_WINDOW,
            ecn: EcnMode::Off,
            pacing: PaceMode::None,
            max_pacing_rate: u64::MAX,
            seed: 0,
        }
    }

    /// The same, for datagrams of `size` bytes of UDP payload with ECN counts in their acknowledgements (QUIC).
    #[must_use]
    pub const fn quic(size: u32) -> Self {
        Self { header: 0, ecn: EcnMode::AccEcn, pacing: PaceMode::Internal, ..Self::new(size) }
    }

    /// The same, behaving like another Linux.
    #[must_use]
    pub const fn behave_like(mut self, version: Linux) -> Self {
        self.sysctl.version = version;
        self
    }
}

/// The driver's clock starts here at the caller's 0, ns: Linux takes a stamp of 0 for "none".
const ORIGIN_NS: u64 = 1_000_000;

/// Ticks from the driver's clock, draws from its seed (splitmix64).
#[derive(Clone, Copy, Debug)]
struct World {
    hz: Hz,
    jiffies: u32,
    seed: u64,
}

impl World {
    fn set_now(&mut self, now_ns: u64) {
        self.jiffies = self.hz.jiffies_at(now_ns);
    }
}

impl Env for World {
    fn hz(&self) -> Hz {
        self.hz
    }

    fn jiffies(&mut self) -> u32 {
        self.jiffies
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ self.seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ z >> 31) >> 32).wrapping_mul(u64::from(bound)) >> 32) as u32
    }
}

/// Congestion control of one connection.
///
/// Count in packets here, or in bytes with [`ByteDriver`]. Two styles of stack are served:
///
/// * **datagrams** (QUIC): every packet leaves the flight when it is acknowledged or declared lost; retransmitted data
///   travels in new packets. Report acknowledged and lost packets; the driver counts the flight.
/// * **segments** (TCP): the stack keeps a scoreboard and passes its counts with each ACK ([`Ack::flight`]);
///   retransmissions go through [`on_retransmitted`](Self::on_retransmitted).
///
/// ```
/// use debloat_cc::driver::{Ack, Config, Driver};
/// use debloat_cc::Cubic;
///
/// let ms = |n: u64| n * 1_000_000;
/// let mut cc = Driver::new(Cubic::default(), Config::quic(1200));
/// let mut packet = cc.on_sent(ms(0), 1); // keep the stamp beside the packet
/// for _ in 1..cc.cwnd() {
///     packet = cc.on_sent(ms(0), 1);
/// }
/// assert!(!cc.can_send());
/// cc.on_ack(ms(40), &Ack { delivered: 10, newest: Some(packet), ..Ack::default() });
/// assert_eq!(cc.cwnd(), 20);
/// assert!(cc.pacing_rate() > 0 && cc.burst_packets() >= 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Driver<A> {
    conn: Conn,
    algorithm: A,
    sysctl: Sysctl,
    recovery: Recovery,
    world: World,
    header: u32,
    started: bool,
    /// Packets declared lost since the last event.
    pending_lost: u32,
    latest_rtt_us: u32,
}

impl<A: Algorithm> Driver<A> {
    /// A driver around a fresh algorithm. The algorithm's `init` runs at the first packet sent, or at
    /// [`on_established`](Self::on_established).
    #[must_use]
    pub fn new(algorithm: A, config: Config) -> Self {
        let world = World { hz: config.hz, jiffies: config.hz.jiffies_at(0), seed: config.seed };
        let mut conn = Conn::new(config.mss, config.hz, world.jiffies);
        conn.initial_window = config.initial_window.max(1);
        conn.cwnd = conn.initial_window;
        conn.ecn.mode = config.ecn;
        conn.pace_mode = config.pacing;
        conn.max_pace = config.max_pacing_rate;
        conn.reordering = config.sysctl.reordering;
        // A position of 0 stands for "none" in the marks of undo.
        (conn.una, conn.nxt) = (1, 1);
        Self {
            conn,
            algorithm,
            sysctl: config.sysctl,
            recovery: Recovery::default(),
            world,
            header: config.header,
            started: false,
            pending_lost: 0,
            latest_rtt_us: 0,
        }
    }

    /// The handshake is over, with an RTT sample in µs if it gave one. Optional: without it the first packet sent
    /// starts the algorithm, and BBR paces at its initial guess until the first RTT.
    pub fn on_established(&mut self, now_ns: u64, rtt_us: Option<u32>) {
        self.at(now_ns);
        if self.started {
            return;
        }
        match rtt_us {
            Some(us) => self.take_rtt(us, us, false),
            None => rtt::no_handshake_sample(&mut self.conn, self.world.hz),
        }
        self.start();
    }

    fn at(&mut self, now_ns: u64) {
        let now_ns = now_ns.saturating_add(ORIGIN_NS);
        self.conn.set_now(now_ns);
        self.world.set_now(now_ns);
    }

    fn start(&mut self) {
        self.started = true;
        let j = self.world.jiffies;
        self.conn.cwnd_stamp = j;
        self.conn.last_send_j = j;
        self.conn.delivered_us = self.conn.now_us;
        self.conn.first_us = self.conn.now_us;
        pacing::update_rate(&mut self.conn, &self.sysctl);
        self.algorithm.init(&mut self.conn, &mut self.world);
    }

    fn take_rtt(&mut self, srtt_us: u32, cc_us: u32, maybe_delayed: bool) {
        self.latest_rtt_us = cc_us;
        rtt::update(&mut self.conn, &self.sysctl, self.world.hz, self.world.jiffies, srtt_us, cc_us, maybe_delayed);
    }

    /// Congestion window, packets.
    #[must_use]
    pub const fn cwnd(&self) -> u32 {
        self.conn.cwnd
    }

    /// Slow-start threshold, packets; 0x7fffffff: infinite.
    #[must_use]
    pub const fn ssthresh(&self) -> u32 {
        self.conn.ssthresh
    }

    /// Packets in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.conn.in_flight()
    }

    /// Packets that the window allows now, pacing aside.
    #[must_use]
    pub const fn window_space(&self) -> u32 {
        self.conn.cwnd.saturating_sub(self.conn.in_flight())
    }

    /// Whether the window allows a packet, pacing aside.
    #[must_use]
    pub const fn can_send(&self) -> bool {
        self.window_space() > 0
    }

    /// Pacing rate, bytes/s. It is computed even when nothing paces.
    #[must_use]
    pub const fn pacing_rate(&self) -> u64 {
        self.conn.pace_rate
    }

    /// With internal pacing: no packet may be sent before this instant, ns.
    #[must_use]
    pub const fn next_departure_ns(&self) -> u64 {
        match self.conn.pace_mode {
            PaceMode::None => 0,
            PaceMode::Internal | PaceMode::Fq => self.conn.edt_ns.saturating_sub(ORIGIN_NS),
        }
    }

    /// Packets to hand down in one burst (TSO autosizing).
    #[must_use]
    pub fn burst_packets(&self) -> u32 {
        pacing::burst_segments(&self.conn, &self.sysctl, self.algorithm.min_tso_segs(&self.conn))
    }

    /// Congestion state.
    #[must_use]
    pub const fn state(&self) -> CaState {
        self.conn.state
    }

    /// Retransmission timeout, µs.
    #[must_use]
    pub const fn rto_us(&self) -> u32 {
        self.world.hz.us_from_ticks(self.conn.rto)
    }

    /// What the algorithm asks of the stack (ECN above all).
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.algorithm.flags()
    }

    /// How many windows the send buffer should hold (`tcp_wmem` auto-tuning).
    #[must_use]
    pub fn sndbuf_expand(&self) -> u32 {
        self.algorithm.sndbuf_expand()
    }

    /// The algorithm with its state.
    #[must_use]
    pub const fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// The connection variables, in Linux's terms.
    #[must_use]
    pub const fn conn(&self) -> &Conn {
        &self.conn
    }

    /// The packet size changed (path MTU). The window in packets stays, but it never shrinks in bytes below the
    /// initial window.
    pub fn set_mss(&mut self, mss: u32) {
        self.conn.mss = mss.max(1);
        self.conn.cwnd = self.conn.cwnd.max(self.conn.initial_window.min(self.conn.cwnd_cap));
    }

    /// Another ECN feedback was negotiated.
    pub fn set_ecn(&mut self, mode: EcnMode) {
        self.conn.ecn.mode = mode;
    }

    /// Caps the pacing rate, bytes/s, and turns internal pacing on if nothing paced (`SO_MAX_PACING_RATE`).
    pub fn set_max_pacing_rate(&mut self, bytes_per_second: u64) {
        self.conn.max_pace = bytes_per_second;
        self.conn.pace_rate = self.conn.pace_rate.min(bytes_per_second);
        if bytes_per_second != u64::MAX && self.conn.pace_mode == PaceMode::None {
            self.conn.pace_mode = PaceMode::Internal;
        }
    }

    /// ECN echo to put on everything sent (classic receiver, DCTCP's receiver).
    #[must_use]
    pub const fn must_echo(&self) -> bool {
        self.conn.ecn.echo
    }

    /// Takes the CWR flag to put on this new data segment, if one is due (classic ECN).
    pub fn take_cwr(&mut self) -> bool {
        core::mem::take(&mut self.conn.ecn.cwr_due)
    }
}

#[cfg(test)]
mod tests;
