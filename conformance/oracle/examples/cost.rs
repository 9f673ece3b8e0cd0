//! What a pair of calls costs: kernel code and harness, CPU time per enqueue+dequeue pair with a standing queue.
//! `cargo run --release -p debloat-oracle --example cost -- 6.12 fq_codel codel`
use debloat_oracle::{Event, Hash, PacketSpec, QdiscSetup, Result, World, WorldOptions, find, record};

fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a place for its value.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let kernel = find(&args.next().unwrap_or_else(|| "newest".into()))?;
    let t = cpu_ns();
    let world = World::load(&kernel, WorldOptions::default())?;
    println!("{}: loaded in {} ms of CPU time", kernel.release(), (cpu_ns() - t) / 1_000_000);
    for kind in args {
        for depth in [1, 100] {
            for (mask, name) in [(record::ALL, "all events"), (record::ACTIONS, "actions"), (0, "none")] {
                println!("{kind} depth {depth} events {name}: {} ns per pair", pair(&world, &kind, depth, mask)?);
            }
        }
    }
    Ok(())
}

fn pair(world: &World, kind: &str, depth: u64, mask: u32) -> Result<u64> {
    const PAIRS: u64 = 500_000;
    let env = world.env();
    env.record(mask);
    let mut now = 1_000_000_000;
    world.set_time(now);
    let q = world.create_qdisc(kind, QdiscSetup::default(), None)?;
    let frame = [0u8; 60];
    let spec = |id: u64| PacketSpec {
        id,
        hash: Hash::L4((id as u32 % 16) << 20),
        len: 1000,
        truesize: 1500,
        ..PacketSpec::new(&frame)
    };
    let mut events: Vec<Event> = Vec::new();
    let mut best = u64::MAX;
    for id in 0..depth {
        q.enqueue(&spec(id))?;
    }
    for _ in 0..3 {
        let t = cpu_ns();
        for id in 0..PAIRS {
            now += 1000;
            world.set_time(now);
            q.enqueue(&spec(id))?;
            q.dequeue()?;
            env.take_events(&mut events);
        }
        best = best.min((cpu_ns() - t) / PAIRS);
    }
    Ok(best)
}
