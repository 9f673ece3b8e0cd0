use alloc::vec;
use alloc::vec::Vec;

use super::{Bfifo, Config, Pfifo, PfifoHeadDrop};
use crate::{Configure, Descriptor, DropReason, Fixed, Host, Linux, Qdisc, Scripted, TreeCorrection, Verdict};

fn packet(id: u64, len: u32) -> Descriptor {
    Descriptor::new(len).with_id(id)
}

fn limit(limit: u32) -> Config {
    Config { limit: Some(limit) }
}

fn dropped(cx: &Scripted<Descriptor>) -> Vec<(u64, DropReason)> {
    cx.dropped.iter().map(|drop| (drop.packet.id, drop.reason)).collect()
}

#[test]
fn pfifo_counts_packets_whatever_their_size() {
    let mut cx = Scripted::at(1);
    let mut queue = Pfifo::new(limit(2)).unwrap();
    assert_eq!(queue.enqueue(packet(1, 100_000), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(2, 1), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(3, 1), &mut cx), Verdict::Dropped);
    assert_eq!(dropped(&cx), [(3, DropReason::TailDrop)]);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, queue.counters().drops), (2, 100_001, 1));
    assert_eq!(queue.dequeue(&mut cx).map(|packet| packet.id), Some(1));
    assert_eq!((queue.counters().sent_bytes, queue.counters().sent_packets), (100_000, 1));
    assert_eq!(cx.clock_reads, 0);
}

#[test]
fn bfifo_accepts_what_fits_to_the_byte() {
    let mut cx = Scripted::at(1);
    let mut queue = Bfifo::new(limit(3000)).unwrap();
    assert_eq!(queue.enqueue(packet(1, 2900), &mut cx), Verdict::Queued);
    // RD-05 of the known faults: the arriving packet counts.
    assert_eq!(queue.enqueue(packet(2, 500), &mut cx), Verdict::Dropped);
    assert_eq!(queue.enqueue(packet(3, 101), &mut cx), Verdict::Dropped);
    assert_eq!(queue.enqueue(packet(4, 100), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(5, 0), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(6, 3001), &mut cx), Verdict::Dropped);
    assert_eq!(queue.enqueue(packet(7, u32::MAX), &mut cx), Verdict::Dropped, "the sum is 64 bits wide");
    assert_eq!(
        dropped(&cx),
        [(2, DropReason::TailDrop), (3, DropReason::TailDrop), (6, DropReason::TooBig), (7, DropReason::TooBig)]
    );
    assert_eq!(queue.counters().backlog_bytes, 3000);
}

#[test]
fn pfifo_head_drop_replaces_the_head() {
    let mut cx = Scripted::at(1);
    let mut queue = PfifoHeadDrop::new(limit(2)).unwrap();
    assert_eq!(queue.enqueue(packet(1, 1000), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(2, 200), &mut cx), Verdict::Queued);
    assert_eq!(queue.enqueue(packet(3, 300), &mut cx), Verdict::Congested);
    assert_eq!(queue.enqueue(packet(4, 900), &mut cx), Verdict::Congested);
    assert_eq!(dropped(&cx), [(1, DropReason::OverLimit), (2, DropReason::OverLimit)]);
    let correction = |bytes| TreeCorrection { packets: 0, bytes, emptied: false };
    assert_eq!(cx.corrections, [correction(700), correction(-700)]);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, queue.counters().drops), (2, 1200, 2));
    let left: Vec<_> = core::iter::from_fn(|| queue.dequeue(&mut cx)).map(|packet| packet.id).collect();
    assert_eq!(left, vec![3, 4]);
    assert_eq!((queue.counters().sent_bytes, queue.counters().sent_packets), (1200, 2));
}

#[test]
fn pfifo_head_drop_with_limit_0_drops_the_arriving_packet() {
    let mut cx = Scripted::at(1);
    let mut queue = PfifoHeadDrop::new(limit(0)).unwrap();
    assert_eq!(queue.enqueue(packet(1, 1000), &mut cx), Verdict::Dropped);
    assert_eq!(dropped(&cx), [(1, DropReason::TailDrop)]);
    assert_eq!(cx.corrections, []);
}

#[test]
fn a_lowered_limit_trims_nothing() {
    let mut cx = Scripted::at(1);
    let mut head_drop = PfifoHeadDrop::new(limit(3)).unwrap();
    let mut tail_drop = Pfifo::new(limit(3)).unwrap();
    for id in 1..=3 {
        assert_eq!(head_drop.enqueue(packet(id, 100), &mut cx), Verdict::Queued);
        assert_eq!(tail_drop.enqueue(packet(id, 100), &mut cx), Verdict::Queued);
    }
    head_drop.change(&limit(1));
    tail_drop.change(&limit(1));
    assert_eq!((head_drop.counters().qlen, tail_drop.counters().qlen), (3, 3));
    assert_eq!(head_drop.enqueue(packet(4, 100), &mut cx), Verdict::Congested);
    assert_eq!(tail_drop.enqueue(packet(4, 100), &mut cx), Verdict::Dropped);
    assert_eq!((head_drop.counters().qlen, tail_drop.counters().qlen), (3, 3), "one goes for each that comes");
    head_drop.change(&Config::default());
    assert_eq!(head_drop.parameters().limit, 1, "what is not given stays");
}

