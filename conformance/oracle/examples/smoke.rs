//! Loads each kernel found and runs each queue discipline for a moment.
use debloat_oracle::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let wanted = args.next().unwrap_or("newest".into());
    let kinds: Vec<String> = args.collect();
    let kernel = find(&wanted).unwrap();
    println!("{} {:?}", kernel.release(), kernel.offer());
    let t = std::time::Instant::now();
    let world = World::load(&kernel, WorldOptions::default()).unwrap();
    println!("loaded in {:?} hz {}", t.elapsed(), world.env().hz());
    for kind in kinds {
        match run(&world, &kind) {
            Ok(()) => {}
            Err(e) => println!("{kind}: ERROR {e}"),
        }
        println!("printed {:?}", world.env().take_printed());
    }
}
fn frame(flow: u16, len: usize, ecn: u8) -> Vec<u8> {
    let mut f = vec![0u8; len];
    f[12] = 8;
    f[14] = 0x45;
    f[15] = ecn;
    f[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    f[22] = 64;
    f[23] = 6;
    f[26..30].copy_from_slice(&[10, 0, (flow >> 8) as u8, flow as u8]);
    f[30..34].copy_from_slice(&[10, 1, 0, 1]);
    f[34..36].copy_from_slice(&(1000 + flow).to_be_bytes());
    f[36..38].copy_from_slice(&443u16.to_be_bytes());
    f[46] = 0x50;
    f[47] = 0x10;
    f
}
fn run(world: &World, kind: &str) -> Result<()> {
    world.set_time(1_000_000_000);
    world.env().clear_events();
    let q = world.create_qdisc(kind, QdiscSetup::default(), None)?;
    println!("{kind}: private {:?} {} bytes; dump {:02x?}", q.structure(), q.private_size(), q.dump());
    let t = std::time::Instant::now();
    let frames: Vec<_> = (0..32u16).map(|i| frame(i, 100 + 40 * i as usize, if i % 3 == 0 { 0 } else { 2 })).collect();
    let (mut enq, mut deq, mut drops, mut ce) = (0, 0, 0, 0);
    let mut events = vec![];
    let mut now = 1_000_000_000u64;
    let mut out = now;
    let n = 200_000u64;
    let mut buf = vec![];
    for i in 0..n {
        now += 60_000;
        world.set_time(now);
        let f = &frames[(i * 7 % 32) as usize];
        let r = q.enqueue(&PacketSpec {
            id: i,
            hash: Hash::L4((i as u32 % 32).wrapping_mul(0x9e3779b1)),
            truesize: f.len() as u32 + 576,
            ..PacketSpec::new(f)
        })?;
        let _ = r;
        enq += 1;
        while out <= now {
            out += 80_000;
            if let Some(p) = q.dequeue()? {
                deq += 1;
                world.frame_into(p, &mut buf);
                if buf[15] & 3 == 3 {
                    ce += 1;
                }
            }
        }
        while let Some((_, e)) = q.timers().first() {
            if *e <= world.jiffies() {
                q.fire_timer()?;
            } else {
                break;
            }
        }
        world.env().take_events(&mut events);
        drops += events.iter().filter(|e| matches!(e, Event::Drop { .. })).count();
    }
    println!(
        "  enq {enq} deq {deq} drops {drops} ce {ce} qlen {} => {} ; {:?} per op",
        q.qlen(),
        deq + drops as u64 + q.qlen() as u64 == enq,
        t.elapsed() / n as u32
    );
    println!("  stats {:?}", q.stats()?);
    match q.classes() {
        Ok(c) => println!("  classes {} {:?}", c.len(), c.first()),
        Err(e) => println!("  {e}"),
    }
    q.destroy()?;
    println!("  memory {:?}", world.memory_in_use());
    Ok(())
}
