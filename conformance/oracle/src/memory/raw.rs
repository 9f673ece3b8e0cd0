//! Checked access to the mapped world: image and arena.

use std::cell::Cell;
use std::ops::Range;

/// Kernel code passes pointers to its own frames: they lie between here and the gate it came in by.
#[cold]
fn on_kernel_stack(at: u64, len: u64) -> bool {
    let here = 0u8;
    let (low, high) = (&raw const here as u64, crate::gate::gate());
    high != 0 && at > low && at < high && len <= high - at
}

mod sealed {
    pub trait Sealed {}
}

/// Plain integers: every bit pattern is a value.
pub trait Plain: Copy + Default + sealed::Sealed + 'static {}
macro_rules! plain { ($($t:ty)*) => { $( impl sealed::Sealed for $t {} impl Plain for $t {} )* } }
plain!(u8 u16 u32 u64 i8 i16 i32 i64);

/// The two address ranges that belong to the world. Both stay mapped, readable and writable for as
/// long as the owning [`crate::World`] lives.
#[derive(Debug)]
pub(crate) struct Memory {
    image: Range<u64>,
    arena: Range<u64>,
    /// First address outside the world that somebody tried to use; 0 = none.
    wild: Cell<u64>,
}

impl Memory {
    /// # Safety
    /// Both ranges must be mapped readable and writable until the value is dropped, and no Rust
    /// reference into them may live across calls of kernel code.
    pub(crate) unsafe fn new(image: Range<u64>, arena: Range<u64>) -> Self {
        Self { image, arena, wild: Cell::new(0) }
    }

    #[inline]
    pub(crate) fn covers(&self, at: u64, len: u64) -> bool {
        let within = |r: &Range<u64>| at >= r.start && at < r.end && len <= r.end - at;
        within(&self.arena) || within(&self.image) || on_kernel_stack(at, len)
    }

    pub(crate) fn image(&self) -> Range<u64> {
        self.image.clone()
    }

    pub(crate) fn arena(&self) -> Range<u64> {
        self.arena.clone()
    }

    #[inline]
    pub(crate) fn has_wild(&self) -> bool {
        self.wild.get() != 0
    }

    /// Takes the note about a wild pointer.
    #[inline]
    pub(crate) fn take_wild(&self) -> Option<u64> {
        match self.wild.get() {
            0 => None,
            a => {
                self.wild.set(0);
                Some(a)
            }
        }
    }

    #[cold]
    fn note_wild(&self, at: u64) {
        if self.wild.get() == 0 {
            self.wild.set(at.max(1));
        }
    }

    /// Reads an integer; outside the world it reads 0 and notes the address, which fails the call.
    #[inline]
    pub(crate) fn read<T: Plain>(&self, at: u64) -> T {
        if !self.covers(at, size_of::<T>() as u64) {
            self.note_wild(at);
            return T::default();
        }
        // SAFETY: the range check above keeps the access inside mapped memory of this world, and any
        // bit pattern is a valid `T`.
        unsafe { (at as *const T).read_unaligned() }
    }

    /// Writes an integer; outside the world nothing is written and the address is noted.
    #[inline]
    pub(crate) fn write<T: Plain>(&self, at: u64, value: T) {
        if !self.covers(at, size_of::<T>() as u64) {
            self.note_wild(at);
            return;
        }
        // SAFETY: as for `read`; kernel memory is never borrowed by Rust across this write.
        unsafe { (at as *mut T).write_unaligned(value) }
    }

    /// Copies bytes in.
    pub(crate) fn write_bytes(&self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !self.covers(at, bytes.len() as u64) {
            self.note_wild(at);
            return;
        }
        // SAFETY: destination is inside the mapped world, source is a live slice outside of it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) }
    }

    /// Fills with zeros.
    #[inline]
    pub(crate) fn zero(&self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        if !self.covers(at, len) {
            self.note_wild(at);
            return;
        }
        // SAFETY: the whole range is inside the mapped world.
        unsafe { std::ptr::write_bytes(at as *mut u8, 0, len as usize) }
    }

    /// The bytes at an address, or nothing when the range leaves the world. The borrow must end before
    /// kernel code runs again; callers tie it to a borrow that kernel calls need mutably or copy it.
    pub(crate) fn bytes(&self, at: u64, len: u64) -> &[u8] {
        if len == 0 || !self.covers(at, len) {
            return &[];
        }
        // SAFETY: the range is mapped; all users read it between kernel calls, on the world's thread.
        unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) }
    }

    /// A NUL-terminated string of at most 255 bytes.
    pub(crate) fn c_str(&self, at: u64) -> String {
        let mut s = Vec::new();
        while s.len() < 255 && self.covers(at + s.len() as u64, 1) {
            match self.read::<u8>(at + s.len() as u64) {
                0 => break,
                c => s.push(c),
            }
        }
        String::from_utf8_lossy(&s).into_owned()
    }
}
