//! Shared by the self-tests: kernels or a named skip, frames, a scenario with a digest.
#![allow(dead_code, reason = "each test binary uses a part")]

use debloat_oracle::{
    Event, Gso, GsoType, Hash, Kernel, KernelQdisc, PacketSpec, QdiscSetup, Result, World, WorldOptions, find, nla,
    worker,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The series that the evidence speaks of.
pub const SERIES: [&str; 3] = ["6.1", "6.12", "7"];

/// The kernels that are here; each missing one is named.
pub fn kernels(test: &str) -> Vec<Kernel> {
    let found = SERIES.iter().map(|series| (series, find(series)));
    found
        .filter_map(|(series, kernel)| {
            if kernel.is_err() {
                eprintln!("SKIPPED {test} on {series}: run cargo run --release -- oracle fetch");
            }
            kernel.ok()
        })
        .collect()
}

/// Loads a kernel in a process of its own and runs a check in it.
pub fn with_world<R: Serialize + DeserializeOwned>(
    kernel: &Kernel,
    options: WorldOptions,
    check: impl FnOnce(&World) -> Result<R>,
) -> R {
    let result = worker::isolate(|| {
        let world = World::load(kernel, options).map_err(|e| e.to_string())?;
        check(&world).map_err(|e| e.to_string())
    });
    match result {
        Ok(Ok(value)) => value,
        Ok(Err(e)) => panic!("{}: {e}", kernel.release()),
        Err(e) => panic!("{}: {e}", kernel.release()),
    }
}

/// An Ethernet frame with IPv4 and TCP headers.
pub fn tcp4(flow: u16, len: usize, ecn: u8) -> Vec<u8> {
    let mut f = vec![0u8; len.max(54)];
    f[12..14].copy_from_slice(&[8, 0]);
    f[14] = 0x45;
    f[15] = ecn;
    let total = (len - 14) as u16;
    f[16..18].copy_from_slice(&total.to_be_bytes());
    f[22] = 64;
    f[23] = 6;
    f[26..30].copy_from_slice(&[10, 0, (flow >> 8) as u8, flow as u8]);
    f[30..34].copy_from_slice(&[10, 1, 0, 1]);
    f[34..36].copy_from_slice(&(1000 + flow).to_be_bytes());
    f[36..38].copy_from_slice(&443u16.to_be_bytes());
    f[46] = 0x50;
    f[47] = 0x10;
    f[48] = 1;
    let sum: u32 = (0..10).map(|i| u32::from(u16::from_be_bytes([f[14 + 2 * i], f[15 + 2 * i]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    f[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    f
}

/// FNV-1a over integers.
#[derive(Clone, Copy)]
pub struct Digest(pub u64);

impl Digest {
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// A small deterministic generator for scenarios.
pub struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What a scenario counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    pub enqueued: u64,
    pub dequeued: u64,
    pub dropped: u64,
    pub consumed: u64,
    pub segments: u64,
    pub queued: u64,
    pub marked: u64,
    pub draws: u64,
    pub clock_reads: u64,
    /// Everything seen.
    pub digest: u64,
    /// What was decided: verdicts, packets out, which packets were dropped by each step. Drop reasons, roads
    /// and the order of drops within a step, which changed between series, stay out.
    pub decisions: u64,
}

/// Options that let each kind do something worth watching.
pub fn options(kind: &str) -> Option<Vec<u8>> {
    let b = nla::Builder::new();
    Some(match kind {
        "codel" => b.u32(4, 1).finish(),
        "pie" => b.u32(6, 1).u32(2, 500).finish(),
        "fq_pie" => b.u32(10, 1).finish(),
        "cake" => b.u64(2, 8_000_000).u32(3, 1).u32(16, 1).finish(),
        "sfq" => return None,
        "red" => {
            // struct tc_red_qopt: limit, qth_min, qth_max, then Wlog, Plog, Scell_log, flags.
            let mut qopt = Vec::new();
            for v in [400_000u32, 30_000, 90_000] {
                qopt.extend_from_slice(&v.to_le_bytes());
            }
            qopt.extend_from_slice(&[9, 9, 10, 1]);
            let table: Vec<u8> = (0..256u32).map(|i| (i / 16) as u8).collect();
            b.raw(1, &qopt).raw(2, &table).u32(3, 1 << 28).finish()
        }
        _ => return None,
    })
}

/// Overloads a qdisc with a mix of packets, draining it more slowly; everything seen goes into the digest.
pub fn overload(world: &World, kind: &str, steps: u64, seed: u64) -> Result<Outcome> {
    let env = world.env();
    env.seed_draws(seed);
    world.set_time(1_000_000_000);
    env.clear_events();
    let options = options(kind);
    let q = world.create_qdisc(kind, QdiscSetup::default(), options.as_deref())?;
    let (draws, reads) = (env.draws(), env.clock_reads());
    let mut out = drive(world, &q, steps, seed)?;
    let mut d = Digest(out.digest);
    d.bytes(&q.dump()?);
    let stats = q.stats()?;
    d.add(stats.bytes);
    d.add(stats.packets);
    d.bytes(&stats.app);
    out.draws = env.draws() - draws;
    out.clock_reads = env.clock_reads() - reads;
    out.queued = q.qlen().into();
    out.digest = d.0;
    q.destroy()?;
    Ok(out)
}

fn drive(world: &World, q: &KernelQdisc<'_>, steps: u64, seed: u64) -> Result<Outcome> {
    let (mut out, mut rng) = (Outcome::default(), Rng(seed));
    let (mut d, mut decisions) = (Digest::new(), Digest::new());
    let frames: Vec<Vec<u8>> = (0..48u16).map(|f| tcp4(f, 80 + 29 * f as usize, [0, 2, 1][f as usize % 3])).collect();
    let super_frame = tcp4(7, 54 + 1448 * 3 + 700, 2);
    let (mut now, mut next_out) = (1_000_000_000u64, 1_000_000_000u64);
    let (mut events, mut frame) = (Vec::new(), Vec::new());
    for id in 0..steps {
        now += 40_000 + rng.below(30_000);
        world.set_time(now);
        let flow = rng.below(48) as usize;
        let gso = rng.below(40) == 0;
        let bytes = if gso { &super_frame } else { &frames[flow] };
        let hash = if rng.below(4) == 0 { Hash::None } else { Hash::L4((flow as u32).wrapping_mul(0x9e37_79b1)) };
        let gso = gso.then_some(Gso { size: 1448, segments: 0, kind: GsoType::Tcp4 });
        let spec = PacketSpec { id, hash, gso, truesize: bytes.len() as u32 + 768, ..PacketSpec::new(bytes) };
        let answer = q.enqueue(&spec)?;
        out.enqueued += 1;
        d.add(answer.code.into());
        decisions.add(answer.code.into());
        while next_out <= now {
            next_out += 80_000;
            let packet = match rng.below(4) {
                0 => {
                    q.peek()?;
                    q.dequeue_peeked()?
                }
                _ => q.dequeue()?,
            };
            if let Some(packet) = packet {
                world.frame_into(packet, &mut frame);
                out.dequeued += 1;
                out.marked += u64::from(frame[15] & 3 == 3);
                d.add(packet.id);
                d.bytes(&frame);
                decisions.add(packet.id);
                decisions.add(frame[15].into());
            }
            d.add(q.backlog().into());
        }
        while q.timers().iter().any(|(_, at)| *at <= world.jiffies()) {
            q.fire_timer()?;
        }
        world.env().take_events(&mut events);
        let mut lost = 0u64;
        for e in &events {
            count(&mut out, &mut d, e);
            if let Event::Drop { packet, .. } = e {
                lost = lost.wrapping_add(packet.id.wrapping_mul(packet.id));
            }
        }
        decisions.add(lost);
    }
    out.digest = d.0;
    out.decisions = decisions.0;
    Ok(out)
}

/// Addresses of watchdogs and timers differ between positions and stay out of the digest.
fn count(out: &mut Outcome, d: &mut Digest, event: &Event) {
    match *event {
        Event::Drop { packet, reason, path } => {
            use debloat_oracle::DropPath::Consumed;
            *(if path == Consumed { &mut out.consumed } else { &mut out.dropped }) += 1;
            d.add(packet.id);
            d.add(reason.into());
            d.add(path as u64);
        }
        Event::TreeReduce { packets, bytes, .. } => {
            d.add(packets as u64);
            d.add(bytes as u64);
        }
        Event::Watchdog { expires_ns, .. } => d.add(expires_ns),
        Event::Timer { expires, .. } => d.add(expires),
        Event::Clock { ns } => d.add(ns),
        Event::Draw { value, .. } => d.add(value),
        Event::Segment { len, truesize, .. } => {
            out.segments += 1;
            d.add(len.into());
            d.add(truesize.into());
        }
        _ => d.add(1),
    }
}

/// Packets in = out + dropped + queued, a split packet counting as its segments.
pub fn conserved(o: &Outcome) -> bool {
    o.enqueued + o.segments == o.dequeued + o.dropped + o.consumed + o.queued
}
