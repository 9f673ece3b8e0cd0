//! What is recorded: the network, the queue discipline under test, the traffic, and changes while it runs.
//!
//! A scenario is a TOML file; every key is typed, unknown keys are errors, and an error names the line and column.
//! Three hosts stand in a row, client – middlebox – server, joined by virtual Ethernet. The queue discipline under
//! test sits on the middlebox's way out to the server unless `at` says otherwise.

mod builtin;
mod parse;
mod script;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use toml::Spanned;

pub use builtin::{Builtin, builtin, builtins};
pub(crate) use script::{live_script, script};

/// A whole scenario, checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name: the file's name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// What it shows, one sentence.
    pub about: String,
    /// How long the traffic lasts, in seconds.
    pub seconds: f64,
    /// What is written down.
    #[serde(default)]
    pub record: Record,
    /// The queue discipline under test.
    pub qdisc: Qdisc,
    /// Further queue disciplines that shape the traffic and are not recorded.
    #[serde(default)]
    pub also: Vec<Also>,
    /// The links.
    #[serde(default)]
    pub link: Link,
    /// How many addresses each end has.
    #[serde(default)]
    pub hosts: Hosts,
    /// TCP transfers.
    #[serde(default)]
    pub tcp: Vec<Tcp>,
    /// UDP streams.
    #[serde(default)]
    pub udp: Vec<Udp>,
    /// Echo requests.
    #[serde(default)]
    pub ping: Vec<Ping>,
    /// `tc qdisc change` commands while the traffic runs.
    #[serde(default)]
    pub change: Vec<Change>,
    /// Times (seconds) at which the statistics are read while the traffic runs.
    #[serde(default)]
    pub stats_at: Vec<f64>,
}

/// Which events are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// The queue discipline's calls, inputs and state.
    #[default]
    Qdisc,
    /// The congestion controls' hooks and the core's steps around them.
    Congestion,
    /// Nothing: the run is measured from outside (goodput, marks, drops, round-trip times).
    Nothing,
}

/// A place in the row of hosts, meaning its interface towards the server (for the server: towards the client).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The client's interface.
    Client,
    /// The middlebox's interface towards the server.
    #[default]
    Middlebox,
    /// The server's interface.
    Server,
    /// The middlebox's interface towards the client.
    Return,
}

/// The queue discipline under test.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qdisc {
    /// What follows `tc qdisc add dev DEV parent X`, for example `fq_codel limit 100 noecn`.
    pub command: Spanned<String>,
    /// Where it is attached.
    #[serde(default)]
    pub at: Place,
    /// The shaper above it, for example `htb rate 20mbit` or `tbf rate 20mbit burst 5kb limit 1mb`; without: the root.
    pub parent: Option<Spanned<String>>,
}

/// Another queue discipline, at the root of another interface.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// Where it is attached.
    pub at: Place,
    /// What follows `tc qdisc add dev DEV root`.
    pub command: Spanned<String>,
}

/// The links between the hosts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// Delay added on the way back (netem), in milliseconds: the base round-trip time.
    pub rtt_ms: f64,
    /// Maximum transmission unit in bytes.
    pub mtu: u32,
    /// Segmentation and receive offloads (TSO, GSO, GRO, checksums) on every interface.
    pub offloads: bool,
    /// Whether IPv6 packets carry a flow label (the kernel's default).
    pub flow_labels: bool,
    /// A VLAN between middlebox and server.
    pub vlan: Option<Vlan>,
    /// The middlebox rewrites the clients' addresses to its own (connection tracking).
    pub nat: bool,
    /// The shaper on the middlebox's way back to the client, as a `command` of [`Also`].
    pub back: Option<Spanned<String>>,
}

impl Default for Link {
    fn default() -> Link {
        Link { rtt_ms: 20.0, mtu: 1500, offloads: true, flow_labels: true, vlan: None, nat: false, back: None }
    }
}

/// An 802.1Q tag on the packets that the queue discipline under test sees.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// VLAN identifier, 1–4094.
    pub id: Spanned<u16>,
    /// Whether the tag is in the packet's bytes (else it travels beside them, as with hardware that inserts it).
    #[serde(default)]
    pub in_band: bool,
}

/// How many addresses each end has.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hosts {
    /// Client addresses, 1–99.
    pub clients: Spanned<u8>,
    /// Server addresses, 1–99.
    pub servers: Spanned<u8>,
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts { clients: Spanned::new(0..0, 1), servers: Spanned::new(0..0, 1) }
    }
}

/// Which way the payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From client to server.
    #[default]
    Up,
    /// From server to client.
    Down,
}

/// Internet protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "u8")]
pub enum Ip {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl TryFrom<u8> for Ip {
    type Error = String;

