//! Where the named values of a congestion-control hook lie in the founding recorder's records.

use super::layout::{Layout, RawField, at, bits};
use super::record::RawHook;
use crate::trace::Moment;

/// The kinds under which a hook's states are looked up: the connection, the private area, the samples.
pub(super) const CONNECTION: u32 = 1;
pub(super) const PRIVATE: u32 = 2;
pub(super) const ACK_SAMPLE: u32 = 3;
pub(super) const RATE_SAMPLE: u32 = 4;

/// The connection's fields in the ports' terms, as [`connection`] puts them together.
const CONNECTION_FIELDS: &[RawField] = &[
    at("cwnd", 0, 32),
    at("ssthresh", 4, 32),
    at("ai_credit", 8, 32),
    at("cwnd_cap", 12, 32),
    at("peak_used", 16, 32),
    at("ssthresh_before", 20, 32),
    at("cwnd_before", 24, 32),
    at("srtt8", 28, 32),
    at("mdev4", 32, 32),
    at("rttvar4", 36, 32),
    at("mss", 40, 32),
    at("delivered", 44, 32),
    at("delivered_ce", 48, 32),
    at("unacked", 52, 32),
    at("retrans", 56, 32),
    at("sacked", 60, 32),
    at("lost", 64, 32),
    at("lost_total", 68, 32),
    at("app_lim", 72, 32),
    at("una", 76, 32),
    at("nxt", 80, 32),
    at("peak_out", 84, 32),
    // 88: not recorded.
    at("total_retrans", 92, 32),
    // 96: not recorded.
    at("min_rtt", 100, 32),
    at("recovery_point", 104, 32),
    at("prr_out", 108, 32),
    at("now_us", 112, 64),
    at("now_ns", 120, 64),
    at("edt_ns", 128, 64),
    at("delivered_us", 136, 64),
    at("first_us", 144, 64),
    at("bytes_acked", 152, 64),
    at("pace_rate", 160, 64),
    at("max_pace", 168, 64),
    at("pace_mode", 176, 32),
    at("state", 180, 8),
    at("limited", 184, 8),
    at("local_port", 185, 16),
    at("remote_port", 187, 16),
];

/// The connection part of a hook record in one piece.
pub(super) fn connection(raw: &RawHook) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(189);
    for word in raw.words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for long in raw.longs {
        bytes.extend_from_slice(&long.to_le_bytes());
    }
    bytes.extend_from_slice(&raw.pacing_status.to_le_bytes());
    bytes.extend_from_slice(&raw.state.to_le_bytes());
    bytes.push(u8::from(raw.is_cwnd_limited));
    for port in raw.ports {
        bytes.extend_from_slice(&port.to_le_bytes());
    }
    bytes
}

const CUBIC_FIELDS: &[RawField] = &[
    at("cnt", 0, 32),
    at("wmax", 4, 32),
    at("last_w", 8, 32),
    at("last_j", 12, 32),
    at("origin", 16, 32),
    at("k", 20, 32),
    at("dmin", 24, 32),
    at("epoch", 28, 32),
    at("ackc", 32, 32),
    at("rw", 36, 32),
    at("hs_n", 42, 8),
    at("found", 43, 8),
    at("hs_start", 44, 32),
    at("hs_end", 48, 32),
    at("hs_last", 52, 32),
    at("hs_rtt", 56, 32),
];

