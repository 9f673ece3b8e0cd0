//! Where the named values lie in the raw states of the founding recorder.

use super::ImportErrorKind;
use crate::trace::{Field, Moment, Schema, Snapshot};

/// A kind of raw state.
pub(super) struct Layout {
    /// The low 16 bits of the recorder's number of the kind; the high ones are the key.
    pub(super) what: u32,
    pub(super) schema: &'static str,
    pub(super) object: &'static str,
    pub(super) moment: Moment,
    pub(super) fields: &'static [RawField],
}

/// One value of a raw state.
pub(super) struct RawField {
    name: &'static str,
    offset: usize,
    /// Negative for a two's-complement field.
    bits: i8,
}

/// A field: name, byte offset, width in bits (negative: signed).
pub(super) const fn at(name: &'static str, offset: usize, bits: i8) -> RawField {
    RawField { name, offset, bits }
}

impl RawField {
    pub(super) fn field(&self) -> Field {
        Field { name: self.name.into(), bits: self.bits.unsigned_abs(), signed: self.bits < 0 }
    }

    fn value(&self, bytes: &[u8]) -> Option<u64> {
        let width = u32::from(self.bits.unsigned_abs());
        let raw = bytes.get(self.offset..self.offset + width as usize / 8)?;
        let value = raw.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let unused = 64 - width;
        Some(if self.bits < 0 { ((value << unused) as i64 >> unused) as u64 } else { value })
    }
}

/// The schemas of a list of layouts; layouts of one schema name share it.
pub(super) fn schemas(layouts: &[Layout]) -> Vec<Schema> {
    let mut schemas: Vec<Schema> = Vec::new();
    for layout in layouts {
        if schemas.iter().all(|schema| schema.name != layout.schema) {
            schemas.push(Schema {
                name: layout.schema.into(),
                object: layout.object.into(),
                fields: layout.fields.iter().map(RawField::field).collect(),
            });
        }
    }
    schemas
}

/// The named values of a raw state: a snapshot for each layout of its kind.
pub(super) fn snapshots(
    layouts: &[Layout],
    schemas: &[Schema],
    what: u32,
    bytes: &[u8],
) -> Result<Vec<Snapshot>, ImportErrorKind> {
    let too_short = ImportErrorKind::Field {
        field: "the length of a state",
        value: bytes.len() as u64,
        allowed: "enough for its fields",
    };
    let mut snapshots = Vec::new();
    for layout in layouts.iter().filter(|layout| layout.what == what & 0xffff) {
        let schema = schemas.iter().position(|schema| schema.name == layout.schema);
        let values = layout.fields.iter().map(|field| field.value(bytes)).collect::<Option<_>>();
        let (Some(schema), Some(values)) = (schema, values) else { return Err(too_short) };
        snapshots.push(Snapshot { schema: schema as u16, moment: layout.moment, key: u64::from(what >> 16), values });
    }
    if snapshots.is_empty() { Err(ImportErrorKind::UnknownSnapshot(what)) } else { Ok(snapshots) }
}

/// fq_codel: the layout is the same in the three kernels.
pub(super) const FQ_CODEL: &[Layout] = &[
    Layout {
        what: 0xf10,
        schema: "fq_codel.head_flow",
        object: "the first bucket on the list of new flows, else on that of old flows",
        moment: Moment::After,
        fields: &[
            at("deficit", 32, -32),
            at("count", 36, 32),
            at("lastcount", 40, 32),
            at("dropping", 44, 8),
            at("rec_inv_sqrt", 46, 16),
            at("first_above_time", 48, 32),
            at("drop_next", 52, 32),
            at("ldelay", 56, 32),
        ],
    },
    Layout {
        what: 0xf11,
        schema: "fq_codel.qdisc",
        object: "the qdisc",
        moment: Moment::After,
        fields: &[
            at("flows", 32, 32),
            at("quantum", 36, 32),
            at("drop_batch", 40, 32),
            at("memory_limit", 44, 32),
            at("maxpacket", 68, 32),
            at("drop_count", 72, 32),
            at("drop_len", 76, 32),
            at("ecn_mark", 80, 32),
            at("ce_mark", 84, 32),
            at("memory_usage", 88, 32),
            at("drop_overmemory", 92, 32),
            at("drop_overlimit", 96, 32),
            at("new_flow_count", 100, 32),
        ],
    },
];

const PIE_CONTROLLER: &[RawField] = &[
    at("delay", 0, 64),
    at("old_delay", 8, 64),
    at("burst", 16, 64),
    at("last_dequeue", 24, 64),
    at("probability", 32, 64),
    at("accumulated", 40, 64),
    at("cycle_bytes", 48, 64),
    at("drain_rate", 56, 32),
];

const fn pie_controller(what: u32, moment: Moment) -> Layout {
    Layout { what, schema: "pie.controller", object: "the controller", moment, fields: PIE_CONTROLLER }
}

