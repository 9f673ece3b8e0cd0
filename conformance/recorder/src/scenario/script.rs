//! A scenario as the shell script that the guest runs: set up, start the recorder, traffic, drain, statistics, stop.

use std::fmt::Write;

use super::{Change, Direction, Ip, Place, Record, Scenario, Tcp, Udp, first_word};

/// The ring's size: enough for a second of a fast run while the loader is kept from running.
const RING_MIB: u32 = 64;
/// Addresses above this offset are the server's names for connections with ECN.
const ECN_OFFSET: u8 = 100;

impl Place {
    /// Namespace and interface.
    fn device(self, vlan: bool) -> (&'static str, &'static str) {
        match self {
            Place::Client => ("c", "c0"),
            Place::Middlebox => ("m", "m1"),
            Place::Server if vlan => ("s", "s0.v"),
            Place::Server => ("s", "s0"),
            Place::Return => ("m", "m0"),
        }
    }
}

/// A rate in tc's words as iperf3 takes it.
pub(super) fn iperf_rate(rate: &str) -> Option<String> {
    let (digits, unit) =
        [("kbit", "K"), ("mbit", "M")].iter().find_map(|(suffix, unit)| Some((rate.strip_suffix(suffix)?, *unit)))?;
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| format!("{digits}{unit}"))
}

/// The whole script. `prelude` is the guest's or the live machine's `common.sh`.
#[must_use]
pub(crate) fn script(s: &Scenario, prelude: &str) -> String {
    let mut out = Script { text: prelude.to_owned(), s };
    out.hosts();
    out.links();
    out.subject();
    out.traffic();
    out.finish();
    out.text
}

/// The script that records an interface of the running machine: its root queue discipline is replaced for the time
/// of the recording, and given back to the kernel's default afterwards.
#[must_use]
pub(crate) fn live_script(s: &Scenario, interface: &str, prelude: &str) -> String {
    let command = s.qdisc.command.get_ref();
    let kind = s.kind();
    let seconds = s.seconds;
    format!(
        "{prelude}
qdev={interface}; qkind={kind}; qhandle=1:
say attaching the recorder
recorder {kind} {RING_MIB}
restore() {{ $tc qdisc del dev {interface} root; }}
trap restore EXIT
run $tc qdisc replace dev {interface} root handle 1: {command}
say recording the traffic of {interface} for {seconds} s
sleep {seconds}
statistics ''
say writing the recording
recorder_stop
uname -r > $out/release; uname -v > $out/version
"
    )
}

struct Script<'a> {
    text: String,
    s: &'a Scenario,
}

