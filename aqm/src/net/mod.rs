//! Header bytes: what queue disciplines read from packets and change in them, as functions on byte slices.
//!
//! Everything here is bounds-safe on any input, without allocation and without state.

pub mod checksum;
pub mod dissect;
pub mod ecn;
pub mod flow_keys;
pub mod frame;
pub mod gso;
pub mod headers;
pub mod segment;
pub mod siphash;
pub mod tcp;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod kernel_answers;

pub use dissect::{dissect, flow_hash};
pub use ecn::Ecn;
pub use flow_keys::{AddressKind, FlowKeys, HostHashes, VlanKey};
pub use frame::{Buffer, Frame};
pub use headers::{Headers, VlanTag, ethertype, ip_protocol};
pub use segment::{SegmentError, Segmenter};
pub use siphash::SipKey;
