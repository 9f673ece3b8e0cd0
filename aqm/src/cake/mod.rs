//! cake: a shaper, Diffserv tins, fairness between hosts and flows, and COBALT on each queue (spec/cake.md).
//!
//! ```
//! use debloat_aqm::{Context, Descriptor, Qdisc, Verdict, cake::{Cake, Config, Diffserv}};
//!
//! // cake bandwidth 20mbit diffserv4 rtt 80ms
//! let config = Config { bandwidth: Some(2_500_000), diffserv: Some(Diffserv::Diffserv4), ..Config::default() };
//! let mut queue = Cake::new(config.rtt(80_000))?;
//! let mut cx = Context::at(3_600_000_000_000).on_drop(|packet: Descriptor, why| println!("{packet:?}: {why}"));
//!
//! for (flow, host) in [(1, 10), (2, 10), (3, 11)] {
//!     let packet = Descriptor::new(1514).with_flow_hash(flow).with_hosts(host, 99);
//!     assert_eq!(queue.enqueue(packet, &mut cx), Verdict::Queued);
//! }
//! assert!(queue.dequeue(&mut cx).is_some());
//! assert!(queue.dequeue(&mut cx).is_none(), "the next may leave when the shaper's clock says so");
//! let next = queue.next_event().expect("the watchdog is armed");
//! assert_eq!(next.at_ns, 3_600_000_605_600);
//! cx.set_now_ns(next.at_ns);
//! assert!(queue.dequeue(&mut cx).is_some());
//! # Ok::<(), debloat_aqm::ConfigError>(())
//! ```
//!
//! # Memory
//!
//! Tins are allocated when a configuration first uses them, in Linux always all eight. See [`Cake`].

mod ack_filter;
mod autorate;
mod classify;
mod cobalt;
mod config;
mod dequeue;
mod enqueue;
mod heap;
mod hosts;
mod lookup;
mod meta;
mod mq;
mod overhead;
mod qdisc;
mod queue;
mod rate;
mod reconfigure;
mod report;
mod scan;
mod shaper;
mod stats;
mod storage;
mod tin;
mod tins;

#[cfg(test)]
mod tests;

pub use autorate::Autorate;
pub use cobalt::{Cobalt, CobaltParameters};
pub use config::{AckFilter, Config, Diffserv, FlowMode, Framing, Parameters};
pub use hosts::HostSlot;
pub use mq::{CakeMq, MqQueue};
pub use overhead::LengthRecords;
pub use qdisc::{Cake, Memory, Sharing};
pub use queue::QueueState;
pub use rate::TimePerByte;
pub use shaper::{Shaper, TinClock};
pub use stats::{ClassStats, QueueSnapshot, Stats, TinSnapshot, TinStats};
pub use storage::{Fixed, Rows, Storage};
pub use tin::{Delays, Lookups};
