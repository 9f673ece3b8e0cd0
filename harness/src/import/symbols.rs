use super::{ImportError, ImportErrorKind};

/// The text ranges of a recording's boot: which function an address lies in.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// Start, end, name; by start.
    ranges: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// Parses lines of start, end (hex) and name; a line number and colon before them are ignored.
    ///
    /// # Errors
    ///
    /// A line of another form.
    pub fn parse(text: &str) -> Result<Self, ImportError> {
        let mut ranges = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let range =
                parse_line(line).ok_or(ImportError { record: 0, byte: 0, kind: ImportErrorKind::Symbol(index + 1) })?;
            ranges.push(range);
        }
        ranges.sort_unstable();
        Ok(Self { ranges })
    }

    /// The function around an address.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = self.ranges.get(after.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }
}

fn parse_line(line: &str) -> Option<(u64, u64, String)> {
    let mut words = line.split_whitespace();
    let start = words.next()?;
    let start = start.split_once(':').map_or(start, |(_, address)| address);
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((start, end, words.next()?.to_owned()))
}
