//! Reading and checking a scenario: every error has the place in the file where it is.

use std::ops::Range;
use std::path::Path;

use super::{Record, Scenario, builtin, builtins, first_word};
use crate::error::Error;

/// Queue disciplines that can be recorded.
const SUBJECTS: &[&str] = &["codel", "fq_codel", "cake", "pie", "fq_pie", "red", "sfq", "fq"];
/// Congestion controls whose hooks can be recorded.
const CONTROLS: &[&str] = &["reno", "cubic", "bbr", "dctcp"];

impl Scenario {
    /// A built-in scenario's name, or a file's path.
    ///
    /// # Errors
    /// [`Error::UnknownScenario`], [`Error::Io`], or [`Error::Scenario`] with line and column.
    pub fn load(name_or_path: &str) -> Result<Scenario, Error> {
        if let Some(found) = builtin(name_or_path) {
            return Scenario::parse(found.name, found.text);
        }
        let path = Path::new(name_or_path);
        if !path.is_file() {
            let known = builtins().map(|b| b.name).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownScenario { name: name_or_path.into(), known });
        }
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        let mut scenario = Scenario::parse(name_or_path, &text)?;
        scenario.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(scenario)
    }

    /// Parses `text`; `file` is the name used in errors.
    ///
    /// # Errors
    /// [`Error::Scenario`].
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Error> {
        let mut scenario: Scenario = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            error(file, text, at, e.message().to_owned())
        })?;
        scenario.name = file.to_owned();
        Check { file, text }.all(&scenario)?;
        Ok(scenario)
    }
}

fn error(file: &str, text: &str, at: usize, message: String) -> Error {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Error::Scenario { file: file.to_owned(), line, column, message }
}

struct Check<'a> {
    file: &'a str,
    text: &'a str,
}

