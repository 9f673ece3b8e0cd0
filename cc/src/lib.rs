//! Exact, embeddable ports of Linux's TCP congestion controls.
//!
//! Work in progress.
#![no_std]

pub mod algorithm;
pub mod bbr;
pub mod clock;
pub mod conn;
pub mod cubic;
pub mod dctcp;
pub mod driver;
pub mod env;
pub mod machine;
pub mod minmax;
pub mod pacing;
pub mod prr;
pub mod rack;
pub mod rate;
pub mod reno;
pub mod rtt;
pub mod sysctl;
pub mod validate;
mod version;
pub mod window;

pub use algorithm::Algorithm;
pub use bbr::Bbr;
pub use clock::Hz;
pub use conn::{CaState, Conn};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use env::Env;
pub use reno::Reno;
pub use sysctl::Sysctl;
pub use version::Linux;
