//! tc's language: option text in, `tc -s qdisc show` text and `tc -s -j` JSON out.
//!
//! ```
//! use debloat_harness::tc;
//!
//! let config: debloat_aqm::fq_codel::Config = tc::parse("limit 1000 target 3ms noecn")?;
//! assert_eq!(config.target_us, Some(3000));
//! let error = tc::parse::<debloat_aqm::fq_codel::Config>("limit 10 targt 3ms").unwrap_err();
//! assert_eq!(error.to_string(), "fq_codel: targt: unknown option (at character 9); did you mean \"target\"?");
//! # Ok::<(), tc::ParseError>(())
//! ```

mod cake;
mod codel;
mod dualpi2;
mod fifo;
mod fq;
mod fq_codel;
mod fq_pie;
mod pie;
mod print;
mod red;
mod registry;
mod sfq;
#[cfg(test)]
mod tests;
mod units;
mod words;

pub use fifo::{BfifoOptions, HeadDropOptions, PfifoOptions};
pub use print::{Attachment, Field, Printer, Shown, ShownClass};
pub use red::RedOptions;
pub use registry::{BuildError, KINDS, Subject, build};
pub use sfq::SfqOptions;
pub use units::{Bytes, Micros, Nanos, Rate, nanos, rates, sizes, times};
pub use words::{ParseError, Problem, Word, Words};

/// A configuration that tc's text can give.
pub trait Options: Default {
    /// The qdisc's tc name.
    const KIND: &'static str;
    /// Every option word, for the suggestion after a typing error.
    const WORDS: &'static [&'static str];

    /// Takes one option, whose word was just read, and its values from `words`. False if there is no such option.
    ///
    /// # Errors
    ///
    /// A missing or illegal value.
    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError>;

    /// Checks what only the whole text can show, such as options that need each other.
    ///
    /// # Errors
    ///
    /// Options that tc refuses together.
    fn finish(&mut self, words: &Words<'_>) -> Result<(), ParseError> {
        let _ = words;
        Ok(())
    }

    /// Reads the whole text. Only a qdisc whose text has options that are not in its configuration reads otherwise.
    ///
    /// # Errors
    ///
    /// The first word that is not understood.
    fn read(words: &mut Words<'_>) -> Result<Self, ParseError> {
        let mut config = Self::default();
        while let Some(option) = words.next() {
            if !config.option(option, words)? {
                return Err(words.unknown(option, Self::WORDS));
            }
        }
        config.finish(words)?;
        Ok(config)
    }
}

/// Parses option text as tc accepts it after the qdisc's name.
///
/// Stricter than tc in one point: numbers that tc would silently truncate (negative or infinite times, values that
/// do not fit) are errors.
///
/// # Errors
///
/// The first word that is not understood, with its position.
pub fn parse<C: Options>(text: &str) -> Result<C, ParseError> {
    parse_words(&mut Words::new(C::KIND, text))
}

fn parse_words<C: Options>(words: &mut Words<'_>) -> Result<C, ParseError> {
    C::read(words)
}
