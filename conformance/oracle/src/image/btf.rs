//! The kernel's own type information (BTF): sizes, member offsets, enumerators, hook arities.
//!
//! Nothing about a structure is hard-coded anywhere in this crate; every offset comes from here, from the
//! image's `.BTF` section or a module's split section on top of it.

use super::field::{Field, Path, Step};
use super::payload::{u16_at, u32_at};
use super::symbols::{HashIndex, name_hash};
use crate::error::TypeError;
use std::rc::Rc;

type Result<T> = std::result::Result<T, TypeError>;

// Kinds used here (the format's own numbers).
const PTR: u8 = 2;
const ARRAY: u8 = 3;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const ENUM: u8 = 6;
const TYPEDEF: u8 = 8;
const FUNC: u8 = 12;
const FUNC_PROTO: u8 = 13;
const ENUM64: u8 = 19;

#[derive(Clone, Copy, Debug, Default)]
struct Type {
    name: u32,
    kind: u8,
    /// Size in bytes, or the type referred to.
    arg: u32,
    /// Array length.
    count: u32,
    /// First member and number of members.
    first: u32,
    members: u16,
    signed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    name: u32,
    ty: u32,
    /// Bit offset; for enumerators the value.
    at: u32,
    bits: u8,
}

/// One member of a structure, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Dotted name; members of anonymous inner structures appear under their own name.
    pub name: String,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Size in bytes of the member's type.
    pub size: usize,
    /// Width in bits when it is a bit field, else 0.
    pub bits: u8,
}

/// Parsed type information, possibly on top of the image's.
#[derive(Debug)]
pub struct Btf {
    base: Option<Rc<Btf>>,
    first_id: u32,
    first_str: u32,
    types: Vec<Type>,
    members: Vec<Member>,
    strings: Vec<u8>,
    /// Type ids by kind and name.
    names: HashIndex,
    /// Members that are enumerators, by name.
    enumerators: HashIndex,
}

fn malformed(what: impl Into<String>) -> TypeError {
    TypeError::Malformed(what.into())
}

impl Btf {
    /// Parses a `.BTF` section. A module's section needs the image's as base.
    pub(crate) fn parse(base: Option<Rc<Btf>>, section: &[u8]) -> Result<Self> {
        let cut = || malformed("truncated");
        if u16_at(section, 0) != Some(0xeb9f) {
            return Err(malformed("bad magic"));
        }
        let word = |at| u32_at(section, at).map(|v| v as usize).ok_or_else(cut);
        let header = word(4)?;
        let (type_off, type_len, str_off, str_len) = (word(8)?, word(12)?, word(16)?, word(20)?);
        let part = |off: usize, len: usize| section.get(header + off..header + off + len).ok_or_else(cut);
        let (first_id, first_str) = match &base {
            Some(b) => (b.first_id + b.types.len() as u32, b.first_str + b.strings.len() as u32),
            None => (0, 0),
        };
        let mut btf = Btf {
            base,
            first_id,
            first_str,
            types: Vec::new(),
            members: Vec::new(),
            strings: part(str_off, str_len)?.to_vec(),
            names: HashIndex::default(),
            enumerators: HashIndex::default(),
        };
        if first_id == 0 {
            btf.types.push(Type::default()); // id 0 is void
        }
        btf.read_types(part(type_off, type_len)?)?;
        btf.index();
        Ok(btf)
    }

