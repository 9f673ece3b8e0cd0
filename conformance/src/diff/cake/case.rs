//! One case: random operations on the kernel's cake and on the port.

use std::cell::Cell;
use std::rc::Rc;

use debloat_aqm::cake::Cake;
use debloat_aqm::net::testing::Dice;
use debloat_aqm::net::{Headers, Segmenter, ecn};
use debloat_aqm::{Classified, Configure, Host, Linux, Qdisc};
use debloat_oracle as oracle;
use oracle::{DropPath, Event, KernelQdisc, PacketRef, QdiscSetup, World};

use super::configs::Settings;
use super::coverage::{Before, Coverage, Enqueued};
use super::dumps;
use super::environment::Replay;
use super::packet::{Description, Mirror, Segment};
use super::state::{Mismatch, View};
use super::traffic::Traffic;

/// A difference between kernel and port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("operation {operation} of case {seed:#x}: {what}: kernel {kernel}, port {port}\n  {made}")]
pub struct Divergence {
    /// The case.
    pub seed: u64,
    /// Which operation, from 0.
    pub operation: u64,
    /// The operation.
    pub made: String,
    /// What differs.
    pub what: String,
    /// In the kernel.
    pub kernel: String,
    /// In the port.
    pub port: String,
}

/// Why a case ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Kernel and port differ.
    #[error(transparent)]
    Divergence(#[from] Divergence),
    /// The kernel's code ran into trouble.
    #[error("operation {operation} of case {seed:#x}: {error}\n  {made}")]
    Oracle {
        /// The case.
        seed: u64,
        /// Which operation.
        operation: u64,
        /// The operation.
        made: String,
        /// The trouble.
        error: oracle::Error,
    },
}

/// A case: where its choices come from, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Names the case.
    pub seed: u64,
    /// Operations.
    pub operations: u64,
}

/// What one step may run into.
enum Stop {
    Differs(Mismatch),
    Trouble(oracle::Error),
}

impl From<Mismatch> for Stop {
    fn from(mismatch: Mismatch) -> Self {
        Self::Differs(mismatch)
    }
}

impl From<oracle::Error> for Stop {
    fn from(error: oracle::Error) -> Self {
        Self::Trouble(error)
    }
}

/// An operation, for reports.
#[derive(Debug)]
#[allow(dead_code)] // Read by its Debug form.
enum Operation {
    Create(Settings, Host),
    Enqueue(Description),
    Dequeue,
    Peek,
    DequeuePeeked,
    Change(Settings),
    Reset,
    Dump,
    Classes,
}

/// Runs a case.
///
/// # Errors
///
/// The first difference, or trouble inside the kernel's code.
pub fn run(
    world: &World,
    linux: Linux,
    case: Case,
    dice: &mut Dice<'_>,
    coverage: &mut Coverage,
) -> Result<(), Failure> {
    let mut made = String::from("create");
    let mut operation = 0;
    coverage.cases += 1;
    run_steps(world, linux, case, dice, coverage, &mut made, &mut operation).map_err(|stop| match stop {
        Stop::Differs(Mismatch { what, kernel, port }) => {
            Divergence { seed: case.seed, operation, made, what, kernel, port }.into()
        }
        Stop::Trouble(error) => Failure::Oracle { seed: case.seed, operation, made, error },
    })
}

