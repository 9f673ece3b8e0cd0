use crate::Linux;
use crate::net::{FlowKeys, Headers, HostHashes, SipKey, dissect, ecn, siphash::siphash};

/// What a qdisc needs of a packet. Only the length is required; every other method has the default of a plain,
/// unsegmented packet without headers.
///
/// Lengths must not change while the packet is queued.
pub trait Packet: Sized {
    /// Qdisc length in bytes (spec/common.md §3, `L`): what backlogs, byte counters and deficits use. For a plain
    /// Ethernet frame its length with link header, without FCS.
    fn len_bytes(&self) -> u32;

    /// Bytes in the buffer (`N`): differs from the qdisc length only for GSO packets and under a size table.
    fn buffer_bytes(&self) -> u32 {
        self.len_bytes()
    }

    /// Memory charged to the packet (`S`, truesize). The default is a model: the length plus 768 bytes of metadata.
    fn truesize_bytes(&self) -> u32 {
        self.buffer_bytes().saturating_add(768)
    }

    /// Segmentation: how many wire segments the buffer holds, and how to cut them.
    fn gso(&self) -> Gso {
        Gso::NONE
    }

    /// Is the packet still charged to a local socket's send buffer? (7.2's fq_codel then counts no memory for it.)
    fn is_charged_to_socket(&self) -> bool {
        false
    }

    /// Packet priority: `major:minor` selects a class, the low four bits a band.
    fn priority(&self) -> u32 {
        0
    }

    /// Firewall mark.
    fn fwmark(&self) -> u32 {
        0
    }

    /// Earliest departure time in ns on the environment's clock; 0 for none.
    fn departure_ns(&self) -> u64 {
        0
    }

    /// The local socket that sent the packet, if it is known (fq).
    fn socket(&self) -> Option<Socket> {
        None
    }

    /// The linear header bytes, for packets that have them.
    fn headers(&self) -> Option<Headers<'_>> {
        None
    }

    /// The 32-bit flow hash (spec/common.md §8).
    fn flow_hash(&mut self, secret: SipKey) -> u32;

    /// The flow hash under a qdisc's own key (sfq): always computed afresh, from the headers where there are any
    /// (spec/common.md §8), else from [`flow_hash`](Self::flow_hash) as the flow's name.
    fn keyed_hash(&mut self, key: SipKey) -> u32 {
        if let Some(headers) = self.headers() {
            return crate::net::flow_hash(&headers, &key);
        }
        let name = self.flow_hash(key);
        (siphash(&key, &name.to_le_bytes()) as u32).max(1)
    }

    /// The DS field: IPv4 TOS or IPv6 traffic class, 8 bits; `None` for other packets or truncated headers.
    fn ds_field(&self) -> Option<u8> {
        None
    }

    /// Sets ECN to CE. True if the packet now carries CE (also if it did before), false if it is not ECN-capable
    /// (spec/common.md §7).
    fn try_mark_ce(&mut self) -> bool {
        false
    }

    /// Where the network header starts, bytes from the frame's start; 14 on untagged Ethernet.
    fn network_offset(&self) -> u32 {
        self.headers().map_or(14, |headers| headers.network_offset as u32)
    }

    /// The DSCP as cake reads it: 56 for ARP, 0 for other packets that are not IP (spec/cake.md §8.3).
    fn dscp(&self) -> u8 {
        match self.headers() {
            Some(Headers { bytes, network_offset, ethertype, .. }) => ecn::cake_dscp(bytes, network_offset, ethertype),
            None => self.ds_field().map_or(0, |ds_field| ds_field >> 2),
        }
    }

    /// Clears the DSCP, keeps ECN, and returns the [`dscp`](Self::dscp) from before; 0 if it could not be cleared, as
    /// the default does.
    fn wash(&mut self) -> u8 {
        0
    }

    /// The flow hash that the packet came with, from its socket or the network card (spec/cake.md §9.2).
    fn given_hash(&self) -> Option<u32> {
        None
    }

    /// What identifies the packet's flow and hosts; `None` for a packet without headers, for which cake takes
    /// [`flow_hash`](Self::flow_hash) and [`host_hashes`](Self::host_hashes).
    fn flow_keys(&self) -> Option<FlowKeys> {
        self.headers().map(|headers| dissect(&headers))
    }

    /// The hosts of a packet without headers; both 0 by default.
    fn host_hashes(&self) -> HostHashes {
        HostHashes::default()
    }

    /// What cake reckons with for a GSO packet that it keeps whole (spec/cake.md §7.2).
    fn gso_details(&self, linux: Linux) -> GsoDetails {
        let _ = linux;
        GsoDetails::default()
    }

    /// Segment `index` of a GSO packet as a packet of its own, whose qdisc length is that of its bytes. `None` if
    /// there is no such segment; for segment 0, if the packet cannot be split.
    fn segment(&self, index: usize) -> Option<Self> {
        let _ = index;
        None
    }
}

