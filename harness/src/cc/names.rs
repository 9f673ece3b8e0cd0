//! The named values of congestion-control snapshots: connection variables, private areas, samples.

use debloat_cc::algorithm::AckSample;
use debloat_cc::bbr::{self, Mode};
use debloat_cc::conn::PaceMode;
use debloat_cc::rate::RateSample;
use debloat_cc::{CaState, Conn, cubic, dctcp};

use crate::trace::Field;

/// One named value of a state.
pub struct Named<S> {
    /// Its name, the port's.
    pub name: &'static str,
    /// Its width in bits; negative: two's complement.
    pub bits: i8,
    /// Reads it.
    pub get: fn(&S) -> u64,
    /// Writes it; false if the state cannot hold the value.
    pub set: fn(&mut S, u64) -> bool,
}

impl<S> Named<S> {
    /// The schema's field.
    pub fn field(&self) -> Field {
        Field { name: self.name.into(), bits: self.bits.unsigned_abs(), signed: self.bits < 0 }
    }
}

/// All values of a state, in order.
pub fn values<S>(names: &[Named<S>], state: &S) -> Vec<u64> {
    names.iter().map(|named| (named.get)(state)).collect()
}

/// Writes all values into a state; the name of the first that it cannot hold otherwise.
///
/// # Errors
///
/// The name of a value that the state cannot hold.
pub fn load<S>(names: &[Named<S>], state: &mut S, values: &[u64]) -> Result<(), &'static str> {
    match names.iter().zip(values).find(|(named, value)| !(named.set)(state, **value)) {
        Some((named, _)) => Err(named.name),
        None => Ok(()),
    }
}

/// An unsigned number of the field's own type.
macro_rules! number {
    ($bits:literal, $($field:ident).+) => {
        number!($bits, stringify!($($field).+), $($field).+)
    };
    ($bits:literal, $name:expr, $($field:ident).+) => {
        Named {
            name: $name,
            bits: $bits,
            get: |s| s.$($field).+ as u64,
            set: |s, v| {
                s.$($field).+ = v as _;
                s.$($field).+ as u64 == v
            },
        }
    };
}

/// A flag.
macro_rules! flag {
    ($field:ident) => {
        Named {
            name: stringify!($field),
            bits: 1,
            get: |s| u64::from(s.$field),
            set: |s, v| {
                s.$field = v != 0;
                v < 2
            },
        }
    };
}

/// A value that goes through an enumeration.
macro_rules! enumerated {
    ($bits:literal, $field:ident, $from:expr) => {
        Named {
            name: stringify!($field),
            bits: $bits,
            get: |s| s.$field as u64,
            set: |s, v| match $from(v as u8) {
                Some(value) if v < 256 => {
                    s.$field = value;
                    true
                }
                _ => false,
            },
        }
    };
}

fn pace_mode(n: u8) -> Option<PaceMode> {
    [PaceMode::None, PaceMode::Internal, PaceMode::Fq].get(usize::from(n)).copied()
}

/// The connection variables that a recorder sees.
pub const CONN: &[Named<Conn>] = &[
    number!(64, now_ns),
    number!(64, now_us),
    number!(32, cwnd),
    number!(32, ssthresh),
    number!(32, ai_credit),
    number!(32, cwnd_cap),
    number!(32, peak_used),
    number!(32, ssthresh_before),
    number!(32, cwnd_before),
    number!(32, srtt8),
    number!(32, mdev4),
    number!(32, rttvar4),
    Named {
        name: "min_rtt",
        bits: 32,
        get: |c| c.min_rtt.get().into(),
        set: |c, v| {
            c.min_rtt.reset(0, v as u32);
            v <= u32::MAX.into()
        },
    },
    number!(32, mss),
    number!(32, delivered),
    number!(32, delivered_ce),
    number!(32, lost_total),
    number!(32, unacked),
    number!(32, retrans),
    number!(32, sacked),
    number!(32, lost),
    number!(32, app_lim),
    number!(32, una),
    number!(32, nxt),
    number!(32, peak_out),
    number!(32, recovery_point),
    number!(32, prr_out),
    number!(64, delivered_us),
    number!(64, first_us),
    number!(64, edt_ns),
    number!(64, pace_rate),
    number!(64, max_pace),
    enumerated!(8, pace_mode, pace_mode),
    enumerated!(8, state, CaState::from_number),
    flag!(limited),
    number!(32, last_send_j),
    number!(32, rcv_nxt),
    flag!(delack_pending),
];

/// CUBIC's private area.
pub const CUBIC: &[Named<cubic::State>] = &[
    number!(32, cnt),
    number!(32, wmax),
    number!(32, last_w),
    number!(32, last_j),
    number!(32, origin),
    number!(32, k),
    number!(32, dmin),
    number!(32, epoch),
    number!(32, ackc),
    number!(32, rw),
    number!(8, hs_n),
    number!(8, found),
    number!(32, hs_start),
    number!(32, hs_end),
    number!(32, hs_last),
    number!(32, hs_rtt),
];

