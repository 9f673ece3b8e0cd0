use serde::{Deserialize, Serialize};

use super::{DropCause, Snapshot};

/// One event of a trace, in the order in which the subject was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// One call of a qdisc, with all it read and all it did.
    Call(Call),
    /// One call of a congestion-control hook.
    Hook(Hook),
    /// A state seen between calls: the initial one, or one taken at a drain.
    State(State),
    /// What the subject reported of itself, usually once at the end.
    Statistics(Statistics),
}

/// One call of the subject qdisc.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// When the call began, by the recorder's own clock, ns. Not one of the subject's clock reads.
    pub time_ns: u64,
    /// What was called.
    pub operation: Operation,
    /// What the call read and did, in that order.
    pub steps: Vec<Step>,
    /// What it returned.
    pub outcome: Outcome,
    /// Packets queued after the call.
    pub qlen: u32,
    /// Bytes queued after the call, in qdisc lengths.
    pub backlog_bytes: u32,
    /// Private state around the call.
    pub snapshots: Vec<Snapshot>,
}

/// What was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A packet arrived.
    Enqueue(Box<Arrival>),
    /// The device or the parent asked for a packet.
    Dequeue,
    /// The parent looked at the next packet.
    Peek,
    /// The parent took the packet it had looked at.
    DequeuePeeked,
    /// A periodic timer ran.
    Timer,
    /// The configuration was changed: tc's option text, as given.
    Change(String),
    /// The qdisc was emptied.
    Reset,
}

/// A packet as the qdisc got it (spec/common.md §3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its number in this trace: the first packet is 0, each later one is one more.
    pub id: u64,
    /// Qdisc length, `L`, bytes.
    pub len_bytes: u32,
    /// Bytes in the buffer, `N`.
    pub buffer_bytes: u32,
    /// How many of them lie in the linear area, where headers can be read.
    pub linear_bytes: u32,
    /// Memory charge, `S`.
    pub truesize_bytes: u32,
    /// Packet priority.
    pub priority: u32,
    /// Firewall mark.
    pub mark: u32,
    /// Flow hash after the call: what classification used, 0 if it needed none.
    pub hash: u32,
    /// The packet brought its hash along (level-4 or software hash), so that it does not follow from the bytes.
    pub hash_carried: bool,
    /// EtherType as the stack knows it, host order.
    pub protocol: u16,
    /// Offset of the network header in `bytes`.
    pub network_offset: u16,
    /// Offset of the transport header in `bytes`, if it is known.
    pub transport_offset: Option<u16>,
    /// Segmentation; `None` if the packet is not a GSO packet.
    pub gso: Option<GsoInfo>,
    /// The segments that the call split the packet into; empty if it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentInfo>,
    /// Still charged to a local socket's send buffer.
    pub charged_to_socket: bool,
    /// Earliest departure time, ns; 0 for none.
    pub departure_ns: u64,
    /// The VLAN tag beside the packet (not in the bytes).
    pub vlan: Option<VlanTag>,
    /// The first bytes of the linear area, from the link header on; may be cut after the transport header.
    #[serde(with = "super::hex")]
    pub bytes: Vec<u8>,
}

/// GSO fields of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GsoInfo {
    /// Payload bytes per segment.
    pub segment_bytes: u16,
    /// Segments.
    pub segments: u16,
    /// Linux's type bits.
    pub kind: u32,
}

/// One segment of a packet that a qdisc has split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// Bytes with link header: both buffer and qdisc length.
    pub len_bytes: u32,
    /// Memory charge.
    pub truesize_bytes: u32,
}

/// A VLAN tag that travels beside the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanTag {
    /// 0x8100 or 0x88a8, host order.
    pub tpid: u16,
    /// Priority, DEI and id, host order.
    pub tci: u16,
}

/// Names a packet of the trace, or one segment of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PacketRef {
    /// [`Arrival::id`].
    pub id: u64,
    /// 0 for the whole packet; `n` for its `n`-th segment, counted from 1, when the qdisc has split it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub segment: u16,
}

fn is_zero(segment: &u16) -> bool {
    *segment == 0
}

impl PacketRef {
    /// The whole packet.
    pub const fn whole(id: u64) -> Self {
        Self { id, segment: 0 }
    }
}

/// One thing that a call read from the world or did to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Read the monotonic clock, ns.
    Clock(u64),
    /// Read the jiffy counter.
    Jiffies(u64),
    /// Drew a random number.
    Draw {
        /// Width: 8, 16, 32 or 64.
        bits: u8,
        /// The value, below `2^bits`.
        value: u64,
    },
    /// Hashed dissected keys with the host's secret.
    FlowHash {
        /// The result.
        value: u32,
        /// The key bytes as they were hashed (spec/common.md §8.2), empty if unknown.
        #[serde(with = "super::hex")]
        keys: Vec<u8>,
    },
    /// Handed a packet back.
    Drop {
        /// Which; `None` if the recorder saw that a packet was dropped but not which.
        packet: Option<PacketRef>,
        /// Why, if known.
        cause: DropCause,
    },
    /// Corrected the ancestors' sums.
    Correction {
        /// Packets subtracted.
        packets: i32,
        /// Bytes subtracted.
        bytes: i32,
        /// Did the parent hear that the class became empty? `None` if not recorded.
        emptied: Option<bool>,
    },
    /// Armed the watchdog.
    Watchdog {
        /// When it fires, ns.
        expires_ns: u64,
        /// How much later it may fire.
        slack_ns: u64,
    },
}

