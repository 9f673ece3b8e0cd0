//! Operation sequences: drawn from [`Dice`], which a seed or a fuzzer's bytes may throw.

use debloat_aqm::Host;
use debloat_aqm::net::VlanTag;
use debloat_aqm::net::testing::{self, Dice};
use serde::{Deserialize, Serialize};

use super::target::Target;

/// One sequence of operations on one new qdisc.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The device; the rest of the host is the default.
    pub device: Device,
    /// Options at creation.
    pub options: OptionSet,
    /// The clock at creation, ns.
    pub start_ns: u64,
    /// Seed of the random draws.
    pub draw_seed: u64,
    /// Most draws are high: what is decided by a small probability seldom happens, and what only follows long luck does.
    #[serde(default)]
    pub high_draws: bool,
    /// The operations.
    pub steps: Vec<Step>,
}

/// The parts of a [`Host`] that vary.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Device {
    /// MTU without link header.
    pub mtu_bytes: u32,
    /// Link header.
    pub link_header_bytes: u32,
    /// Packets.
    pub tx_queue_len: u32,
    /// The qdisc's handle.
    pub handle: u32,
    /// Root of its device, or a child.
    pub is_root: bool,
}

impl Device {
    /// What a port takes.
    pub fn host(&self, hz: u32, created_ns: u64) -> Host {
        Host {
            mtu_bytes: self.mtu_bytes,
            link_header_bytes: self.link_header_bytes,
            tx_queue_len: self.tx_queue_len,
            hz,
            handle: self.handle,
            is_root: self.is_root,
            created_ns,
            ..Host::default()
        }
    }
}

/// Options in both languages: tc's text for the port and the trace, netlink attributes for the kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OptionSet {
    /// tc's text.
    pub text: String,
    /// Attribute numbers and payloads, in order.
    pub attributes: Vec<(u16, Vec<u8>)>,
    /// A payload that is not made of attributes and stands before them (red, sfq, fifo).
    pub prefix: Vec<u8>,
    /// Numbers that the target remembers of the options, such as the flows to look at.
    pub notes: Vec<u64>,
}

impl OptionSet {
    /// Adds text.
    pub fn word(&mut self, text: impl AsRef<str>) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text += text.as_ref();
    }

    /// Adds a 32-bit attribute and its text.
    pub fn u32(&mut self, number: u16, value: u32, text: impl AsRef<str>) {
        self.attributes.push((number, value.to_ne_bytes().to_vec()));
        self.word(text);
    }

    /// Adds an 8-bit attribute and its text.
    pub fn u8(&mut self, number: u16, value: u8, text: impl AsRef<str>) {
        self.attributes.push((number, vec![value]));
        self.word(text);
    }

    /// Adds a 64-bit attribute and its text.
    pub fn u64(&mut self, number: u16, value: u64, text: impl AsRef<str>) {
        self.attributes.push((number, value.to_ne_bytes().to_vec()));
        self.word(text);
    }
}

/// Time passes, then something is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The clock moves on by this much before the call, ns.
    pub advance_ns: u64,
    /// And by this much at each further read inside the call.
    pub clock_step_ns: u64,
    /// The call.
    pub op: Op,
}

/// One operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Offer a packet.
    Enqueue(Box<Draft>),
    /// Take one.
    Dequeue,
    /// Look at the next.
    Peek,
    /// Take the parked one.
    DequeuePeeked,
    /// Let the periodic timer fire.
    Timer,
    /// Change options.
    Change(OptionSet),
    /// Empty the qdisc.
    Reset,
}

/// A packet to offer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Draft {
    /// Linear bytes from the link header on.
    pub bytes: Vec<u8>,
    /// Whole length; at least that of `bytes`.
    pub buffer_bytes: u32,
    /// Qdisc length.
    pub len_bytes: u32,
    /// Memory charge.
    pub truesize_bytes: u32,
    /// Packet priority.
    pub priority: u32,
    /// Firewall mark.
    pub mark: u32,
    /// A hash that the packet brings along.
    pub hash: Option<u32>,
    /// EtherType as the stack knows it.
    pub protocol: u16,
    /// Offset of the network header.
    pub network_offset: u16,
    /// The tag beside the frame: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
    /// Segment size, number of segments and Linux's type bits.
    pub gso: Option<(u16, u16, u32)>,
    /// Still charged to a local socket.
    pub charged_to_socket: bool,
    /// Earliest departure.
    pub departure_ns: u64,
}