    fn read_types(&mut self, t: &[u8]) -> Result<()> {
        let cut = || malformed("truncated types");
        let mut at = 0;
        while at < t.len() {
            let word = |o: usize| u32_at(t, at + o).ok_or_else(cut);
            let (name, info, arg) = (word(0)?, word(4)?, word(8)?);
            let (kind, n, flag) = (((info >> 24) & 0x1f) as u8, (info & 0xffff) as usize, info >> 31 != 0);
            let mut ty = Type { name, kind, arg, first: self.members.len() as u32, ..Type::default() };
            let extra = match kind {
                1 => {
                    ty.signed = word(12)? >> 24 & 1 != 0;
                    4
                }
                ARRAY => {
                    ty.arg = word(12)?;
                    ty.count = word(20)?;
                    12
                }
                STRUCT | UNION => {
                    for i in 0..n {
                        let w = word(12 + 12 * i + 8)?;
                        let (pos, bits) = if flag { (w & 0xff_ffff, (w >> 24) as u8) } else { (w, 0) };
                        let (name, ty) = (word(12 + 12 * i)?, word(12 + 12 * i + 4)?);
                        self.members.push(Member { name, ty, at: pos, bits });
                    }
                    12 * n
                }
                ENUM | ENUM64 => {
                    let step = if kind == ENUM { 8 } else { 12 };
                    for i in 0..n {
                        let (name, value) = (word(12 + step * i)?, word(12 + step * i + 4)?);
                        self.members.push(Member { name, ty: 0, at: value, bits: 0 });
                    }
                    step * n
                }
                FUNC_PROTO => {
                    for i in 0..n {
                        let (name, ty) = (word(12 + 8 * i)?, word(12 + 8 * i + 4)?);
                        self.members.push(Member { name, ty, at: 0, bits: 0 });
                    }
                    8 * n
                }
                14 | 17 => 4,
                15 => 12 * n,
                2 | 7..=12 | 16 | 18 => 0,
                k => return Err(malformed(format!("unknown kind {k}"))),
            };
            if matches!(kind, STRUCT | UNION | ENUM | ENUM64 | FUNC_PROTO) {
                ty.members = n as u16;
            }
            self.types.push(ty);
            at += 12 + extra;
        }
        Ok(())
    }

    fn index(&mut self) {
        let mut names = HashIndex::default();
        let mut enumerators = HashIndex::default();
        names.reserve(self.types.len() / 2);
        enumerators.reserve(self.members.len() / 8);
        for (i, t) in self.types.iter().enumerate() {
            if matches!(t.kind, STRUCT | UNION | ENUM | TYPEDEF | FUNC) {
                let name = self.raw_string(t.name);
                if !name.is_empty() {
                    names.entry(name_hash(t.kind, name)).or_insert(self.first_id + i as u32);
                }
            }
            if matches!(t.kind, ENUM | ENUM64) {
                for m in t.first..t.first + u32::from(t.members) {
                    let name = self.raw_string(self.members[m as usize].name);
                    enumerators.entry(name_hash(0, name)).or_insert(m);
                }
            }
        }
        self.names = names;
        self.enumerators = enumerators;
    }

    fn raw_string(&self, at: u32) -> &[u8] {
        match &self.base {
            Some(base) if at < self.first_str => base.raw_string(at),
            _ => {
                let s = self.strings.get((at - self.first_str) as usize..).unwrap_or(&[]);
                s.split(|c| *c == 0).next().unwrap_or(&[])
            }
        }
    }

    fn string(&self, at: u32) -> String {
        String::from_utf8_lossy(self.raw_string(at)).into_owned()
    }

    fn string_is(&self, at: u32, name: &str) -> bool {
        self.raw_string(at) == name.as_bytes()
    }

    fn owner(&self, id: u32) -> &Btf {
        match &self.base {
            Some(b) if id < self.first_id => b.owner(id),
            _ => self,
        }
    }

    fn ty(&self, id: u32) -> Type {
        let o = self.owner(id);
        o.types.get((id - o.first_id) as usize).copied().unwrap_or_default()
    }

    fn members_of(&self, id: u32) -> &[Member] {
        let o = self.owner(id);
        match o.types.get((id - o.first_id) as usize) {
            Some(t) => &o.members[t.first as usize..][..t.members as usize],
            None => &[],
        }
    }

    /// Without typedefs, const, volatile, restrict and type tags.
    fn strip(&self, mut id: u32) -> u32 {
        loop {
            match self.ty(id).kind {
                8..=11 | 18 => id = self.ty(id).arg,
                _ => return id,
            }
        }
    }

