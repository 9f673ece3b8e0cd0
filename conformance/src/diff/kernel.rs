//! The kernel's side: performs operations on its own code and writes down what it read and did.

use std::collections::HashMap;

use debloat_aqm::net::ecn;
use debloat_harness::trace::{
    Arrival, ByteChange, Call, Delivered, Device as TraceDevice, DropCause, GsoInfo, Hashes, Header, Kernel, Moment,
    Operation, Origin, Outcome, PacketRef, QdiscSubject, Snapshot, Step as TraceStep, Subject, VlanTag,
};
use debloat_oracle::{
    Error, Event as Seen, Field, Gso, GsoType, Hash, KernelQdisc, KernelSocket, PacketRef as KernelPacket, PacketSpec,
    QdiscSetup, ROOT, SocketRef, Vlan, Width, World, nla,
};

use super::case::{Case, Draft, Op, OptionSet, Step};
use super::target::{StateSchema, Target};

/// The private state as last seen, by schema and key.
pub type Known = HashMap<(usize, u64), Vec<u64>>;

/// Anything that keeps the kernel's side from going on.
pub type Trouble = Error;

/// A world with what is resolved once for all cases of a target.
pub struct Session<'w> {
    world: &'w World,
    target: &'w dyn Target,
    /// What the target compares.
    pub schemas: Vec<StateSchema>,
    resolved: HashMap<(usize, u64), Vec<Place>>,
    events: Vec<Seen>,
    frame: Vec<u8>,
    /// What packets that are charged to a socket are charged to.
    sender: KernelSocket<'w>,
}

/// Where a value stands.
#[derive(Clone)]
enum Place {
    Private(Field, bool),
    Qdisc(Field),
}

impl<'w> Session<'w> {
    /// For one target in one world.
    ///
    /// # Errors
    ///
    /// Trouble while the kernel makes a socket.
    pub fn new(world: &'w World, target: &'w dyn Target) -> Result<Self, Trouble> {
        Ok(Self {
            world,
            target,
            schemas: target.schemas(),
            resolved: HashMap::new(),
            events: Vec::new(),
            frame: Vec::new(),
            sender: world.create_socket()?,
        })
    }

