#[cfg(feature = "alloc")]
use crate::TreeCorrection;
use crate::net::SipKey;
use crate::{DropReason, Environment};

/// A source of the monotonic time.
pub trait Clock {
    /// Nanoseconds since some fixed moment.
    fn now_ns(&mut self) -> u64;
}

/// A source of random draws.
pub trait Random {
    /// One uniform 32-bit value.
    fn next_u32(&mut self) -> u32;
}

/// A clock that stands still until it is set: one `now` for the whole call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedClock(pub u64);

impl Clock for FixedClock {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.0
    }
}

/// The SplitMix64 generator: small, fast, statistically sound, not for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// One uniform 64-bit value.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

impl Random for SplitMix64 {
    #[inline]
    fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
}

/// The sink that discards dropped packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

/// An [`Environment`] put together from a clock, a random source and a drop sink.
#[derive(Clone, Copy, Debug)]
pub struct Context<C, R, D> {
    /// The clock.
    pub clock: C,
    /// The random source.
    pub random: R,
    /// The flow-hash secret.
    pub secret: SipKey,
    sink: D,
}

impl Context<FixedClock, SplitMix64, Ignore> {
    /// A context whose clock stands at `now_ns` until it is moved, with a fixed random seed and hash secret: the
    /// same every time. Firmware seeds [`random`](Self::random) and [`secret`](Self::secret) from its own entropy.
    pub const fn at(now_ns: u64) -> Self {
        Self {
            clock: FixedClock(now_ns),
            random: SplitMix64(0x6465_626c_6f61_7421),
            secret: SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]),
            sink: Ignore,
        }
    }
}

impl<R, D> Context<FixedClock, R, D> {
    /// Moves the clock on.
    pub const fn advance_ns(&mut self, ns: u64) {
        self.clock.0 += ns;
    }

    /// Sets the clock.
    pub const fn set_now_ns(&mut self, now_ns: u64) {
        self.clock.0 = now_ns;
    }
}

impl<C, R, D> Context<C, R, D> {
    /// Gives every dropped packet, with its reason, to `sink`.
    pub fn on_drop<P, F: FnMut(P, DropReason)>(self, sink: F) -> Context<C, R, F> {
        Context { clock: self.clock, random: self.random, secret: self.secret, sink }
    }
}

/// Where a [`Context`] puts dropped packets: [`Ignore`], or any `FnMut(P, DropReason)`.
pub trait DropSink<P> {
    /// Takes one dropped packet.
    fn take(&mut self, packet: P, reason: DropReason);
}

impl<P> DropSink<P> for Ignore {
    fn take(&mut self, _: P, _: DropReason) {}
}

impl<P, F: FnMut(P, DropReason)> DropSink<P> for F {
    fn take(&mut self, packet: P, reason: DropReason) {
        self(packet, reason);
    }
}

impl<P, C: Clock, R: Random, D: DropSink<P>> Environment<P> for Context<C, R, D> {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }
    #[inline]
    fn random_u32(&mut self) -> u32 {
        self.random.next_u32()
    }
    #[inline]
    fn flow_secret(&self) -> SipKey {
        self.secret
    }
    #[inline]
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.sink.take(packet, reason);
    }
}

#[cfg(feature = "std")]
mod system {
    use super::{Clock, Context, Ignore, SipKey, SplitMix64};
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::time::Instant;

    /// The system's monotonic clock. It reads one hour when it is made: ports expect a clock far from 0.
    #[derive(Clone, Copy, Debug)]
    pub struct SystemClock(Instant);

    impl Clock for SystemClock {
        #[inline]
        fn now_ns(&mut self) -> u64 {
            const HOUR_NS: u64 = 3_600_000_000_000;
            u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(HOUR_NS)
        }
    }

    /// A context on the system clock.
    pub type SystemContext<D = Ignore> = Context<SystemClock, SplitMix64, D>;

    impl SystemContext {
        /// The system's monotonic clock, and a random seed and hash secret from the operating system.
        pub fn system() -> Self {
            let os_random = || RandomState::new().build_hasher().finish();
            Self {
                clock: SystemClock(Instant::now()),
                random: SplitMix64(os_random()),
                secret: SipKey([os_random(), os_random()]),
                sink: Ignore,
            }
        }
    }
}
#[cfg(feature = "std")]
pub use system::{SystemClock, SystemContext};

#[cfg(feature = "alloc")]
mod scripted {
    use super::{DropReason, Environment, SipKey, TreeCorrection};
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    /// A dropped packet and why.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Dropped<P> {
        /// The packet.
        pub packet: P,
        /// The reason.
        pub reason: DropReason,
    }

    /// A context for tests, which owns time and chance and keeps what comes out.
    ///
    /// # Panics
    ///
    /// Its [`Environment::random_u32`] panics when a draw is taken that was not scripted.
    #[derive(Clone, Debug)]
    pub struct Scripted<P> {
        /// What every clock read returns.
        pub now_ns: u64,
        /// The draws to come, taken in order and truncated to the width asked for.
        pub draws: VecDeque<u64>,
        /// The flow-hash secret.
        pub secret: SipKey,
        /// What was dropped, in order.
        pub dropped: Vec<Dropped<P>>,
        /// The corrections for the ancestors, in order.
        pub corrections: Vec<TreeCorrection>,
        /// Clock reads so far.
        pub clock_reads: u64,
    }

    impl<P> Scripted<P> {
        /// A clock that stands at `now_ns`, no draws.
        pub const fn at(now_ns: u64) -> Self {
            Self {
                now_ns,
                draws: VecDeque::new(),
                secret: SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]),
                dropped: Vec::new(),
                corrections: Vec::new(),
                clock_reads: 0,
            }
        }

        /// Adds draws to come.
        pub fn with_draws(mut self, draws: impl IntoIterator<Item = u64>) -> Self {
            self.draws.extend(draws);
            self
        }

        fn draw(&mut self) -> u64 {
            match self.draws.pop_front() {
                Some(draw) => draw,
                None => panic!("a random draw was taken which the test did not script"),
            }
        }
    }

    impl<P> Environment<P> for Scripted<P> {
        fn now_ns(&mut self) -> u64 {
            self.clock_reads += 1;
            self.now_ns
        }
        fn coarse_now_ns(&mut self) -> u64 {
            self.now_ns
        }
        fn random_u32(&mut self) -> u32 {
            self.draw() as u32
        }
        fn random_u64(&mut self) -> u64 {
            self.draw()
        }
        fn flow_secret(&self) -> SipKey {
            self.secret
        }
        fn dropped(&mut self, packet: P, reason: DropReason) {
            self.dropped.push(Dropped { packet, reason });
        }
        fn correct_tree(&mut self, correction: TreeCorrection) {
            self.corrections.push(correction);
        }
    }
}
#[cfg(feature = "alloc")]
pub use scripted::{Dropped, Scripted};