    fn lookup(&self, kind: u8, name: &str) -> Option<u32> {
        let found = self.names.get(&name_hash(kind, name.as_bytes())).copied();
        // A hash shared by two names would hide the second; it would show as an absent type.
        found
            .filter(|id| self.string_is(self.ty(*id).name, name))
            .or_else(|| self.base.as_ref().and_then(|b| b.lookup(kind, name)))
    }

    /// A structure, union or typedef; a module's own definitions win.
    fn find(&self, name: &str) -> Result<u32> {
        [STRUCT, UNION, TYPEDEF]
            .into_iter()
            .find_map(|k| self.lookup(k, name))
            .ok_or_else(|| TypeError::NoType(name.to_owned()))
    }

    fn size_of_id(&self, id: u32) -> usize {
        let t = self.ty(self.strip(id));
        match t.kind {
            PTR => 8,
            ARRAY => t.count as usize * self.size_of_id(t.arg),
            FUNC_PROTO | 0 => 0,
            _ => t.arg as usize,
        }
    }

    /// Size of a structure in bytes.
    pub fn size_of(&self, name: &str) -> Result<usize> {
        Ok(self.size_of_id(self.find(name)?))
    }

    /// True when the type is known.
    pub fn has_type(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    fn member(&self, id: u32, name: &str) -> Option<(u32, u8, u32)> {
        let id = self.strip(id);
        if !matches!(self.ty(id).kind, STRUCT | UNION) {
            return None;
        }
        let members = self.members_of(id);
        if let Some(m) = members.iter().find(|m| self.string_is(m.name, name)) {
            return Some((m.at, m.bits, m.ty));
        }
        members
            .iter()
            .filter(|m| self.string_is(m.name, ""))
            .find_map(|m| self.member(m.ty, name).map(|(at, bits, ty)| (m.at + at, bits, ty)))
    }

    /// Resolves a path in a structure once, e.g. `("fq_codel_sched_data", "flows[3].cvars.count")`.
    /// `.` and `[n]` follow pointers by themselves.
    ///
    /// # Errors
    /// [`TypeError`] names the step that failed.
    pub fn field(&self, structure: &str, path: &str) -> Result<Field> {
        let bad = |reason: &str| TypeError::Path { path: format!("{structure}.{path}"), reason: reason.into() };
        let mut id = self.find(structure)?;
        let mut field = Field::at_start();
        for step in Path::steps(path) {
            match step {
                Step::Member(name) => {
                    let mut s = self.strip(id);
                    if self.ty(s).kind == PTR {
                        field.follow();
                        s = self.strip(self.ty(s).arg);
                    }
                    let (at, bits, ty) = self.member(s, name).ok_or_else(|| TypeError::NoField {
                        path: format!("{structure}.{path}"),
                        field: name.into(),
                    })?;
                    field.shift(at, bits);
                    id = ty;
                }
                Step::Index(n) => {
                    let s = self.strip(id);
                    let t = self.ty(s);
                    match t.kind {
                        PTR => field.follow(),
                        ARRAY if t.count == 0 || n < t.count => {}
                        ARRAY => return Err(bad(&format!("index {n} of {}", t.count))),
                        _ => {
                            return Err(bad("index on something that is neither array nor pointer"));
                        }
                    }
                    id = t.arg;
                    let at = (n as usize).checked_mul(self.size_of_id(id)).and_then(|v| u32::try_from(v).ok());
                    field.shift(at.and_then(|v| v.checked_mul(8)).ok_or_else(|| bad("offset too large"))?, 0);
                }
                Step::Bad(what) => return Err(bad(what)),
            }
        }
        let s = self.strip(id);
        field.finish(self.size_of_id(s), self.ty(s).signed);
        Ok(field)
    }

    /// Like [`Btf::field`], but the offset in bytes of a plain member (no pointers, no bit field).
    pub fn offset(&self, structure: &str, path: &str) -> Result<u64> {
        self.field(structure, path)?
            .plain_offset()
            .ok_or_else(|| TypeError::Path { path: format!("{structure}.{path}"), reason: "not a plain member".into() })
    }

    /// Name of the structure (or typedef) that a member's type, array element or pointer target is.
    pub fn type_name(&self, structure: &str, path: &str) -> Result<Option<String>> {
        let mut id = self.find(structure)?;
        for step in Path::steps(path) {
            if let Step::Member(name) = step {
                id = self.element(id);
                id = self
                    .member(id, name)
                    .ok_or_else(|| TypeError::NoField { path: path.into(), field: name.into() })?
                    .2;
            }
        }
        let name = self.string(self.ty(self.element(id)).name);
        Ok((!name.is_empty()).then_some(name))
    }

    fn element(&self, id: u32) -> u32 {
        let mut s = self.strip(id);
        while matches!(self.ty(s).kind, PTR | ARRAY) {
            s = self.strip(self.ty(s).arg);
        }
        s
    }

    /// Number of elements of an array member, if it is one.
    pub fn array_len(&self, structure: &str, path: &str) -> Result<Option<usize>> {
        let mut id = self.find(structure)?;
        for step in Path::steps(path) {
            if let Step::Member(name) = step {
                let found = self.member(self.element(id), name);
                id = found.ok_or_else(|| TypeError::NoField { path: path.into(), field: name.into() })?.2;
            }
        }
        let t = self.ty(self.strip(id));
        Ok((t.kind == ARRAY).then_some(t.count as usize))
    }

    /// Value of an enumerator, e.g. `TCA_FQ_CODEL_TARGET`.
    pub fn enumerator(&self, name: &str) -> Option<u32> {
        let own = self.enumerators.get(&name_hash(0, name.as_bytes())).map(|m| self.members[*m as usize]);
        own.filter(|m| self.string_is(m.name, name))
            .map(|m| m.at)
            .or_else(|| self.base.as_ref().and_then(|b| b.enumerator(name)))
    }

    /// Name of the enumerator with this value among those with a prefix.
    pub fn enumerator_name(&self, prefix: &str, value: u32) -> Option<String> {
        let members = self.enumerators.values().map(|m| self.members[*m as usize]).filter(|m| m.at == value);
        let named = members.filter(|m| self.raw_string(m.name).starts_with(prefix.as_bytes()));
        let own = named.map(|m| self.string(m.name)).min();
        own.or_else(|| self.base.as_ref().and_then(|b| b.enumerator_name(prefix, value)))
    }

    /// Number of parameters of a function-pointer member, e.g. `("tcp_congestion_ops", "cong_control")`.
    pub fn hook_arity(&self, structure: &str, member: &str) -> Option<usize> {
        let (_, _, ty) = self.member(self.find(structure).ok()?, member)?;
        let pointer = self.ty(self.strip(ty));
        let proto = self.strip(pointer.arg);
        (pointer.kind == PTR && self.ty(proto).kind == FUNC_PROTO).then(|| self.members_of(proto).len())
    }

    /// Parameter names of a function of the kernel.
    pub fn parameters(&self, function: &str) -> Option<Vec<String>> {
        let f = self.lookup(FUNC, function)?;
        let proto = self.ty(f).arg;
        Some(self.members_of(proto).iter().map(|m| self.string(m.name)).collect())
    }

    /// All members of a structure, anonymous inner structures flattened, nested ones as one entry.
    pub fn members(&self, structure: &str) -> Result<Vec<MemberInfo>> {
        let mut out = Vec::new();
        self.list(self.find(structure)?, 0, &mut out);
        Ok(out)
    }

    fn list(&self, id: u32, base: u32, out: &mut Vec<MemberInfo>) {
        for m in self.members_of(self.strip(id)) {
            let name = self.string(m.name);
            if name.is_empty() {
                self.list(m.ty, base + m.at, out);
            } else {
                let (offset, size) = (((base + m.at) / 8) as usize, self.size_of_id(m.ty));
                out.push(MemberInfo { name, offset, size, bits: m.bits });
            }
        }
    }
}
