//! **Not Linux**: the RED of ALTQ, the traffic conditioner of the BSDs (spec/red.md §11), for repeating the CBQ+RED
//! experiments of spec/experiments.md §E3.
//!
//! It averages *packets*, not bytes, spaces marks by another law and drops, not marks, above the upper threshold.
//! Fixed point with 12 fraction bits in 32-bit signed arithmetic.

use crate::slab::{Fifo, Slab};
use crate::{ConfigError, Counters, DropReason, Environment, Heap, Packet, Qdisc, Storage, Verdict};

/// Fraction bits.
const FP: u32 = 12;

/// The parameters of ALTQ's RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets that may be queued; default 60.
    pub limit: u32,
    /// Average from which packets are picked, packets; default 5.
    pub min_packets: u32,
    /// Average from which every packet is dropped, packets; default 15.
    pub max_packets: u32,
    /// 1 over the largest probability; default 10 (10 %).
    pub inverse_max_probability: u32,
    /// 1 over the average's weight, a power of two. `None` chooses by the packet time: 64 below 50 packets per second,
    /// 128 below 300, else 512.
    pub weight: Option<u32>,
    /// Time to send a packet, µs, for idle periods; default 800.
    pub packet_time_us: u32,
    /// Mark ECN-capable packets instead of dropping, between the thresholds only.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 60,
            min_packets: 5,
            max_packets: 15,
            inverse_max_probability: 10,
            weight: None,
            packet_time_us: 800,
            ecn: false,
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The average, packets times 2^12.
    pub average: u32,
    /// Drops between the thresholds.
    pub early_drops: u32,
    /// Drops above the upper threshold or at the limit.
    pub forced_drops: u32,
    /// Marks.
    pub marks: u32,
}

/// RED as ALTQ has it, over a queue of its own. **Not Linux.**
pub struct AltqRed<P, S: Storage = Heap> {
    slab: Slab<P, (), S>,
    fifo: Fifo,
    counters: Counters,
    config: Config,
    /// log2 of 1/weight.
    shift: u32,
    decay: Decay,
    /// The average, packets times 2^(shift + 12).
    average: i32,
    /// Packets since the last mark or drop.
    count: i32,
    /// Has an arrival passed since the average rose above the lower threshold?
    above: bool,
    idle_since_ns: Option<u64>,
    stats: Stats,
}

const fn refuse(option: &'static str, value: u32, allowed: &'static str) -> ConfigError {
    ConfigError { qdisc: "altq red", option, value: value as u64, allowed }
}

#[cfg(feature = "alloc")]
impl<P: Packet> AltqRed<P> {
    /// A queue on the heap.
    ///
    /// # Errors
    ///
    /// See [`in_storage`](Self::in_storage).
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::in_storage(config)
    }
}

impl<P: Packet, S: Storage> AltqRed<P, S> {
    /// A queue in the given storage. Fixed storage must hold `limit` packets.
    ///
    /// # Errors
    ///
    /// A weight that is no power of two or above 2^12; thresholds that are not in order or so large that 32-bit
    /// arithmetic cannot hold the scaled average; a packet time or an inverse probability of 0.
    pub fn in_storage(config: Config) -> Result<Self, ConfigError> {
        if config.packet_time_us == 0 {
            return Err(refuse("packet_time", 0, "at least 1 µs"));
        }
        let per_second = 1_000_000 / config.packet_time_us;
        let weight = config.weight.unwrap_or(match per_second {
            0..50 => 64,
            50..300 => 128,
            _ => 512,
        });
        if !weight.is_power_of_two() || weight > 1 << FP {
            return Err(refuse("weight", weight, "a power of two, at most 4096"));
        }
        let shift = weight.trailing_zeros();
        // The average stays below the limit, its sum with one more packet below twice that.
        let room = 1u32 << (30 - FP - shift);
        if config.limit >= room {
            return Err(refuse("limit", config.limit, "so that limit·2^12/weight stays below 2^30"));
        }
        if config.min_packets > config.max_packets || config.max_packets >= room {
            return Err(refuse("max", config.max_packets, "at least min, and max·2^12/weight below 2^30"));
        }
        let span = u64::from(config.max_packets - config.min_packets) << (FP + 1);
        let inverse = config.inverse_max_probability;
        if inverse == 0 || span.checked_mul(inverse.into()).is_none_or(|law| law > i32::MAX as u64) {
            return Err(refuse("inverse_max_probability", inverse, "at least 1, and 2·(max−min)·it·2^12 below 2^31"));
        }
        let slab = Slab::new(config.limit as usize)
            .map_err(|_| refuse("limit", config.limit, "at most the packets which the storage holds"))?;
        Ok(Self {
            slab,
            fifo: Fifo::EMPTY,
            counters: Counters::default(),
            config,
            shift,
            decay: Decay::new(weight),
            average: 0,
            count: 0,
            above: false,
            idle_since_ns: None,
            stats: Stats::default(),
        })
    }

