//! What a campaign reached: the branches of spec/cake.md, seen from outside.

use std::fmt;

use debloat_aqm::cake::{Cake, QueueSnapshot, QueueState, TinSnapshot, TinStats};
use debloat_aqm::{Counters, DropReason, Linux, Qdisc, Verdict};

use super::packet::Mirror;

macro_rules! branches {
    ($($name:ident $text:literal)+) => {
        /// A branch of the specification, or an effect that only one branch has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Branch { $($name),+ }

        impl Branch {
            /// All branches.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The section and the rule.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

branches! {
    FilterStolen "§8.1 filter: stolen"
    FilterShot "§8.1 filter: shot"
    FilterFlow "§8.1 filter: flow override"
    FilterHost "§8.1 filter: host override"
    Washed "§8.3 wash changed a packet"
    TinByMark "§8.2 tin by mark"
    TinByPriority "§8.2 tin by priority"
    TinByDscp "§8.2 tin by DSCP, not the default"
    BesteffortTin "§8.2 besteffort"
    Flowblind "§9.1 flowblind"
    FlowblindNat "§9.1 flowblind with NAT"
    HostQueues "§9.1 srchost, dsthost or hosts"
    FlowsOnly "§9.1 flows"
    SourceFair "§9.1 dual-srchost"
    DestinationFair "§9.1 dual-dsthost"
    TripleFair "§9.1 triple-isolate"
    GivenHash "§9.2 a given hash is used"
    Dissected "§9.2 the headers are hashed"
    LookupDirect "§9.3 direct"
    LookupHit "§9.3 indirect hit"
    LookupMiss "§9.3 vacancy"
    LookupCollision "§9.3 collision"
    CollisionOfBulk "§9.3 collision with a bulk queue"
    LoadAboveOne "§10 host load above 1"
    RefreshTin "§12.2 a stale tin clock"
    RefreshAll "§12.2 a stale global clock"
    RefreshHeld "§12.2 an empty qdisc that must wait"
    SplitGso "§12.4 split"
    SplitFailed "§12.4 split failed"
    WholeGso "§7.2 GSO kept whole"
    WholeGsoUntrusted "§7.2 GSO kept whole, untrusted"
    Atm "§7.1 ATM"
    Ptm "§7.1 PTM"
    NegativeOverhead "§7.1 negative overhead"
    AckFiltered "§13 an ACK removed, normal"
    AckFilteredAggressive "§13 an ACK removed, aggressive"
    AckChargedInIngress "§12.5 a removed ACK charged in ingress mode"
    HeapGrew "§12.6 heap live at an enqueue"
    AutorateWindow "§12.7 a window closes"
    AutorateRetune "§12.7 the rate follows"
    IdleToSparse "§12.8 idle to sparse"
    DecayingToSparse "§12.8 decaying to sparse"
    WaitToBulk "§12.8 sparse-wait to bulk"
    Overload "§12.9 memory limit exceeded"
    OverloadOwn "§12.9 code 2"
    OverloadOther "§12.9 another queue pays"
    OverloadSeveral "§12.9 several packets in one enqueue"
    HeapRebuilt "§14.3 heap built"
    HeapRootEmpty "§14.3 an empty queue at the root"
    OverloadCharged "§14.3 charged in ingress mode"
    GateEmpty "§15.1 nothing queued"
    GateHeld "§15.1 the gate holds back"
    GateFailsafe "§15.1 past the gate by the failsafe clock"
    UnlimitedScan "§15.2 a delivery without a rate"
    UnlimitedScanMoved "§15.2 the scan moves on"
    ParkedOnly "§3.6 queued, but only held outside"
    ShapedOnSchedule "§15.3 a tin on schedule"
    ShapedAhead "§15.3 all tins ahead"
    SparseToBulk "§15.5 sparse to bulk"
    SparseToWait "§15.5 sparse to sparse-wait"
    DecayingFirst "§15.4 a decaying queue ahead of others"
    EmptyToDecaying "§15.7 empty: decaying"
    EmptyToIdle "§15.7 empty: idle"
    CodelDrop "§15.7 a CoDel drop"
    BlueDrop "§15.7 a BLUE drop"
    LastPacketSpared "§15.7 the last packet is delivered though CoDel counted"
    IngressDrop "§15.7 a drop in ingress mode"
    SeveralDrops "§15.7 several drops in one dequeue"
    Marked "§16.5 CE marked"
    MarkedAlready "§16.5 CE was set already"
    CountAbove15 "§16.1 Newton step"
    CountDecays "§16.5 the count decays"
    CountSaturated "§16.2 a wide interval is cut to 32 bits"
    BlueActive "§16.3 BLUE becomes active"
    BlueGrows "§16.3 BLUE grows"
    BlueInactive "§16.4 BLUE becomes inactive"
    TimerDecay "§15.8 the timer for decaying queues"
    Purged "§6.8 a change purges packets"
    StaleTin "§6.8 a tin out of use holds queues on lists"
    TinDeficitRefilled "§15.2 deficits from a shaped past"
    ResetDone "§18 reset with packets"
    Peeked "§3.6 peek"
    PeekHeldAtEnqueue "§3.6 an enqueue while a packet is held"
    ClassDump "§17.5 classes dumped"
}

/// Counts of what was reached.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Coverage {
    /// By branch, in the order of [`Branch::ALL`].
    counts: Vec<u64>,
    /// Operations made.
    pub operations: u64,
    /// Packets offered.
    pub packets: u64,
    /// Draws taken.
    pub draws: u64,
    /// Cases run.
    pub cases: u64,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: vec![0; Branch::ALL.len()], operations: 0, packets: 0, draws: 0, cases: 0 }
    }
}

