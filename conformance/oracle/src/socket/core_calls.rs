//! The TCP core's own functions, called directly on a socket.

use super::{KernelSocket, RateSample};
use crate::error::{Error, Result, TypeError};
use crate::socket::sample::RateFields;
use crate::world::World;

impl KernelSocket<'_> {
    /// Calls a kernel function whose first parameter is the socket.
    ///
    /// # Errors
    /// [`Error::NoSymbol`] when this kernel has folded it into a caller; trouble inside the kernel code. The
    /// caller must know the signature.
    pub fn call(&self, function: &str, args: &[u64]) -> Result<u64> {
        if args.len() > 5 {
            return Err(Error::Request(format!("{function}: more than six arguments")));
        }
        let mut words = [self.address; 6];
        words[1..=args.len()].copy_from_slice(args);
        self.world.call(function, &words[..=args.len()])
    }

    /// Number of parameters by the type information, to tell versions apart.
    fn parameters(&self, function: &str) -> Result<usize> {
        let list = self.world.btf().parameters(function);
        list.map(|p| p.len()).ok_or_else(|| TypeError::NoType(function.into()).into())
    }

    /// `tcp_slow_start`: packets left over for congestion avoidance.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn slow_start(&self, acked: u32) -> Result<u32> {
        Ok(self.call("tcp_slow_start", &[acked.into()])? as u32)
    }

    /// `tcp_cong_avoid_ai` with divisor `w`.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn cong_avoid_ai(&self, w: u32, acked: u32) -> Result<()> {
        self.call("tcp_cong_avoid_ai", &[w.into(), acked.into()]).map(|_| ())
    }

    /// `tcp_cwnd_reduction` (PRR): packets newly delivered, newly lost, and the ACK's flag bits.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn cwnd_reduction(&self, newly_acked_sacked: i32, newly_lost: i32, flag: i32) -> Result<()> {
        let word = |v: i32| u64::from(v as u32);
        let args = [word(newly_acked_sacked), word(newly_lost), word(flag)];
        self.call("tcp_cwnd_reduction", &args).map(|_| ())
    }

    /// `tcp_update_pacing_rate`.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn update_pacing_rate(&self) -> Result<()> {
        self.call("tcp_update_pacing_rate", &[]).map(|_| ())
    }

    /// `tcp_set_ca_state`: the hook, then the state.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn set_ca_state(&self, state: u8) -> Result<()> {
        self.call("tcp_set_ca_state", &[state.into()]).map(|_| ())
    }

    /// `tcp_enter_cwr`: begins a reduction without loss (sets the state, threshold and PRR start).
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn enter_cwr(&self) -> Result<()> {
        self.call("tcp_enter_cwr", &[]).map(|_| ())
    }

    /// `tcp_mstamp_refresh`: reads the clock into the socket.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn mstamp_refresh(&self) -> Result<()> {
        self.call("tcp_mstamp_refresh", &[]).map(|_| ())
    }

    /// `tcp_tso_segs`-style burst size: `tcp_tso_autosize` is folded into it.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn tso_segs(&self, mss: u32) -> Result<u32> {
        Ok(self.call("tcp_tso_segs", &[mss.into()])? as u32)
    }

    /// `tcp_rate_gen` (6.1 and 6.12; later kernels fold it into the ACK path): completes a rate sample.
    ///
    /// # Errors
    /// As for [`KernelSocket::call`].
    pub fn rate_gen(&self, delivered: u32, lost: u32, reneged: bool, sample: &RateSample) -> Result<RateSample> {
        let rt = self.rt();
        rt.symbol("tcp_rate_gen")?;
        let fields = RateFields::new(self.world)?;
        let at = rt.heap(fields.size())?;
        let done = fields.store(&rt.mem, at, sample).and_then(|()| {
            if self.parameters("tcp_rate_gen")? != 5 {
                return Err(Error::Request("tcp_rate_gen has another signature here".into()));
            }
            self.call("tcp_rate_gen", &[delivered.into(), lost.into(), reneged.into(), at])
        });
        let result = fields.load(&rt.mem, at);
        rt.heap_free(at);
        done?;
        Ok(result)
    }
}

/// The kernel's windowed minimum or maximum (`struct minmax`).
#[derive(Debug)]
pub struct WindowedFilter<'w> {
    world: &'w World,
    address: u64,
}