    /// The statistics.
    pub const fn stats(&self) -> Stats {
        Stats { average: (self.average >> self.shift) as u32, ..self.stats }
    }

    /// Follows the queue length, after what an idle period left of the average.
    fn follow<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        if let Some(since) = self.idle_since_ns.take() {
            const SECOND: u64 = 1_000_000_000;
            let now = cx.now_ns();
            if now / SECOND - (since / SECOND).min(now / SECOND) > 60 {
                self.average = 0;
            } else {
                let idle_us = now.saturating_sub(since) / 1000;
                let missed = idle_us / u64::from(self.config.packet_time_us);
                if missed > 1 {
                    self.average = (self.average >> FP).wrapping_mul(self.decay.after((missed - 1) as u32) as i32);
                }
            }
        }
        let queued = (self.counters.qlen << FP) as i32;
        self.average = self.average.wrapping_add(queued).wrapping_sub(self.average >> self.shift);
        self.count = self.count.wrapping_add(1);
    }

    /// Picks by chance: the spacing law p/(2 − count·p).
    fn pick<E: Environment<P> + ?Sized>(&self, threshold: i32, cx: &mut E) -> bool {
        let excess = self.average.wrapping_sub(threshold) >> self.shift;
        let span = (self.config.max_packets - self.config.min_packets).wrapping_mul(2);
        let law = (span.wrapping_mul(self.config.inverse_max_probability) << FP) as i32;
        let distance = law.wrapping_sub(self.count.wrapping_mul(excess));
        distance <= 0 || (cx.random_u32() % distance as u32) < excess as u32
    }

    #[cold]
    fn drop<E: Environment<P> + ?Sized>(&mut self, packet: P, forced: bool, why: DropReason, cx: &mut E) -> Verdict {
        let drops = if forced { &mut self.stats.forced_drops } else { &mut self.stats.early_drops };
        *drops = drops.wrapping_add(1);
        self.count = 0;
        self.counters.count_drops(1);
        cx.dropped(packet, why);
        Verdict::Dropped
    }
}

