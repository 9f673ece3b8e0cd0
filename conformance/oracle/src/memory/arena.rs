//! The kernel's heap: size classes with free lists inside the arena.
//!
//! Each block has a 64-byte header in front, so payloads keep a cache line's alignment. Freed blocks are
//! reused last in, first out, so equal scripts see equal addresses.

use super::raw::Memory;
use std::cell::Cell;

/// Bytes in front of each payload.
pub(crate) const HEADER: u64 = 64;
const CLASSES: usize = 32;

// Header words.
const H_MAGIC: u64 = 0; // u32
const H_CLASS: u64 = 4; // u32
const H_NEXT: u64 = 8; // u64, free list
const H_SIZE: u64 = 16; // u64, payload bytes asked for
/// Words the packet code may use (see `packet::block`).
pub(crate) const H_USER: u64 = 24;

const LIVE: u32 = 0x600d_b10c;
const FREE: u32 = 0xdead_b10c;
/// A pseudo header in the middle of a block: freeing it is right and does nothing.
const INNER: u32 = 0x1ea5_b10c;

/// What a pointer turned out to be when it was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    Block,
    Inner,
    Twice,
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Arena {
    bump: Cell<u64>,
    end: u64,
    free: [Cell<u64>; CLASSES],
    live: Cell<u64>,
    full: Cell<bool>,
}

impl Arena {
    /// Starts handing out `start..end`, which must be mapped.
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Self {
            bump: Cell::new(start),
            end,
            free: std::array::from_fn(|_| Cell::new(0)),
            live: Cell::new(0),
            full: Cell::new(false),
        }
    }

    /// Address space never given back: code, module sections, per-cpu data. 0 when full.
    pub(crate) fn carve(&self, len: u64, align: u64) -> u64 {
        let at = self.bump.get().next_multiple_of(align.max(1));
        match at.checked_add(len) {
            Some(next) if next <= self.end => {
                self.bump.set(next);
                at
            }
            _ => {
                self.full.set(true);
                0
            }
        }
    }

    /// True once an allocation has failed for want of space.
    pub(crate) fn is_full(&self) -> bool {
        self.full.get()
    }

    /// Bytes carved so far: grows only when no free block fits.
    pub(crate) fn used(&self) -> u64 {
        self.bump.get()
    }

    /// Blocks handed out and not freed.
    pub(crate) fn live(&self) -> u64 {
        self.live.get()
    }

    /// A block with undefined contents (0 when full).
    #[inline]
    pub(crate) fn alloc_raw(&self, mem: &Memory, len: u64) -> u64 {
        let class = (len.max(32) + HEADER).next_power_of_two().trailing_zeros() as usize;
        if class >= CLASSES {
            self.full.set(true);
            return 0;
        }
        let head = self.free[class].get();
        let block = if head != 0 {
            self.free[class].set(mem.read(head + H_NEXT));
            head
        } else {
            let block = self.carve(1 << class, 64);
            if block == 0 {
                return 0;
            }
            mem.write::<u32>(block + H_CLASS, class as u32);
            block
        };
        mem.write::<u32>(block + H_MAGIC, LIVE);
        mem.write::<u64>(block + H_SIZE, len);
        self.live.set(self.live.get() + 1);
        block + HEADER
    }

    /// A zeroed block (0 when full).
    #[inline]
    pub(crate) fn alloc(&self, mem: &Memory, len: u64) -> u64 {
        let p = self.alloc_raw(mem, len);
        if p != 0 {
            mem.zero(p - HEADER + H_USER, len + HEADER - H_USER);
        }
        p
    }

    /// Payload bytes that a block offers (`ksize`).
    pub(crate) fn usable(&self, mem: &Memory, p: u64) -> u64 {
        match mem.read::<u32>(p.wrapping_sub(HEADER) + H_MAGIC) {
            LIVE => (1u64 << mem.read::<u32>(p - HEADER + H_CLASS)) - HEADER,
            INNER => mem.read(p - HEADER + H_SIZE),
            _ => 0,
        }
    }

    /// Gives a block back.
    #[inline]
    pub(crate) fn free(&self, mem: &Memory, p: u64) -> Freed {
        let block = p.wrapping_sub(HEADER);
        if !mem.covers(block, HEADER) {
            return Freed::Unknown;
        }
        match mem.read::<u32>(block + H_MAGIC) {
            LIVE => {
                let class = mem.read::<u32>(block + H_CLASS) as usize % CLASSES;
                mem.write::<u32>(block + H_MAGIC, FREE);
                mem.write::<u64>(block + H_NEXT, self.free[class].get());
                self.free[class].set(block);
                self.live.set(self.live.get() - 1);
                Freed::Block
            }
            INNER => Freed::Inner,
            FREE => Freed::Twice,
            _ => Freed::Unknown,
        }
    }

    /// True for a pointer to a live block's payload.
    #[inline]
    pub(crate) fn is_live(&self, mem: &Memory, p: u64) -> bool {
        p >= HEADER && mem.covers(p - HEADER, HEADER) && mem.read::<u32>(p - HEADER + H_MAGIC) == LIVE
    }

    /// Turns `p - HEADER .. p` into a pseudo header whose free is a no-op; `len` is its `ksize`.
    #[inline]
    pub(crate) fn mark_inner(&self, mem: &Memory, p: u64, len: u64) {
        mem.write::<u32>(p - HEADER + H_MAGIC, INNER);
        mem.write::<u64>(p - HEADER + H_SIZE, len);
    }
}
