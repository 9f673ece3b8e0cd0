//! Linux's congestion controls for [quinn](https://docs.rs/quinn): CUBIC, BBR and a DCTCP-style response.
//!
//! ```
//! use std::sync::Arc;
//!
//! let mut transport = quinn::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(debloat_quinn::Cubic::default()));
//! ```
//!
//! quinn counts bytes and hides a few things from its controllers, which decides how close to Linux this can be:
//!
//! * Its window is Linux's window times the MTU, but at least two packets (RFC 9002), where Linux goes down to one.
//! * A mark reaches the controller as "congestion without loss", without a count: all packets of that ACK count as
//!   marked, as with RFC 3168 feedback. For CUBIC that is exact; DCTCP overestimates its fraction.
//! * quinn paces by itself, from window and RTT; the pacing rate of the algorithm is reported in the metrics.

use std::any::Any;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use debloat_cc::algorithm::Algorithm;
use debloat_cc::driver::{Ack, ByteDriver, Config, Stamp};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// Linux's default algorithm.
pub type Cubic = Factory<debloat_cc::Cubic>;
/// BBR version 1 as in Linux.
pub type Bbr = Factory<debloat_cc::Bbr>;
/// DCTCP-style response to marks.
pub type Dctcp = Factory<debloat_cc::Dctcp>;
/// Reno.
pub type Reno = Factory<debloat_cc::Reno>;

/// Makes a controller for each of quinn's paths.
#[derive(Clone, Copy, Debug)]
pub struct Factory<A> {
    /// A fresh algorithm with its parameters.
    pub algorithm: A,
    /// Driver settings; packet size and seed are set per path.
    pub config: Config,
}

impl<A> Factory<A> {
    /// Controllers that run `algorithm` with the defaults of the newest Linux.
    pub fn new(algorithm: A) -> Self {
        Self { algorithm, config: Config::quic(1200) }
    }
}

impl<A: Default> Default for Factory<A> {
    fn default() -> Self {
        Self::new(A::default())
    }
}

impl<A> ControllerFactory for Factory<A>
where
    A: Algorithm + Clone + Send + Sync + 'static,
{
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let config = Config {
            mss: u32::from(current_mtu),
            // The phase of BBR's cycle must differ between connections.
            seed: RandomState::new().build_hasher().finish(),
            ..self.config
        };
        Box::new(Control {
            driver: ByteDriver::new(self.algorithm.clone(), config),
            start: now,
            sent: VecDeque::new(),
            batch: Batch::default(),
        })
    }
}

/// A packet that quinn has not told the fate of yet.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    stamp: Stamp,
    bytes: u32,
    known: bool,
}

/// The packets of one ACK frame, told one by one.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    bytes: u32,
    newest: Option<Stamp>,
    rtt_us: Option<u32>,
    marked: bool,
}

/// One path's controller.
#[derive(Clone, Debug)]
pub struct Control<A> {
    driver: ByteDriver<A>,
    start: Instant,
    sent: VecDeque<Sent>,
    batch: Batch,
}

