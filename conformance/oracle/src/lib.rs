#![doc = include_str!("../README.md")]

mod catalog;
mod env;
mod error;
pub mod fetch;
mod gate;
mod image;
mod memory;
pub mod nla;
mod packet;
mod qdisc;
mod runtime;
mod signal;
mod socket;
pub mod worker;
mod world;

pub use catalog::{CACHE_VARIABLE, Kernel, Offer, Origin, cache_dir, find, find_in, kernels, kernels_in};
pub use env::{Classified, ClockScript, DrawScript, DropPath, Environment, Event, Events, Width, record};
pub use error::{Error, Fault, ImageError, Result, TypeError};
pub use image::{Btf, Field, MemberInfo};
pub use packet::{ETH_HEADER, Gso, GsoType, Hash, PacketRef, PacketSpec, Vlan};
pub use qdisc::{Class, Enqueued, KernelQdisc, PacketInfo, QdiscSetup, QdiscStats, ROOT, Refusal};
pub use socket::{AckSample, Control, Hook, KernelSocket, RateSample, SocketRef, WindowedFilter};
pub use world::{World, WorldOptions};