fn run_steps(
    world: &World,
    linux: Linux,
    case: Case,
    dice: &mut Dice<'_>,
    coverage: &mut Coverage,
    made: &mut String,
    operation: &mut u64,
) -> Result<(), Stop> {
    let settings = match dice.below(8) {
        0 => Settings::default(),
        1 | 2 => Settings::random(dice, 2),
        _ => Settings::busy(dice),
    };
    let host = host(dice);
    let handle = host.handle;
    let now = dice.pick(&[1_000_000_000_000, 3_600_000_000_000, 5_000_000_000, 1 << 62, 0, 1_000]);
    world.set_time(now);
    world.env().set_clock_step(0);
    world.env().clear_events();
    let setup = QdiscSetup {
        mtu: host.mtu_bytes,
        hard_header_len: host.link_header_bytes as u16,
        handle,
        parent: if host.is_root { oracle::ROOT } else { 0xabcd_0001 },
        ..QdiscSetup::default()
    };
    *made = format!("{:?}", Operation::Create(settings.clone(), host));
    let attributes = settings.attributes();
    let kernel = world.create_qdisc("cake", setup, if attributes.is_empty() { None } else { Some(&attributes) })?;
    let Ok(port) = Cake::new(settings.config.behave_like(linux).on_host(host)) else {
        return Err(Mismatch { what: "creation".into(), kernel: "accepts".into(), port: "refuses".into() }.into());
    };
    let filters = dice.one_in(4);
    let answer = Rc::new(Cell::new(oracle::Classified { action: -1, classid: 0 }));
    if filters {
        kernel.attach_filter(true)?;
        let answer = Rc::clone(&answer);
        world.env().script_classifier(Some(Box::new(move |_| answer.get())));
    }
    let traffic = Traffic::random(dice, filters, handle);
    let mut runner = Runner {
        world,
        kernel: &kernel,
        view: View::new(&kernel, linux)?,
        port,
        linux,
        host,
        replay: Replay::default(),
        events: Vec::new(),
        answer,
        pace: Pace::random(dice, &settings),
        traffic,
        filters,
        now,
        rotation: 0,
        frame: Vec::new(),
        last_flow: 0,
    };
    world.env().set_clock_step(dice.pick(&[0, 0, 0, 1, 1_000, 100_000]));
    runner.view.compare_all(&runner.port)?;
    for step in 0..case.operations {
        *operation = step;
        let next = runner.choose(dice);
        runner.make(next, made, coverage)?;
        coverage.operations += 1;
        if step % 2048 == 2047 {
            runner.view.compare_all(&runner.port)?;
        }
    }
    runner.view.compare_all(&runner.port)?;
    world.env().script_classifier(None);
    Ok(())
}

fn host(dice: &mut Dice<'_>) -> Host {
    Host {
        mtu_bytes: dice.pick(&[1500, 1500, 1500, 1500, 9000, 576, 65535, 0]),
        link_header_bytes: dice.pick(&[14, 14, 14, 14, 0, 18]),
        handle: dice.pick(&[0x1_0000, 0x1_0000, 0x8001_0000, 0]),
        is_root: !dice.one_in(4),
        ..Host::default()
    }
}

/// How time goes by.
struct Pace {
    /// Mean time between operations, ns.
    mean: u64,
    /// Of 256 operations, how many are enqueues.
    enqueues: usize,
    /// Time stands still for about this many operations.
    burst: usize,
    /// How often something rare happens: once in so many operations.
    rarity: usize,
}

impl Pace {
    fn random(dice: &mut Dice<'_>, settings: &Settings) -> Self {
        let packet = match settings.config.bandwidth.unwrap_or(0) {
            0 => 20_000,
            rate => (1_000_000_000_000 / rate).clamp(100, 20_000_000),
        };
        Self {
            mean: packet * dice.pick(&[1, 2, 4, 8, 16, 64]) / 16,
            enqueues: dice.pick(&[64, 100, 120, 128, 140, 180]),
            burst: dice.pick(&[1, 2, 4, 16]),
            rarity: dice.pick(&[100, 1000, 1000, 10_000]),
        }
    }
}

struct Runner<'k, 'w> {
    world: &'w World,
    kernel: &'k KernelQdisc<'w>,
    view: View<'k, 'w>,
    port: Cake<Mirror>,
    linux: Linux,
    host: Host,
    replay: Replay,
    events: Vec<Event>,
    answer: Rc<Cell<oracle::Classified>>,
    pace: Pace,
    traffic: Traffic,
    filters: bool,
    now: u64,
    /// Which of many queues are compared next.
    rotation: usize,
    frame: Vec<u8>,
    last_flow: usize,
}

impl Runner<'_, '_> {
    fn choose(&mut self, dice: &mut Dice<'_>) -> Operation {
        self.pass_time(dice);
        if dice.one_in(self.pace.rarity) {
            return match dice.below(8) {
                0 | 1 => Operation::Change(Settings::random(dice, 3)),
                2 => Operation::Change(Settings::busy(dice)),
                3 => Operation::Reset,
                4 | 5 => Operation::Dump,
                _ => Operation::Classes,
            };
        }
        let choice = dice.below(256);
        if choice < self.pace.enqueues {
            // Bursts of one flow, else any.
            if !dice.one_in(3) {
                self.last_flow = dice.below(self.traffic.flows());
            }
            return Operation::Enqueue(self.traffic.packet(dice, self.last_flow));
        }
        match choice {
            252..=253 => Operation::Peek,
            254..=255 => Operation::DequeuePeeked,
            _ => Operation::Dequeue,
        }
    }

