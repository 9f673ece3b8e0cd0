//! Which packet leaves, and when its flow may send the next one (spec/fq.md §5).

use super::FlowStatus;
use super::qdisc::{Fq, NEVER};
use crate::flow_list::FlowList;
use crate::slab::NIL;
use crate::{Environment, Linux, Packet, SocketState, Storage};

const SECOND: u64 = 1_000_000_000;

/// A flow at the head of a list.
#[derive(Clone, Copy)]
struct Turn {
    flow: u32,
    from_new: bool,
}

impl<P: Packet, S: Storage> Fq<P, S> {
    pub(super) fn dequeue_inner<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        if self.counters.qlen == 0 {
            return None;
        }
        let at = match self.internal.pop(&mut self.slab) {
            Some(at) => {
                self.internal_len -= 1;
                at
            }
            None => self.dequeue_flows(cx)?,
        };
        let len = self.slab.slot(at).len;
        let packet = self.slab.remove(at)?;
        self.counters.sub_queued(len);
        self.counters.count_sent(len, packet.gso().segments);
        Some(packet)
    }

    /// The slab slot of the packet that leaves now, taken off its flow.
    fn dequeue_flows<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<u32> {
        let now = cx.now_ns();
        self.last_now = now;
        self.watchdog.observe(now);
        let soon = now.wrapping_add(self.limits.offload_horizon_ns);
        if self.next_delayed <= soon {
            self.let_go_all(now, soon);
        }
        let mut tries = 0;
        loop {
            let Some(turn) = self.choose(&mut tries) else {
                if self.next_delayed != NEVER {
                    self.watchdog.schedule(self.next_delayed, self.limits.timer_slack_ns.into());
                }
                return None;
            };
            tries = 0;
            let flow = self.table.flow_mut(turn.flow);
            if flow.credit <= 0 {
                flow.credit = flow.credit.wrapping_add(self.limits.quantum as i32);
                self.turn_over(turn);
                continue;
            }
            let Some(next) = flow.packets.peek(&self.slab) else {
                self.retire(turn, cx);
                continue;
            };
            let due = self.slab.slot(next).meta.time.max(flow.next_departure);
            if soon < due {
                self.leave_list(turn);
                self.stats.throttled = self.stats.throttled.wrapping_add(1);
                self.hold_back(turn.flow, due);
                continue;
            }
            flow.packets.pop(&mut self.slab);
            self.send(turn.flow, next, now, due);
            return Some(next);
        }
    }

    /// Lets the flows go that are due, in the order of their departure times.
    #[cold]
    fn let_go_all(&mut self, now: u64, soon: u64) {
        let late = now.wrapping_sub(self.next_delayed);
        if self.limits.linux < Linux::V7_2 || late as i64 > 0 {
            let latency = &mut self.stats.unthrottle_latency_ns;
            *latency = latency.wrapping_sub(*latency >> 3).wrapping_add(late >> 3);
        }
        self.next_delayed = NEVER;
        while let Some(at) = self.delayed.first(self.table.all()) {
            let departure = self.table.flow(at).next_departure;
            if departure > soon {
                self.next_delayed = departure;
                break;
            }
            self.let_go(at);
        }
    }

    /// The flow whose turn it is. Bands take turns by their credits; `tries` counts those in a row that have credit
    /// but no flow.
    #[inline]
    fn choose(&mut self, tries: &mut u32) -> Option<Turn> {
        if !self.has_bands() {
            return self.head();
        }
        loop {
            if self.bands[self.current].credit > 0
                && let Some(turn) = self.head()
            {
                return Some(turn);
            }
            loop {
                *tries += 1;
                if *tries > 3 {
                    return None;
                }
                self.current = if self.current == 2 { 0 } else { self.current + 1 };
                let (credit, weight) = (&mut self.bands[self.current].credit, self.limits.weights[self.current]);
                *credit = credit.wrapping_add(weight).min(weight);
                if *credit > 0 {
                    break;
                }
                *tries = 0;
            }
        }
    }

    /// The first of the current band's new flows, or of its old ones.
    #[inline]
    fn head(&self) -> Option<Turn> {
        let band = &self.bands[self.current];
        let from_new = !band.new.is_empty();
        let flow = if from_new { band.new.head() } else { band.old.head() };
        (flow != NIL).then_some(Turn { flow, from_new })
    }

    #[inline]
    fn leave_list(&mut self, turn: Turn) {
        let band = &mut self.bands[self.current];
        let list: &mut FlowList = if turn.from_new { &mut band.new } else { &mut band.old };
        list.pop_front(self.table.all());
    }

    /// To the end of the old flows of the flow's own band, which need not be the current one.
    #[inline]
    fn turn_over(&mut self, turn: Turn) {
        self.leave_list(turn);
        let band = usize::from(self.table.flow(turn.flow).band);
        self.bands[band].old.push_back(self.table.all_mut(), turn.flow);
    }

    /// A flow without packets leaves its list; a new one passes through the old ones first.
    fn retire<E: Environment<P> + ?Sized>(&mut self, turn: Turn, cx: &mut E) {
        if turn.from_new && (self.has_bands() || !self.bands[0].old.is_empty()) {
            return self.turn_over(turn);
        }
        self.leave_list(turn);
        let jiffy = self.limits.jiffies.at(cx.coarse_now_ns());
        self.table.flow_mut(turn.flow).status = FlowStatus::Detached(jiffy | 1);
        if !self.has_bands() {
            self.stats.inactive_flows = self.stats.inactive_flows.wrapping_add(1);
        }
    }

    /// Accounts for a packet that leaves, was due at `due`, and decides when its flow may send the next one.
    #[inline]
    fn send(&mut self, flow: u32, at: u32, now: u64, due: u64) {
        let bands = self.has_bands();
        let slot = self.slab.slot_mut(at);
        let (len, meta) = (slot.len, slot.meta);
        if now.wrapping_sub(due).wrapping_sub(self.limits.ce_threshold_ns) as i64 > 0 {
            if let Some(packet) = &mut slot.packet {
                packet.try_mark_ce();
            }
            self.stats.ce_mark = self.stats.ce_mark.wrapping_add(1);
        }
        let flow_state = self.table.flow_mut(flow);
        flow_state.qlen -= 1;
        flow_state.credit = flow_state.credit.wrapping_sub(len as i32);
        if bands {
            if flow_state.qlen == 0 {
                self.stats.inactive_flows = self.stats.inactive_flows.wrapping_add(1);
            }
            let count = &mut self.stats.band_pkt_count[usize::from(meta.band)];
            *count = count.wrapping_sub(1);
            let credit = &mut self.bands[self.current].credit;
            *credit = credit.wrapping_sub(len as i32);
        }
        if self.limits.pacing {
            self.pace(flow, at, now);
        }
    }

    #[inline]
    fn pace(&mut self, flow: u32, at: u32, now: u64) {
        let slot = self.slab.slot(at);
        let mut rate = self.limits.maxrate;
        let mut len = slot.len;
        if !slot.meta.stamped {
            rate = rate.min(slot.packet.as_ref().map_or(u64::MAX, |packet| self.socket_rate(packet)));
            let flow = self.table.flow_mut(flow);
            if rate <= self.limits.low_rate_threshold.into() {
                flow.credit = 0;
            } else {
                len = len.max(self.limits.quantum);
                if flow.credit > 0 {
                    return;
                }
            }
        }
        if rate == u64::MAX {
            return;
        }
        let mut wait = u64::from(len) * SECOND;
        wait = wait.checked_div(rate).unwrap_or(wait);
        if wait > SECOND {
            wait = SECOND;
            self.stats.pkts_too_long = self.stats.pkts_too_long.wrapping_add(1);
        }
        let flow = self.table.flow_mut(flow);
        if flow.next_departure != 0 && (self.limits.linux < Linux::V7_2 || now > flow.next_departure) {
            // What the packet was late, at most half of the wait.
            wait -= (wait / 2).min(now.wrapping_sub(flow.next_departure));
        }
        flow.next_departure = now.wrapping_add(wait);
    }

    /// The rate that a packet's socket asks for.
    #[inline]
    fn socket_rate(&self, packet: &P) -> u64 {
        match packet.socket() {
            Some(socket) if socket.state == SocketState::Closed || self.is_own_flow(&socket) => socket.pacing_rate,
            _ => u64::MAX,
        }
    }
}