impl Script<'_> {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn vlan(&self) -> bool {
        self.s.link.vlan.is_some()
    }

    fn hosts(&mut self) {
        self.line("\n# hosts and addresses");
        self.line("hosts");
        let mtu = self.s.link.mtu;
        for (ns, dev) in [("c", "c0"), ("m", "m0"), ("m", "m1"), ("s", "s0")] {
            self.line(format!("run $ip -n {ns} link set {dev} mtu {mtu} up"));
            if !self.s.link.offloads {
                self.line(format!("on {ns} ethtool -K {dev} tso off gso off gro off sg off tx off rx off"));
            }
        }
        let (near, far) = if let Some(vlan) = &self.s.link.vlan {
            let id = vlan.id.get_ref();
            let flags = if vlan.in_band { "reorder_hdr off" } else { "" };
            self.line(format!("run $ip -n m link add link m1 name m1.v type vlan id {id} {flags}"));
            self.line(format!("run $ip -n s link add link s0 name s0.v type vlan id {id}"));
            self.line("run $ip -n m link set m1.v up; run $ip -n s link set s0.v up");
            ("m1.v", "s0.v")
        } else {
            ("m1", "s0")
        };
        self.line("run $ip -n m addr add 10.0.1.254/24 dev m0; run $ip -n m -6 addr add fd00:1::254/64 dev m0 nodad");
        self.line(format!(
            "run $ip -n m addr add 10.0.2.254/24 dev {near}; run $ip -n m -6 addr add fd00:2::254/64 dev {near} nodad"
        ));
        for host in 1..=*self.s.hosts.clients.get_ref() {
            self.line(format!(
                "run $ip -n c addr add 10.0.1.{host}/24 dev c0; run $ip -n c -6 addr add fd00:1::{host}/64 dev c0 nodad"
            ));
        }
        for host in 1..=*self.s.hosts.servers.get_ref() {
            for name in [host, host + ECN_OFFSET] {
                self.line(format!("run $ip -n s addr add 10.0.2.{name}/24 dev {far}; run $ip -n s -6 addr add fd00:2::{name}/64 dev {far} nodad"));
            }
        }
        self.line("run $ip -n c route add default via 10.0.1.254; run $ip -n c -6 route add default via fd00:1::254");
        self.line("run $ip -n s route add default via 10.0.2.254; run $ip -n s -6 route add default via fd00:2::254");
        // ECN is asked for by route, so that a scenario can have connections with and without it side by side.
        for host in 1..=*self.s.hosts.servers.get_ref() {
            let name = host + ECN_OFFSET;
            self.line(format!("run $ip -n c route add 10.0.2.{name}/32 via 10.0.1.254 features ecn"));
            self.line(format!("run $ip -n c -6 route add fd00:2::{name}/128 via fd00:1::254 features ecn"));
        }
        self.line("for n in c s; do on $n sh -c 'echo 2 > /proc/sys/net/ipv4/tcp_ecn'; done");
        self.line("cat /proc/sys/net/ipv4/tcp_available_congestion_control > /proc/sys/net/ipv4/tcp_allowed_congestion_control");
        if !self.s.link.flow_labels {
            self.line("for n in c s; do on $n sh -c 'echo 0 > /proc/sys/net/ipv6/auto_flowlabels'; done");
        }
    }

    fn links(&mut self) {
        self.line("\n# delay, other shapers");
        // Whatever the neighbour discovery needs is done before the recorder looks.
        self.line("on c ping -c 1 -W 5 10.0.2.1 > /dev/null; on c ping -6 -c 1 -W 5 fd00:2::1 > /dev/null");
        if self.s.link.rtt_ms > 0.0 {
            let (ns, dev) = if self.s.qdisc.at == Place::Server { ("m", "m0") } else { ("s", "s0") };
            let delay = self.s.link.rtt_ms;
            self.line(format!("run $tc -n {ns} qdisc add dev {dev} root netem delay {delay}ms limit 20000"));
        }
        if self.s.link.nat {
            self.line("run $tc -n m qdisc add dev m1 clsact");
            self.line(
                "run $tc -n m filter add dev m1 egress protocol ip matchall action ct commit nat src addr 10.0.2.254",
            );
            self.line("run $tc -n m filter add dev m1 ingress protocol ip matchall action ct nat");
        }
        if let Some(back) = &self.s.link.back {
            self.line(format!("run $tc -n m qdisc add dev m0 root {}", back.get_ref()));
        }
        for also in &self.s.also {
            let (ns, dev) = also.at.device(self.vlan());
            self.line(format!("run $tc -n {ns} qdisc add dev {dev} root {}", also.command.get_ref()));
        }
    }

    fn subject(&mut self) {
        self.line("\n# the queue discipline under test, with the recorder already attached");
        let (ns, dev) = self.s.qdisc.at.device(self.vlan());
        let handle = if self.s.qdisc.parent.is_some() { "2:" } else { "1:" };
        self.line(format!("within='-n {ns}'; qdev={dev}; qkind={}; qhandle={handle}", self.s.kind()));
        if self.s.record != Record::Nothing {
            self.line("say attaching the recorder");
            self.line(format!("recorder {} {RING_MIB}", self.s.kinds()));
        }
        let command = self.s.qdisc.command.get_ref();
        let Some(parent) = &self.s.qdisc.parent else {
            self.line(format!("run $tc -n {ns} qdisc add dev {dev} root handle 1: {command}"));
            return;
        };
        let (kind, rest) = (first_word(parent.get_ref()), parent.get_ref());
        let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        if kind == "htb" {
            self.line(format!("run $tc -n {ns} qdisc add dev {dev} root handle 1: htb default 1"));
            self.line(format!("run $tc -n {ns} class add dev {dev} parent 1: classid 1:1 htb {rest}"));
        } else {
            self.line(format!("run $tc -n {ns} qdisc add dev {dev} root handle 1: {kind} {rest}"));
        }
        self.line(format!("run $tc -n {ns} qdisc add dev {dev} parent 1:1 handle 2: {command}"));
    }

    fn traffic(&mut self) {
        let s = self.s;
        self.line("\n# traffic");
        let mut port = 5201;
        let mut clients = Vec::new();
        for tcp in &s.tcp {
            clients.push(tcp_client(s, tcp, port));
            port += 1;
        }
        for udp in &s.udp {
            clients.push(udp_client(s, udp, port));
            port += 1;
        }
        for port in 5201..port {
            self.line(format!("on s iperf3 -s -D -p {port}"));
        }
        self.line("sleep 0.3");
        self.line(format!("say traffic for {} s", s.seconds));
        self.line("waits=''");
        for (index, (start, command)) in clients.iter().enumerate() {
            let limit = (s.seconds + 20.0).ceil();
            let _ = writeln!(
                self.text,
                "( sleep {start}; timeout {limit} $ip netns exec c sh -c '{command}' ) > $out/traffic-{index}.txt 2>&1 & waits=\"$waits $!\""
            );
        }
        for (index, ping) in s.ping.iter().enumerate() {
            let (from, to) = addresses(ping.ip, ping.from, ping.to);
            let count = (s.seconds * 1000.0 / f64::from(ping.interval_ms)).ceil();
            let interval = f64::from(ping.interval_ms) / 1000.0;
            let _ = writeln!(
                self.text,
                "$ip netns exec c ping -i {interval} -c {count} -s {} -I {from} {to} > $out/ping-{index}.txt 2>&1 & waits=\"$waits $!\"",
                ping.size
            );
        }
        self.timed();
        self.line("for id in $waits; do wait $id || echo \"traffic process $id ended with $?\"; done");
    }

    /// Changes and readings of the statistics, in order of time.
    fn timed(&mut self) {
        let s = self.s;
        let change = |c: &Change| {
            let (ns, dev) = s.qdisc.at.device(s.link.vlan.is_some());
            let place = if s.qdisc.parent.is_some() { "parent 1:1 handle 2:" } else { "root handle 1:" };
            format!("run $tc -n {ns} qdisc change dev {dev} {place} {}", c.command.get_ref())
        };
        let mut steps: Vec<(f64, String)> = s.change.iter().map(|c| (c.at, change(c))).collect();
        steps.extend(s.stats_at.iter().enumerate().map(|(i, at)| (*at, format!("statistics -at-{i}"))));
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut now = 0.0;
        for (at, step) in steps {
            self.line(format!("sleep {}; {step}", at - now));
            now = at;
        }
        if s.record == Record::Nothing {
            self.line("measure & measure_id=$!");
        }
    }

    fn finish(&mut self) {
        self.line("\n# drained, the recorder still attached: the statistics belong to the recording's end");
        if self.s.record == Record::Nothing {
            self.line("kill $measure_id");
        }
        self.line("sleep 0.3; drain");
        self.line("statistics ''");
        if self.s.record != Record::Nothing {
            self.line("say writing the recording");
            self.line("recorder_stop");
        }
        self.line("on m cat /proc/net/dev > $out/devices.txt");
        self.line("uname -r > $out/release; uname -v > $out/version");
        self.line("$tc -V > $out/tc-version 2>&1");
        self.line("say done");
    }
}

