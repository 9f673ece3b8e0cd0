use crate::{CapacityError, Heap, Slots};

/// Where a cake keeps its tins, queues, hosts and packets: [`Heap`] (Linux's sizes) or [`Fixed`] (no allocator, sizes
/// chosen by the embedder).
pub trait Storage: crate::Storage {
    /// Tins there is room for, 1 to 8; a Diffserv mode with more is refused.
    const TINS: usize;
    /// Queues per tin: a multiple of 8, at most 1024.
    const QUEUES: usize;
    /// Host slots per tin: a multiple of 8, at most 1024.
    const HOSTS: usize;
    /// One slot per tin.
    type Tins<T>: Slots<T>;
    /// One slot per host of a tin.
    type Hosts<T>: Slots<T>;
    /// One slot per queue of all tins.
    type AllQueues<T>: Slots<T>;
}

/// Linux's sizes: 1024 queues and 1024 host slots in each of eight tins. Tins are allocated when a configuration first
/// uses them, their host slots when an isolation mode first needs them.
impl Storage for Heap {
    const TINS: usize = 8;
    const QUEUES: usize = 1024;
    const HOSTS: usize = 1024;
    type Tins<T> = Self::Flows<T>;
    type Hosts<T> = Self::Flows<T>;
    type AllQueues<T> = Self::Flows<T>;
}

/// Storage of a size fixed at compile time: `TINS` tins of `QUEUES` queues and `HOSTS` host slots each, and `PACKETS`
/// packets, inline, without an allocator. `Fixed<8, 1024, 1024, PACKETS>` is Linux's layout.
///
/// One packet slot always stays free: a queue that holds `PACKETS - 1` packets drops from its longest queue, as it does
/// at the memory limit.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const TINS: usize, const QUEUES: usize, const HOSTS: usize, const PACKETS: usize>;

impl<const TINS: usize, const QUEUES: usize, const HOSTS: usize, const PACKETS: usize> crate::Storage
    for Fixed<TINS, QUEUES, HOSTS, PACKETS>
{
    type Packets<T> = [T; PACKETS];
    type Flows<T> = [T; QUEUES];
}

impl<const TINS: usize, const QUEUES: usize, const HOSTS: usize, const PACKETS: usize> Storage
    for Fixed<TINS, QUEUES, HOSTS, PACKETS>
{
    const TINS: usize = TINS;
    const QUEUES: usize = QUEUES;
    const HOSTS: usize = HOSTS;
    type Tins<T> = [T; TINS];
    type Hosts<T> = [T; HOSTS];
    type AllQueues<T> = Rows<T, TINS, QUEUES>;
}

/// `ROWS` times `COLUMNS` slots in a row.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T, const ROWS: usize, const COLUMNS: usize>([[T; COLUMNS]; ROWS]);

impl<T, const ROWS: usize, const COLUMNS: usize> AsRef<[T]> for Rows<T, ROWS, COLUMNS> {
    fn as_ref(&self) -> &[T] {
        self.0.as_flattened()
    }
}

impl<T, const ROWS: usize, const COLUMNS: usize> AsMut<[T]> for Rows<T, ROWS, COLUMNS> {
    fn as_mut(&mut self) -> &mut [T] {
        self.0.as_flattened_mut()
    }
}

impl<T, const ROWS: usize, const COLUMNS: usize> Slots<T> for Rows<T, ROWS, COLUMNS> {
    const GROWS: bool = false;

    fn filled(len: usize, make: impl FnMut() -> T) -> Result<Self, CapacityError> {
        if len > ROWS * COLUMNS {
            return Err(CapacityError { wanted: len, capacity: ROWS * COLUMNS });
        }
        Ok(Self::vacant(make))
    }

    fn reserved(len: usize, make: impl FnMut() -> T) -> Result<Self, CapacityError> {
        Self::filled(len, make)
    }

    fn grow(&mut self, _: T) -> bool {
        false
    }

    fn vacant(mut make: impl FnMut() -> T) -> Self {
        Self(core::array::from_fn(|_| core::array::from_fn(|_| make())))
    }
}
