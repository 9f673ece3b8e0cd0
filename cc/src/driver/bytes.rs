//! The driver for stacks that count bytes.

use super::{Ack, Config, Driver, Stamp};
use crate::algorithm::Algorithm;

/// A [`Driver`] in bytes, for datagram stacks that count them.
///
/// Linux counts packets; bytes become packets by running totals, so that many small packets weigh what their bytes do
/// and nothing is lost to rounding: after any history the packet counts are the byte totals divided by the MSS,
/// rounded up for what was sent and down for what was delivered or lost.
#[derive(Clone, Copy, Debug)]
pub struct ByteDriver<A> {
    driver: Driver<A>,
    /// Bytes of the last started packet already sent.
    sent: u32,
    /// Delivered bytes not yet a whole packet.
    delivered: u32,
    /// Lost bytes not yet a whole packet.
    lost: u32,
    /// Bytes in flight.
    in_flight: u64,
}

impl<A: Algorithm> ByteDriver<A> {
    /// A byte-counting driver around a fresh algorithm.
    #[must_use]
    pub fn new(algorithm: A, config: Config) -> Self {
        Self { driver: Driver::new(algorithm, config), sent: 0, delivered: 0, lost: 0, in_flight: 0 }
    }

    /// The driver underneath, for everything that is not counted in bytes.
    #[must_use]
    pub const fn driver(&self) -> &Driver<A> {
        &self.driver
    }

    /// The driver underneath, to be told of anything that is not counted in bytes.
    pub fn driver_mut(&mut self) -> &mut Driver<A> {
        &mut self.driver
    }

    /// Congestion window, bytes.
    #[must_use]
    pub fn cwnd(&self) -> u64 {
        u64::from(self.driver.cwnd()) * u64::from(self.driver.conn().mss)
    }

    /// Bytes in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes that the window allows now.
    #[must_use]
    pub fn window_space(&self) -> u64 {
        self.cwnd().saturating_sub(self.in_flight)
    }

    /// A packet of `bytes` leaves. The stamp counts the packets that this completes (possibly none).
    pub fn on_sent(&mut self, now_ns: u64, bytes: u32) -> Stamp {
        self.in_flight += u64::from(bytes);
        // Rounded up: a started packet counts.
        let mss = u64::from(self.driver.conn().mss);
        let room = u64::from(self.sent);
        let packets = if u64::from(bytes) > room { (u64::from(bytes) - room).div_ceil(mss) } else { 0 };
        self.sent = (room + packets * mss - u64::from(bytes)) as u32;
        self.driver.on_sent(now_ns, packets as u32)
    }

    /// A packet of `bytes` is declared lost; the reaction follows with the next ACK.
    pub fn on_packet_lost(&mut self, stamp: &Stamp, bytes: u32) {
        self.in_flight = self.in_flight.saturating_sub(u64::from(bytes));
        let packets = carry(&mut self.lost, bytes, self.driver.conn().mss);
        self.driver.on_packet_lost(&Stamp { packets, ..*stamp });
    }

    /// `bytes` were delivered by this ACK; [`Ack::delivered`] is computed from them.
    pub fn on_ack(&mut self, now_ns: u64, bytes: u32, ack: &Ack) {
        self.in_flight = self.in_flight.saturating_sub(u64::from(bytes));
        let delivered = carry(&mut self.delivered, bytes, self.driver.conn().mss);
        self.driver.on_ack(now_ns, &Ack { delivered, ..*ack });
        self.settle();
    }

    /// Timeout or persistent congestion: nothing is in flight any more.
    pub fn on_rto(&mut self, now_ns: u64) {
        (self.in_flight, self.sent, self.delivered, self.lost) = (0, 0, 0, 0);
        self.driver.on_rto(now_ns, None);
    }

    /// With nothing in flight the remainders start afresh.
    fn settle(&mut self) {
        if self.in_flight == 0 {
            (self.sent, self.delivered, self.lost) = (0, 0, 0);
            self.driver.flight_is_empty();
        }
    }
}

/// Adds `bytes` to a remainder; returns the whole packets.
fn carry(rest: &mut u32, bytes: u32, mss: u32) -> u32 {
    let total = u64::from(*rest) + u64::from(bytes);
    *rest = (total % u64::from(mss)) as u32;
    (total / u64::from(mss)) as u32
}

impl<A> Driver<A> {
    /// The byte counter knows that nothing is outstanding: drop what rounding left.
    fn flight_is_empty(&mut self) {
        self.conn.unacked = 0;
    }
}
