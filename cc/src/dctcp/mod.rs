//! DCTCP, exactly as Linux computes it (spec/dctcp.md; RFC 8257).

use crate::algorithm::{AckFlags, Algorithm, CwndEvent, Flags, Info};
use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::reno;

/// α of a connection whose every packet is marked.
pub const ALPHA_ONE: u32 = 1024;

/// Module parameters of `tcp_dctcp` (spec/dctcp.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The weight of a new round is 2^−shift; 0 to 10, larger values act as 10.
    pub shift_g: u32,
    /// α of a new connection; values above 1024 act as 1024.
    pub alpha_on_init: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self { shift_g: 4, alpha_on_init: ALPHA_ONE }
    }
}

/// DCTCP's private area (spec/dctcp.md §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Receiver: RCV.NXT at the last segment.
    pub prior_rcv: u32,
    /// Marked fraction, 1024 = 1.
    pub alpha: u32,
    /// Sequence that ends the round.
    pub round_end: u32,
    /// `delivered` at the round's start.
    pub d0: u32,
    /// `delivered_ce` at the round's start.
    pub ce0: u32,
    /// Window at the last cut, for undo.
    pub cwnd_at_cut: u32,
    /// Receiver: CE state of the last segment, 0 or 1.
    pub ce_state: u32,
}

/// DCTCP with its receiver half. Without negotiated ECN it becomes "dctcp-reno" at `init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dctcp {
    /// Parameters; `shift_g` takes effect at the next update.
    pub params: Params,
    /// The private area, open to replays and diagnostics.
    pub state: State,
    /// False after the fall-back to Reno.
    enabled: bool,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self::new(Params::default())
    }
}

impl Dctcp {
    /// DCTCP with these module parameters.
    #[must_use]
    pub const fn new(params: Params) -> Self {
        Self {
            params,
            state: State { prior_rcv: 0, alpha: 0, round_end: 0, d0: 0, ce0: 0, cwnd_at_cut: 0, ce_state: 0 },
            enabled: true,
        }
    }

    /// False once the connection runs "dctcp-reno" for lack of ECN.
    #[must_use]
    pub const fn enabled(&self) -> bool {
        self.enabled
    }

    fn new_round(&mut self, c: &Conn) {
        self.state.round_end = c.nxt;
        self.state.d0 = c.delivered;
        self.state.ce0 = c.delivered_ce;
    }

    /// Loss halves, whatever α says.
    fn react_to_loss(&mut self, c: &mut Conn) {
        self.state.cwnd_at_cut = c.cwnd;
        c.ssthresh = reno::ssthresh(c);
    }

    /// A data segment arrived: echo a change of its CE state at once, acknowledging what came before with the old
    /// state if an ACK was being delayed (spec/dctcp.md §5).
    fn receive<E: Env>(&mut self, c: &mut Conn, env: &mut E, ce: bool) {
        if ce != (self.state.ce_state != 0) {
            if c.delack_pending {
                c.ecn.echo = self.state.ce_state != 0;
                env.send_ack(self.state.prior_rcv, c.ecn.echo);
            }
            c.ack_now = true;
        }
        self.state.prior_rcv = c.rcv_nxt;
        self.state.ce_state = u32::from(ce);
        c.ecn.echo = ce;
    }
}

/// One round's update of α: `d` packets delivered, `e` of them marked (spec/dctcp.md §3).
///
/// Below 2^g α drops to 0 at once, and a fraction under 1/64 (g = 4) adds nothing. The shift of `e` is 32-bit.
#[inline]
#[must_use]
pub fn next_alpha(alpha: u32, shift_g: u32, d: u32, e: u32) -> u32 {
    let g = shift_g.min(10);
    let decay = alpha >> g;
    let mut alpha = if decay != 0 { alpha - decay } else { 0 };
    if e != 0 {
        alpha = alpha.wrapping_add((e << (10 - g)) / d.max(1)).min(ALPHA_ONE);
    }
    alpha
}

impl Algorithm for Dctcp {
    fn name(&self) -> &'static str {
        if self.enabled { "dctcp" } else { "dctcp-reno" }
    }

    fn flags(&self) -> Flags {
        Flags { needs_ecn: self.enabled, ..Flags::default() }
    }

    fn init<E: Env>(&mut self, c: &mut Conn, _env: &mut E) {
        if !(c.ecn.negotiated() || c.unconnected) {
            self.enabled = false;
            return;
        }
        self.state.prior_rcv = c.rcv_nxt;
        self.state.alpha = self.params.alpha_on_init.min(ALPHA_ONE);
        self.state.cwnd_at_cut = 0;
        self.state.ce_state = 0;
        self.new_round(c);
    }

    /// cwnd·(1 − α/2), at least 2; the product is 32-bit.
    #[inline]
    fn ssthresh<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        if !self.enabled {
            return reno::ssthresh(c);
        }
        self.state.cwnd_at_cut = c.cwnd;
        c.cwnd.wrapping_sub(c.cwnd.wrapping_mul(self.state.alpha) >> 11).max(2)
    }

    #[inline]
    fn cong_avoid<E: Env>(&mut self, c: &mut Conn, _env: &mut E, _ack: u32, acked: u32) {
        reno::cong_avoid(c, acked);
    }

    fn set_state<E: Env>(&mut self, c: &mut Conn, _env: &mut E, new: CaState) {
        if self.enabled && new == CaState::Recovery && new != c.state {
            self.react_to_loss(c);
        }
    }

    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, event: CwndEvent) {
        if !self.enabled {
            return;
        }
        match event {
            CwndEvent::EcnIsCe => self.receive(c, env, true),
            CwndEvent::EcnNoCe => self.receive(c, env, false),
            CwndEvent::Loss => self.react_to_loss(c),
            CwndEvent::TxStart | CwndEvent::WindowRestart | CwndEvent::CwrComplete => {}
        }
    }

    /// Ends a round when everything outstanding at its start has been cumulatively acknowledged.
    #[inline]
    fn in_ack_event<E: Env>(&mut self, c: &mut Conn, _env: &mut E, _flags: AckFlags) {
        if !self.enabled || !c.una_reached(self.state.round_end) {
            return;
        }
        let d = c.delivered.wrapping_sub(self.state.d0);
        let e = c.delivered_ce.wrapping_sub(self.state.ce0);
        self.state.alpha = next_alpha(self.state.alpha, self.params.shift_g, d, e);
        self.new_round(c);
    }

    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, _env: &mut E) -> u32 {
        if self.enabled { c.cwnd.max(self.state.cwnd_at_cut) } else { reno::undo_cwnd(c) }
    }

    fn info(&self, c: &Conn) -> Info {
        if !self.enabled {
            return Info::Dctcp { enabled: false, ce_state: 0, alpha: 0, ab_ecn: 0, ab_tot: 0 };
        }
        let s = &self.state;
        Info::Dctcp {
            enabled: true,
            ce_state: s.ce_state as u16,
            alpha: s.alpha,
            ab_ecn: c.mss.wrapping_mul(c.delivered_ce.wrapping_sub(s.ce0)),
            ab_tot: c.mss.wrapping_mul(c.delivered.wrapping_sub(s.d0)),
        }
    }
}

#[cfg(test)]
mod tests;
