//! `cake_mq` (spec/cake.md §19) and fixed storage.

use super::support::{Frame, T0, World};
use crate::cake::{Cake, CakeMq, Config, Diffserv, Fixed, FlowMode, QueueState, TimePerByte};
use crate::{ConfigError, Configure, Context, Descriptor, DropReason, Linux, Qdisc, Scripted, Verdict};
use std::vec::Vec;

fn gigabit() -> Config {
    Config { bandwidth: Some(125_000_000), ..Config::default() }
}

/// §23.17.
#[test]
fn active_queues_share_the_rate() {
    let mut device = CakeMq::new(4, gigabit()).unwrap();
    let mut world = World::new(1);
    for (active, rate, mult, shift, bulk) in [
        (1, 125_000_000, 8_589_934_592, 30, (7_812_500, TimePerByte { mult: 8_589_934_592, shift: 26 })),
        (2, 62_500_000, 8_589_934_592, 29, (3_906_250, TimePerByte { mult: 8_589_934_592, shift: 25 })),
        (3, 41_666_666, 12_884_902_094, 29, (2_604_166, TimePerByte { mult: 12_884_905_186, shift: 25 })),
        (4, 31_250_000, 8_589_934_592, 28, (1_953_125, TimePerByte { mult: 8_589_934_592, shift: 24 })),
    ] {
        world.now += 200_000;
        for index in 0..active {
            let _ = device.queue(index).unwrap().enqueue(Frame::udp(1, 100, 0), &mut world);
        }
        assert!(device.queue(0).unwrap().dequeue(&mut world).is_some());
        let child = &device.children()[0];
        assert_eq!(child.shaper().time, TimePerByte { mult, shift });
        let (one, two) = (child.tin(0).unwrap(), child.tin(1).unwrap());
        assert_eq!((one.rate, (two.rate, two.time)), (rate, bulk));
        assert_eq!(child.stats().active_queues as usize, active);
        assert_eq!(child.parameters().bandwidth, 125_000_000, "the dump shows what is shared");
        assert_eq!(child.autorate().capacity, 0, "and the children never knew of it at the start");
    }
    assert_eq!(device.counters().qlen, 6);
}

#[test]
fn looks_are_spaced() {
    let mut device = CakeMq::new(2, gigabit()).unwrap();
    let mut world = World::new(1);
    let mut look = |device: &mut CakeMq<Frame, Vec<Cake<Frame>>>, later| {
        world.now = T0 + later;
        let _ = device.queue(0).unwrap().enqueue(Frame::udp(1, 100, 0), &mut world);
        let _ = device.queue(0).unwrap().dequeue(&mut world);
        (device.children()[0].sharing().last_check_ns - T0, device.children()[0].sharing().active)
    };
    assert_eq!(look(&mut device, 0), (0, 1));
    let mut other = World::new(1);
    other.now += 1;
    let _ = device.queue(1).unwrap().enqueue(Frame::udp(1, 100, 0), &mut other);
    assert!(device.queue(1).unwrap().dequeue(&mut other).is_some());
    assert_eq!(look(&mut device, 199_999), (0, 1));
    assert_eq!(look(&mut device, 200_000), (200_000, 2), "the other sent since");
    assert_eq!(look(&mut device, 400_000), (400_000, 1));
}

#[test]
fn refusals_of_cake_mq() {
    let refused = |queues, setup: crate::Setup<Config>| {
        CakeMq::<Descriptor, Vec<Cake<Descriptor>>>::new(queues, setup).unwrap_err().option
    };
    assert_eq!(refused(1, gigabit().into()), "cake_mq queues");
    assert_eq!(refused(4, gigabit().behave_like(Linux::V6_12)), "cake_mq");
    let autorate = Config { autorate_ingress: Some(true), ..Config::default() };
    assert_eq!(refused(4, autorate.into()), "autorate-ingress");
    let mut device = CakeMq::new(2, gigabit()).unwrap();
    let mut world = World::new(1);
    assert!(device.change(&autorate, &mut world).is_err());
    device.change(&Config { bandwidth: Some(1000), ..Config::default() }, &mut world).unwrap();
    assert!(device.children().iter().all(|child| child.parameters().bandwidth == 1000));
}

#[test]
fn small_priorities_choose_tins() {
    let mut device = CakeMq::new(2, gigabit()).unwrap();
    let mut world = World::new(1);
    let _ = device.queue(1).unwrap().enqueue(Frame { priority: 3, ..Frame::udp(1, 100, 0) }, &mut world);
    assert_eq!(device.children()[1].stats().tins()[2].sent_packets, 1);
}

