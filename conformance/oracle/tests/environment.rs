//! The scripted environment: clocks that move between reads, draws by width, secrets, refusals, allocations.

mod common;

use common::{kernels, tcp4, with_world};
use debloat_oracle::{Error, Event, Hash, PacketSpec, QdiscSetup, Refusal, Vlan, Width, World, WorldOptions, nla};

#[test]
fn each_clock_read_gets_its_own_value() {
    for kernel in kernels("each_clock_read_gets_its_own_value") {
        let (reads, strict) = with_world(&kernel, WorldOptions::default(), |w| {
            let q = w.create_qdisc("codel", QdiscSetup::default(), None)?;
            let env = w.env();
            env.clear_events();
            let frame = tcp4(1, 1000, 2);
            let script = [5_000_000_000u64, 5_000_100_000, 5_000_200_000];
            env.queue_clock(script);
            q.enqueue(&PacketSpec::new(&frame))?;
            q.enqueue(&PacketSpec::new(&frame))?;
            q.dequeue()?;
            let reads = env.with_events(|e| {
                e.iter().filter_map(|e| if let Event::Clock { ns } = e { Some(*ns) } else { None }).collect::<Vec<_>>()
            });
            assert_eq!(env.drain_clock(), []);
            env.set_clock_strict(true);
            let strict = q.enqueue(&PacketSpec::new(&frame)).err().map(|e| e.to_string());
            Ok((reads, strict))
        });
        assert_eq!(reads, [5_000_000_000, 5_000_100_000, 5_000_200_000]);
        assert!(strict.is_some_and(|e| e.contains("ran out of clock values")));
    }
}

#[test]
fn a_clock_that_moves_at_each_read_moves() {
    for kernel in kernels("a_clock_that_moves_at_each_read_moves") {
        let reads = with_world(&kernel, WorldOptions::default(), |w| {
            let q = w.create_qdisc("fq_codel", QdiscSetup::default(), None)?;
            w.set_time(2_000_000_000);
            w.env().set_clock_step(1024);
            let before = w.env().clock_reads();
            q.enqueue(&PacketSpec { hash: Hash::L4(9), ..PacketSpec::new(&tcp4(1, 100, 0)) })?;
            q.dequeue()?;
            let n = w.env().clock_reads() - before;
            assert_eq!(w.env().now(), 2_000_000_000 + 1024 * n);
            // A closure answers instead.
            w.env().script_clock(Some(Box::new(|| 77)));
            w.env().clear_events();
            q.enqueue(&PacketSpec { hash: Hash::L4(9), ..PacketSpec::new(&tcp4(1, 100, 0)) })?;
            w.env().with_events(|e| assert!(e.contains(&Event::Clock { ns: 77 })));
            Ok(n)
        });
        assert!(reads >= 2, "{reads}");
    }
}

#[test]
fn draws_come_from_the_script_by_width() {
    for kernel in kernels("draws_come_from_the_script_by_width") {
        let seen = with_world(&kernel, WorldOptions::default(), |w| {
            let env = w.env();
            env.script_draws(Some(Box::new(|_| 0x1122_3344_5566_7788)));
            for (name, args) in
                [("get_random_u8", 0u64), ("get_random_u16", 0), ("get_random_u32", 0), ("get_random_u64", 0)]
            {
                env.clear_events();
                let got = w.call_address(w.import(name), &[args]);
                // 6.1 has no get_random_u8 and _u16 of its own; modules of 6.1 may still ask for them.
                got?;
            }
            env.script_draws(None);
            env.queue_draws([0x8000_0000, 5]);
            env.clear_events();
            let below = w.call_address(w.import("__get_random_u32_below"), &[10])?;
            let buffer = w.call_address(w.import("kmalloc_large"), &[16])?;
            w.call_address(w.import("get_random_bytes"), &[buffer, 5])?;
            let mut seen = Vec::new();
            env.take_events(&mut seen);
            let draws: Vec<_> = seen
                .iter()
                .filter_map(|e| if let Event::Draw { width, value } = e { Some((*width, *value)) } else { None })
                .collect();
            assert_eq!(draws, [(Width::Below(10), 5), (Width::Bytes(5), 5)]);
            Ok((below, w.peek(buffer, 8)))
        });
        assert_eq!(seen, (5, 5));
    }
}

