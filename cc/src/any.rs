//! Any algorithm, chosen at run time.

use crate::algorithm::{AckFlags, AckSample, Algorithm, CwndEvent, Flags, Info, LostPackets};
use crate::conn::{CaState, Conn};
use crate::env::Env;
use crate::rate::RateSample;
use crate::{Bbr, Bbr3, Cubic, Dctcp, Prague, Reno};

macro_rules! any {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $name:literal),* $(,)?) => {
        /// An algorithm chosen by name, for simulators and stacks with a `tcp_congestion_control` setting of their own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        // No heap: the largest state decides.
        #[allow(clippy::large_enum_variant, reason = "no heap to box into")]
        pub enum Any {
            $($(#[$doc])* $variant($type)),*
        }

        impl Any {
            /// The names of all algorithms.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The algorithm of this name with default parameters; `None` for an unknown one.
            #[must_use]
            pub fn by_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$type>::default())),)*
                    _ => None,
                }
            }
        }

        $(impl From<$type> for Any {
            fn from(algorithm: $type) -> Self {
                Self::$variant(algorithm)
            }
        })*

        macro_rules! each {
            ($self:ident, $a:ident => $body:expr) => {
                match $self { $(Any::$variant($a) => $body),* }
            };
        }
    };
}

any! {
    /// Reno.
    Reno(Reno) = "reno",
    /// CUBIC.
    Cubic(Cubic) = "cubic",
    /// DCTCP.
    Dctcp(Dctcp) = "dctcp",
    /// BBR version 1.
    Bbr(Bbr) = "bbr",
    /// BBR version 3 (not Linux-exact).
    Bbr3(Bbr3) = "bbr3",
    /// Prague (not Linux-exact).
    Prague(Prague) = "prague",
}

impl Algorithm for Any {
    fn name(&self) -> &'static str {
        each!(self, a => a.name())
    }

    fn flags(&self) -> Flags {
        each!(self, a => a.flags())
    }

    fn init<E: Env>(&mut self, c: &mut Conn, env: &mut E) {
        each!(self, a => a.init(c, env));
    }

    fn ssthresh<E: Env>(&mut self, c: &mut Conn, env: &mut E) -> u32 {
        each!(self, a => a.ssthresh(c, env))
    }

    fn cong_avoid<E: Env>(&mut self, c: &mut Conn, env: &mut E, ack: u32, acked: u32) {
        each!(self, a => a.cong_avoid(c, env, ack, acked));
    }

    fn has_cong_control(&self) -> bool {
        each!(self, a => a.has_cong_control())
    }

    fn cong_control<E: Env>(&mut self, c: &mut Conn, env: &mut E, ack: u32, flags: AckFlags, rs: &RateSample) {
        each!(self, a => a.cong_control(c, env, ack, flags, rs));
    }

    fn set_state<E: Env>(&mut self, c: &mut Conn, env: &mut E, new: CaState) {
        each!(self, a => a.set_state(c, env, new));
    }

    fn cwnd_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, event: CwndEvent) {
        each!(self, a => a.cwnd_event(c, env, event));
    }

    fn in_ack_event<E: Env>(&mut self, c: &mut Conn, env: &mut E, flags: AckFlags) {
        each!(self, a => a.in_ack_event(c, env, flags));
    }

    fn pkts_acked<E: Env>(&mut self, c: &mut Conn, env: &mut E, sample: &AckSample) {
        each!(self, a => a.pkts_acked(c, env, sample));
    }

    fn undo_cwnd<E: Env>(&mut self, c: &mut Conn, env: &mut E) -> u32 {
        each!(self, a => a.undo_cwnd(c, env))
    }

    fn min_tso_segs(&self, c: &Conn) -> Option<u32> {
        each!(self, a => a.min_tso_segs(c))
    }

    fn sndbuf_expand(&self) -> u32 {
        each!(self, a => a.sndbuf_expand())
    }

    fn on_lost<E: Env>(&mut self, c: &mut Conn, env: &mut E, lost: &LostPackets) {
        each!(self, a => a.on_lost(c, env, lost));
    }

    fn on_sample<E: Env>(&mut self, c: &mut Conn, env: &mut E, tx_in_flight: u32, lost_at_send: u32) {
        each!(self, a => a.on_sample(c, env, tx_in_flight, lost_at_send));
    }

    fn info(&self, c: &Conn) -> Info {
        each!(self, a => a.info(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_algorithm() {
        for name in Any::NAMES {
            assert_eq!(Any::by_name(name).map(|a| a.name()), Some(*name));
        }
        assert_eq!(Any::by_name("vegas"), None);
    }
}
