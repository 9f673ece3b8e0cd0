//! Header bytes: what queue disciplines read from packets and change in them, as functions on byte slices.
//!
//! Everything here is bounds-safe on any input, without allocation and without state.

pub mod dissect;
pub mod ecn;
pub mod flow_keys;
pub mod headers;
pub mod siphash;
pub mod tcp;

pub use dissect::{dissect, flow_hash};
pub use ecn::Ecn;
pub use flow_keys::{AddressKind, FlowKeys, HostHashes, VlanKey};
pub use headers::{Headers, VlanTag, ethertype, ip_protocol};
pub use siphash::SipKey;
