//! The trace format: what a kernel's queue discipline or congestion control read and did, call by call.
//!
//! The file layout is described in the project's `docs/trace-format.md`.

mod cause;
mod event;
mod header;
mod hex;
mod snapshot;

pub use cause::DropCause;
pub use event::{
    Arrival, ByteChange, Call, Delivered, Event, GsoInfo, Hook, HookKind, NamedValue, Operation, Outcome, PacketRef,
    State, Statistics, Step, VlanTag,
};
pub use header::{CcSubject, Device, Hashes, Header, Kernel, Origin, QdiscSubject, Subject};
pub use snapshot::{Field, Moment, Schema, Snapshot};
