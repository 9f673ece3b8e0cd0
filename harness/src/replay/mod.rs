//! Replays traces through the ports: feeds what the kernel read, compares what it did.
//!
//! Every call of a trace is made on the port with the recorded clock reads, random draws and packets. Compared are
//! the packet that came out and its bytes, the verdict, the drops and their order, the tree corrections, the queue
//! length and backlog, the number of clock reads and draws, and the recorded private state after the call.

mod cc;
mod environment;
mod packet;
mod qdisc;
mod report;
mod state;

pub use cc::CcReplay;
pub use packet::TracePacket;
pub use qdisc::QdiscReplay;
pub use report::{Difference, Divergence, ReplayError, Report};
pub use state::Probe;

use crate::trace::{Event, Header, Subject};

/// Replays the events of one trace through the port that its header names.
///
/// # Errors
///
/// Those of the events, and a trace that names a qdisc, an option or a state field which the ports do not know. A
/// divergence is not an error: it is in the report.
pub fn replay(
    header: &Header,
    events: impl IntoIterator<Item = Result<Event, ReplayError>>,
) -> Result<Report, ReplayError> {
    match &header.subject {
        Subject::Qdisc(_) => {
            let mut replay = QdiscReplay::new(header)?;
            for event in events {
                replay.event(&event?)?;
            }
            Ok(replay.finish())
        }
        Subject::CongestionControl(_) => {
            let mut replay = CcReplay::new(header)?;
            for event in events {
                replay.event(&event?)?;
            }
            Ok(replay.finish())
        }
    }
}
