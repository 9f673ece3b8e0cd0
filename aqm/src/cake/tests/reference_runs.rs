//! The four reference runs (spec/cake.md §24), whose digests the kernels' own code produced.

use super::support::{Frame, T0, World, XorShift};
use crate::cake::{AckFilter, Cake, Config, Diffserv, FlowMode, Framing, Memory};
use crate::{Configure, DropReason, Host, Linux, Qdisc, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    R1,
    R2,
    R3,
    R4,
}

/// FNV-1a over packet ids.
struct Digest(u64);

impl Digest {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, id: u32) {
        for byte in id.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
        }
    }
}

struct Bench {
    queue: Cake<Frame>,
    world: World,
    traffic: XorShift,
    delivered: Digest,
    dropped: Digest,
    congested: u32,
    deliveries: u32,
    /// Acknowledgement numbers of R4's connections.
    acks: [u32; 8],
}

impl Bench {
    fn new(run: Run, linux: Linux) -> Self {
        let (config, draws, traffic) = match run {
            Run::R1 => (
                Config {
                    bandwidth: Some(1_250_000),
                    diffserv: Some(Diffserv::Besteffort),
                    flow_mode: Some(FlowMode::FLOWS),
                    memlimit_bytes: Some(200_000),
                    ..Config::default()
                },
                0x9e37_79b9_7f4a_7c15,
                0x0123_4567_89ab_cdef,
            ),
            Run::R2 => (
                Config {
                    bandwidth: Some(2_500_000),
                    diffserv: Some(Diffserv::Diffserv4),
                    flow_mode: Some(FlowMode::DUAL_SRCHOST),
                    ingress: Some(true),
                    overhead_bytes: Some(40),
                    framing: Some(Framing::Atm),
                    memlimit_bytes: Some(300_000),
                    ..Config::default()
                },
                0x0123_4567_89ab_cdef,
                0xdead_beef_cafe_f00d,
            ),
            Run::R3 => (
                Config { wash: Some(true), memlimit_bytes: Some(150_000), ..Config::default() },
                0xa5a5_a5a5_dead_beef,
                0x55aa_55aa_1234_5678,
            ),
            Run::R4 => (
                Config {
                    bandwidth: Some(2_500_000),
                    autorate_ingress: Some(true),
                    diffserv: Some(Diffserv::Diffserv8),
                    flow_mode: Some(FlowMode::DUAL_DSTHOST),
                    ingress: Some(true),
                    ack_filter: Some(AckFilter::Normal),
                    overhead_bytes: Some(30),
                    framing: Some(Framing::Ptm),
                    ..Config::default()
                },
                0xfedc_ba98_7654_3211,
                0x0f1e_2d3c_4b5a_6978,
            ),
        };
        let host = Host { handle: 0x1_0000, ..Host::default() };
        Self {
            queue: Cake::new(config.behave_like(linux).on_host(host)).unwrap(),
            world: World::new(draws),
            traffic: XorShift(traffic),
            delivered: Digest::new(),
            dropped: Digest::new(),
            congested: 0,
            deliveries: 0,
            acks: [0; 8],
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.traffic.below(from.len() as u64) as usize]
    }

    /// Drops count in the order of the decisions: Linux hands those of one call back newest first.
    fn count_drops(&mut self) {
        for (id, reason) in core::mem::take(&mut self.world.dropped).into_iter().rev() {
            if reason != DropReason::AckFilter {
                self.dropped.add(id);
            }
        }
    }

    fn enqueue(&mut self, frame: Frame) {
        let verdict = self.queue.enqueue(frame, &mut self.world);
        self.congested += u32::from(verdict == Verdict::Congested);
        self.count_drops();
    }

    fn dequeue(&mut self, times: u64) {
        for _ in 0..times {
            if let Some(frame) = self.queue.dequeue(&mut self.world) {
                self.delivered.add(frame.id);
                self.deliveries += 1;
            }
            if !self.queue.frees_late {
                self.world.dropped.reverse();
            }
            self.count_drops();
        }
    }

    fn step(&mut self, run: Run, id: u32) {
        match run {
            Run::R1 => self.step_r1(id),
            Run::R2 => self.step_r2(id),
            Run::R3 => self.step_r3(id),
            Run::R4 => self.step_r4(id),
        }
    }

