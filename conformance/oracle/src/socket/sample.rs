//! The arguments of the per-ACK hooks.

use crate::error::{Result, TypeError};
use crate::image::Field;
use crate::memory::Memory;
use crate::world::World;

macro_rules! sample {
    ($(#[$doc:meta])* $name:ident, $fields:ident, $structure:literal { $($(#[$field_doc:meta])* $field:ident: $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty),* }

        /// The kernel's layout of it; members that this kernel lacks are `None`.
        #[derive(Debug)]
        pub(super) struct $fields { $($field: Option<Field>,)* size: usize }

        impl $fields {
            pub(super) fn new(world: &World) -> Result<Self> {
                let btf = world.btf();
                Ok(Self { $($field: btf.field($structure, stringify!($field)).ok(),)* size: btf.size_of($structure)? })
            }

            pub(super) fn size(&self) -> usize {
                self.size
            }

            /// Stores a sample; a non-zero value without a place in this kernel is an error.
            pub(super) fn store(&self, mem: &Memory, at: u64, value: &$name) -> Result<()> {
                $(match &self.$field {
                    Some(field) => field.write(mem, at, value.$field as u64),
                    None if value.$field == <$ty>::default() => {}
                    None => {
                        let (path, field) = ($structure.to_owned(), stringify!($field).to_owned());
                        return Err(TypeError::NoField { path, field }.into());
                    }
                })*
                Ok(())
            }

            pub(super) fn load(&self, mem: &Memory, at: u64) -> $name {
                let mut value = $name::default();
                $(if let Some(field) = &self.$field {
                    value.$field = from_raw::<$ty>(field.read_signed(mem, at));
                })*
                value
            }
        }
    };
}

trait FromRaw {
    fn from_raw(raw: i64) -> Self;
}
macro_rules! from_raw {
    ($($t:ty)*) => { $(impl FromRaw for $t { fn from_raw(raw: i64) -> Self { raw as $t } })* };
}
from_raw!(u32 i32 u64 i64);
impl FromRaw for bool {
    fn from_raw(raw: i64) -> Self {
        raw != 0
    }
}

fn from_raw<T: FromRaw>(raw: i64) -> T {
    T::from_raw(raw)
}

sample! {
    /// `struct rate_sample`: what `cong_control` gets. Names and units are the kernel's.
    RateSample, RateFields, "rate_sample" {
        /// Stamp of the start of the interval, µs (0: none).
        prior_mstamp: u64,
        /// `delivered` at that stamp.
        prior_delivered: u32,
        /// `delivered_ce` at that stamp.
        prior_delivered_ce: u32,
        /// Packets delivered over the interval; −1 invalid.
        delivered: i32,
        /// Of those, CE-marked.
        delivered_ce: i32,
        /// Length of the interval, µs; −1 invalid.
        interval_us: i64,
        /// Send part of the interval, µs.
        snd_interval_us: u32,
        /// Receive part of the interval, µs.
        rcv_interval_us: u32,
        /// RTT of the last packet acknowledged, µs; −1 none.
        rtt_us: i64,
        /// Packets newly marked lost on this ACK.
        losses: i32,
        /// Packets newly acknowledged, SACKed ones included.
        acked_sacked: u32,
        /// Packets in flight before this ACK.
        prior_in_flight: u32,
        /// Sequence end of the packet most recently delivered.
        last_end_seq: u32,
        /// The interval was limited by the application.
        is_app_limited: bool,
        /// The sample is from a retransmission.
        is_retrans: bool,
        /// The ACK was probably delayed by the receiver.
        is_ack_delayed: bool,
    }
}

sample! {
    /// `struct ack_sample`: what `pkts_acked` gets.
    AckSample, AckFields, "ack_sample" {
        /// Packets cumulatively acknowledged.
        pkts_acked: u32,
        /// RTT, µs; −1 none.
        rtt_us: i32,
        /// Data in flight when the packet was sent (the kernel's unit at the caller).
        in_flight: u32,
    }
}