impl Coverage {
    /// Counts a branch.
    pub fn reach(&mut self, branch: Branch) {
        self.reach_if(true, branch);
    }

    /// Counts a branch if it was taken.
    #[inline]
    pub fn reach_if(&mut self, taken: bool, branch: Branch) {
        self.counts[branch as usize] += u64::from(taken);
    }

    /// How often a branch was reached.
    pub fn count(&self, branch: Branch) -> u64 {
        self.counts[branch as usize]
    }

    /// Branches never reached.
    pub fn missing(&self) -> Vec<Branch> {
        Branch::ALL.iter().copied().filter(|branch| self.count(*branch) == 0).collect()
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.operations += other.operations;
        self.packets += other.packets;
        self.draws += other.draws;
        self.cases += other.cases;
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} operations in {} cases, {} packets, {} draws; {} of {} branches",
            self.operations,
            self.cases,
            self.packets,
            self.draws,
            Branch::ALL.len() - self.missing().len(),
            Branch::ALL.len()
        )?;
        for branch in Branch::ALL {
            writeln!(f, "{:>14}  {}", self.count(*branch), branch.text())?;
        }
        Ok(())
    }
}

/// The port before an operation, as far as coverage looks at it.
#[derive(Clone, Debug)]
pub(super) struct Before {
    counters: Counters,
    tins: [Option<(TinSnapshot, TinStats)>; 8],
    heap_lifetime: u16,
    retune: i64,
    window_start: i64,
    bandwidth: u64,
    next_ns: i64,
    failsafe_ns: i64,
    scan: (u16, u16),
    queues: Vec<((usize, usize), QueueSnapshot)>,
}

impl Before {
    /// Looks at the port; `watch` are the queues that the operation may touch.
    pub(super) fn look(port: &Cake<Mirror>, watch: impl Iterator<Item = (usize, usize)>) -> Self {
        Self {
            counters: *port.counters(),
            tins: std::array::from_fn(|tin| Some((port.tin(tin)?, port.tin_stats(tin)?))),
            heap_lifetime: port.heap_lifetime(),
            retune: port.autorate().last_retune_ns,
            window_start: port.autorate().window_start_ns,
            bandwidth: port.parameters().bandwidth,
            next_ns: port.shaper().next_ns,
            failsafe_ns: port.shaper().failsafe_ns,
            scan: port.scan_position(),
            queues: watch.filter_map(|(tin, queue)| Some(((tin, queue), port.queue(tin, queue)?))).collect(),
        }
    }
}

