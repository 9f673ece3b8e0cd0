use serde::{Deserialize, Serialize};

/// Values of one [`Schema`] at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Index into the header's schemas.
    pub schema: u16,
    /// Relative to the call it belongs to.
    pub moment: Moment,
    /// Which object of the kind, as the schema says (a bucket, a tin and flow, ...); 0 where there is only one.
    pub key: u64,
    /// One value per field, in the schema's order, as its bits: negative values are sign-extended to 64 bits.
    pub values: Vec<u64>,
}

/// When a snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// When the call began.
    Before,
    /// Inside the call: an inner function's arguments and result.
    During,
    /// When the call ended.
    After,
}

/// Names the values of a kind of snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Its name, such as `fq_codel.flow`.
    pub name: String,
    /// Which object it shows and what the key means, in words.
    pub object: String,
    /// The fields.
    pub fields: Vec<Field>,
}

/// One named value of a [`Schema`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The field's name, in the ports' terms.
    pub name: String,
    /// Width in bits: 1 to 64.
    pub bits: u8,
    /// Two's complement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
}

impl Field {
    /// A field of an unsigned width.
    pub fn unsigned(name: &str, bits: u8) -> Self {
        Self { name: name.to_owned(), bits, signed: false }
    }

    /// A field of a two's-complement width.
    pub fn signed(name: &str, bits: u8) -> Self {
        Self { name: name.to_owned(), bits, signed: true }
    }

    /// The value as a number.
    pub fn number(&self, bits: u64) -> i128 {
        if self.signed { i128::from(bits as i64) } else { i128::from(bits) }
    }
}

impl Schema {
    /// The position of a field.
    pub fn index_of(&self, field: &str) -> Option<usize> {
        self.fields.iter().position(|candidate| candidate.name == field)
    }

    /// The value of a field in a snapshot of this schema.
    pub fn value(&self, snapshot: &Snapshot, field: &str) -> Option<i128> {
        let index = self.index_of(field)?;
        Some(self.fields[index].number(*snapshot.values.get(index)?))
    }
}
