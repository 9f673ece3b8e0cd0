//! ABE, Alternative Backoff with ECN (RFC 8511). **Not Linux**: Linux answers ECN as it answers loss.

use crate::algorithm::{AckFlags, AckSample, Algorithm, CwndEvent, Flags, Info, LostPackets};
use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::rate::RateSample;

/// β for ECN that RFC 8511 recommends for Reno, /1024 (0.8).
pub const BETA_RENO: u32 = 819;
/// β for ECN that RFC 8511 recommends for CUBIC, /1024 (0.85).
pub const BETA_CUBIC: u32 = 870;

/// Wraps an algorithm: an ECN echo in congestion avoidance reduces the window to `beta`/1024 of itself, if that is
/// more than the algorithm's own threshold. Slow start and losses are left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abe<A> {
    /// The wrapped algorithm.
    pub inner: A,
    /// β for ECN, /1024.
    pub beta: u32,
}

impl<A> Abe<A> {
    /// Wraps `inner`; `beta` is cut to 1024.
    pub fn new(inner: A, beta: u32) -> Self {
        Self { inner, beta: beta.min(1024) }
    }
}

impl<A: Algorithm> Algorithm for Abe<A> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn flags(&self) -> Flags {
        self.inner.flags()
    }

    fn init<E: Env>(&mut self, c: &mut Conn, env: &mut E) {
        self.inner.init(c, env);
    }

    fn ssthresh<E: Env>(&mut self, c: &mut Conn, env: &mut E) -> u32 {
        let loss = self.inner.ssthresh(c, env);
        if !c.ecn.cut || c.in_slow_start() {
            return loss;
        }
        let mild = (u64::from(c.cwnd) * u64::from(self.beta.min(1024)) / 1024) as u32;
        loss.max(mild).max(2)
    }

    fn cong_avoid<E: Env>(&mut self, c: &mut Conn, env: &mut E, ack: u32, acked: u32) {
        self.inner.cong_avoid(c, env, ack, acked);
    }

    fn has_cong_control(&self) -> bool {
        self.inner.has_cong_control()
    }

    fn cong_control<E: Env>(&mut self, c: &mut Conn, env: &mut E, ack: u32, flags: AckFlags, rs: &RateSample) {
        self.inner.cong_control(c, env, ack, flags, rs);
    }

    fn set_state<E: Env>(&mut self, c: &mut Conn, env: &mut E, new: CaState) {
        self.inner.set_state(c, env, new);
    }

    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, event: CwndEvent) {
        self.inner.cwnd_event(c, env, event);
    }

    fn in_ack_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, flags: AckFlags) {
        self.inner.in_ack_event(c, env, flags);
    }

    fn pkts_acked<E: Env>(&mut self, c: &mut Conn, env: &mut E, sample: &AckSample) {
        self.inner.pkts_acked(c, env, sample);
    }

    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, env: &mut E) -> u32 {
        self.inner.undo_cwnd(c, env)
    }

    fn min_tso_segs(&self, c: &Conn) -> Option<u32> {
        self.inner.min_tso_segs(c)
    }

    fn sndbuf_expand(&self) -> u32 {
        self.inner.sndbuf_expand()
    }

    fn on_lost<E: Env>(&mut self, c: &mut Conn, env: &mut E, lost: &LostPackets) {
        self.inner.on_lost(c, env, lost);
    }

    fn on_sample<E: Env>(&mut self, c: &mut Conn, env: &mut E, tx_in_flight: u32, lost_at_send: u32) {
        self.inner.on_sample(c, env, tx_in_flight, lost_at_send);
    }

    fn info(&self, c: &Conn) -> Info {
        self.inner.info(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hz;
    use crate::cubic::Cubic;
    use crate::env::Fixed;
    use crate::reno::Reno;

    #[test]
    fn echoes_in_avoidance_cut_less() {
        let mut e = Fixed::default();
        let mut c = Conn::new(1448, Hz::H250, 0);
        (c.cwnd, c.ssthresh) = (100, 50);
        assert_eq!(Abe::new(Reno, BETA_RENO).ssthresh(&mut c, &mut e), 50);
        c.ecn.cut = true;
        assert_eq!(Abe::new(Reno, BETA_RENO).ssthresh(&mut c, &mut e), 79);
        assert_eq!(Abe::new(Cubic::default(), BETA_CUBIC).ssthresh(&mut c, &mut e), 84);
        // Slow start is cut as for loss.
        c.ssthresh = 1000;
        assert_eq!(Abe::new(Cubic::default(), BETA_CUBIC).ssthresh(&mut c, &mut e), 70);
        // Never below two packets.
        (c.cwnd, c.ssthresh) = (2, 2);
        assert_eq!(Abe::new(Reno, BETA_RENO).ssthresh(&mut c, &mut e), 2);
    }
}