impl<P: Packet, S: Storage> core::fmt::Debug for AltqRed<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AltqRed")
            .field("config", &self.config)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for AltqRed<P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, mut packet: P, cx: &mut E) -> Verdict {
        self.follow(cx);
        let scaled = |packets: u32| (packets << (FP + self.shift)) as i32;
        let (low, high) = (scaled(self.config.min_packets), scaled(self.config.max_packets));
        let over = self.average >= low && self.counters.qlen > 1;
        if over && self.average >= high {
            return self.drop(packet, true, DropReason::Overload, cx);
        }
        let first = over && !self.above;
        self.above = over;
        if first {
            self.count = 1;
        } else if over && self.pick(low, cx) {
            if !self.config.ecn || !packet.try_mark_ce() {
                return self.drop(packet, false, DropReason::Early, cx);
            }
            self.stats.marks = self.stats.marks.wrapping_add(1);
            self.count = 0;
        }
        if self.counters.qlen >= self.config.limit {
            return self.drop(packet, true, DropReason::TailDrop, cx);
        }
        let len = packet.len_bytes();
        match self.slab.insert(packet, len, ()) {
            Ok(at) => {
                self.slab.push_back(&mut self.fifo, at);
                self.counters.add_queued(len);
                Verdict::Queued
            }
            Err(packet) => self.drop(packet, true, DropReason::StorageFull, cx),
        }
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let Some(at) = self.slab.pop_front(&mut self.fifo) else {
            if self.idle_since_ns.is_none() {
                self.idle_since_ns = Some(cx.now_ns());
            }
            return None;
        };
        let packet = self.slab.remove(at)?;
        let len = packet.len_bytes();
        self.counters.count_sent(len, packet.gso().segments);
        self.counters.sub_queued(len);
        Some(packet)
    }

    /// The real head: nothing is parked, no idle period starts.
    fn peek<E: Environment<P> + ?Sized>(&mut self, _: &mut E) -> Option<&P> {
        self.slab.slot(self.fifo.head()?).packet.as_ref()
    }

    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        self.dequeue(cx)
    }

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        while let Some(at) = self.slab.pop_front(&mut self.fifo) {
            if let Some(packet) = self.slab.remove(at) {
                self.counters.sub_queued(packet.len_bytes());
                cx.dropped(packet, DropReason::Reset);
            }
        }
        (self.average, self.count, self.above, self.idle_since_ns) = (0, 0, false, None);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// (1 − weight)^n in fixed point, by repeated squaring.
#[derive(Clone, Copy, Debug)]
struct Decay([u32; 32]);

impl Decay {
    const fn new(weight: u32) -> Self {
        let mut table = [0; 32];
        table[0] = ((weight - 1) << FP) / weight;
        let mut i = 1;
        while i < 32 {
            table[i] = (table[i - 1] * table[i - 1]) >> FP;
            i += 1;
        }
        Self(table)
    }

    fn after(&self, n: u32) -> u32 {
        let mut product = 1u32 << FP;
        for (bit, &factor) in self.0.iter().enumerate() {
            if n >> bit == 0 {
                break;
            }
            if factor == 0 {
                // n reaches the first power of two after which nothing is left.
                return 0;
            }
            if n >> bit & 1 != 0 {
                product = (product * factor) >> FP;
            }
        }
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Descriptor, Scripted};
    use alloc::vec::Vec;

    #[test]
    fn decay_table_of_the_default_weight() {
        let decay = Decay::new(512);
        let expected = [4088, 4080, 4064, 4032, 3969, 3845, 3609, 3179, 2467, 1485, 538, 70, 1, 0];
        assert_eq!(decay.0[..14], expected);
        assert_eq!([1, 10, 100, 500, 1000].map(|n| decay.after(n)), [4088, 4016, 3360, 1521, 564]);
        assert_eq!((decay.after(8191) != 0, decay.after(8192), decay.after(u32::MAX)), (false, 0, 0));
    }

    fn fill(queue: &mut AltqRed<Descriptor>, n: u32, ds: u8, cx: &mut Scripted<Descriptor>) -> Vec<Verdict> {
        (0..n).map(|_| queue.enqueue(Descriptor::new(1000).with_ds_field(ds), cx)).collect()
    }

    #[test]
    fn drops_capable_packets_above_the_upper_threshold() {
        let mut cx = Scripted::at(1).with_draws(core::iter::repeat_n(u64::from(u32::MAX), 1000));
        let config = Config { weight: Some(1), ecn: true, ..Config::default() };
        let mut queue = AltqRed::new(config).unwrap();
        // Weight 1: the average is the length before the arrival.
        let verdicts = fill(&mut queue, 30, 2, &mut cx);
        assert!(verdicts[..15].iter().all(|&verdict| verdict == Verdict::Queued));
        assert!(verdicts[15..].iter().all(|&verdict| verdict == Verdict::Dropped));
        assert_eq!((queue.stats().forced_drops, queue.stats().average >> FP), (15, 15));
        assert_eq!(queue.stats().early_drops, 0);
    }

