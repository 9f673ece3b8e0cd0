//! Import of raw recordings into traces.
//!
//! A raw recording is the stream of records that a BPF recorder wrote inside a booted kernel, in the order of their
//! making. What is a record of a call here becomes one event: the importer finds each call's own clock reads among
//! those of interrupts, gives packets numbers instead of addresses, and names the values of raw states.

mod cake;
mod cc;
mod error;
mod fifos;
mod layout;
mod meta;
mod packets;
mod qdisc;
mod record;
mod symbols;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

pub use cc::{congestion_control, shorten};
pub use error::{ImportError, ImportErrorKind};
pub use meta::Meta;
pub use qdisc::qdisc;
pub use symbols::Symbols;

use crate::trace::Step;

fn expect_equal(what: &'static str, found: u64, expected: u64) -> Result<(), ImportErrorKind> {
    if found == expected { Ok(()) } else { Err(ImportErrorKind::Contradiction { what, found, expected }) }
}

/// A draw of a recorded width, cut to it.
fn draw(bits: u64, value: u64) -> Result<Step, ImportErrorKind> {
    match bits {
        8 | 16 | 32 | 64 => Ok(Step::Draw { bits: bits as u8, value: value & u64::MAX >> (64 - bits) }),
        _ => {
            let allowed = "8, 16, 32 or 64";
            Err(ImportErrorKind::Field { field: "the width of a draw", value: bits, allowed })
        }
    }
}

/// Opens a raw recording that is compressed with zstd.
///
/// # Errors
///
/// The file cannot be opened, or its first bytes are not zstd's.
pub fn open(path: impl AsRef<Path>) -> Result<impl Read, ImportError> {
    let decoder = File::open(path).and_then(zstd::stream::read::Decoder::new);
    decoder.map(BufReader::new).map_err(|error| ImportError { record: 0, byte: 0, kind: error.into() })
}
