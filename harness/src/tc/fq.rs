use debloat_aqm::fq::{Config, Fq};
use debloat_aqm::{Context, Environment, Heap, Packet};

use super::codel::PACKETS;
use super::units::{Micros, Nanos, RATE, Rate, TIME, nanos, rates, sizes, times};
use super::words::{ParseError, Word, Words};
use super::{BuildError, Options, Printer, Subject};

const BYTES: &str = "a number of bytes, 0 to 4294967295";
const PRIOMAP: &str = "16 bands, each 0 to 2";
const WEIGHTS: &str = "3 weights, each at least 16384 bytes";

/// A rate that fits 32 bits, as fq's rates must.
fn rate(option: Word<'_>, words: &mut Words<'_>) -> Result<u32, ParseError> {
    words.value_by(option, RATE, |text| u32::try_from(text.parse::<Rate>().ok()?.0).ok())
}

/// `3 priomap P0 … P15`, after `bands`.
fn priomap(option: Word<'_>, words: &mut Words<'_>) -> Result<[u8; 16], ParseError> {
    let bands = words.value(option, "3 priomap and 16 bands")?;
    if bands.text.parse() != Ok(3) {
        return Err(words.bad(option, bands, "3: fq has three bands"));
    }
    let word = words.value(option, "priomap and 16 bands")?;
    if word.text != "priomap" {
        return Err(words.bad(option, word, "priomap and 16 bands"));
    }
    let mut map = [0; 16];
    for band in &mut map {
        *band = words.value_by(word, PRIOMAP, |text| text.parse().ok().filter(|&band| band <= 2))?;
    }
    Ok(map)
}

