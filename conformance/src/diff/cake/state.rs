//! The kernel's private state of a cake, found by its type information, against the port's.

use debloat_aqm::cake::{Cake, HostSlot, QueueSnapshot, QueueState, TinSnapshot, TinStats};
use debloat_aqm::{Linux, Qdisc};
use debloat_oracle::{Field, KernelQdisc, Result};

use super::packet::Mirror;

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Which.
    pub what: String,
    /// In the kernel.
    pub kernel: String,
    /// In the port.
    pub port: String,
}

impl Mismatch {
    /// Two values that should be equal.
    pub fn of<T: PartialEq + std::fmt::Debug>(
        what: impl Into<String>,
        kernel: T,
        port: T,
    ) -> std::result::Result<(), Self> {
        if kernel == port {
            return Ok(());
        }
        Err(Self { what: what.into(), kernel: format!("{kernel:?}"), port: format!("{port:?}") })
    }
}

type Compared = std::result::Result<(), Mismatch>;

const TINS: usize = 8;
const QUEUES: usize = 1024;

/// Named values of a structure, resolved once.
struct Fields<T: 'static> {
    fields: Vec<(&'static str, Field, fn(&T) -> i64)>,
}

/// A row of a table: kernel's path, and how the port shows it.
type Row<T> = (&'static str, fn(&T) -> i64);

/// What the port shows of its qdisc, in one place.
struct Whole {
    shaper: debloat_aqm::cake::Shaper,
    memory: debloat_aqm::cake::Memory,
    autorate: debloat_aqm::cake::Autorate,
    lengths: debloat_aqm::cake::LengthRecords,
    parameters: debloat_aqm::cake::Parameters,
    sharing: debloat_aqm::cake::Sharing,
    scan: (u16, u16),
    lifetime: u16,
    tins: u16,
}

const QDISC: [Row<Whole>; 24] = [
    ("time_next_packet", |w| w.shaper.next_ns),
    ("failsafe_next_packet", |w| w.shaper.failsafe_ns),
    ("rate_ns", |w| w.shaper.time.mult as i64),
    ("rate_shft", |w| w.shaper.time.shift.into()),
    ("overflow_timeout", |w| w.lifetime.into()),
    ("tin_cnt", |w| w.tins.into()),
    ("buffer_used", |w| w.memory.used.into()),
    ("buffer_max_used", |w| w.memory.peak.into()),
    ("buffer_limit", |w| w.memory.limit.into()),
    ("cur_tin", |w| w.scan.0.into()),
    ("cur_flow", |w| w.scan.1.into()),
    ("last_packet_time", |w| w.autorate.last_arrival_ns),
    ("avg_window_begin", |w| w.autorate.window_start_ns),
    ("avg_packet_interval", |w| w.autorate.gap_mean_ns as i64),
    ("avg_window_bytes", |w| w.autorate.window_bytes as i64),
    ("avg_peak_bandwidth", |w| w.autorate.capacity as i64),
    ("last_reconfig_time", |w| w.autorate.last_retune_ns),
    ("avg_netoff", |w| w.lengths.network_offset_mean.into()),
    ("max_netlen", |w| w.lengths.network_max.into()),
    ("max_adjlen", |w| w.lengths.adjusted_max.into()),
    ("min_netlen", |w| w.lengths.network_min.into()),
    ("min_adjlen", |w| w.lengths.adjusted_min.into()),
    // Below the configuration, wherever it is.
    ("rate_bps", |w| w.parameters.bandwidth as i64),
    ("fwmark_shft", |w| i64::from(w.parameters.fwmark.trailing_zeros() % 32)),
];

const SHARING: [Row<Whole>; 3] = [
    ("last_active", |w| w.sharing.last_active_ns as i64),
    ("last_checked_active", |w| w.sharing.last_check_ns as i64),
    ("active_queues", |w| w.sharing.active.into()),
];

struct WholeTin {
    state: TinSnapshot,
    stats: TinStats,
}

const TIN: [Row<WholeTin>; 36] = [
    ("time_next_packet", |t| t.state.next_ns),
    ("tin_rate_ns", |t| t.state.time.mult as i64),
    ("tin_rate_shft", |t| t.state.time.shift.into()),
    ("tin_rate_bps", |t| t.state.rate as i64),
    ("tin_quantum", |t| t.state.quantum.into()),
    ("tin_deficit", |t| t.state.deficit_bytes.into()),
    ("tin_backlog", |t| t.state.backlog_bytes.into()),
    ("flow_quantum", |t| t.stats.flow_quantum.into()),
    ("cparams.interval", |t| t.state.cobalt.interval_ns as i64),
    ("cparams.target", |t| t.state.cobalt.target_ns as i64),
    ("cparams.mtu_time", |t| t.state.cobalt.mtu_time_ns as i64),
    ("cparams.p_inc", |t| t.state.cobalt.p_increment.into()),
    ("cparams.p_dec", |t| t.state.cobalt.p_decrement.into()),
    ("bulk_flow_count", |t| t.state.bulk.into()),
    ("sparse_flow_count", |t| t.state.sparse.into()),
    ("decaying_flow_count", |t| t.state.decaying.into()),
    ("unresponsive_flow_count", |t| t.state.unresponsive.into()),
    ("max_skblen", |t| t.stats.max_packet_bytes.into()),
    ("tin_dropped", |t| t.stats.drops.into()),
    ("tin_ecn_mark", |t| t.stats.ecn_marks.into()),
    ("packets", |t| t.stats.sent_packets.into()),
    ("bytes", |t| t.stats.sent_bytes as i64),
    ("ack_drops", |t| t.stats.ack_drops.into()),
    ("avge_delay", |t| t.state.delays.mean_ns as i64),
    ("peak_delay", |t| t.state.delays.peak_ns as i64),
    ("base_delay", |t| t.state.delays.base_ns as i64),
    ("way_directs", |t| t.state.lookups.direct.into()),
    ("way_hits", |t| t.state.lookups.hits.into()),
    ("way_misses", |t| t.state.lookups.misses.into()),
    ("way_collisions", |t| t.state.lookups.collisions.into()),
    // The statistics that are dumped come from the same places.
    ("tin_backlog", |t| t.stats.backlog_bytes.into()),
    ("bulk_flow_count", |t| t.stats.bulk_flows.into()),
    ("unresponsive_flow_count", |t| t.stats.unresponsive_flows.into()),
    ("way_hits", |t| t.stats.way_indirect_hits.into()),
    ("way_misses", |t| t.stats.way_misses.into()),
    ("way_collisions", |t| t.stats.way_collisions.into()),
];

const QUEUE: [Row<QueueSnapshot>; 12] = [
    ("deficit", |q| q.deficit_bytes.into()),
    ("dropped", |q| q.dropped.into()),
    ("cvars.count", |q| q.cobalt.count.into()),
    ("cvars.rec_inv_sqrt", |q| q.cobalt.inverse_sqrt.into()),
    ("cvars.drop_next", |q| q.cobalt.next_signal_ns),
    ("cvars.blue_timer", |q| q.cobalt.blue_changed_ns),
    ("cvars.p_drop", |q| q.cobalt.p_drop.into()),
    ("cvars.dropping", |q| q.cobalt.signalling.into()),
    ("cvars.ecn_marked", |q| q.cobalt.marked.into()),
    ("srchost", |q| q.source_slot.into()),
    ("dsthost", |q| q.destination_slot.into()),
    ("set", |q| state_number(q.state)),
];

/// The kernel's number of a state.
fn state_number(state: QueueState) -> i64 {
    match state {
        QueueState::Idle => 0,
        QueueState::Sparse => 1,
        QueueState::SparseWait => 2,
        QueueState::Bulk => 3,
        QueueState::Decaying => 4,
    }
}

impl<T> Fields<T> {
    fn resolve(rows: &[Row<T>], mut field: impl FnMut(&str) -> Result<Field>) -> Result<Self> {
        let fields = rows.iter().map(|(path, port)| Ok((*path, field(path)?, *port))).collect::<Result<_>>()?;
        Ok(Self { fields })
    }

    #[inline]
    fn compare(&self, port: &T, read: impl Fn(&Field) -> i64, place: impl Fn() -> String) -> Compared {
        for (path, field, of) in &self.fields {
            let (kernel, port) = (read(field), of(port));
            if kernel != port {
                return Mismatch::of(format!("{}{path}", place()), kernel, port);
            }
        }
        Ok(())
    }
}

/// Where everything is.
pub(super) struct View<'k, 'w> {
    kernel: &'k KernelQdisc<'w>,
    qdisc: Fields<Whole>,
    tin: Fields<WholeTin>,
    queue: Fields<QueueSnapshot>,
    generic: [Field; 6],
    tins: u64,
    tin_size: u64,
    queue_size: u64,
    queues_at: u64,
    rows: Rows,
    heap: Field,
    lists: [u64; 3],
    link: u64,
    buffer: Vec<u8>,
}

/// Arrays of a tin, as offsets.
struct Rows {
    backlogs: Vec<Field>,
    tags: Vec<Field>,
    places: Vec<Field>,
    hosts: Vec<Field>,
}

impl<'k, 'w> View<'k, 'w> {
    pub(super) fn new(kernel: &'k KernelQdisc<'w>, linux: Linux) -> Result<Self> {
        let btf = kernel.btf();
        let qdisc = Fields::resolve(&QDISC, |path| {
            // 7.2 keeps the configuration apart.
            kernel.field(path).or_else(|_| kernel.field(&format!("config.{path}")))
        });
        let mut qdisc = qdisc?;
        if linux >= Linux::V7_2 {
            qdisc.fields.extend(Fields::resolve(&SHARING, |path| kernel.field(path))?.fields);
        }
        let in_tins =
            |name: &str| (0..TINS).map(|tin| kernel.field(&format!("tins[{tin}].{name}"))).collect::<Result<_>>();
        Ok(Self {
            kernel,
            qdisc,
            tin: Fields::resolve(&TIN, |path| Ok(btf.field("cake_tin_data", path)?))?,
            queue: Fields::resolve(&QUEUE, |path| Ok(btf.field("cake_flow", path)?))?,
            generic: [
                kernel.qdisc_field("q.qlen")?,
                kernel.qdisc_field("qstats.backlog")?,
                kernel.qdisc_field("qstats.drops")?,
                kernel.qdisc_field("qstats.overlimits")?,
                kernel.qdisc_field("bstats.bytes")?,
                kernel.qdisc_field("bstats.packets")?,
            ],
            tins: kernel.address_of(&kernel.field("tins[0]")?),
            tin_size: btf.size_of("cake_tin_data")? as u64,
            queue_size: btf.size_of("cake_flow")? as u64,
            queues_at: btf.offset("cake_tin_data", "flows")?,
            rows: Rows {
                backlogs: in_tins("backlogs")?,
                tags: in_tins("tags")?,
                places: in_tins("overflow_idx")?,
                hosts: in_tins("hosts")?,
            },
            heap: kernel.field("overflow_heap")?,
            lists: [
                btf.offset("cake_tin_data", "new_flows")?,
                btf.offset("cake_tin_data", "old_flows")?,
                btf.offset("cake_tin_data", "decaying_flows")?,
            ],
            link: btf.offset("cake_flow", "flowchain")?,
            buffer: Vec::new(),
        })
    }

    fn tin_at(&self, tin: usize) -> u64 {
        self.tins + tin as u64 * self.tin_size
    }

    /// Everything that is not in an array of queues or hosts.
    pub(super) fn compare_scalars(&self, port: &Cake<Mirror>) -> Compared {
        let world = self.kernel.world();
        let counters = port.counters();
        let ours = [
            counters.qlen.into(),
            counters.backlog_bytes.into(),
            counters.drops.into(),
            counters.overlimits.into(),
            counters.sent_bytes,
            counters.sent_packets,
        ];
        for ((field, ours), what) in
            self.generic.iter().zip(ours).zip(["qlen", "backlog", "drops", "overlimits", "bytes", "packets"])
        {
            Mismatch::of(what, self.kernel.read(field), ours)?;
        }
        let whole = Whole {
            shaper: *port.shaper(),
            memory: port.memory(),
            autorate: *port.autorate(),
            lengths: *port.lengths(),
            parameters: *port.parameters(),
            sharing: port.sharing(),
            scan: port.scan_position(),
            lifetime: port.heap_lifetime(),
            tins: port.tins_in_use(),
        };
        self.qdisc.compare(&whole, |field| self.kernel.read_signed(field), String::new)?;
        for tin in 0..TINS {
            let at = self.tin_at(tin);
            match (port.tin(tin), port.tin_stats(tin)) {
                (Some(state), Some(stats)) => {
                    let whole = WholeTin { state, stats };
                    self.tin.compare(&whole, |field| world.read_field_signed(field, at), || format!("tins[{tin}]."))?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// One queue, with its row entries.
    pub(super) fn compare_queue(&self, port: &Cake<Mirror>, tin: usize, queue: usize) -> Compared {
        let Some(ours) = port.queue(tin, queue) else { return Ok(()) };
        let at = self.tin_at(tin) + self.queues_at + queue as u64 * self.queue_size;
        let place = || format!("tins[{tin}].flows[{queue}].");
        self.queue.compare(&ours, |field| self.kernel.world().read_field_signed(field, at), place)?;
        let word = |field: &Field, width: u64| {
            self.kernel.world().peek(self.kernel.address_of(field) + queue as u64 * width, width as usize)
        };
        let (rows, at) = (&self.rows, format!("[{queue}] of tin {tin}"));
        if word(&rows.tags[tin], 4) != u64::from(ours.tag) {
            return Mismatch::of(format!("tags{at}"), word(&rows.tags[tin], 4), ours.tag.into());
        }
        if word(&rows.backlogs[tin], 4) != u64::from(ours.backlog_bytes) {
            return Mismatch::of(format!("backlogs{at}"), word(&rows.backlogs[tin], 4), ours.backlog_bytes.into());
        }
        Ok(())
    }

    /// The lists of a tin, in order.
    pub(super) fn compare_lists(&self, port: &Cake<Mirror>, tin: usize) -> Compared {
        let Some(ours) = port.lists(tin) else { return Ok(()) };
        let world = self.kernel.world();
        let first = self.tin_at(tin) + self.queues_at;
        for ((head, ours), name) in self.lists.iter().zip(ours).zip(["new", "old", "decaying"]) {
            let head = self.tin_at(tin) + head;
            let mut at = world.peek(head, 8);
            for queue in ours {
                let theirs = at.wrapping_sub(self.link).wrapping_sub(first);
                if at == head || theirs != u64::from(queue) * self.queue_size {
                    let kernel = if at == head { "end".into() } else { (theirs / self.queue_size).to_string() };
                    return Mismatch::of(format!("list {name} of tin {tin}"), kernel, queue.to_string());
                }
                at = world.peek(at, 8);
            }
            if at != head {
                let kernel = (at.wrapping_sub(self.link).wrapping_sub(first) / self.queue_size).to_string();
                return Mismatch::of(format!("list {name} of tin {tin}"), kernel, "end".into());
            }
        }
        Ok(())
    }

    /// The order of the drop heap, and where each queue stands in it.
    pub(super) fn compare_heap(&mut self, port: &Cake<Mirror>) -> Compared {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.kernel.read_bytes(&self.heap, 2 * TINS * QUEUES, &mut buffer);
        let words = buffer.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        // Three bits of tin, ten of queue.
        let differs = words.zip(port.heap_order()).position(|(word, ours)| (word & 7, word >> 3 & 1023) != ours);
        let kernel = differs.map(|at| {
            let word = u16::from_le_bytes([buffer[2 * at], buffer[2 * at + 1]]);
            (at, (word & 7, word >> 3 & 1023))
        });
        self.buffer = buffer;
        if let Some((at, kernel)) = kernel {
            let ours = port.heap_order().nth(at).unwrap_or_default();
            return Mismatch::of(format!("overflow_heap[{at}]"), kernel, ours);
        }
        Ok(())
    }

    /// All there is.
    pub(super) fn compare_all(&mut self, port: &Cake<Mirror>) -> Compared {
        self.compare_scalars(port)?;
        self.compare_heap(port)?;
        for tin in 0..TINS {
            self.compare_lists(port, tin)?;
            self.compare_hosts(port, tin)?;
            self.compare_places(port, tin)?;
            for queue in 0..QUEUES {
                self.compare_queue(port, tin, queue)?;
            }
        }
        Ok(())
    }

    fn compare_places(&mut self, port: &Cake<Mirror>, tin: usize) -> Compared {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.kernel.read_bytes(&self.rows.places[tin], 2 * QUEUES, &mut buffer);
        let result = buffer.as_chunks::<2>().0.iter().enumerate().try_for_each(|(queue, bytes)| {
            let Some(ours) = port.queue(tin, queue) else { return Ok(()) };
            Mismatch::of(format!("overflow_idx[{queue}] of tin {tin}"), u16::from_le_bytes(*bytes), ours.heap_place)
        });
        self.buffer = buffer;
        result
    }

    /// The host table of a tin. The port makes it only when it is needed: until then the kernel's must be as new.
    pub(super) fn compare_hosts(&mut self, port: &Cake<Mirror>, tin: usize) -> Compared {
        let ours = port.hosts(tin);
        let mut buffer = std::mem::take(&mut self.buffer);
        self.kernel.read_bytes(&self.rows.hosts[tin], 12 * QUEUES, &mut buffer);
        let result = buffer.as_chunks::<12>().0.iter().enumerate().try_for_each(|(slot, bytes)| {
            let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let kernel = HostSlot {
                source_tag: word(0),
                destination_tag: word(4),
                source_bulk: word(8) as u16,
                destination_bulk: (word(8) >> 16) as u16,
            };
            let ours = ours.get(slot).copied().unwrap_or_default();
            if kernel == ours { Ok(()) } else { Mismatch::of(format!("hosts[{slot}] of tin {tin}"), kernel, ours) }
        });
        self.buffer = buffer;
        result
    }
}