    fn step_r1(&mut self, id: u32) {
        self.world.now += self.traffic.below(1_000_000);
        let flow = self.traffic.below(40) as u32;
        let len = self.pick(&[64, 590, 1514, 1514]);
        let ecn = if flow % 4 == 0 { 2 } else { 0 };
        let frame = Frame::udp(id, len, ecn).with_hash(flow.wrapping_mul(2_654_435_761).max(1));
        self.enqueue(frame.clone());
        if flow < 3 {
            for copy in 1..=3 {
                self.enqueue(frame.numbered(id + copy * 100_000));
            }
        }
        self.dequeue(2);
    }

    fn step_r2(&mut self, id: u32) {
        self.world.now += self.traffic.below(700_000);
        let host = self.traffic.below(5) as u32;
        let flow = self.traffic.below(1 + 3 * u64::from(host)) as u32;
        let len = self.pick(&[90, 700, 1514]);
        let dscp = if host != 0 { self.pick(&[0, 8, 46, 34, 16, 1, 56, 10]) } else { 0 };
        let ecn = [0, 2, 1, 3][host as usize % 4];
        let frame = Frame::udp(id, len, dscp << 2 | ecn)
            .with_hash((100 * host + flow + 1).wrapping_mul(2_654_435_761))
            .with_class((host + 1) << 16);
        self.enqueue(frame.clone());
        if host == 4 {
            self.enqueue(frame.numbered(id + 100_000));
        }
        let times = 1 + self.traffic.below(3);
        self.dequeue(times);
    }

    fn step_r3(&mut self, id: u32) {
        self.world.now += self.traffic.below(300_000);
        let (a, b) = (self.traffic.below(6) as u8, self.traffic.below(4) as u8);
        let port = 1024 + self.traffic.below(4) as u16;
        let len = self.pick(&[60, 500, 1514]);
        let dscp: u8 = self.pick(&[0, 8, 46, 34]);
        let ecn = if a == 0 { 2 } else { 0 };
        self.enqueue(Frame::ipv4(id, len, dscp << 2 | ecn, 6, [[10, 0, 0, a], [192, 0, 2, b]], [port, 443]));
        if self.traffic.below(16) == 0 {
            let times = self.traffic.below(24);
            self.dequeue(times);
        }
    }

