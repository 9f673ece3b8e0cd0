//! The device around a queue discipline, and its creation.

use super::{KernelQdisc, Refusal};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::nla::Builder;
use crate::runtime::Runtime;
use crate::world::World;
use std::rc::Rc;

/// `TC_H_ROOT`.
pub const ROOT: u32 = 0xffff_ffff;
/// `TCA_OPTIONS`.
const TCA_OPTIONS: u16 = 2;
/// Marks nested attributes.
const NESTED: u16 = 0x8000;

/// Handle of the root that children without a real parent see.
pub(crate) const STRANGER: u32 = 0xffff_0000;

/// The device and place that a queue discipline is created for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QdiscSetup {
    /// Device MTU, bytes.
    pub mtu: u32,
    /// Link-layer header, bytes.
    pub hard_header_len: u16,
    /// `txqueuelen`, packets.
    pub tx_queue_len: u32,
    /// Largest GSO packet, bytes.
    pub gso_max_size: u32,
    /// Most segments of a GSO packet.
    pub gso_max_segs: u16,
    /// Own handle, major part in the high half.
    pub handle: u32,
    /// Class that it hangs below; [`ROOT`] for the root. A child sees a device whose root is somebody else.
    pub parent: u32,
    /// Device name, at most 15 bytes (shown in messages).
    pub device: &'static str,
}

impl Default for QdiscSetup {
    /// Root of an Ethernet device: MTU 1500, header 14, 1000 packets, handle 1:.
    fn default() -> Self {
        Self {
            mtu: 1500,
            hard_header_len: 14,
            tx_queue_len: 1000,
            gso_max_size: 65_536,
            gso_max_segs: 65_535,
            handle: 0x1_0000,
            parent: ROOT,
            device: "oracle0",
        }
    }
}

/// Memory of the forged device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) queue: u64,
    pub(super) dev: u64,
    blocks: Vec<u64>,
}

impl Device {
    pub(super) fn new(rt: &Runtime, setup: &QdiscSetup) -> Result<Self> {
        let btf = &*rt.image.btf;
        let mem = &rt.mem;
        let mut blocks = Vec::new();
        let mut block = |len: usize| -> Result<u64> {
            let at = rt.heap(len)?;
            blocks.push(at);
            Ok(at)
        };
        let dev = block(btf.size_of("net_device")?)?;
        let ndo = block(btf.size_of("net_device_ops")?)?;
        let queue = block(btf.size_of("netdev_queue")?)?;
        let refs = block(64)?;
        let addr = block(64)?;
        let net = block(btf.size_of("net")?)?;
        let set = |name: &str, value: u64| -> Result<()> {
            btf.field("net_device", name)?.write(mem, dev, value);
            Ok(())
        };
        set("mtu", setup.mtu.into())?;
        set("hard_header_len", setup.hard_header_len.into())?;
        set("tx_queue_len", setup.tx_queue_len.into())?;
        set("gso_max_size", setup.gso_max_size.into())?;
        set("gso_max_segs", setup.gso_max_segs.into())?;
        set("netdev_ops", ndo)?;
        set("num_tx_queues", 1)?;
        set("real_num_tx_queues", 1)?;
        set("type", 1)?; // ARPHRD_ETHER
        set("flags", 1)?; // IFF_UP
        set("ifindex", 2)?;
        set("_tx", queue)?;
        set("dev_addr", addr)?;
        set("nd_net.net", net)?;
        if btf.field("net_device", "gso_ipv4_max_size").is_ok() {
            set("gso_ipv4_max_size", setup.gso_max_size.into())?;
        }
        if btf.field("net_device", "pcpu_refcnt").is_ok() {
            set("pcpu_refcnt", refs.wrapping_sub(rt.gs_base))?;
        }
        if let Some(name) = btf.field("net_device", "name")?.plain_offset() {
            let text = setup.device.as_bytes();
            mem.write_bytes(dev + name, &text[..text.len().min(15)]);
        }
        mem.write(queue + btf.offset("netdev_queue", "dev")?, dev);
        Ok(Self { queue, dev, blocks })
    }

    /// Makes `root` the qdisc that the device's queue runs.
    fn set_root(&self, rt: &Runtime, root: u64) -> Result<()> {
        let btf = &*rt.image.btf;
        rt.mem.write(self.queue + btf.offset("netdev_queue", "qdisc")?, root);
        rt.mem.write(self.queue + btf.offset("netdev_queue", "qdisc_sleeping")?, root);
        rt.mem.write(self.dev + btf.offset("net_device", "qdisc")?, root);
        Ok(())
    }

    /// A stranger at the root, for a qdisc that is to be a child.
    fn set_stranger(&mut self, rt: &Runtime) -> Result<()> {
        let root = rt.heap(rt.image.btf.size_of("Qdisc")?)?;
        self.blocks.push(root);
        let btf = &*rt.image.btf;
        rt.mem.write(root + btf.offset("Qdisc", "dev_queue")?, self.queue);
        rt.mem.write(root + btf.offset("Qdisc", "handle")?, 0xffff_0000u32);
        rt.mem.write(root + btf.offset("Qdisc", "parent")?, ROOT);
        self.set_root(rt, root)
    }

    pub(super) fn free(&self, rt: &Runtime) {
        for block in &self.blocks {
            rt.heap_free(*block);
        }
    }
}

