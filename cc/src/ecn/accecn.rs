//! AccECN feedback of 7.2: counting at the receiver, decoding at the sender (spec/ecn-tcp.md §8; RFC 9768).

use super::Codepoint;
use super::handshake::Ace;
use crate::conn::CaState;

/// Offset of the ACE field: a counter of 0 is sent as 5.
const ACE_OFFSET: u32 = 5;
/// CE marks not reported yet that call for an ACK of their own.
const PENDING_MAX: u32 = 6;
/// ACKs that habitually cover more than this many packets (fixed point, /64) are not distrusted.
const HABITUAL_STRETCH: u32 = 256;

/// Byte counters per codepoint, as the option carries them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounts {
    /// Payload bytes received ECT(1).
    pub ect1: u32,
    /// Payload bytes received CE.
    pub ce: u32,
    /// Payload bytes received ECT(0).
    pub ect0: u32,
}

impl ByteCounts {
    fn slot(&mut self, ip: Codepoint) -> Option<&mut u32> {
        match ip {
            Codepoint::NotEct => None,
            Codepoint::Ect1 => Some(&mut self.ect1),
            Codepoint::Ce => Some(&mut self.ce),
            Codepoint::Ect0 => Some(&mut self.ect0),
        }
    }
}

/// The receiver's counters (§8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receiver {
    /// CE-marked packets received.
    pub ce_packets: u32,
    /// Of those, not yet reported (at most 15).
    pub pending: u32,
    /// Bytes per codepoint.
    pub bytes: ByteCounts,
    /// Last IP field seen.
    previous: Codepoint,
    /// How urgently the option should go out: 0 to 3.
    pub demand: u8,
    /// Least number of fields in the option.
    pub min_fields: u8,
    /// Some ECN-capable packet has arrived.
    pub ect_seen: bool,
}

impl Receiver {
    /// An accepted segment, pure ACKs included, before its ACK field is processed: `segments` merged ones with
    /// `payload` bytes in all. Returns whether it calls for an immediate ACK.
    pub fn on_segment(&mut self, ip: Codepoint, segments: u32, payload: u32) -> bool {
        if ip != Codepoint::NotEct {
            self.ect_seen = true;
        }
        if ip == Codepoint::Ce {
            let n = segments.max(1);
            self.ce_packets = self.ce_packets.wrapping_add(n);
            self.pending = self.pending.saturating_add(n).min(15);
        }
        if payload > 0
            && let Some(counter) = self.bytes.slot(ip)
        {
            let before = *counter;
            *counter = before.wrapping_add(payload);
            let turned = (before ^ *counter) >> 22 != 0;
            let fields = match ip {
                Codepoint::NotEct => 0,
                Codepoint::Ect1 => 1,
                Codepoint::Ce => 2,
                Codepoint::Ect0 => 3,
            };
            self.min_fields = self.min_fields.max(fields);
            if turned {
                self.demand = self.demand.max(1);
            }
        }
        let changed = ip != self.previous;
        if changed || ip == Codepoint::Ce {
            self.previous = ip;
            self.demand = 2;
        }
        changed
    }

    /// Whether so many marks wait that an ACK from the peer must be answered at once.
    #[must_use]
    pub const fn must_report(&self) -> bool {
        self.pending >= PENDING_MAX
    }

    /// The ACE of a segment that is sent now.
    pub fn ace(&mut self) -> Ace {
        self.pending = 0;
        (self.ce_packets.wrapping_add(ACE_OFFSET) & 7) as Ace
    }

    /// The option's three 24-bit fields in the order of kind 174: ECT(1), CE, ECT(0). Sending it clears the demand for
    /// a minimum of fields and lowers the urgency.
    pub fn option(&mut self) -> [u32; 3] {
        self.min_fields = 0;
        self.demand = self.demand.saturating_sub(1);
        [self.bytes.ect1.wrapping_add(1), self.bytes.ce, self.bytes.ect0.wrapping_add(1)].map(|v| v & 0xff_ffff)
    }
}

/// An ACK as the sender's decoder sees it (§8.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// ACE of the ACK.
    pub ace: Ace,
    /// The option's fields ECT(1), CE, ECT(0), as far as present.
    pub option: Option<[Option<u32>; 3]>,
    /// Packets newly delivered.
    pub packets: u32,
    /// Payload bytes newly delivered.
    pub bytes: u32,
    /// The ACK made progress in sequence or timestamp.
    pub progress: bool,
    /// It took the fast path.
    pub fast_path: bool,
    /// It acknowledges the SYN.
    pub of_syn: bool,
    /// Selective acknowledgements are in use.
    pub sack: bool,
    /// Congestion state.
    pub state: CaState,
}

