//! The recorder's state records under the names that the trace format's schemas and the ports use.

use debloat_harness::trace::{Field, Moment, Schema, Snapshot};

use crate::error::Error;
use crate::raw::Raw;

/// How one kind of state record becomes snapshots of one schema.
pub(super) struct Shape {
    /// The record's kind, as the recording's head names it.
    raw: &'static str,
    schema: &'static str,
    object: &'static str,
    /// The record's name of a number, the field's name, its width (negative: signed).
    fields: &'static [(&'static str, &'static str, i8)],
}

const CODEL_CONTROLLER: &[(&str, &str, i8)] = &[
    ("count", "count", 32),
    ("lastcount", "lastcount", 32),
    ("dropping", "dropping", 8),
    ("rec_inv_sqrt", "rec_inv_sqrt", 16),
    ("first_above_time", "first_above_time", 32),
    ("drop_next", "drop_next", 32),
    ("ldelay", "ldelay", 32),
];

const PIE_CONTROLLER: &[(&str, &str, i8)] = &[
    ("qdelay", "delay", 64),
    ("qdelay_old", "old_delay", 64),
    ("burst_time", "burst", 64),
    ("dq_tstamp", "last_dequeue", 64),
    ("prob", "probability", 64),
    ("accu_prob", "accumulated", 64),
    ("dq_count", "cycle_bytes", 64),
    ("avg_dq_rate", "drain_rate", 32),
];

const SHAPES: &[Shape] = &[
    Shape { raw: "codel", schema: "codel.controller", object: "the controller", fields: CODEL_CONTROLLER },
    Shape {
        raw: "codel",
        schema: "codel.qdisc",
        object: "the qdisc",
        fields: &[
            ("maxpacket", "maxpacket", 32),
            ("ecn_mark", "ecn_mark", 32),
            ("ce_mark", "ce_mark", 32),
            ("drop_overlimit", "drop_overlimit", 32),
        ],
    },
    Shape {
        raw: "fq_codel_flow",
        schema: "fq_codel.flow",
        object: "a bucket; the key is its number",
        fields: &[
            ("deficit", "deficit", -32),
            ("count", "count", 32),
            ("lastcount", "lastcount", 32),
            ("dropping", "dropping", 8),
            ("rec_inv_sqrt", "rec_inv_sqrt", 16),
            ("first_above_time", "first_above_time", 32),
            ("drop_next", "drop_next", 32),
            ("ldelay", "ldelay", 32),
        ],
    },
    Shape {
        raw: "fq_codel",
        schema: "fq_codel.qdisc",
        object: "the qdisc",
        fields: &[
            ("maxpacket", "maxpacket", 32),
            ("ecn_mark", "ecn_mark", 32),
            ("ce_mark", "ce_mark", 32),
            ("memory_usage", "memory_usage", 32),
            ("drop_overmemory", "drop_overmemory", 32),
            ("drop_overlimit", "drop_overlimit", 32),
            ("new_flow_count", "new_flow_count", 32),
        ],
    },
    Shape { raw: "pie", schema: "pie.controller", object: "the controller", fields: PIE_CONTROLLER },
    Shape {
        raw: "pie",
        schema: "pie.qdisc",
        object: "the qdisc",
        fields: &[
            ("packets_in", "packets_in", 32),
            ("dropped", "dropped", 32),
            ("overlimit", "overlimit", 32),
            ("ecn_mark", "ecn_mark", 32),
            ("maxq", "maxq", 32),
        ],
    },
    Shape {
        raw: "fq_pie_flow",
        schema: "fq_pie.flow",
        object: "a bucket; the key is its number",
        fields: &[
            ("qdelay", "delay", 64),
            ("qdelay_old", "old_delay", 64),
            ("burst_time", "burst", 64),
            ("prob", "probability", 64),
            ("accu_prob", "accumulated", 64),
            ("deficit", "deficit", -32),
            ("backlog", "backlog", 32),
            ("qlen", "qlen", 32),
        ],
    },
    Shape {
        raw: "fq_pie",
        schema: "fq_pie.qdisc",
        object: "the qdisc",
        fields: &[
            ("new_flow_count", "new_flow_count", 32),
            ("memory_usage", "memory_usage", 32),
            ("overmemory", "overmemory", 32),
            ("packets_in", "packets_in", 32),
            ("dropped", "dropped", 32),
            ("overlimit", "overlimit", 32),
            ("ecn_mark", "ecn_mark", 32),
        ],
    },
    Shape {
        raw: "cake_flow",
        schema: "cake.queue",
        object: "a queue; the key is its tin · 65536 + its number",
        fields: &[
            ("deficit", "deficit", -32),
            ("dropped", "dropped", 32),
            ("count", "count", 32),
            ("rec_inv_sqrt", "inverse_sqrt", 32),
            ("drop_next", "next_signal_ns", -64),
            ("blue_timer", "blue_changed_ns", -64),
            ("p_drop", "p_drop", 32),
            ("dropping", "signalling", 8),
            ("ecn_marked", "marked", 8),
            ("srchost", "source_slot", 16),
            ("dsthost", "destination_slot", 16),
            ("set", "state", 8),
        ],
    },
    Shape {
        raw: "cake_tin",
        schema: "cake.tin",
        object: "a tin; the key is its index",
        fields: &[
            ("tin_rate_bps", "rate", 64),
            ("bulk_flow_count", "bulk", 16),
            ("sparse_flow_count", "sparse", 16),
            ("decaying_flow_count", "decaying", 16),
            ("unresponsive_flow_count", "unresponsive", 16),
            ("time_next_packet", "next_ns", -64),
            ("tin_deficit", "deficit", -32),
            ("tin_backlog", "backlog", 32),
        ],
    },
    Shape {
        raw: "cake",
        schema: "cake.qdisc",
        object: "the qdisc",
        fields: &[
            ("time_next_packet", "next_ns", -64),
            ("failsafe_next_packet", "failsafe_ns", -64),
            ("rate_ns", "time_per_byte", 64),
            ("buffer_used", "memory_used", 32),
            ("buffer_max_used", "memory_peak", 32),
            ("buffer_limit", "memory_limit", 32),
        ],
    },
    Shape {
        raw: "red",
        schema: "red.qdisc",
        object: "the qdisc",
        fields: &[
            ("qcount", "count", -32),
            ("qR", "random", 32),
            ("qavg", "average", 64),
            ("qidlestart", "idle_start_ns", -64),
            ("prob_drop", "prob_drop", 32),
            ("prob_mark", "prob_mark", 32),
            ("forced_drop", "forced_drop", 32),
            ("forced_mark", "forced_mark", 32),
            ("pdrop", "pdrop", 32),
        ],
    },
    Shape {
        raw: "sfq_slot",
        schema: "sfq.slot",
        object: "a slot; the key is its number",
        fields: &[("qlen", "qlen", 16), ("allot", "allot", -32), ("backlog", "backlog", 32), ("hash", "row", 16)],
    },
    Shape { raw: "sfq", schema: "sfq.qdisc", object: "the qdisc", fields: &[("cur_depth", "longest", 8)] },
    Shape {
        raw: "fq",
        schema: "fq.qdisc",
        object: "the qdisc",
        fields: &[
            ("time_next_delayed_flow", "next_delayed_ns", 64),
            ("flows", "flows", 32),
            ("inactive_flows", "inactive_flows", 32),
            ("throttled_flows", "throttled_flows", 32),
            ("internal_qlen", "internal_qlen", 32),
        ],
    },
];

