use debloat_aqm::DropReason;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a packet was dropped, as far as the trace's maker could tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCause {
    /// The ports' reason: known to an oracle-made trace, inferred or unknown in a recorded one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "to_name",
        deserialize_with = "from_name"
    )]
    pub reason: Option<DropReason>,
    /// The kernel's own number (its meaning differs between versions), if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
}

/// Every reason, in the order of the numbers in the file: 1 for the first.
pub(super) const REASONS: [DropReason; 16] = [
    DropReason::TailDrop,
    DropReason::OverLimit,
    DropReason::OverMemory,
    DropReason::Codel,
    DropReason::Early,
    DropReason::Overload,
    DropReason::AckFilter,
    DropReason::FlowLimit,
    DropReason::Horizon,
    DropReason::Classify,
    DropReason::Stolen,
    DropReason::TooBig,
    DropReason::SplitFailed,
    DropReason::Change,
    DropReason::Reset,
    DropReason::StorageFull,
];

impl DropCause {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { reason: None, code: None };
}

impl From<DropReason> for DropCause {
    fn from(reason: DropReason) -> Self {
        Self { reason: Some(reason), code: None }
    }
}

fn to_name<S: Serializer>(reason: &Option<DropReason>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(DropReason::name).serialize(serializer)
}

fn from_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DropReason>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let known = REASONS.into_iter().find(|reason| reason.name() == name);
    known.map(Some).ok_or_else(|| serde::de::Error::custom(format!("{name}: unknown drop reason")))
}
