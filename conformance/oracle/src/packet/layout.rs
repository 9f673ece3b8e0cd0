//! Offsets of the packet structures, read from the type information once per world.

use crate::error::TypeError;
use crate::image::{Btf, Field};

macro_rules! offsets {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $structure:literal . $path:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name { $(pub(crate) $field: u64),* }
        impl $name {
            pub(crate) fn new(btf: &Btf) -> Result<Self, TypeError> {
                Ok(Self { $($field: btf.offset($structure, $path)?),* })
            }
        }
    };
}

offsets! {
    /// `struct sk_buff` and the shared info behind its data, in bytes.
    SkbOffsets {
        next: "sk_buff"."next",
        prev: "sk_buff"."prev",
        sk: "sk_buff"."sk",
        dev: "sk_buff"."dev",
        tstamp: "sk_buff"."tstamp",
        cb: "sk_buff"."cb",
        destructor: "sk_buff"."destructor",
        len: "sk_buff"."len",
        data_len: "sk_buff"."data_len",
        mac_len: "sk_buff"."mac_len",
        priority: "sk_buff"."priority",
        hash: "sk_buff"."hash",
        vlan_proto: "sk_buff"."vlan_proto",
        vlan_tci: "sk_buff"."vlan_tci",
        mark: "sk_buff"."mark",
        protocol: "sk_buff"."protocol",
        transport: "sk_buff"."transport_header",
        network: "sk_buff"."network_header",
        mac: "sk_buff"."mac_header",
        inner_transport: "sk_buff"."inner_transport_header",
        inner_network: "sk_buff"."inner_network_header",
        inner_mac: "sk_buff"."inner_mac_header",
        csum_start: "sk_buff"."csum_start",
        csum_offset: "sk_buff"."csum_offset",
        tail: "sk_buff"."tail",
        end: "sk_buff"."end",
        head: "sk_buff"."head",
        data: "sk_buff"."data",
        truesize: "sk_buff"."truesize",
        users: "sk_buff"."users",
        dataref: "skb_shared_info"."dataref",
        gso_size: "skb_shared_info"."gso_size",
        gso_segs: "skb_shared_info"."gso_segs",
        gso_type: "skb_shared_info"."gso_type",
        pkt_len: "qdisc_skb_cb"."pkt_len",
    }
}

/// Everything the packet code needs to know about layouts.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) at: SkbOffsets,
    pub(crate) skb_size: u64,
    pub(crate) shinfo_size: u64,
    pub(crate) l4_hash: Field,
    pub(crate) sw_hash: Field,
    pub(crate) encapsulation: Field,
    pub(crate) ip_summed: Field,
    /// The 6.12 flag that says which clock a stamp is on.
    pub(crate) tstamp_type: Option<Field>,
    /// Says whether there is a tag beside the frame (6.1; later the tag itself says it).
    pub(crate) vlan_present: Option<Field>,
    /// Segment count beside the packet length (7.x).
    pub(crate) pkt_segs: Option<u64>,
    /// Drop reason noted in the control block, with the offset within `cb`.
    pub(crate) drop_reason: Option<u64>,
}

impl Layout {
    pub(crate) fn new(btf: &Btf) -> Result<Self, TypeError> {
        let flag = |name| btf.field("sk_buff", name);
        let drop_reason = btf.offset("tc_skb_cb", "drop_reason").ok();
        Ok(Self {
            at: SkbOffsets::new(btf)?,
            skb_size: btf.size_of("sk_buff")? as u64,
            shinfo_size: btf.size_of("skb_shared_info")? as u64,
            l4_hash: flag("l4_hash")?,
            sw_hash: flag("sw_hash")?,
            encapsulation: flag("encapsulation")?,
            ip_summed: flag("ip_summed")?,
            tstamp_type: flag("tstamp_type").or_else(|_| flag("mono_delivery_time")).ok(),
            vlan_present: flag("vlan_present").ok(),
            pkt_segs: btf.offset("qdisc_skb_cb", "pkt_segs").ok(),
            drop_reason,
        })
    }
}