    /// The target.
    pub fn target(&self) -> &'w dyn Target {
        self.target
    }

    /// The header of a trace of this case.
    pub fn header(&self, case: &Case, origin: Origin, description: &str) -> Header {
        let kernel = self.world.kernel();
        Header {
            kernel: Kernel {
                series: kernel.series(),
                release: kernel.release().to_owned(),
                package: String::new(),
                hz: self.world.env().hz() as u32,
            },
            subject: Subject::Qdisc(QdiscSubject {
                name: self.target.kind().to_owned(),
                options: case.options.text.clone(),
                parameters: Default::default(),
                handle: case.device.handle,
                root: case.device.is_root,
                parent: 0,
                created_ns: case.start_ns,
                device: TraceDevice {
                    mtu_bytes: case.device.mtu_bytes,
                    link_header_bytes: case.device.link_header_bytes,
                    tx_queue_len: case.device.tx_queue_len,
                },
                hashes: Hashes::Secret(debloat_oracle::WorldOptions::default().hash_secret),
            }),
            origin,
            tool: format!("debloat oracle {}", env!("CARGO_PKG_VERSION")),
            description: description.to_owned(),
            records_lost: 0,
            remarks: Default::default(),
            schemas: self.schemas.iter().map(|state| state.schema.clone()).collect(),
        }
    }

    /// Creates the qdisc of a case. `Ok(None)`: the kernel refused the options.
    ///
    /// # Errors
    ///
    /// Trouble inside the kernel's code.
    pub fn start(&mut self, case: &Case) -> Result<Option<Running<'w>>, Trouble> {
        let env = self.world.env();
        env.clear_events();
        env.set_clock_step(0);
        env.seed_draws(case.draw_seed);
        self.world.set_time(case.start_ns);
        let setup = QdiscSetup {
            mtu: case.device.mtu_bytes,
            hard_header_len: case.device.link_header_bytes as u16,
            tx_queue_len: case.device.tx_queue_len,
            handle: case.device.handle,
            parent: if case.device.is_root { ROOT } else { 0x7fff_0001 },
            ..QdiscSetup::default()
        };
        let payload = encode(&case.options);
        match self.world.create_qdisc(self.target.kind(), setup, payload.as_deref()) {
            Ok(qdisc) => {
                env.clear_events();
                Ok(Some(Running { qdisc, now_ns: case.start_ns, turn: 0, next_id: 0, inside: HashMap::new() }))
            }
            Err(Error::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Option attributes as the payload of `TCA_OPTIONS`; nothing at all if there are none.
fn encode(options: &OptionSet) -> Option<Vec<u8>> {
    if options.attributes.is_empty() && options.prefix.is_empty() {
        return None;
    }
    let mut builder = nla::Builder::new();
    if !options.prefix.is_empty() {
        builder = builder.prefix(&options.prefix);
    }
    for (number, payload) in &options.attributes {
        builder = builder.raw(*number, payload);
    }
    Some(builder.finish())
}

/// A qdisc of the kernel that a case runs on.
pub struct Running<'w> {
    qdisc: KernelQdisc<'w>,
    now_ns: u64,
    turn: u64,
    next_id: u64,
    /// The packets inside, to see what was changed.
    inside: HashMap<u64, Inside>,
}

/// What is remembered of a packet until it leaves.
struct Inside {
    bytes: Vec<u8>,
    network_offset: usize,
    protocol: u16,
}

impl Running<'_> {
    /// The kernel's qdisc.
    pub fn qdisc(&self) -> &KernelQdisc<'_> {
        &self.qdisc
    }

    /// Performs one step and says what happened.
    ///
    /// # Errors
    ///
    /// Trouble inside the kernel's code.
    pub fn step(&mut self, session: &mut Session<'_>, case: &Case, step: &Step) -> Result<Call, Trouble> {
        let world = session.world;
        let env = world.env();
        self.now_ns += step.advance_ns;
        world.set_time(self.now_ns);
        env.set_clock_step(step.clock_step_ns);
        let (operation, outcome) = self.perform(session, &step.op)?;
        // A clock that moved inside the call does not go back.
        self.now_ns = self.now_ns.max(env.now());
        env.set_clock_step(0);
        env.take_events(&mut session.events);
        let steps = self.steps(&session.events);
        let mut call = Call {
            time_ns: self.now_ns,
            operation,
            steps,
            outcome,
            qlen: self.qdisc.qlen(),
            backlog_bytes: self.qdisc.backlog(),
            snapshots: Vec::new(),
        };
        self.snapshots(session, &case.options, &mut call.snapshots)?;
        self.turn += 1;
        Ok(call)
    }

    fn perform(&mut self, session: &mut Session<'_>, op: &Op) -> Result<(Operation, Outcome), Trouble> {
        Ok(match op {
            Op::Enqueue(draft) => self.enqueue(draft, session.sender.reference())?,
            Op::Dequeue => (Operation::Dequeue, self.taken(session, self.qdisc.dequeue()?, true)),
            Op::DequeuePeeked => (Operation::DequeuePeeked, self.taken(session, self.qdisc.dequeue_peeked()?, true)),
            Op::Peek => (Operation::Peek, self.taken(session, self.qdisc.peek()?, false)),
            Op::Timer => {
                self.qdisc.fire_timer()?;
                (Operation::Timer, Outcome::Done)
            }
            Op::Change(options) => {
                let payload = encode(options).unwrap_or_default();
                let outcome = match self.qdisc.change(&payload) {
                    Ok(()) => Outcome::Done,
                    Err(Error::Refused(_)) => Outcome::Refused(22),
                    Err(error) => return Err(error),
                };
                (Operation::Change(options.text.clone()), outcome)
            }
            Op::Reset => {
                self.qdisc.reset()?;
                (Operation::Reset, Outcome::Done)
            }
        })
    }

    fn enqueue(&mut self, draft: &Draft, sender: SocketRef) -> Result<(Operation, Outcome), Trouble> {
        let id = self.next_id;
        self.next_id += 1;
        let spec = PacketSpec {
            id,
            len: draft.buffer_bytes,
            qdisc_len: Some(draft.len_bytes),
            truesize: draft.truesize_bytes,
            priority: draft.priority,
            mark: draft.mark,
            hash: draft.hash.map_or(Hash::None, Hash::L4),
            gso: draft.gso.map(|(size, segments, kind)| Gso { size, segments, kind: GsoType::Bits(kind) }),
            vlan: draft.vlan.map(|(protocol, tci)| Vlan { protocol, tci }),
            protocol: Some(draft.protocol),
            network_offset: Some(draft.network_offset),
            tstamp: draft.departure_ns,
            socket: draft.charged_to_socket.then_some(sender),
            charged: draft.charged_to_socket,
            ..PacketSpec::new(&draft.bytes)
        };
        let answer = self.qdisc.enqueue(&spec)?;
        let hash = self.qdisc.packet_info(answer.packet).map_or(0, |info| info.hash);
        let (network_offset, protocol) = (draft.network_offset.into(), draft.protocol);
        self.inside.insert(id, Inside { bytes: draft.bytes.clone(), network_offset, protocol });
        let arrival = Arrival {
            id,
            len_bytes: draft.len_bytes,
            buffer_bytes: draft.buffer_bytes,
            linear_bytes: draft.bytes.len() as u32,
            truesize_bytes: draft.truesize_bytes,
            priority: draft.priority,
            mark: draft.mark,
            hash,
            hash_carried: draft.hash.is_some(),
            protocol: draft.protocol,
            network_offset: draft.network_offset,
            transport_offset: None,
            gso: draft.gso.map(|(segment_bytes, segments, kind)| GsoInfo { segment_bytes, segments, kind }),
            segments: Vec::new(),
            charged_to_socket: draft.charged_to_socket,
            departure_ns: draft.departure_ns,
            vlan: draft.vlan.map(|(tpid, tci)| VlanTag { tpid, tci }),
            bytes: draft.bytes.clone(),
        };
        Ok((Operation::Enqueue(Box::new(arrival)), Outcome::Verdict(answer.code)))
    }

    fn taken(&mut self, session: &mut Session<'_>, packet: Option<KernelPacket>, gone: bool) -> Outcome {
        let Some(packet) = packet else { return Outcome::Nothing };
        let frame = &mut session.frame;
        session.world.frame_into(packet, frame);
        let inside = self.inside.get(&packet.id);
        let before = inside.map_or(&[][..], |inside| &inside.bytes);
        let changed = frame.iter().zip(before).zip(0u16..).filter(|((now, before), _)| now != before);
        let changed = changed.map(|((&value, _), offset)| ByteChange { offset, value }).collect();
        let buffer_bytes = self.qdisc.packet_info(packet).map_or(0, |info| info.len);
        let ds_field = inside.and_then(|inside| ecn::ds_field(frame, inside.network_offset, inside.protocol));
        if gone {
            self.inside.remove(&packet.id);
        }
        Outcome::Packet(Delivered { packet: PacketRef::whole(packet.id), buffer_bytes, ds_field, changed })
    }

    fn steps(&mut self, events: &[Seen]) -> Vec<TraceStep> {
        let mut steps = Vec::with_capacity(events.len());
        for event in events {
            steps.push(match *event {
                Seen::Clock { ns } => TraceStep::Clock(ns),
                Seen::Draw { width, value } => TraceStep::Draw { bits: bits(width), value },
                Seen::Drop { packet, .. } => {
                    self.inside.remove(&packet.id);
                    let (packet, cause) = (Some(PacketRef::whole(packet.id)), DropCause::UNKNOWN);
                    TraceStep::Drop { packet, cause }
                }
                Seen::TreeReduce { packets, bytes, .. } => TraceStep::Correction { packets, bytes, emptied: None },
                Seen::Watchdog { expires_ns, slack_ns, .. } => TraceStep::Watchdog { expires_ns, slack_ns },
                _ => continue,
            });
        }
        steps
    }

    fn snapshots(
        &self,
        session: &mut Session<'_>,
        options: &OptionSet,
        into: &mut Vec<Snapshot>,
    ) -> Result<(), Trouble> {
        let world = session.world;
        let mut keys = Vec::new();
        for schema in 0..session.schemas.len() {
            keys.clear();
            session.target.keys(schema, options, self.turn, &mut keys);
            for &key in &keys {
                let places = self.resolve(session, schema, key)?;
                let values = places.iter().map(|place| match place {
                    Place::Private(field, true) => self.qdisc.read_signed(field) as u64,
                    Place::Private(field, false) => self.qdisc.read(field),
                    Place::Qdisc(field) => world.read_field(field, self.qdisc.address()),
                });
                into.push(Snapshot { schema: schema as u16, moment: Moment::After, key, values: values.collect() });
            }
        }
        Ok(())
    }

    fn resolve<'s>(&self, session: &'s mut Session<'_>, schema: usize, key: u64) -> Result<&'s [Place], Trouble> {
        if !session.resolved.contains_key(&(schema, key)) {
            let state = &session.schemas[schema];
            let mut places = Vec::new();
            for (path, field) in state.paths.iter().zip(&state.schema.fields) {
                places.push(match path.strip_prefix("qdisc:") {
                    Some(path) => Place::Qdisc(self.qdisc.qdisc_field(path)?),
                    None => {
                        let path = path.replace("{}", &key.to_string());
                        Place::Private(self.qdisc.field(&path)?, field.signed)
                    }
                });
            }
            session.resolved.insert((schema, key), places);
        }
        Ok(session.resolved.get(&(schema, key)).map_or(&[], Vec::as_slice))
    }
}

fn bits(width: Width) -> u8 {
    match width {
        Width::U8 => 8,
        Width::U16 => 16,
        Width::U32 | Width::Below(_) => 32,
        Width::U64 => 64,
        Width::Bytes(count) => count.saturating_mul(8),
    }
}
