//! The kernel's own dumps: options and statistics.

use super::KernelQdisc;
use crate::error::Result;
use crate::nla::Attrs;
use crate::runtime::Runtime;

/// `TCA_OPTIONS`.
const TCA_OPTIONS: u16 = 2;
/// `TCA_STATS_APP`.
const TCA_STATS_APP: u16 = 4;
/// Room for one dump: cake with all tins needs about 5 KiB.
const ROOM: u64 = 32 << 10;

/// Standard counters and the kind's own statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QdiscStats {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent (segments counted).
    pub packets: u64,
    /// Packets queued.
    pub qlen: u32,
    /// Bytes queued.
    pub backlog: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Packets put back.
    pub requeues: u32,
    /// Times a limit applied.
    pub overlimits: u32,
    /// Payload of `TCA_STATS_APP`: the kind's own structure or attributes; empty when it has none.
    pub app: Vec<u8>,
}

/// A netlink message under construction.
pub(super) struct Message<'a> {
    rt: &'a Runtime,
    skb: u64,
    data: u64,
}

impl<'a> Message<'a> {
    pub(super) fn new(rt: &'a Runtime) -> Result<Self> {
        let (mem, lay) = (&rt.mem, &rt.layout);
        let skb = rt.heap(lay.skb_size as usize)?;
        let data = rt.heap((ROOM + lay.shinfo_size) as usize)?;
        mem.write(skb + lay.at.head, data);
        mem.write(skb + lay.at.data, data);
        mem.write(skb + lay.at.end, ROOM as u32);
        mem.write::<u32>(skb + lay.at.users, 1);
        Ok(Self { rt, skb, data })
    }

    pub(super) fn skb(&self) -> u64 {
        self.skb
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let len: u32 = self.rt.mem.read(self.skb + self.rt.layout.at.tail);
        self.rt.mem.bytes(self.data, len.into()).to_vec()
    }

    /// A `struct gnet_dump` that appends to this message.
    pub(super) fn gnet_dump(&self) -> Result<u64> {
        let btf = &self.rt.image.btf;
        let dump = self.rt.heap(btf.size_of("gnet_dump")?)?;
        self.rt.mem.write(dump + btf.offset("gnet_dump", "skb")?, self.skb);
        self.rt.mem.write(dump + btf.offset("gnet_dump", "tail")?, self.data);
        Ok(dump)
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        self.rt.heap_free(self.skb);
        self.rt.heap_free(self.data);
    }
}

/// The payload of the first attribute of a type.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Vec<u8> {
    Attrs::new(bytes).find(kind).map(|a| a.payload.to_vec()).unwrap_or_default()
}

impl KernelQdisc<'_> {
    /// The options as the kernel reports them: payload of `TCA_OPTIONS`.
    ///
    /// # Errors
    /// Trouble inside the kernel code; [`crate::Error::NoHook`] when the kind has no dump.
    pub fn dump(&self) -> Result<Vec<u8>> {
        if self.ops.dump == 0 {
            return Err(self.missing("dump"));
        }
        let message = Message::new(self.rt())?;
        let code = self.rt().call(self.ops.dump, &[self.address, message.skb()])?;
        self.drain_parked();
        // A negative code is an error; otherwise it is a length that does not matter here.
        if (code as i32) < 0 {
            self.extack.fresh(self.mem());
            self.extack.judge(self.rt(), code)?;
        }
        Ok(attribute(&message.bytes(), TCA_OPTIONS))
    }

    /// Standard counters from `struct Qdisc`, and the kind's own through its real statistics dump.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn stats(&self) -> Result<QdiscStats> {
        let counter = |path: &str| -> Result<u64> { Ok(self.read(&self.qdisc_field(path)?)) };
        let mut stats = QdiscStats {
            bytes: counter("bstats.bytes")?,
            packets: counter("bstats.packets")?,
            qlen: self.qlen(),
            backlog: self.backlog(),
            drops: counter("qstats.drops")? as u32,
            requeues: counter("qstats.requeues")? as u32,
            overlimits: counter("qstats.overlimits")? as u32,
            app: Vec::new(),
        };
        if self.ops.dump_stats != 0 {
            let message = Message::new(self.rt())?;
            let dump = message.gnet_dump()?;
            let code = self.rt().call(self.ops.dump_stats, &[self.address, dump]);
            self.rt().heap_free(dump);
            if (code? as i32) >= 0 {
                stats.app = attribute(&message.bytes(), TCA_STATS_APP);
            }
            self.drain_parked();
            // Some dumps bring the counters up to date.
            stats.qlen = self.qlen();
            stats.backlog = self.backlog();
        }
        Ok(stats)
    }
}