/// spec/common.md §8.4, with the default secret.
fn vectors() -> Vec<(&'static str, Vec<u8>, Option<Vlan>, u32)> {
    let ip4 = |a: [u8; 4], b: [u8; 4], protocol: u8, sport: u16, dport: u16| {
        let mut f = tcp4(1, 74, 0);
        f[23] = protocol;
        f[26..30].copy_from_slice(&a);
        f[30..34].copy_from_slice(&b);
        f[34..36].copy_from_slice(&sport.to_be_bytes());
        f[36..38].copy_from_slice(&dport.to_be_bytes());
        f
    };
    let (one, two) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let ip6 = |label: u32| {
        let mut f = vec![0u8; 94];
        f[12..14].copy_from_slice(&[0x86, 0xdd]);
        f[14..18].copy_from_slice(&(0x6000_0000 | label).to_be_bytes());
        f[18..20].copy_from_slice(&40u16.to_be_bytes());
        (f[20], f[21]) = (6, 64);
        f[22..26].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        f[37] = 1;
        f[38..42].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        f[53] = 2;
        f[54..56].copy_from_slice(&12345u16.to_be_bytes());
        f[56..58].copy_from_slice(&80u16.to_be_bytes());
        f[66] = 0x50;
        f
    };
    let mut arp = vec![0u8; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    arp[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    vec![
        ("TCP", ip4(one, two, 6, 12345, 80), None, 0xbaf8_7ff2),
        ("TCP reversed", ip4(two, one, 6, 80, 12345), None, 0xbaf8_7ff2),
        ("UDP", ip4(one, two, 17, 12345, 80), None, 0x03e9_c424),
        ("ICMP", ip4(one, two, 1, 12345, 80), None, 0xf831_5a71),
        ("swapped addresses", ip4([192, 168, 1, 200], [192, 168, 2, 7], 6, 5001, 443), None, 0xcc36_7517),
        ("IPv6", ip6(0), None, 0xc5ee_decd),
        ("IPv6 flow label", ip6(0x12345), None, 0xc090_eb4d),
        ("ARP", arp, None, 0x145f_fb0f),
        ("VLAN", ip4(one, two, 6, 12345, 80), Some(Vlan { protocol: 0x8100, tci: 3 << 13 | 100 }), 0x8e43_8747),
    ]
}

fn hashes(w: &World) -> debloat_oracle::Result<Vec<u32>> {
    let q = w.create_qdisc("fq_codel", QdiscSetup::default(), None)?;
    vectors()
        .iter()
        .map(|(_, frame, vlan, _)| {
            let sent = q.enqueue(&PacketSpec { vlan: *vlan, ..PacketSpec::new(frame) })?;
            Ok(q.packet_info(sent.packet).map_or(0, |i| i.hash))
        })
        .collect()
}

#[test]
fn the_flow_dissector_is_initialised() {
    let expected: Vec<u32> = vectors().into_iter().map(|v| v.3).collect();
    for kernel in kernels("the_flow_dissector_is_initialised") {
        assert_eq!(with_world(&kernel, WorldOptions::default(), hashes), expected, "{}", kernel.release());
        // Without the boot-time initialisation the answers are plausible and wrong: this test would notice.
        let skipped = WorldOptions { skip_boot: true, ..WorldOptions::default() };
        let wrong = with_world(&kernel, skipped, hashes);
        assert!(wrong.iter().zip(&expected).all(|(a, b)| a != b), "{wrong:x?}");
        // Another secret, other hashes.
        let secret = WorldOptions { hash_secret: [1, 2], ..WorldOptions::default() };
        assert!(with_world(&kernel, secret, hashes).iter().zip(&expected).all(|(a, b)| a != b));
    }
}

#[test]
fn cake_tells_hosts_apart() {
    let run = |w: &World| -> debloat_oracle::Result<usize> {
        // Flow mode 1: by source host; two hosts, the same ports.
        let q = w.create_qdisc("cake", QdiscSetup::default(), Some(&nla::Builder::new().u32(5, 1).finish()))?;
        for host in [1u16, 2, 1, 2] {
            let mut f = tcp4(host, 200, 0);
            f[34..36].copy_from_slice(&5000u16.to_be_bytes());
            q.enqueue(&PacketSpec { hash: Hash::L4(7), ..PacketSpec::new(&f) })?;
        }
        Ok(q.class_walk()?.len())
    };
    for kernel in kernels("cake_tells_hosts_apart") {
        assert_eq!(with_world(&kernel, WorldOptions::default(), run), 2, "{}", kernel.release());
        let skipped = WorldOptions { skip_boot: true, ..WorldOptions::default() };
        assert_eq!(with_world(&kernel, skipped, run), 1, "{}", kernel.release());
    }
}

#[test]
fn refusals_carry_errno_and_text() {
    for kernel in kernels("refusals_carry_errno_and_text") {
        let (bad, text) = with_world(&kernel, WorldOptions::default(), |w| {
            let q = w.create_qdisc("cake", QdiscSetup::default(), None)?;
            // The rate must have eight bytes: the kernel's own policy refuses two.
            let refusal = |r: debloat_oracle::Result<()>| match r {
                Err(Error::Refused(Refusal { errno, text })) => (errno, text),
                other => (0, Some(format!("{other:?}"))),
            };
            let bad = refusal(q.change(&nla::Builder::new().raw(2, &[1, 2]).finish()));
            let made = w.create_qdisc("red", QdiscSetup::default(), Some(&[])).map(|_| ());
            Ok((bad, refusal(made)))
        });
        assert_eq!(bad.0, 34, "{bad:?}"); // ERANGE
        assert!(bad.1.is_some(), "{bad:?}");
        assert_eq!(text.0, 22, "{text:?}"); // EINVAL
    }
}

#[test]
fn failing_allocations_reach_the_kernel_code() {
    for kernel in kernels("failing_allocations_reach_the_kernel_code") {
        let refused = with_world(&kernel, WorldOptions::default(), |w| {
            w.env().fail_next_allocations(1);
            let made = w.create_qdisc("pfifo", QdiscSetup::default(), None).err().map(|e| e.to_string());
            w.create_qdisc("pfifo", QdiscSetup::default(), None)?;
            Ok(made)
        });
        assert_eq!(refused.as_deref(), Some("refused with errno 105")); // ENOBUFS
    }
}
