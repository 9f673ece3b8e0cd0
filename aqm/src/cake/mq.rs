//! `cake_mq`: one cake per transmit queue of a device, which share one rate (spec/cake.md §19).

use core::marker::PhantomData;

use super::config::refuse;
use super::{Cake, Config, Parameters, Storage};
use crate::{ConfigError, Counters, Environment, Event, Heap, Linux, Packet, Qdisc, Setup, Verdict};

/// At most this often a child looks at the others.
const SPACING_NS: u64 = 200_000;

/// Cakes under one configuration, on a device with several transmit queues. Which queue a packet goes to is the
/// caller's choice; flows and hosts are fair within each queue only, while the bandwidth is shared by the queues
/// that are active.
///
/// Linux has it since 7.0. A child's handle is 0, so that small packet priorities choose tins (spec/cake.md §8.2).
///
/// ```
/// use debloat_aqm::{Context, Descriptor, Qdisc, Verdict, cake::{CakeMq, Config}};
///
/// let mut device = CakeMq::new(4, Config { bandwidth: Some(125_000_000), ..Config::default() })?;
/// let mut cx = Context::at(3_600_000_000_000);
/// let mut queue = device.queue(2).expect("there are four");
/// assert_eq!(queue.enqueue(Descriptor::new(1514), &mut cx), Verdict::Queued);
/// assert!(queue.dequeue(&mut cx).is_some());
/// # Ok::<(), debloat_aqm::ConfigError>(())
/// ```
///
/// `C` holds the children: a `Vec` or an array.
pub struct CakeMq<P, C, S: Storage = Heap> {
    children: C,
    parameters: Parameters,
    of: PhantomData<fn() -> Cake<P, S>>,
}

#[cfg(feature = "alloc")]
impl<P: Packet> CakeMq<P, alloc::vec::Vec<Cake<P>>> {
    /// A cake on the heap for each of `queues` transmit queues.
    ///
    /// # Errors
    ///
    /// As Linux refuses: fewer than two queues, `autorate-ingress`; and versions before 7.2, which have no `cake_mq`.
    pub fn new(queues: usize, setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let setup = setup.into();
        let plain = Setup { config: Config::default(), ..setup };
        Self::of((0..queues).map(|_| Cake::new(plain)).collect::<Result<_, _>>()?, setup)
    }
}

impl<P: Packet, S: Storage, C: AsRef<[Cake<P, S>]> + AsMut<[Cake<P, S>]>> CakeMq<P, C, S> {
    /// Takes fresh cakes, one per transmit queue and all of the setup's host and version, under one configuration.
    ///
    /// # Errors
    ///
    /// As [`CakeMq::new`], and what the storage of the cakes has no room for.
    pub fn of(children: C, setup: impl Into<Setup<Config>>) -> Result<Self, ConfigError> {
        let Setup { config, linux, .. } = setup.into();
        if linux < Linux::V7_2 {
            return Err(refuse("cake_mq", linux as u64, "only in Linux 7.2 and later"));
        }
        match children.as_ref().len() {
            0 | 1 => return Err(refuse("cake_mq queues", children.as_ref().len() as u64, "at least 2")),
            _ => {}
        }
        let mut this = Self { children, parameters: Parameters::default(), of: PhantomData };
        let parameters = this.prepare(&config)?;
        for child in this.children.as_mut() {
            child.handle = 0;
            child.parameters = parameters;
            child.derive();
            child.leave_scan();
        }
        this.parameters = parameters;
        Ok(this)
    }

    /// The parameters after a change, for which all children have the memory.
    fn prepare(&mut self, config: &Config) -> Result<Parameters, ConfigError> {
        if config.autorate_ingress == Some(true) {
            return Err(refuse("autorate-ingress", 1, "not with cake_mq"));
        }
        let mut parameters = self.parameters;
        parameters.apply(config);
        for child in self.children.as_mut() {
            child.make_tins(&parameters)?;
        }
        Ok(parameters)
    }