impl Options for Config {
    const KIND: &'static str = "fq";
    const WORDS: &'static [&'static str] = &[
        "limit",
        "flow_limit",
        "quantum",
        "initial_quantum",
        "maxrate",
        "buckets",
        "pacing",
        "nopacing",
        "refill_delay",
        "bands",
        "weights",
        "low_rate_threshold",
        "orphan_mask",
        "timer_slack",
        "ce_threshold",
        "horizon",
        "horizon_cap",
        "horizon_drop",
        "offload_horizon",
    ];

    fn option(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        let time = |words: &mut Words<'_>| Ok(Some(words.parsed::<Micros>(option, TIME)?.0));
        match option.text {
            "limit" => self.limit = Some(words.integer(option, PACKETS)?),
            "flow_limit" => self.flow_limit = Some(words.integer(option, PACKETS)?),
            "quantum" => self.quantum_bytes = Some(words.integer(option, BYTES)?),
            "initial_quantum" => self.initial_quantum_bytes = Some(words.integer(option, BYTES)?),
            "maxrate" => self.maxrate = Some(rate(option, words)?),
            "buckets" => {
                // tc sends the logarithm, rounded up; 0 it does not send.
                let buckets: u32 = words.integer(option, "a number of buckets, 2 to 262144")?;
                self.buckets = (buckets != 0).then(|| buckets.checked_next_power_of_two().unwrap_or(u32::MAX));
            }
            "pacing" => self.pacing = Some(true),
            "nopacing" => self.pacing = Some(false),
            "refill_delay" => self.refill_delay_us = time(words)?,
            "bands" => self.priomap = Some(priomap(option, words)?),
            "weights" => {
                let mut weights = [0; 3];
                for weight in &mut weights {
                    let large = |text: &str| text.parse().ok().filter(|&weight: &i32| weight >= 16_384);
                    *weight = words.value_by(option, WEIGHTS, large)?;
                }
                self.weights = Some(weights);
            }
            "low_rate_threshold" => self.low_rate_threshold = Some(rate(option, words)?),
            "orphan_mask" => self.orphan_mask = Some(words.integer(option, "a mask, 0 to 4294967295")?),
            "timer_slack" => {
                const SLACK: &str = "a time such as 10us or a bare number of ns, at most 4294967295 ns";
                let ns = |text: &str| u32::try_from(text.parse::<Nanos>().ok()?.0).ok();
                self.timer_slack_ns = Some(words.value_by(option, SLACK, ns)?);
            }
            "ce_threshold" => self.ce_threshold_us = time(words)?,
            "horizon" => self.horizon_us = time(words)?,
            "horizon_drop" => self.horizon_drop = Some(true),
            "horizon_cap" => self.horizon_drop = Some(false),
            "offload_horizon" => self.offload_horizon_us = time(words)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl<P: Packet> Subject<P> for Fq<P, Heap> {
    fn kind(&self) -> &'static str {
        Config::KIND
    }

    fn change_text(&mut self, words: &mut Words<'_>, cx: &mut dyn Environment<P>) -> Result<(), BuildError> {
        Ok(self.change(&super::parse_words(words)?, cx)?)
    }

    fn options(&self, p: &mut Printer) {
        let v = self.parameters();
        p.both("limit", v.limit, format!("limit {}p ", v.limit));
        p.both("flow_limit", v.flow_limit, format!("flow_limit {}p ", v.flow_limit));
        p.both("buckets", v.buckets, format!("buckets {} ", v.buckets));
        p.both("orphan_mask", v.orphan_mask, format!("orphan_mask {} ", v.orphan_mask));
        if !v.pacing {
            p.both("pacing", false, "nopacing ");
        }
        if v.weights != [0; 3] {
            p.both("bands", 3, "bands 3 ");
            let list = |values: &[String]| format!("{} ", values.join(" "));
            // The keys' last space is tc's.
            p.both(
                "priomap ",
                v.priomap.to_vec(),
                format!("priomap {}", list(&v.priomap.map(|band| band.to_string()))),
            );
            p.both("weights ", v.weights.to_vec(), format!("weights {}", list(&v.weights.map(|n| n.to_string()))));
        }
        p.both("quantum", v.quantum_bytes, format!("quantum {} ", sizes::text(v.quantum_bytes)));
        let initial = v.initial_quantum_bytes;
        p.both("initial_quantum", initial, format!("initial_quantum {} ", sizes::text(initial)));
        if v.maxrate != u32::MAX {
            p.both("maxrate", v.maxrate, format!("maxrate {} ", rates::text(v.maxrate.into())));
        }
        let threshold = v.low_rate_threshold;
        if threshold != 0 {
            let text = format!("low_rate_threshold {} ", rates::text(threshold.into()));
            p.both("low_rate_threshold", threshold, text);
        }
        p.both("refill_delay", v.refill_delay_us, format!("refill_delay {} ", times::text(v.refill_delay_us)));
        if v.ce_threshold_us != u32::MAX {
            p.both("ce_threshold", v.ce_threshold_us, format!("ce_threshold {} ", times::text(v.ce_threshold_us)));
        }
        let slack = v.timer_slack_ns;
        p.both("timer_slack", slack, format!("timer_slack {} ", nanos::text(slack.into())));
        p.both("horizon", v.horizon_us, format!("horizon {} ", times::text(v.horizon_us)));
        let beyond = if v.horizon_drop { "horizon_drop" } else { "horizon_cap" };
        p.both(beyond, serde_json::Value::Null, format!("{beyond} "));
        if let Some(us) = v.offload_horizon_us {
            p.both("offload_horizon", us, format!("offload_horizon {} ", times::text(us)));
        }
    }

    fn statistics(&self, now_ns: u64, p: &mut Printer) {
        let s = Fq::stats(self, &mut Context::at(now_ns));
        let bands = self.parameters().weights != [0; 3];
        p.both("flows", s.flows, format!("  flows {}", s.flows));
        p.both("inactive", s.inactive_flows, format!(" (inactive {}", s.inactive_flows));
        p.both("throttled", s.throttled_flows, format!(" throttled {})", s.throttled_flows));
        for (band, packets) in s.band_pkt_count.iter().enumerate() {
            p.both(&format!("band{band}_pkts"), *packets, format!(" band{band}_pkts {packets}"));
        }
        if s.time_next_delayed_flow_ns > 0 {
            let delay = s.time_next_delayed_flow_ns;
            p.both("next_packet_delay", delay, format!(" next_packet_delay {}", nanos::text(delay.unsigned_abs())));
        }
        let highprio = if bands { 0 } else { s.fastpath_packets };
        p.both("gc", s.gc_flows, format!("\n  gc {}", s.gc_flows));
        p.both("highprio", highprio, format!(" highprio {highprio}"));
        if bands {
            unless_zero("fastpath", s.fastpath_packets, p);
        }
        p.both("throttled", s.throttled, format!(" throttled {}", s.throttled));
        if s.unthrottle_latency_ns != 0 {
            let latency = s.unthrottle_latency_ns as u32;
            p.both("latency", latency, format!(" latency {}", nanos::text(latency.into())));
        }
        unless_zero("ce_mark", s.ce_mark, p);
        unless_zero("flows_plimit", s.flows_plimit, p);
        let drops = s.band_drops;
        if [s.pkts_too_long, s.allocation_errors, s.horizon_drops, s.horizon_caps].iter().chain(&drops).any(|&n| n != 0)
        {
            p.text("\n");
            unless_zero("pkts_too_long", s.pkts_too_long, p);
            unless_zero("alloc_errors", s.allocation_errors, p);
            unless_zero("horizon_drops", s.horizon_drops, p);
            if s.horizon_caps != 0 {
                p.both("horizon_caps", s.horizon_caps, format!("  horizon_caps {}", s.horizon_caps));
            }
            for (band, &drops) in drops.iter().enumerate() {
                unless_zero(&format!("band{band}_drops"), drops, p);
            }
        }
    }
}

/// A count that tc prints only if there is one.
fn unless_zero(name: &str, count: u64, p: &mut Printer) {
    if count != 0 {
        p.both(name, count, format!(" {name} {count}"));
    }
}
