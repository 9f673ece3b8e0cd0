//! The fields of raw records, in the order of `bpf/record.h`.

use crate::error::Error;
use crate::raw::Record;

/// Takes little-endian fields off a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    short: bool,
}

impl<'a> Fields<'a> {
    /// The record's fields behind its header.
    pub(super) fn of(record: &Record<'a>) -> Fields<'a> {
        Fields { bytes: &record.bytes[16..], short: false }
    }

    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        match self.bytes.split_at_checked(N) {
            Some((taken, rest)) => {
                out.copy_from_slice(taken);
                self.bytes = rest;
            }
            None => self.short = true,
        }
        out
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// `count` numbers, as far as they are there.
    pub(super) fn u64s(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.u64()).collect()
    }

    /// Fails if a field was asked for that the record does not have.
    pub(super) fn complete(self, at: usize, what: &str) -> Result<(), Error> {
        if self.short {
            Err(Error::Raw { offset: at, message: format!("{what}: the record is too short") })
        } else {
            Ok(())
        }
    }
}

/// A packet enters.
#[derive(Debug, Clone)]
pub(super) struct Enqueue {
    pub(super) packet: u64,
    pub(super) len: u32,
    pub(super) data_len: u32,
    pub(super) truesize: u32,
    pub(super) priority: u32,
    pub(super) mark: u32,
    pub(super) protocol: u16,
    pub(super) network_offset: u16,
    pub(super) transport_offset: u16,
    pub(super) gso_size: u16,
    pub(super) gso_segments: u16,
    pub(super) gso_kind: u32,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) timestamp: u64,
    /// The first four bytes of the control block: the length for queueing.
    pub(super) qdisc_len: u32,
    /// The linear bytes that were recorded.
    pub(super) bytes: Vec<u8>,
    pub(super) vlan: Option<(u16, u16)>,
    pub(super) hash_carried: bool,
    pub(super) socket: u64,
    pub(super) parked: u32,
}

impl Enqueue {
    pub(super) fn parse(record: &Record<'_>, at: usize) -> Result<Enqueue, Error> {
        let mut f = Fields::of(record);
        let (packet, _qdisc) = (f.u64(), f.u64());
        let [len, data_len, truesize, priority, mark, _hash] = std::array::from_fn(|_| f.u32());
        let [protocol, network_offset, transport_offset, gso_size, gso_segments, _tc_index] =
            std::array::from_fn(|_| f.u16());
        let [gso_kind, qlen, backlog] = std::array::from_fn(|_| f.u32());
        let timestamp = f.u64();
        let control_block: [u8; 48] = f.array();
        let _flags: [u8; 8] = f.array();
        let first: [u8; 96] = f.array();
        let more: [u8; 64] = f.array();
        let linear = f.u32() as usize;
        let (vlan_protocol, vlan_tci) = (f.u16(), f.u16());
        let [l4_hash, software_hash, _encapsulation, _timestamp_type] = f.array();
        let _inner = (f.u16(), f.u16());
        let (socket, _jiffies, _pacing_rate) = (f.u64(), f.u64(), f.u64());
        let (_socket_hash, parked) = (f.u32(), f.u32());
        f.complete(at, "an enqueue")?;
        let mut bytes = first.to_vec();
        bytes.extend_from_slice(&more);
        bytes.truncate(linear);
        Ok(Enqueue {
            packet,
            len,
            data_len,
            truesize,
            priority,
            mark,
            protocol: protocol.swap_bytes(),
            network_offset,
            transport_offset,
            gso_size,
            gso_segments,
            gso_kind,
            qlen,
            backlog,
            timestamp,
            qdisc_len: u32::from_le_bytes([control_block[0], control_block[1], control_block[2], control_block[3]]),
            bytes,
            vlan: (vlan_protocol != 0).then_some((vlan_protocol.swap_bytes(), vlan_tci)),
            hash_carried: l4_hash != 0 || software_hash != 0,
            socket,
            parked,
        })
    }
}

/// An enqueue returns.
#[derive(Debug, Clone)]
pub(super) struct EnqueueReturn {
    pub(super) packet: u64,
    pub(super) code: u32,
    pub(super) hash: u32,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) control_block: [u8; 48],
    pub(super) freed: Vec<u64>,
}

impl EnqueueReturn {
    pub(super) fn parse(record: &Record<'_>, at: usize) -> Result<EnqueueReturn, Error> {
        let mut f = Fields::of(record);
        let (packet, _qdisc) = (f.u64(), f.u64());
        let [code, hash, qlen, backlog] = std::array::from_fn(|_| f.u32());
        let control_block = f.array();
        let (count, _) = (f.u32() as usize, f.u32());
        let mut freed = f.u64s(8);
        f.complete(at, "an enqueue's return")?;
        freed.truncate(count);
        Ok(EnqueueReturn { packet, code, hash, qlen, backlog, control_block, freed })
    }
}

/// A dequeue returns.
#[derive(Debug, Clone)]
pub(super) struct DequeueReturn {
    /// 0: nothing came out.
    pub(super) packet: u64,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) len: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) freed: Vec<u64>,
}

impl DequeueReturn {
    pub(super) fn parse(record: &Record<'_>, at: usize) -> Result<DequeueReturn, Error> {
        let mut f = Fields::of(record);
        let (_qdisc, packet) = (f.u64(), f.u64());
        let [qlen, backlog, len, _hash] = std::array::from_fn(|_| f.u32());
        let _control_block: [u8; 48] = f.array();
        let mut bytes = f.array::<64>().to_vec();
        let _counters = (f.u32(), f.u32(), f.u64(), f.u64());
        let (count, linear) = (f.u32() as usize, f.u32() as usize);
        let mut freed = f.u64s(8);
        f.complete(at, "a dequeue's return")?;
        bytes.truncate(linear);
        freed.truncate(count);
        Ok(DequeueReturn { packet, qlen, backlog, len, bytes, freed })
    }
}

/// A qdisc is made, changed or emptied.
#[derive(Debug, Clone)]
pub(super) struct Configure {
    pub(super) qdisc: u64,
    pub(super) what: u32,
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) mtu: u32,
    pub(super) link_header: u32,
}

impl Configure {
    /// `what` of `enum conf_what`.
    pub(super) const INIT: u32 = 1;
    pub(super) const CHANGE: u32 = 2;
    pub(super) const RESET: u32 = 3;
    pub(super) const DESTROY: u32 = 4;

    pub(super) fn parse(record: &Record<'_>, at: usize) -> Result<Configure, Error> {
        let mut f = Fields::of(record);
        let qdisc = f.u64();
        let [what, _ret, handle, parent, mtu, link_header] = std::array::from_fn(|_| f.u32());
        f.complete(at, "a configuration")?;
        Ok(Configure { qdisc, what, handle, parent, mtu, link_header })
    }
}
