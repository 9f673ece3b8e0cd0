//! A packet's way in: its departure time, its flow, and its place there (spec/fq.md §3, §4).

use super::FlowStatus;
use super::lookup::{Found, after};
use super::pending::Meta;
use super::qdisc::{Fq, NEVER};
use crate::rb_tree::Side;
use crate::{DropReason, Environment, Linux, Packet, Socket, SocketState, Storage, Verdict};

impl<P: Packet, S: Storage> Fq<P, S> {
    pub(super) fn enqueue_inner<E: Environment<P> + ?Sized>(&mut self, mut packet: P, cx: &mut E) -> Verdict {
        let band = self.limits.priomap[packet.priority() as usize & 15];
        if self.has_bands() {
            let band = usize::from(band);
            if self.stats.band_pkt_count[band] >= self.limits.limit {
                self.stats.band_drops[band] = self.stats.band_drops[band].wrapping_add(1);
                return self.refuse(packet, DropReason::TailDrop, cx);
            }
        } else if self.counters.qlen >= self.limits.limit {
            return self.refuse(packet, DropReason::TailDrop, cx);
        }
        let stamp = packet.departure_ns();
        let Some((now, time)) = self.departure(stamp, cx) else {
            return self.refuse(packet, DropReason::Horizon, cx);
        };
        let socket = packet.socket();
        let fast = self.takes_fast_path(&packet, socket.as_ref(), time, now);
        let flow = if fast { None } else { self.classify(&mut packet, socket.as_ref(), cx) };
        if let Some(at) = flow
            && self.table.flow(at).qlen >= self.limits.flow_limit
        {
            self.stats.flows_plimit = self.stats.flows_plimit.wrapping_add(1);
            return self.refuse(packet, DropReason::FlowLimit, cx);
        }
        let len = packet.len_bytes();
        let in_slab = match self.slab.insert(packet, len, Meta::new(time, stamp != 0)) {
            Ok(in_slab) => in_slab,
            Err(packet) => return self.refuse(packet, DropReason::StorageFull, cx),
        };
        match flow {
            Some(at) => self.join(at, in_slab, band, cx),
            None => {
                if fast {
                    self.stats.fastpath_packets = self.stats.fastpath_packets.wrapping_add(1);
                }
                self.internal_len += 1;
                self.internal.insert(&mut self.slab, in_slab);
            }
        }
        self.counters.add_queued(len);
        if let Some(at) = flow
            && stamp != 0
            && self.limits.linux >= Linux::V7_2
            && self.limits.maxrate == u64::MAX
            && self.table.flow(at).status == FlowStatus::Throttled
            && time < self.table.flow(at).next_departure
        {
            self.bring_forward(at, time, now);
        }
        Verdict::Queued
    }

    #[cold]
    fn refuse<E: Environment<P> + ?Sized>(&mut self, packet: P, why: DropReason, cx: &mut E) -> Verdict {
        self.counters.count_drops(1);
        cx.dropped(packet, why);
        Verdict::Dropped
    }

    /// The clock and the time at which a packet may leave, or that it lies beyond the horizon.
    #[inline]
    fn departure<E: Environment<P> + ?Sized>(&mut self, stamp: u64, cx: &mut E) -> Option<(u64, u64)> {
        // 6.1 reads the clock for a stamped packet only if the last reading puts it beyond the horizon.
        let beyond = |now: u64, horizon: u64| stamp as i64 > now.wrapping_add(horizon) as i64;
        let horizon = self.limits.horizon_ns;
        if stamp != 0 && !self.has_bands() && !beyond(self.last_now, horizon) {
            return Some((self.last_now, stamp));
        }
        let now = cx.now_ns();
        self.last_now = now;
        if stamp == 0 {
            return Some((now, now));
        }
        if !beyond(now, horizon) {
            return Some((now, stamp));
        }
        if self.limits.horizon_drop {
            self.stats.horizon_drops = self.stats.horizon_drops.wrapping_add(1);
            return None;
        }
        self.stats.horizon_caps = self.stats.horizon_caps.wrapping_add(1);
        Some((now, now.wrapping_add(horizon)))
    }

    /// May a packet skip the flows (spec/fq.md §4.3)?
    #[inline]
    fn takes_fast_path(&self, packet: &P, socket: Option<&Socket>, time: u64, now: u64) -> bool {
        if !self.has_bands() {
            return packet.priority() & 15 == 7;
        }
        let soon = now.wrapping_add(self.limits.offload_horizon_ns);
        if time > soon {
            return false;
        }
        if self.counters.qlen != 0 {
            let waiting = self.stats.inactive_flows.wrapping_add(self.stats.throttled_flows);
            if self.table.len != waiting || self.internal_len >= 8 || self.next_delayed <= soon {
                return false;
            }
        }
        let paced = socket.is_some_and(|socket| {
            !socket.tcp && socket.state != SocketState::TimeWait && socket.max_pacing_rate != u64::MAX
        });
        !paced && self.limits.maxrate == u64::MAX
    }

    /// Does the packet's socket count, in this version, as one that is a flow and sets a rate?
    #[inline]
    pub(super) const fn is_own_flow(&self, socket: &Socket) -> bool {
        match socket.state {
            SocketState::Connected => true,
            SocketState::TimeWait => (self.limits.linux as u8) < Linux::V7_2 as u8,
            SocketState::Closed | SocketState::Listening => false,
        }
    }

