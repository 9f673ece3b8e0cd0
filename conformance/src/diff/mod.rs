//! Differential runs: the same random operations on a kernel's own code and on a port, compared after each step.
//!
//! What the kernel reads and does is written down as a trace call ([`kernel`]), and the port replays that call at
//! once, so that the comparison is the very one of `debloat conform`, and a divergence, once shrunk, *is* a trace.
//! A qdisc adds only its [`Target`]: how to draw options, which private fields stand for which of the port's, and
//! which branches of its specification a campaign must have reached.

pub mod cake;
pub mod campaign;
pub mod case;
pub mod cc;
pub mod coverage;
pub mod fuzz;
pub mod golden;
pub mod kernel;
pub mod shrink;
pub mod solo;
pub mod target;
pub mod targets;
pub mod versus;

pub use campaign::{Campaign, CampaignReport, Found};
pub use case::{Case, Draft, Op, OptionSet, Step};
pub use coverage::Coverage;
pub use target::{Seen, StateSchema, Target};
