//! For tests: any qdisc under a random sequence of calls, with its conservation checked after each.

use crate::net::SipKey;
use crate::{Descriptor, DropReason, Environment, Qdisc, SplitMix64, TreeCorrection};

/// A world of chance, which counts what is dropped.
pub(crate) struct Chance {
    pub(crate) now_ns: u64,
    pub(crate) random: SplitMix64,
    pub(crate) dropped: Flow,
    /// What the ancestors were told to subtract.
    pub(crate) corrected: (i64, i64),
}

/// Packets and bytes that passed somewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Flow {
    pub(crate) fn add(&mut self, packet: &Descriptor) {
        self.packets += 1;
        self.bytes += u64::from(packet.len_bytes);
    }
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { now_ns: 5_000_000_000, random: SplitMix64(seed), dropped: Flow::default(), corrected: (0, 0) }
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }
}

impl Environment<Descriptor> for Chance {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }
    fn random_u32(&mut self) -> u32 {
        self.random.next_u64() as u32
    }
    fn flow_secret(&self) -> SipKey {
        SipKey::default()
    }
    fn dropped(&mut self, packet: Descriptor, _: DropReason) {
        self.dropped.add(&packet);
    }
    fn correct_tree(&mut self, correction: TreeCorrection) {
        self.corrected.0 += i64::from(correction.packets);
        self.corrected.1 += i64::from(correction.bytes);
    }
}

/// Runs `steps` random calls; `change` makes a change of options, `check` looks at what is private to the qdisc.
/// Timers run when they are due. Of a qdisc that `splits` GSO packets only the parents' view is checked: segments are
/// new packets.
pub(crate) fn run<Q: Qdisc<Descriptor>>(
    queue: &mut Q,
    cx: &mut Chance,
    steps: u64,
    splits: bool,
    mut change: impl FnMut(&mut Q, &mut Chance),
    mut check: impl FnMut(&Q),
) {
    let (mut offered, mut delivered) = (Flow::default(), Flow::default());
    // What a parent believes to be queued, by verdicts, deliveries and corrections (spec/common.md §5).
    let mut believed = (0i64, 0i64);
    for id in 1..=steps {
        cx.now_ns += cx.below(3_000_000);
        let mut timers = 0;
        while let Some(event) = queue.next_event()
            && event.kind == crate::EventKind::Timer
            && event.at_ns <= cx.now_ns
            && timers < 1_000
        {
            queue.on_timer(cx);
            timers += 1;
        }
        assert!(timers < 1_000, "the timer stays due");
        let mut out = None;
        cx.corrected = (0, 0);
        match cx.below(32) {
            0..17 => {
                let mut packet = Descriptor::new(60 + cx.below(9000) as u32)
                    .with_id(id)
                    .with_flow_hash(cx.below(1 << 32) as u32)
                    .with_ds_field(cx.below(4) as u8);
                if id.is_multiple_of(4) {
                    let segments = 1 + cx.below(5) as u16;
                    packet.len_bytes = u32::from(segments) * 1514 - cx.below(1000) as u32;
                    packet = packet.with_gso(segments, 1448).with_truesize(packet.len_bytes + 768);
                }
                offered.add(&packet);
                if queue.enqueue(packet, cx).adds_to_parent() {
                    believed = (believed.0 + 1, believed.1 + i64::from(packet.len_bytes));
                }
            }
            17..26 => out = queue.dequeue_peeked(cx),
            26 => out = queue.dequeue(cx),
            27 | 28 => drop(queue.peek(cx)),
            29 => change(queue, cx),
            30 if cx.below(8) == 0 => {
                queue.reset(cx);
                believed = (0, 0);
            }
            _ => queue.on_timer(cx),
        }
        if let Some(packet) = out {
            delivered.add(&packet);
            believed = (believed.0 - 1, believed.1 - i64::from(packet.len_bytes));
        }
        let counters = queue.counters();
        believed = (believed.0 - cx.corrected.0, believed.1 - cx.corrected.1);
        assert_eq!(believed, (counters.qlen.into(), counters.backlog_bytes.into()), "step {id}");
        check(queue);
        if splits {
            continue;
        }
        assert_eq!(offered.packets, delivered.packets + cx.dropped.packets + u64::from(counters.qlen), "step {id}");
        assert_eq!(offered.bytes, delivered.bytes + cx.dropped.bytes + u64::from(counters.backlog_bytes), "step {id}");
    }
}
