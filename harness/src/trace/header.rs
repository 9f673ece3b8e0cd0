use debloat_aqm::{Host, Linux, TimerModel};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::Schema;

/// What a trace says of itself: JSON at the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The kernel which the trace shows.
    pub kernel: Kernel,
    /// What was traced.
    pub subject: Subject,
    /// How the trace was made.
    pub origin: Origin,
    /// The tool that made it, with its version.
    pub tool: String,
    /// The traffic or the case, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Records lost by the recorder. Must be 0: a reader refuses a trace with losses.
    pub records_lost: u64,
    /// What an import left out or inferred, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remarks: BTreeMap<String, u64>,
    /// What the snapshots' values are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemas: Vec<Schema>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its series: `6.1`, `6.12` or `7.2`.
    pub series: String,
    /// Its release, such as `6.12.117+deb13-cloud-amd64`.
    pub release: String,
    /// The distribution's package and version, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// Jiffies per second.
    pub hz: u32,
}

/// What was traced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// A queue discipline.
    Qdisc(QdiscSubject),
    /// A congestion control.
    CongestionControl(CcSubject),
}

/// A traced queue discipline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QdiscSubject {
    /// Its tc name.
    pub name: String,
    /// tc's option text as given at creation; empty for defaults.
    pub options: String,
    /// The options as numbers, where known, under tc's names (a flag is 0 or 1, times are µs, sizes bytes).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, i64>,
    /// Its handle, `major << 16`.
    pub handle: u32,
    /// Is it the root of its device queue?
    pub root: bool,
    /// The class above it, `major << 16 | minor`, as tc prints it; 0 for a root, or if unknown.
    #[serde(default, skip_serializing_if = "no_class")]
    pub parent: u32,
    /// The clock when it was created, ns, where known: periodic timers count from here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub created_ns: u64,
    /// The device.
    pub device: Device,
    /// Where flow hashes come from.
    pub hashes: Hashes,
}

fn no_class(class: &u32) -> bool {
    *class == 0
}

/// The device which a qdisc sits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// MTU, bytes without link header.
    pub mtu_bytes: u32,
    /// Link header, bytes.
    pub link_header_bytes: u32,
    /// Transmit queue length, packets.
    pub tx_queue_len: u32,
}

/// Where a trace's flow hashes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hashes {
    /// The host's secret is known: every hash that the packet did not carry follows from the bytes.
    Secret([u64; 2]),
    /// The secret is unknown: the recorded hashes are inputs.
    Recorded,
}

/// A traced congestion control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CcSubject {
    /// Its name, such as `cubic`.
    pub name: String,
    /// Module parameters and sysctls that matter, where not the default: `name=value`, separated by blanks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// The options as numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, i64>,
}

/// How a trace was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Recorded from a booted kernel.
    Recorded,
    /// Answers of the kernel oracle.
    OracleMade,
    /// A divergence, shrunk to the shortest input that shows it.
    ShrunkDivergence,
}

impl Kernel {
    /// The series, if it is one that the ports know.
    pub fn linux(&self) -> Option<Linux> {
        self.series.parse().ok()
    }
}

impl Subject {
    /// The tc name or the congestion control's.
    pub fn name(&self) -> &str {
        match self {
            Self::Qdisc(qdisc) => &qdisc.name,
            Self::CongestionControl(cc) => &cc.name,
        }
    }
}

impl Header {
    /// The qdisc, if the subject is one.
    pub const fn qdisc(&self) -> Option<&QdiscSubject> {
        match &self.subject {
            Subject::Qdisc(qdisc) => Some(qdisc),
            Subject::CongestionControl(_) => None,
        }
    }

    /// Host and device as a port takes them; the default ones for a congestion control.
    pub fn host(&self) -> Host {
        let Some(qdisc) = self.qdisc() else { return Host { hz: self.kernel.hz, ..Host::default() } };
        Host {
            mtu_bytes: qdisc.device.mtu_bytes,
            link_header_bytes: qdisc.device.link_header_bytes,
            tx_queue_len: qdisc.device.tx_queue_len,
            hz: self.kernel.hz,
            timers: TimerModel::KernelLike,
            handle: qdisc.handle,
            is_root: qdisc.root,
            created_ns: qdisc.created_ns,
            ..Host::default()
        }
    }

    /// The schema of a name.
    pub fn schema(&self, name: &str) -> Option<(u16, &Schema)> {
        let index = self.schemas.iter().position(|schema| schema.name == name)?;
        Some((u16::try_from(index).ok()?, &self.schemas[index]))
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
