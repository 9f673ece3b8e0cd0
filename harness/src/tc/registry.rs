use debloat_aqm::{ConfigError, Configure, DynQdisc, Environment, Host, Linux, Packet, Setup};

use super::words::nearest;
use super::{Attachment, Options, ParseError, Printer, Problem, Shown, ShownClass, Words, parse_words};
use crate::replay::Probe;

/// Option text that names no qdisc that can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The text is wrong.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The values are refused, as Linux refuses them.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A qdisc of any kind, made and changed by text, as the tools hold it.
pub trait Subject<P: Packet>: DynQdisc<P> + Probe {
    /// The tc name.
    fn kind(&self) -> &'static str;

    /// Changes options while running, as `tc qdisc change` does.
    ///
    /// # Errors
    ///
    /// Wrong text, or values that Linux refuses; nothing is changed then.
    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), BuildError>;

    /// The options as tc prints them.
    fn options(&self, printer: &mut Printer);

    /// The qdisc's own statistics as tc prints them. Some are relative to the present.
    fn statistics(&self, now_ns: u64, printer: &mut Printer);

    /// The classes as `tc -s class show` lists them; most qdiscs have none.
    fn classes(&self, now_ns: u64) -> Vec<ShownClass> {
        let _ = now_ns;
        Vec::new()
    }

    /// All that `tc -s -d qdisc show` prints.
    fn shown(&self, handle: u32, attachment: Attachment, now_ns: u64) -> Shown {
        let (mut options, mut statistics) = (Printer::default(), Printer::default());
        self.options(&mut options);
        self.statistics(now_ns, &mut statistics);
        Shown { kind: self.kind(), handle, attachment, options, counters: *self.dyn_counters(), statistics }
    }
}

type Made<P> = Result<Box<dyn Subject<P>>, BuildError>;

/// One line per qdisc: its name, and how it is made from the words after the name.
macro_rules! registry {
    ($($options:ty => $qdisc:expr),+ $(,)?) => {
        /// The names of all qdiscs.
        pub const KINDS: &[&str] = &[$(<$options as Options>::KIND),+];

        fn make<P: Packet + 'static>(kind: &str, words: Words<'_>, linux: Linux, host: Host) -> Option<Made<P>> {
            $(if kind == <$options as Options>::KIND {
                let made = |mut words: Words<'_>| -> Made<P> {
                    let config: $options = parse_words(&mut words)?;
                    let setup: Setup<$options> = config.behave_like(linux).on_host(host);
                    Ok(Box::new($qdisc(setup)?))
                };
                return Some(made(words.for_kind(<$options as Options>::KIND)));
            })+
            None
        }
    };
}

registry! {
    debloat_aqm::cake::Config => debloat_aqm::cake::Cake::new,
    debloat_aqm::codel::Config => debloat_aqm::codel::Codel::new,
    debloat_aqm::fq_codel::Config => debloat_aqm::fq_codel::FqCodel::new,
    debloat_aqm::pie::Config => debloat_aqm::pie::Pie::new,
    debloat_aqm::fq_pie::Config => debloat_aqm::fq_pie::FqPie::new,
    debloat_aqm::dualpi2::Config => debloat_aqm::dualpi2::DualPi2::new,
    super::PfifoOptions => super::PfifoOptions::make,
    super::BfifoOptions => super::BfifoOptions::make,
    super::HeadDropOptions => super::HeadDropOptions::make,
    super::RedOptions => super::RedOptions::make,
    super::SfqOptions => super::SfqOptions::make,
    debloat_aqm::fq::Config => debloat_aqm::fq::Fq::new,
}

/// Makes a qdisc from tc's text, such as `fq_codel limit 1000 ecn`.
///
/// # Errors
///
/// An unknown qdisc, wrong text, or values that Linux refuses.
pub fn build<P: Packet + 'static>(text: &str, linux: Linux, host: Host) -> Made<P> {
    let mut words = Words::new("qdisc", text);
    let Some(kind) = words.next() else {
        let why = "a qdisc's name is missing";
        return Err(words.error(0, Problem::Conflict { why }).into());
    };
    make(kind.text, words.clone(), linux, host).unwrap_or_else(|| {
        let problem = Problem::UnknownQdisc { word: kind.text.into() };
        let suggestion = nearest(kind.text, KINDS);
        Err(ParseError { suggestion, ..words.error(kind.at, problem) }.into())
    })
}
