//! Events as text, one line each.

use std::fmt::{self, Display, Formatter};

use debloat_aqm::Verdict;

use super::{
    Arrival, Call, Delivered, DropCause, Event, Hook, HookKind, Moment, Operation, Outcome, PacketRef, Snapshot,
    Statistics, Step, hex,
};

/// Nanoseconds as seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl Display for Event {
    /// One line, without a line break.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", Seconds(self.time_ns()))?;
        match self {
            Self::Call(call) => call.fmt(f),
            Self::Hook(hook) => hook.fmt(f),
            Self::State(state) => {
                f.write_str("state")?;
                snapshots(f, &state.snapshots)
            }
            Self::Statistics(statistics) => statistics.fmt(f),
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.operation {
            Operation::Enqueue(arrival) => write!(f, "enqueue {arrival}")?,
            Operation::Change(options) => write!(f, "change {options:?}")?,
            other => f.write_str(other.name())?,
        }
        steps(f, &self.steps, self.time_ns)?;
        match &self.outcome {
            Outcome::Done => {}
            Outcome::Verdict(code) => match Verdict::from_code(*code) {
                Some(verdict) => write!(f, " -> {}", format!("{verdict:?}").to_lowercase())?,
                None => write!(f, " -> code {code:#x}")?,
            },
            Outcome::Nothing => f.write_str(" -> nothing")?,
            Outcome::Packet(delivered) => write!(f, " -> {delivered}")?,
            Outcome::Refused(errno) => write!(f, " -> refused, errno {errno}")?,
        }
        write!(f, "; queue {}p {}b", self.qlen, self.backlog_bytes)?;
        snapshots(f, &self.snapshots)
    }
}

impl Display for PacketRef {
    /// `#12` for a packet, `#12.1` for its first segment.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.segment {
            0 => write!(f, "#{}", self.id),
            segment => write!(f, "#{}.{segment}", self.id),
        }
    }
}

impl Display for Arrival {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}b", self.id, self.len_bytes)?;
        if self.buffer_bytes != self.len_bytes {
            write!(f, " buffer {}b", self.buffer_bytes)?;
        }
        write!(f, " truesize {}", self.truesize_bytes)?;
        if self.charged_to_socket {
            f.write_str(" charged")?;
        }
        write!(f, " hash {:08x}", self.hash)?;
        if self.hash_carried {
            f.write_str(" carried")?;
        }
        write!(f, " protocol {:04x}", self.protocol)?;
        if let Some(ds) = self.ds_field() {
            write!(f, " ds {ds:02x}")?;
        }
        if let Some(gso) = self.gso {
            write!(f, " gso {}x{}b type {:#x}", gso.segments, gso.segment_bytes, gso.kind)?;
        }
        if !self.segments.is_empty() {
            write!(f, " split into {}", self.segments.len())?;
        }
        if let Some(vlan) = self.vlan {
            write!(f, " vlan {:04x}:{:04x}", vlan.tpid, vlan.tci)?;
        }
        for (name, value) in [("priority", self.priority), ("mark", self.mark)] {
            if value != 0 {
                write!(f, " {name} {value:#x}")?;
            }
        }
        if self.departure_ns != 0 {
            write!(f, " departure {}", Seconds(self.departure_ns))?;
        }
        Ok(())
    }
}

impl Display for Delivered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}b", self.packet, self.buffer_bytes)?;
        if let Some(ds) = self.ds_field {
            write!(f, " ds {ds:02x}")?;
        }
        for change in &self.changed {
            write!(f, " [{}]={:02x}", change.offset, change.value)?;
        }
        Ok(())
    }
}

impl Display for DropCause {
    /// ` (codel, code 5)`; nothing if nothing is known.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.reason, self.code) {
            (None, None) => Ok(()),
            (Some(reason), None) => write!(f, " ({reason})"),
            (None, Some(code)) => write!(f, " (code {code})"),
            (Some(reason), Some(code)) => write!(f, " ({reason}, code {code})"),
        }
    }
}

