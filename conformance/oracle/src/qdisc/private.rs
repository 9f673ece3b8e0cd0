//! Reading a qdisc's state through the kernel's type information.

use super::KernelQdisc;
use crate::error::{Error, Result, TypeError};
use crate::image::{Btf, Field};
use crate::world::World;
use std::rc::Rc;

/// Offsets in `struct Qdisc` that every call needs, and where the private part is described.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) qlen: Field,
    pub(super) backlog: Field,
    /// List of peeked packets.
    pub(super) side_list: u64,
    /// Offset of the count in a packet list.
    pub(super) list_len: u64,
    /// List of packets dropped by dequeue (7.x).
    pub(super) parked: Option<u64>,
    /// Offset of the private data.
    pub(super) private: u64,
    pub(super) btf: Rc<Btf>,
    /// Name of the private structure, when known.
    pub(super) structure: Option<String>,
}

impl Places {
    pub(super) fn new(world: &World, kind: &str, private_size: u32) -> Result<Self> {
        let image = world.btf();
        let btf = world.btf_of(&format!("sch_{kind}"));
        let private = image.offset("Qdisc", "privdata").or_else(|_| image.size_of("Qdisc").map(|s| s as u64))?;
        let structure = [format!("{kind}_sched_data"), format!("{kind}_sched")].into_iter().find(|n| btf.has_type(n));
        if let Some(name) = &structure {
            let size = btf.size_of(name)?;
            if size != private_size as usize {
                let kernel = private_size as usize;
                return Err(TypeError::Size { name: name.clone(), btf: size, kernel }.into());
            }
        }
        Ok(Self {
            qlen: image.field("Qdisc", "q.qlen")?,
            backlog: image.field("Qdisc", "qstats.backlog")?,
            side_list: image.offset("Qdisc", "gso_skb")?,
            list_len: image.offset("sk_buff_head", "qlen")?,
            parked: image.offset("Qdisc", "to_free").ok(),
            private,
            btf,
            structure,
        })
    }
}

