//! What a recording left behind: the guest's files of one scenario.

use std::path::{Path, PathBuf};

use crate::convert::Reading;
use crate::error::Error;
use crate::raw::Raw;
use crate::scenario::{Record, Scenario};
use crate::tools;

/// One scenario's files, checked.
#[derive(Debug)]
pub struct Recording {
    /// What was done.
    pub scenario: Scenario,
    /// The raw records with their head and end; `None` for a scenario that records nothing.
    pub raw: Option<Raw>,
    /// `tc -s -d qdisc show` after the queue was drained.
    pub tc_text: String,
    /// `tc -s -d -j qdisc show` at the same moment.
    pub tc_json: String,
    /// Kernel release, as the kernel itself says it.
    pub release: String,
    /// The distribution's version of the kernel, if it says one, for example `Debian 6.1.192-3`.
    pub package: String,
    /// Where the files are.
    pub folder: PathBuf,
}

impl Recording {
    /// Reads the files that a recording of `scenario` left in `folder`.
    ///
    /// # Errors
    /// [`Error::Guest`] when the scenario failed or the kernel complained, [`Error::Lost`] when events are missing,
    /// [`Error::Io`] and [`Error::Raw`] for missing or damaged files.
    pub fn open(folder: &Path, scenario: &Scenario) -> Result<Recording, Error> {
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(Error::io(folder.join(name)));
        let failed = |message: String| Error::Guest {
            release: text("release").unwrap_or_default().trim().to_owned(),
            message,
            tail: text("log.txt").map(|log| tools::last_lines(&log, 20)).unwrap_or_default(),
        };
        if text("status")?.trim() != "0" {
            return Err(failed(format!("scenario {} failed", scenario.name)));
        }
        let complaints = text("kernel-complaints")?;
        if !complaints.trim().is_empty() {
            return Err(failed(format!("the kernel complained: {}", complaints.trim())));
        }
        let raw = match scenario.record {
            Record::Nothing => None,
            Record::Qdisc | Record::Congestion => {
                let raw = Raw::read(&folder.join("records"))?;
                raw.check()?;
                Some(raw)
            }
        };
        Ok(Recording {
            scenario: scenario.clone(),
            raw,
            tc_text: text("tc.txt")?,
            tc_json: text("tc.json")?,
            release: text("release")?.trim().to_owned(),
            package: package(&text("version").unwrap_or_default()),
            folder: folder.to_path_buf(),
        })
    }

    /// Every reading of the statistics that the scenario asked for, in order: for each its text, then its JSON.
    pub(crate) fn readings(&self) -> Result<Vec<Reading>, Error> {
        let text =
            |name: String| std::fs::read_to_string(self.folder.join(&name)).map_err(Error::io(self.folder.join(name)));
        let mut out = Vec::new();
        let early = (0..self.scenario.stats_at.len()).map(|i| format!("-at-{i}"));
        for suffix in early.chain([String::new()]) {
            let times = text(format!("tc{suffix}.times"))?;
            out.extend(Reading::pair(&times, text(format!("tc{suffix}.txt"))?, text(format!("tc{suffix}.json"))?)?);
        }
        Ok(out)
    }
}

/// `#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)` → `Debian 6.1.192-3`.
fn package(version: &str) -> String {
    let words: Vec<&str> = version.split_whitespace().collect();
    let found = words.windows(2).find(|pair| pair[0] == "Debian");
    found.map_or_else(String::new, |pair| pair.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_in_the_version() {
        assert_eq!(package("#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)\n"), "Debian 6.1.192-3");
        assert_eq!(package("#1 SMP\n"), "");
    }
}
