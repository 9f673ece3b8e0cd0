//! Classes: the flows and tins that some qdiscs show as such.

use super::KernelQdisc;
use super::dump::{Message, attribute};
use crate::error::Result;
use crate::gate;
use crate::runtime;
use std::cell::RefCell;

/// `TCA_OPTIONS`.
const TCA_OPTIONS: u16 = 2;
/// `TCA_STATS_QUEUE`.
const TCA_STATS_QUEUE: u16 = 3;
/// `TCA_STATS_APP`.
const TCA_STATS_APP: u16 = 4;

/// One class as the kernel dumps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The kernel's own value for it (an index or a pointer).
    pub class: u64,
    /// Class id (`tcm_handle`) filled in by its dump.
    pub handle: u32,
    /// `TCA_OPTIONS` of the class.
    pub options: Vec<u8>,
    /// `TCA_STATS_QUEUE`: `struct gnet_stats_queue` (qlen, backlog, drops, requeues, overlimits).
    pub queue: Vec<u8>,
    /// `TCA_STATS_APP`: the kind's own.
    pub app: Vec<u8>,
}

thread_local! {
    static WALK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// (qdisc, class, walker): called by the kernel for each class.
extern "C" fn visit(_qdisc: u64, class: u64, _walker: u64) -> i32 {
    WALK.with(|w| w.borrow_mut().push(class));
    0
}

impl KernelQdisc<'_> {
    pub(super) fn class_op(&self, name: &str) -> Result<u64> {
        if self.ops.class_ops == 0 {
            return Err(self.missing("classes"));
        }
        let at = self.world.btf().offset("Qdisc_class_ops", name)?;
        match self.mem().read(self.ops.class_ops + at) {
            0 => Err(self.missing(name)),
            f => Ok(f),
        }
    }

    /// The classes that a walk shows, as the kernel's own values.
    ///
    /// # Errors
    /// Trouble inside the kernel code; [`crate::Error::NoHook`] for a kind without classes.
    pub fn class_walk(&self) -> Result<Vec<u64>> {
        let rt = self.rt();
        let walk = self.class_op("walk")?;
        let code = gate::trampoline(visit as *const () as u64);
        let stub = rt.heap(code.len())?;
        rt.mem.write_bytes(stub, &code);
        let walker = rt.heap(rt.image.btf.size_of("qdisc_walker")?)?;
        rt.mem.write(walker + rt.image.btf.offset("qdisc_walker", "fn")?, stub);
        WALK.with(|w| w.borrow_mut().clear());
        let result = rt.call(walk, &[self.address, walker]);
        rt.heap_free(walker);
        rt.heap_free(stub);
        result?;
        debug_assert!(runtime::current().is_some());
        Ok(WALK.with(|w| std::mem::take(&mut *w.borrow_mut())))
    }

    /// The kernel's value for a class id, if there is such a class.
    ///
    /// # Errors
    /// Trouble inside the kernel code; [`crate::Error::NoHook`] for a kind without classes.
    pub fn class_find(&self, classid: u32) -> Result<Option<u64>> {
        let class = self.rt().call(self.class_op("find")?, &[self.address, classid.into()])?;
        Ok((class != 0).then_some(class))
    }

    /// Dumps a class.
    ///
    /// # Errors
    /// Trouble inside the kernel code; [`crate::Error::NoHook`] for a kind without classes.
    pub fn class_dump(&self, class: u64) -> Result<Class> {
        let rt = self.rt();
        let mut out = Class { class, ..Class::default() };
        if let Ok(dump) = self.class_op("dump") {
            let message = Message::new(rt)?;
            let header = rt.heap(rt.image.btf.size_of("tcmsg")?)?;
            let code = rt.call(dump, &[self.address, class, message.skb(), header]);
            let handle = rt.mem.read(header + rt.image.btf.offset("tcmsg", "tcm_handle")?);
            rt.heap_free(header);
            code?;
            out.handle = handle;
            out.options = attribute(&message.bytes(), TCA_OPTIONS);
        }
        if let Ok(stats) = self.class_op("dump_stats") {
            let message = Message::new(rt)?;
            let dump = message.gnet_dump()?;
            let code = rt.call(stats, &[self.address, class, dump]);
            rt.heap_free(dump);
            code?;
            let bytes = message.bytes();
            out.queue = attribute(&bytes, TCA_STATS_QUEUE);
            out.app = attribute(&bytes, TCA_STATS_APP);
        }
        Ok(out)
    }

    /// All classes, dumped in walk order.
    ///
    /// # Errors
    /// As for [`KernelQdisc::class_walk`].
    pub fn classes(&self) -> Result<Vec<Class>> {
        self.class_walk()?.into_iter().map(|class| self.class_dump(class)).collect()
    }
}
