//! Names for addresses, addresses for names, and the places where WARN and BUG may strike.

use super::btf::Btf;
use super::payload::u32_at;
use crate::error::{ImageError, TypeError};
use crate::memory::Memory;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// An address range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Hash of a name, FNV-1a; the tables below verify what they find.
pub(super) fn name_hash(seed: u8, name: &[u8]) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    name.iter().fold(step(0xcbf2_9ce4_8422_2325, &seed), step)
}

/// A map whose keys are such hashes.
pub(super) type HashIndex = HashMap<u64, u32, BuildHasherDefault<Hashed>>;

/// Keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = name_hash(0, bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Symbols by name and by address, all text in one buffer: an image has a hundred thousand.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    text: Vec<u8>,
    /// Address, start and length of the name.
    entries: Vec<(u64, u32, u16)>,
    /// First of equal names.
    index: HashIndex,
    by_address: OnceCell<Vec<u32>>,
}

impl SymbolTable {
    pub(super) fn with_capacity(symbols: usize) -> Self {
        Self {
            text: Vec::with_capacity(24 * symbols),
            entries: Vec::with_capacity(symbols),
            index: HashIndex::with_capacity_and_hasher(symbols, BuildHasherDefault::default()),
            by_address: OnceCell::new(),
        }
    }

    pub(super) fn push(&mut self, address: u64, name: &[u8]) {
        let (start, len) = (self.text.len() as u32, name.len() as u16);
        self.text.extend_from_slice(name);
        self.index.entry(name_hash(0, name)).or_insert(self.entries.len() as u32);
        self.entries.push((address, start, len));
    }

    /// Overwrites the address of the i-th symbol.
    pub(super) fn set_address(&mut self, i: usize, address: u64) {
        self.entries[i].0 = address;
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Name of the i-th symbol.
    pub(super) fn name(&self, i: usize) -> &[u8] {
        let (_, start, len) = self.entries[i];
        &self.text[start as usize..][..usize::from(len)]
    }

    /// Address of the first symbol of this name.
    pub(super) fn find(&self, name: &str) -> Option<u64> {
        let i = *self.index.get(&name_hash(0, name.as_bytes()))? as usize;
        let found = if self.name(i) == name.as_bytes() {
            i
        } else {
            // Two names with one hash: look at all.
            (0..self.len()).find(|i| self.name(*i) == name.as_bytes())?
        };
        Some(self.entries[found].0)
    }

    /// Name and offset of the last symbol at or before an address.
    fn at(&self, address: u64) -> Option<(&[u8], u64)> {
        // Sorted on demand: only faults need it.
        let order = self.by_address.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.len() as u32).collect();
            order.sort_by_key(|i| self.entries[*i as usize].0);
            order
        });
        let i = order.partition_point(|i| self.entries[*i as usize].0 <= address);
        let i = order[i.checked_sub(1)?] as usize;
        Some((self.name(i), address - self.entries[i].0))
    }
}

/// Symbols of one image or module, and where it lies.
#[derive(Debug)]
pub(crate) struct Named {
    owner: String,
    range: Range<u64>,
    table: SymbolTable,
}

impl Named {
    pub(crate) fn new(owner: &str, range: Range<u64>, table: SymbolTable) -> Self {
        Self { owner: owner.into(), range, table }
    }

    pub(crate) fn find(&self, name: &str) -> Option<u64> {
        self.table.find(name)
    }

    /// "owner:symbol+0x12", or nothing when the address belongs to somebody else.
    pub(crate) fn describe(&self, address: u64) -> Option<String> {
        if !self.range.contains(&address) {
            return None;
        }
        let owner = &self.owner;
        Some(match self.table.at(address) {
            Some((name, offset)) => {
                format!("{owner}:{}+{offset:#x}", String::from_utf8_lossy(name))
            }
            None => format!("{owner}+{:#x}", address - self.range.start),
        })
    }
}

/// `__ksymtab`: value, name and namespace, each 32 bits relative to its own place.
pub(super) fn exports(image: &[u8], base: u64, tables: &[Section]) -> Result<HashMap<String, u64>, ImageError> {
    const ENTRY: usize = 12;
    let mut out = HashMap::new();
    let relative = |at: u64| -> Option<u64> {
        let off = u32_at(image, at.wrapping_sub(base) as usize)?;
        Some(at.wrapping_add(off as i32 as i64 as u64))
    };
    for table in tables {
        for entry in (table.start..table.end).step_by(ENTRY) {
            let cut = ImageError::Truncated("__ksymtab");
            let (Some(value), Some(name)) = (relative(entry), relative(entry + 4)) else {
                return Err(cut);
            };
            let text = image.get(name.wrapping_sub(base) as usize..).ok_or(cut)?;
            let text = text.split(|c| *c == 0).next().unwrap_or(&[]);
            out.insert(String::from_utf8_lossy(text).into_owned(), value);
        }
    }
    if out.is_empty() {
        return Err(ImageError::Elf("no exported symbols".into()));
    }
    Ok(out)
}

/// How to read an entry of `__bug_table`.
#[derive(Debug)]
pub(crate) struct Bugs {
    size: u64,
    address: u64,
    file: Option<u64>,
    line: Option<u64>,
    /// The message's format (7.x).
    format: Option<u64>,
    flags: u64,
}

impl Bugs {
    pub(crate) fn new(btf: &Btf) -> Result<Self, TypeError> {
        let at = |name| btf.offset("bug_entry", name);
        Ok(Self {
            size: btf.size_of("bug_entry")? as u64,
            address: at("bug_addr_disp")?,
            file: at("file_disp").ok(),
            line: at("line").ok(),
            format: at("format_disp").ok(),
            flags: at("flags")?,
        })
    }

    /// A string that a 32-bit displacement in the entry points to.
    fn text(&self, mem: &Memory, at: u64) -> Option<String> {
        let disp = mem.read::<i32>(at);
        let text = (disp != 0).then(|| mem.c_str(at.wrapping_add(i64::from(disp) as u64)))?;
        (!text.is_empty()).then_some(text)
    }

    /// "file:line" of the entry at `entry`, when recorded.
    pub(crate) fn place(&self, mem: &Memory, entry: u64) -> Option<String> {
        let (file, line) = self.file.zip(self.line)?;
        let line = mem.read::<u16>(entry + line);
        Some(format!("{}:{line}", self.text(mem, entry + file)?))
    }

    /// The message's format string of the entry at `entry`, when recorded.
    pub(crate) fn message(&self, mem: &Memory, entry: u64) -> Option<String> {
        let format = self.format.filter(|_| entry != 0)?;
        self.text(mem, entry + format).map(|t| t.trim().to_owned())
    }

    /// Finds the entry for the instruction at `address`, and whether it is a warning. Allocates nothing.
    pub(crate) fn find(&self, mem: &Memory, table: &Section, address: u64) -> Option<(u64, bool)> {
        (table.start..table.end)
            .step_by(self.size as usize)
            .find_map(|entry| (self.site(mem, entry) == address).then(|| (entry, self.is_warning(mem, entry))))
    }

    /// The instruction that an entry speaks of.
    pub(crate) fn site(&self, mem: &Memory, entry: u64) -> u64 {
        let disp = mem.read::<i32>(entry + self.address);
        (entry + self.address).wrapping_add(i64::from(disp) as u64)
    }

    fn is_warning(&self, mem: &Memory, entry: u64) -> bool {
        const WARNING: u16 = 1;
        mem.read::<u16>(entry + self.flags) & WARNING != 0
    }
}
