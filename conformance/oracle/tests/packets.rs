//! Packets: segmentation, marks, headers, sockets, lists, classes, places in a tree.

mod common;

use common::{kernels, tcp4, with_world};
use debloat_oracle::{DropPath, Error, Event, Gso, GsoType, Hash, PacketSpec, QdiscSetup, World, WorldOptions, nla};

/// Splits a GSO packet in cake and returns (length, IP length, sequence, flags) of each segment.
fn split(w: &World, spec: &PacketSpec<'_>) -> debloat_oracle::Result<Vec<(u32, u16, u32, u8)>> {
    let q = w.create_qdisc("cake", QdiscSetup::default(), None)?;
    w.env().clear_events();
    q.enqueue(spec)?;
    let announced = w.env().with_events(|e| {
        e.iter().find_map(|e| if let Event::Split { segments, .. } = e { Some(*segments) } else { None })
    });
    let mut out = Vec::new();
    while let Some(packet) = q.dequeue()? {
        let frame = w.frame(packet).unwrap_or_default();
        let len = w.packet_info(packet).map_or(0, |i| i.len);
        assert_eq!(packet.id, spec.id);
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        out.push((len, word(16), u32::from(word(38)) << 16 | u32::from(word(40)), frame[47]));
    }
    assert_eq!(announced, Some(out.len() as u32));
    Ok(out)
}

#[test]
fn gso_packets_are_split_by_the_kernel_and_elided_ones_alike() {
    for kernel in kernels("gso_packets_are_split_by_the_kernel_and_elided_ones_alike") {
        let (whole, elided) = with_world(&kernel, WorldOptions::default(), |w| {
            let mut frame = tcp4(3, 54 + 1448 * 3 + 700, 2);
            frame[47] = 0x18; // ACK, PSH
            let gso = Some(Gso { size: 1448, segments: 0, kind: GsoType::Tcp4 });
            let spec = PacketSpec { id: 9, gso, hash: Hash::L4(5), ..PacketSpec::new(&frame) };
            let short = PacketSpec { len: frame.len() as u32, frame: &frame[..54], ..spec };
            Ok((split(w, &spec)?, split(w, &short)?))
        });
        let expected =
            [(1502, 1488, 0, 0x10), (1502, 1488, 1448, 0x10), (1502, 1488, 2896, 0x10), (754, 740, 4344, 0x18)];
        assert_eq!(whole, expected, "{}", kernel.release());
        assert_eq!(elided, expected, "{}", kernel.release());
    }
}

#[test]
fn other_families_are_split_too() {
    for kernel in kernels("other_families_are_split_too") {
        let counts = with_world(&kernel, WorldOptions::default(), |w| {
            let mut six = vec![0u8; 74 + 3000];
            six[12..14].copy_from_slice(&[0x86, 0xdd]);
            six[14] = 0x60;
            six[18..20].copy_from_slice(&3020u16.to_be_bytes());
            (six[20], six[21], six[66]) = (6, 64, 0x50);
            let mut udp = tcp4(1, 42 + 3000, 0);
            udp[23] = 17;
            udp[38..40].copy_from_slice(&3008u16.to_be_bytes());
            let mut counts = Vec::new();
            for (frame, kind) in [(&six, GsoType::Tcp6), (&udp, GsoType::Udp)] {
                let gso = Some(Gso { size: 1000, segments: 0, kind });
                let q = w.create_qdisc("cake", QdiscSetup::default(), None)?;
                q.enqueue(&PacketSpec { gso, hash: Hash::L4(5), ..PacketSpec::new(frame) })?;
                let mut n = 0;
                while q.dequeue()?.is_some() {
                    n += 1;
                }
                counts.push(n);
            }
            Ok(counts)
        });
        assert_eq!(counts, [3, 3], "{}", kernel.release());
    }
}