impl HookKind {
    /// Its name in Linux, such as `cong_avoid`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Release => "release",
            Self::Ssthresh => "ssthresh",
            Self::CongAvoid => "cong_avoid",
            Self::SetState => "set_state",
            Self::CwndEvent => "cwnd_event",
            Self::InAckEvent => "in_ack_event",
            Self::UndoCwnd => "undo_cwnd",
            Self::PktsAcked => "pkts_acked",
            Self::MinTsoSegs => "min_tso_segs",
            Self::SndbufExpand => "sndbuf_expand",
            Self::CongControl => "cong_control",
        }
    }
}

impl Display for Hook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "connection {} {}", self.connection, self.hook.name())?;
        for argument in &self.arguments {
            write!(f, " {argument}")?;
        }
        steps(f, &self.steps, self.time_ns)?;
        if let Some(result) = self.result {
            write!(f, " -> {result}")?;
        }
        let [before, after] = self.jiffies;
        if before == after {
            write!(f, "; jiffies {before}")?
        } else {
            write!(f, "; jiffies {before} to {after}")?
        }
        snapshots(f, &self.snapshots)
    }
}

impl Display for Statistics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("statistics")?;
        for value in &self.values {
            write!(f, " {}={}", value.name.escape_debug(), value.value)?;
        }
        if self.text.is_empty() { Ok(()) } else { write!(f, " text {:?}", self.text) }
    }
}

/// Steps in brackets; clock reads as ns since the event's time.
fn steps(f: &mut Formatter<'_>, steps: &[Step], time_ns: u64) -> fmt::Result {
    for step in steps {
        match step {
            Step::Clock(ns) => write!(f, " [clock {:+}]", ns.wrapping_sub(time_ns) as i64)?,
            Step::Jiffies(jiffies) => write!(f, " [jiffies {jiffies}]")?,
            Step::Draw { bits, value } => write!(f, " [draw{bits} {value:#x}]")?,
            Step::FlowHash { value, keys } => write!(f, " [hash {value:08x} of {}]", hex::text(keys))?,
            Step::Drop { packet, cause } => match packet {
                Some(packet) => write!(f, " [drop {packet}{cause}]")?,
                None => write!(f, " [drop of an unknown packet{cause}]")?,
            },
            Step::Correction { packets, bytes, emptied } => {
                let emptied = if *emptied == Some(true) { " emptied" } else { "" };
                write!(f, " [tree {:+}p {:+}b{emptied}]", -i64::from(*packets), -i64::from(*bytes))?;
            }
            Step::Watchdog { expires_ns, slack_ns } => {
                write!(f, " [watchdog {}", Seconds(*expires_ns))?;
                if *slack_ns != 0 {
                    write!(f, " +{slack_ns}")?;
                }
                f.write_str("]")?;
            }
        }
    }
    Ok(())
}

/// Snapshots as their values; which schema's they are needs the header, see
/// [`Schema::describe`](super::Schema::describe).
fn snapshots(f: &mut Formatter<'_>, snapshots: &[Snapshot]) -> fmt::Result {
    if !snapshots.is_empty() {
        write!(f, "; {} state{}", snapshots.len(), if snapshots.len() == 1 { "" } else { "s" })?;
    }
    Ok(())
}

impl super::Schema {
    /// A snapshot of this schema as text: `fq_codel.qdisc after: flows=1024 quantum=1514 …`.
    pub fn describe(&self, snapshot: &Snapshot) -> String {
        let moment = match snapshot.moment {
            Moment::Before => "before",
            Moment::During => "during",
            Moment::After => "after",
        };
        let mut text = match snapshot.key {
            0 => format!("{} {moment}:", self.name),
            key => format!("{}[{key:#x}] {moment}:", self.name),
        };
        for (field, value) in self.fields.iter().zip(&snapshot.values) {
            text.push_str(&format!(" {}={}", field.name, field.number(*value)));
        }
        text
    }
}
