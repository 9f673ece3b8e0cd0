//! Setting the environment.

use super::{Environment, Event, NSEC, Width};
use crate::packet::PacketRef;

/// Gives the value of each clock read, ns.
pub type ClockScript = Box<dyn FnMut() -> u64>;
/// Gives 64 random bits for each draw; they are cut to the width.
pub type DrawScript = Box<dyn FnMut(Width) -> u64>;
/// Gives the answer of the installed filters for a packet.
pub(crate) type Classifier = Box<dyn FnMut(PacketRef) -> Classified>;

/// What `tcf_classify` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The action code (`TC_ACT_*`); −1 when nothing matched.
    pub action: i32,
    /// The class id found (`tcf_result.classid`).
    pub classid: u32,
}

impl Environment {
    /// Sets the clock; every read gives this value (plus [`Environment::set_clock_step`]).
    #[inline]
    pub fn set_now(&self, ns: u64) {
        self.now.set(ns);
    }

    /// The value that the next plain clock read gives, ns.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Each plain read advances the clock by this much, ns (0: stands still, the default).
    pub fn set_clock_step(&self, ns: u64) {
        self.step.set(ns);
    }

    /// Values for the next clock reads; they come before the plain clock, which stays at the last of them.
    pub fn queue_clock(&self, values: impl IntoIterator<Item = u64>) {
        self.clock_queue.borrow_mut().extend(values);
    }

    /// Lets a function answer every clock read; `None` goes back to the plain clock.
    pub fn script_clock(&self, script: Option<ClockScript>) {
        *self.clock_script.borrow_mut() = script;
    }

    /// With `strict`, a clock read beyond the queued values fails the call (replay).
    pub fn set_clock_strict(&self, strict: bool) {
        self.clock_strict.set(strict);
    }

    /// Queued clock values not read yet; dropped.
    pub fn drain_clock(&self) -> Vec<u64> {
        self.clock_queue.borrow_mut().drain(..).collect()
    }

    /// Clock reads so far.
    pub fn clock_reads(&self) -> u64 {
        self.clock_reads.get()
    }

    /// Seeds the built-in generator (SplitMix64) that answers draws.
    pub fn seed_draws(&self, seed: u64) {
        self.draw_state.set(seed);
    }

    /// Values for the next draws; they come before the built-in generator.
    pub fn queue_draws(&self, values: impl IntoIterator<Item = u64>) {
        self.draw_queue.borrow_mut().extend(values);
    }

    /// Lets a function answer every draw; `None` goes back to the built-in generator.
    pub fn script_draws(&self, script: Option<DrawScript>) {
        *self.draw_script.borrow_mut() = script;
    }

    /// With `strict`, a draw beyond the queued values fails the call (replay).
    pub fn set_draws_strict(&self, strict: bool) {
        self.draw_strict.set(strict);
    }

    /// Queued draws not taken yet; dropped.
    pub fn drain_draws(&self) -> Vec<u64> {
        self.draw_queue.borrow_mut().drain(..).collect()
    }

    /// Draws so far.
    pub fn draws(&self) -> u64 {
        self.draw_count.get()
    }

    /// Lets a function answer for the filters of qdiscs that have been given one
    /// (see `KernelQdisc::attach_filter`).
    pub fn script_classifier(&self, script: Option<Box<dyn FnMut(PacketRef) -> Classified>>) {
        *self.classifier.borrow_mut() = script;
    }

    /// Jiffies per second of this kernel.
    pub fn hz(&self) -> u64 {
        self.hz.get()
    }

    /// Which events are kept: bits of [`super::record`]. Counts are kept in any case.
    pub fn record(&self, kinds: u32) {
        self.record.set(kinds);
    }

    /// Makes the next `n` allocations of the kernel code fail.
    pub fn fail_next_allocations(&self, n: u64) {
        self.fail_allocations.set(n);
    }

    /// Allocations made by kernel code so far.
    pub fn allocations(&self) -> u64 {
        self.allocations.get()
    }

    /// ACKs that congestion controls sent (`__tcp_send_ack`).
    pub fn acks_sent(&self) -> u64 {
        self.acks_sent.get()
    }

    /// Format strings of the messages printed so far; taken.
    pub fn take_printed(&self) -> Vec<String> {
        std::mem::take(&mut self.printed.borrow_mut())
    }

    /// Armed jiffy timers: (timer, expiry in jiffies), in order of arming.
    pub fn armed_timers(&self) -> Vec<(u64, u64)> {
        self.timers.borrow().clone()
    }

    /// Moves the events of past calls into `into` (cleared first) and keeps `into`'s storage for the next.
    #[inline]
    pub fn take_events(&self, into: &mut Vec<Event>) {
        into.clear();
        std::mem::swap(into, &mut self.events.borrow_mut());
    }

    /// Looks at the events since the last take.
    pub fn with_events<R>(&self, f: impl FnOnce(&[Event]) -> R) -> R {
        f(&self.events.borrow())
    }

    /// Events thrown away because nobody took them: the log holds about a million.
    pub fn events_lost(&self) -> u64 {
        self.events_lost.get()
    }

    /// Forgets the events of past calls.
    #[inline]
    pub fn clear_events(&self) {
        self.events.borrow_mut().clear();
    }

    /// Jiffies passed at a clock value, for a kernel that booted at 0 with its counter at `initial`.
    pub fn jiffies_at(&self, ns: u64, initial: u64) -> u64 {
        initial.wrapping_add(ns / (NSEC / self.hz.get().max(1)))
    }
}