    #[test]
    fn marks_or_drops_between_the_thresholds() {
        for (ds, marks) in [(2, 1), (0, 0)] {
            let mut cx = Scripted::at(1).with_draws([0]);
            let config = Config { weight: Some(1), ecn: true, ..Config::default() };
            let mut queue = AltqRed::new(config).unwrap();
            // 6 are below min; the 6th finds an average of 5, is the first above it and passes.
            assert_eq!(fill(&mut queue, 6, ds, &mut cx), [Verdict::Queued; 6]);
            let verdict = queue.enqueue(Descriptor::new(1000).with_ds_field(ds), &mut cx);
            assert_eq!((queue.stats().marks, queue.stats().early_drops), (marks, 1 - marks));
            assert_eq!(verdict, if marks == 1 { Verdict::Queued } else { Verdict::Dropped });
            assert_eq!(queue.count, 0);
        }
    }

    #[test]
    fn picks_by_the_spacing_law() {
        // Average 10 packets: excess 5·4096, law 2·10·10·4096 = 819200; count 1: distance 798720.
        for (draw, hit) in [(20_479, true), (20_480, false), (798_720 + 20_479, true), (798_720 + 20_480, false)] {
            let mut cx = Scripted::<Descriptor>::at(1).with_draws([draw]);
            let mut queue = AltqRed::<Descriptor>::new(Config::default()).unwrap();
            (queue.average, queue.count) = (10 << (FP + 9), 1);
            assert_eq!(queue.pick(5 << (FP + 9), &mut cx), hit, "{draw}");
        }
        let mut queue = AltqRed::<Descriptor>::new(Config::default()).unwrap();
        (queue.average, queue.count) = (10 << (FP + 9), 40);
        assert!(queue.pick(5 << (FP + 9), &mut Scripted::<Descriptor>::at(1)), "due without a draw");
    }

    #[test]
    fn idle_periods_shrink_the_average() {
        let at = |idle_ns: u64| {
            let mut queue = AltqRed::new(Config::default()).unwrap();
            let mut cx = Scripted::at(1_000_000_000);
            assert_eq!(queue.dequeue(&mut cx), None::<Descriptor>);
            queue.average = 8 << (FP + 9);
            cx.now_ns += idle_ns;
            queue.follow(&mut cx);
            queue.average
        };
        // One arrival step with an empty queue follows: avg − avg/512.
        let step = |average: i32| average - (average >> 9);
        assert_eq!(at(1_599_999), step(8 << 21), "one packet time: none was missed");
        assert_eq!(at(1_600_000), step((8 << 9) * 4088));
        assert_eq!(at(11 * 800_000), step((8 << 9) * 4016));
        assert_eq!(at(60_999_000_000), 0, "nothing is left of it after 8192 packet times");
        assert_eq!(at(61_000_000_000), 0);
    }

    #[test]
    fn weights_and_refusals() {
        let made = |config| AltqRed::<Descriptor>::new(config).map(|queue| queue.shift);
        let packet_time = |us| Config { packet_time_us: us, ..Config::default() };
        assert_eq!([800, 4000, 20_000, 20_001].map(|us| made(packet_time(us))), [Ok(9), Ok(7), Ok(7), Ok(6)]);
        assert_eq!(made(packet_time(3333)), Ok(9), "300 packets per second");
        for config in [
            packet_time(0),
            Config { weight: Some(3), ..Config::default() },
            Config { weight: Some(8192), ..Config::default() },
            Config { min_packets: 16, ..Config::default() },
            Config { inverse_max_probability: 0, ..Config::default() },
            Config { inverse_max_probability: u32::MAX, ..Config::default() },
            Config { limit: 512, ..Config::default() },
        ] {
            assert!(made(config).is_err(), "{config:?}");
        }
    }
}
