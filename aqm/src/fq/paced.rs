use crate::net::{Headers, SipKey};
use crate::{Gso, Packet, Socket};

/// Any packet together with the socket that sent it and its earliest departure time: what fq paces by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced<P> {
    /// The packet itself.
    pub packet: P,
    /// The sending socket.
    pub socket: Option<Socket>,
    /// Earliest departure, ns; 0 for none.
    pub departure_ns: u64,
}

impl<P> Paced<P> {
    /// A packet of a socket, without a departure time.
    pub const fn new(packet: P, socket: Socket) -> Self {
        Self { packet, socket: Some(socket), departure_ns: 0 }
    }

    /// Sets the departure time.
    pub const fn at_ns(mut self, departure_ns: u64) -> Self {
        self.departure_ns = departure_ns;
        self
    }
}

impl<P: Packet> Packet for Paced<P> {
    fn len_bytes(&self) -> u32 {
        self.packet.len_bytes()
    }
    fn buffer_bytes(&self) -> u32 {
        self.packet.buffer_bytes()
    }
    fn truesize_bytes(&self) -> u32 {
        self.packet.truesize_bytes()
    }
    fn gso(&self) -> Gso {
        self.packet.gso()
    }
    fn is_charged_to_socket(&self) -> bool {
        self.packet.is_charged_to_socket()
    }
    fn priority(&self) -> u32 {
        self.packet.priority()
    }
    fn fwmark(&self) -> u32 {
        self.packet.fwmark()
    }
    fn departure_ns(&self) -> u64 {
        self.departure_ns
    }
    fn socket(&self) -> Option<Socket> {
        self.socket
    }
    fn headers(&self) -> Option<Headers<'_>> {
        self.packet.headers()
    }
    fn flow_hash(&mut self, secret: SipKey) -> u32 {
        self.packet.flow_hash(secret)
    }
    fn keyed_hash(&mut self, key: SipKey) -> u32 {
        self.packet.keyed_hash(key)
    }
    fn ds_field(&self) -> Option<u8> {
        self.packet.ds_field()
    }
    fn try_mark_ce(&mut self) -> bool {
        self.packet.try_mark_ce()
    }
    fn segment(&self, index: usize) -> Option<Self> {
        Some(Self { packet: self.packet.segment(index)?, socket: self.socket, departure_ns: self.departure_ns })
    }
}
