//! The classification order of the hashing qdiscs (spec/common.md §8.5).

use crate::arith::scale;
use crate::{Classified, DropReason, Environment, Packet, Verdict};

/// A packet that got no bucket.
pub(crate) struct Refused {
    pub(crate) verdict: Verdict,
    pub(crate) reason: DropReason,
}

impl Refused {
    pub(crate) const STOLEN: Self = Self { verdict: Verdict::Stolen, reason: DropReason::Stolen };
    pub(crate) const DROPPED: Self = Self { verdict: Verdict::Bypassed, reason: DropReason::Classify };
}

/// The bucket of a packet, in `0..buckets`: by priority, else by hash, or with filters by their class alone.
#[inline]
pub(crate) fn bucket<P: Packet, E: Environment<P> + ?Sized>(
    packet: &mut P,
    cx: &mut E,
    handle: u32,
    buckets: u32,
) -> Result<u32, Refused> {
    bucket_by(packet, cx, handle, buckets, |packet, cx| scale(packet.flow_hash(cx.flow_secret()), buckets))
}

/// The same with another way from an unclassified packet to its bucket.
#[inline]
pub(crate) fn bucket_by<P: Packet, E: Environment<P> + ?Sized>(
    packet: &mut P,
    cx: &mut E,
    handle: u32,
    buckets: u32,
    hashed: impl FnOnce(&mut P, &mut E) -> u32,
) -> Result<u32, Refused> {
    let priority = packet.priority();
    if (priority ^ handle) >> 16 == 0 {
        let minor = priority & 0xffff;
        if minor >= 1 && minor <= buckets {
            return Ok(minor - 1);
        }
    }
    match cx.classify(packet) {
        Classified::NoFilters => Ok(hashed(packet, cx)),
        Classified::Class(class) if (1..=buckets).contains(&(class & 0xffff)) => Ok((class & 0xffff) - 1),
        Classified::Class(_) | Classified::NoMatch | Classified::Shot => Err(Refused::DROPPED),
        Classified::Stolen => Err(Refused::STOLEN),
    }
}