impl Check<'_> {
    fn refuse<T>(&self, at: Range<usize>, message: impl Into<String>) -> Result<T, Error> {
        Err(error(self.file, self.text, at.start, message.into()))
    }

    fn all(&self, s: &Scenario) -> Result<(), Error> {
        if !(0.1..=600.0).contains(&s.seconds) {
            return self.refuse(self.key("seconds"), "seconds: expected 0.1 to 600");
        }
        let command = &s.qdisc.command;
        if s.record == Record::Qdisc && !SUBJECTS.contains(&s.kind()) {
            let kinds = SUBJECTS.join(", ");
            return self.refuse(command.span(), format!("{:?} cannot be recorded; expected one of {kinds}", s.kind()));
        }
        for text in s.change.iter().map(|c| &c.command) {
            if first_word(text.get_ref()) != s.kind() {
                return self.refuse(text.span(), format!("a change must stay with {:?}", s.kind()));
            }
        }
        if let Some(parent) = &s.qdisc.parent {
            let kind = first_word(parent.get_ref());
            if !matches!(kind, "htb" | "tbf") {
                return self.refuse(parent.span(), format!("parent {kind:?}: expected htb or tbf"));
            }
        }
        let commands = [Some(command), s.qdisc.parent.as_ref(), s.link.back.as_ref()];
        let others = s.also.iter().map(|a| &a.command).chain(s.change.iter().map(|c| &c.command));
        for text in commands.into_iter().flatten().chain(others) {
            self.plain(text)?;
        }
        for at in s.stats_at.iter().copied().chain(s.change.iter().map(|c| c.at)) {
            if !(0.0..s.seconds).contains(&at) {
                return self.refuse(
                    self.key(&format!("{at}")),
                    format!("{at} s is not within the scenario's {} s", s.seconds),
                );
            }
        }
        self.link(s)?;
        self.traffic(s)
    }

    fn link(&self, s: &Scenario) -> Result<(), Error> {
        if !(576..=9000).contains(&s.link.mtu) {
            return self.refuse(self.key("mtu"), "mtu: expected 576 to 9000");
        }
        if !(0.0..=2000.0).contains(&s.link.rtt_ms) {
            return self.refuse(self.key("rtt_ms"), "rtt_ms: expected 0 to 2000");
        }
        if let Some(vlan) = &s.link.vlan
            && !(1..=4094).contains(vlan.id.get_ref())
        {
            return self.refuse(vlan.id.span(), "VLAN id: expected 1 to 4094");
        }
        for (count, what) in [(&s.hosts.clients, "clients"), (&s.hosts.servers, "servers")] {
            if !(1..=99).contains(count.get_ref()) {
                return self.refuse(count.span(), format!("{what}: expected 1 to 99"));
            }
        }
        Ok(())
    }

    fn traffic(&self, s: &Scenario) -> Result<(), Error> {
        if s.tcp.is_empty() && s.udp.is_empty() && s.ping.is_empty() {
            return self.refuse(0..0, "no traffic: expected at least one of [[tcp]], [[udp]], [[ping]]");
        }
        if s.record == Record::Congestion && s.congestion_controls().len() != 1 {
            let message = "record = \"congestion\" needs [[tcp]] flows, all with the same congestion control";
            return self.refuse(self.key("record"), message);
        }
        for tcp in &s.tcp {
            let name = tcp.congestion.get_ref().as_str();
            if !CONTROLS.contains(&name) {
                let known = CONTROLS.join(", ");
                return self.refuse(tcp.congestion.span(), format!("{name:?}: expected one of {known}"));
            }
            if !(1..=128).contains(tcp.flows.get_ref()) {
                return self.refuse(tcp.flows.span(), "flows: expected 1 to 128");
            }
            if let Some(rate) = &tcp.rate {
                self.rate(rate)?;
            }
        }
        for udp in &s.udp {
            if !(1..=128).contains(udp.flows.get_ref()) {
                return self.refuse(udp.flows.span(), "flows: expected 1 to 128");
            }
            self.rate(&udp.rate)?;
            if udp.size < 16 {
                return self.refuse(self.key("size"), "size: expected at least 16 bytes");
            }
        }
        let pairs = s.tcp.iter().map(|t| (t.from, t.to));
        let pairs = pairs.chain(s.udp.iter().map(|u| (u.from, u.to)));
        for (from, to) in pairs.chain(s.ping.iter().map(|p| (p.from, p.to))) {
            let (clients, servers) = (*s.hosts.clients.get_ref(), *s.hosts.servers.get_ref());
            if from == 0 || from > clients || to == 0 || to > servers {
                let message = format!("from {from} to {to}: there are {clients} client and {servers} server addresses");
                return self.refuse(self.key("from"), message);
            }
        }
        let marks = s.tcp.iter().map(|t| (t.dscp, t.start)).chain(s.udp.iter().map(|u| (u.dscp, u.start)));
        for (dscp, start) in marks {
            if dscp.is_some_and(|d| d > 63) {
                return self.refuse(self.key("dscp"), "dscp: expected 0 to 63");
            }
            if !(0.0..s.seconds).contains(&start) {
                return self.refuse(self.key("start"), "start: expected a time within the scenario");
            }
        }
        Ok(())
    }

    /// A rate as iperf3 takes it after conversion: digits and one of kbit, mbit.
    fn rate(&self, rate: &toml::Spanned<String>) -> Result<(), Error> {
        match super::script::iperf_rate(rate.get_ref()) {
            Some(_) => Ok(()),
            None => self.refuse(rate.span(), format!("{:?}: expected a rate like 500kbit or 5mbit", rate.get_ref())),
        }
    }

    /// Commands become part of a shell script: words of tc, nothing else.
    fn plain(&self, command: &toml::Spanned<String>) -> Result<(), Error> {
        let bad = command.get_ref().chars().find(|c| !(c.is_ascii_alphanumeric() || " ._-/:%".contains(*c)));
        match bad {
            Some(c) => self.refuse(command.span(), format!("{c:?} cannot be part of a tc command")),
            None => Ok(()),
        }
    }

    /// Where a key is first written: close enough for values that have no place of their own.
    fn key(&self, key: &str) -> Range<usize> {
        let at = self.text.find(key).unwrap_or(0);
        at..at + key.len()
    }
}