#[test]
fn peek_shows_the_real_head() {
    let mut cx = Scripted::at(1);
    let mut queue = Pfifo::new(Config::default()).unwrap();
    assert_eq!(queue.peek(&mut cx), None);
    for id in 1..=2 {
        assert_eq!(queue.enqueue(packet(id, 100), &mut cx), Verdict::Queued);
    }
    assert_eq!(queue.peek(&mut cx).map(|packet| packet.id), Some(1));
    assert_eq!((queue.counters().qlen, queue.counters().sent_packets), (2, 0), "nothing is parked or counted");
    assert_eq!(queue.dequeue_peeked(&mut cx).map(|packet| packet.id), Some(1));
    assert_eq!((queue.counters().qlen, queue.counters().sent_packets), (1, 1));
    queue.reset(&mut cx);
    assert_eq!(dropped(&cx), [(2, DropReason::Reset)]);
    assert_eq!((queue.counters().qlen, queue.counters().backlog_bytes, queue.counters().sent_packets), (0, 0, 1));
    assert_eq!(queue.dequeue(&mut cx), None);
}

#[test]
fn defaults_come_from_the_device() {
    let host = Host { tx_queue_len: 500, ..Host::default() };
    let none = || Config::default().on_host(host);
    assert_eq!(Pfifo::<Descriptor>::new(none()).unwrap().parameters().limit, 500);
    assert_eq!(PfifoHeadDrop::<Descriptor>::new(none()).unwrap().parameters().limit, 500);
    assert_eq!(Bfifo::<Descriptor>::new(none()).unwrap().parameters().limit, 500 * 1514);
    // The product is cut to 32 bits.
    let wide = Host { tx_queue_len: 1 << 31, mtu_bytes: 1503, ..host };
    let queue = Bfifo::<Descriptor>::new(Config::default().on_host(wide)).unwrap();
    assert_eq!(queue.parameters().limit, 1 << 31);
}

#[test]
fn bypass_follows_the_limit() {
    let bypass = |bytes| {
        let mut queue = Bfifo::<Descriptor>::new(Config::default()).unwrap();
        queue.change(&limit(bytes));
        queue.can_bypass()
    };
    assert!(bypass(1514) && !bypass(1513));
    let mut queue = Pfifo::<Descriptor>::new(limit(0)).unwrap();
    assert!(!queue.can_bypass());
    queue.change(&limit(1));
    assert!(queue.can_bypass());
    let mut queue = PfifoHeadDrop::<Descriptor>::new(limit(1)).unwrap();
    assert!(queue.can_bypass());
    queue.change(&limit(0));
    assert!(!queue.can_bypass());
}

#[test]
fn gso_packets_are_one_packet_and_many_segments() {
    let mut cx = Scripted::at(1);
    let mut queue = Pfifo::new(limit(1).behave_like(Linux::V6_1)).unwrap();
    let mut super_packet = packet(1, 6056);
    super_packet.gso = crate::Gso { segments: 4, segment_bytes: 1448 };
    assert_eq!(queue.enqueue(super_packet, &mut cx), Verdict::Queued);
    assert_eq!(queue.counters().qlen, 1);
    assert!(queue.dequeue(&mut cx).is_some());
    assert_eq!((queue.counters().sent_packets, queue.counters().sent_bytes), (4, 6056));
}

#[test]
fn without_heap() {
    let mut cx = Scripted::at(1);
    assert!(Pfifo::<Descriptor, Fixed<0, 4>>::in_storage(limit(5)).is_err());
    let mut queue = PfifoHeadDrop::<Descriptor, Fixed<0, 4>>::in_storage(limit(4)).unwrap();
    for id in 1..=9 {
        assert_eq!(queue.enqueue(packet(id, 60), &mut cx).adds_to_parent(), id <= 4);
    }
    assert_eq!((queue.counters().qlen, queue.counters().drops), (4, 5));
    let mut queue = Bfifo::<Descriptor, Fixed<0, 4>>::in_storage(Config::default()).unwrap();
    for id in 1..=5 {
        let verdict = queue.enqueue(packet(id, 60), &mut cx);
        assert_eq!(verdict, if id <= 4 { Verdict::Queued } else { Verdict::Dropped });
    }
    assert_eq!(cx.dropped.last().map(|drop| drop.reason), Some(DropReason::StorageFull));
}

#[test]
fn random_calls_conserve_packets() {
    use crate::conservation::{self, Chance};
    let mut queue = Pfifo::new(limit(7)).unwrap();
    let change = |queue: &mut Pfifo<_>, cx: &mut Chance| queue.change(&limit(cx.below(9) as u32));
    conservation::run(&mut queue, &mut Chance::new(1), 20_000, false, change, |_| {});
    let mut queue = Bfifo::new(limit(20_000)).unwrap();
    let change = |queue: &mut Bfifo<_>, cx: &mut Chance| queue.change(&limit(cx.below(40_000) as u32));
    conservation::run(&mut queue, &mut Chance::new(2), 20_000, false, change, |_| {});
    let mut queue = PfifoHeadDrop::new(limit(7)).unwrap();
    let change = |queue: &mut PfifoHeadDrop<_>, cx: &mut Chance| queue.change(&limit(cx.below(9) as u32));
    conservation::run(&mut queue, &mut Chance::new(3), 20_000, false, change, |_| {});
}
