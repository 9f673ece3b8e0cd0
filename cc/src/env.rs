//! What an algorithm reads from the world: the tick counter and, for BBR, a random draw.

use crate::clock::Hz;

/// The world as Linux's hooks see it.
///
/// The event's cached clock is not here but in [`Conn`](crate::Conn) (`now_ns`, `now_us`), because Linux samples it
/// once per event; jiffies are read live wherever a hook uses them, so a replay can feed each read its own value.
pub trait Env {
    /// Ticks per second; constant for a connection.
    fn hz(&self) -> Hz;

    /// The tick counter at this moment.
    fn jiffies(&mut self) -> u32;

    /// A uniform random number in `0..bound`; BBR's only draw is with `bound` 7 (spec/bbr.md §8).
    fn random_below(&mut self, bound: u32) -> u32;

    /// DCTCP's receiver wants an ACK sent at once with this acknowledgement number and ECE flag (spec/dctcp.md §5).
    /// It does not use up quick-ACK credit. Senders may leave the default, which does nothing.
    fn send_ack(&mut self, ack: u32, echo: bool) {
        let _ = (ack, echo);
    }
}

impl<E: Env + ?Sized> Env for &mut E {
    fn hz(&self) -> Hz {
        (**self).hz()
    }

    fn jiffies(&mut self) -> u32 {
        (**self).jiffies()
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        (**self).random_below(bound)
    }

    fn send_ack(&mut self, ack: u32, echo: bool) {
        (**self).send_ack(ack, echo);
    }
}

/// An environment that a test or a simulator sets by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Tick rate.
    pub hz: Hz,
    /// What [`Env::jiffies`] answers.
    pub jiffies: u32,
    /// What [`Env::random_below`] answers, reduced below its bound.
    pub draw: u32,
}

impl Env for Fixed {
    #[inline(always)]
    fn hz(&self) -> Hz {
        self.hz
    }

    #[inline(always)]
    fn jiffies(&mut self) -> u32 {
        self.jiffies
    }

    #[inline]
    fn random_below(&mut self, bound: u32) -> u32 {
        self.draw % bound.max(1)
    }
}