impl Case {
    /// Draws a case of `steps` operations.
    pub fn draw(target: &dyn Target, dice: &mut Dice<'_>, steps: usize) -> Self {
        let host = target.host(dice);
        let options = target.options(dice, false);
        let start_ns = start(dice);
        let style = Style::draw(dice);
        let draw_seed = u64::from(dice.u32()) << 32 | u64::from(dice.u32());
        let high_draws = target.high_draws(dice);
        let steps = (0..steps).map(|_| step(target, dice, &style)).collect();
        let device = Device {
            mtu_bytes: host.mtu_bytes,
            link_header_bytes: host.link_header_bytes,
            tx_queue_len: host.tx_queue_len,
            handle: host.handle,
            is_root: host.is_root,
        };
        Self { device, options, start_ns, draw_seed, high_draws, steps }
    }
}

/// When the clock starts: ordinary uptimes, and just before every wrap of the 32-bit clocks (spec/common.md §2).
fn start(dice: &mut Dice<'_>) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let near = |ns: u64, dice: &mut Dice<'_>| ns.saturating_sub(u64::from(dice.u32()) % (2 * SECOND));
    match dice.below(8) {
        0 => near(1 << 41, dice), // CoDel time's sign bit
        1 => near(1 << 42, dice), // CoDel time wraps
        2 => SECOND + u64::from(dice.u32()) % SECOND,
        3 => 2_500 * SECOND,
        _ => 3_600 * SECOND + u64::from(dice.u32()),
    }
}

/// What kind of load a case is: drawn once, so that cases differ from each other and states persist.
struct Style {
    /// Of 256 operations, how many are enqueues.
    enqueues: usize,
    /// Longest pause between operations, ns.
    pause_ns: u64,
    /// Number of flows.
    flows: usize,
    /// ECN-capable share, of 256.
    ect: usize,
    /// Are some packets large?
    gso: bool,
    /// Any frames at all, instead of ordinary ones.
    wild: bool,
    /// All packets of one size, so that limits are hit exactly.
    uniform: Option<u32>,
    /// Peeks before takes, as under a shaper.
    shaped: bool,
}

impl Style {
    fn draw(dice: &mut Dice<'_>) -> Self {
        Self {
            enqueues: dice.pick(&[70, 110, 125, 130, 150, 200]),
            pause_ns: dice.pick(&[0, 50_000, 400_000, 1_500_000, 6_000_000, 40_000_000]),
            flows: dice.pick(&[1, 2, 3, 8, 40, 400]),
            ect: dice.pick(&[0, 0, 128, 255]),
            gso: dice.one_in(3),
            wild: dice.one_in(4),
            uniform: dice.one_in(3).then(|| dice.pick(&[64, 500, 1000, 1514])),
            shaped: dice.one_in(3),
        }
    }
}

fn step(target: &dyn Target, dice: &mut Dice<'_>, style: &Style) -> Step {
    let pause = if style.pause_ns == 0 { 0 } else { u64::from(dice.u32()) % style.pause_ns };
    let advance_ns = match dice.below(256) {
        0 => pause * 100,
        1 => 1_000_000_000,
        _ => pause,
    };
    let clock_step_ns = dice.pick(&[0, 0, 0, 1, 1024, 100_000]);
    let timer = target.has_timer();
    let op = match dice.below(256) {
        at if at < style.enqueues => Op::Enqueue(Box::new(packet(target, dice, style))),
        253 => match dice.below(12) {
            0 => Op::Reset,
            1..=4 => Op::Change(target.options(dice, true)),
            _ => Op::Peek,
        },
        243..=252 if timer => Op::Timer,
        _ if style.shaped => match dice.below(2) {
            0 => Op::Peek,
            _ => Op::DequeuePeeked,
        },
        _ => Op::Dequeue,
    };
    Step { advance_ns, clock_step_ns, op }
}

