//! One interface for every queue discipline of the kernel.

mod classes;
mod dump;
mod private;
mod setup;
mod tree;

pub use classes::Class;
pub use dump::QdiscStats;
pub(crate) use setup::STRANGER;
pub use setup::{QdiscSetup, ROOT};

use crate::env::{DropPath, Event, record};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::packet::{PacketRef, PacketSpec};
use crate::runtime::Runtime;
use crate::world::World;
use private::Places;
use setup::{Device, ExtAck};
use std::rc::Rc;

/// A "no" from the kernel's configuration code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused with errno {errno}{}", text.as_deref().map(|t| format!(": {t}")).unwrap_or_default())]
pub struct Refusal {
    /// Positive errno (22 is EINVAL).
    pub errno: i32,
    /// The kernel's extended error text, if it gave one.
    pub text: Option<String>,
}

/// What an enqueue answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// Return code: verdict in the low 4 bits, hints above (spec/common.md §5).
    pub code: u32,
    /// The packet offered.
    pub packet: PacketRef,
}

/// A packet's outside, as the kernel left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Bytes.
    pub len: u32,
    /// What the qdisc accounted.
    pub qdisc_len: u32,
    /// Memory charge.
    pub truesize: u32,
    /// Flow hash held by the packet (0: none computed).
    pub hash: u32,
    /// Priority.
    pub priority: u32,
    /// Time stamp, ns.
    pub tstamp: u64,
}

/// Functions of the operations table; 0 when absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ops {
    enqueue: u64,
    dequeue: u64,
    peek: u64,
    change: u64,
    destroy: u64,
    dump: u64,
    dump_stats: u64,
    class_ops: u64,
    private_size: u32,
}

impl Ops {
    fn new(rt: &Runtime, ops: u64) -> Result<Self> {
        let at = |name| -> Result<u64> { Ok(rt.mem.read(ops + rt.image.btf.offset("Qdisc_ops", name)?)) };
        Ok(Self {
            enqueue: at("enqueue")?,
            dequeue: at("dequeue")?,
            peek: at("peek")?,
            change: at("change")?,
            destroy: at("destroy")?,
            dump: at("dump")?,
            dump_stats: at("dump_stats")?,
            class_ops: at("cl_ops")?,
            private_size: rt.mem.read(ops + rt.image.btf.offset("Qdisc_ops", "priv_size")?),
        })
    }
}

/// A queue discipline of the loaded kernel. Destroyed when dropped.
#[derive(Debug)]
pub struct KernelQdisc<'w> {
    world: &'w World,
    kind: String,
    address: u64,
    ops: Ops,
    places: Places,
    device: Rc<Device>,
    extack: ExtAck,
    to_free: u64,
    /// False for a child: its parent destroys it.
    owned: bool,
}

impl<'w> KernelQdisc<'w> {
    fn new(
        world: &'w World,
        kind: &str,
        address: u64,
        ops: u64,
        device: Rc<Device>,
        extack: ExtAck,
        owned: bool,
    ) -> Result<Self> {
        let ops = Ops::new(&world.rt, ops)?;
        Ok(Self {
            world,
            kind: kind.into(),
            address,
            places: Places::new(world, kind, ops.private_size)?,
            ops,
            device,
            extack,
            to_free: world.rt.heap(8)?,
            owned,
        })
    }

    /// A handle for a qdisc that belongs to its parent.
    fn view(world: &'w World, kind: &str, address: u64, ops: u64, device: Rc<Device>) -> Result<Self> {
        Self::new(world, kind, address, ops, device, ExtAck::new(&world.rt)?, false)
    }

