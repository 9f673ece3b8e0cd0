//! Random early detection: the `red` qdisc of Linux (spec/red.md), the averaging core which sfq shares, and, apart
//! from both, the RED of BSD's ALTQ ([`altq`]), which is not Linux.

pub mod altq;
mod config;
mod core;
mod options;
mod qdisc;
#[cfg(test)]
mod tests;

pub use self::core::Average;
pub use config::{Config, Parameters};
pub use options::{Fraction, Options};
pub use qdisc::{Red, Stats};

pub(crate) use self::core::{Decision, Law, Thresholds};