/// What an enqueue did.
pub(super) struct Enqueued<'a> {
    pub(super) packet: &'a Mirror,
    pub(super) verdict: Verdict,
    pub(super) dropped: &'a [(u64, DropReason)],
    pub(super) now_ns: u64,
    pub(super) linux: Linux,
    pub(super) held: bool,
    pub(super) clock_reads: usize,
}

impl Coverage {
    pub(super) fn enqueued(&mut self, before: &Before, port: &Cake<Mirror>, what: &Enqueued<'_>) {
        use super::configs::uses;
        use debloat_aqm::cake::{AckFilter, FlowMode, Framing};
        use debloat_aqm::{Classified, Packet};
        self.packets += 1;
        let (v, about) = (port.parameters(), what.packet.about());
        match what.verdict {
            Verdict::Stolen => return self.reach(Branch::FilterStolen),
            Verdict::Bypassed => return self.reach(Branch::FilterShot),
            _ => {}
        }
        let refused = what.verdict == Verdict::Dropped;
        self.reach_if(refused, Branch::SplitFailed);
        if let Classified::Class(class) = about.class {
            self.reach_if((1..=1024).contains(&(class & 0xffff)), Branch::FilterFlow);
            self.reach_if((1..=1024).contains(&(class >> 16)), Branch::FilterHost);
        }
        self.reach_if(v.wash && about.frame.len() > 15 && what.packet.dscp() != 0, Branch::Washed);
        let mark = uses::tin_by_mark(v, about.mark, port.tins_in_use());
        let priority = uses::tin_by_priority(about.priority, port.tins_in_use());
        let many = port.tins_in_use() > 1;
        self.reach_if(!many, Branch::BesteffortTin);
        self.reach_if(many && mark, Branch::TinByMark);
        self.reach_if(many && !mark && priority, Branch::TinByPriority);
        self.reach_if(many && !mark && !priority && what.packet.dscp() != 0, Branch::TinByDscp);
        let mode = v.flow_mode;
        self.reach_if(mode == FlowMode::FLOWBLIND && !v.nat, Branch::Flowblind);
        self.reach_if(mode == FlowMode::FLOWBLIND && v.nat, Branch::FlowblindNat);
        self.reach_if(matches!(mode.attribute(), 1..=3), Branch::HostQueues);
        self.reach_if(mode == FlowMode::FLOWS, Branch::FlowsOnly);
        self.reach_if(mode == FlowMode::DUAL_SRCHOST, Branch::SourceFair);
        self.reach_if(mode == FlowMode::DUAL_DSTHOST, Branch::DestinationFair);
        self.reach_if(mode == FlowMode::TRIPLE_ISOLATE, Branch::TripleFair);
        self.reach_if(matches!(mode.attribute(), 4..=7) && about.hash.is_some(), Branch::GivenHash);
        self.reach_if(mode.attribute() != 0 && about.hash.is_none(), Branch::Dissected);
        let now = what.now_ns as i64;
        let was_empty = before.counters.qlen == 0;
        let held = before.next_ns > now && before.failsafe_ns > now;
        self.reach_if(was_empty && before.next_ns < now, Branch::RefreshAll);
        self.reach_if(
            was_empty && held && port.counters().overlimits != before.counters.overlimits,
            Branch::RefreshHeld,
        );
        for tin in 0..8 {
            let (Some((old, was)), Some(new), Some(is)) = (&before.tins[tin], port.tin(tin), port.tin_stats(tin))
            else {
                continue;
            };
            self.reach_if(new.lookups.direct != old.lookups.direct, Branch::LookupDirect);
            self.reach_if(new.lookups.hits != old.lookups.hits, Branch::LookupHit);
            self.reach_if(new.lookups.misses != old.lookups.misses, Branch::LookupMiss);
            let collided = new.lookups.collisions != old.lookups.collisions;
            self.reach_if(collided, Branch::LookupCollision);
            self.reach_if(
                collided
                    && before.queues.iter().any(|(at, queue)| {
                        queue.state == QueueState::Bulk && port.queue(at.0, at.1).is_some_and(|q| q.tag != queue.tag)
                    }),
                Branch::CollisionOfBulk,
            );
            let offered = is.sent_packets != was.sent_packets;
            self.reach_if(
                offered && old.backlog_bytes == 0 && new.next_ns == now && old.next_ns < now,
                Branch::RefreshTin,
            );
            let filtered = is.ack_drops != was.ack_drops;
            self.reach_if(filtered && v.ack_filter == AckFilter::Normal, Branch::AckFiltered);
            self.reach_if(filtered && v.ack_filter == AckFilter::Aggressive, Branch::AckFilteredAggressive);
            self.reach_if(filtered && v.ingress && v.bandwidth != 0, Branch::AckChargedInIngress);
            self.reach_if(new.unresponsive > old.unresponsive, Branch::BlueActive);
        }
        let gso = about.gso.is_some_and(|gso| gso.segments > 1 || what.linux < Linux::V7_2);
        self.reach_if(gso && v.split_gso && !refused, Branch::SplitGso);
        self.reach_if(gso && !v.split_gso, Branch::WholeGso);
        let untrusted = about.gso.is_some_and(|gso| gso.bits & super::packet::gso_bits::DODGY != 0);
        self.reach_if(gso && !v.split_gso && untrusted, Branch::WholeGsoUntrusted);
        self.reach_if(v.framing == Framing::Atm, Branch::Atm);
        self.reach_if(v.framing == Framing::Ptm, Branch::Ptm);
        self.reach_if(v.overhead_bytes < 0, Branch::NegativeOverhead);
        self.reach_if(before.heap_lifetime != 0, Branch::HeapGrew);
        let autorate = port.autorate();
        self.reach_if(v.autorate_ingress && autorate.window_start_ns != before.window_start, Branch::AutorateWindow);
        let retuned = autorate.last_retune_ns != before.retune || v.bandwidth != before.bandwidth;
        self.reach_if(v.autorate_ingress && retuned, Branch::AutorateRetune);
        self.reach_if(what.held, Branch::PeekHeldAtEnqueue);
        self.overload(before, port, what);
        self.transitions(before, port);
    }