    fn pass_time(&mut self, dice: &mut Dice<'_>) {
        if self.pace.burst > 1 && !dice.one_in(self.pace.burst) {
            return;
        }
        let timer = self.port.next_event().map(|event| event.at_ns);
        let forward = |to: u64| to.max(self.now);
        self.now = match dice.below(64) {
            // Onto a deadline, or just beside it.
            0..=11 => timer.map_or(self.now, forward),
            12 => timer.map_or(self.now, |at| forward(at.wrapping_add(1))),
            13 => timer.map_or(self.now, |at| forward(at.wrapping_sub(1))),
            14 => self.signal(dice).map_or(self.now, forward),
            15 => match dice.below(64) {
                0 => self.now.wrapping_add(100_000_000_000),
                1 => self.now.wrapping_add(5_000_000_000),
                2..=9 => self.now.wrapping_add(250_000_000),
                10..=20 => self.now.wrapping_add(20_000_000),
                // Backwards: never in Linux, but its arithmetic says what would happen.
                21 if !self.port.parameters().autorate_ingress => self.now.saturating_sub(1_000_000),
                _ => self.now.wrapping_add(self.pace.mean * 20),
            },
            _ => {
                let part = dice.byte() as u64;
                self.now.wrapping_add(self.pace.mean * part / 128)
            }
        };
    }

    /// When a queue's next signal is due, or a waiting packet's target or four frames' time passes.
    fn signal(&self, dice: &mut Dice<'_>) -> Option<u64> {
        let (tin, queue) = self.port.scan_position();
        let cobalt = self.port.queue(tin.into(), queue.into())?.cobalt;
        let parameters = self.port.tin(tin.into())?.cobalt;
        let offset = dice.pick(&[0, 1, u64::MAX]);
        Some(match dice.below(4) {
            0 => self.now.wrapping_add(parameters.target_ns % (1 << 40)).wrapping_add(offset),
            1 => self.now.wrapping_add(parameters.mtu_time_ns.wrapping_mul(4) % (1 << 40)).wrapping_add(offset),
            2 => (cobalt.blue_changed_ns as u64).wrapping_add(parameters.target_ns % (1 << 40)).wrapping_add(offset),
            _ => (cobalt.next_signal_ns as u64).wrapping_add(offset),
        })
        .filter(|at| at.wrapping_sub(self.now) < 1 << 42)
    }

    fn make(&mut self, operation: Operation, made: &mut String, coverage: &mut Coverage) -> Result<(), Stop> {
        self.world.set_time(self.now);
        let watched = self.watched();
        let before = Before::look(&self.port, watched.iter().copied());
        let held = self.port.counters().qlen;
        let failed = self.perform(&operation, &before, coverage).and_then(|()| self.compare(&watched));
        if failed.is_err() {
            let (parameters, host) = (self.port.parameters(), &self.host);
            *made =
                format!("at {} ns, qlen {held}: {operation:?}\n  in force: {parameters:?}\n  on {host:?}", self.now);
        }
        self.now = self.now.max(self.world.env().now());
        failed
    }

    fn perform(&mut self, operation: &Operation, before: &Before, coverage: &mut Coverage) -> Result<(), Stop> {
        match operation {
            Operation::Create(..) => Ok(()),
            Operation::Enqueue(description) => self.enqueue(description, before, coverage),
            Operation::Dequeue => {
                let packet = self.kernel.dequeue()?;
                self.take_events();
                let ours = self.port.dequeue(&mut self.replay);
                self.delivered(packet, ours, before, coverage)
            }
            Operation::DequeuePeeked => {
                let packet = self.kernel.dequeue_peeked()?;
                self.take_events();
                let ours = self.port.dequeue_peeked(&mut self.replay);
                self.delivered(packet, ours, before, coverage)
            }
            Operation::Peek => {
                let packet = self.kernel.peek()?;
                self.take_events();
                let ours = self.port.peek(&mut self.replay).map(Mirror::id);
                coverage.reach_if(ours.is_some(), super::Branch::Peeked);
                Mismatch::of("peeked packet", packet.map(|packet| packet.id), ours)?;
                self.effects()
            }
            Operation::Change(settings) => {
                self.kernel.change(&settings.attributes())?;
                self.take_events();
                let ours = self.port.change(&settings.config, &mut self.replay);
                Mismatch::of("change", None, ours.err().map(|error| error.to_string()))?;
                coverage.reach_if(!self.replay.dropped.is_empty(), super::Branch::Purged);
                self.effects()
            }
            Operation::Reset => {
                self.kernel.reset()?;
                self.take_events();
                self.port.reset(&mut self.replay);
                coverage.reach_if(!self.replay.dropped.is_empty(), super::Branch::ResetDone);
                self.effects()
            }
            Operation::Dump => {
                let compared = dumps::compare_dumps(self.kernel, &self.port, self.linux)?;
                self.world.env().clear_events();
                Ok(compared?)
            }
            Operation::Classes => {
                let classes = self.kernel.classes()?;
                self.take_events();
                coverage.reach_if(!classes.is_empty(), super::Branch::ClassDump);
                dumps::compare_classes(&classes, &self.port, &mut self.replay)?;
                self.effects()
            }
        }
    }

