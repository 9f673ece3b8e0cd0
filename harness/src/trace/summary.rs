use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io::Read;

use serde::Serialize;

use super::{Event, Hook, Operation, Outcome, Reader, Step, TraceError};

/// What a trace holds, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Events of every kind.
    pub events: u64,
    /// Blocks of the file.
    pub blocks: u32,
    /// Time of the first and of the last event, by the recorder's clock, ns.
    pub span_ns: [u64; 2],
    /// Qdisc calls by operation.
    pub calls: BTreeMap<&'static str, u64>,
    /// Hook calls by hook.
    pub hooks: BTreeMap<&'static str, u64>,
    /// Connections (congestion controls).
    pub connections: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets, or segments of packets, that came out.
    pub delivered: u64,
    /// Of the delivered whole packets, those that came out with CE and arrived without.
    pub marked: u64,
    /// Packets or segments dropped.
    pub dropped: u64,
    /// Corrections of the ancestors' sums.
    pub corrections: u64,
    /// Clock reads.
    pub clock_reads: u64,
    /// Random draws.
    pub draws: u64,
    /// Snapshots of private state.
    pub snapshots: u64,
}

impl Summary {
    /// Reads a trace to its end and counts. That it returns shows that the trace is whole.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the trace, and where.
    pub fn of<R: Read>(reader: &mut Reader<R>) -> Result<Self, TraceError> {
        let mut summary = Self::default();
        let mut arrived = Vec::new();
        for event in reader.by_ref() {
            summary.count(&event?, &mut arrived);
        }
        summary.blocks = Reader::position(reader).block;
        Ok(summary)
    }

    /// `arrived` holds which packets arrived with CE.
    fn count(&mut self, event: &Event, arrived: &mut Vec<bool>) {
        let time_ns = event.time_ns();
        if self.events == 0 {
            self.span_ns[0] = time_ns;
        }
        self.span_ns[1] = time_ns;
        self.events += 1;
        match event {
            Event::Call(call) => {
                *self.calls.entry(call.operation.name()).or_default() += 1;
                self.steps(&call.steps);
                self.snapshots += call.snapshots.len() as u64;
                let is_ce = |ds: Option<u8>| ds.is_some_and(|ds| ds & 3 == 3);
                if let Some(arrival) = call.arrival() {
                    self.packets += 1;
                    arrived.push(is_ce(arrival.ds_field()));
                }
                if let Outcome::Packet(delivered) = &call.outcome {
                    // A peek shows a packet that a later call takes.
                    if call.operation != Operation::Peek {
                        self.delivered += 1;
                        let before = usize::try_from(delivered.packet.id).ok().and_then(|id| arrived.get(id));
                        self.marked += u64::from(is_ce(delivered.ds_field) && before == Some(&false));
                    }
                }
            }
            Event::Hook(hook) => self.hook(hook),
            Event::State(state) => self.snapshots += state.snapshots.len() as u64,
            Event::Statistics(_) => {}
        }
    }

    fn hook(&mut self, hook: &Hook) {
        *self.hooks.entry(hook.hook.name()).or_default() += 1;
        self.connections = self.connections.max(u64::from(hook.connection) + 1);
        self.steps(&hook.steps);
        self.snapshots += hook.snapshots.len() as u64;
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Clock(_) => self.clock_reads += 1,
                Step::Draw { .. } => self.draws += 1,
                Step::Drop { .. } => self.dropped += 1,
                Step::Correction { .. } => self.corrections += 1,
                Step::Jiffies(_) | Step::FlowHash { .. } | Step::Watchdog { .. } => {}
            }
        }
    }
}

impl Display for Summary {
    /// A few lines, each `name value`; what is 0 is left out.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let span_ns = self.span_ns[1].saturating_sub(self.span_ns[0]);
        writeln!(f, "events       {} in {} blocks", self.events, self.blocks)?;
        writeln!(f, "span         {}.{:03} s", span_ns / 1_000_000_000, span_ns / 1_000_000 % 1000)?;
        for (name, count) in self.calls.iter().chain(&self.hooks) {
            writeln!(f, "{name:<12} {count}")?;
        }
        let counts = [
            ("connections", self.connections),
            ("packets", self.packets),
            ("delivered", self.delivered),
            ("marked", self.marked),
            ("dropped", self.dropped),
            ("corrections", self.corrections),
            ("clock reads", self.clock_reads),
            ("draws", self.draws),
            ("states", self.snapshots),
        ];
        counts.iter().filter(|(_, count)| *count != 0).try_for_each(|(name, count)| writeln!(f, "{name:<12} {count}"))
    }
}

impl Operation {
    /// Its name, such as `dequeue`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Enqueue(_) => "enqueue",
            Self::Dequeue => "dequeue",
            Self::Peek => "peek",
            Self::DequeuePeeked => "dequeue-peeked",
            Self::Timer => "timer",
            Self::Change(_) => "change",
            Self::Reset => "reset",
        }
    }
}