/// What an early-drop decision saw and said; made from a record of its own, not from a raw state.
const PIE_DECISION: Layout = Layout {
    what: EARLY,
    schema: "pie.decision",
    object: "the early-drop decision: its answer, the backlog and the packet's length given to it",
    moment: Moment::During,
    fields: &[at("hit", 0, 8), at("backlog", 1, 32), at("packet_bytes", 5, 32)],
};

/// The kind under which an early-drop decision is looked up; the recorder has no state of this number.
pub(super) const EARLY: u32 = 0xea1;
/// The controller's state after a run of pie's timer, which ends it.
pub(super) const PIE_AFTER_TIMER: u32 = 0x91b;

/// pie: the layout is the same in the three kernels.
pub(super) const PIE: &[Layout] = &[
    pie_controller(0x91a, Moment::Before),
    pie_controller(PIE_AFTER_TIMER, Moment::After),
    pie_controller(0x91e, Moment::After),
    Layout {
        what: 0x91e,
        schema: "pie.qdisc",
        object: "the qdisc",
        moment: Moment::After,
        fields: &[
            at("packets_in", 96, 32),
            at("dropped", 100, 32),
            at("overlimit", 104, 32),
            at("ecn_mark", 108, 32),
            at("maxq", 112, 32),
        ],
    },
    PIE_DECISION,
];

/// fq_pie: its private state was not recorded.
pub(super) const FQ_PIE: &[Layout] = &[PIE_DECISION];

/// An answer of cake's hash; made from a record of its own.
pub(super) const CAKE_HASH: u32 = 0xca5;
/// cake's queue that was served; which one it is says the state behind it.
pub(super) const CAKE_QUEUE: u32 = 0xca0;
/// cake's qdisc, from the shaper's clock on; the key is the tin that was served.
pub(super) const CAKE_QDISC: u32 = 0xca1;
/// Where the served queue's number lies in a snapshot of the qdisc.
pub(super) const CAKE_CURRENT_QUEUE: usize = 7;
/// Where the memory in use lies in a snapshot of the qdisc.
pub(super) const CAKE_MEMORY_USED: usize = 3;

const CAKE_LOOKUP: Layout = Layout {
    what: CAKE_HASH,
    schema: "cake.lookup",
    object: "the queue lookup: the queue it gave, and the mode and the filters' overrides (flow, host) given to it",
    moment: Moment::During,
    fields: &[at("queue", 0, 32), at("mode", 4, 32), at("flow_override", 8, 16), at("host_override", 10, 16)],
};

/// The layout is the same in the three kernels.
const CAKE_SERVED: Layout = Layout {
    what: CAKE_QUEUE,
    schema: "cake.queue",
    object: "the queue that was served; the key is its tin · 65536 + its number",
    moment: Moment::After,
    fields: &[
        at("deficit", 32, -32),
        at("dropped", 36, 32),
        at("count", 40, 32),
        at("inverse_sqrt", 44, 32),
        at("next_signal_ns", 48, -64),
        at("blue_changed_ns", 56, -64),
        at("p_drop", 64, 32),
        at("signalling", 68, 8),
        at("marked", 69, 8),
        at("source_slot", 72, 16),
        at("destination_slot", 74, 16),
        // 0 idle, 1 sparse, 2 sparse-wait, 3 bulk, 4 decaying.
        at("state", 76, 8),
    ],
};

const fn cake_qdisc(fields: &'static [RawField]) -> Layout {
    Layout {
        what: CAKE_QDISC,
        schema: "cake.qdisc",
        object: "the qdisc, after a packet was delivered",
        moment: Moment::After,
        fields,
    }
}

/// cake of 6.1 and 6.12.
pub(super) const CAKE_6: &[Layout] = &[
    CAKE_LOOKUP,
    CAKE_SERVED,
    cake_qdisc(&[
        at("next_ns", 0, -64),
        at("failsafe_ns", 8, -64),
        at("time_per_byte", 16, 64),
        at("memory_used", 56, 32),
        at("memory_peak", 60, 32),
        at("memory_limit", 64, 32),
        at("current_tin", 72, 16),
        at("current_queue", 74, 16),
    ]),
];

/// cake of 7.2.
pub(super) const CAKE_7: &[Layout] = &[
    CAKE_LOOKUP,
    CAKE_SERVED,
    cake_qdisc(&[
        at("next_ns", 0, -64),
        at("failsafe_ns", 8, -64),
        at("time_per_byte", 16, 64),
        at("memory_used", 32, 32),
        at("memory_peak", 36, 32),
        at("memory_limit", 40, 32),
        at("current_tin", 44, 16),
        at("current_queue", 46, 16),
        at("heap_lifetime", 26, 16),
    ]),
];
