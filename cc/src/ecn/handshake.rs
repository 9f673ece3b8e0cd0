//! Negotiation on the SYN, SYN-ACK and the third packet (spec/ecn-tcp.md §2, §8.2, §8.4).

use super::Codepoint;
use crate::algorithm::Flags;
use crate::conn::EcnMode;
use crate::version::Linux;

/// The three TCP flags of ECN as one number: AE·4 + CWR·2 + ECE.
pub type Ace = u8;

/// AE, CWR and ECE all set: an AccECN request.
pub const ACE_ACCECN_REQUEST: Ace = 7;
/// CWR and ECE: a classic request.
pub const ACE_CLASSIC_REQUEST: Ace = 3;
/// ECE alone: a classic answer.
pub const ACE_CLASSIC_ANSWER: Ace = 1;

/// The IP field of a SYN or SYN-ACK, told back to its sender in ACE.
#[must_use]
pub const fn reflect(ip: Codepoint) -> Ace {
    match ip {
        Codepoint::NotEct => 2,
        Codepoint::Ect1 => 3,
        Codepoint::Ect0 => 4,
        Codepoint::Ce => 6,
    }
}

/// The IP field that an ACE of the handshake reports; `None`: it reports none.
#[must_use]
pub const fn reflected(ace: Ace) -> Option<Codepoint> {
    Some(match ace {
        2 => Codepoint::NotEct,
        3 => Codepoint::Ect1,
        4 => Codepoint::Ect0,
        6 => Codepoint::Ce,
        _ => return None,
    })
}

/// Whether the path may have turned `sent` into `received` (§8.4); if not, this host stops marking.
#[must_use]
pub const fn path_is_valid(sent: Codepoint, received: Codepoint) -> bool {
    use Codepoint::{Ce, Ect0, Ect1, NotEct};
    matches!((sent, received), (NotEct, NotEct) | (Ect0 | Ect1, Ect0 | Ect1 | Ce) | (Ce, Ce))
}

/// What a client asks for, by `tcp_ecn`, route and algorithm (§1, §8.1).
#[must_use]
pub fn request(tcp_ecn: u8, route: bool, algorithm: Flags, version: Linux) -> EcnMode {
    let accecn = version >= Linux::V7_2 && (tcp_ecn == 3 || algorithm.needs_accecn);
    let classic = route || algorithm.needs_ecn || tcp_ecn == 1 || (version >= Linux::V7_2 && tcp_ecn == 4);
    if accecn {
        EcnMode::Pending
    } else if classic {
        EcnMode::Classic
    } else {
        EcnMode::Off
    }
}

/// The ACE of a SYN for what is asked.
#[must_use]
pub const fn syn_ace(mode: EcnMode) -> Ace {
    match mode {
        EcnMode::Off => 0,
        EcnMode::Classic => ACE_CLASSIC_REQUEST,
        EcnMode::Pending | EcnMode::AccEcn => ACE_ACCECN_REQUEST,
    }
}

/// A SYN as a server sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syn {
    /// Its ACE.
    pub ace: Ace,
    /// Its IP field.
    pub ip: Codepoint,
    /// Some reserved TCP flag bit is set.
    pub reserved: bool,
}

/// What a server accepts (§2, §8.2): the mode, with the ACE of the SYN-ACK.
#[must_use]
pub fn accept(syn: Syn, tcp_ecn: u8, route: bool, algorithm: Flags, version: Linux) -> (EcnMode, Ace) {
    let new = version >= Linux::V7_2;
    let asks_accecn = new && syn.ace != 0 && syn.ace != ACE_CLASSIC_REQUEST;
    if asks_accecn && (tcp_ecn >= 3 || algorithm.needs_accecn) {
        return (EcnMode::AccEcn, reflect(syn.ip));
    }
    if syn.ace & ACE_CLASSIC_REQUEST != ACE_CLASSIC_REQUEST {
        return (EcnMode::Off, 0);
    }
    let ae = syn.ace & 4 != 0;
    // An ECT-marked SYN without reserved bits is refused by ordinary listeners.
    let plain = syn.ip == Codepoint::NotEct || syn.reserved || (new && ae) || (!new && ae);
    if algorithm.needs_ecn || (plain && (tcp_ecn != 0 || route)) {
        (EcnMode::Classic, ACE_CLASSIC_ANSWER)
    } else {
        (EcnMode::Off, 0)
    }
}

/// What a client makes of the SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Feedback in use from here on.
    pub mode: EcnMode,
    /// The path mangled the IP field: stop marking.
    pub receive_failed: bool,
}