    /// Changes options of all queues while running; what is not given stays.
    ///
    /// # Errors
    ///
    /// `autorate-ingress`, and a Diffserv mode for whose tins there is no room. Nothing is changed then.
    pub fn change<E: Environment<P> + ?Sized>(&mut self, config: &Config, cx: &mut E) -> Result<(), ConfigError> {
        self.parameters = self.prepare(config)?;
        for child in self.children.as_mut() {
            child.parameters = self.parameters;
            if config.restarts_length_records() {
                child.lengths.restart();
            }
            child.reconfigure(cx);
        }
        Ok(())
    }

    /// The parameters in force for all queues.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The children, one per transmit queue, for their statistics.
    pub fn children(&self) -> &[Cake<P, S>] {
        self.children.as_ref()
    }

    /// One transmit queue as a qdisc of its own; `None` if there is no such queue.
    pub fn queue(&mut self, index: usize) -> Option<MqQueue<'_, P, S>> {
        let children = self.children.as_mut();
        (index < children.len()).then_some(MqQueue { children, index })
    }

    /// The generic statistics of the device: sums over the queues.
    pub fn counters(&self) -> Counters {
        self.children.as_ref().iter().fold(Counters::default(), |sum, child| {
            let one = child.counters();
            Counters {
                qlen: sum.qlen.wrapping_add(one.qlen),
                backlog_bytes: sum.backlog_bytes.wrapping_add(one.backlog_bytes),
                drops: sum.drops.wrapping_add(one.drops),
                overlimits: sum.overlimits.wrapping_add(one.overlimits),
                requeues: sum.requeues.wrapping_add(one.requeues),
                sent_bytes: sum.sent_bytes.wrapping_add(one.sent_bytes),
                sent_packets: sum.sent_packets.wrapping_add(one.sent_packets),
            }
        })
    }
}

impl<P, C, S: Storage> core::fmt::Debug for CakeMq<P, C, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CakeMq").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// One transmit queue of a [`CakeMq`].
pub struct MqQueue<'a, P, S: Storage> {
    children: &'a mut [Cake<P, S>],
    index: usize,
}

impl<P, S: Storage> core::fmt::Debug for MqQueue<'_, P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MqQueue").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<P: Packet, S: Storage> MqQueue<'_, P, S> {
    fn child(&mut self) -> &mut Cake<P, S> {
        &mut self.children[self.index]
    }

    /// Takes this queue's share of the rate (§19.2), as often as it is due.
    fn share(&mut self, now_ns: u64) {
        let last_check_ns = self.child().sharing.last_check_ns;
        if self.child().shaper.time.is_unlimited() || now_ns.wrapping_sub(last_check_ns) < SPACING_NS {
            return;
        }
        let others = self.children.iter().enumerate().filter(|&(index, other)| {
            index != self.index && (other.counters.qlen != 0 || other.sharing.last_active_ns > last_check_ns)
        });
        let active = others.count() as u32 + 1;
        let child = self.child();
        child.share_rate(child.parameters.bandwidth / u64::from(active));
        child.sharing.last_check_ns = now_ns;
        child.sharing.active = active;
    }
}

impl<P: Packet, S: Storage> Qdisc<P> for MqQueue<'_, P, S> {
    fn enqueue<E: Environment<P> + ?Sized>(&mut self, packet: P, cx: &mut E) -> Verdict {
        self.child().enqueue(packet, cx)
    }

    fn dequeue<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        let now_ns = cx.now_ns();
        self.share(now_ns);
        self.child().dequeue_at(now_ns, cx)
    }

    fn peek<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<&P> {
        if self.child().parked.is_none() {
            let packet = self.dequeue(cx);
            self.child().park(packet);
        }
        self.child().parked.as_ref()
    }

    fn dequeue_peeked<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) -> Option<P> {
        match self.child().unpark() {
            None => self.dequeue(cx),
            parked => parked,
        }
    }

    fn reset<E: Environment<P> + ?Sized>(&mut self, cx: &mut E) {
        self.child().reset(cx);
    }

    fn counters(&self) -> &Counters {
        self.children[self.index].counters()
    }

    fn next_event(&self) -> Option<Event> {
        self.children[self.index].next_event()
    }
}