/// What a qdisc reads of the local socket that sent a packet (spec/fq.md §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The caller's name for the socket, with bit 0 clear; unique as long as a qdisc may remember the socket. In Linux
    /// it is the socket's address.
    pub id: u64,
    /// The connection's hash. A change tells that the socket serves another connection now.
    pub hash: u32,
    /// What kind of socket it is now.
    pub state: SocketState,
    /// Is it a TCP socket?
    pub tcp: bool,
    /// The rate at which the socket wants to be paced, bytes per second; `u64::MAX` is unlimited.
    pub pacing_rate: u64,
    /// The bound that the application put on it (`SO_MAX_PACING_RATE`), bytes per second; `u64::MAX` is none.
    pub max_pacing_rate: u64,
}

impl Socket {
    /// A connected TCP socket without pacing.
    pub const fn tcp(id: u64, hash: u32) -> Self {
        let state = SocketState::Connected;
        Self { id, hash, state, tcp: true, pacing_rate: u64::MAX, max_pacing_rate: u64::MAX }
    }
}

/// What kind of socket sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketState {
    /// Connected, or closing: the socket is a flow of its own.
    Connected,
    /// Closed in TCP's sense, such as an unconnected UDP socket: the packet's hash names the flow.
    Closed,
    /// A listener or a request for a connection: as if there were no socket.
    Listening,
    /// In TIME-WAIT.
    TimeWait,
}

/// More about a GSO packet than [`Gso`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GsoDetails {
    /// Bytes from the frame's start to the payload: what each segment repeats.
    pub header_bytes: u32,
    /// Is the stated number of segments not to be believed?
    pub untrusted: bool,
    /// Is it TCP that is segmented?
    pub tcp: bool,
}

/// Segmentation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Wire segments in the buffer, at least 1.
    pub segments: u16,
    /// Payload bytes per segment; 0 if the packet is not a GSO packet.
    pub segment_bytes: u16,
}

impl Gso {
    /// Not a GSO packet.
    pub const NONE: Self = Self { segments: 1, segment_bytes: 0 };
}

/// A packet without bytes, for simulations and tests: the attributes a qdisc reads, and an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The caller's name for the packet.
    pub id: u64,
    /// Qdisc length.
    pub len_bytes: u32,
    /// Memory charge.
    pub truesize_bytes: u32,
    /// Flow hash.
    pub flow_hash: u32,
    /// Packet priority.
    pub priority: u32,
    /// The DS field (DSCP and ECN), or `None` for a packet that is not IP.
    pub ds_field: Option<u8>,
    /// Segmentation.
    pub gso: Gso,
    /// Charged to a local socket.
    pub charged_to_socket: bool,
    /// Firewall mark.
    pub fwmark: u32,
    /// Source and destination host, any numbers: what cake isolates by.
    pub hosts: HostHashes,
}

impl Descriptor {
    /// An IP packet of this length, DS field 0 (not ECN-capable), truesize by the default model.
    pub const fn new(len_bytes: u32) -> Self {
        Self {
            id: 0,
            len_bytes,
            truesize_bytes: len_bytes.saturating_add(768),
            flow_hash: 0,
            priority: 0,
            ds_field: Some(0),
            gso: Gso::NONE,
            charged_to_socket: false,
            fwmark: 0,
            hosts: HostHashes { source: 0, destination: 0 },
        }
    }

