//! What the kernel code sees of the world, and what it did to it: clock, draws, timers, frees.

mod event;
pub(crate) mod hooks;
mod install;
mod script;

pub use event::{DropPath, Event, Events, Width};
pub(crate) use install::{GSO_SEGMENT, install, patch_image, resolve};
pub use script::{Classified, ClockScript, DrawScript};

use crate::error::Fault;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Events kept for a caller who does not take them.
const EVENTS: usize = 1 << 20;
/// Nanoseconds per second.
const NSEC: u64 = 1_000_000_000;
/// Bits of [`Environment::record`]: which kinds of events are kept.
pub mod record {
    /// Clock reads.
    pub const CLOCK: u32 = 1;
    /// Random draws.
    pub const DRAWS: u32 = 2;
    /// Everything else: drops, tree corrections, watchdogs, timers, splits.
    pub const ACTIONS: u32 = 4;
    /// All kinds.
    pub const ALL: u32 = 7;
}

/// The scripted environment of a world. All settings hold until changed; all take effect at the next read.
#[derive(Default)]
pub struct Environment {
    pub(crate) now: Cell<u64>,
    pub(crate) step: Cell<u64>,
    pub(crate) clock_queue: RefCell<VecDeque<u64>>,
    pub(crate) clock_script: RefCell<Option<ClockScript>>,
    pub(crate) clock_strict: Cell<bool>,
    pub(crate) clock_reads: Cell<u64>,
    pub(crate) draw_state: Cell<u64>,
    pub(crate) draw_queue: RefCell<VecDeque<u64>>,
    pub(crate) draw_script: RefCell<Option<DrawScript>>,
    pub(crate) draw_strict: Cell<bool>,
    pub(crate) draw_count: Cell<u64>,
    pub(crate) classifier: RefCell<Option<script::Classifier>>,
    pub(crate) hz: Cell<u64>,
    pub(crate) events: RefCell<Vec<Event>>,
    pub(crate) events_lost: Cell<u64>,
    pub(crate) record: Cell<u32>,
    pub(crate) timers: RefCell<Vec<(u64, u64)>>,
    pub(crate) allocations: Cell<u64>,
    pub(crate) fail_allocations: Cell<u64>,
    /// Callbacks to run after the grace period: (head, function).
    pub(crate) deferred: RefCell<Vec<(u64, u64)>>,
    pub(crate) acks_sent: Cell<u64>,
    pub(crate) printed: RefCell<Vec<String>>,
    /// Messages of WARNs, and the number (from 1) of the one whose trap is still to come.
    pub(crate) warn_texts: RefCell<Vec<String>>,
    pub(crate) warn_pending: Cell<usize>,
    pub(crate) trouble: RefCell<Vec<Fault>>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("now_ns", &self.now.get())
            .field("clock_reads", &self.clock_reads.get())
            .field("draws", &self.draw_count.get())
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// Appends an event if its kind is kept.
    #[inline]
    pub(crate) fn log(&self, kind: u32, event: Event) {
        if self.record.get() & kind != 0 {
            let mut events = self.events.borrow_mut();
            if events.len() >= EVENTS {
                self.events_lost.set(self.events_lost.get() + events.len() as u64);
                events.clear();
            }
            events.push(event);
        }
    }

    /// The next clock value.
    #[inline]
    pub(crate) fn read_clock(&self) -> u64 {
        self.clock_reads.set(self.clock_reads.get() + 1);
        let value = self.next_clock();
        self.log(record::CLOCK, Event::Clock { ns: value });
        value
    }

    #[inline]
    fn next_clock(&self) -> u64 {
        if let Some(script) = self.clock_script.borrow_mut().as_mut() {
            return script();
        }
        if let Some(value) = self.clock_queue.borrow_mut().pop_front() {
            self.now.set(value);
            return value;
        }
        if self.clock_strict.get() {
            self.trouble.borrow_mut().push(Fault::ScriptEmpty("clock values"));
        }
        let now = self.now.get();
        self.now.set(now.wrapping_add(self.step.get()));
        now
    }

    /// The next draw, cut to its width.
    pub(crate) fn draw(&self, width: Width) -> u64 {
        self.draw_count.set(self.draw_count.get() + 1);
        let raw = self.next_draw(width);
        let value = match width {
            Width::U8 => raw & 0xff,
            Width::U16 => raw & 0xffff,
            Width::U32 => raw & 0xffff_ffff,
            Width::U64 | Width::Bytes(_) => raw,
            Width::Below(limit) => ((raw & 0xffff_ffff) * u64::from(limit)) >> 32,
        };
        self.log(record::DRAWS, Event::Draw { width, value });
        value
    }

    fn next_draw(&self, width: Width) -> u64 {
        if let Some(script) = self.draw_script.borrow_mut().as_mut() {
            return script(width);
        }
        if let Some(value) = self.draw_queue.borrow_mut().pop_front() {
            return value;
        }
        if self.draw_strict.get() {
            self.trouble.borrow_mut().push(Fault::ScriptEmpty("draws"));
        }
        // SplitMix64 (public domain, Vigna): any seed gives a full-period sequence.
        let state = self.draw_state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.draw_state.set(state);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Nanoseconds per jiffy.
    pub(crate) fn jiffy_ns(&self) -> u64 {
        NSEC / self.hz.get().max(1)
    }
}
