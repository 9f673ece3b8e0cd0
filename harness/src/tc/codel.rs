use debloat_aqm::codel::{Codel, Config};
use debloat_aqm::{Context, Environment, Heap, Packet};

use super::units::{Micros, TIME, times};
use super::words::{ParseError, Word, Words};
use super::{Options, Printer, Subject};

/// A number of packets.
pub(super) const PACKETS: &str = "a number of packets, 0 to 4294967295";

impl Options for Config {
    const KIND: &'static str = "codel";
    const WORDS: &'static [&'static str] = &["limit", "target", "interval", "ce_threshold", "ecn", "noecn"];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = unless_zero(words.integer(option, PACKETS)?),
            "target" => self.target_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "interval" => self.interval_us = unless_zero(words.parsed::<Micros>(option, TIME)?.0),
            "ce_threshold" => self.ce_threshold_us = Some(words.parsed::<Micros>(option, TIME)?.0),
            "ecn" => self.ecn = Some(true),
            "noecn" => self.ecn = Some(false),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// tc does not transmit these options when their value is 0: the kernel's default stays.
pub(super) fn unless_zero(value: u32) -> Option<u32> {
    (value != 0).then_some(value)
}

impl<P: Packet> Subject<P> for Codel<P, Heap> {
    fn kind(&self) -> &'static str {
        Config::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), super::BuildError> {
        Ok(self.change(&super::parse_words(words)?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        let parameters = self.parameters();
        p.both("limit", parameters.limit, format!("limit {}p ", parameters.limit));
        p.both("target", parameters.target_us, format!("target {} ", times::text(parameters.target_us)));
        if let Some(us) = parameters.ce_threshold_us {
            p.both("ce_threshold", us, format!("ce_threshold {} ", times::text(us)));
        }
        p.both("interval", parameters.interval_us, format!("interval {} ", times::text(parameters.interval_us)));
        if parameters.ecn {
            p.both("ecn", true, "ecn ");
        }
    }

    fn statistics(&self, now_ns: u64, p: &mut Printer) {
        let s = Codel::stats(self, &mut Context::at(now_ns));
        p.both("count", s.count, format!("  count {}", s.count));
        p.both("lastcount", s.lastcount, format!(" lastcount {}", s.lastcount));
        p.both("ldelay", s.ldelay_us, format!(" ldelay {}", times::text(s.ldelay_us)));
        if s.dropping {
            p.both("dropping", true, " dropping");
        }
        let drop_next = times::text(s.drop_next_us.unsigned_abs());
        match s.drop_next_us {
            ..0 => p.both("drop_next", s.drop_next_us, format!(" drop_next -{drop_next}")),
            _ => p.both("drop_next", s.drop_next_us, format!(" drop_next {drop_next}")),
        }
        p.both("maxpacket", s.maxpacket_bytes, format!("\n  maxpacket {}", s.maxpacket_bytes));
        p.both("ecn_mark", s.ecn_mark, format!(" ecn_mark {}", s.ecn_mark));
        p.both("drop_overlimit", s.drop_overlimit, format!(" drop_overlimit {}", s.drop_overlimit));
        if s.ce_mark != 0 {
            p.both("ce_mark", s.ce_mark, format!(" ce_mark {}", s.ce_mark));
        }
    }
}
