use debloat_aqm::{
    ConfigError, Configure, DynQdisc, Environment, Host, Linux, Packet, Setup, cake, codel, dualpi2, fifo, fq,
    fq_codel, fq_pie, pie, red, sfq,
};

use super::words::nearest;
use super::{
    Attachment, BfifoOptions, HeadDropOptions, Options, ParseError, PfifoOptions, Printer, Problem, RedOptions,
    SfqOptions, Shown, ShownClass, Words, parse_words,
};
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
    cake::Config => cake::Cake::new,
    codel::Config => codel::Codel::new,
    fq_codel::Config => fq_codel::FqCodel::new,
    pie::Config => pie::Pie::new,
    fq_pie::Config => fq_pie::FqPie::new,
    dualpi2::Config => dualpi2::DualPi2::new,
    PfifoOptions => |setup| fifo::Pfifo::new(converted(setup, |options: PfifoOptions| Ok(options.0))?),
    BfifoOptions => |setup| fifo::Bfifo::new(converted(setup, |options: BfifoOptions| Ok(options.0))?),
    HeadDropOptions => |setup| fifo::PfifoHeadDrop::new(converted(setup, |options: HeadDropOptions| Ok(options.0))?),
    RedOptions => |setup| red::Red::new(converted(setup, |options: RedOptions| options.derived())?),
    SfqOptions => |setup| sfq::Sfq::new(converted(setup, |options: SfqOptions| Ok(options.config()))?),
    fq::Config => fq::Fq::new,
}

/// A setup of tc's options as one of the qdisc's own.
fn converted<T, C>(setup: Setup<T>, config: impl FnOnce(T) -> Result<C, ConfigError>) -> Result<Setup<C>, ConfigError> {
    Ok(Setup { config: config(setup.config)?, linux: setup.linux, host: setup.host })
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
