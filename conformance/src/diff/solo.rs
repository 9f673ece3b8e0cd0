//! A case on the port alone: no kernel needed. What must hold for any qdisc after every call is checked.

use debloat_aqm::net::SipKey;
use debloat_aqm::{DropReason, DynQdisc, Environment, Linux, SplitMix64, TreeCorrection};
use debloat_harness::replay::TracePacket;
use debloat_harness::tc::{self, Subject, Words};
use debloat_harness::trace::{Arrival, GsoInfo, Hashes, VlanTag};

use super::case::{Case, Draft, Op};

/// Packets and bytes that went in and came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets offered.
    pub offered: u64,
    /// Packets delivered or dropped; a packet that was split counts by its segments.
    pub left: u64,
    /// Bytes offered, in qdisc lengths.
    pub offered_bytes: u64,
    /// Bytes delivered or dropped.
    pub left_bytes: u64,
}

struct World {
    now_ns: u64,
    step_ns: u64,
    random: SplitMix64,
    dropped: u64,
    dropped_bytes: u64,
}

impl Environment<TracePacket> for World {
    fn now_ns(&mut self) -> u64 {
        let now = self.now_ns;
        self.now_ns += self.step_ns;
        now
    }
    fn random_u32(&mut self) -> u32 {
        self.random.next_u64() as u32
    }
    fn flow_secret(&self) -> SipKey {
        SipKey([1, 2])
    }
    fn dropped(&mut self, packet: TracePacket, _: DropReason) {
        self.dropped += 1;
        self.dropped_bytes += u64::from(debloat_aqm::Packet::len_bytes(&packet));
    }
    fn correct_tree(&mut self, _: TreeCorrection) {}
}

/// Runs a case on the port of a kind. `None`: the options are refused.
///
/// # Panics
///
/// When packets or bytes are not conserved after a call (for kinds that do not split packets, which `splits` says),
/// or when a queue that holds packets never gives one, though nothing is offered and time passes.
pub fn run(kind: &str, case: &Case, linux: Linux, splits: bool) -> Option<Totals> {
    let host = case.device.host(250, case.start_ns);
    let mut queue = tc::build::<TracePacket>(&format!("{kind} {}", case.options.text), linux, host).ok()?;
    let mut world =
        World { now_ns: case.start_ns, step_ns: 0, random: SplitMix64(case.draw_seed), dropped: 0, dropped_bytes: 0 };
    let mut totals = Totals::default();
    for (id, step) in (0u64..).zip(&case.steps) {
        world.now_ns += step.advance_ns;
        world.step_ns = step.clock_step_ns;
        let out = match &step.op {
            Op::Enqueue(draft) => {
                totals.offered += 1;
                totals.offered_bytes += u64::from(draft.len_bytes);
                let _ = queue.dyn_enqueue(packet(id, draft), &mut world);
                None
            }
            Op::Dequeue => queue.dyn_dequeue(&mut world),
            Op::DequeuePeeked => queue.dyn_dequeue_peeked(&mut world),
            Op::Peek => {
                let _ = queue.dyn_peek(&mut world);
                None
            }
            Op::Timer => {
                queue.dyn_on_timer(&mut world);
                None
            }
            Op::Change(options) => {
                let mut words = Words::new(queue.kind(), &options.text);
                let _ = queue.change_text(&mut words, &mut world);
                None
            }
            Op::Reset => {
                queue.dyn_reset(&mut world);
                None
            }
        };
        take(&mut totals, out);
        check(&*queue, &totals, &world, splits);
    }
    drain(&mut *queue, &mut totals, &mut world, splits);
    Some(totals)
}

fn take(totals: &mut Totals, out: Option<TracePacket>) {
    if let Some(packet) = out {
        totals.left += 1;
        totals.left_bytes += u64::from(debloat_aqm::Packet::len_bytes(&packet));
    }
}

fn check(queue: &dyn Subject<TracePacket>, totals: &Totals, world: &World, splits: bool) {
    let counters = queue.dyn_counters();
    if !splits {
        let packets = totals.left + world.dropped + u64::from(counters.qlen);
        assert_eq!(totals.offered, packets, "packets in = delivered + dropped + queued");
        let bytes = totals.left_bytes + world.dropped_bytes + u64::from(counters.backlog_bytes);
        assert_eq!(totals.offered_bytes & 0xffff_ffff, bytes & 0xffff_ffff, "bytes in = delivered + dropped + queued");
    }
    assert_eq!(counters.qlen == 0, counters.backlog_bytes == 0, "{counters:?}");
}

/// No starvation: once nothing arrives any more, everything queued leaves within a bounded number of calls.
fn drain(queue: &mut dyn Subject<TracePacket>, totals: &mut Totals, world: &mut World, splits: bool) {
    let queued = queue.dyn_counters().qlen;
    let mut calls = 0u64;
    while queue.dyn_counters().qlen > 0 {
        assert!(calls < 1000 + 40 * u64::from(queued), "{queued} packets were queued, and they do not leave");
        calls += 1;
        // A shaper or pacer says when; without a deadline it is time enough.
        let next = queue.dyn_next_event().map_or(0, |event| event.at_ns);
        world.now_ns = (world.now_ns + 1_000_000_000).max(next);
        let out = queue.dyn_dequeue_peeked(world);
        take(totals, out);
        check(queue, totals, world, splits);
    }
}

fn packet(id: u64, draft: &Draft) -> TracePacket {
    let arrival = Arrival {
        id,
        len_bytes: draft.len_bytes,
        buffer_bytes: draft.buffer_bytes,
        linear_bytes: draft.bytes.len() as u32,
        truesize_bytes: draft.truesize_bytes,
        priority: draft.priority,
        mark: draft.mark,
        hash: draft
            .hash
            .unwrap_or(draft.bytes.iter().fold(7u32, |hash, byte| u32::wrapping_mul(hash, 31) ^ u32::from(*byte))),
        hash_carried: draft.hash.is_some(),
        protocol: draft.protocol,
        network_offset: draft.network_offset,
        gso: draft.gso.map(|(segment_bytes, segments, kind)| GsoInfo { segment_bytes, segments, kind }),
        charged_to_socket: draft.charged_to_socket,
        departure_ns: draft.departure_ns,
        vlan: draft.vlan.map(|(tpid, tci)| VlanTag { tpid, tci }),
        bytes: draft.bytes.clone(),
        ..Arrival::default()
    };
    TracePacket::new(&arrival, Hashes::Recorded)
}
