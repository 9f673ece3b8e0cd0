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
        }
    };
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

impl RateFields {
    /// The sample as kernel code left it.
    pub(super) fn load(&self, mem: &Memory, at: u64) -> RateSample {
        let get = |field: &Option<Field>| field.as_ref().map_or(0, |f| f.read_signed(mem, at));
        RateSample {
            prior_mstamp: get(&self.prior_mstamp) as u64,
            prior_delivered: get(&self.prior_delivered) as u32,
            prior_delivered_ce: get(&self.prior_delivered_ce) as u32,
            delivered: get(&self.delivered) as i32,
            delivered_ce: get(&self.delivered_ce) as i32,
            interval_us: get(&self.interval_us),
            snd_interval_us: get(&self.snd_interval_us) as u32,
            rcv_interval_us: get(&self.rcv_interval_us) as u32,
            rtt_us: get(&self.rtt_us),
            losses: get(&self.losses) as i32,
            acked_sacked: get(&self.acked_sacked) as u32,
            prior_in_flight: get(&self.prior_in_flight) as u32,
            last_end_seq: get(&self.last_end_seq) as u32,
            is_app_limited: get(&self.is_app_limited) != 0,
            is_retrans: get(&self.is_retrans) != 0,
            is_ack_delayed: get(&self.is_ack_delayed) != 0,
        }
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