    /// The packet's flow, made if need be; `None` if fixed storage has no room for it.
    fn classify<E: Environment<P> + ?Sized>(
        &mut self,
        packet: &mut P,
        socket: Option<&Socket>,
        cx: &mut E,
    ) -> Option<u32> {
        let owner = socket.filter(|socket| self.is_own_flow(socket));
        let key = match owner {
            Some(socket) => socket.id,
            None => u64::from(packet.flow_hash(cx.flow_secret()) & self.limits.orphan_mask) << 1 | 1,
        };
        let crowded = self.table.len >= 2 * self.limits.buckets && self.stats.inactive_flows > self.table.len / 2;
        let jiffies = self.limits.jiffies;
        let (mut known, cx) = (None, &mut *cx);
        let mut jiffy = || *known.get_or_insert_with(|| jiffies.at(cx.coarse_now_ns()));
        if self.has_bands() || crowded {
            let forgotten = self.table.collect(key, &mut jiffy, &self.limits);
            if forgotten > 0 {
                self.count_forgotten(forgotten);
            }
        }
        match self.table.find_or_insert(key, &mut jiffy, &self.limits) {
            Found::Known(at) => {
                if let Some(socket) = owner
                    && self.table.flow(at).socket_hash != socket.hash
                {
                    self.start_over(at, socket.hash);
                }
                Some(at)
            }
            Found::New { at, instead } => {
                self.count_forgotten(instead);
                self.stats.inactive_flows = self.stats.inactive_flows.wrapping_add(1);
                if let Some(socket) = owner {
                    self.table.flow_mut(at).socket_hash = socket.hash;
                }
                Some(at)
            }
            Found::Full => {
                self.stats.allocation_errors = self.stats.allocation_errors.wrapping_add(1);
                None
            }
        }
    }

    /// The socket serves another connection now.
    #[cold]
    fn start_over(&mut self, at: u32, hash: u32) {
        if self.table.flow(at).status == FlowStatus::Throttled {
            self.let_go(at);
        }
        let credit = self.limits.initial_quantum as i32;
        let flow = self.table.flow_mut(at);
        flow.socket_hash = hash;
        flow.credit = credit;
        flow.next_departure = 0;
    }

    /// A flow that was held back may go on: to the end of its band's old flows.
    pub(super) fn let_go(&mut self, at: u32) {
        let flows = self.table.all_mut();
        self.delayed.remove(flows, at);
        self.stats.throttled_flows = self.stats.throttled_flows.wrapping_sub(1);
        let flow = &mut flows[at as usize];
        flow.status = FlowStatus::Listed;
        let band = usize::from(flow.band);
        self.bands[band].old.push_back(flows, at);
    }

    /// Puts a flow among those that are held back until their next departure.
    pub(super) fn hold_back(&mut self, at: u32, until: u64) {
        let flows = self.table.all_mut();
        let flow = &mut flows[at as usize];
        flow.next_departure = until;
        flow.status = FlowStatus::Throttled;
        self.delayed.insert(flows, at, |other| if until < other.next_departure { Side::Left } else { Side::Right });
        self.stats.throttled_flows = self.stats.throttled_flows.wrapping_add(1);
        self.next_delayed = self.next_delayed.min(until);
    }

    /// Counts a packet in and puts it on its flow, which goes on the list of new flows if it was on none.
    fn join<E: Environment<P> + ?Sized>(&mut self, at: u32, in_slab: u32, band: u8, cx: &mut E) {
        let bands = self.has_bands();
        let flows = self.table.all_mut();
        let flow = &mut flows[at as usize];
        if let FlowStatus::Detached(since) = flow.status {
            flow.status = FlowStatus::Listed;
            let jiffy = self.limits.jiffies.at(cx.coarse_now_ns());
            if after(jiffy, since.wrapping_add(self.limits.refill_delay.into())) {
                // Compared without sign: a negative credit is a huge one, and stays.
                flow.credit = (flow.credit as u32).max(self.limits.quantum) as i32;
            }
            if !bands {
                self.stats.inactive_flows = self.stats.inactive_flows.wrapping_sub(1);
            }
            // Still the band of its last packet.
            let last_band = usize::from(flow.band);
            self.bands[last_band].new.push_back(flows, at);
        }
        let flow = &mut flows[at as usize];
        if bands {
            flow.band = band;
            let count = &mut self.stats.band_pkt_count[usize::from(band)];
            *count = count.wrapping_add(1);
            self.slab.slot_mut(in_slab).meta.band = band;
            if flow.qlen == 0 {
                self.stats.inactive_flows = self.stats.inactive_flows.wrapping_sub(1);
            }
        }
        flow.qlen += 1;
        flow.packets.insert(&mut self.slab, in_slab);
    }

    /// 7.2: a packet with an earlier departure time than its flow is held back for.
    #[cold]
    fn bring_forward(&mut self, at: u32, time: u64, now: u64) {
        if time <= now {
            let until = self.table.flow(at).next_departure;
            self.let_go(at);
            if self.next_delayed == until {
                let flows = self.table.all();
                self.next_delayed = self.delayed.first(flows).map_or(NEVER, |at| flows[at as usize].next_departure);
            }
            self.table.flow_mut(at).next_departure = time;
            return;
        }
        self.delayed.remove(self.table.all_mut(), at);
        self.stats.throttled_flows = self.stats.throttled_flows.wrapping_sub(1);
        self.hold_back(at, time);
    }
}
