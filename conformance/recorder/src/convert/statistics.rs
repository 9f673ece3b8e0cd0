//! `tc`'s output as events: which reading of the statistics it belongs to, the subject's part of the text, the numbers.

use debloat_harness::trace::{NamedValue, Statistics};

use crate::error::Error;

/// One call of tc in the guest.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// Between these times (ns since boot) tc ran.
    window_ns: (u64, u64),
    /// What it printed.
    output: Output,
}

/// What tc printed.
#[derive(Debug, Clone)]
enum Output {
    Text(String),
    Json(String),
}

/// `/proc/uptime` has hundredths of a second.
const TICK_NS: u64 = 10_000_000;

impl Reading {
    /// The two readings of one `statistics` call; `times` are three uptimes: before, between, after.
    pub(crate) fn pair(times: &str, text: String, json: String) -> Result<[Reading; 2], Error> {
        let bad = || Error::Raw { offset: 0, message: format!("times of the statistics: {times:?}") };
        let mut ns = Vec::new();
        for word in times.split_whitespace() {
            let seconds: f64 = word.parse().map_err(|_| bad())?;
            ns.push((seconds * 1e9).round() as u64);
        }
        let [before, between, after] = ns.as_slice() else { return Err(bad()) };
        Ok([
            Reading { window_ns: (*before, between + TICK_NS), output: Output::Text(text) },
            Reading { window_ns: (*between, after + TICK_NS), output: Output::Json(json) },
        ])
    }

    /// Can this be the reading that began at `time_ns`?
    pub(super) fn is_at(&self, time_ns: u64) -> bool {
        (self.window_ns.0..=self.window_ns.1).contains(&time_ns)
    }

    /// The event.
    pub(super) fn event(&self, time_ns: u64, kind: &str, handle: u32) -> Result<Statistics, Error> {
        let name = format!("{:x}:", handle >> 16);
        let missing = || Error::Raw { offset: 0, message: format!("tc printed nothing of {kind} {name}") };
        match &self.output {
            Output::Text(text) => {
                let text = part(text, &format!("qdisc {kind} {name} ")).ok_or_else(missing)?;
                Ok(Statistics { time_ns, values: Vec::new(), text })
            }
            Output::Json(json) => {
                let list: Vec<serde_json::Value> = serde_json::from_str(json)
                    .map_err(|e| Error::Raw { offset: 0, message: format!("tc's JSON: {e}") })?;
                let mine = list
                    .iter()
                    .find(|q| q["kind"] == kind && q["handle"] == name.as_str())
                    .and_then(|q| q.as_object())
                    .ok_or_else(missing)?;
                let values = mine
                    .iter()
                    .filter(|(name, _)| *name != "refcnt")
                    .filter_map(|(name, value)| Some(NamedValue { name: name.clone(), value: value.as_i64()? }))
                    .collect();
                Ok(Statistics { time_ns, values, text: String::new() })
            }
        }
    }
}

/// The lines from the one that begins with `first` up to the next qdisc's.
fn part(text: &str, first: &str) -> Option<String> {
    let begin = if text.starts_with(first) { 0 } else { text.find(&format!("\n{first}"))? + 1 };
    let rest = &text[begin..];
    let end = rest.find("\nqdisc ").map_or(rest.len(), |at| at + 1);
    // tc ends with an empty line that is not the qdisc's.
    Some(format!("{}\n", rest[..end].trim_end_matches('\n')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "qdisc htb 1: root refcnt 2\n Sent 1 bytes\nqdisc pie 2: parent 1:1 limit 1000p\n  prob 0\n\n";

    #[test]
    fn the_subjects_part_of_the_text() {
        assert_eq!(part(TEXT, "qdisc pie 2: ").unwrap(), "qdisc pie 2: parent 1:1 limit 1000p\n  prob 0\n");
        assert_eq!(part(TEXT, "qdisc htb 1: ").unwrap(), "qdisc htb 1: root refcnt 2\n Sent 1 bytes\n");
        assert_eq!(part(TEXT, "qdisc cake 1: "), None);
    }

    #[test]
    fn readings_know_their_time() {
        let [text, json] = Reading::pair("1.00\n1.02\n1.05\n", TEXT.into(), "[]".into()).unwrap();
        assert!(text.is_at(1_010_000_000) && !text.is_at(1_040_000_000));
        assert!(json.is_at(1_040_000_000) && !json.is_at(1_010_000_000));
        assert!(Reading::pair("1.00 x", String::new(), String::new()).is_err());
    }

    #[test]
    fn the_numbers_of_the_json() {
        let json = r#"[{"kind":"pie","handle":"2:","parent":"1:1","options":{"limit":1000},"bytes":5,"prob":0.5}]"#;
        let [_, reading] = Reading::pair("0 0 0", String::new(), json.into()).unwrap();
        let event = reading.event(7, "pie", 0x20000).unwrap();
        assert_eq!(event.values, [NamedValue { name: "bytes".into(), value: 5 }]);
    }
}