    fn overload(&mut self, before: &Before, port: &Cake<Mirror>, what: &Enqueued<'_>) {
        let lost = what.dropped.iter().filter(|(_, reason)| *reason == DropReason::OverMemory).count();
        let own = what.verdict == Verdict::Congested;
        self.reach_if(lost > 0 || own, Branch::Overload);
        self.reach_if(own, Branch::OverloadOwn);
        self.reach_if(lost > 0 && !own, Branch::OverloadOther);
        self.reach_if(lost > 1, Branch::OverloadSeveral);
        self.reach_if(lost > 0 && before.heap_lifetime == 0, Branch::HeapRebuilt);
        // Each attempt reads the clock, also one that finds an empty queue.
        self.reach_if(what.clock_reads > lost + 1, Branch::HeapRootEmpty);
        self.reach_if(
            lost > 0 && port.parameters().ingress && port.parameters().bandwidth != 0,
            Branch::OverloadCharged,
        );
    }

    /// What happened to the queues.
    fn transitions(&mut self, before: &Before, port: &Cake<Mirror>) {
        for ((tin, queue), old) in &before.queues {
            let Some(new) = port.queue(*tin, *queue) else { continue };
            match (old.state, new.state) {
                (QueueState::Idle, QueueState::Sparse) => self.reach(Branch::IdleToSparse),
                (QueueState::Decaying, QueueState::Sparse) => self.reach(Branch::DecayingToSparse),
                (QueueState::SparseWait, QueueState::Bulk) => self.reach(Branch::WaitToBulk),
                (QueueState::Sparse, QueueState::Bulk) => self.reach(Branch::SparseToBulk),
                (QueueState::Sparse, QueueState::SparseWait) => self.reach(Branch::SparseToWait),
                (QueueState::Idle, QueueState::Decaying) | (QueueState::Idle, QueueState::Idle) => {}
                (state, QueueState::Decaying) if state != QueueState::Decaying => self.reach(Branch::EmptyToDecaying),
                (_, QueueState::Idle) => self.reach(Branch::EmptyToIdle),
                _ => {}
            }
            let (was, is) = (&old.cobalt, &new.cobalt);
            self.reach_if(is.count > 15 && is.count != was.count, Branch::CountAbove15);
            self.reach_if(is.count < was.count, Branch::CountDecays);
            self.reach_if(is.p_drop > was.p_drop && was.p_drop != 0, Branch::BlueGrows);
            self.reach_if(is.p_drop == 0 && was.p_drop != 0, Branch::BlueInactive);
            let hosts = port.hosts(*tin);
            let load =
                |slot: u16| hosts.get(usize::from(slot)).map_or(0, |host| host.source_bulk.max(host.destination_bulk));
            self.reach_if(load(new.source_slot).max(load(new.destination_slot)) > 1, Branch::LoadAboveOne);
        }
    }

