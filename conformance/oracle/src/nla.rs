//! Netlink attributes: building options for the kernel's own parser, reading its dumps.
//!
//! ```
//! use debloat_oracle::nla::{Attrs, Builder};
//! let bytes = Builder::new().u32(1, 5000).u64(2, 7).nested(3, |b| b.u8(1, 9)).finish();
//! let all: Vec<_> = Attrs::new(&bytes).map(|a| a.kind).collect();
//! assert_eq!(all, [1, 2, 3]);
//! assert_eq!(Attrs::new(&bytes).find(1).and_then(|a| a.u32()), Some(5000));
//! ```

/// Marks an attribute that contains attributes.
const NESTED: u16 = 0x8000;
/// The type without its flag bits.
const TYPE_MASK: u16 = 0x3fff;

/// Collects attributes. Values are in host order, as tc sends them.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    /// No attributes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Any payload.
    #[must_use]
    pub fn raw(mut self, kind: u16, payload: &[u8]) -> Self {
        self.bytes.extend_from_slice(&(payload.len() as u16 + 4).to_le_bytes());
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// One byte.
    #[must_use]
    pub fn u8(self, kind: u16, v: u8) -> Self {
        self.raw(kind, &[v])
    }

    /// Two bytes.
    #[must_use]
    pub fn u16(self, kind: u16, v: u16) -> Self {
        self.raw(kind, &v.to_le_bytes())
    }

    /// Four bytes.
    #[must_use]
    pub fn u32(self, kind: u16, v: u32) -> Self {
        self.raw(kind, &v.to_le_bytes())
    }

    /// Four bytes, signed.
    #[must_use]
    pub fn i32(self, kind: u16, v: i32) -> Self {
        self.raw(kind, &v.to_le_bytes())
    }

    /// Eight bytes.
    #[must_use]
    pub fn u64(self, kind: u16, v: u64) -> Self {
        self.raw(kind, &v.to_le_bytes())
    }

    /// Eight bytes, signed.
    #[must_use]
    pub fn i64(self, kind: u16, v: i64) -> Self {
        self.raw(kind, &v.to_le_bytes())
    }

    /// No payload.
    #[must_use]
    pub fn flag(self, kind: u16) -> Self {
        self.raw(kind, &[])
    }

    /// Attributes inside an attribute.
    #[must_use]
    pub fn nested(self, kind: u16, inner: impl FnOnce(Builder) -> Builder) -> Self {
        let payload = inner(Builder::new()).bytes;
        self.raw(kind | NESTED, &payload)
    }

    /// Bytes that go in front of the attributes, unwrapped (old qdiscs start with a structure).
    #[must_use]
    pub fn prefix(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// The bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// One attribute of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// Its type without flags.
    pub kind: u16,
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> Attr<'a> {
    /// A 32-bit payload.
    #[must_use]
    pub fn u32(&self) -> Option<u32> {
        Some(u32::from_le_bytes(self.payload.try_into().ok()?))
    }

    /// A 64-bit payload.
    #[must_use]
    pub fn u64(&self) -> Option<u64> {
        Some(u64::from_le_bytes(self.payload.try_into().ok()?))
    }

    /// An integer payload of 1, 2, 4 or 8 bytes.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let mut wide = [0; 8];
        matches!(self.payload.len(), 1 | 2 | 4 | 8).then(|| {
            wide[..self.payload.len()].copy_from_slice(self.payload);
            u64::from_le_bytes(wide)
        })
    }

    /// The attributes inside.
    #[must_use]
    pub fn attrs(&self) -> Attrs<'a> {
        Attrs::new(self.payload)
    }
}

/// Walks over attributes; stops at the first malformed one.
#[derive(Clone, Copy, Debug)]
pub struct Attrs<'a> {
    rest: &'a [u8],
}

impl<'a> Attrs<'a> {
    /// Attributes in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The first attribute of a type.
    #[must_use]
    pub fn find(mut self, kind: u16) -> Option<Attr<'a>> {
        Iterator::find(&mut self, |a| a.kind == kind)
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Attr<'a>;

    fn next(&mut self) -> Option<Attr<'a>> {
        let len = u16::from_le_bytes(self.rest.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_le_bytes(self.rest.get(2..4)?.try_into().ok()?) & TYPE_MASK;
        let payload = self.rest.get(4..len)?;
        self.rest = self.rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Attr { kind, payload })
    }
}
