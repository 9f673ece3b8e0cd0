#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Fixed storage cannot hold what a configuration asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} entries wanted, the storage holds {capacity}")]
pub struct CapacityError {
    /// Entries asked for.
    pub wanted: usize,
    /// Entries there are.
    pub capacity: usize,
}

/// A row of slots whose number is fixed, or grows up to what is configured.
pub trait Slots<T>: AsRef<[T]> + AsMut<[T]> + Sized {
    /// Can slots be added?
    const GROWS: bool;

    /// Exactly `len` slots (fixed storage: at least; the rest is never used), filled by `make`.
    fn filled(len: usize, make: impl FnMut() -> T) -> Result<Self, CapacityError>;

    /// No slots yet, room for `len` without another allocation. Fixed storage makes all its slots at once.
    fn reserved(len: usize, make: impl FnMut() -> T) -> Result<Self, CapacityError>;

    /// Adds one slot; false if the storage is fixed and all are there.
    fn grow(&mut self, value: T) -> bool;

    /// As few slots as can be: none, or in fixed storage all.
    fn vacant(make: impl FnMut() -> T) -> Self;

    /// Adds slots until there are `len`; false if the storage is fixed and has fewer.
    fn grow_to(&mut self, len: usize, mut make: impl FnMut() -> T) -> bool {
        (self.as_ref().len()..len).all(|_| self.grow(make()))
    }
}

/// Where a qdisc keeps its packets and flows: [`Heap`] (sizes at run time) or [`Fixed`] (no allocator).
pub trait Storage {
    /// One slot per queued packet.
    type Packets<T>: Slots<T>;
    /// One slot per flow.
    type Flows<T>: Slots<T>;
}

/// Storage sized at run time. Flows are allocated at creation. Packet slots are reserved at creation for the
/// configured limit, at most [`Heap::RESERVED_PACKETS`] of them; beyond that the slab doubles, so that it allocates a
/// few times in its life and never per packet.
///
/// Without the feature `alloc` the type is there, but holds nothing: every configuration is refused.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

#[cfg(feature = "alloc")]
impl Heap {
    /// The largest number of packet slots reserved at creation.
    pub const RESERVED_PACKETS: usize = 16_384;
}

#[cfg(feature = "alloc")]
impl Storage for Heap {
    type Packets<T> = Vec<T>;
    type Flows<T> = Vec<T>;
}

#[cfg(not(feature = "alloc"))]
impl Storage for Heap {
    type Packets<T> = [T; 0];
    type Flows<T> = [T; 0];
}

#[cfg(feature = "alloc")]
impl<T> Slots<T> for Vec<T> {
    const GROWS: bool = true;

    fn filled(len: usize, mut make: impl FnMut() -> T) -> Result<Self, CapacityError> {
        Ok((0..len).map(|_| make()).collect())
    }

    fn reserved(len: usize, _: impl FnMut() -> T) -> Result<Self, CapacityError> {
        Ok(Self::with_capacity(len.min(Heap::RESERVED_PACKETS)))
    }

    fn grow(&mut self, value: T) -> bool {
        self.push(value);
        true
    }

    fn vacant(_: impl FnMut() -> T) -> Self {
        Self::new()
    }

    fn grow_to(&mut self, len: usize, make: impl FnMut() -> T) -> bool {
        if self.len() < len {
            self.reserve_exact(len - self.len());
            self.resize_with(len, make);
        }
        true
    }
}

/// Storage of a size fixed at compile time: `FLOWS` flows and `PACKETS` packets, inline, without an allocator.
///
/// A configuration that needs more is refused; a qdisc that briefly holds one packet above its limit needs
/// `PACKETS > limit`.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const FLOWS: usize, const PACKETS: usize>;

impl<const FLOWS: usize, const PACKETS: usize> Storage for Fixed<FLOWS, PACKETS> {
    type Packets<T> = [T; PACKETS];
    type Flows<T> = [T; FLOWS];
}

impl<T, const N: usize> Slots<T> for [T; N] {
    const GROWS: bool = false;

    fn filled(len: usize, mut make: impl FnMut() -> T) -> Result<Self, CapacityError> {
        if len > N {
            return Err(CapacityError { wanted: len, capacity: N });
        }
        Ok(core::array::from_fn(|_| make()))
    }

    fn reserved(len: usize, make: impl FnMut() -> T) -> Result<Self, CapacityError> {
        Self::filled(len, make)
    }

    fn grow(&mut self, _: T) -> bool {
        false
    }

    fn vacant(mut make: impl FnMut() -> T) -> Self {
        core::array::from_fn(|_| make())
    }
}
