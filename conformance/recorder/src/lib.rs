//! Records what a booted, unmodified Linux kernel did to traffic: everything a queue discipline or a congestion
//! control read and decided, so that a port can be replayed against it bit for bit.
//!
//! [`Recorder`] boots a kernel package in QEMU, builds a small network of namespaces in it from a [`Scenario`], loads
//! programs into the kernel that note each call with its inputs (clock reads, random draws, packets, hashes), and
//! brings the records back. Nothing here is needed by those who only replay.

mod bpf;
mod convert;
mod error;
mod initramfs;
mod kernel;
mod live;
mod progress;
mod qemu;
pub mod raw;
mod recorder;
mod recording;
mod request;
pub mod scenario;
mod tools;

pub use convert::trace;
pub use error::{Error, MissingTool};
pub use kernel::{Kernel, Module};
pub use progress::Progress;
pub use qemu::{Accelerator, GuestClock};
pub use recorder::Recorder;
pub use recording::Recording;
pub use request::{Outcome, Request, Source, record};
pub use scenario::Scenario;
