//! The ACK filter: which queued ACK a newer one makes redundant (spec/cake.md §13).

use super::config::AckFilter;
use super::meta::Meta;
use crate::net::tcp::{IpView, TcpView, flags, option_kind};
use crate::slab::{Fifo, NIL, Slab};
use crate::{Linux, Packet, Storage};

/// The bits that make a congestion signal of an ACK.
const ECN: u16 = flags::ECE | flags::CWR;

/// The packet that just came in, with all that others are compared with.
struct Trigger<'a> {
    ip: IpView<'a>,
    tcp: TcpView<'a>,
    /// TSval and TSecr, 0 without them.
    timestamps: (u32, u32),
    /// Bytes from the network header on, if it is a TCP GSO packet: its length fields may be 0.
    gso_bytes: Option<i32>,
    linux: Linux,
}

/// Serial comparison of sequence numbers: is `a` later than `b`?
const fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

const fn before(a: u32, b: u32) -> bool {
    after(b, a)
}

/// Takes the ACK that the packet at the tail makes redundant out of the queue, if there is one. Its slot stays
/// occupied.
pub(super) fn filter<P: Packet, S: Storage>(
    slab: &mut Slab<P, Meta, S>,
    fifo: &mut Fifo,
    mode: AckFilter,
    linux: Linux,
) -> Option<u32> {
    let (previous, at) = redundant(slab, fifo, mode == AckFilter::Aggressive, linux)?;
    slab.unlink(fifo, previous, at);
    Some(at)
}

/// The redundant ACK's slot, after that of the packet before it.
fn redundant<P: Packet, S: Storage>(
    slab: &Slab<P, Meta, S>,
    fifo: &Fifo,
    aggressive: bool,
    linux: Linux,
) -> Option<(u32, u32)> {
    let tail = fifo.last();
    if slab.iter(fifo).next() == Some(tail) {
        return None;
    }
    let trigger = Trigger::of(slab.slot(tail).packet.as_ref()?, linux)?;
    // The candidate: its place, and its congestion signal.
    let mut candidate: Option<(u32, u32, u16)> = None;
    let mut previous = NIL;
    for at in slab.iter(fifo).take_while(|&at| at != tail) {
        let before = core::mem::replace(&mut previous, at);
        let Some((tcp, carries)) = slab.slot(at).packet.as_ref().and_then(|packet| trigger.same_connection(packet))
        else {
            continue;
        };
        if candidate.is_some_and(|(.., signal)| signal != tcp.flags() & ECN) {
            candidate = None;
        }
        if carries || !trigger.supersedes(&tcp) {
            continue;
        }
        match candidate {
            Some((before, at, _)) => return Some((before, at)),
            None => candidate = Some((before, at, tcp.flags() & ECN)),
        }
    }
    // Without a second one in between, only the aggressive filter removes, and only the trigger's neighbour.
    let (before, at, signal) = candidate?;
    (aggressive && at == previous && signal == trigger.tcp.flags() & ECN).then_some((before, at))
}

impl<'a> Trigger<'a> {
    /// An ACK, whatever else it is, but for SYN (§13.2).
    fn of<P: Packet>(packet: &'a P, linux: Linux) -> Option<Self> {
        let network = packet.headers()?.network();
        let (tcp, ip) = (TcpView::find(network)?, IpView::find(network)?);
        if tcp.flags() & (flags::ACK | flags::SYN) != flags::ACK {
            return None;
        }
        let gso_bytes =
            packet.gso_details(linux).tcp.then(|| packet.buffer_bytes().wrapping_sub(packet.network_offset()));
        Some(Self {
            ip,
            tcp,
            timestamps: tcp.timestamps().unwrap_or((0, 0)),
            gso_bytes: gso_bytes.filter(|_| packet.gso().segment_bytes != 0).map(|bytes| bytes as i32),
            linux,
        })
    }

    /// The TCP header of a packet of the trigger's connection and direction, and whether it carries data (§13.3).
    fn same_connection<P: Packet>(&self, packet: &'a P) -> Option<(TcpView<'a>, bool)> {
        let network = packet.headers()?.network();
        let (tcp, ip) = (TcpView::find(network)?, IpView::find(network)?);
        let same = ip.version() == self.ip.version()
            && tcp.source_port() == self.tcp.source_port()
            && tcp.destination_port() == self.tcp.destination_port()
            && ip.addresses()? == self.ip.addresses()?;
        if !same {
            return None;
        }
        let mut bytes = ip.payload_length()?;
        if let (Some(0), Some(gso_bytes)) = (ip.length_field(), self.gso_bytes) {
            bytes = match ip.version() {
                4 => bytes.wrapping_add(gso_bytes),
                _ if self.linux == Linux::V6_1 => bytes,
                _ => gso_bytes.wrapping_sub(40),
            };
        }
        Some((tcp, bytes != tcp.header_length() as i32))
    }

    /// Does the trigger say all that this segment without data says, and more?
    fn supersedes(&self, ack: &TcpView<'_>) -> bool {
        if !self.may_drop(ack) || after(ack.acknowledgement(), self.tcp.acknowledgement()) {
            return false;
        }
        match self.compare_sacks(ack) {
            SackOrder::Less => false,
            SackOrder::More => true,
            SackOrder::Same => ack.acknowledgement() != self.tcp.acknowledgement(),
        }
    }

    /// §13.4: nothing but an ACK, without options that could matter.
    fn may_drop(&self, ack: &TcpView<'_>) -> bool {
        const MUST_BE_CLEAR: u16 = flags::RESERVED | flags::URG | flags::PSH | flags::RST | flags::SYN | flags::FIN;
        if ack.flags() & (MUST_BE_CLEAR | flags::ACK) != flags::ACK {
            return false;
        }
        ack.options().all(|option| match option.kind {
            option_kind::MD5 => true,
            option_kind::SACK => option.length() % 8 == 2,
            option_kind::TIMESTAMP => option
                .timestamps()
                .is_some_and(|(value, echo)| !after(value, self.timestamps.0) && !after(echo, self.timestamps.1)),
            _ => false,
        })
    }

    /// §13.5: does the trigger report all that the ACK reports?
    fn compare_sacks(&self, ack: &TcpView<'_>) -> SackOrder {
        let blocks = ack.sack_blocks();
        match (blocks.len(), self.tcp.sack_blocks().len()) {
            (0, 0) => return SackOrder::Same,
            (0, _) => return SackOrder::More,
            (_, 0) => return SackOrder::Less,
            _ => {}
        }
        let (mut ours, mut theirs) = (0u32, 0u32);
        for (first, (start, end)) in blocks.enumerate().map(|(index, block)| (index == 0, block)) {
            if before(start, ack.acknowledgement()) {
                // A duplicate SACK.
                return SackOrder::Less;
            }
            theirs = theirs.wrapping_add(end.wrapping_sub(start));
            let mut covered = false;
            for (from, to) in self.tcp.sack_blocks() {
                if first {
                    ours = ours.wrapping_add(to.wrapping_sub(from));
                }
                covered |= !after(from, start) && !before(to, end);
                if covered && !first {
                    break;
                }
            }
            if !covered {
                return SackOrder::Less;
            }
        }
        if ours > theirs { SackOrder::More } else { SackOrder::Same }
    }
}

/// What the trigger's SACK blocks say against an ACK's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SackOrder {
    Less,
    Same,
    More,
}

#[cfg(test)]
mod tests;