impl KernelQdisc<'_> {
    /// Packets queued (`Qdisc.q.qlen`).
    #[inline]
    #[must_use]
    pub fn qlen(&self) -> u32 {
        self.places.qlen.read(self.mem(), self.address) as u32
    }

    /// Bytes queued (`Qdisc.qstats.backlog`).
    #[inline]
    #[must_use]
    pub fn backlog(&self) -> u32 {
        self.places.backlog.read(self.mem(), self.address) as u32
    }

    /// Resolves a path in the private structure once, e.g. "flows[17].cvars.count"; pointers are followed.
    ///
    /// # Errors
    /// The type information has no such path, or the private structure is unknown.
    pub fn field(&self, path: &str) -> Result<Field> {
        let structure = self.places.structure.as_deref();
        let structure = structure.ok_or_else(|| TypeError::NoType(format!("private data of {}", self.kind)))?;
        Ok(self.places.btf.field(structure, path)?.moved(self.places.private))
    }

    /// Resolves a path in `struct Qdisc` itself, e.g. "qstats.overlimits".
    ///
    /// # Errors
    /// The type information has no such path.
    pub fn qdisc_field(&self, path: &str) -> Result<Field> {
        Ok(self.world.btf().field("Qdisc", path)?)
    }

    /// Type information that describes the private data.
    #[must_use]
    pub fn btf(&self) -> &Btf {
        &self.places.btf
    }

    /// Name of the private structure.
    #[must_use]
    pub fn structure(&self) -> Option<&str> {
        self.places.structure.as_deref()
    }

    /// Size of the private data, bytes.
    #[must_use]
    pub fn private_size(&self) -> usize {
        self.ops.private_size as usize
    }

    /// Reads a resolved field, zero-extended; 0 through a null pointer.
    #[inline]
    #[must_use]
    pub fn read(&self, field: &Field) -> u64 {
        field.read(self.mem(), self.address)
    }

    /// Reads a resolved field, sign-extended if the kernel's type is signed.
    #[inline]
    #[must_use]
    pub fn read_signed(&self, field: &Field) -> i64 {
        field.read_signed(self.mem(), self.address)
    }

    /// Reads a path once; for repeated reads resolve it with [`KernelQdisc::field`].
    ///
    /// # Errors
    /// The type information has no such path.
    pub fn get(&self, path: &str) -> Result<u64> {
        Ok(self.read(&self.field(path)?))
    }

    /// Overwrites a field: for starting from a chosen state.
    pub fn write(&self, field: &Field, value: u64) {
        field.write(self.mem(), self.address, value);
    }

    /// Address of a field's value; 0 through a null pointer.
    #[inline]
    #[must_use]
    pub fn address_of(&self, field: &Field) -> u64 {
        field.locate(self.mem(), self.address)
    }

    /// Copies `len` bytes from a field on (a whole array, say) into a buffer, which is cleared first.
    pub fn read_bytes(&self, field: &Field, len: usize, into: &mut Vec<u8>) {
        into.clear();
        let at = self.address_of(field);
        into.extend_from_slice(self.mem().bytes(at, len as u64));
    }

    /// Members of a kernel list (`struct list_head`), in order, as addresses of the structures that
    /// contain them: `member` is the link inside `structure`, e.g. `("fq_codel_flow", "flowchain")`.
    ///
    /// # Errors
    /// Unknown names; a list that does not close within 2^20 members.
    pub fn list(&self, head: &Field, structure: &str, member: &str) -> Result<Vec<u64>> {
        let link = self.places.btf.offset(structure, member)?;
        let head = self.address_of(head);
        let mut out = Vec::new();
        let mut at: u64 = self.mem().read(head);
        while at != head && at != 0 {
            if out.len() >= 1 << 20 {
                return Err(Error::Request(format!("list of {structure} does not close")));
            }
            out.push(at.wrapping_sub(link));
            at = self.mem().read(at);
        }
        Ok(out)
    }

    /// As [`KernelQdisc::list`], as indices in the array that `array` (a pointer or array member of the
    /// private structure) holds: which flows are on the list.
    ///
    /// # Errors
    /// Unknown names; a member outside the array.
    pub fn list_indices(&self, head: &str, structure: &str, member: &str, array: &str) -> Result<Vec<u32>> {
        let base = self.address_of(&self.field(&format!("{array}[0]"))?);
        let size = self.places.btf.size_of(structure)? as u64;
        self.list(&self.field(head)?, structure, member)?
            .into_iter()
            .map(|at| {
                let offset = at.wrapping_sub(base);
                let whole = offset % size == 0 && offset / size < 1 << 20;
                whole
                    .then(|| (offset / size) as u32)
                    .ok_or_else(|| Error::Request(format!("a member of {head} is not in {array}")))
            })
            .collect()
    }

    /// Makes the qdisc believe that filters are installed; their answers come from
    /// [`crate::Environment::script_classifier`].
    ///
    /// # Errors
    /// The kind has no filter list.
    pub fn attach_filter(&self, attached: bool) -> Result<()> {
        let list = self.field("filter_list").or_else(|_| self.field("tins[0].filter_list"))?;
        // Never dereferenced: only the replaced classifier gets it.
        self.write(&list, if attached { self.address } else { 0 });
        Ok(())
    }
}

impl World {
    /// Reads a resolved field of a structure at an address in the world.
    #[inline]
    #[must_use]
    pub fn read_field(&self, field: &Field, address: u64) -> u64 {
        field.read(&self.rt.mem, address)
    }

    /// As [`World::read_field`], sign-extended if the kernel's type is signed.
    #[inline]
    #[must_use]
    pub fn read_field_signed(&self, field: &Field, address: u64) -> i64 {
        field.read_signed(&self.rt.mem, address)
    }

    /// Writes a resolved field of a structure at an address in the world.
    #[inline]
    pub fn write_field(&self, field: &Field, address: u64, value: u64) {
        field.write(&self.rt.mem, address, value);
    }
}