impl<A: Algorithm> Control<A> {
    fn ns(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The driver, for its metrics.
    pub fn driver(&self) -> &ByteDriver<A> {
        &self.driver
    }

    /// Takes the first unknown packet sent at this instant.
    fn take(&mut self, at: Instant) -> Option<Sent> {
        let from = self.sent.partition_point(|sent| sent.at < at);
        let sent = self.sent.range_mut(from..).take_while(|sent| sent.at == at).find(|sent| !sent.known)?;
        sent.known = true;
        let found = *sent;
        self.forget();
        Some(found)
    }

    fn forget(&mut self) {
        while self.sent.front().is_some_and(|sent| sent.known) {
            self.sent.pop_front();
        }
    }

    /// Declares the oldest packets up to `until` lost, `bytes` of them.
    fn lose(&mut self, until: Instant, bytes: u64) {
        let mut left = bytes;
        for sent in &mut self.sent {
            if sent.at > until || left == 0 {
                break;
            }
            if !sent.known {
                sent.known = true;
                left = left.saturating_sub(u64::from(sent.bytes));
                self.driver.on_packet_lost(&sent.stamp, sent.bytes);
            }
        }
        self.forget();
    }
}

impl<A> Controller for Control<A>
where
    A: Algorithm + Clone + Send + Sync + 'static,
{
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let ns = self.ns(now);
        // Instants must not go back, whatever the caller's clock does.
        let at = self.sent.back().map_or(now, |last| last.at.max(now));
        let stamp = self.driver.on_sent(ns, bytes);
        self.sent.push_back(Sent { at, stamp, bytes, known: false });
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, _rtt: &RttEstimator) {
        let batch = &mut self.batch;
        batch.bytes = batch.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        let us = now.saturating_duration_since(sent).as_micros();
        batch.rtt_us = Some(u32::try_from(us).unwrap_or(u32::MAX));
        if let Some(found) = self.take(sent) {
            self.batch.newest = Some(found.stamp);
        }
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        _in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let Batch { bytes, newest, rtt_us, marked } = std::mem::take(&mut self.batch);
        let ce = if marked { bytes.div_ceil(self.driver.driver().conn().mss).max(1) } else { 0 };
        let ns = self.ns(now);
        self.driver.on_ack(ns, bytes, &Ack { newest, rtt_us, ce, ..Ack::default() });
        if app_limited {
            self.driver.driver_mut().on_app_limited();
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        let ns = self.ns(now);
        if lost_bytes == 0 && !is_persistent_congestion {
            // An ECN mark; it counts with the ACK that brought it.
            self.batch.marked = true;
            return;
        }
        self.lose(sent, lost_bytes);
        if is_persistent_congestion {
            self.driver.on_rto(ns);
            self.sent.clear();
        } else {
            self.driver.driver_mut().on_loss_timer(ns, None);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.driver.driver_mut().set_mss(u32::from(new_mtu));
    }

    fn window(&self) -> u64 {
        self.driver.cwnd().max(2 * u64::from(self.driver.driver().conn().mss))
    }

    fn metrics(&self) -> ControllerMetrics {
        let m = self.driver.driver().metrics();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = m.ssthresh.map(|packets| u64::from(packets) * u64::from(m.mss));
        metrics.pacing_rate = Some(m.pacing_rate.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        let conn = self.driver.driver().conn();
        u64::from(conn.initial_window) * u64::from(conn.mss)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn control<A: Algorithm + Clone + Default>(start: Instant) -> Control<A> {
        Control {
            driver: ByteDriver::new(A::default(), Config::quic(1200)),
            start,
            sent: VecDeque::new(),
            batch: Batch::default(),
        }
    }

    #[test]
    fn losses_are_the_oldest_unacknowledged_packets() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut c = control::<debloat_cc::Cubic>(start);
        for n in 0..10 {
            c.on_sent(at(n), 1200, n);
        }
        assert_eq!(c.window(), 12_000);
        c.take(at(3));
        c.take(at(4));
        c.on_congestion_event(at(50), at(1), false, 2400);
        assert_eq!(c.driver.in_flight(), 9600);
        assert_eq!(c.driver.driver().ssthresh(), 7);
        assert_eq!(c.sent.len(), 8);
    }

    #[test]
    fn a_mark_reduces_with_its_ack() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut c = control::<debloat_cc::Cubic>(start);
        for n in 0..10 {
            c.on_sent(at(0), 1200, n);
        }
        c.on_congestion_event(at(40), at(0), false, 0);
        c.on_end_acks(at(40), 0, false, Some(9));
        assert_eq!(c.driver.driver().state(), debloat_cc::CaState::Cwr);
        c.on_mtu_update(1400);
        assert!(c.metrics().congestion_window >= 2800);
        assert_eq!(c.clone_box().initial_window(), 14_000);
    }
}
