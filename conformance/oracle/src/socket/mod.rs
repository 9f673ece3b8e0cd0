//! Sockets: `struct tcp_sock` with every field reachable by name.

mod control;
mod core_calls;
mod net;
mod sample;

pub use control::{Control, Hook};
pub use core_calls::WindowedFilter;
pub use sample::{AckSample, RateSample};

use crate::error::{Result, TypeError};
use crate::image::Field;
use crate::memory::Memory;
use crate::runtime::Runtime;
use crate::world::World;

/// A socket of the world, to be named in a [`crate::PacketSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRef {
    pub(crate) address: u64,
}

/// The nested structures of a TCP socket, outermost first: a field is looked for in this order.
const LAYERS: [&str; 5] =
    ["", "inet_conn.", "inet_conn.icsk_inet.", "inet_conn.icsk_inet.sk.", "inet_conn.icsk_inet.sk.__sk_common."];

/// `TCP_ESTABLISHED`.
const ESTABLISHED: u64 = 1;

/// A TCP socket in established state, initialised by the kernel's own `tcp_init_sock`.
///
/// Only what algorithms read is meaningful: there is no peer, no queue, no route.
#[derive(Debug)]
pub struct KernelSocket<'w> {
    world: &'w World,
    address: u64,
    /// `struct socket` behind it: flags that the kernel sets.
    file: u64,
    clock_cache: Option<Field>,
    mstamp: Field,
}

/// Resolves a field of a TCP socket by its plain name, whichever of the nested structures holds it.
fn resolve(world: &World, path: &str) -> Result<Field> {
    let btf = world.btf();
    LAYERS
        .iter()
        .find_map(|layer| btf.field("tcp_sock", &format!("{layer}{path}")).ok())
        .ok_or_else(|| TypeError::NoField { path: format!("tcp_sock.{path}"), field: path.into() }.into())
}

impl World {
    /// A new TCP socket: the kernel's initial values, then established, with an MSS of 1448 bytes.
    ///
    /// # Errors
    /// Trouble inside the kernel code, or a kernel without one of the fields.
    pub fn create_socket(&self) -> Result<KernelSocket<'_>> {
        let rt = &*self.rt;
        let net = self.net()?;
        let address = rt.heap(self.btf().size_of("tcp_sock")?)?;
        let file = rt.heap(self.btf().size_of("socket")?)?;
        let socket = KernelSocket {
            world: self,
            address,
            file,
            clock_cache: resolve(self, "tcp_clock_cache").ok(),
            mstamp: resolve(self, "tcp_mstamp")?,
        };
        socket.set("skc_net.net", net)?;
        socket.set("skc_prot", rt.symbol("tcp_prot")?)?;
        socket.set("sk_socket", file)?;
        for (name, value) in [
            ("skc_family", 2),
            ("skc_refcnt.refs.counter", 1),
            ("sk_type", 1),
            ("sk_protocol", 6),
            ("sk_wmem_alloc.refs.counter", 1 << 24),
            ("sk_max_pacing_rate", u64::MAX),
            ("sk_pacing_rate", u64::MAX),
            ("sk_pacing_shift", 10),
            ("sk_gso_max_size", 65_536 - 1 - 320),
            ("sk_gso_max_segs", 65_535),
        ] {
            socket.set(name, value)?;
        }
        rt.call(rt.symbol("tcp_init_sock")?, &[address])?;
        socket.set("skc_state", ESTABLISHED)?;
        socket.set("mss_cache", 1448)?;
        Ok(socket)
    }
}

impl<'w> KernelSocket<'w> {
    fn rt(&self) -> &'w Runtime {
        &self.world.rt
    }

    fn mem(&self) -> &'w Memory {
        &self.world.rt.mem
    }

    /// The world it lives in.
    #[must_use]
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// For packets that this socket sends.
    #[must_use]
    pub fn reference(&self) -> SocketRef {
        SocketRef { address: self.address }
    }

    /// Address of the kernel's `struct tcp_sock`.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Resolves a field once by its plain name: "snd_cwnd", "icsk_ca_state", "sk_pacing_rate",
    /// "rtt_min.s[0].v", "skc_hash", whichever of the nested structures holds it.
    ///
    /// # Errors
    /// This kernel's sockets have no such field.
    pub fn field(&self, path: &str) -> Result<Field> {
        resolve(self.world, path)
    }

    /// Reads a resolved field, zero-extended.
    #[inline]
    #[must_use]
    pub fn read(&self, field: &Field) -> u64 {
        field.read(self.mem(), self.address)
    }

    /// Reads a resolved field, sign-extended if the kernel's type is signed.
    #[inline]
    #[must_use]
    pub fn read_signed(&self, field: &Field) -> i64 {
        field.read_signed(self.mem(), self.address)
    }

    /// Writes the low bits of `value`.
    #[inline]
    pub fn write(&self, field: &Field, value: u64) {
        field.write(self.mem(), self.address, value);
    }

    /// Reads a field by name; resolve it with [`KernelSocket::field`] for repeated reads.
    ///
    /// # Errors
    /// As for [`KernelSocket::field`].
    pub fn get(&self, path: &str) -> Result<u64> {
        Ok(self.read(&self.field(path)?))
    }

    /// Writes a field by name.
    ///
    /// # Errors
    /// As for [`KernelSocket::field`].
    pub fn set(&self, path: &str, value: u64) -> Result<()> {
        self.write(&self.field(path)?, value);
        Ok(())
    }

    /// Sets the socket's cached clock as the kernel does at the start of an event: `tcp_clock_cache` in ns and
    /// `tcp_mstamp` in µs.
    pub fn set_clock(&self, now_ns: u64) {
        if let Some(cache) = &self.clock_cache {
            self.write(cache, now_ns);
        }
        self.write(&self.mstamp, now_ns / 1000);
    }
}

impl Drop for KernelSocket<'_> {
    fn drop(&mut self) {
        let rt = self.rt();
        let size = self.world.btf().size_of("tcp_sock").unwrap_or(0) as u64;
        let range = self.address..self.address + size;
        rt.env.timers.borrow_mut().retain(|(t, _)| !range.contains(t));
        rt.heap_free(self.address);
        rt.heap_free(self.file);
    }
}