    fn step_r4(&mut self, id: u32) {
        self.world.now += if self.traffic.below(50) != 0 { self.traffic.below(900_000) } else { 300_000_000 };
        let connection = self.traffic.below(8) as u8;
        let pure = self.traffic.below(2) == 1;
        let dscp: u8 = self.pick(&[0, 8, 46, 1]);
        let len = if pure { 66 } else { self.pick(&[600, 1514]) };
        let ecn = if connection == 1 { 2 } else { 0 };
        let hosts = [[10, 0, 0, connection], [192, 0, 2, connection % 3]];
        let mut frame = Frame::ipv4(id, len, dscp << 2 | ecn, 6, hosts, [5000 + u16::from(connection), 80]);
        let ack = &mut self.acks[usize::from(connection)];
        *ack += 1000;
        frame.bytes[42..46].copy_from_slice(&ack.to_be_bytes());
        frame.bytes[46..48].copy_from_slice(&[if pure { 0x80 } else { 0x50 }, 0x10]);
        if pure {
            frame.bytes[54..58].copy_from_slice(&[1, 1, 8, 10]);
            frame.bytes[58..62].copy_from_slice(&ack.to_be_bytes());
            frame.bytes[62..66].copy_from_slice(&7u32.to_be_bytes());
        }
        self.enqueue(frame);
        let times = self.traffic.below(3);
        self.dequeue(times);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Checkpoint {
    step: u32,
    qlen: u32,
    backlog: u32,
    delivered: u32,
    drops: u32,
    overlimits: u32,
    draws: u64,
    digest: u64,
}

/// §24.6, on 7.2.
#[test]
fn checkpoints() {
    #[rustfmt::skip]
    let tables: [(Run, [(u32, u32, u32, u32, u32, u32, u64, u64); 4]); 4] = [
        (Run::R1, [
            (50, 27, 23862, 28, 1, 69, 54, 0x7249_d19a_2408_d774),
            (200, 77, 74116, 137, 19, 260, 381, 0x58b7_c919_39b4_8231),
            (1000, 129, 117_888, 683, 386, 1314, 2161, 0x1bee_d9b1_11a5_40f0),
            (2000, 133, 112_742, 1410, 862, 2587, 4808, 0xd264_39be_95f8_0d78),
        ]),
        (Run::R2, [
            (50, 17, 13532, 45, 0, 52, 138, 0x0eda_0e84_5a69_f498),
            (200, 71, 58258, 178, 1, 219, 485, 0xceb5_3423_ec21_3618),
            (1000, 227, 161_384, 798, 177, 1197, 3214, 0xa5e1_fbab_29b7_052d),
            (2000, 230, 158_806, 1317, 845, 2668, 7448, 0x748f_8392_88a4_db14),
        ]),
        (Run::R3, [
            (50, 1, 1514, 49, 0, 0, 67, 0x389e_24bd_c544_72f7),
            (200, 91, 65628, 109, 0, 0, 208, 0xaa72_ca29_5c00_a245),
            (1000, 95, 65160, 845, 60, 0, 1106, 0x0980_f5bc_8ede_8f67),
            (2000, 132, 63400, 1489, 379, 0, 2082, 0xd2d3_b8f0_658b_f11f),
        ]),
        (Run::R4, [
            (50, 7, 2598, 43, 0, 0, 73, 0x367d_1a28_1a4e_51c6),
            (200, 3, 198, 186, 11, 3, 393, 0x3c72_8046_7645_d078),
            (1000, 13, 7338, 959, 28, 28, 1894, 0xc021_2fcd_b43e_2134),
            (2000, 12, 4910, 1913, 75, 47, 4040, 0x5942_afdb_c5be_eb58),
        ]),
    ];
    for (run, table) in tables {
        let mut bench = Bench::new(run, Linux::V7_2);
        let mut rows = table.iter().peekable();
        for id in 1..=2000 {
            bench.step(run, id);
            if let Some(&(step, qlen, backlog, delivered, drops, overlimits, draws, digest)) =
                rows.next_if(|row| row.0 == id)
            {
                let counters = bench.queue.counters();
                let ours = Checkpoint {
                    step: id,
                    qlen: counters.qlen,
                    backlog: counters.backlog_bytes,
                    delivered: bench.deliveries,
                    drops: counters.drops,
                    overlimits: counters.overlimits,
                    draws: bench.world.drawn,
                    digest: bench.delivered.0,
                };
                let theirs = Checkpoint { step, qlen, backlog, delivered, drops, overlimits, draws, digest };
                assert_eq!(ours, theirs, "{run:?}");
            }
        }
    }
}

/// The columns of §24.7.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    qlen: u32,
    backlog: u32,
    drops: u32,
    congested: u32,
    overlimits: u32,
    sent_bytes: u64,
    sent_packets: u64,
    memory: (u32, u32),
    next: i64,
    failsafe: i64,
    heap_lifetime: u16,
    draws: u64,
    sum_next_signal: u64,
    sum_count: u64,
    sum_p_drop: u64,
    delivered: u64,
    dropped: u64,
}

fn run_to_end(run: Run, linux: Linux) -> (Bench, Outcome) {
    let mut bench = Bench::new(run, linux);
    for id in 1..=4000 {
        bench.step(run, id);
    }
    let queue = &bench.queue;
    let controllers =
        || (0..8).flat_map(|tin| (0..1024).filter_map(move |index| queue.queue(tin, index))).map(|queue| queue.cobalt);
    let counters = queue.counters();
    let Memory { used, peak, .. } = queue.memory();
    let outcome = Outcome {
        qlen: counters.qlen,
        backlog: counters.backlog_bytes,
        drops: counters.drops,
        congested: bench.congested,
        overlimits: counters.overlimits,
        sent_bytes: counters.sent_bytes,
        sent_packets: counters.sent_packets,
        memory: (peak, used),
        next: queue.shaper().next_ns - T0 as i64,
        failsafe: queue.shaper().failsafe_ns - T0 as i64,
        heap_lifetime: queue.heap_lifetime(),
        draws: bench.world.drawn,
        sum_next_signal: controllers().fold(0, |sum, cobalt| sum.wrapping_add(cobalt.next_signal_ns as u64)),
        sum_count: controllers().map(|cobalt| u64::from(cobalt.count)).sum(),
        sum_p_drop: controllers().map(|cobalt| u64::from(cobalt.p_drop)).sum(),
        delivered: bench.delivered.0,
        dropped: bench.dropped.0,
    };
    (bench, outcome)
}

fn expect(run: Run, linux: Linux, theirs: Outcome) -> Bench {
    let (bench, ours) = run_to_end(run, linux);
    assert_eq!(ours, theirs, "{run:?} on {linux}");
    bench
}

/// §24.7, the rows of one tin: rate, target, interval, packets, bytes, drops, marks, ACKs, delays, lookups, queues,
/// clock and deficit.
fn expect_tin(bench: &Bench, index: usize, row: TinRow) {
    let tin = bench.queue.tin(index).unwrap();
    let stats = bench.queue.tin_stats(index).unwrap();
    let ours = TinRow {
        rate: tin.rate,
        times: (tin.cobalt.target_ns, tin.cobalt.interval_ns),
        enqueued: (stats.sent_packets, stats.sent_bytes),
        losses: (stats.drops, stats.ecn_marks, stats.ack_drops),
        delays: (tin.delays.peak_ns, tin.delays.mean_ns, tin.delays.base_ns),
        lookups: (tin.lookups.hits, tin.lookups.misses, tin.lookups.collisions),
        queues: (tin.sparse, tin.decaying, tin.bulk, tin.unresponsive),
        next: tin.next_ns - T0 as i64,
        deficit: tin.deficit_bytes,
    };
    assert_eq!(ours, row, "tin {index}");
}

#[derive(Debug, PartialEq, Eq)]
struct TinRow {
    rate: u64,
    times: (u64, u64),
    enqueued: (u32, u64),
    losses: (u32, u32, u32),
    delays: (u64, u64, u64),
    lookups: (u32, u32, u32),
    queues: (u16, u16, u16, u16),
    next: i64,
    deficit: i32,
}

const PLAIN: (u64, u64) = (5_000_000, 100_000_000);

#[test]
fn r1_cobalt_blue_and_heap() {
    let older = |sum_next_signal| Outcome {
        qlen: 131,
        backlog: 116_580,
        drops: 1926,
        congested: 227,
        overlimits: 5187,
        sent_bytes: 2_490_940,
        sent_packets: 2810,
        memory: (201_984, 197_120),
        next: 1_994_509_506,
        failsafe: 2_990_598_306,
        heap_lifetime: 65520,
        draws: 10477,
        sum_next_signal,
        sum_count: 1353,
        sum_p_drop: 4_638_900_224,
        delivered: 0x6107_8873_1f1d_bada,
        dropped: 0xe4df_ef06_c06b_8bc3,
    };
    expect(Run::R1, Linux::V6_1, older(40_079_752_450_858));
    expect(Run::R1, Linux::V6_12, older(40_079_752_450_859));
    let bench = expect(
        Run::R1,
        Linux::V7_2,
        Outcome {
            qlen: 132,
            backlog: 112_820,
            drops: 1918,
            congested: 241,
            overlimits: 5180,
            sent_bytes: 2_490_336,
            sent_packets: 2817,
            memory: (201_984, 194_560),
            next: 1_994_026_306,
            failsafe: 2_989_873_506,
            heap_lifetime: 65522,
            draws: 9935,
            sum_next_signal: 40_079_663_739_324,
            sum_count: 1346,
            sum_p_drop: 4_863_295_488,
            delivered: 0x8b9b_75ad_fdbf_daa2,
            dropped: 0x517e_0ac8_6716_d311,
        },
    );
    expect_tin(
        &bench,
        0,
        TinRow {
            rate: 1_250_000,
            times: PLAIN,
            enqueued: (4867, 4_404_960),
            losses: (1918, 541, 0),
            delays: (168_422_258, 53_211_089, 5_840_499),
            lookups: (0, 40, 0),
            queues: (0, 6, 34, 24),
            next: 1_994_026_306,
            deficit: -2_490_336,
        },
    );
    let lengths = bench.queue.lengths();
    assert_eq!(
        (lengths.network_min, lengths.network_max, lengths.adjusted_min, lengths.adjusted_max),
        (64, 1514, 64, 1514)
    );
}

#[test]
fn r2_ingress_atm_and_hosts() {
    let older = |sum_next_signal| Outcome {
        qlen: 225,
        backlog: 163_440,
        drops: 1970,
        congested: 419,
        overlimits: 5414,
        sent_bytes: 1_903_888,
        sent_packets: 2584,
        memory: (301_824, 298_496),
        next: 1_677_201_447,
        failsafe: 1_370_448_047,
        heap_lifetime: 65532,
        draws: 18205,
        sum_next_signal,
        sum_count: 258,
        sum_p_drop: 10_265_559_040,
        delivered: 0x7199_058e_256a_b13c,
        dropped: 0xa186_7220_7f4d_c3f4,
    };
    expect(Run::R2, Linux::V6_1, older(137_184_405_086_057));
    expect(Run::R2, Linux::V6_12, older(137_184_405_643_717));
    let bench = expect(
        Run::R2,
        Linux::V7_2,
        Outcome {
            qlen: 223,
            backlog: 164_888,
            drops: 1969,
            congested: 433,
            overlimits: 5411,
            sent_bytes: 1_903_958,
            sent_packets: 2587,
            memory: (301_824, 298_496),
            next: 1_676_607_847,
            failsafe: 1_370_543_447,
            heap_lifetime: 65534,
            draws: 17928,
            sum_next_signal: 137_184_414_632_120,
            sum_count: 246,
            sum_p_drop: 10_452_205_568,
            delivered: 0x5bef_4b23_0a3c_8d94,
            dropped: 0xdd3e_12f4_cc1e_24b5,
        },
    );
    for (index, row) in [
        (
            1,
            TinRow {
                rate: 156_250,
                times: (14_534_400, 109_534_400),
                enqueued: (1015, 788_000),
                losses: (825, 0, 0),
                delays: (188_407_780, 14_499_245, 11_896_965),
                lookups: (0, 34, 0),
                queues: (0, 0, 34, 34),
                next: 1_380_517_586,
                deficit: -51357,
            },
        ),
        (
            0,
            TinRow {
                rate: 2_500_000,
                times: PLAIN,
                enqueued: (1744, 1_386_528),
                losses: (985, 141, 0),
                delays: (245_023_858, 67_812_710, 9_604_682),
                lookups: (0, 35, 0),
                queues: (1, 4, 30, 34),
                next: 636_968_958,
                deficit: -684_442,
            },
        ),
        (
            2,
            TinRow {
                rate: 1_250_000,
                times: PLAIN,
                enqueued: (1058, 793_894),
                losses: (57, 13, 0),
                delays: (12_213_498, 3_319_453, 347_957),
                lookups: (0, 34, 0),
                queues: (0, 33, 0, 4),
                next: 1_369_008_645,
                deficit: -894_375,
            },
        ),
        (
            3,
            TinRow {
                rate: 625_000,
                times: PLAIN,
                enqueued: (962, 700_642),
                losses: (102, 2, 0),
                delays: (90_682_993, 14_811_924, 864_589),
                lookups: (0, 34, 0),
                queues: (2, 30, 1, 12),
                next: 1_371_753_008,
                deficit: -754_720,
            },
        ),
    ] {
        expect_tin(&bench, index, row);
    }
    let lengths = bench.queue.lengths();
    assert_eq!(
        (lengths.network_min, lengths.network_max, lengths.adjusted_min, lengths.adjusted_max),
        (76, 1500, 159, 1749)
    );
}

#[test]
fn r3_unlimited_triple_isolate_and_wash() {
    let older = |sum_next_signal| Outcome {
        qlen: 131,
        backlog: 65234,
        drops: 850,
        congested: 129,
        overlimits: 0,
        sent_bytes: 1_950_036,
        sent_packets: 3019,
        memory: (151_808, 143_104),
        next: 476_706_202,
        failsafe: 476_706_202,
        heap_lifetime: 65529,
        draws: 5620,
        sum_next_signal,
        sum_count: 369,
        sum_p_drop: 5_275_385_856,
        delivered: 0x3cd0_357a_4475_5929,
        dropped: 0x61f8_2e60_e182_64a8,
    };
    expect(Run::R3, Linux::V6_1, older(288_179_280_141_991));
    expect(Run::R3, Linux::V6_12, older(288_179_282_810_767));
    let bench = expect(
        Run::R3,
        Linux::V7_2,
        Outcome {
            qlen: 125,
            backlog: 66462,
            drops: 855,
            congested: 122,
            overlimits: 0,
            sent_bytes: 1_947_188,
            sent_packets: 3020,
            memory: (151_808, 140_288),
            next: 476_706_202,
            failsafe: 476_706_202,
            heap_lifetime: 65529,
            draws: 5463,
            sum_next_signal: 288_179_698_845_393,
            sum_count: 372,
            sum_p_drop: 5_287_968_768,
            delivered: 0x0aee_d4e1_bae7_f84e,
            dropped: 0x9df5_4704_afa4_f13e,
        },
    );
    for (index, row) in [
        (
            1,
            TinRow {
                rate: 0,
                times: PLAIN,
                enqueued: (1009, 700_616),
                losses: (461, 31, 0),
                delays: (81_873_663, 23_955_529, 5_691_074),
                lookups: (73, 96, 0),
                queues: (48, 42, 6, 85),
                next: 476_890_863,
                deficit: -894,
            },
        ),
        (
            0,
            TinRow {
                rate: 0,
                times: PLAIN,
                enqueued: (2017, 1_430_616),
                losses: (235, 8, 0),
                delays: (20_069_488, 5_777_399, 1_381_081),
                lookups: (136, 96, 0),
                queues: (23, 73, 0, 61),
                next: 565_822_329,
                deficit: 176,
            },
        ),
        (
            2,
            TinRow {
                rate: 0,
                times: PLAIN,
                enqueued: (974, 696_144),
                losses: (159, 11, 0),
                delays: (37_073_807, 13_143_369, 5_127_198),
                lookups: (63, 96, 0),
                queues: (38, 33, 23, 57),
                next: 482_794_030,
                deficit: -1318,
            },
        ),
    ] {
        expect_tin(&bench, index, row);
    }
    let lengths = bench.queue.lengths();
    assert_eq!(
        (lengths.network_min, lengths.network_max, lengths.adjusted_min, lengths.adjusted_max),
        (60, 1514, 60, 1514)
    );
}

#[test]
fn r4_autorate_and_ack_filter() {
    let outcome = |sum_next_signal| Outcome {
        qlen: 15,
        backlog: 6710,
        drops: 160,
        congested: 0,
        overlimits: 96,
        sent_bytes: 2_133_296,
        sent_packets: 3825,
        memory: (30720, 16896),
        next: 19_702_569_822,
        failsafe: 19_741_648_762,
        heap_lifetime: 0,
        draws: 8395,
        sum_next_signal,
        sum_count: 11,
        sum_p_drop: 0,
        delivered: 0xc2a1_fb18_f9ab_9c0d,
        dropped: 0x6e48_1189_336b_f04b,
    };
    expect(Run::R4, Linux::V6_1, outcome(32_663_100_256_415));
    expect(Run::R4, Linux::V6_12, outcome(32_663_100_415_746));
    let bench = expect(Run::R4, Linux::V7_2, outcome(32_663_100_415_746));
    for (index, row) in [
        (
            0,
            TinRow {
                rate: 1_844_530,
                times: PLAIN,
                enqueued: (1048, 554_932),
                losses: (113, 26, 39),
                delays: (304_404_510, 49_531_907, 2_052_330),
                lookups: (0, 8, 0),
                queues: (2, 0, 6, 0),
                next: 19_634_613_920,
                deficit: -570_802,
            },
        ),
        (
            1,
            TinRow {
                rate: 1_613_963,
                times: PLAIN,
                enqueued: (942, 524_440),
                losses: (4, 4, 3),
                delays: (172_998_883, 10_717_897, 166_423),
                lookups: (0, 8, 0),
                queues: (2, 6, 0, 0),
                next: 20_646_765_436,
                deficit: -548_140,
            },
        ),
        (
            2,
            TinRow {
                rate: 1_412_217,
                times: PLAIN,
                enqueued: (974, 538_362),
                losses: (0, 0, 1),
                delays: (201_488_608, 8_898_130, 27320),
                lookups: (0, 8, 0),
                queues: (0, 8, 0, 0),
                next: 20_644_403_313,
                deficit: -562_986,
            },
        ),
        (
            6,
            TinRow {
                rate: 827_813,
                times: PLAIN,
                enqueued: (1036, 592_754),
                losses: (0, 0, 0),
                delays: (167_279_503, 7_128_374, 28647),
                lookups: (0, 8, 0),
                queues: (1, 7, 0, 0),
                next: 20_648_163_279,
                deficit: -619_342,
            },
        ),
    ] {
        expect_tin(&bench, index, row);
    }
    let lengths = bench.queue.lengths();
    assert_eq!(
        (lengths.network_min, lengths.network_max, lengths.adjusted_min, lengths.adjusted_max),
        (52, 1500, 84, 1554)
    );
    assert_eq!(bench.queue.autorate().capacity, 1_967_499);
}
