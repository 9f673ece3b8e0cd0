//! cake against the kernel's cake.
//!
//! A case is a seed: from it come a device, a configuration, traffic and a sequence of operations. Each operation is
//! made on the kernel's cake first; what it read (clock, draws) is fed to the port, and all it did (verdict, packet and
//! its bytes, drops and their order, corrections, watchdog) is compared, then the state: see [`state`].
//!
//! [`model`] has the same operations for the port alone, with invariants instead of the kernel: for fuzzing, and on
//! machines without kernels.

mod campaign;
mod case;
mod configs;
mod coverage;
mod dumps;
mod environment;
mod frames;
mod packet;
mod state;
mod traffic;

pub use campaign::{Outcome, campaign, linux_of, one};
pub use case::{Case, Divergence, Failure, run};
pub use coverage::{Branch, Coverage};
