//! The kernel's own dumps (spec/cake.md §17, Appendix D) against what the port reports.

use debloat_aqm::cake::{Cake, ClassStats, Parameters, Stats, TinStats};
use debloat_aqm::{Linux, Qdisc};
use debloat_oracle::nla::Attrs;
use debloat_oracle::{Class, KernelQdisc, Result};

use super::environment::Replay;
use super::packet::Mirror;
use super::state::Mismatch;

type Compared = std::result::Result<(), Mismatch>;

/// Attribute type, and the value that the port would send.
type Row<T> = (u16, fn(&T) -> Option<i128>);

const OPTIONS: [Row<Parameters>; 17] = [
    (2, |v| Some(v.bandwidth.into())),
    (3, |v| Some(v.diffserv.attribute().into())),
    (4, |v| Some(v.framing.attribute().into())),
    (5, |v| Some(v.flow_mode.attribute().into())),
    (6, |v| Some(i128::from(i32::from(v.overhead_bytes) as u32))),
    (7, |v| Some(v.rtt_us.into())),
    (8, |v| Some(v.target_us.into())),
    (9, |v| Some(v.autorate_ingress.into())),
    (10, |v| Some(v.memlimit_bytes.into())),
    (11, |v| Some(v.nat.into())),
    (12, |v| v.raw.then_some(0)),
    (13, |v| Some(v.wash.into())),
    (14, |v| Some(v.mpu_bytes.into())),
    (15, |v| Some(v.ingress.into())),
    (16, |v| Some(v.ack_filter.attribute().into())),
    (17, |v| Some(v.split_gso.into())),
    (18, |v| Some(v.fwmark.into())),
];

const STATS: [Row<Stats>; 8] = [
    (2, |s| Some(s.capacity_estimate.into())),
    (3, |s| Some(s.memory_limit_bytes.into())),
    (4, |s| Some(s.memory_used_bytes.into())),
    (5, |s| Some(s.network_offset_mean.into())),
    (6, |s| Some(s.network_min.into())),
    (7, |s| Some(s.network_max.into())),
    (8, |s| Some(s.adjusted_min.into())),
    (9, |s| Some(s.adjusted_max.into())),
];

const TIN: [Row<TinStats>; 20] = [
    (2, |t| Some(t.sent_packets.into())),
    (3, |t| Some(t.sent_bytes.into())),
    (4, |t| Some(t.drops.into())),
    (6, |t| Some(t.ack_drops.into())),
    (8, |t| Some(t.ecn_marks.into())),
    (11, |t| Some(t.backlog_bytes.into())),
    (12, |t| Some(t.threshold_rate.into())),
    (13, |t| Some(t.target_us.into())),
    (14, |t| Some(t.interval_us.into())),
    (15, |t| Some(t.way_indirect_hits.into())),
    (16, |t| Some(t.way_misses.into())),
    (17, |t| Some(t.way_collisions.into())),
    (18, |t| Some(t.peak_delay_us.into())),
    (19, |t| Some(t.avg_delay_us.into())),
    (20, |t| Some(t.base_delay_us.into())),
    (21, |t| Some(t.sparse_flows.into())),
    (22, |t| Some(t.bulk_flows.into())),
    (23, |t| Some(t.unresponsive_flows.into())),
    (24, |t| Some(t.max_packet_bytes.into())),
    (25, |t| Some(t.flow_quantum.into())),
];

const CLASS: [Row<ClassStats>; 6] = [
    (11, |c| Some(i128::from(c.deficit_bytes as u32))),
    (12, |c| Some(c.count.into())),
    (13, |c| Some(c.dropping.into())),
    (14, |c| c.drop_next_us.map(|us| i128::from(us as u32))),
    (15, |c| Some(c.p_drop.into())),
    (16, |c| c.blue_timer_us.map(|us| i128::from(us as u32))),
];

const TIN_STATS: u16 = 10;
const ACTIVE_QUEUES: u16 = 17;

fn compare<T>(what: &str, attrs: Attrs<'_>, rows: &[Row<T>], ours: &T) -> Compared {
    for (kind, of) in rows {
        let kernel = attrs.find(*kind).and_then(|attr| attr.number()).map(i128::from);
        Mismatch::of(format!("{what}, attribute {kind}"), kernel, of(ours))?;
    }
    // Nothing that the table does not know, but padding.
    for attr in attrs {
        let known = attr.kind == 1 || rows.iter().any(|(kind, _)| *kind == attr.kind);
        if !known && !(what == "stats" && matches!(attr.kind, TIN_STATS | ACTIVE_QUEUES)) {
            Mismatch::of(format!("{what}: an attribute"), attr.kind, 0)?;
        }
    }
    Ok(())
}

/// Compares the options and the statistics.
pub(super) fn compare_dumps(kernel: &KernelQdisc<'_>, port: &Cake<Mirror>, linux: Linux) -> Result<Compared> {
    let (options, stats) = (kernel.dump()?, kernel.stats()?);
    Ok((|| {
        compare("options", Attrs::new(&options), &OPTIONS, port.parameters())?;
        let ours = port.stats();
        let attrs = Attrs::new(&stats.app);
        compare("stats", attrs, &STATS, &ours)?;
        let active = attrs.find(ACTIVE_QUEUES).and_then(|attr| attr.u32());
        Mismatch::of("active queues", active, (linux >= Linux::V7_2).then_some(ours.active_queues))?;
        let tins: Vec<_> = attrs.find(TIN_STATS).map(|nest| nest.attrs().collect()).unwrap_or_default();
        Mismatch::of("number of tins", tins.len(), ours.tins().len())?;
        for ((tin, ours), number) in tins.iter().zip(ours.tins()).zip(1..) {
            Mismatch::of("number of a tin", tin.kind, number)?;
            compare(&format!("tin {number}"), tin.attrs(), &TIN, ours)?;
        }
        let counters = port.counters();
        Mismatch::of("sent bytes", stats.bytes, counters.sent_bytes)?;
        Mismatch::of("overlimits", stats.overlimits, counters.overlimits)
    })())
}

/// Compares the classes; the kernel has dumped these already, reading the clock for each.
pub(super) fn compare_classes(classes: &[Class], port: &Cake<Mirror>, replay: &mut Replay) -> Compared {
    let ours: Vec<_> = port.classes(replay).collect();
    Mismatch::of("number of classes", classes.len(), ours.len())?;
    for (class, ours) in classes.iter().zip(&ours) {
        let word = |at: usize| class.queue.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let what = format!("class {:x}", ours.minor);
        Mismatch::of(format!("{what}: handle"), class.handle & 0xffff, ours.minor)?;
        Mismatch::of(format!("{what}: qlen"), word(0), Some(ours.qlen))?;
        Mismatch::of(format!("{what}: backlog"), word(4), Some(ours.backlog_bytes))?;
        Mismatch::of(format!("{what}: drops"), word(8), Some(ours.drops))?;
        compare(&what, Attrs::new(&class.app), &CLASS, ours)?;
    }
    Ok(())
}
