//! The columns of a block: one byte string per field of an event, so that like stands beside like and compresses.

use super::Fault;

/// The columns that every trace has, in file order. Those of the snapshots' values follow, one per field, in the
/// order of the header's schemas.
///
/// New ones are added at the end: the header says how many a file has, and those that an older file lacks are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Column {
    EventKind,
    Time,
    Operation,
    Qlen,
    Backlog,
    OutcomeKind,
    OutcomeCode,
    StepCount,
    StepKind,
    Clock,
    Jiffies,
    DrawBits,
    DrawValue,
    HashValue,
    KeyLength,
    Keys,
    DropFlags,
    DropReason,
    DropCode,
    CorrectionPackets,
    CorrectionBytes,
    CorrectionEmptied,
    WatchdogExpires,
    WatchdogSlack,
    PacketId,
    PacketSegment,
    Length,
    BufferBytes,
    LinearBytes,
    Truesize,
    Priority,
    Mark,
    Hash,
    ArrivalFlags,
    Protocol,
    NetworkOffset,
    TransportOffset,
    GsoSize,
    GsoSegments,
    GsoKind,
    SegmentCount,
    SegmentLength,
    SegmentTruesize,
    Departure,
    VlanTpid,
    VlanTci,
    FrameLength,
    Frame,
    DeliveredBytes,
    DeliveredDs,
    ChangeCount,
    ChangeOffset,
    ChangeValue,
    SnapshotCount,
    SnapshotSchema,
    SnapshotMoment,
    SnapshotKey,
    Connection,
    HookKind,
    ArgumentCount,
    Argument,
    HookResult,
    ResultKind,
    ValueCount,
    Value,
    TextLength,
    Text,
}

/// How many columns every trace has.
pub(super) const FIXED_COLUMNS: usize = Column::Text as usize + 1;

/// Maps signed differences to small unsigned numbers: 0, −1, 1, −2, ...
pub(super) const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

pub(super) const fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

/// The columns of a block that is being written.
#[derive(Debug)]
pub(super) struct ColumnWriter {
    columns: Vec<Vec<u8>>,
    previous: Vec<u64>,
    bytes: usize,
}

impl ColumnWriter {
    pub(super) fn new(value_columns: usize) -> Self {
        let count = FIXED_COLUMNS + value_columns;
        Self { columns: vec![Vec::new(); count], previous: vec![0; count], bytes: 0 }
    }

    /// Bytes written so far.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn raw(&mut self, column: Column, bytes: &[u8]) {
        self.raw_at(column as usize, bytes);
    }

    pub(super) fn byte(&mut self, column: Column, byte: u8) {
        self.raw(column, &[byte]);
    }

    /// A number in groups of seven bits, lowest first; bit 7 says that more follow.
    pub(super) fn number(&mut self, column: Column, value: u64) {
        self.number_at(column as usize, value);
    }

    /// The difference to the previous number of this column.
    pub(super) fn delta(&mut self, column: Column, value: u64) {
        let previous = std::mem::replace(&mut self.previous[column as usize], value);
        self.number(column, zigzag(value.wrapping_sub(previous)));
    }

    /// The difference to a base that the reader knows too.
    pub(super) fn difference(&mut self, column: Column, value: u64, base: u64) {
        self.number(column, zigzag(value.wrapping_sub(base)));
    }

    /// The difference to a base, in the column of a snapshot's value.
    pub(super) fn value(&mut self, value_column: usize, value: u64, base: u64) {
        self.number_at(FIXED_COLUMNS + value_column, zigzag(value.wrapping_sub(base)));
    }

    fn number_at(&mut self, column: usize, mut value: u64) {
        let mut groups = [0; 10];
        let mut len = 0;
        loop {
            groups[len] = value as u8 & 0x7f;
            value >>= 7;
            len += 1;
            if value == 0 {
                break;
            }
            groups[len - 1] |= 0x80;
        }
        self.raw_at(column, &groups[..len]);
    }

    fn raw_at(&mut self, column: usize, bytes: &[u8]) {
        self.columns[column].extend_from_slice(bytes);
        self.bytes += bytes.len();
    }

    /// The block's payload; empties the columns.
    pub(super) fn take_payload(&mut self) -> Vec<u8> {
        let mut table = Self { columns: vec![Vec::new()], previous: Vec::new(), bytes: 0 };
        for column in &self.columns {
            table.number_at(0, column.len() as u64);
        }
        let mut payload = std::mem::take(&mut table.columns[0]);
        payload.reserve_exact(self.bytes);
        for column in &mut self.columns {
            payload.append(column);
        }
        self.previous.fill(0);
        self.bytes = 0;
        payload
    }
}

