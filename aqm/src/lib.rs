//! Exact, embeddable ports of Linux queue disciplines.
//!
//! Each qdisc behaves, to the bit, like the one of a named Linux version ([`Linux`]); which evidence stands behind
//! that claim is said per qdisc in the project's `docs/conformance.md`.
//!
//! The crate is a *pure core*: no clock, no random generator, no I/O and no global state. What an algorithm reads
//! from the world (time, random draws, the flow-hash secret) it reads from the [`Environment`] which the caller
//! passes to each call, and every dropped packet is handed back through that same environment with its reason.
//! Packets are the caller's own type, behind the [`Packet`] trait. There are no timers, only deadlines
//! ([`Qdisc::next_event`]).
//!
//! ```
//! use debloat_aqm::{Context, Descriptor, Qdisc, Verdict, fq_codel::{Config, FqCodel}};
//!
//! let mut queue = FqCodel::new(Config::default())?; // tc's defaults, newest Linux
//! let mut cx = Context::at(1_000_000_000).on_drop(|packet: Descriptor, why| println!("{packet:?}: {why}"));
//! assert_eq!(queue.enqueue(Descriptor::new(1514).with_flow_hash(0xbaf8_7ff2), &mut cx), Verdict::Queued);
//! cx.advance_ns(1_200_000);
//! assert_eq!(queue.dequeue(&mut cx).map(|packet| packet.len_bytes), Some(1514));
//! # Ok::<(), debloat_aqm::ConfigError>(())
//! ```
//!
//! # Features
//!
//! `std` (default) ⊃ `alloc` ⊃ nothing. Without `alloc` the sizes are const parameters ([`Fixed`]) and nothing is
//! ever allocated; `bytes` (in `alloc`) adds frames over `bytes::BytesMut`.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod arith;
mod child;
mod classify;
mod config;
#[cfg(test)]
mod conservation;
mod context;
mod environment;
mod flow_list;
pub mod net;
mod packet;
mod qdisc;
mod rb_tree;
mod slab;
mod stats;
mod storage;
pub mod time;
#[allow(dead_code, reason = "the qdiscs that use all of it arrive one by one")]
mod timer;
mod version;

pub mod cake;
pub mod codel;
pub mod dualpi2;
pub mod fifo;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod pie;
pub mod red;
pub mod sfq;

pub use config::{ConfigError, Configure, Host, Setup, TimerModel};
pub use context::{Clock, Context, DropSink, FixedClock, Ignore, Random, SplitMix64};
#[cfg(feature = "alloc")]
pub use context::{Dropped, Scripted};
#[cfg(feature = "std")]
pub use context::{SystemClock, SystemContext};
pub use environment::{Classified, DropReason, Environment, NatTuple, TreeCorrection};
pub use packet::{Descriptor, Gso, GsoDetails, Packet, Socket, SocketState};
#[cfg(feature = "alloc")]
pub use qdisc::DynQdisc;
pub use qdisc::{Event, EventKind, Qdisc, Verdict};
pub use stats::Counters;
pub use storage::{CapacityError, Fixed, Heap, Slots, Storage};
pub use version::Linux;
