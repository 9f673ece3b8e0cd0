//! Names for addresses, addresses for names, and the places where WARN and BUG may strike.

use super::btf::Btf;
use super::payload::u32_at;
use crate::error::{ImageError, TypeError};
use crate::memory::Memory;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

/// An address range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Symbols of one image or module, by address.
#[derive(Debug)]
pub(crate) struct Named {
    owner: String,
    range: Range<u64>,
    list: Vec<(u64, String)>,
    sorted: OnceCell<Vec<u32>>,
}

impl Named {
    pub(crate) fn new(
        owner: &str,
        range: Range<u64>,
        list: impl IntoIterator<Item = (u64, String)>,
    ) -> Self {
        Self {
            owner: owner.into(),
            range,
            list: list.into_iter().collect(),
            sorted: OnceCell::new(),
        }
    }

    /// "owner:symbol+0x12", or nothing when the address belongs to somebody else.
    pub(crate) fn describe(&self, address: u64) -> Option<String> {
        if !self.range.contains(&address) {
            return None;
        }
        // Sorted on demand: only faults need it.
        let order = self.sorted.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.list.len() as u32).collect();
            order.sort_by_key(|i| self.list[*i as usize].0);
            order
        });
        let i = order.partition_point(|i| self.list[*i as usize].0 <= address);
        let owner = &self.owner;
        Some(
            match i.checked_sub(1).map(|i| &self.list[order[i] as usize]) {
                Some((start, name)) => format!("{owner}:{name}+{:#x}", address - start),
                None => format!("{owner}+{:#x}", address - self.range.start),
            },
        )
    }
}

/// `__ksymtab`: value, name and namespace, each 32 bits relative to its own place.
pub(super) fn exports(
    image: &[u8],
    base: u64,
    tables: &[Section],
) -> Result<HashMap<String, u64>, ImageError> {
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
            .find_map(|entry| {
                (self.site(mem, entry) == address).then(|| (entry, self.is_warning(mem, entry)))
            })
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
