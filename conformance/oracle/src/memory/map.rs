//! Address space below 2 GiB.

use crate::error::{Error, Result};

/// An anonymous writable-executable mapping at a fixed address; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: u64,
    len: u64,
}

/// Lengths are rounded up to whole pages.
const PAGE: u64 = 4096;

impl Mapping {
    /// Maps `len` bytes at exactly `start`. Pages are only backed when touched.
    pub(crate) fn fixed(start: u64, len: u64) -> Result<Self> {
        let len = len.next_multiple_of(PAGE);
        let fail = |source| Error::Map { at: start, len, source };
        if !start.is_multiple_of(PAGE) || start.checked_add(len).is_none_or(|end| end > 1 << 31) {
            return Err(fail(std::io::Error::from(std::io::ErrorKind::InvalidInput)));
        }
        // SAFETY: NOREPLACE refuses to touch existing mappings, so nothing of this process is overwritten.
        let got = unsafe {
            libc::mmap(
                start as *mut _,
                len as usize,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if got == libc::MAP_FAILED {
            return Err(fail(std::io::Error::last_os_error()));
        }
        let mapping = Self { start: got as u64, len };
        if got as u64 != start {
            // Kernels before 4.17 take the address as a hint only.
            return Err(fail(std::io::Error::from(std::io::ErrorKind::AddrInUse)));
        }
        Ok(mapping)
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// The whole mapping as bytes, for the loader, before any kernel code has run.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is ours, of this length, writable, and exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.len as usize) }
    }

    /// The whole mapping as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: as above, shared; the loader is the only user.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.len as usize) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `fixed` and nothing refers into it any more: the world that
        // owns the mapping is being dropped.
        unsafe { libc::munmap(self.start as *mut _, self.len as usize) };
    }
}