fn addresses(ip: Ip, from: u8, to: u8) -> (String, String) {
    match ip {
        Ip::V4 => (format!("10.0.1.{from}"), format!("10.0.2.{to}")),
        Ip::V6 => (format!("fd00:1::{from}"), format!("fd00:2::{to}")),
    }
}

/// When the client starts, and its command line.
fn tcp_client(s: &Scenario, tcp: &Tcp, port: u16) -> (f64, String) {
    let to = if tcp.ecn { tcp.to + ECN_OFFSET } else { tcp.to };
    let (from, to) = addresses(tcp.ip, tcp.from, to);
    let mut command =
        format!("iperf3 -c {to} -B {from} -p {port} -P {} -C {}", tcp.flows.get_ref(), tcp.congestion.get_ref());
    match tcp.bytes {
        Some(bytes) => {
            let _ = write!(command, " -n {bytes}");
        }
        None => {
            let _ = write!(command, " -t {}", whole_seconds(tcp.seconds, s.seconds, tcp.start));
        }
    }
    if let Some(rate) = tcp.rate.as_ref().and_then(|r| iperf_rate(r.get_ref())) {
        let _ = write!(command, " -b {rate}");
    }
    mark(&mut command, tcp.dscp, tcp.direction);
    if s.record == Record::Nothing {
        command.push_str(" -J");
    }
    if tcp.repeat > 1 {
        command = format!("for i in $(seq {}); do {command} || exit 1; done", tcp.repeat);
    }
    (tcp.start, command)
}

fn udp_client(s: &Scenario, udp: &Udp, port: u16) -> (f64, String) {
    let (from, to) = addresses(udp.ip, udp.from, udp.to);
    let rate = iperf_rate(udp.rate.get_ref()).unwrap_or_default();
    let seconds = whole_seconds(udp.seconds, s.seconds, udp.start);
    let mut command = format!(
        "iperf3 -u -c {to} -B {from} -p {port} -P {} -b {rate} -l {} -t {seconds}",
        udp.flows.get_ref(),
        udp.size
    );
    mark(&mut command, udp.dscp, udp.direction);
    (udp.start, command)
}

fn mark(command: &mut String, dscp: Option<u8>, direction: Direction) {
    if let Some(dscp) = dscp {
        let _ = write!(command, " -S {}", u16::from(dscp) << 2);
    }
    if direction == Direction::Down {
        command.push_str(" -R");
    }
}

/// iperf3 takes whole seconds.
fn whole_seconds(own: Option<f64>, scenario: f64, start: f64) -> f64 {
    own.unwrap_or(scenario - start).round().max(1.0)
}
