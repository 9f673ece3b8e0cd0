//! Trees: classes made through the kernel's parser, children grafted below them.
//!
//! Below a real parent, tree corrections are not only reported but carried out, by the kernel's own code.

use super::KernelQdisc;
use super::setup::{self, ROOT};
use crate::error::{Error, Result};

/// `TCA_OPTIONS`.
const TCA_OPTIONS: u64 = 2;
/// Slots of an attribute table: more than any `TCA_*`.
const TCA_SLOTS: u64 = 32;

impl<'w> KernelQdisc<'w> {
    /// Creates or changes a class (`tc class add|change`): `options` is the payload of its `TCA_OPTIONS`.
    ///
    /// # Errors
    /// [`Error::Refused`] with the kernel's text; [`Error::NoHook`] when classes cannot be made.
    pub fn class_change(&self, classid: u32, parent: u32, options: &[u8]) -> Result<()> {
        let rt = self.rt();
        let change = self.class_op("change")?;
        let class = self.class_find(classid)?.unwrap_or(0);
        let table = rt.heap((8 * TCA_SLOTS) as usize)?;
        let attribute = setup::options(rt, Some(options))?;
        rt.mem.write(table + 8 * TCA_OPTIONS, attribute);
        let arg = rt.heap(8)?;
        rt.mem.write(arg, class);
        let extack = self.extack.fresh(&rt.mem);
        let code = rt.call(change, &[self.address, classid.into(), parent.into(), table, arg, extack]);
        for block in [table, attribute, arg] {
            rt.heap_free(block);
        }
        self.extack.judge(rt, code?)
    }

    /// Creates a queue discipline and grafts it below a class of this one; the previous child goes the
    /// kernel's way. The handle serves to look at the child and ends with it: its parent destroys it.
    ///
    /// # Errors
    /// [`Error::Refused`] when the kernel says no; [`Error::Request`] for a class that does not exist.
    pub fn create_child(
        &self,
        classid: u32,
        kind: &str,
        handle: u32,
        options: Option<&[u8]>,
    ) -> Result<KernelQdisc<'_>> {
        let rt = self.rt();
        let class = self.class_find(classid)?;
        let class = class.ok_or_else(|| Error::Request(format!("{}: no class {classid:#x}", self.kind)))?;
        let ops = self.world.qdisc_ops(kind)?;
        let address = self.world.allocate_and_init(ops, &self.device, &self.extack, (handle, classid), options)?;
        rt.call(rt.symbol("qdisc_hash_add")?, &[address, 0])?;
        let slot = rt.heap(8)?;
        let code = self.class_op("graft").and_then(|graft| {
            let extack = self.extack.fresh(&rt.mem);
            rt.call(graft, &[self.address, class, address, slot, extack])
        });
        let old: u64 = rt.mem.read(slot);
        rt.heap_free(slot);
        self.extack.judge(rt, code?)?;
        if old != 0 {
            rt.call(rt.symbol("qdisc_put")?, &[old])?;
        }
        KernelQdisc::view(self.world, kind, address, ops, self.device.clone())
    }

    /// A handle for the child below a class, whoever made it (tbf and htb make one by default).
    ///
    /// # Errors
    /// [`Error::NoHook`] for a kind without classes; trouble inside the kernel code.
    pub fn child(&self, classid: u32) -> Result<Option<KernelQdisc<'_>>> {
        let rt = self.rt();
        let Some(class) = self.class_find(classid)? else {
            return Ok(None);
        };
        let address = rt.call(self.class_op("leaf")?, &[self.address, class])?;
        if address == 0 {
            return Ok(None);
        }
        let ops = rt.mem.read(address + rt.image.btf.offset("Qdisc", "ops")?);
        let kind = rt.mem.c_str(ops + rt.image.btf.offset("Qdisc_ops", "id")?);
        KernelQdisc::view(self.world, &kind, address, ops, self.device.clone()).map(Some)
    }

    /// The parent's class id; [`ROOT`] at the root.
    #[must_use]
    pub fn parent(&self) -> u32 {
        let field = self.world.btf().field("Qdisc", "parent");
        field.map_or(ROOT, |f| self.read(&f) as u32)
    }
}