    pub(super) fn dequeued(
        &mut self,
        before: &Before,
        port: &Cake<Mirror>,
        packet: Option<&Mirror>,
        dropped: &[(u64, DropReason)],
        now_ns: u64,
    ) {
        let (v, now) = (port.parameters(), now_ns as i64);
        self.reach_if(before.counters.qlen == 0, Branch::GateEmpty);
        self.reach_if(port.counters().overlimits != before.counters.overlimits, Branch::GateHeld);
        let unlimited = port.shaper().time.mult == 0;
        let none =
            packet.is_none() && before.counters.qlen != 0 && port.counters().overlimits == before.counters.overlimits;
        self.reach_if(none, Branch::ParkedOnly);
        let count = |reason| dropped.iter().filter(|(_, why)| *why == reason).count();
        let (codel, blue) = (count(DropReason::Codel), count(DropReason::Overload));
        self.reach_if(codel > 0, Branch::CodelDrop);
        self.reach_if(blue > 0, Branch::BlueDrop);
        self.reach_if(codel + blue > 1, Branch::SeveralDrops);
        self.reach_if(codel + blue > 0 && v.ingress, Branch::IngressDrop);
        if packet.is_some() {
            self.reach_if(before.next_ns > now && before.failsafe_ns <= now, Branch::GateFailsafe);
            self.reach_if(unlimited, Branch::UnlimitedScan);
            self.reach_if(unlimited && port.scan_position().0 != before.scan.0, Branch::UnlimitedScanMoved);
            let tin = usize::from(port.scan_position().0);
            if let Some((old, _)) = &before.tins[tin] {
                self.reach_if(!unlimited && old.next_ns <= now, Branch::ShapedOnSchedule);
                self.reach_if(!unlimited && old.next_ns > now, Branch::ShapedAhead);
                self.reach_if(unlimited && old.deficit_bytes < -100_000, Branch::TinDeficitRefilled);
            }
        }
        for tin in 0..8 {
            let (Some((old, was)), Some(new), Some(is)) = (&before.tins[tin], port.tin(tin), port.tin_stats(tin))
            else {
                continue;
            };
            self.reach_if(is.ecn_marks != was.ecn_marks, Branch::Marked);
            let already = packet.is_some_and(|packet| packet.about().frame.get(15).is_some_and(|tos| tos & 3 == 3));
            self.reach_if(is.ecn_marks != was.ecn_marks && already, Branch::MarkedAlready);
            let stale = tin >= usize::from(port.tins_in_use()) && (new.sparse != 0 || new.bulk != 0);
            self.reach_if(stale, Branch::StaleTin);
            self.reach_if(new.cobalt.interval_ns > u64::from(u32::MAX) && codel > 0, Branch::CountSaturated);
            let fewer = new.decaying < old.decaying;
            self.reach_if(fewer && (old.sparse != 0 || old.bulk != 0) && packet.is_some(), Branch::DecayingFirst);
        }
        let timer = port.next_event().map(|event| event.at_ns as i64);
        self.reach_if(
            packet.is_some() && port.counters().qlen == 0 && timer.is_some_and(|at| at > now),
            Branch::TimerDecay,
        );
        for ((tin, queue), old) in &before.queues {
            let Some(new) = port.queue(*tin, *queue) else { continue };
            let counted = new.cobalt.count > old.cobalt.count && !new.cobalt.marked && new.cobalt.signalling;
            self.reach_if(
                counted && old.cobalt.count != 0 && codel == 0 && new.backlog_bytes == 0,
                Branch::LastPacketSpared,
            );
        }
        self.transitions(before, port);
    }
}
