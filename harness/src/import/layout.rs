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
    pub(super) name: &'static str,
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
        let len = usize::from(self.bits.unsigned_abs() / 8);
        let raw = bytes.get(self.offset..self.offset + len)?;
        let value = raw.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let unused = 64 - 8 * len as u32;
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

/// The named values of a raw state.
pub(super) fn snapshot(
    layouts: &[Layout],
    schemas: &[Schema],
    what: u32,
    bytes: &[u8],
) -> Result<Snapshot, ImportErrorKind> {
    let unknown = || ImportErrorKind::UnknownSnapshot(what);
    let layout = layouts.iter().find(|layout| layout.what == what & 0xffff).ok_or_else(unknown)?;
    let schema = schemas.iter().position(|schema| schema.name == layout.schema).ok_or_else(unknown)?;
    let values = layout.fields.iter().map(|field| field.value(bytes)).collect::<Option<_>>();
    let values = values.ok_or(ImportErrorKind::Field {
        field: "the length of a state",
        value: bytes.len() as u64,
        allowed: "enough for its fields",
    })?;
    Ok(Snapshot { schema: schema as u16, moment: layout.moment, key: u64::from(what >> 16), values })
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
