use std::fmt;
use std::str::FromStr;

/// A word of option text and where it starts, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word.
    pub text: &'a str,
    /// Characters before it.
    pub at: usize,
}

/// The words of an option text, read one after the other.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    kind: &'static str,
    text: &'a str,
    byte: usize,
    at: usize,
}

/// Text that is no valid option text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {problem} (at character {at}){}", Hint(*.suggestion))]
pub struct ParseError {
    /// The qdisc, by its tc name.
    pub kind: &'static str,
    /// Characters before the offending word, counted from the start of the text.
    pub at: usize,
    /// What is wrong.
    pub problem: Problem,
    /// The option that was probably meant.
    pub suggestion: Option<&'static str>,
}

/// What is wrong with a word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// No such option.
    #[error("{word}: unknown option")]
    UnknownOption {
        /// The word.
        word: String,
    },
    /// No such qdisc.
    #[error("{word}: unknown qdisc")]
    UnknownQdisc {
        /// The word.
        word: String,
    },
    /// The text ends where a value should be.
    #[error("{option}: a value is missing: {wanted}")]
    MissingValue {
        /// The option.
        option: String,
        /// What is allowed.
        wanted: &'static str,
    },
    /// A value that is not allowed.
    #[error("{option} {value}: {wanted}")]
    BadValue {
        /// The option.
        option: String,
        /// The value given.
        value: String,
        /// What is allowed.
        wanted: &'static str,
    },
    /// Options that do not go together, or one that is missing.
    #[error("{why}")]
    Conflict {
        /// What tc demands.
        why: &'static str,
    },
}

struct Hint(Option<&'static str>);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(word) => write!(f, "; did you mean \"{word}\"?"),
            None => Ok(()),
        }
    }
}

impl<'a> Words<'a> {
    /// The words of `text`, for the qdisc `kind`.
    pub const fn new(kind: &'static str, text: &'a str) -> Self {
        Self { kind, text, byte: 0, at: 0 }
    }

    /// The same text from here on, for another qdisc: after its name has been read.
    pub(super) const fn for_kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    /// The next word without taking it.
    pub fn peek(&self) -> Option<Word<'a>> {
        self.clone().next()
    }

    /// The value that must follow `option`.
    ///
    /// # Errors
    ///
    /// The text ends here.
    pub fn value(&mut self, option: Word<'_>, wanted: &'static str) -> Result<Word<'a>, ParseError> {
        self.next().ok_or_else(|| self.error(self.at, Problem::MissingValue { option: option.text.into(), wanted }))
    }

    /// A value read by `read`.
    ///
    /// # Errors
    ///
    /// The text ends here, or `read` gives nothing.
    pub fn value_by<T>(
        &mut self,
        option: Word<'_>,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ParseError> {
        let value = self.value(option, wanted)?;
        read(value.text).ok_or_else(|| self.bad(option, value, wanted))
    }

    /// An integer as tc reads it: decimal, `0x…` or octal with a leading 0.
    ///
    /// # Errors
    ///
    /// The text ends here, or the number is none or does not fit.
    pub fn integer<T: TryFrom<u64>>(&mut self, option: Word<'_>, wanted: &'static str) -> Result<T, ParseError> {
        self.value_by(option, wanted, |text| T::try_from(integer(text)?).ok())
    }

    /// An integer of at most `max`.
    ///
    /// # Errors
    ///
    /// The text ends here, or the number is none or too large.
    pub fn integer_to(&mut self, option: Word<'_>, wanted: &'static str, max: u32) -> Result<u32, ParseError> {
        self.value_by(option, wanted, |text| u32::try_from(integer(text)?).ok().filter(|value| *value <= max))
    }

    /// A value of a type that knows how to read itself.
    ///
    /// # Errors
    ///
    /// The text ends here, or the value is illegal.
    pub fn parsed<T: FromStr>(&mut self, option: Word<'_>, wanted: &'static str) -> Result<T, ParseError> {
        self.value_by(option, wanted, |text| text.parse().ok())
    }

    /// An error at some character.
    pub fn error(&self, at: usize, problem: Problem) -> ParseError {
        ParseError { kind: self.kind, at, problem, suggestion: None }
    }

    /// The error of an illegal value.
    pub fn bad(&self, option: Word<'_>, value: Word<'_>, wanted: &'static str) -> ParseError {
        self.error(value.at, Problem::BadValue { option: option.text.into(), value: value.text.into(), wanted })
    }

    /// The error of an unknown option, with the nearest known one.
    pub fn unknown(&self, option: Word<'_>, known: &[&'static str]) -> ParseError {
        let problem = Problem::UnknownOption { word: option.text.into() };
        ParseError { suggestion: nearest(option.text, known), ..self.error(option.at, problem) }
    }

    /// The error of options that do not go together, at the end of what was read.
    pub fn conflict(&self, why: &'static str) -> ParseError {
        self.error(self.at, Problem::Conflict { why })
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let rest = &self.text[self.byte..];
        let start = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let len = rest[start..].find(char::is_whitespace).unwrap_or(rest.len() - start);
        let at = self.at + rest[..start].chars().count();
        let text = &rest[start..start + len];
        self.byte += start + len;
        self.at = at + text.chars().count();
        (!text.is_empty()).then_some(Word { text, at })
    }
}

/// The known word which is nearest to a mistyped one, if any is near.
pub(super) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 3) && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

fn integer(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}
