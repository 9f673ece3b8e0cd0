//! A path into kernel data, resolved once to offsets so that reading it after every step is cheap.

use crate::memory::Memory;

/// Where a value lives relative to a structure's address, and how wide it is.
///
/// Made by [`crate::Btf::field`] or the `field` functions of the handles; cheap to clone and to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Byte offset from the structure's start, or from the last pointer followed.
    offset: u64,
    /// Offsets at which pointers are read on the way, outermost first.
    hops: Vec<u64>,
    size: usize,
    bit: u8,
    bits: u8,
    signed: bool,
}

impl Field {
    pub(super) fn at_start() -> Self {
        Self { offset: 0, hops: Vec::new(), size: 0, bit: 0, bits: 0, signed: false }
    }

    pub(super) fn follow(&mut self) {
        self.hops.push(self.offset);
        self.offset = 0;
        (self.bit, self.bits) = (0, 0);
    }

    /// Moves by a bit offset; `bits` is non-zero for a bit field.
    pub(super) fn shift(&mut self, at: u32, bits: u8) {
        self.offset += u64::from(at / 8);
        (self.bit, self.bits) = ((at % 8) as u8, bits);
    }

    pub(super) fn finish(&mut self, size: usize, signed: bool) {
        (self.size, self.signed) = (size, signed);
    }

    /// The same place for a structure that starts `by` bytes further on.
    #[must_use]
    pub(crate) fn moved(mut self, by: u64) -> Self {
        match self.hops.first_mut() {
            Some(first) => *first += by,
            None => self.offset += by,
        }
        self
    }

    /// Size in bytes of the value (of the whole array or structure when it is one).
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Offset in bytes when no pointer is followed and it is no bit field.
    #[must_use]
    pub fn plain_offset(&self) -> Option<u64> {
        (self.hops.is_empty() && self.bits == 0).then_some(self.offset)
    }

    /// The value's address for a structure at `base`; 0 when a pointer on the way is null.
    #[inline]
    pub(crate) fn locate(&self, mem: &Memory, base: u64) -> u64 {
        let mut at = base;
        for hop in &self.hops {
            at = mem.read(at.wrapping_add(*hop));
            if at == 0 {
                return 0;
            }
        }
        at.wrapping_add(self.offset)
    }

    /// Zero-extended value; sizes other than 1, 2, 4 read 8 bytes. 0 through a null pointer.
    #[inline]
    pub(crate) fn read(&self, mem: &Memory, base: u64) -> u64 {
        let at = self.locate(mem, base);
        if at == 0 {
            return 0;
        }
        if self.bits != 0 {
            let raw = self.window(mem, at);
            return raw >> self.bit & ones(self.bits);
        }
        match self.size {
            1 => u64::from(mem.read::<u8>(at)),
            2 => u64::from(mem.read::<u16>(at)),
            4 => u64::from(mem.read::<u32>(at)),
            _ => mem.read(at),
        }
    }

    /// Sign-extended when the kernel's type is signed.
    #[inline]
    pub(crate) fn read_signed(&self, mem: &Memory, base: u64) -> i64 {
        let v = self.read(mem, base);
        let width = if self.bits != 0 { u32::from(self.bits) } else { 8 * (self.size as u32).clamp(1, 8) };
        if self.signed && width < 64 { (v << (64 - width)) as i64 >> (64 - width) } else { v as i64 }
    }

    /// Stores the low bits of `value`.
    #[inline]
    pub(crate) fn write(&self, mem: &Memory, base: u64, value: u64) {
        let at = self.locate(mem, base);
        if self.bits != 0 {
            let mask = ones(self.bits) << self.bit;
            let raw = self.window(mem, at) & !mask | value << self.bit & mask;
            for (i, byte) in raw.to_le_bytes().iter().enumerate().take(self.window_len()) {
                mem.write(at + i as u64, *byte);
            }
            return;
        }
        match self.size {
            1 => mem.write(at, value as u8),
            2 => mem.write(at, value as u16),
            4 => mem.write(at, value as u32),
            _ => mem.write(at, value),
        }
    }

    fn window_len(&self) -> usize {
        usize::from(self.bit + self.bits).div_ceil(8)
    }

    fn window(&self, mem: &Memory, at: u64) -> u64 {
        let mut raw = [0; 8];
        for (i, byte) in raw.iter_mut().enumerate().take(self.window_len()) {
            *byte = mem.read(at + i as u64);
        }
        u64::from_le_bytes(raw)
    }
}

fn ones(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// `a.b[2].c` as steps.
pub(super) struct Path;

pub(super) enum Step<'a> {
    Member(&'a str),
    Index(u32),
    Bad(&'static str),
}

impl Path {
    pub(super) fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
        path.split('.').filter(|p| !p.is_empty()).flat_map(|part| {
            let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
            let mut steps = Vec::new();
            if !name.is_empty() {
                steps.push(Step::Member(name));
            }
            while let Some(inner) = rest.strip_prefix('[') {
                let Some((digits, after)) = inner.split_once(']') else {
                    steps.push(Step::Bad("unclosed ["));
                    break;
                };
                steps.push(digits.parse().map_or(Step::Bad("index is no number"), Step::Index));
                rest = after;
            }
            steps
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_members_and_indices() {
        let text: Vec<String> = Path::steps("tins[2].flows[17].cvars.count")
            .map(|s| match s {
                Step::Member(m) => m.to_owned(),
                Step::Index(i) => format!("#{i}"),
                Step::Bad(b) => format!("!{b}"),
            })
            .collect();
        assert_eq!(text, ["tins", "#2", "flows", "#17", "cvars", "count"]);
        assert!(matches!(Path::steps("a[x]").nth(1), Some(Step::Bad(_))));
        assert!(matches!(Path::steps("a[1").nth(1), Some(Step::Bad(_))));
    }
}