/// The sender's decoder (§8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Last counters seen in options, with their offsets.
    counters: [u32; 3],
    /// Which counter grows, if the last option told.
    estimate: Option<usize>,
    /// Smoothed packets per ACK, times 64.
    pub per_ack: u32,
}

impl Default for Sender {
    fn default() -> Self {
        Self { counters: [1, 0, 1], estimate: None, per_ack: 0 }
    }
}

/// Place of the CE counter.
const CE: usize = 1;

impl Sender {
    /// CE-marked packets that this ACK reports; add them to `delivered_ce` and treat a positive result as an echo.
    ///
    /// `delivered_ce` is the connection's count so far, `mss` the packet size in bytes.
    pub fn decode(&mut self, f: &Feedback, delivered_ce: u32, mss: u32) -> u32 {
        if !f.progress {
            return 0;
        }
        let grown = self.take_option(f);
        if f.packets > 0 {
            let p = f.packets.min(u32::MAX >> 7);
            let average = if self.per_ack == 0 { p << 6 } else { ((self.per_ack << 6) - self.per_ack + (p << 6)) >> 6 };
            self.per_ack = average.min(65_535);
        }
        let p = f.packets;
        if (f.fast_path && p <= 7) || f.of_syn {
            return 0;
        }
        let d = u32::from(f.ace).wrapping_sub(ACE_OFFSET).wrapping_sub(delivered_ce) & 7;
        if p <= 7 {
            return d;
        }
        let safe = p - (p.wrapping_sub(d) & 7);
        match grown {
            Some(ce_bytes) => by_bytes(f, mss, d, safe, ce_bytes),
            None if self.per_ack > HABITUAL_STRETCH => d,
            None => safe,
        }
    }

    /// Takes the option in; the growth of the CE byte counter if the byte counters can be trusted.
    fn take_option(&mut self, f: &Feedback) -> Option<u32> {
        let Some(fields) = f.option else {
            // Without option the estimated counter is taken to have grown.
            let i = self.estimate?;
            self.counters[i] = self.counters[i].wrapping_add(f.bytes);
            return Some(if i == CE { f.bytes } else { 0 });
        };
        let known = self.estimate;
        let (mut moved, mut trusted, mut ce) = (None, known.is_some(), 0u32);
        let mut several = false;
        for (i, field) in fields.into_iter().enumerate() {
            let Some(field) = field else { continue };
            // Sign-extended difference of 24 bits.
            let delta = ((field.wrapping_sub(self.counters[i]) << 8) as i32) >> 8;
            self.counters[i] = self.counters[i].wrapping_add(delta as u32);
            if delta == 0 {
                continue;
            }
            if delta < 0 || known != Some(i) {
                trusted = false;
            }
            several |= moved.is_some();
            moved = Some(i);
            if i == CE {
                ce = delta as u32;
            }
        }
        if !several && let Some(i) = moved {
            self.estimate = Some(i);
        }
        (trusted && !several).then_some(ce)
    }
}