    /// Hands the kernel's events of this operation to the port's environment.
    fn take_events(&mut self) {
        self.world.env().take_events(&mut self.events);
        self.replay.start(&self.events);
    }

    fn enqueue(&mut self, description: &Description, before: &Before, coverage: &mut Coverage) -> Result<(), Stop> {
        self.answer.set(kernel_answer(description.class));
        let held = self.port.counters().qlen != 0 && self.port.lists(0).is_some() && self.has_parked();
        let answer = self.kernel.enqueue(&description.spec())?;
        self.take_events();
        let segments = self.segments(description)?;
        let packet = Mirror::new(description.clone(), segments);
        let shown = packet.clone();
        let verdict = self.port.enqueue(packet, &mut self.replay);
        Mismatch::of("verdict", answer.code, verdict.code())?;
        let what = Enqueued {
            packet: &shown,
            verdict,
            dropped: &self.replay.dropped,
            now_ns: self.now,
            linux: self.linux,
            held,
            clock_reads: self.replay.clock_reads().1,
        };
        coverage.enqueued(before, &self.port, &what);
        self.effects()
    }

    /// Is a packet held outside? Then the queue length counts more than the backlogs of the tins.
    fn has_parked(&self) -> bool {
        let queued: u32 =
            (0..8).filter_map(|tin| self.port.tin(tin)).fold(0, |sum, tin| sum.wrapping_add(tin.backlog_bytes));
        queued != self.port.counters().backlog_bytes
    }

    /// The segments that the kernel has made of the packet. Those of whole frames are compared with ours.
    fn segments(&mut self, description: &Description) -> Result<Vec<Segment>, Stop> {
        let mut segments = Vec::new();
        for event in &self.events {
            if let Event::Segment { packet, len, truesize, .. } = *event {
                self.world.frame_into(packet, &mut self.frame);
                segments.push(Segment { len, truesize, frame: self.frame.clone() });
            }
        }
        if !segments.is_empty() && description.frame.len() as u32 == description.len {
            compare_segments(description, &segments, self.port.parameters().wash)?;
        }
        Ok(segments)
    }

    fn delivered(
        &mut self,
        packet: Option<PacketRef>,
        ours: Option<Mirror>,
        before: &Before,
        coverage: &mut Coverage,
    ) -> Result<(), Stop> {
        Mismatch::of("delivered packet", packet.map(|packet| packet.id), ours.as_ref().map(Mirror::id))?;
        if let (Some(packet), Some(ours)) = (packet, &ours) {
            self.world.frame_into(packet, &mut self.frame);
            compare_bytes("delivered packet", &self.frame, &ours.frame)?;
        }
        coverage.dequeued(before, &self.port, ours.as_ref(), &self.replay.dropped, self.now);
        self.effects()
    }