    fn rt(&self) -> &'w Runtime {
        &self.world.rt
    }

    fn mem(&self) -> &'w Memory {
        &self.world.rt.mem
    }

    fn missing(&self, hook: &str) -> Error {
        Error::NoHook { owner: self.kind.clone(), hook: hook.into() }
    }

    /// The tc name.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The world it lives in.
    #[must_use]
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// Address of the kernel's `struct Qdisc`.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Offers a packet. Drops are in the events: those made inside first, then the to-free list.
    ///
    /// # Errors
    /// Trouble inside the kernel code, or a packet description that cannot be.
    pub fn enqueue(&self, spec: &PacketSpec<'_>) -> Result<Enqueued> {
        let rt = self.rt();
        let skb = rt.build_packet(spec)?;
        let packet = rt.packet_ref(skb);
        self.mem().write(skb + rt.layout.at.dev, self.device.dev);
        self.mem().write(self.to_free, 0u64);
        let code = rt.call(self.ops.enqueue, &[skb, self.address, self.to_free])? as u32;
        self.drain(self.to_free, DropPath::ToFree);
        self.drain_parked();
        Ok(Enqueued { code, packet })
    }

    /// Takes the next packet. Its frame can be read until the next call.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn dequeue(&self) -> Result<Option<PacketRef>> {
        let skb = self.rt().call(self.ops.dequeue, &[self.address])?;
        self.drain_parked();
        Ok(self.hand_out(skb))
    }

    /// Looks at the next packet as a parent would; it stays in the qdisc.
    ///
    /// # Errors
    /// Trouble inside the kernel code; [`Error::NoHook`] when it cannot be peeked.
    pub fn peek(&self) -> Result<Option<PacketRef>> {
        if self.ops.peek == 0 {
            return Err(self.missing("peek"));
        }
        let skb = self.rt().call(self.ops.peek, &[self.address])?;
        self.drain_parked();
        Ok((skb != 0).then(|| self.rt().packet_ref(skb)))
    }

    /// Takes the packet that a peek parked, or else dequeues: what a parent does after a peek.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn dequeue_peeked(&self) -> Result<Option<PacketRef>> {
        let (rt, mem, places) = (self.rt(), self.mem(), &self.places);
        let list = self.address + places.side_list;
        let skb: u64 = mem.read(list);
        if skb == list || skb == 0 {
            return self.dequeue();
        }
        rt.free_retired();
        let at = &rt.layout.at;
        let next: u64 = mem.read(skb + at.next);
        mem.write(list, next);
        mem.write(next + at.prev, list);
        mem.write(list + places.list_len, mem.read::<u32>(list + places.list_len).wrapping_sub(1));
        mem.write(skb + at.next, 0u64);
        mem.write(skb + at.prev, 0u64);
        let len: u32 = mem.read(skb + at.cb + at.pkt_len);
        places.backlog.write(mem, self.address, places.backlog.read(mem, self.address).wrapping_sub(len.into()));
        places.qlen.write(mem, self.address, places.qlen.read(mem, self.address).wrapping_sub(1));
        Ok(self.hand_out(skb))
    }

    fn hand_out(&self, skb: u64) -> Option<PacketRef> {
        (skb != 0).then(|| {
            let packet = self.rt().packet_ref(skb);
            self.rt().retire_packet(skb);
            packet
        })
    }

    /// Empties as `qdisc_reset` does: the type's own reset, the side list, queue length and backlog.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn reset(&self) -> Result<()> {
        let rt = self.rt();
        rt.call(rt.symbol("qdisc_reset")?, &[self.address])?;
        self.drain_parked();
        Ok(())
    }

    /// Changes options through the kernel's parser (`options` is the payload of `TCA_OPTIONS`).
    ///
    /// # Errors
    /// [`Error::Refused`] with the kernel's text; [`Error::NoHook`] when the kind cannot be changed.
    pub fn change(&self, options: &[u8]) -> Result<()> {
        if self.ops.change == 0 {
            return Err(self.missing("change"));
        }
        let rt = self.rt();
        let attribute = setup::options(rt, Some(options))?;
        let code = rt.call(self.ops.change, &[self.address, attribute, self.extack.fresh(&rt.mem)]);
        rt.heap_free(attribute);
        self.drain_parked();
        self.extack.judge(rt, code?)
    }

    /// Jiffy timers of this qdisc that are armed: (timer, expiry in jiffies).
    #[must_use]
    pub fn timers(&self) -> Vec<(u64, u64)> {
        let range = self.address..self.address + self.places.private + u64::from(self.ops.private_size);
        self.world.env().armed_timers().into_iter().filter(|(t, _)| range.contains(t)).collect()
    }

    /// Lets the earliest armed timer of this qdisc expire now, whatever the jiffies. False: none is armed.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn fire_timer(&self) -> Result<bool> {
        let Some((timer, _)) = self.timers().into_iter().min_by_key(|(_, expires)| *expires) else {
            return Ok(false);
        };
        self.world.fire_timer(timer)?;
        self.drain_parked();
        Ok(true)
    }

    /// Facts about a packet that is queued, or was given out by the last call.
    #[must_use]
    pub fn packet_info(&self, packet: PacketRef) -> Option<PacketInfo> {
        self.world.packet_info(packet)
    }

    /// Reports and frees a list of packets, oldest call order kept: the list's own order.
    fn drain(&self, head: u64, path: DropPath) {
        let (rt, mem) = (self.rt(), self.mem());
        let mut skb: u64 = mem.read(head);
        if skb == 0 {
            return;
        }
        mem.write(head, 0u64);
        while skb != 0 {
            let next = mem.read(skb + rt.layout.at.next);
            let reason = rt.layout.drop_reason.map_or(0, |o| mem.read(skb + rt.layout.at.cb + o));
            rt.env.log(record::ACTIONS, Event::Drop { packet: rt.packet_ref(skb), reason, path });
            rt.retire_packet(skb);
            skb = next;
        }
    }

    #[inline]
    fn drain_parked(&self) {
        if let Some(list) = self.places.parked {
            self.drain(self.address + list, DropPath::Parked);
        }
    }

    /// Ends the qdisc and says whether that went well; dropping does the same in silence.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn destroy(mut self) -> Result<()> {
        self.tear_down()
    }

    fn tear_down(&mut self) -> Result<()> {
        if self.address == 0 {
            return Ok(());
        }
        let rt = self.rt();
        let mut result = Ok(());
        if self.owned {
            result = self.reset();
            if result.is_ok() && self.ops.destroy != 0 {
                result = rt.call(self.ops.destroy, &[self.address]).map(|_| ());
            }
            let range = self.address..self.address + self.places.private + u64::from(self.ops.private_size);
            rt.env.timers.borrow_mut().retain(|(t, _)| !range.contains(t));
        }
        if result.is_ok() {
            if self.owned {
                rt.free_retired();
                rt.heap_free(self.address);
                self.device.free(rt);
            }
            rt.heap_free(self.to_free);
            self.extack.free(rt);
        }
        self.address = 0;
        result
    }
}

