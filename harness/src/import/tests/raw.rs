//! Raw records, as the recorder writes them.

/// A raw recording in the making.
#[derive(Default)]
pub(super) struct Raw {
    pub(super) bytes: Vec<u8>,
    pub(super) records: u32,
}

/// Where the qdisc's text lies in these recordings, and an address outside.
pub(super) const OWN: u64 = 0xffff_1000;
pub(super) const FOREIGN: u64 = 0xffff_5000;
pub(super) const SYMBOLS: &str = "ffff1000 ffff2000 fq_codel_enqueue\n12:ffff2000 ffff3000 cake_dequeue\n";

/// An Ethernet, IPv4 and TCP header of 66 bytes with this DS field and sequence number, and some payload.
pub(super) fn frame(ds: u8, sequence: u32) -> [u8; 96] {
    let mut frame = [0xee; 96];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, ds]);
    frame[23] = 6;
    frame[38..42].copy_from_slice(&sequence.to_be_bytes());
    frame[46] = 0x80;
    frame
}

/// What an enqueue record says.
#[derive(Clone)]
pub(super) struct Enqueue {
    pub(super) packet: u64,
    pub(super) len: u32,
    pub(super) qdisc_len: u32,
    pub(super) truesize: u32,
    pub(super) hash: u32,
    pub(super) gso: (u16, u16),
    pub(super) queue: (u32, u32),
    pub(super) data: [u8; 96],
}

impl Default for Enqueue {
    fn default() -> Self {
        let data = frame(2, 1000);
        Self { packet: 1, len: 1514, qdisc_len: 1514, truesize: 2304, hash: 7, gso: (0, 0), queue: (0, 0), data }
    }
}