#[test]
fn fixed_storage_of_linux_layout_is_linux() {
    let config = Config { bandwidth: Some(1_250_000), diffserv: Some(Diffserv::Diffserv4), ..Config::default() };
    std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || {
            let mut heap = Cake::<Descriptor>::new(config).unwrap();
            let mut fixed = Cake::<Descriptor, Fixed<8, 1024, 1024, 2048>>::in_storage(config).unwrap();
            let (mut cx, mut cy) = (Context::at(T0), Context::at(T0));
            for id in 0..20_000u32 {
                let flow = id.wrapping_mul(2_654_435_761) % 97;
                let packet = Descriptor::new(100 + id % 1400)
                    .with_id(id.into())
                    .with_flow_hash(flow)
                    .with_hosts(flow % 7, flow % 5)
                    .with_ds_field([0, 46 << 2, 8 << 2, 34 << 2][flow as usize % 4]);
                assert_eq!(heap.enqueue(packet, &mut cx), fixed.enqueue(packet, &mut cy));
                cx.advance_ns(500_000);
                cy.advance_ns(500_000);
                assert_eq!(heap.dequeue(&mut cx), fixed.dequeue(&mut cy));
            }
            assert_eq!((heap.stats(), heap.counters()), (fixed.stats(), fixed.counters()));
            assert!(heap.heap_order().eq(fixed.heap_order()));
            assert!(heap.counters().drops > 1000);
        })
        .unwrap()
        .join()
        .unwrap();
}

/// A cake of one tin, 64 queues and 16 packets.
type Small = Fixed<1, 64, 32, 16>;

fn small() -> Cake<Descriptor, Small> {
    Cake::in_storage(Config { diffserv: Some(Diffserv::Besteffort), ..Config::default() }).unwrap()
}

#[test]
fn full_storage_drops_from_the_longest_queue() {
    let mut queue = small();
    let mut cx = Scripted::at(T0).with_draws([0; 64]);
    let mut offer = |queue: &mut Cake<_, _>, id, flow| {
        let packet = Descriptor::new(1000).with_id(id).with_flow_hash(flow).with_hosts(flow, 0);
        (queue.enqueue(packet, &mut cx), cx.dropped.pop().map(|dropped| (dropped.packet.id, dropped.reason)))
    };
    for id in 0..12 {
        assert_eq!(offer(&mut queue, id, 7), (Verdict::Queued, None));
    }
    for id in 12..15 {
        assert_eq!(offer(&mut queue, id, 8), (Verdict::Queued, None));
    }
    for id in 15..18 {
        let (verdict, dropped) = offer(&mut queue, id, 9);
        assert_eq!((verdict, dropped), (Verdict::Queued, Some((id - 15, DropReason::StorageFull))));
        assert_eq!(queue.counters().qlen, 15);
    }
    assert_eq!(offer(&mut queue, 18, 7), (Verdict::Congested, Some((3, DropReason::StorageFull))));
}

#[test]
fn storage_refuses_more_tins() {
    let refused = Cake::<Descriptor, Small>::in_storage(Config::default()).unwrap_err();
    let allowed = "at most the tins which the storage holds";
    assert_eq!(refused, ConfigError { qdisc: "cake", option: "diffserv tins", value: 3, allowed });
    let mut queue = small();
    let change = Config { diffserv: Some(Diffserv::Diffserv4), wash: Some(true), ..Config::default() };
    assert!(queue.change(&change, &mut Context::at(T0)).is_err());
    assert!(!queue.parameters().wash, "nothing is changed then");
}

/// What the documentation of `Cake` says, and Linux's 104656 bytes a tin (spec/cake.md §4).
#[test]
fn memory() {
    let make = |diffserv, flow_mode| {
        let config = Config { diffserv: Some(diffserv), flow_mode: Some(flow_mode), ..Config::default() };
        Cake::<Descriptor>::new(config).unwrap().memory_bytes()
    };
    let one = make(Diffserv::Besteffort, FlowMode::TRIPLE_ISOLATE);
    let eight = make(Diffserv::Diffserv8, FlowMode::TRIPLE_ISOLATE);
    let flows = make(Diffserv::Besteffort, FlowMode::FLOWS);
    let per_tin = (eight - one) / 7;
    assert!((per_tin - 300..=per_tin).contains(&(86 * 1024)), "{per_tin}");
    assert_eq!(one - flows, 12 * 1024, "host slots only if hosts are isolated");
    assert!(one < 110_000 && eight < 730_000, "{one} {eight}");
    assert!(size_of::<Cake<Descriptor, Small>>() < 8_000, "{}", size_of::<Cake<Descriptor, Small>>());
}

/// States survive what a mode change leaves unused, and host tables appear when they are needed.
#[test]
fn hosts_are_made_on_change() {
    let mut queue = Cake::<Descriptor>::new(Config { flow_mode: Some(FlowMode::FLOWS), ..Config::default() }).unwrap();
    let mut cx = Context::at(T0);
    let packet = Descriptor::new(1000).with_flow_hash(5).with_hosts(3, 4);
    let _ = queue.enqueue(packet, &mut cx);
    assert!(queue.hosts(0).is_empty());
    queue.change(&Config { flow_mode: Some(FlowMode::TRIPLE_ISOLATE), ..Config::default() }, &mut cx).unwrap();
    assert_eq!((queue.hosts(0).len(), queue.hosts(2).len(), queue.hosts(3).len()), (1024, 1024, 0));
    assert_eq!(queue.queue(0, 5).unwrap().state, QueueState::Sparse);
    let _ = queue.enqueue(packet, &mut cx);
    assert_eq!(queue.counters().qlen, 2);
}