/// Chooses between the plain difference and the safe one with the help of bytes (§8.6 step 6).
fn by_bytes(f: &Feedback, mss: u32, d: u32, safe: u32, ce_bytes: u32) -> u32 {
    if ce_bytes == 0 {
        return d;
    }
    if f.packets >= 16 && (f.sack || matches!(f.state, CaState::Open | CaState::Cwr)) {
        if f.bytes <= ce_bytes {
            return safe;
        }
        let share = (u64::from(ce_bytes) * u64::from(f.packets)).div_ceil(u64::from(f.bytes)) as u32;
        return safe.min(d.wrapping_add(share & !7));
    }
    if u64::from(ce_bytes) > u64::from(d) * u64::from(mss) {
        return safe;
    }
    if u64::from(ce_bytes) < (u64::from(safe) * u64::from(mss)) >> 1 { d } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ace_counts_from_five() {
        for (ce, ace) in [(0, 5), (1, 6), (2, 7), (3, 0), (8, 5), (250, 7)] {
            let mut r = Receiver { ce_packets: ce, pending: 9, ..Receiver::default() };
            assert_eq!(r.ace(), ace);
            assert_eq!(r.pending, 0);
        }
    }

    #[test]
    fn small_acks_are_decoded_by_difference() {
        for (ace, want) in [
            (5, [0, 7, 6, 5, 1]),
            (6, [1, 0, 7, 6, 2]),
            (7, [2, 1, 0, 7, 3]),
            (0, [3, 2, 1, 0, 4]),
            (4, [7, 6, 5, 4, 0]),
        ] {
            for (delivered_ce, want) in [0, 1, 2, 3, 7].into_iter().zip(want) {
                let f = Feedback { ace, packets: 7, bytes: 7000, progress: true, ..Feedback::default() };
                assert_eq!(Sender::default().decode(&f, delivered_ce, 1000), want, "{ace} {delivered_ce}");
            }
        }
        let f = Feedback { ace: 7, packets: 2, bytes: 2000, progress: false, ..Feedback::default() };
        assert_eq!(Sender::default().decode(&f, 0, 1000), 0);
        let f = Feedback { ace: 7, packets: 2, progress: true, fast_path: true, ..Feedback::default() };
        assert_eq!(Sender::default().decode(&f, 0, 1000), 0);
    }

    #[test]
    fn stretch_acks_take_the_safe_value() {
        for (p, d, want) in
            [(8, 0, 8), (8, 1, 1), (10, 3, 3), (15, 7, 15), (16, 0, 16), (20, 3, 19), (20, 4, 20), (64, 2, 58)]
        {
            let ace = ((5 + d) & 7) as u8;
            let f = Feedback { ace, packets: p, bytes: p * 1000, progress: true, ..Feedback::default() };
            // A sender used to ACKs of few packets.
            let mut s = Sender { per_ack: 64, ..Sender::default() };
            assert_eq!(s.decode(&f, 0, 1000), want, "{p} {d}");
            // One used to long ones trusts the difference.
            let mut s = Sender { per_ack: 64 * 60, ..Sender::default() };
            assert_eq!(s.decode(&f, 0, 1000), d, "{p} {d}");
        }
    }

    #[test]
    fn packets_per_ack_are_smoothed() {
        let mut s = Sender::default();
        let seen = [2, 2, 10, 20, 40, 1, 1].map(|packets| {
            let f = Feedback { ace: 5, packets, bytes: packets * 1000, progress: true, ..Feedback::default() };
            s.decode(&f, 0, 1000);
            s.per_ack
        });
        assert_eq!(seen, [128, 128, 136, 153, 190, 188, 186]);
    }

    #[test]
    fn the_option_tells_how_many_wraps() {
        let mut s = Sender { per_ack: 64, ..Sender::default() };
        let ack = |ace, ce: u32, ect0: u32, packets| Feedback {
            ace,
            option: Some([Some(1), Some(ce), Some(ect0)]),
            packets,
            bytes: packets * 1000,
            progress: true,
            sack: true,
            ..Feedback::default()
        };
        // Teaches which counter grows: ECT(0).
        s.decode(&ack(5, 0, 1 + 2000, 2), 0, 1000);
        // 20 packets, none marked: the safe value would be 16.
        assert_eq!(s.decode(&ack(5, 0, 1 + 22_000, 20), 0, 1000), 0);
        // Now all marked: two counters are not trusted on the first of them.
        assert_eq!(s.decode(&ack(5, 16_000, 1 + 22_000, 16), 0, 1000), 16);
        // CE is the estimate now; 24 of 24 bytes marked.
        assert_eq!(s.decode(&ack(5, 40_000, 1 + 22_000, 24), 16, 1000), 24);
    }

    #[test]
    fn the_receiver_asks_for_acks() {
        let mut r = Receiver::default();
        assert!(r.on_segment(Codepoint::Ect0, 1, 1000));
        assert!(!r.on_segment(Codepoint::Ect0, 1, 1000));
        assert!(r.on_segment(Codepoint::Ce, 4, 4000));
        assert!(!r.on_segment(Codepoint::Ce, 1, 0));
        assert!(!r.must_report());
        r.on_segment(Codepoint::Ce, 1, 1000);
        assert!(r.must_report() && r.ect_seen);
        assert_eq!((r.ce_packets, r.min_fields, r.demand), (6, 3, 2));
        assert_eq!(r.option(), [1, 5000, 2001]);
        assert_eq!((r.min_fields, r.demand), (0, 1));
    }
}
