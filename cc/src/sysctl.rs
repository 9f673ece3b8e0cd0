//! The system settings that the core reads (spec/cc-interface.md §18).

use crate::prr::Form;
use crate::version::Linux;

/// Settings of `net.ipv4.tcp_*` with their kernel defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// Which Linux; decides the few rules that changed.
    pub version: Linux,
    /// `tcp_reordering`: initial reordering degree, packets.
    pub reordering: u32,
    /// `tcp_max_reordering`.
    pub max_reordering: u32,
    /// `tcp_recovery`: 1 RACK, 2 static reordering window, 4 no duplicate-ACK threshold.
    pub recovery: u8,
    /// `tcp_frto`: 0 turns F-RTO off.
    pub frto: u8,
    /// `tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `tcp_pacing_ss_ratio`, per cent.
    pub pacing_ss_ratio: u32,
    /// `tcp_pacing_ca_ratio`, per cent.
    pub pacing_ca_ratio: u32,
    /// `tcp_min_tso_segs`.
    pub min_tso_segs: u32,
    /// `tcp_tso_rtt_log`; 0 turns the RTT term off.
    pub tso_rtt_log: u8,
    /// `tcp_min_rtt_wlen`, seconds.
    pub min_rtt_wlen: u32,
    /// `tcp_rto_min_us`, µs (a constant before 6.12).
    pub rto_min_us: u32,
    /// `tcp_rto_max_ms`, ms (a constant before 7.2).
    pub rto_max_ms: u32,
    /// PRR's rule; the default is what all covered versions do.
    pub prr: Form,
}

impl Default for Sysctl {
    fn default() -> Self {
        Self::new(Linux::default())
    }
}

impl Sysctl {
    /// The defaults of this version.
    #[must_use]
    pub const fn new(version: Linux) -> Self {
        Self {
            version,
            reordering: 3,
            max_reordering: 300,
            recovery: 1,
            frto: 2,
            slow_start_after_idle: true,
            pacing_ss_ratio: 200,
            pacing_ca_ratio: 120,
            min_tso_segs: 2,
            tso_rtt_log: 9,
            min_rtt_wlen: 300,
            rto_min_us: 200_000,
            rto_max_ms: 120_000,
            prr: Form::Linux,
        }
    }

    /// RACK marks losses; 7.2 knows nothing else.
    #[must_use]
    pub fn rack(&self) -> bool {
        self.recovery & 1 != 0 || self.version >= Linux::V7_2
    }
}