fn packet(target: &dyn Target, dice: &mut Dice<'_>, style: &Style) -> Draft {
    let is_wild = style.wild && dice.below(2) == 0;
    let mut draft = if is_wild { wild(dice) } else { ordinary(dice, style) };
    // Payload that exists in number only: the headers must be whole and true.
    if style.gso && !is_wild && dice.one_in(4) {
        let segments = 2 + dice.below(43) as u16;
        let header = draft.bytes.len() as u32;
        draft.gso = Some((1448, segments, 1));
        draft.buffer_bytes = header + u32::from(segments) * 1448;
        draft.len_bytes = draft.buffer_bytes + (u32::from(segments) - 1) * header;
        draft.truesize_bytes = draft.buffer_bytes + 1280;
    }
    if dice.one_in(8) {
        draft.hash = Some(dice.u32());
    }
    if dice.one_in(16) {
        draft.priority = dice.pick(&[0x1_0000, 0x1_0001, 0x1_0002, 0x1_0004, 0x1_0400, 0x1_ffff, 6, 7, 0x2_0001]);
    }
    draft.charged_to_socket = dice.one_in(6);
    target.shape(dice, &mut draft);
    draft
}

/// IPv4 or IPv6 with TCP or UDP of one of a few flows.
fn ordinary(dice: &mut Dice<'_>, style: &Style) -> Draft {
    let flow = dice.below(style.flows) as u16;
    let ecn = if dice.below(256) < style.ect { dice.pick(&[1, 2, 2, 2, 3]) } else { 0 };
    let dscp = dice.pick(&[0, 0, 0, 0xb8, 0x20, 0x88]);
    let tcp = flow % 3 != 2;
    let ipv6 = flow % 5 == 4;
    let transport = if tcp { 20 } else { 8 };
    let mut bytes = vec![0u8; if ipv6 { 54 } else { 34 } + transport];
    bytes[0..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    let length = style.uniform.unwrap_or_else(|| dice.pick(&[60, 64, 300, 700, 1514, 1514, 1514, 9014]));
    let buffer_bytes = length.max(bytes.len() as u32);
    let ports_at;
    if ipv6 {
        bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
        bytes[14] = 0x60 | (dscp | ecn) >> 4;
        bytes[15] = (dscp | ecn) << 4;
        bytes[18..20].copy_from_slice(&((buffer_bytes - 54) as u16).to_be_bytes());
        bytes[20] = if tcp { 6 } else { 17 };
        bytes[21] = 64;
        bytes[37] = flow as u8;
        bytes[53] = 1;
        ports_at = 54;
    } else {
        bytes[12] = 8;
        bytes[14] = 0x45;
        bytes[15] = dscp | ecn;
        bytes[16..18].copy_from_slice(&((buffer_bytes - 14) as u16).to_be_bytes());
        bytes[22] = 64;
        bytes[23] = if tcp { 6 } else { 17 };
        bytes[24..26].copy_from_slice(&dice.u16().to_be_bytes());
        bytes[26..30].copy_from_slice(&[10, 0, (flow >> 8) as u8, flow as u8]);
        bytes[30..34].copy_from_slice(&[10, 1, 0, 1]);
        ports_at = 34;
    }
    bytes[ports_at..ports_at + 2].copy_from_slice(&(5000 + flow).to_be_bytes());
    bytes[ports_at + 2..ports_at + 4].copy_from_slice(&443u16.to_be_bytes());
    if tcp {
        bytes[ports_at + 12] = 0x50;
        bytes[ports_at + 13] = 0x10;
    }
    Draft {
        bytes,
        buffer_bytes,
        len_bytes: buffer_bytes,
        truesize_bytes: if style.uniform.is_some() { 2304 } else { dice.pick(&[2304, 2304, 4352, 768, 2]) },
        protocol: if ipv6 { 0x86dd } else { 0x0800 },
        network_offset: 14,
        ..Draft::default()
    }
}

/// Any frame that the generator of frames can make, damaged ones included.
fn wild(dice: &mut Dice<'_>) -> Draft {
    let mut frame = testing::frame(dice);
    // Some TIPC messages are hashed by a random key (docs/spec-errata.md): no two kernels agree on them.
    while frame.layers.contains(&testing::Layer::Tipc) {
        frame = testing::frame(dice);
    }
    // All of it is there: the kernel reads as far as damaged headers tell it to.
    let buffer_bytes = (frame.bytes.len() as u32).max(14);
    Draft {
        buffer_bytes,
        len_bytes: buffer_bytes,
        truesize_bytes: buffer_bytes + 768,
        protocol: frame.ethertype,
        network_offset: frame.network_offset as u16,
        vlan: frame.vlan.map(|VlanTag { tpid, tci, .. }| (tpid, tci)),
        bytes: frame.bytes,
        ..Draft::default()
    }
}
