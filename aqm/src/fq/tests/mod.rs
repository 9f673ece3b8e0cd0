mod config;
mod flows;
mod pacing;

pub(super) use alloc::vec;
pub(super) use alloc::vec::Vec;

pub(super) use super::*;
pub(super) use crate::{
    Configure, Descriptor, DropReason, Event, EventKind, Fixed, Host, Linux, Qdisc, Scripted, Socket, SocketState,
    Storage, TreeCorrection, Verdict,
    time::{ms, us},
};

pub(super) type P = Paced<Descriptor>;

pub(super) const S: u64 = 1_000_000_000;
pub(super) const A: Socket = Socket::tcp(0x1000, 77);
pub(super) const B: Socket = Socket::tcp(0x2000, 78);

pub(super) fn packet(id: u64, socket: Socket) -> P {
    Paced::new(Descriptor::new(1514).with_id(id).with_ds_field(2), socket)
}

pub(super) fn orphan(id: u64, hash: u32) -> P {
    Paced { packet: Descriptor::new(1514).with_id(id).with_flow_hash(hash), socket: None, departure_ns: 0 }
}

pub(super) fn with_priority(mut packet: P, priority: u32) -> P {
    packet.packet.priority = priority;
    packet
}

pub(super) fn made(linux: Linux, config: Config) -> Fq<P> {
    Fq::new(config.behave_like(linux)).unwrap()
}

pub(super) fn put<Q: Qdisc<P>>(queue: &mut Q, packet: P, cx: &mut Scripted<P>) {
    assert_eq!(queue.enqueue(packet, cx), Verdict::Queued);
}

pub(super) fn get<Q: Qdisc<P>>(queue: &mut Q, cx: &mut Scripted<P>) -> Option<u64> {
    queue.dequeue(cx).map(|packet| packet.packet.id)
}

/// Every packet that may leave at this time.
pub(super) fn burst<Q: Qdisc<P>>(queue: &mut Q, at_ns: u64, cx: &mut Scripted<P>) -> Vec<u64> {
    cx.now_ns = at_ns;
    core::iter::from_fn(|| get(queue, cx)).collect()
}

pub(super) fn watchdog(queue: &Fq<P>) -> Option<u64> {
    queue.next_event().map(|Event { at_ns, kind }| {
        assert_eq!(kind, EventKind::Watchdog);
        at_ns
    })
}

pub(super) fn credit(queue: &Fq<P>, key: u64) -> i32 {
    queue.flows().find(|flow| flow.key == key).unwrap().credit_bytes
}
