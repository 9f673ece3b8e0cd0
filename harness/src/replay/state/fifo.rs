use debloat_aqm::fifo::{Bfifo, Pfifo, PfifoHeadDrop};
use debloat_aqm::{Packet, Qdisc, Storage};

use super::{Probe, codel};

macro_rules! fifo {
    ($($qdisc:ident),+) => {
        $(impl<P: Packet, S: Storage> Probe for $qdisc<P, S> {
            fn probe(&self, schema: &str, _: u64, field: &str) -> Option<u64> {
                match (schema, field) {
                    ("fifo.qdisc", "limit") => Some(self.parameters().limit.into()),
                    ("fifo.qdisc", _) => codel::counter(self.counters(), field),
                    _ => None,
                }
            }
        })+
    };
}

fifo!(Pfifo, Bfifo, PfifoHeadDrop);