/// What a call returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing to say: timer, reset, an accepted change.
    Done,
    /// Enqueue's code (spec/common.md §5).
    Verdict(u32),
    /// No packet.
    Nothing,
    /// A packet.
    Packet(Delivered),
    /// A refused change: the positive errno.
    Refused(u32),
}

/// A packet as it came out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Which.
    pub packet: PacketRef,
    /// Bytes in the buffer now.
    pub buffer_bytes: u32,
    /// DS field (DSCP and ECN) now; `None` for a packet without one.
    pub ds_field: Option<u8>,
    /// Header bytes that differ from the arrival's. Always empty for a segment, whose headers are new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ByteChange>,
}

/// One byte of a delivered packet that is not what it was on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteChange {
    /// Offset in [`Arrival::bytes`].
    pub offset: u16,
    /// The byte now.
    pub value: u8,
}

/// One call of a congestion-control hook. Connection fields, private area and samples are [`Snapshot`]s whose
/// [`Moment`](super::Moment) says before or after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// When the call began, by the recorder's own clock, ns.
    pub time_ns: u64,
    /// The connection: numbered from 0 in order of appearance.
    pub connection: u32,
    /// Which hook.
    pub hook: HookKind,
    /// Its arguments after the socket, as far as they are numbers.
    pub arguments: Vec<u64>,
    /// Its return value, if it has one.
    pub result: Option<u64>,
    /// The jiffy counter just before and just after. Where they differ, the hook may have read either.
    pub jiffies: [u64; 2],
    /// Clock reads and draws inside the call.
    pub steps: Vec<Step>,
    /// What was seen before and after.
    pub snapshots: Vec<Snapshot>,
}

/// The hooks of a congestion control (spec/cc-interface.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookKind {
    /// Connection set up, or the algorithm switched to.
    Init,
    /// Connection torn down, or the algorithm left.
    Release,
    /// Slow-start threshold after a loss.
    Ssthresh,
    /// Window growth on an ACK.
    CongAvoid,
    /// State-machine transition.
    SetState,
    /// A window event.
    CwndEvent,
    /// The ACK as it came, before it is processed.
    InAckEvent,
    /// Window after a false recovery.
    UndoCwnd,
    /// RTT and count of newly acknowledged packets.
    PktsAcked,
    /// Smallest TSO burst.
    MinTsoSegs,
    /// Send-buffer factor.
    SndbufExpand,
    /// The whole control, with a rate sample.
    CongControl,
}

/// Private state seen between calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// By the recorder's own clock, ns.
    pub time_ns: u64,
    /// The state.
    pub snapshots: Vec<Snapshot>,
}

/// What the subject reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// By the recorder's own clock, ns.
    pub time_ns: u64,
    /// Named values, in the order of the report.
    pub values: Vec<NamedValue>,
    /// The text of `tc -s -d qdisc show`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// One named number of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedValue {
    /// Its name, as in `tc -j`.
    pub name: String,
    /// Its value.
    pub value: i64,
}

impl Event {
    /// When the event began, by the recorder's clock, ns.
    pub const fn time_ns(&self) -> u64 {
        match self {
            Self::Call(call) => call.time_ns,
            Self::Hook(hook) => hook.time_ns,
            Self::State(state) => state.time_ns,
            Self::Statistics(statistics) => statistics.time_ns,
        }
    }
}

impl Call {
    /// The packet that arrived, in an enqueue.
    pub const fn arrival(&self) -> Option<&Arrival> {
        match &self.operation {
            Operation::Enqueue(arrival) => Some(arrival),
            _ => None,
        }
    }

    /// The packet that came out, if one did.
    pub const fn delivered(&self) -> Option<&Delivered> {
        match &self.outcome {
            Outcome::Packet(delivered) => Some(delivered),
            _ => None,
        }
    }
}

impl Arrival {
    /// The DS field in the bytes, if they hold an IPv4 or IPv6 header at [`network_offset`](Self::network_offset).
    pub fn ds_field(&self) -> Option<u8> {
        ds_field(self.protocol, self.network_offset, &self.bytes)
    }
}

/// The DS field of a frame whose network header lies at `offset`.
pub(crate) fn ds_field(protocol: u16, offset: u16, bytes: &[u8]) -> Option<u8> {
    let header = bytes.get(usize::from(offset)..)?;
    match (protocol, header) {
        (0x0800, [first, tos, ..]) if first >> 4 == 4 => Some(*tos),
        (0x86dd, [first, second, ..]) if first >> 4 == 6 => Some(first << 4 | second >> 4),
        _ => None,
    }
}