/// Space for extended error reports of netlink operations.
#[derive(Debug)]
pub(super) struct ExtAck {
    at: u64,
    len: u64,
    message: u64,
}

impl ExtAck {
    pub(super) fn new(rt: &Runtime) -> Result<Self> {
        let len = rt.image.btf.size_of("netlink_ext_ack")?;
        let message = rt.image.btf.offset("netlink_ext_ack", "_msg")?;
        Ok(Self { at: rt.heap(len)?, len: len as u64, message })
    }

    pub(super) fn fresh(&self, mem: &Memory) -> u64 {
        mem.zero(self.at, self.len);
        self.at
    }

    pub(super) fn free(&self, rt: &Runtime) {
        rt.heap_free(self.at);
    }

    /// `Err` for a negative return code.
    pub(super) fn judge(&self, rt: &Runtime, code: u64) -> Result<()> {
        let code = code as i32;
        if code >= 0 {
            return Ok(());
        }
        let text = rt.mem.read::<u64>(self.at + self.message);
        let text = (text != 0).then(|| rt.mem.c_str(text));
        Err(Error::Refused(Refusal { errno: -code, text }))
    }
}

/// The `TCA_OPTIONS` attribute in kernel memory; 0 when there are no options.
pub(super) fn options(rt: &Runtime, bytes: Option<&[u8]>) -> Result<u64> {
    let Some(bytes) = bytes else { return Ok(0) };
    let attribute = Builder::new().raw(TCA_OPTIONS | NESTED, bytes).finish();
    let at = rt.heap(attribute.len())?;
    rt.mem.write_bytes(at, &attribute);
    Ok(at)
}

impl World {
    /// Creates a queue discipline, passing `options` (the payload of `TCA_OPTIONS`) through the kernel's own
    /// parser. `None` sends no options attribute at all; `Some(&[])` an empty one. The module is loaded if
    /// need be.
    ///
    /// # Errors
    /// [`Error::Refused`] when the kernel says no, with its error text; [`Error::Fault`] for trouble inside.
    pub fn create_qdisc(&self, kind: &str, setup: QdiscSetup, options: Option<&[u8]>) -> Result<KernelQdisc<'_>> {
        let ops = self.qdisc_ops(kind)?;
        let rt = &*self.rt;
        let mut device = Device::new(rt, &setup)?;
        let extack = ExtAck::new(rt)?;
        if setup.parent != ROOT {
            device.set_stranger(rt)?;
        }
        let made = self.allocate_and_init(ops, &device, &extack, (setup.handle, setup.parent), options);
        match made {
            Ok(address) => KernelQdisc::new(self, kind, address, ops, Rc::new(device), extack, true),
            Err(e) => {
                device.free(rt);
                extack.free(rt);
                Err(e)
            }
        }
    }

    /// `place` is (handle, parent).
    pub(super) fn allocate_and_init(
        &self,
        ops: u64,
        device: &Device,
        extack: &ExtAck,
        place: (u32, u32),
        bytes: Option<&[u8]>,
    ) -> Result<u64> {
        const ERR_LIMIT: u64 = u64::MAX - 4095;
        let rt = &*self.rt;
        let btf = &*rt.image.btf;
        let (handle, parent) = place;
        let alloc = rt.symbol("qdisc_alloc")?;
        let address = rt.call(alloc, &[device.queue, ops, extack.fresh(&rt.mem)])?;
        if address >= ERR_LIMIT {
            extack.judge(rt, address)?;
        }
        rt.mem.write(address + btf.offset("Qdisc", "handle")?, handle);
        rt.mem.write(address + btf.offset("Qdisc", "parent")?, parent);
        if parent == ROOT {
            device.set_root(rt, address)?;
        }
        let init: u64 = rt.mem.read(ops + btf.offset("Qdisc_ops", "init")?);
        if init != 0 {
            let attribute = options(rt, bytes)?;
            let code = rt.call(init, &[address, attribute, extack.fresh(&rt.mem)]);
            rt.heap_free(attribute);
            let judged = code.and_then(|code| extack.judge(rt, code));
            if let Err(e) = judged {
                // A refused qdisc is torn down as the kernel does it.
                let destroy: u64 = rt.mem.read(ops + btf.offset("Qdisc_ops", "destroy")?);
                if destroy != 0 && matches!(e, Error::Refused(_)) {
                    rt.call(destroy, &[address])?;
                }
                rt.heap_free(address);
                return Err(e);
            }
        }
        Ok(address)
    }

    /// The operations table of a queue discipline.
    pub(crate) fn qdisc_ops(&self, kind: &str) -> Result<u64> {
        let rt = &*self.rt;
        let id = rt.image.btf.offset("Qdisc_ops", "id")?;
        let registered = |rt: &Runtime| rt.qdiscs.borrow().iter().copied().find(|ops| rt.mem.c_str(ops + id) == kind);
        if let Some(ops) = registered(rt) {
            return Ok(ops);
        }
        // Built in: the table has a name of its own.
        let in_image = rt.image.symbol(&format!("{kind}_qdisc_ops")).filter(|ops| rt.mem.c_str(ops + id) == kind);
        if let Some(ops) = in_image {
            return Ok(ops);
        }
        self.load_module(&format!("sch_{kind}"))?;
        registered(rt).ok_or_else(|| Error::NoAlgorithm {
            what: "queue discipline",
            name: kind.into(),
            release: rt.release.clone(),
        })
    }
}
