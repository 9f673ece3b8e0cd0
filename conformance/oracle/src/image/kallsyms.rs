//! The compressed symbol table inside the image, found by its shape.
//!
//! Three layouts exist across the kernels of interest: offsets before the names and relative to a base
//! (6.1), offsets after the token index (6.12), offsets relative to their own place (7.x). The layout is
//! the one under which most exported symbols come out where `__ksymtab` says they are.

use super::payload::{u16_at, u32_at};
use super::symbols::SymbolTable;
use crate::error::ImageError;
use std::collections::HashMap;

struct Tables<'a> {
    mem: &'a [u8],
    /// Text of the 256 tokens.
    table: usize,
    /// 256 u16 offsets into it.
    index: usize,
    names: usize,
    count: usize,
}

fn missing(what: &str) -> ImageError {
    ImageError::Kallsyms(format!("{what} not found"))
}

/// Reads all symbols of the relocated image `mem`, which lies at `base`. `exports` is `__ksymtab`.
pub(super) fn parse(mem: &[u8], base: u64, exports: &HashMap<String, u64>) -> Result<SymbolTable, ImageError> {
    let (table, index) = find_tokens(mem).ok_or_else(|| missing("token table"))?;
    let (names, count) = find_names(mem, table).ok_or_else(|| missing("names"))?;
    let tables = Tables { mem, table, index, names, count };
    let mut list = tables.expand();
    let (offsets, mode) = tables.find_offsets(&list, base, exports)?;
    for i in 0..list.len() {
        list.set_address(i, tables.address(offsets, mode, i, base));
    }
    Ok(list)
}

/// The token index is 256 ascending u16 starting at 0; the table lies just before it and spells the digits.
fn find_tokens(mem: &[u8]) -> Option<(usize, usize)> {
    let get = |at| u16_at(mem, at).map(usize::from);
    let mut at = 0x10_0000;
    while at + 512 < mem.len() {
        let first_two = mem[at] == 0 && mem[at + 1] == 0 && mem[at + 3] == 0 && (2..64).contains(&mem[at + 2]);
        if first_two {
            let ascending = (1..256).all(|i| {
                let (a, b) = (get(at + 2 * i - 2).unwrap_or(0), get(at + 2 * i).unwrap_or(0));
                b > a && b - a <= 64
            });
            if ascending {
                let last = get(at + 510)?;
                let digits = |start: usize| {
                    (b'0'..=b'9').all(|c| {
                        let o = start + get(at + 2 * usize::from(c)).unwrap_or(0);
                        mem.get(o) == Some(&c) && mem.get(o + 1) == Some(&0)
                    })
                };
                let range = at.saturating_sub(last + 80)..=at.saturating_sub(last + 2);
                if let Some(start) = range.rev().find(|s| digits(*s)) {
                    return Some((start, at));
                }
            }
        }
        at += 4;
    }
    None
}

/// Length of the entry at `at` and size of its length prefix.
fn entry(mem: &[u8], at: usize) -> Option<(usize, usize)> {
    let low = usize::from(*mem.get(at)?);
    if low & 0x80 == 0 {
        return Some((low, 1));
    }
    Some((low & 0x7f | usize::from(*mem.get(at + 1)?) << 7, 2))
}

/// The names: a count in front (padded to 8 or 4), and behind them the markers, one per 256 names.
fn find_names(mem: &[u8], table: usize) -> Option<(usize, usize)> {
    let mut at = table & !3;
    let stop = table.saturating_sub(16_000_000).max(8);
    while at > stop {
        at -= 4;
        let count = u32_at(mem, at)? as usize;
        if !(40_000..600_000).contains(&count) {
            continue;
        }
        if let Some(start) = [at + 8, at + 4].into_iter().find(|s| names_at(mem, *s, count, table)) {
            return Some((start, count));
        }
    }
    None
}

fn names_at(mem: &[u8], start: usize, count: usize, limit: usize) -> bool {
    let (mut at, mut first_marker) = (start, 0);
    for i in 0..count {
        if i == 256 {
            first_marker = at - start;
        }
        match entry(mem, at) {
            Some((len, prefix)) if len != 0 && len <= 600 && at < limit => at += len + prefix,
            _ => return false,
        }
    }
    [at.next_multiple_of(8), at.next_multiple_of(4)]
        .into_iter()
        .any(|m| u32_at(mem, m) == Some(0) && u32_at(mem, m + 4) == Some(first_marker as u32))
}

impl Tables<'_> {
    fn token(&self, byte: u8) -> &[u8] {
        let at = self.table + usize::from(u16_at(self.mem, self.index + 2 * usize::from(byte)).unwrap_or(0));
        self.mem.get(at..).and_then(|t| t.split(|c| *c == 0).next()).unwrap_or(&[])
    }

    fn expand(&self) -> SymbolTable {
        let mut list = SymbolTable::with_capacity(self.count);
        let tokens: Vec<&[u8]> = (0..=255).map(|b| self.token(b)).collect();
        let mut at = self.names;
        let mut text = Vec::new();
        for _ in 0..self.count {
            let Some((len, prefix)) = entry(self.mem, at) else {
                break;
            };
            at += prefix;
            text.clear();
            for byte in self.mem.get(at..at + len).unwrap_or(&[]) {
                text.extend_from_slice(tokens[usize::from(*byte)]);
            }
            at += len;
            // The first letter is the symbol's type.
            list.push(0, text.get(1..).unwrap_or(&[]));
        }
        list
    }

    fn address(&self, offsets: usize, mode: u8, i: usize, base: u64) -> u64 {
        let at = offsets + 4 * i;
        let off = u32_at(self.mem, at).unwrap_or(0) as i32;
        match mode {
            // Absolute per-cpu symbols are positive, the rest count down from the base.
            0 if off >= 0 => off as u64,
            0 => base.wrapping_sub(1).wrapping_sub(off as i64 as u64),
            1 => base + u64::from(off as u32),
            _ => (base + at as u64).wrapping_add(off as i64 as u64),
        }
    }

    fn find_offsets(
        &self,
        list: &SymbolTable,
        base: u64,
        exports: &HashMap<String, u64>,
    ) -> Result<(usize, u8), ImageError> {
        let (n, r8) = (self.count, |x: usize| x.next_multiple_of(8));
        let places = [
            self.names.checked_sub(16 + r8(4 * n)),
            self.names.checked_sub(8 + r8(4 * n)),
            self.names.checked_sub(16 + 4 * n),
            Some(r8(self.index + 512)),
            Some(self.index + 512),
        ];
        let known = |i: usize| exports.get(std::str::from_utf8(list.name(i)).ok()?).map(|a| (i, *a));
        let sample: Vec<(usize, u64)> = (0..list.len()).step_by(7).filter_map(known).collect();
        let mut best = (0, 0, 0);
        for place in places.into_iter().flatten().filter(|p| p + 4 * n <= self.mem.len()) {
            for mode in 0..3 {
                let hits = sample.iter().filter(|(i, a)| self.address(place, mode, *i, base) == *a).count();
                if hits > best.0 {
                    best = (hits, place, mode);
                }
            }
        }
        if best.0 * 2 < sample.len() || best.0 < 100 {
            let what = format!("offsets not understood ({} of {} exports agree)", best.0, sample.len());
            return Err(ImageError::Kallsyms(what));
        }
        Ok((best.1, best.2))
    }
}
