//! The port's connection variables and the kernel's, kept in step.

use debloat_cc::conn::EcnMode;
use debloat_cc::{Conn, Hz};
use debloat_harness::cc::names::CONN;
use debloat_harness::cc::private::Private;
use debloat_oracle::{Error, Field, KernelSocket, World};

/// Where the kernel keeps each variable of [`CONN`].
const PATHS: [(&str, &str); 37] = [
    ("now_ns", "tcp_clock_cache"),
    ("now_us", "tcp_mstamp"),
    ("cwnd", "snd_cwnd"),
    ("ssthresh", "snd_ssthresh"),
    ("ai_credit", "snd_cwnd_cnt"),
    ("cwnd_cap", "snd_cwnd_clamp"),
    ("peak_used", "snd_cwnd_used"),
    ("ssthresh_before", "prior_ssthresh"),
    ("cwnd_before", "prior_cwnd"),
    ("srtt8", "srtt_us"),
    ("mdev4", "mdev_us"),
    ("rttvar4", "rttvar_us"),
    ("min_rtt", "rtt_min.s[0].v"),
    ("mss", "mss_cache"),
    ("delivered", "delivered"),
    ("delivered_ce", "delivered_ce"),
    ("lost_total", "lost"),
    ("unacked", "packets_out"),
    ("retrans", "retrans_out"),
    ("sacked", "sacked_out"),
    ("lost", "lost_out"),
    ("app_lim", "app_limited"),
    ("una", "snd_una"),
    ("nxt", "snd_nxt"),
    ("peak_out", "max_packets_out"),
    ("recovery_point", "high_seq"),
    ("prr_out", "prr_out"),
    ("delivered_us", "delivered_mstamp"),
    ("first_us", "first_tx_mstamp"),
    ("edt_ns", "tcp_wstamp_ns"),
    ("pace_rate", "sk_pacing_rate"),
    ("max_pace", "sk_max_pacing_rate"),
    ("pace_mode", "sk_pacing_status"),
    ("state", "icsk_ca_state"),
    ("limited", "is_cwnd_limited"),
    ("last_send_j", "lsndtime"),
    ("rcv_nxt", "rcv_nxt"),
];

/// Variables outside [`CONN`] that only some comparisons use: name, path, reader, writer.
type Extra = (&'static str, &'static str, fn(&Conn) -> u64, fn(&mut Conn, u64));
const EXTRA: [Extra; 5] = [
    ("prr_delivered", "prr_delivered", |c| c.prr_delivered.into(), |c, v| c.prr_delivered = v as u32),
    ("saved_delivered", "rate_delivered", |c| c.saved_delivered.into(), |c, v| c.saved_delivered = v as u32),
    ("saved_interval", "rate_interval_us", |c| c.saved_interval.into(), |c, v| c.saved_interval = v as u32),
    ("saved_app_limited", "rate_app_limited", |c| c.saved_app_limited.into(), |c, v| c.saved_app_limited = v != 0),
    ("undo_mark", "undo_marker", |c| c.undo_mark.into(), |c, v| c.undo_mark = v as u32),
];

/// `TCP_ECN_OK`: ECN negotiated (RFC 3168).
const ECN_OK: u64 = 1;
/// `TCP_ECN_DEMAND_CWR`: echo congestion on everything sent.
const ECN_ECHO: u64 = 4;

struct Place {
    name: &'static str,
    field: Field,
    get: fn(&Conn) -> u64,
    /// What the kernel is known to hold.
    last: Option<u64>,
}

/// A kernel socket whose variables follow a [`Conn`].
pub struct Mirror<'s, 'w> {
    world: &'w World,
    socket: &'s KernelSocket<'w>,
    places: Vec<Place>,
    private_at: u64,
    ecn: Field,
    pending: Field,
    timer_bit: u64,
    now_bit: u64,
    /// Names that this kernel's sockets do not have.
    pub absent: Vec<String>,
}

impl<'s, 'w> Mirror<'s, 'w> {
    /// Resolves the variables of a socket.
    ///
    /// # Errors
    ///
    /// A socket without a private area.
    pub fn new(world: &'w World, socket: &'s KernelSocket<'w>) -> Result<Self, Error> {
        let mut places = Vec::new();
        let mut absent = Vec::new();
        let mut add = |name: &'static str, path: &str, get| match socket.field(path) {
            Ok(field) => places.push(Place { name, last: None, field, get }),
            Err(_) => absent.push(name.to_owned()),
        };
        for named in CONN {
            if let Some((name, path)) = PATHS.iter().find(|(name, _)| *name == named.name) {
                add(name, path, named.get);
            }
        }
        for (name, path, get, _) in EXTRA {
            add(name, path, get);
        }
        let private = socket.field("icsk_ca_priv")?;
        let private_at = socket.address() + private.plain_offset().unwrap_or(0);
        let bit = |name: &str, default| world.btf().enumerator(name).map_or(default, u64::from);
        Ok(Self {
            world,
            socket,
            places,
            private_at,
            ecn: socket.field("ecn_flags")?,
            pending: socket.field("icsk_ack.pending")?,
            timer_bit: bit("ICSK_ACK_TIMER", 2),
            now_bit: bit("ICSK_ACK_NOW", 16),
            absent,
        })
    }

    /// A connection as the kernel's own `tcp_init_sock` leaves it, with the port's defaults for the rest.
    pub fn conn(&self, hz: Hz) -> Conn {
        let mut c = Conn::new(1448, hz, self.world.jiffies() as u32);
        c.first_us = 0;
        c
    }

    /// Writes what changed since the last look into the kernel's socket.
    pub fn store(&mut self, c: &Conn) {
        for place in &mut self.places {
            let value = (place.get)(c);
            if place.last != Some(value) {
                self.socket.write(&place.field, value);
                place.last = Some(value);
            }
        }
        let ok = if c.ecn.mode == EcnMode::Off { 0 } else { ECN_OK };
        self.socket.write(&self.ecn, ok | if c.ecn.echo { ECN_ECHO } else { 0 });
        let pending = if c.delack_pending { self.timer_bit } else { 0 } | if c.ack_now { self.now_bit } else { 0 };
        self.socket.write(&self.pending, pending);
    }

    /// Compares every variable; the first that differs: its name, the kernel's value, the port's.
    pub fn compare(&mut self, c: &Conn, values: &mut u64) -> Option<(String, u64, u64)> {
        for place in &mut self.places {
            let kernel = self.socket.read(&place.field);
            place.last = Some(kernel);
            let port = (place.get)(c);
            if kernel != port {
                return Some((place.name.to_owned(), kernel, port));
            }
        }
        *values += self.places.len() as u64 + 2;
        let echo = u64::from(self.socket.read(&self.ecn) & ECN_ECHO != 0);
        if echo != u64::from(c.ecn.echo) {
            return Some(("echo".into(), echo, c.ecn.echo.into()));
        }
        let now = u64::from(self.socket.read(&self.pending) & self.now_bit != 0);
        (now != u64::from(c.ack_now)).then(|| ("ack_now".into(), now, c.ack_now.into()))
    }

    /// The kernel's private area.
    pub fn private(&self) -> Private {
        let mut bytes = [0; 104];
        for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.world.peek(self.private_at + 8 * i as u64, 8).to_le_bytes());
        }
        bytes
    }

    /// Overwrites the kernel's private area.
    pub fn set_private(&self, bytes: &Private) {
        for (i, chunk) in bytes.chunks_exact(8).enumerate() {
            let word = chunk.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            self.world.poke(self.private_at + 8 * i as u64, 8, word);
        }
    }
}