impl Drop for KernelQdisc<'_> {
    fn drop(&mut self) {
        // A world in trouble keeps the memory; it is thrown away with the world.
        let _ = self.tear_down();
    }
}

impl World {
    /// Lets an armed jiffy timer expire now.
    ///
    /// # Errors
    /// Trouble inside the kernel code; a timer that is not armed.
    pub fn fire_timer(&self, timer: u64) -> Result<()> {
        let rt = &*self.rt;
        let mut timers = rt.env.timers.borrow_mut();
        let before = timers.len();
        timers.retain(|(t, _)| *t != timer);
        if timers.len() == before {
            return Err(Error::Request(format!("timer {timer:#x} is not armed")));
        }
        drop(timers);
        let function: u64 = rt.mem.read(timer + rt.timer_function);
        rt.call(function, &[timer])?;
        Ok(())
    }

    /// Facts about a packet that is queued, or was given out or dropped by the last call.
    #[must_use]
    pub fn packet_info(&self, packet: PacketRef) -> Option<PacketInfo> {
        let skb = self.rt.packet_at(packet)?;
        let (mem, at) = (&self.rt.mem, &self.rt.layout.at);
        Some(PacketInfo {
            len: mem.read(skb + at.len),
            qdisc_len: mem.read(skb + at.cb + at.pkt_len),
            truesize: mem.read(skb + at.truesize),
            hash: mem.read(skb + at.hash),
            priority: mem.read(skb + at.priority),
            tstamp: mem.read(skb + at.tstamp),
        })
    }
}