impl World {
    /// A windowed filter, all zero.
    ///
    /// # Errors
    /// The arena is full, or the kernel has no such structure.
    pub fn windowed_filter(&self) -> Result<WindowedFilter<'_>> {
        let address = self.rt.heap(self.btf().size_of("minmax")?)?;
        Ok(WindowedFilter { world: self, address })
    }

    /// A module parameter through the kernel's own formatter, e.g. `("tcp_cubic", "fast_convergence")`.
    ///
    /// # Errors
    /// No such parameter, or trouble inside the kernel code.
    pub fn parameter(&self, module: &str, name: &str) -> Result<String> {
        let (param, ops) = self.find_parameter(module, name)?;
        let rt = &*self.rt;
        let get: u64 = rt.mem.read(ops + self.btf().offset("kernel_param_ops", "get")?);
        let buffer = rt.heap(4096)?;
        let len = rt.call(get, &[buffer, param]);
        let text = rt.mem.c_str(buffer).trim().to_owned();
        rt.heap_free(buffer);
        match len? as i32 {
            code if code < 0 => Err(Error::Request(format!("{module}.{name}: read returned {code}"))),
            _ => Ok(text),
        }
    }

    /// Sets a module parameter through the kernel's own parser. Constants computed at registration do not
    /// follow: see [`World::register_again`].
    ///
    /// # Errors
    /// [`Error::Refused`] for a value the kernel does not take.
    pub fn set_parameter(&self, module: &str, name: &str, value: &str) -> Result<()> {
        let (param, ops) = self.find_parameter(module, name)?;
        let rt = &*self.rt;
        let set: u64 = rt.mem.read(ops + self.btf().offset("kernel_param_ops", "set")?);
        let text = rt.heap(value.len() + 1)?;
        rt.mem.write_bytes(text, value.as_bytes());
        let code = rt.call(set, &[text, param]);
        rt.heap_free(text);
        match code? as i32 {
            code if code < 0 => Err(Error::Refused(crate::Refusal { errno: -code, text: None })),
            _ => Ok(()),
        }
    }

    /// Runs a congestion control's registration again, so that constants derived from parameters follow.
    ///
    /// # Errors
    /// The kernel has no such control, or trouble inside the kernel code.
    pub fn register_again(&self, control: &str) -> Result<()> {
        self.control_ops(control)?;
        let register = [format!("{control}tcp_register"), format!("{control}_register"), "init_module".into()];
        let at = {
            let modules = self.rt.modules.borrow();
            let module = modules.iter().find(|m| m.name == format!("tcp_{control}"));
            let own = |n: &String| module.and_then(|m| m.symbols.get(n).copied());
            register.iter().find_map(|n| own(n).or_else(|| self.rt.image.symbol(n)))
        };
        let at = at.ok_or_else(|| Error::NoSymbol(register[0].clone()))?;
        self.rt.call(at, &[])?;
        Ok(())
    }

    /// (address of the `struct kernel_param`, address of its operations).
    fn find_parameter(&self, module: &str, name: &str) -> Result<(u64, u64)> {
        let (rt, btf) = (&*self.rt, self.btf());
        let (at_name, at_ops) = (btf.offset("kernel_param", "name")?, btf.offset("kernel_param", "ops")?);
        let size = btf.size_of("kernel_param")?;
        let own = rt.modules.borrow().iter().find(|m| m.name == module).and_then(|m| m.params);
        let range = match own {
            Some(section) => section.start..section.end,
            None => rt.symbol("__start___param")?..rt.symbol("__stop___param")?,
        };
        let full = format!("{module}.{name}");
        for param in range.step_by(size) {
            let text = rt.mem.c_str(rt.mem.read(param + at_name));
            if text == full || (own.is_some() && text == name) {
                return Ok((param, rt.mem.read(param + at_ops)));
            }
        }
        Err(Error::Request(format!("module {module} has no parameter `{name}`")))
    }
}

impl WindowedFilter<'_> {
    fn run(&self, function: &str, window: u32, time: u32, value: u32) -> Result<u32> {
        Ok(self.world.call(function, &[self.address, window.into(), time.into(), value.into()])? as u32)
    }

    /// `minmax_running_max`.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn running_max(&self, window: u32, time: u32, value: u32) -> Result<u32> {
        self.run("minmax_running_max", window, time, value)
    }

    /// `minmax_running_min`.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn running_min(&self, window: u32, time: u32, value: u32) -> Result<u32> {
        self.run("minmax_running_min", window, time, value)
    }

    /// The three samples as (time, value), best first.
    #[must_use]
    pub fn samples(&self) -> [(u32, u32); 3] {
        let mem = &self.world.rt.mem;
        std::array::from_fn(|i| {
            let at = self.address + 8 * i as u64;
            (mem.read(at), mem.read(at + 4))
        })
    }

    /// Sets all three samples, as a reset does.
    pub fn reset(&self, time: u32, value: u32) {
        for i in 0..3 {
            self.world.rt.mem.write(self.address + 8 * i, time);
            self.world.rt.mem.write(self.address + 8 * i + 4, value);
        }
    }
}

impl Drop for WindowedFilter<'_> {
    fn drop(&mut self) {
        self.world.rt.heap_free(self.address);
    }
}