/// DCTCP's private area.
pub const DCTCP: &[Named<dctcp::State>] = &[
    number!(32, d0),
    number!(32, ce0),
    number!(32, prior_rcv),
    number!(32, alpha),
    number!(32, round_end),
    number!(32, ce_state),
    number!(32, cwnd_at_cut),
];

/// One place of BBR's bandwidth filter.
macro_rules! reading {
    ($i:literal, $part:ident, $name:literal) => {
        Named {
            name: $name,
            bits: 32,
            get: |s| s.bw.e[$i].$part.into(),
            set: |s, v| {
                s.bw.e[$i].$part = v as u32;
                v <= u32::MAX.into()
            },
        }
    };
}

/// A slot of BBR's ACK aggregation.
macro_rules! slot {
    ($i:literal, $name:literal) => {
        Named {
            name: $name,
            bits: 16,
            get: |s| s.xa[$i].into(),
            set: |s, v| {
                s.xa[$i] = v as u16;
                v <= u16::MAX.into()
            },
        }
    };
}

/// BBR's private area.
pub const BBR: &[Named<bbr::State>] = &[
    number!(32, min_rtt),
    number!(32, min_rtt_j),
    number!(32, probe_rtt_done),
    reading!(0, t, "bw.e0.t"),
    reading!(0, v, "bw.e0.v"),
    reading!(1, t, "bw.e1.t"),
    reading!(1, v, "bw.e1.v"),
    reading!(2, t, "bw.e2.t"),
    reading!(2, v, "bw.e2.v"),
    number!(32, rounds),
    number!(32, next_round),
    number!(64, phase_us),
    enumerated!(8, mode, Mode::from_number),
    enumerated!(8, prev_state, CaState::from_number),
    flag!(conserve),
    flag!(round_start),
    flag!(idle_restart),
    flag!(probe_rtt_round),
    flag!(pol_on),
    number!(8, pol_n),
    flag!(pol_use),
    number!(32, pol_bw),
    number!(32, pol_del),
    number!(32, pol_ms),
    number!(32, pol_lost),
    number!(16, pacing_gain),
    number!(16, cwnd_gain),
    flag!(full),
    number!(8, full_n),
    number!(8, idx),
    flag!(seen_rtt),
    number!(32, saved_cwnd),
    number!(32, full_bw),
    number!(64, xa_us),
    slot!(0, "xa0"),
    slot!(1, "xa1"),
    number!(32, xa_acked),
    number!(8, xa_n),
    number!(8, xa_slot),
];

/// A signed number; its bits are sign-extended.
macro_rules! signed {
    ($bits:literal, $field:ident) => {
        Named {
            name: stringify!($field),
            bits: $bits,
            get: |s| i64::from(s.$field) as u64,
            set: |s, v| {
                s.$field = v as _;
                i64::from(s.$field) as u64 == v
            },
        }
    };
}

/// The rate sample that `cong_control` gets.
pub const RATE_SAMPLE: &[Named<RateSample>] = &[
    number!(64, prior_us),
    number!(32, prior_delivered),
    number!(32, prior_delivered_ce),
    signed!(-32, delivered),
    signed!(-32, delivered_ce),
    signed!(-64, interval_us),
    number!(32, send_us),
    number!(32, ack_us),
    signed!(-64, rtt_us),
    signed!(-32, losses),
    number!(32, acked_sacked),
    number!(32, prior_in_flight),
    number!(32, last_end_seq),
    flag!(is_app_limited),
    flag!(is_retrans),
    flag!(is_ack_delayed),
];

/// The sample that `pkts_acked` gets.
pub const ACK_SAMPLE: &[Named<AckSample>] = &[number!(32, acked), signed!(-32, rtt_us), number!(32, in_flight_bytes)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::private;

    /// Named values and private area agree: a state with every field different survives both ways.
    #[test]
    fn names_and_bytes_cover_the_same_state() {
        let mut bytes: private::Private = std::array::from_fn(|i| (i * 37 + 11) as u8);
        let mut cubic = cubic::State::default();
        load(CUBIC, &mut cubic, &values(CUBIC, &private::cubic(&bytes))).unwrap();
        assert_eq!(cubic, private::cubic(&bytes));
        let mut dctcp = dctcp::State::default();
        load(DCTCP, &mut dctcp, &values(DCTCP, &private::dctcp(&bytes))).unwrap();
        assert_eq!(dctcp, private::dctcp(&bytes));
        bytes[56] = bytes[56] & !0x3f | 2 | 3 << 3;
        let original = private::bbr(&bytes).unwrap();
        let mut bbr = bbr::State::default();
        load(BBR, &mut bbr, &values(BBR, &original)).unwrap();
        assert_eq!(bbr, original);
        let mut out = bytes;
        private::put_bbr(&mut out, &bbr);
        assert_eq!(out, bytes);
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        let mut bbr = bbr::State::default();
        let mut v = values(BBR, &bbr);
        v[12] = 7;
        assert_eq!(load(BBR, &mut bbr, &v), Err("mode"));
    }
}