impl Raw {
    pub(super) fn record(&mut self, kind: u16, body: &[u8]) -> &mut Self {
        let time_ns = 1_000_000 + u64::from(self.records);
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&(body.len() as u16 + 16).to_le_bytes());
        self.bytes.extend_from_slice(&self.records.to_le_bytes());
        self.bytes.extend_from_slice(&time_ns.to_le_bytes());
        self.bytes.extend_from_slice(body);
        self.records += 1;
        self
    }

    fn longs(&mut self, kind: u16, longs: &[u64]) -> &mut Self {
        let body: Vec<u8> = longs.iter().flat_map(|long| long.to_le_bytes()).collect();
        self.record(kind, &body)
    }

    pub(super) fn enqueue(&mut self, e: &Enqueue) -> &mut Self {
        let mut body = Vec::new();
        body.extend([e.packet, 0xabc].iter().flat_map(|long| long.to_le_bytes()));
        let data_len = e.len.saturating_sub(66);
        body.extend([e.len, data_len, e.truesize, 0, 0, e.hash].iter().flat_map(|word| word.to_le_bytes()));
        body.extend([0x0008, 14, 34, e.gso.0, e.gso.1, 0u16].iter().flat_map(|half| half.to_le_bytes()));
        body.extend([u32::from(e.gso.0 != 0), e.queue.0, e.queue.1].iter().flat_map(|word| word.to_le_bytes()));
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&e.qdisc_len.to_le_bytes());
        body.extend_from_slice(&[0; 44 + 8]);
        body.extend_from_slice(&e.data);
        self.record(1, &body)
    }

    /// An enqueue's return; `stamp` is the eight bytes at offset 8 of the control block.
    pub(super) fn enqueued(
        &mut self,
        packet: u64,
        code: u32,
        hash: u32,
        queue: (u32, u32),
        stamp: u64,
        freed: &[u64],
    ) -> &mut Self {
        let mut body = Vec::new();
        body.extend([packet, 0xabc].iter().flat_map(|long| long.to_le_bytes()));
        body.extend([code, hash, queue.0, queue.1].iter().flat_map(|word| word.to_le_bytes()));
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&stamp.to_le_bytes());
        body.extend_from_slice(&[0; 32]);
        body.extend([freed.len() as u32, 0].iter().flat_map(|word| word.to_le_bytes()));
        let listed = freed.iter().copied().chain(std::iter::repeat(0)).take(8);
        body.extend(listed.flat_map(|long| long.to_le_bytes()));
        self.record(2, &body)
    }

    pub(super) fn dequeue(&mut self, queue: (u32, u32)) -> &mut Self {
        let mut body = 0xabcu64.to_le_bytes().to_vec();
        body.extend([queue.0, queue.1].iter().flat_map(|word| word.to_le_bytes()));
        self.record(3, &body)
    }

    pub(super) fn dequeued(&mut self, packet: u64, len: u32, queue: (u32, u32), data: &[u8; 96]) -> &mut Self {
        let mut body = Vec::new();
        body.extend([0xabc, packet].iter().flat_map(|long| long.to_le_bytes()));
        body.extend([queue.0, queue.1, len, 0].iter().flat_map(|word| word.to_le_bytes()));
        body.extend_from_slice(&[0; 48]);
        body.extend_from_slice(&data[..64]);
        self.record(4, &body)
    }

    pub(super) fn clock(&mut self, ns: u64, caller: u64, preemption: u64) -> &mut Self {
        self.longs(5, &[ns, caller, preemption])
    }

    pub(super) fn draw(&mut self, value: u64, bits: u64) -> &mut Self {
        self.longs(6, &[value, bits, 0])
    }

    pub(super) fn dropped(&mut self, packet: u64) -> &mut Self {
        self.longs(10, &[packet, 2, 0xabc])
    }

    pub(super) fn correction(&mut self, packets: i64, bytes: i64) -> &mut Self {
        self.longs(11, &[0xabc, packets as u64, bytes as u64])
    }

    pub(super) fn lookup(&mut self, queue: u64) -> &mut Self {
        self.longs(13, &[queue, 7, 0])
    }

    pub(super) fn state(&mut self, what: u32, bytes: &[u8]) -> &mut Self {
        let mut body = Vec::new();
        body.extend([what, bytes.len() as u32].iter().flat_map(|word| word.to_le_bytes()));
        body.extend_from_slice(bytes);
        self.record(14, &body)
    }

    /// cake's two states after a delivery, in 6.1's layout: queue and memory in use are told.
    pub(super) fn cake_states(&mut self, tin: u32, queue: u16, memory: u32) -> &mut Self {
        self.state(0xca0, &[0; 96]);
        let mut qdisc = [0; 176];
        qdisc[56..60].copy_from_slice(&memory.to_le_bytes());
        qdisc[72..74].copy_from_slice(&(tin as u16).to_le_bytes());
        qdisc[74..76].copy_from_slice(&queue.to_le_bytes());
        self.state(0xca1 | tin << 16, &qdisc)
    }

    /// A congestion-control record: `17` before, `18` after; `cwnd` and the private area's first word are told.
    pub(super) fn hook(&mut self, kind: u16, function: u32, socket: u64, cwnd: u32, private: u32) -> &mut Self {
        let mut body = Vec::new();
        body.extend([function, 0].iter().flat_map(|word| word.to_le_bytes()));
        let jiffies = 5000 + u64::from(self.records);
        body.extend([socket, 0xdead_0000_0001, 2, 0, 10, socket, jiffies].iter().flat_map(|long| long.to_le_bytes()));
        body.extend_from_slice(&cwnd.to_le_bytes());
        body.extend_from_slice(&[0; 27 * 4 + 64]);
        body.extend([0, 4].iter().flat_map(|word: &u32| word.to_le_bytes()));
        body.extend([1000u16, 5201].iter().flat_map(|half| half.to_le_bytes()));
        body.extend_from_slice(&[1, 0, 0, 0]);
        body.extend_from_slice(&80u32.to_le_bytes());
        body.extend_from_slice(&[3; 80]);
        body.extend_from_slice(&private.to_le_bytes());
        body.extend_from_slice(&[0; 100 + 4]);
        self.record(kind, &body)
    }
}
