//! The plain FIFOs: `pfifo`, `bfifo` and `pfifo_head_drop` (spec/fifo-tbf-htb.md, part A).
//!
//! The three differ in what their limit counts and in which packet they drop when it is reached. All versions of
//! Linux behave alike.

mod bfifo;
mod config;
mod head_drop;
mod pfifo;
mod queue;
#[cfg(test)]
mod tests;

pub use bfifo::Bfifo;
pub use config::{Config, Parameters};
pub use head_drop::PfifoHeadDrop;
pub use pfifo::Pfifo;
