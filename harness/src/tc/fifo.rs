use debloat_aqm::fifo::{Bfifo, Config, Pfifo, PfifoHeadDrop};
use debloat_aqm::{ConfigError, Configure, Environment, Heap, Packet, Setup};

use super::units::{Bytes, SIZE};
use super::words::{ParseError, Word, Words};
use super::{BuildError, Options, Printer, Subject};

/// tc's text for one of the three FIFOs, which share their configuration.
macro_rules! fifo {
    ($(#[$doc:meta])* $options:ident, $qdisc:ident, $kind:literal, $unit:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $options(pub Config);

        impl Configure for $options {}

        impl $options {
            /// Makes the qdisc.
            pub(super) fn make<P: Packet>(setup: Setup<Self>) -> Result<$qdisc<P>, ConfigError> {
                $qdisc::new(Setup { config: setup.config.0, linux: setup.linux, host: setup.host })
            }
        }

        impl Options for $options {
            const KIND: &'static str = $kind;
            const WORDS: &'static [&'static str] = &["limit"];

            fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
                if option.text != "limit" {
                    return Ok(false);
                }
                // tc reads a size even where it is a number of packets.
                self.0.limit = Some(words.parsed::<Bytes>(option, SIZE)?.0);
                Ok(true)
            }
        }

        impl<P: Packet> Subject<P> for $qdisc<P, Heap> {
            fn kind(&self) -> &'static str {
                $options::KIND
            }

            fn change_text(&mut self, words: &mut Words<'_>, _: &mut dyn Environment<P>) -> Result<(), BuildError> {
                self.change(&super::parse_words::<$options>(words)?.0);
                Ok(())
            }

            fn options(&self, p: &mut Printer) {
                let limit = self.parameters().limit;
                p.both("limit", limit, format!(concat!("limit {}", $unit), limit));
            }

            fn statistics(&self, _: u64, _: &mut Printer) {}
        }
    };
}

fifo!(
    /// Options of `pfifo`.
    PfifoOptions, Pfifo, "pfifo", "p"
);
fifo!(
    /// Options of `bfifo`.
    BfifoOptions, Bfifo, "bfifo", "b"
);
fifo!(
    /// Options of `pfifo_head_drop`.
    HeadDropOptions, PfifoHeadDrop, "pfifo_head_drop", "p"
);
