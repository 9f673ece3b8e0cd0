//! ECN in TCP: negotiation, marking, feedback, for RFC 3168 and AccECN (spec/ecn-tcp.md).
//!
//! The responses are the algorithms' and the state machine's: once per window by the `ssthresh` hook (RFC 3168),
//! [`Abe`](crate::Abe) as an option (RFC 8511), DCTCP's α, BBRv3's own. This module is what sender and receiver need
//! around them.

pub mod accecn;
pub mod handshake;

use crate::algorithm::{Algorithm, CwndEvent};
use crate::conn::{Conn, EcnFlags, EcnMode};
use crate::env::Env;

/// The ECN field of an IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codepoint {
    /// 00
    #[default]
    NotEct = 0,
    /// 01
    Ect1 = 1,
    /// 10
    Ect0 = 2,
    /// 11
    Ce = 3,
}

impl Codepoint {
    /// From the two low bits of the DS field.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// How to mark an outgoing segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// IP field.
    pub ip: Codepoint,
    /// ECE on every wire segment of the burst.
    pub ece: bool,
    /// CWR, on the first wire segment of the burst only.
    pub cwr: bool,
}

/// Marks an outgoing segment of an established classic connection (spec/ecn-tcp.md §4). `new_data`: payload at or
/// beyond `nxt`; `needs_ecn`: the algorithm's flag. Takes the CWR flag if it is due.
pub fn mark_outgoing(e: &mut EcnFlags, new_data: bool, needs_ecn: bool) -> Marking {
    match e.mode {
        EcnMode::Classic => {
            let cwr = new_data && core::mem::take(&mut e.cwr_due);
            let ip = if new_data || needs_ecn { Codepoint::Ect0 } else { Codepoint::NotEct };
            Marking { ip, ece: e.echo, cwr }
        }
        // AccECN marks every packet; its flags come from the counter.
        EcnMode::AccEcn => Marking { ip: Codepoint::Ect0, ..Marking::default() },
        EcnMode::Off | EcnMode::Pending => Marking::default(),
    }
}

/// What the arrival of a data segment asks of the ACK policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Raise the quick-ACK credit to 2.
    pub quick_ack: bool,
}

/// The peer's CWR flag, on any segment whose ACK field is processed, before the CE check of the same segment
/// (spec/ecn-tcp.md §5). A segment with payload asks for an immediate ACK.
pub fn on_cwr(c: &mut Conn, has_payload: bool) {
    if c.ecn.mode == EcnMode::Classic {
        c.ecn.echo = false;
        c.ack_now |= has_payload;
    }
}

/// A data segment arrived with this IP field, in order or out of order but not an old duplicate (§5).
///
/// Algorithms that need ECN (DCTCP) hear of it first and set the echo themselves.
pub fn on_data<A: Algorithm, E: Env>(c: &mut Conn, algorithm: &mut A, env: &mut E, ip: Codepoint) -> Arrival {
    let mut arrival = Arrival::default();
    if c.ecn.mode == EcnMode::Off {
        return arrival;
    }
    let needs_ecn = algorithm.flags().needs_ecn;
    match ip {
        // A retransmission is assumed.
        Codepoint::NotEct => arrival.quick_ack = c.ecn.ect_seen,
        Codepoint::Ce => {
            if needs_ecn {
                algorithm.cwnd_event(c, env, CwndEvent::EcnIsCe);
            }
            if c.ecn.mode == EcnMode::Classic && !c.ecn.echo {
                arrival.quick_ack = true;
                c.ecn.echo = true;
            }
            c.ecn.ect_seen = true;
        }
        Codepoint::Ect0 | Codepoint::Ect1 => {
            if needs_ecn {
                algorithm.cwnd_event(c, env, CwndEvent::EcnNoCe);
            }
            c.ecn.ect_seen = true;
        }
    }
    arrival
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;
    use crate::dctcp::Dctcp;
    use crate::env::Fixed;
    use crate::reno::Reno;

    fn classic() -> Conn {
        let mut c = Conn::new(1448, Hz::H250, 0);
        c.ecn.mode = EcnMode::Classic;
        c
    }

    #[test]
    fn only_new_data_is_ect_and_carries_cwr() {
        let mut c = classic();
        c.ecn.cwr_due = true;
        c.ecn.echo = true;
        let ack = mark_outgoing(&mut c.ecn, false, false);
        assert_eq!(ack, Marking { ip: Codepoint::NotEct, ece: true, cwr: false });
        assert!(c.ecn.cwr_due);
        let data = mark_outgoing(&mut c.ecn, true, false);
        assert_eq!(data, Marking { ip: Codepoint::Ect0, ece: true, cwr: true });
        assert_eq!(mark_outgoing(&mut c.ecn, true, false).cwr, false);
        // DCTCP marks retransmissions and pure ACKs too.
        assert_eq!(mark_outgoing(&mut c.ecn, false, true).ip, Codepoint::Ect0);
    }

    #[test]
    fn echo_stays_until_cwr_and_ce_after_cwr_sets_it_again() {
        let (mut c, mut a, mut e) = (classic(), Reno, Fixed::default());
        assert!(!on_data(&mut c, &mut a, &mut e, Codepoint::NotEct).quick_ack);
        assert!(on_data(&mut c, &mut a, &mut e, Codepoint::Ce).quick_ack);
        assert!(!on_data(&mut c, &mut a, &mut e, Codepoint::Ce).quick_ack);
        assert!(c.ecn.echo);
        on_data(&mut c, &mut a, &mut e, Codepoint::Ect0);
        assert!(c.ecn.echo);
        // CWR and CE on one segment: CWR first.
        on_cwr(&mut c, true);
        assert!(!c.ecn.echo && c.ack_now);
        on_data(&mut c, &mut a, &mut e, Codepoint::Ce);
        assert!(c.ecn.echo);
        on_cwr(&mut c, false);
        assert!(!c.ecn.echo);
        // A Not-ECT segment after ECT data is taken for a retransmission.
        assert!(on_data(&mut c, &mut a, &mut e, Codepoint::NotEct).quick_ack);
    }

    #[test]
    fn dctcp_sets_the_echo_itself() {
        let (mut c, mut e) = (classic(), Fixed::default());
        let mut a = Dctcp::default();
        a.init(&mut c, &mut e);
        let first = on_data(&mut c, &mut a, &mut e, Codepoint::Ce);
        // The event ran before the generic rule, which then finds the echo set: no quick-ACK credit.
        assert!(c.ecn.echo && !first.quick_ack && c.ack_now);
        on_data(&mut c, &mut a, &mut e, Codepoint::Ect0);
        assert!(!c.ecn.echo);
    }
}