    /// Names the packet.
    pub const fn with_id(mut self, id: u64) -> Self {
        self.id = id;
        self
    }

    /// Sets the flow hash.
    pub const fn with_flow_hash(mut self, hash: u32) -> Self {
        self.flow_hash = hash;
        self
    }

    /// Sets DSCP and ECN at once: `1` is ECT(1), `2` ECT(0), `3` CE with DSCP 0.
    pub const fn with_ds_field(mut self, ds_field: u8) -> Self {
        self.ds_field = Some(ds_field);
        self
    }

    /// Sets source and destination host.
    pub const fn with_hosts(mut self, source: u32, destination: u32) -> Self {
        self.hosts = HostHashes { source, destination };
        self
    }

    /// Sets the packet priority.
    pub const fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the firewall mark.
    pub const fn with_fwmark(mut self, mark: u32) -> Self {
        self.fwmark = mark;
        self
    }

    /// Makes it a GSO packet of that many segments, each of which has [`Descriptor::HEADER_BYTES`] of headers and
    /// all but the last `segment_bytes` of payload. The qdisc length is that of all segments together.
    pub const fn with_gso(mut self, segments: u16, segment_bytes: u16) -> Self {
        self.gso = Gso { segments, segment_bytes };
        self
    }

    /// Headers of each segment of a GSO packet: Ethernet, IPv4 and TCP with timestamps.
    pub const HEADER_BYTES: u32 = 66;

    /// Sets the memory charge.
    pub const fn with_truesize(mut self, truesize_bytes: u32) -> Self {
        self.truesize_bytes = truesize_bytes;
        self
    }
}

impl Packet for Descriptor {
    #[inline]
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }
    #[inline]
    fn buffer_bytes(&self) -> u32 {
        let repeated = u32::from(self.gso.segments.max(1) - 1).saturating_mul(Self::HEADER_BYTES);
        self.len_bytes.saturating_sub(repeated)
    }
    #[inline]
    fn truesize_bytes(&self) -> u32 {
        self.truesize_bytes
    }
    #[inline]
    fn gso(&self) -> Gso {
        self.gso
    }
    #[inline]
    fn fwmark(&self) -> u32 {
        self.fwmark
    }
    #[inline]
    fn is_charged_to_socket(&self) -> bool {
        self.charged_to_socket
    }
    #[inline]
    fn priority(&self) -> u32 {
        self.priority
    }
    #[inline]
    fn flow_hash(&mut self, _: SipKey) -> u32 {
        self.flow_hash
    }
    #[inline]
    fn ds_field(&self) -> Option<u8> {
        self.ds_field
    }
    #[inline]
    fn try_mark_ce(&mut self) -> bool {
        match &mut self.ds_field {
            Some(ds) if *ds & 3 != 0 => {
                *ds |= 3;
                true
            }
            _ => false,
        }
    }
    fn wash(&mut self) -> u8 {
        let dscp = self.dscp();
        self.ds_field = self.ds_field.map(|ds_field| ds_field & 3);
        dscp
    }
    #[inline]
    fn given_hash(&self) -> Option<u32> {
        Some(self.flow_hash)
    }
    #[inline]
    fn host_hashes(&self) -> HostHashes {
        self.hosts
    }
    fn gso_details(&self, _: Linux) -> GsoDetails {
        GsoDetails { header_bytes: Self::HEADER_BYTES, untrusted: false, tcp: true }
    }
    fn segment(&self, index: usize) -> Option<Self> {
        let others = usize::from(self.gso.segments.max(1) - 1);
        let full = u32::from(self.gso.segment_bytes) + Self::HEADER_BYTES;
        let len_bytes = match index {
            _ if others == 0 || index > others => return None,
            _ if index < others => full,
            _ => self.len_bytes.saturating_sub(full.saturating_mul(others as u32)),
        };
        let truesize_bytes = len_bytes.saturating_add(768);
        Some(Self { len_bytes, truesize_bytes, gso: Gso::NONE, ..*self })
    }
}