#[test]
fn marks_change_the_frame_and_its_checksum() {
    for kernel in kernels("marks_change_the_frame_and_its_checksum") {
        let (before, after) = with_world(&kernel, WorldOptions::default(), |w| {
            // fq_codel's ce_threshold (attribute 7, µs) marks at once.
            let options = nla::Builder::new().u32(7, 1).finish();
            let q = w.create_qdisc("fq_codel", QdiscSetup::default(), Some(&options))?;
            let frame = tcp4(1, 1000, 2);
            w.set_time(1_000_000_000);
            q.enqueue(&PacketSpec { hash: Hash::L4(1), ..PacketSpec::new(&frame) })?;
            w.set_time(1_005_000_000);
            let out = q.dequeue()?.and_then(|p| w.frame(p)).unwrap_or_default();
            Ok((frame, out))
        });
        let sum = |f: &[u8]| {
            let s: u32 = (0..10).map(|i| u32::from(u16::from_be_bytes([f[14 + 2 * i], f[15 + 2 * i]]))).sum();
            (s & 0xffff) + (s >> 16)
        };
        assert_eq!((before[15] & 3, after[15] & 3), (2, 3));
        assert_eq!((sum(&before), sum(&after)), (0xffff, 0xffff));
        assert_eq!(before.len(), after.len());
    }
}

#[test]
fn lists_and_private_fields_can_be_read() {
    for kernel in kernels("lists_and_private_fields_can_be_read") {
        with_world(&kernel, WorldOptions::default(), |w| {
            let q = w.create_qdisc("fq_codel", QdiscSetup::default(), None)?;
            let deficit = q.field("flows[512].deficit")?;
            let backlog = q.field("backlogs[512]")?;
            for hash in [0x8000_0000u32, 0x4000_0000, 0xc000_0000] {
                q.enqueue(&PacketSpec { hash: Hash::L4(hash), len: 700, ..PacketSpec::new(&tcp4(1, 60, 0)) })?;
            }
            let list = |name| q.list_indices(name, "fq_codel_flow", "flowchain", "flows");
            assert_eq!((list("new_flows")?, list("old_flows")?), (vec![512, 256, 768], vec![]));
            assert_eq!((q.read_signed(&deficit), q.read(&backlog)), (1514, 700));
            assert_eq!(q.get("memory_limit")?, 32 << 20);
            assert_eq!(q.private_size(), q.btf().size_of("fq_codel_sched_data")?);
            q.dequeue()?;
            assert_eq!(q.read_signed(&deficit), 814);
            q.write(&deficit, (-5i64) as u64);
            assert_eq!(q.read_signed(&deficit), -5);
            let wrong = q.field("flows[1].cvars.nothing").err().map(|e| e.to_string()).unwrap_or_default();
            assert!(wrong.contains("no field `nothing` in `fq_codel_sched_data.flows[1].cvars.nothing`"), "{wrong}");
            let classes = q.classes()?;
            assert_eq!(classes.iter().map(|c| c.handle & 0xffff).collect::<Vec<_>>(), [257, 513, 769]);
            Ok(())
        });
    }
}

#[test]
fn fq_follows_sockets_and_stamps() {
    for kernel in kernels("fq_follows_sockets_and_stamps") {
        let woken = with_world(&kernel, WorldOptions::default(), |w| {
            let q = w.create_qdisc("fq", QdiscSetup::default(), None)?;
            let socket = w.create_socket()?;
            socket.set("skc_hash", 0x1234_5678)?;
            w.set_time(1_000_000_000);
            let frame = tcp4(1, 1000, 0);
            let spec = PacketSpec { socket: Some(socket.reference()), charged: true, ..PacketSpec::new(&frame) };
            q.enqueue(&PacketSpec { tstamp: 1_002_000_000, ..spec })?;
            assert_eq!(q.dequeue()?, None);
            let mut events = Vec::new();
            w.env().take_events(&mut events);
            let woken = events
                .iter()
                .find_map(|e| if let Event::Watchdog { expires_ns, .. } = e { Some(*expires_ns) } else { None });
            w.set_time(1_002_000_000);
            assert!(q.dequeue()?.is_some());
            Ok(woken)
        });
        assert_eq!(woken, Some(1_002_000_000), "{}", kernel.release());
    }
}

