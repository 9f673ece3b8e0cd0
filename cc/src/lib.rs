//! Exact, embeddable ports of Linux's TCP congestion controls: the numbers that a Linux sender computes, without Linux.
//!
//! | | |
//! |---|---|
//! | bit-exact | [`Reno`], [`Cubic`] with HyStart, [`Dctcp`] with its receiver, [`Bbr`] version 1, as in 6.1, 6.12, 7.2 |
//! | **not Linux-exact** | [`Bbr3`], [`Prague`] (mainline Linux has neither), [`Abe`] (Linux has no ABE) |
//! | around them | rate samples ([`rate`]), PRR ([`prr`]), RTT and RTO ([`rtt`]), pacing and bursts ([`pacing`]), window validation ([`validate`]), the state machine with undo ([`machine`]), ECN ([`ecn`]) |
//!
//! Two ways in:
//!
//! * A stack author uses a [`driver::Driver`]: tell it what was sent, acknowledged and lost, read window, pacing rate and
//!   burst size.
//! * A simulator, a replay or a TCP with its own scoreboard calls the hooks of [`Algorithm`] on a [`Conn`], as Linux
//!   does, with [`machine::Machine`] between them.
//!
//! `no_std`, no heap, no `unsafe`, integers only. Nothing here reads a clock or draws a random number: time comes with
//! each event, ticks and draws through [`Env`]. Windows are in packets; [`driver::ByteDriver`] counts bytes.
//!
//! ```
//! use debloat_cc::driver::{Ack, Config, Driver};
//! use debloat_cc::{Cubic, Linux};
//!
//! // A QUIC sender in ten lines: now_ns is its monotonic clock.
//! let mut cc = Driver::new(Cubic::default(), Config::quic(1200).behave_like(Linux::V6_12));
//! let mut sent = Vec::new();
//! while cc.can_send() {
//!     sent.push(cc.on_sent(0, 1)); // one datagram; keep the stamp with it
//! }
//! # let lost = sent.remove(3);
//! # let delivered = sent.len() as u32;
//! cc.on_packet_lost(&lost);
//! cc.on_ack(30_000_000, &Ack { delivered, newest: sent.last().copied(), ce: 0, ..Ack::default() });
//! let (window, rate, burst) = (cc.cwnd(), cc.pacing_rate(), cc.burst_packets());
//! # assert!(window >= 2 && rate > 0 && burst >= 1);
//! println!("{}", cc.metrics()); // like `ss -ti`
//! ```
#![no_std]

mod abe;
pub mod algorithm;
mod any;
pub mod bbr;
pub mod bbr3;
pub mod clock;
pub mod conn;
pub mod cubic;
pub mod dctcp;
pub mod driver;
pub mod ecn;
pub mod env;
pub mod machine;
pub mod minmax;
pub mod pacing;
pub mod prague;
pub mod prr;
pub mod rack;
pub mod rate;
pub mod reno;
pub mod rtt;
pub mod sysctl;
pub mod validate;
mod version;
pub mod window;

pub use abe::{Abe, BETA_CUBIC, BETA_RENO};
pub use algorithm::Algorithm;
pub use any::Any;
pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use clock::Hz;
pub use conn::{CaState, Conn};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use env::Env;
pub use prague::Prague;
pub use reno::Reno;
pub use sysctl::Sysctl;
pub use version::Linux;