/// The schemas of one recording, and where the values of each lie in its state records.
pub(super) struct Schemas {
    pub(super) schemas: Vec<Schema>,
    plans: Vec<Plan>,
}

struct Plan {
    kind: u32,
    schema: u16,
    /// Positions in the record, in the schema's order.
    positions: Vec<usize>,
    widths: Vec<i8>,
}

impl Schemas {
    /// Everything that this subject's recordings have.
    pub(super) fn of(raw: &Raw, subject: &str) -> Result<Schemas, Error> {
        let mut out = Schemas { schemas: Vec::new(), plans: Vec::new() };
        let mine = |name: &str| name == subject || name.strip_prefix(subject).is_some_and(|rest| rest.starts_with('_'));
        for shape in SHAPES.iter().filter(|s| mine(s.raw) && s.schema.split('.').next() == Some(subject)) {
            let known = (1..64).find_map(|kind| {
                let (name, names) = raw.state_names(kind)?;
                (name == shape.raw).then_some((kind, names))
            });
            let Some((kind, names)) = known else { continue };
            let mut positions = Vec::new();
            for (name, ..) in shape.fields {
                let found = names.iter().position(|n| n == name);
                positions.push(found.ok_or_else(|| Error::Raw {
                    offset: 0,
                    message: format!("state {}: there is no number {name}", shape.raw),
                })?);
            }
            let fields = shape.fields.iter().map(|&(_, name, bits)| Field {
                name: name.into(),
                bits: bits.unsigned_abs(),
                signed: bits < 0,
            });
            let schema = Schema { name: shape.schema.into(), object: shape.object.into(), fields: fields.collect() };
            out.plans.push(Plan {
                kind,
                schema: out.schemas.len() as u16,
                positions,
                widths: shape.fields.iter().map(|f| f.2).collect(),
            });
            out.schemas.push(schema);
        }
        Ok(out)
    }

    /// Adds a schema that no state record fills; returns its number.
    pub(super) fn add(&mut self, schema: Schema) -> u16 {
        self.schemas.push(schema);
        (self.schemas.len() - 1) as u16
    }

    /// The snapshots of one state record.
    pub(super) fn snapshots(&self, kind: u32, numbers: &[u64]) -> impl Iterator<Item = Snapshot> {
        self.plans.iter().filter(move |p| p.kind == kind).map(|plan| Snapshot {
            schema: plan.schema,
            moment: Moment::After,
            key: numbers.first().copied().unwrap_or(0),
            values: plan
                .positions
                .iter()
                .zip(&plan.widths)
                .map(|(&at, &bits)| narrow(numbers.get(at).copied().unwrap_or(0), bits))
                .collect(),
        })
    }
}

/// A value in its field's width: signed ones stay extended to 64 bits.
fn narrow(value: u64, bits: i8) -> u64 {
    let unused = 64 - u32::from(bits.unsigned_abs());
    if bits < 0 { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
}