/// The columns of a block that is being read. Reading beyond a column's end is a [`Fault`], never more.
#[derive(Debug)]
pub(super) struct ColumnReader {
    payload: Vec<u8>,
    /// Where each column's unread part begins and ends in the payload.
    ranges: Vec<(usize, usize)>,
    previous: Vec<u64>,
}

impl ColumnReader {
    /// Splits a payload into its columns: so many of the fixed ones, then those of the snapshots' values.
    pub(super) fn new(payload: Vec<u8>, fixed_columns: usize, value_columns: usize) -> Result<Self, Fault> {
        let count = FIXED_COLUMNS + value_columns;
        let mut table = Self { ranges: vec![(0, payload.len())], previous: Vec::new(), payload };
        let mut lengths = Vec::with_capacity(count);
        for column in 0..count {
            lengths.push(match column {
                column if (fixed_columns..FIXED_COLUMNS).contains(&column) => 0,
                _ => table.number_at(0).map_err(|_| Fault::ColumnTable)?,
            });
        }
        let mut start = table.ranges[0].0;
        let payload = table.payload;
        let mut ranges = Vec::with_capacity(count);
        for length in lengths {
            let length = usize::try_from(length).map_err(|_| Fault::ColumnTable)?;
            let end = start.checked_add(length).filter(|end| *end <= payload.len()).ok_or(Fault::ColumnTable)?;
            ranges.push((start, end));
            start = end;
        }
        if start != payload.len() {
            return Err(Fault::ColumnTable);
        }
        Ok(Self { payload, ranges, previous: vec![0; count] })
    }

    /// An error unless all columns have been read to their ends.
    pub(super) fn finished(&self) -> Result<(), Fault> {
        match self.ranges.iter().position(|(start, end)| start != end) {
            None => Ok(()),
            Some(column) => {
                let (start, end) = self.ranges[column];
                Err(Fault::ColumnLeft { column: column as u16, left: end - start })
            }
        }
    }

    pub(super) fn raw(&mut self, column: Column, len: usize) -> Result<&[u8], Fault> {
        let (start, end) = &mut self.ranges[column as usize];
        if *end - *start < len {
            return Err(Fault::ColumnEnds { column: column as u16 });
        }
        let bytes = &self.payload[*start..*start + len];
        *start += len;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self, column: Column) -> Result<u8, Fault> {
        Ok(self.raw(column, 1)?[0])
    }

    pub(super) fn number(&mut self, column: Column) -> Result<u64, Fault> {
        self.number_at(column as usize)
    }

    /// A number of a field that cannot hold all 64 bits.
    pub(super) fn narrow<T: TryFrom<u64>>(&mut self, column: Column, what: &'static str) -> Result<T, Fault> {
        narrow(self.number(column)?, what)
    }

    pub(super) fn delta(&mut self, column: Column) -> Result<u64, Fault> {
        let value = unzigzag(self.number(column)?).wrapping_add(self.previous[column as usize]);
        self.previous[column as usize] = value;
        Ok(value)
    }

    pub(super) fn narrow_delta<T: TryFrom<u64>>(&mut self, column: Column, what: &'static str) -> Result<T, Fault> {
        narrow(self.delta(column)?, what)
    }

    pub(super) fn difference(&mut self, column: Column, base: u64) -> Result<u64, Fault> {
        Ok(unzigzag(self.number(column)?).wrapping_add(base))
    }

    pub(super) fn value(&mut self, value_column: usize, base: u64) -> Result<u64, Fault> {
        Ok(unzigzag(self.number_at(FIXED_COLUMNS + value_column)?).wrapping_add(base))
    }

    /// A count of things, each of which takes at least one byte of some column.
    pub(super) fn count(&mut self, column: Column, what: &'static str, limit: usize) -> Result<usize, Fault> {
        let count = self.number(column)?;
        check_count(what, count, limit)
    }

    fn number_at(&mut self, column: usize) -> Result<u64, Fault> {
        let (start, end) = &mut self.ranges[column];
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            if start == end {
                return Err(Fault::ColumnEnds { column: column as u16 });
            }
            let byte = self.payload[*start];
            *start += 1;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                break;
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                // One spelling per number: no needless empty group at the end.
                if group == 0 && shift != 0 {
                    break;
                }
                return Ok(value);
            }
        }
        Err(Fault::Value { what: "a number of 64 bits", value })
    }
}

pub(super) fn narrow<T: TryFrom<u64>>(value: u64, what: &'static str) -> Result<T, Fault> {
    T::try_from(value).map_err(|_| Fault::Value { what, value })
}

pub(super) fn check_count(what: &'static str, count: u64, limit: usize) -> Result<usize, Fault> {
    let limit = limit as u64;
    if count > limit { Err(Fault::TooMany { what, count, limit }) } else { Ok(count as usize) }
}
