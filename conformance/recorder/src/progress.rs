//! What a recording reports while it runs.

/// One report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The host begins a step.
    Step(&'a str),
    /// The guest says where it is.
    Guest(&'a str),
    /// The guest has powered off.
    Finished(std::time::Duration),
    /// The raw records are on the host.
    Recorded {
        /// How many.
        records: usize,
        /// Their size.
        bytes: usize,
    },
}

impl std::fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Progress::Step(text) => f.write_str(text),
            Progress::Guest(text) => write!(f, "guest: {text}"),
            Progress::Finished(took) => write!(f, "guest finished after {:.0} s", took.as_secs_f64()),
            Progress::Recorded { records, bytes } => {
                write!(f, "{records} records, {}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10)
            }
        }
    }
}