    fn try_from(version: u8) -> Result<Ip, String> {
        match version {
            4 => Ok(Ip::V4),
            6 => Ok(Ip::V6),
            other => Err(format!("ip = {other}: expected 4 or 6")),
        }
    }
}

/// A group of TCP transfers between one pair of addresses.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// How many connections, 1–128.
    #[serde(default = "one")]
    pub flows: Spanned<u16>,
    /// The congestion control at both ends.
    #[serde(default = "cubic")]
    pub congestion: Spanned<String>,
    /// Whether ECN is negotiated.
    #[serde(default)]
    pub ecn: bool,
    /// The client's address, counted from 1.
    #[serde(default = "first")]
    pub from: u8,
    /// The server's address, counted from 1.
    #[serde(default = "first")]
    pub to: u8,
    /// IP version.
    #[serde(default)]
    pub ip: Ip,
    /// The DS field's upper six bits: a number 0–63.
    pub dscp: Option<u8>,
    /// When it starts, in seconds after the first.
    #[serde(default)]
    pub start: f64,
    /// How long it lasts; without: to the scenario's end.
    pub seconds: Option<f64>,
    /// Which way the payload goes.
    #[serde(default)]
    pub direction: Direction,
    /// The sender's pace, for example `5mbit`; without: as fast as it goes.
    pub rate: Option<Spanned<String>>,
    /// Payload bytes a connection sends in all (it ends when they are through); without: until `seconds`.
    pub bytes: Option<u64>,
    /// With `bytes`: how many such transfers follow one another, each on a new connection.
    #[serde(default = "one_u16")]
    pub repeat: u16,
}

/// A UDP stream between one pair of addresses.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// How many streams, 1–128.
    #[serde(default = "one")]
    pub flows: Spanned<u16>,
    /// The rate of each, for example `5mbit`.
    pub rate: Spanned<String>,
    /// Payload bytes a packet.
    #[serde(default = "udp_size")]
    pub size: u16,
    /// The client's address, counted from 1.
    #[serde(default = "first")]
    pub from: u8,
    /// The server's address, counted from 1.
    #[serde(default = "first")]
    pub to: u8,
    /// IP version.
    #[serde(default)]
    pub ip: Ip,
    /// The DS field's upper six bits: a number 0–63.
    pub dscp: Option<u8>,
    /// When it starts, in seconds after the first.
    #[serde(default)]
    pub start: f64,
    /// How long it lasts; without: to the scenario's end.
    pub seconds: Option<f64>,
    /// Which way the payload goes.
    #[serde(default)]
    pub direction: Direction,
}

/// Echo requests from a client to a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// Time between two, in milliseconds.
    #[serde(default = "ping_interval")]
    pub interval_ms: u32,
    /// Payload bytes.
    #[serde(default = "ping_size")]
    pub size: u16,
    /// The client's address, counted from 1.
    #[serde(default = "first")]
    pub from: u8,
    /// The server's address, counted from 1.
    #[serde(default = "first")]
    pub to: u8,
    /// IP version.
    #[serde(default)]
    pub ip: Ip,
}

/// A `tc qdisc change` of the queue discipline under test.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Seconds after the traffic's start.
    pub at: f64,
    /// The new `command`, as in [`Qdisc::command`].
    pub command: Spanned<String>,
}

fn one() -> Spanned<u16> {
    Spanned::new(0..0, 1)
}
fn one_u16() -> u16 {
    1
}
fn cubic() -> Spanned<String> {
    Spanned::new(0..0, "cubic".into())
}
fn first() -> u8 {
    1
}
fn udp_size() -> u16 {
    1400
}
fn ping_interval() -> u32 {
    100
}
fn ping_size() -> u16 {
    56
}

impl Scenario {
    /// The queue discipline's kind: the first word of its command.
    #[must_use]
    pub fn kind(&self) -> &str {
        first_word(self.qdisc.command.get_ref())
    }

    /// The congestion controls that the traffic uses, each once, in order of appearance.
    #[must_use]
    pub fn congestion_controls(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for tcp in &self.tcp {
            if !names.contains(&tcp.congestion.get_ref().as_str()) {
                names.push(tcp.congestion.get_ref());
            }
        }
        names
    }

    /// What the loader is told to record.
    pub(crate) fn kinds(&self) -> String {
        match self.record {
            Record::Qdisc => self.kind().to_owned(),
            Record::Congestion => self.congestion_controls().join(","),
            Record::Nothing => String::new(),
        }
    }

    /// Kernel modules that the scenario needs, by name.
    pub(crate) fn modules(&self) -> Vec<String> {
        let mut names: Vec<String> = vec!["veth".into(), "sch_netem".into()];
        let commands = [Some(&self.qdisc.command), self.qdisc.parent.as_ref(), self.link.back.as_ref()];
        let commands = commands.into_iter().flatten().chain(self.also.iter().map(|a| &a.command));
        for command in commands {
            names.extend(module_of(first_word(command.get_ref())).map(str::to_owned));
            if let Some((_, leaf)) = command.get_ref().split_once("; ") {
                names.extend(module_of(first_word(leaf)).map(str::to_owned));
            }
        }
        for name in self.congestion_controls() {
            if !matches!(name, "cubic" | "reno") {
                names.push(format!("tcp_{name}"));
            }
        }
        if self.link.vlan.is_some() {
            names.push("8021q".into());
        }
        if self.link.nat {
            names.extend(["sch_ingress", "cls_matchall", "act_ct", "nf_nat"].map(str::to_owned));
        }
        names
    }
}

fn first_word(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

/// The module of a queue discipline; none for those that every kernel has built in.
fn module_of(qdisc: &str) -> Option<&'static str> {
    Some(match qdisc {
        "codel" => "sch_codel",
        "fq_codel" => "sch_fq_codel",
        "cake" => "sch_cake",
        "pie" => "sch_pie",
        "fq_pie" => "sch_fq_pie",
        "red" => "sch_red",
        "sfq" => "sch_sfq",
        "fq" => "sch_fq",
        "tbf" => "sch_tbf",
        "htb" => "sch_htb",
        "netem" => "sch_netem",
        _ => return None,
    })
}