/// The client's side (§2, §8.2). `asked`: what [`request`] said; `sent`: the IP field of the SYN.
#[must_use]
pub fn conclude(asked: EcnMode, ace: Ace, sent: Codepoint, algorithm: Flags, version: Linux) -> Outcome {
    let plain = |mode| Outcome { mode, receive_failed: false };
    if asked == EcnMode::Off {
        return plain(EcnMode::Off);
    }
    if version < Linux::V7_2 {
        let on = ace & 1 != 0 && ace & 2 == 0;
        return plain(if on { EcnMode::Classic } else { EcnMode::Off });
    }
    match (ace, reflected(ace)) {
        (ACE_CLASSIC_ANSWER, _) if algorithm.no_rfc3168_fallback => plain(EcnMode::Off),
        (ACE_CLASSIC_ANSWER, _) => plain(EcnMode::Classic),
        (5, _) => plain(if asked == EcnMode::Pending { EcnMode::AccEcn } else { EcnMode::Classic }),
        (_, Some(received)) => Outcome { mode: EcnMode::AccEcn, receive_failed: !path_is_valid(sent, received) },
        _ => plain(EcnMode::Off),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDINARY: Flags =
        Flags { non_restricted: true, needs_ecn: false, needs_accecn: false, ect1: false, no_rfc3168_fallback: false };
    const DCTCP: Flags = Flags { needs_ecn: true, ..ORDINARY };

    #[test]
    fn the_default_accepts_but_never_asks() {
        for version in [Linux::V6_1, Linux::V6_12, Linux::V7_2] {
            assert_eq!(request(2, false, ORDINARY, version), EcnMode::Off);
            assert_eq!(request(1, false, ORDINARY, version), EcnMode::Classic);
            assert_eq!(request(2, true, ORDINARY, version), EcnMode::Classic);
            assert_eq!(request(0, false, DCTCP, version), EcnMode::Classic);
            let syn = Syn { ace: 3, ..Syn::default() };
            assert_eq!(accept(syn, 2, false, ORDINARY, version), (EcnMode::Classic, 1));
            assert_eq!(accept(syn, 0, false, ORDINARY, version), (EcnMode::Off, 0));
        }
        assert_eq!(request(3, false, ORDINARY, Linux::V7_2), EcnMode::Pending);
        assert_eq!(request(3, false, ORDINARY, Linux::V6_12), EcnMode::Off);
        assert_eq!(request(4, false, ORDINARY, Linux::V7_2), EcnMode::Classic);
    }

    #[test]
    fn an_ect_syn_is_refused_by_ordinary_listeners() {
        let syn = Syn { ace: 3, ip: Codepoint::Ect0, reserved: false };
        assert_eq!(accept(syn, 2, false, ORDINARY, Linux::V7_2).0, EcnMode::Off);
        assert_eq!(accept(syn, 2, false, DCTCP, Linux::V7_2).0, EcnMode::Classic);
        assert_eq!(accept(Syn { reserved: true, ..syn }, 2, false, ORDINARY, Linux::V6_1).0, EcnMode::Classic);
        // An AccECN request that is not acceptable falls back to classic.
        let syn = Syn { ace: 7, ip: Codepoint::Ect0, reserved: false };
        assert_eq!(accept(syn, 2, false, ORDINARY, Linux::V7_2), (EcnMode::Classic, 1));
    }

    #[test]
    fn accecn_reflects_the_syn() {
        for (ip, ace) in [(Codepoint::NotEct, 2), (Codepoint::Ect1, 3), (Codepoint::Ect0, 4), (Codepoint::Ce, 6)] {
            let syn = Syn { ace: 7, ip, reserved: false };
            assert_eq!(accept(syn, 3, false, ORDINARY, Linux::V7_2), (EcnMode::AccEcn, ace));
            assert_eq!(reflected(ace), Some(ip));
        }
    }

    #[test]
    fn client_table() {
        let conclude = |asked, ace, sent| conclude(asked, ace, sent, ORDINARY, Linux::V7_2);
        let not_ect = Codepoint::NotEct;
        assert_eq!(conclude(EcnMode::Pending, 0, not_ect).mode, EcnMode::Off);
        assert_eq!(conclude(EcnMode::Pending, 7, not_ect).mode, EcnMode::Off);
        assert_eq!(conclude(EcnMode::Pending, 1, not_ect).mode, EcnMode::Classic);
        assert_eq!(conclude(EcnMode::Pending, 5, not_ect).mode, EcnMode::AccEcn);
        assert_eq!(conclude(EcnMode::Classic, 5, not_ect).mode, EcnMode::Classic);
        assert_eq!(conclude(EcnMode::Pending, 2, not_ect), Outcome { mode: EcnMode::AccEcn, receive_failed: false });
        assert_eq!(conclude(EcnMode::Pending, 6, not_ect), Outcome { mode: EcnMode::AccEcn, receive_failed: true });
        assert!(!conclude(EcnMode::Pending, 6, Codepoint::Ect0).receive_failed);
        assert!(!conclude(EcnMode::Pending, 3, Codepoint::Ect0).receive_failed);
        assert!(conclude(EcnMode::Pending, 2, Codepoint::Ect0).receive_failed);
        let strict = Flags { no_rfc3168_fallback: true, ..ORDINARY };
        assert_eq!(super::conclude(EcnMode::Pending, 1, not_ect, strict, Linux::V7_2).mode, EcnMode::Off);
        let old = |ace| super::conclude(EcnMode::Classic, ace, not_ect, ORDINARY, Linux::V6_12).mode;
        assert_eq!([0, 1, 2, 3].map(old), [EcnMode::Off, EcnMode::Classic, EcnMode::Off, EcnMode::Off]);
    }
}
