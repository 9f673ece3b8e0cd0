//! Which tin and queue a packet belongs to (spec/cake.md §8 and §9.2).

use super::heap::Place;
use super::qdisc::Cake;
use super::storage::Storage;
use crate::classify::Refused;
use crate::net::{FlowKeys, HostHashes, ecn, ethertype};
use crate::{Classified, Environment, NatTuple, Packet};
use core::net::IpAddr;

/// What a filter prescribes; 0 is nothing. Linux knows no more queues and hosts than 1024.
#[derive(Clone, Copy, Default)]
struct Overrides {
    flow: u32,
    host: u32,
}

impl Overrides {
    const fn of_class(class: u32) -> Self {
        const fn within(number: u32) -> u32 {
            if number <= 1024 { number } else { 0 }
        }
        Self { flow: within(class & 0xffff), host: within(class >> 16) }
    }
}

impl<P: Packet, S: Storage> Cake<P, S> {
    pub(super) fn classify<E: Environment<P> + ?Sized>(
        &mut self,
        packet: &mut P,
        cx: &mut E,
    ) -> Result<Place, Refused> {
        let overrides = match cx.classify(packet) {
            Classified::NoFilters | Classified::NoMatch => Overrides::default(),
            Classified::Class(class) => Overrides::of_class(class),
            Classified::Stolen => return Err(Refused::STOLEN),
            Classified::Shot => return Err(Refused::DROPPED),
        };
        let tin = self.tin_of(packet);
        let mode = self.parameters.flow_mode;
        if mode.attribute() == 0 && !self.parameters.nat {
            return Ok(Place { tin, queue: 0 });
        }
        let (flow, hosts) = self.hashes(packet, overrides, cx);
        let queue = self.tins.as_mut()[usize::from(tin)].look_up(flow, hosts, mode);
        Ok(Place { tin, queue })
    }

    /// §8.2. The DSCP is washed in any case, but counts only if nothing else chooses.
    #[inline]
    fn tin_of(&self, packet: &mut P) -> u16 {
        let washed = self.parameters.wash.then(|| packet.wash());
        if self.layout.tins == 1 {
            return 0;
        }
        let mark = (packet.fwmark() & self.parameters.fwmark) >> self.mark_shift;
        if let Some(tin) = self.layout.at_display(mark) {
            return tin.into();
        }
        let priority = packet.priority();
        if (priority ^ self.handle) >> 16 == 0
            && let Some(tin) = self.layout.at_display(priority & 0xffff)
        {
            return tin.into();
        }
        let dscp = washed.unwrap_or_else(|| packet.dscp());
        self.layout.by_dscp[usize::from(dscp & 63)].into()
    }

    /// The flow hash and the hosts' hashes.
    #[inline]
    fn hashes<E: Environment<P> + ?Sized>(
        &self,
        packet: &mut P,
        overrides: Overrides,
        cx: &mut E,
    ) -> (u32, HostHashes) {
        let mode = self.parameters.flow_mode;
        let mut given = packet.given_hash();
        let needs_flow = overrides.flow == 0 && mode.flows();
        let needs_hosts = overrides.host == 0 && (mode.source_host() || mode.destination_host());
        let (mut flow, mut hosts) = (0, HostHashes::default());
        if needs_hosts || needs_flow && (given.is_none() || self.parameters.nat) {
            let secret = cx.flow_secret();
            let keys = packet.flow_keys().map(|mut keys| {
                if keys.wants_random_tipc() {
                    keys.set_tipc(cx.random_u32().to_le_bytes());
                }
                if self.parameters.nat && translate(&mut keys, packet, cx) {
                    given = None;
                }
                keys
            });
            if needs_hosts {
                hosts = keys.as_ref().map_or_else(|| packet.host_hashes(), |keys| keys.host_hashes(&secret));
            }
            if needs_flow && given.is_none() {
                flow = keys.map_or_else(|| packet.flow_hash(secret), |keys| keys.hash(&secret));
            }
        }
        if overrides.flow != 0 {
            flow = overrides.flow - 1;
        } else if let Some(given) = given.filter(|_| mode.flows()) {
            flow = given;
        }
        if overrides.host != 0 {
            hosts = HostHashes { source: overrides.host - 1, destination: overrides.host - 1 };
        }
        if !mode.flows() {
            flow ^= if mode.source_host() { hosts.source } else { 0 };
            flow ^= if mode.destination_host() { hosts.destination } else { 0 };
        }
        (flow, hosts)
    }
}

/// Puts the addresses that connection tracking knows in place of the packet's (Appendix B). True if that changed
/// anything.
#[cold]
fn translate<P: Packet, E: Environment<P> + ?Sized>(keys: &mut FlowKeys, packet: &P, cx: &mut E) -> bool {
    let is_ipv4 = packet.headers().is_some_and(|headers| {
        ecn::ethertype_after_vlans(headers.bytes, headers.network_offset, headers.ethertype) == Some(ethertype::IPV4)
    });
    if !is_ipv4 {
        return false;
    }
    match cx.conntrack(packet) {
        Some(NatTuple {
            source: IpAddr::V4(source),
            destination: IpAddr::V4(destination),
            source_port,
            destination_port,
        }) => {
            let addresses = keys.set_ipv4(source.octets(), destination.octets());
            let ports = keys.set_ports(source_port, destination_port);
            addresses || ports
        }
        _ => false,
    }
}
