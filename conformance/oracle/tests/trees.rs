//! Shapers and netem, and trees with real corrections.

mod common;

use common::{kernels, tcp4, with_world};
use debloat_oracle::{Event, Hash, PacketSpec, QdiscSetup, WorldOptions, nla};

/// `struct tc_ratespec` for Ethernet.
fn rate_spec(bytes_per_second: u32) -> Vec<u8> {
    let mut b = vec![0, 1, 0, 0, 0xff, 0xff, 0, 0];
    b.extend_from_slice(&bytes_per_second.to_le_bytes());
    b
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// `TCA_TBF_PARMS`: 125 000 B/s, room for 100 packets, burst in psched ticks of 64 ns.
fn tbf() -> Vec<u8> {
    let ticks = 12_112_000 / 64;
    let parms = [rate_spec(125_000), rate_spec(0), words(&[150_000, ticks, 0])].concat();
    nla::Builder::new().raw(1, &parms).u32(6, 1514).finish()
}

#[test]
fn tbf_shapes_and_corrects_for_its_child() {
    for kernel in kernels("tbf_shapes_and_corrects_for_its_child") {
        with_world(&kernel, WorldOptions::default(), |w| {
            w.set_time(1_000_000_000);
            let q = w.create_qdisc("tbf", QdiscSetup::default(), Some(&tbf()))?;
            let child = q.create_child(0x1_0001, "codel", 0x2_0000, None)?;
            let frame = tcp4(1, 1514, 0);
            for id in 0..50 {
                q.enqueue(&PacketSpec { id, ..PacketSpec::new(&frame) })?;
            }
            assert_eq!((q.qlen(), child.qlen()), (50, 50));
            let mut events = Vec::new();
            let (mut sent, mut dropped, mut now) = (0, 0, 1_000_000_000u64);
            for _ in 0..200 {
                w.env().clear_events();
                sent += u32::from(q.dequeue()?.is_some());
                w.env().take_events(&mut events);
                dropped += events.iter().filter(|e| matches!(e, Event::Drop { .. })).count() as u32;
                for e in &events {
                    if let Event::Watchdog { expires_ns, .. } = e {
                        now = now.max(*expires_ns);
                    }
                }
                w.set_time(now);
                // The parent's sums follow the child's drops: the kernel's own correction ran.
                assert_eq!(q.qlen(), child.qlen(), "{}", w.kernel().release());
            }
            assert_eq!(sent + dropped, 50, "sent {sent} dropped {dropped} at {now}");
            // 50 packets at 12.112 ms, the first from the bucket.
            assert!(dropped > 0 && now > 1_300_000_000);
            Ok(())
        });
    }
}

#[test]
fn htb_serves_its_classes() {
    for kernel in kernels("htb_serves_its_classes") {
        with_world(&kernel, WorldOptions::default(), |w| {
            w.set_time(1_000_000_000);
            // struct tc_htb_glob: version 3, rate2quantum 10, default class 0x20.
            let init = nla::Builder::new().raw(2, &words(&[3, 10, 0x20, 0, 0])).u32(5, 1000).finish();
            let q = w.create_qdisc("htb", QdiscSetup::default(), Some(&init))?;
            // struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio; and the two rate tables.
            let class = |rate: u32| {
                let opt = [rate_spec(rate), rate_spec(rate), words(&[200_000, 200_000, 1514, 0, 0])].concat();
                nla::Builder::new().raw(1, &opt).finish()
            };
            q.class_change(0x1_0010, 0x1_0000, &class(1_250_000))?;
            q.class_change(0x1_0020, 0x1_0000, &class(125_000))?;
            let leaf = q.create_child(0x1_0010, "fq_codel", 0x10_0000, None)?;
            let frame = tcp4(1, 1514, 0);
            for id in 0..20u64 {
                let priority = if id % 2 == 0 { 0x1_0010 } else { 0 };
                q.enqueue(&PacketSpec { id, priority, hash: Hash::L4(id as u32), ..PacketSpec::new(&frame) })?;
            }
            assert_eq!((q.qlen(), leaf.qlen()), (20, 10));
            let (mut order, mut now, mut events) = (Vec::new(), 1_000_000_000u64, Vec::new());
            for _ in 0..400 {
                w.env().clear_events();
                if let Some(p) = q.dequeue()? {
                    order.push(p.id);
                }
                w.env().take_events(&mut events);
                for e in &events {
                    if let Event::Watchdog { expires_ns, .. } = e {
                        now = now.max(*expires_ns);
                    }
                }
                w.set_time(now);
            }
            assert_eq!(order.len(), 20, "{order:?}");
            // The fast class is through long before the slow one.
            let half: Vec<_> = order[..12].iter().filter(|id| *id % 2 == 0).collect();
            assert!(half.len() >= 9, "{order:?}");
            assert_eq!((q.qlen(), leaf.qlen()), (0, 0));
            assert!(q.classes()?.len() == 2);
            Ok(())
        });
    }
}

#[test]
fn netem_delays_and_duplicates() {
    for kernel in kernels("netem_delays_and_duplicates") {
        with_world(&kernel, WorldOptions::default(), |w| {
            w.set_time(1_000_000_000);
            // struct tc_netem_qopt: latency (ticks of 64 ns), limit, loss, gap, duplicate, jitter.
            let delay = 10_000_000 / 64;
            let options = nla::Builder::new().prefix(&words(&[delay, 1000, 0, 0, 0, 0])).finish();
            let q = w.create_qdisc("netem", QdiscSetup::default(), Some(&options))?;
            let frame = tcp4(1, 500, 0);
            q.enqueue(&PacketSpec { id: 1, ..PacketSpec::new(&frame) })?;
            assert_eq!(q.dequeue()?, None);
            w.set_time(1_009_999_999);
            assert_eq!(q.dequeue()?, None);
            w.set_time(1_010_000_000);
            assert_eq!(q.dequeue()?.map(|p| p.id), Some(1));
            // Every packet doubled: a clone shares the data, and both are freed.
            let options = nla::Builder::new().prefix(&words(&[0, 1000, 0, 0, u32::MAX, 0])).finish();
            q.change(&options)?;
            let before = w.memory_in_use().0;
            for id in 0..100 {
                q.enqueue(&PacketSpec { id, ..PacketSpec::new(&frame) })?;
            }
            let mut n = 0;
            while q.dequeue()?.is_some() {
                n += 1;
            }
            assert_eq!(n, 200);
            q.reset()?;
            assert!(w.memory_in_use().0 <= before + 2, "{} {before}", w.memory_in_use().0);
            Ok(())
        });
    }
}