const BBR_FIELDS: &[RawField] = &[
    at("min_rtt", 0, 32),
    at("min_rtt_j", 4, 32),
    at("probe_rtt_done", 8, 32),
    at("bw0_t", 12, 32),
    at("bw0_v", 16, 32),
    at("bw1_t", 20, 32),
    at("bw1_v", 24, 32),
    at("bw2_t", 28, 32),
    at("bw2_v", 32, 32),
    at("rounds", 36, 32),
    at("next_round", 40, 32),
    at("phase_us", 48, 64),
    bits("mode", 56, 0, 3),
    bits("prev_state", 56, 3, 3),
    bits("conserve", 56, 6, 1),
    bits("round_start", 56, 7, 1),
    bits("idle_restart", 57, 0, 1),
    bits("probe_rtt_round", 57, 1, 1),
    bits("pol_on", 58, 7, 1),
    bits("pol_n", 59, 0, 7),
    bits("pol_use", 59, 7, 1),
    at("pol_bw", 60, 32),
    at("pol_del", 64, 32),
    at("pol_ms", 68, 32),
    at("pol_lost", 72, 32),
    bits("pacing_gain", 76, 0, 10),
    bits("cwnd_gain", 77, 2, 10),
    bits("full", 78, 4, 1),
    bits("full_n", 78, 5, 2),
    bits("idx", 78, 7, 3),
    bits("seen_rtt", 79, 2, 1),
    at("saved_cwnd", 80, 32),
    at("full_bw", 84, 32),
    at("xa_us", 88, 64),
    at("xa0", 96, 16),
    at("xa1", 98, 16),
    bits("xa_acked", 100, 0, 20),
    bits("xa_n", 102, 4, 5),
    bits("xa_slot", 103, 1, 1),
];

const DCTCP_FIELDS: &[RawField] = &[
    at("d0", 0, 32),
    at("ce0", 4, 32),
    at("prior_rcv", 8, 32),
    at("alpha", 12, 32),
    at("round_end", 16, 32),
    at("ce_state", 20, 32),
    at("cwnd_at_cut", 24, 32),
];

const ACK_SAMPLE_FIELDS: &[RawField] = &[at("acked", 0, 32), at("rtt_us", 4, -32), at("in_flight_bytes", 8, 32)];

const RATE_SAMPLE_FIELDS: &[RawField] = &[
    at("prior_us", 0, 64),
    at("prior_delivered", 8, 32),
    at("prior_delivered_ce", 12, 32),
    at("delivered", 16, -32),
    at("delivered_ce", 20, -32),
    at("interval_us", 24, -64),
    at("send_us", 32, 32),
    at("ack_us", 36, 32),
    at("rtt_us", 40, -64),
    at("losses", 48, -32),
    at("acked_sacked", 52, 32),
    at("prior_in_flight", 56, 32),
    at("last_end_seq", 60, 32),
    at("is_app_limited", 64, 8),
    at("is_retrans", 65, 8),
    at("is_ack_delayed", 66, 8),
];

const fn layout(what: u32, schema: &'static str, object: &'static str, fields: &'static [RawField]) -> Layout {
    Layout { what, schema, object, moment: Moment::Before, fields }
}

const SHOWN_CONNECTION: Layout =
    layout(CONNECTION, "cc.connection", "the connection; the key is its number", CONNECTION_FIELDS);

/// reno has no private state.
pub(super) const RENO: &[Layout] = &[SHOWN_CONNECTION];

/// cubic: the layout is the same in the three kernels.
pub(super) const CUBIC: &[Layout] = &[
    SHOWN_CONNECTION,
    layout(PRIVATE, "cubic.private", "the private area; the key is the connection's number", CUBIC_FIELDS),
    layout(ACK_SAMPLE, "cc.ack_sample", "the sample handed to pkts_acked", ACK_SAMPLE_FIELDS),
];

/// bbr: the layout is the same in the three kernels.
pub(super) const BBR: &[Layout] = &[
    SHOWN_CONNECTION,
    layout(PRIVATE, "bbr.private", "the private area; the key is the connection's number", BBR_FIELDS),
    layout(RATE_SAMPLE, "cc.rate_sample", "the rate sample handed to cong_control", RATE_SAMPLE_FIELDS),
];

/// dctcp: the layout is the same in the three kernels, up to 7.2's and 6.12's path switching behind it.
pub(super) const DCTCP: &[Layout] = &[
    SHOWN_CONNECTION,
    layout(PRIVATE, "dctcp.private", "the private area; the key is the connection's number", DCTCP_FIELDS),
];
