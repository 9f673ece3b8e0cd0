//! The network namespace: sysctls and counters, initialised by the kernel itself.

use crate::error::{Error, Result, TypeError};
use crate::world::World;

/// Per-cpu counter blocks of a namespace: (member of `net.mib`, structure).
const MIBS: [(&str, &str); 3] =
    [("net_statistics", "linux_mib"), ("tcp_statistics", "tcp_mib"), ("ip_statistics", "ipstats_mib")];

impl World {
    /// The image's own `init_net`, with the TCP part initialised on first use.
    pub(crate) fn net(&self) -> Result<u64> {
        let rt = &*self.rt;
        let net = rt.symbol("init_net")?;
        let btf = self.btf();
        let counters = btf.field("net", "mib.net_statistics")?;
        if self.read_field(&counters, net) != 0 {
            return Ok(net);
        }
        for (member, structure) in MIBS {
            let block = rt.heap(btf.size_of(structure)?)?;
            self.write_field(&btf.field("net", &format!("mib.{member}"))?, net, block.wrapping_sub(rt.gs_base));
        }
        // Counters of sockets, per cpu, were never allocated.
        if let Some(counter) = rt.image.symbol("tcp_sockets_allocated") {
            let block = rt.heap(64)?;
            let field = btf.field("percpu_counter", "counters")?;
            self.write_field(&field, counter, block.wrapping_sub(rt.gs_base));
        }
        let code = rt.call(rt.symbol("tcp_sk_init")?, &[net])? as i32;
        if code != 0 {
            return Err(Error::Request(format!("tcp_sk_init returned {code}")));
        }
        Ok(net)
    }

    fn sysctl_field(&self, name: &str) -> Result<(crate::image::Field, u64)> {
        let path = format!("ipv4.sysctl_{name}");
        Ok((self.btf().field("net", &path)?, self.net()?))
    }

    /// A sysctl of `net.ipv4`, by its name without prefix, e.g. "tcp_pacing_ss_ratio".
    ///
    /// # Errors
    /// This kernel has no such sysctl.
    pub fn sysctl(&self, name: &str) -> Result<u64> {
        let (field, net) = self.sysctl_field(name)?;
        Ok(self.read_field(&field, net))
    }

    /// Sets a sysctl of `net.ipv4` (all values at first are the kernel's own defaults).
    ///
    /// # Errors
    /// This kernel has no such sysctl.
    pub fn set_sysctl(&self, name: &str, value: u64) -> Result<()> {
        let (field, net) = self.sysctl_field(name)?;
        self.write_field(&field, net, value);
        Ok(())
    }

    /// A counter of `nstat`'s `TcpExt`, by the kernel's enumerator, e.g. "LINUX_MIB_TCPHYSTARTDELAYDETECT".
    ///
    /// # Errors
    /// This kernel's type information has no such enumerator.
    pub fn mib(&self, enumerator: &str) -> Result<u64> {
        let btf = self.btf();
        let index = btf.enumerator(enumerator).ok_or_else(|| TypeError::NoType(enumerator.into()))?;
        let net = self.net()?;
        let block = self.read_field(&btf.field("net", "mib.net_statistics")?, net).wrapping_add(self.rt.gs_base);
        Ok(self.rt.mem.read(block + 8 * u64::from(index)))
    }
}