#[test]
fn socket_charged_packets_are_told_apart() {
    for kernel in kernels("socket_charged_packets_are_told_apart") {
        let memory = with_world(&kernel, WorldOptions::default(), |w| {
            let q = w.create_qdisc("fq_codel", QdiscSetup::default(), None)?;
            let socket = w.create_socket()?;
            let frame = tcp4(1, 1000, 0);
            let spec = PacketSpec {
                hash: Hash::L4(1),
                truesize: 2304,
                socket: Some(socket.reference()),
                ..PacketSpec::new(&frame)
            };
            q.enqueue(&PacketSpec { charged: true, ..spec })?;
            let charged = q.get("memory_usage")?;
            q.enqueue(&spec)?;
            Ok((charged, q.get("memory_usage")?))
        });
        // 7.x: spec/fq_codel.md §3 step 4.
        let expected = if kernel.version().0 >= 7 { (0, 2304) } else { (2304, 4608) };
        assert_eq!(memory, expected, "{}", kernel.release());
    }
}

#[test]
fn drops_name_their_road_and_children_report_to_their_parent() {
    for kernel in kernels("drops_name_their_road_and_children_report_to_their_parent") {
        let (over, late) = with_world(&kernel, WorldOptions::default(), |w| {
            let paths = |w: &World| {
                let mut events = Vec::new();
                w.env().take_events(&mut events);
                let mut seen: Vec<(u64, DropPath)> = Vec::new();
                let mut corrections = 0;
                for e in events {
                    match e {
                        Event::Drop { packet, path, .. } => seen.push((packet.id, path)),
                        Event::TreeReduce { packets, handle, .. } => {
                            assert_eq!(handle, 0x20_0000);
                            corrections += packets;
                        }
                        _ => {}
                    }
                }
                (seen, corrections)
            };
            let setup = QdiscSetup { handle: 0x20_0000, parent: 0x1_0001, ..QdiscSetup::default() };
            let q = w.create_qdisc("codel", setup, Some(&nla::Builder::new().u32(2, 3).finish()))?;
            let frame = tcp4(1, 1000, 0);
            w.set_time(1_000_000_000);
            paths(w);
            for id in 0..4 {
                q.enqueue(&PacketSpec { id, ..PacketSpec::new(&frame) })?;
            }
            let over = paths(w);
            let mut late = (Vec::new(), 0);
            for (i, id) in (10..30u64).enumerate() {
                w.set_time(1_200_000_000 + 200_000_000 * i as u64);
                q.enqueue(&PacketSpec { id, ..PacketSpec::new(&frame) })?;
                q.dequeue()?;
                let (seen, n) = paths(w);
                late.0.extend(seen.into_iter().filter(|(_, p)| *p != DropPath::ToFree));
                late.1 += n;
            }
            Ok(((format!("{:?}", over.0), over.1), (late.0.len() as i32, late.1)))
        });
        assert_eq!(over, ("[(3, ToFree)]".into(), 0), "{}", kernel.release());
        assert!(late.0 > 0 && late.0 == late.1, "{} {late:?}", kernel.release());
    }
}

#[test]
fn impossible_packets_are_refused() {
    for kernel in kernels("impossible_packets_are_refused").into_iter().take(1) {
        let texts = with_world(&kernel, WorldOptions::default(), |w| {
            let q = w.create_qdisc("pfifo", QdiscSetup::default(), None)?;
            let frame = [0u8; 60];
            let bad = [
                PacketSpec { len: 59, ..PacketSpec::new(&frame) },
                PacketSpec { linear: Some(61), ..PacketSpec::new(&frame) },
            ];
            Ok(bad.iter().map(|s| matches!(q.enqueue(s), Err(Error::Packet(_)))).collect::<Vec<_>>())
        });
        assert_eq!(texts, [true, true]);
    }
}
