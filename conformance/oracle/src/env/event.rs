//! What happened during a call, in order.

use crate::packet::PacketRef;

/// Width of a random draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// `get_random_u8`.
    U8,
    /// `get_random_u16`.
    U16,
    /// `get_random_u32`.
    U32,
    /// `get_random_u64`.
    U64,
    /// Part of `get_random_bytes`: this many bytes (at most 8) of the value are used, low byte first.
    Bytes(u8),
    /// Uniform below the limit; the value is `(draw32 · limit) ≫ 32`. 6.1's modules scale by themselves and
    /// show as [`Width::U32`].
    Below(u32),
}

/// How a packet left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropPath {
    /// Freed at once, inside the call.
    Direct,
    /// Collected by an enqueue on its to-free list; reported after the call, in list order.
    ToFree,
    /// Parked by a dequeue on the qdisc's own list (7.x); reported after the call, in list order.
    Parked,
    /// Freed as consumed, not as dropped: e.g. a GSO packet whose segments go on instead.
    Consumed,
}

/// One thing the kernel code did. Addresses of timers and watchdogs only serve to tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The clock was read.
    Clock {
        /// Value given.
        ns: u64,
    },
    /// A random value was drawn.
    Draw {
        /// Its width.
        width: Width,
        /// Value given, cut to the width.
        value: u64,
    },
    /// A packet was freed.
    Drop {
        /// Which.
        packet: PacketRef,
        /// The kernel's drop reason (`enum skb_drop_reason`), 0 when none was given.
        reason: u32,
        /// By which road.
        path: DropPath,
    },
    /// `qdisc_tree_reduce_backlog`: what the ancestors are told to subtract.
    TreeReduce {
        /// Handle of the qdisc that calls.
        handle: u32,
        /// Packets (negative adds).
        packets: i32,
        /// Bytes (negative adds).
        bytes: i32,
    },
    /// A watchdog was asked for.
    Watchdog {
        /// Which.
        watchdog: u64,
        /// Absolute expiry, ns.
        expires_ns: u64,
        /// Allowed slack, ns.
        slack_ns: u64,
    },
    /// A watchdog was cancelled.
    WatchdogCancel {
        /// Which.
        watchdog: u64,
    },
    /// A jiffy timer was armed or moved.
    Timer {
        /// Which.
        timer: u64,
        /// Absolute expiry, jiffies.
        expires: u64,
    },
    /// A jiffy timer was stopped.
    TimerCancel {
        /// Which.
        timer: u64,
    },
    /// A GSO packet was split; its segments follow as [`Event::Segment`].
    Split {
        /// The packet.
        packet: PacketRef,
        /// Number of segments; 0 when the kernel's segmentation refused.
        segments: u32,
    },
    /// One segment of the last split.
    Segment {
        /// The segment; its `id` is that of the packet it came from.
        packet: PacketRef,
        /// Position in the packet, from 0.
        index: u32,
        /// Bytes.
        len: u32,
        /// Memory charge, bytes.
        truesize: u32,
    },
    /// The qdisc asked for its root to be run.
    Schedule,
    /// Deferred work was queued.
    Work,
}

/// The events of a call; reused storage when handed back to [`crate::World::take_events`].
pub type Events = Vec<Event>;