    /// What the operation read and did besides its result.
    fn effects(&mut self) -> Result<(), Stop> {
        let (kernel, ours) = self.replay.clock_reads();
        Mismatch::of("clock reads", kernel, ours)?;
        let (kernel, ours) = self.replay.draws();
        Mismatch::of("draws", kernel, ours)?;
        let split = self.events.iter().find_map(|event| match event {
            Event::Split { packet, segments } if *segments > 0 => Some(packet.id),
            _ => None,
        });
        let (mut drops, mut corrections, mut timer) = (Vec::new(), Vec::new(), None);
        for event in &self.events {
            match *event {
                Event::Drop { packet, path: DropPath::Consumed, .. } if Some(packet.id) == split => {}
                Event::Drop { packet, .. } => drops.push(packet.id),
                Event::TreeReduce { packets, bytes, .. } => corrections.push((packets, bytes)),
                Event::Watchdog { expires_ns, .. } => timer = Some(expires_ns),
                _ => {}
            }
        }
        if !drops.iter().eq(self.replay.dropped.iter().map(|(id, _)| id)) {
            Mismatch::of("drops", format!("{drops:?}"), format!("{:?}", self.replay.dropped))?;
        }
        Mismatch::of("tree corrections", &corrections, &self.replay.corrections)?;
        if let Some(expires) = timer {
            let ours = self.port.next_event().map(|event| event.at_ns);
            // Negative times are the past to both.
            Mismatch::of("watchdog", Some(expires.cast_signed().max(0) as u64), ours)?;
        }
        Ok(())
    }

    /// The queues that are compared after this step: all on lists if they are few, else some of them in turn, and the
    /// one at the scan position.
    fn watched(&mut self) -> Vec<(usize, usize)> {
        const FEW: usize = 24;
        let mut all = Vec::new();
        for tin in 0..8 {
            for list in self.port.lists(tin).into_iter().flatten() {
                all.extend(list.map(|queue| (tin, usize::from(queue))));
            }
        }
        let (tin, queue) = self.port.scan_position();
        if all.len() > FEW {
            self.rotation = (self.rotation + FEW) % all.len();
            all.rotate_left(self.rotation);
            all.truncate(FEW);
        }
        all.push((tin.into(), queue.into()));
        all
    }

    fn compare(&mut self, watched: &[(usize, usize)]) -> Result<(), Stop> {
        self.view.compare_scalars(&self.port)?;
        for &(tin, queue) in watched {
            if queue < 1024 {
                self.view.compare_queue(&self.port, tin, queue)?;
            }
        }
        let after = self.watched();
        for &(tin, queue) in &after {
            if queue < 1024 {
                self.view.compare_queue(&self.port, tin, queue)?;
            }
        }
        self.rotation += 1;
        // Long lists are walked now and then.
        if after.len() < 24 || self.rotation % 16 == 0 {
            for tin in 0..8 {
                self.view.compare_lists(&self.port, tin)?;
            }
        }
        if self.rotation % 64 == 0 {
            for tin in 0..8 {
                self.view.compare_hosts(&self.port, tin)?;
            }
        }
        if self.port.heap_lifetime() != 0 && self.rotation % 32 == 0 {
            self.view.compare_heap(&self.port)?;
        }
        Ok(())
    }
}

/// `TC_ACT_*`.
fn kernel_answer(class: Classified) -> oracle::Classified {
    let (action, classid) = match class {
        Classified::NoFilters | Classified::NoMatch => (-1, 0),
        Classified::Class(class) => (0, class),
        Classified::Stolen => (4, 0),
        Classified::Shot => (2, 0),
    };
    oracle::Classified { action, classid }
}

/// Our segmentation of a whole frame, byte for byte.
fn compare_segments(description: &Description, segments: &[Segment], wash: bool) -> Result<(), Mismatch> {
    let Some(gso) = description.gso else { return Ok(()) };
    let mut whole = description.frame.clone();
    if wash {
        ecn::cake_wash(&mut whole, description.network_offset.into(), description.protocol);
    }
    let headers = Headers::new(&whole, description.network_offset.into(), description.protocol);
    let Ok(segmenter) = Segmenter::of_headers(&headers, gso.size) else {
        return Mismatch::of("segmentation", "segments", "refused");
    };
    Mismatch::of("number of segments", segments.len(), segmenter.segments())?;
    let mut frame = vec![0; 65_536];
    for (index, segment) in segments.iter().enumerate() {
        let len = segmenter.write_segment(index, &mut frame).unwrap_or(0);
        compare_bytes(&format!("segment {index}"), &segment.frame, &frame[..len])?;
    }
    Ok(())
}

fn compare_bytes(what: &str, kernel: &[u8], ours: &[u8]) -> Result<(), Mismatch> {
    if kernel == ours {
        return Ok(());
    }
    let at = kernel.iter().zip(ours).position(|(kernel, ours)| kernel != ours).unwrap_or(kernel.len().min(ours.len()));
    let around = |bytes: &[u8]| format!("{:02x?} of {}", &bytes[at..bytes.len().min(at + 8)], bytes.len());
    Mismatch::of(format!("{what}, byte {at}"), around(kernel), around(ours))
}
