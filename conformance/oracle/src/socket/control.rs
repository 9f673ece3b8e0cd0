//! Congestion controls: attaching one to a socket and calling its hooks.

use super::sample::{AckFields, RateFields};
use super::{AckSample, KernelSocket, RateSample};
use crate::error::{Error, Result, TypeError};
use crate::image::{Btf, Field};
use crate::world::World;
use std::rc::Rc;

macro_rules! hooks {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// The hooks of `struct tcp_congestion_ops`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Hook { $($(#[$doc])* $variant),* }

        impl Hook {
            /// All hooks.
            pub const ALL: &'static [Hook] = &[$(Hook::$variant),*];

            /// The kernel's name for it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Hook::$variant => $name),* }
            }
        }
    };
}

hooks! {
    /// Attached.
    Init = "init",
    /// Detached.
    Release = "release",
    /// New threshold.
    Ssthresh = "ssthresh",
    /// Window growth.
    CongAvoid = "cong_avoid",
    /// State change.
    SetState = "set_state",
    /// Window events.
    CwndEvent = "cwnd_event",
    /// The transmission-start event (a hook of its own in 7.x).
    CwndEventTxStart = "cwnd_event_tx_start",
    /// Per ACK, early.
    InAckEvent = "in_ack_event",
    /// Per ACK with an RTT.
    PktsAcked = "pkts_acked",
    /// Smallest burst.
    MinTsoSegs = "min_tso_segs",
    /// Replaces growth and reduction.
    CongControl = "cong_control",
    /// After a spurious reduction.
    UndoCwnd = "undo_cwnd",
    /// Send buffer multiplier.
    SndbufExpand = "sndbuf_expand",
    /// Diagnostics.
    GetInfo = "get_info",
}

/// A congestion control attached to a socket. Hooks take and return the kernel's own units.
#[derive(Debug)]
pub struct Control<'s, 'w> {
    socket: &'s KernelSocket<'w>,
    name: String,
    ops: u64,
    hooks: [u64; Hook::ALL.len()],
    control_arity: usize,
    rate: RateFields,
    ack: AckFields,
    rate_at: u64,
    ack_at: u64,
    private: Field,
    btf: Rc<Btf>,
}

/// The name of a control's private structure where it differs from its own.
fn private_structure(name: &str) -> &str {
    match name {
        "cubic" | "bic" => "bictcp",
        "highspeed" => "hstcp",
        other => other,
    }
}

impl World {
    /// The operations table of a congestion control, its registration (which computes constants) having run.
    pub(crate) fn control_ops(&self, name: &str) -> Result<u64> {
        let rt = &*self.rt;
        let at = self.btf().offset("tcp_congestion_ops", "name")?;
        let registered = || rt.controls.borrow().iter().copied().find(|ops| rt.mem.c_str(ops + at) == name);
        if let Some(ops) = registered() {
            return Ok(ops);
        }
        if name == "reno" {
            return rt.symbol("tcp_reno");
        }
        let built_in =
            [format!("{name}tcp_register"), format!("{name}_register")].into_iter().find_map(|n| rt.image.symbol(&n));
        match built_in {
            Some(register) => {
                rt.call(register, &[])?;
            }
            None => self.load_module(&format!("tcp_{name}"))?,
        }
        registered().ok_or_else(|| Error::NoAlgorithm {
            what: "congestion control",
            name: name.into(),
            release: rt.release.clone(),
        })
    }
}

impl<'w> KernelSocket<'w> {
    /// Attaches a congestion control (loading its module, running its registration): its private area is
    /// zeroed, its table set. [`Control::init`] is the caller's to call.
    ///
    /// # Errors
    /// [`Error::NoModule`] or [`Error::NoAlgorithm`] when the kernel has no such control.
    pub fn attach(&self, name: &str) -> Result<Control<'_, 'w>> {
        let ops = self.world.control_ops(name)?;
        let (rt, btf) = (self.rt(), self.world.btf());
        let mut hooks = [0; Hook::ALL.len()];
        for (slot, hook) in hooks.iter_mut().zip(Hook::ALL) {
            // A hook that this version does not have is absent.
            if let Ok(at) = btf.offset("tcp_congestion_ops", hook.name()) {
                *slot = rt.mem.read(ops + at);
            }
        }
        let private = self.field("icsk_ca_priv")?;
        rt.mem.zero(private.locate(&rt.mem, self.address), private.size() as u64);
        self.set("icsk_ca_ops", ops)?;
        let (rate, ack) = (RateFields::new(self.world)?, AckFields::new(self.world)?);
        Ok(Control {
            socket: self,
            name: name.into(),
            ops,
            hooks,
            control_arity: btf.hook_arity("tcp_congestion_ops", "cong_control").unwrap_or(0),
            rate_at: rt.heap(rate.size())?,
            ack_at: rt.heap(ack.size())?,
            rate,
            ack,
            private,
            btf: self.world.btf_of(&format!("tcp_{name}")),
        })
    }
}

impl Control<'_, '_> {
    /// The control's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of its operations table.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// Name of the control that is attached now: `init` may have put another in place.
    ///
    /// # Errors
    /// The type information lacks the fields.
    pub fn attached(&self) -> Result<String> {
        let ops = self.socket.get("icsk_ca_ops")?;
        let at = self.socket.world.btf().offset("tcp_congestion_ops", "name")?;
        Ok(self.socket.mem().c_str(ops + at))
    }

    /// True when the control has this hook.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        self.address(hook) != 0
    }

    fn address(&self, hook: Hook) -> u64 {
        Hook::ALL.iter().position(|h| *h == hook).map_or(0, |i| self.hooks[i])
    }

    fn call(&self, hook: Hook, args: &[u64]) -> Result<u64> {
        let function = self.address(hook);
        if function == 0 {
            return Err(Error::NoHook { owner: self.name.clone(), hook: hook.name().into() });
        }
        let mut words = [self.socket.address; 6];
        words[1..=args.len()].copy_from_slice(args);
        self.socket.rt().call(function, &words[..=args.len()])
    }

    /// `init`; fine when the control has none.
    ///
    /// # Errors
    /// Trouble inside the kernel code (as for all hooks).
    pub fn init(&self) -> Result<()> {
        if self.has(Hook::Init) { self.call(Hook::Init, &[]).map(|_| ()) } else { Ok(()) }
    }

    /// `release`; fine when the control has none.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn release(&self) -> Result<()> {
        if self.has(Hook::Release) { self.call(Hook::Release, &[]).map(|_| ()) } else { Ok(()) }
    }

    /// `ssthresh`: the new threshold, packets.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn ssthresh(&self) -> Result<u32> {
        Ok(self.call(Hook::Ssthresh, &[])? as u32)
    }

    /// `cong_avoid`.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn cong_avoid(&self, ack: u32, acked: u32) -> Result<()> {
        self.call(Hook::CongAvoid, &[ack.into(), acked.into()]).map(|_| ())
    }

    /// The `set_state` hook alone; `icsk_ca_state` is the caller's to set afterwards.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn set_state(&self, new: u8) -> Result<()> {
        self.call(Hook::SetState, &[new.into()]).map(|_| ())
    }

    /// `cwnd_event` with the kernel's event number (enumerators `CA_EVENT_*`).
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn cwnd_event(&self, event: u32) -> Result<()> {
        self.call(Hook::CwndEvent, &[event.into()]).map(|_| ())
    }

    /// The transmission-start event, by whichever hook this version has for it. False: the control does not
    /// want it.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn tx_start(&self) -> Result<bool> {
        if self.has(Hook::CwndEventTxStart) {
            self.call(Hook::CwndEventTxStart, &[])?;
            return Ok(true);
        }
        let own_hook = self.socket.world.btf().offset("tcp_congestion_ops", "cwnd_event_tx_start").is_ok();
        if own_hook || !self.has(Hook::CwndEvent) {
            return Ok(false);
        }
        let event = self.event("CA_EVENT_TX_START")?;
        self.cwnd_event(event)?;
        Ok(true)
    }

    /// The number of a window event in this version, e.g. "CA_EVENT_CWND_RESTART".
    ///
    /// # Errors
    /// This version has no such event.
    pub fn event(&self, enumerator: &str) -> Result<u32> {
        let value = self.socket.world.btf().enumerator(enumerator);
        value.ok_or_else(|| TypeError::NoType(enumerator.into()).into())
    }

    /// `in_ack_event` with its flag bits.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn in_ack_event(&self, flags: u32) -> Result<()> {
        self.call(Hook::InAckEvent, &[flags.into()]).map(|_| ())
    }

    /// `pkts_acked`.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn pkts_acked(&self, sample: &AckSample) -> Result<()> {
        self.ack.store(self.socket.mem(), self.ack_at, sample)?;
        self.call(Hook::PktsAcked, &[self.ack_at]).map(|_| ())
    }

    /// `min_tso_segs`.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn min_tso_segs(&self) -> Result<u32> {
        Ok(self.call(Hook::MinTsoSegs, &[])? as u32)
    }

    /// `cong_control`; `ack` and `flag` are passed from 6.12 on. The sample comes back as the hook left it.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn cong_control(&self, ack: u32, flag: i32, sample: &RateSample) -> Result<RateSample> {
        let mem = self.socket.mem();
        self.rate.store(mem, self.rate_at, sample)?;
        if self.control_arity <= 2 {
            self.call(Hook::CongControl, &[self.rate_at])?;
        } else {
            self.call(Hook::CongControl, &[ack.into(), flag as u32 as u64, self.rate_at])?;
        }
        Ok(self.rate.load(mem, self.rate_at))
    }

    /// `undo_cwnd`: the window to go back to, packets.
    ///
    /// # Errors
    /// Trouble inside the kernel code.
    pub fn undo_cwnd(&self) -> Result<u32> {
        Ok(self.call(Hook::UndoCwnd, &[])? as u32)
    }

    /// `sndbuf_expand`.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn sndbuf_expand(&self) -> Result<u32> {
        Ok(self.call(Hook::SndbufExpand, &[])? as u32)
    }

    /// `get_info` for an extension mask (bit of `INET_DIAG_*` minus 1): attribute number and bytes, if it has
    /// anything to say.
    ///
    /// # Errors
    /// [`Error::NoHook`], or trouble inside the kernel code.
    pub fn get_info(&self, extensions: u32) -> Result<Option<(u32, Vec<u8>)>> {
        let rt = self.socket.rt();
        let info = rt.heap(64)?;
        let attribute = rt.heap(8)?;
        let len = self.call(Hook::GetInfo, &[extensions.into(), attribute, info]);
        let (kind, bytes) = (rt.mem.read::<u32>(attribute), rt.mem.bytes(info, 64).to_vec());
        rt.heap_free(info);
        rt.heap_free(attribute);
        let len = len? as usize;
        Ok((len != 0).then(|| (kind, bytes[..len.min(64)].to_vec())))
    }

    /// Resolves a path in the control's private area, e.g. "cnt" for cubic, "min_rtt_us" for bbr.
    ///
    /// # Errors
    /// The type information has no such path, or the private structure is unknown.
    pub fn private_field(&self, path: &str) -> Result<Field> {
        let structure = private_structure(&self.name);
        let base = self.private.plain_offset().unwrap_or(0);
        Ok(self.btf.field(structure, path)?.moved(base))
    }

    /// Reads one private path; resolve it with [`Control::private_field`] for repeated reads.
    ///
    /// # Errors
    /// As for [`Control::private_field`].
    pub fn private(&self, path: &str) -> Result<u64> {
        Ok(self.socket.read(&self.private_field(path)?))
    }

    /// Size of the private structure, bytes.
    ///
    /// # Errors
    /// The private structure is unknown.
    pub fn private_size(&self) -> Result<usize> {
        Ok(self.btf.size_of(private_structure(&self.name))?)
    }

    /// The whole private area (104 bytes) as it is.
    pub fn private_bytes(&self, into: &mut Vec<u8>) {
        into.clear();
        let mem = self.socket.mem();
        let at = self.private.locate(mem, self.socket.address);
        into.extend_from_slice(mem.bytes(at, self.private.size() as u64));
    }

    /// The socket it is attached to.
    #[must_use]
    pub fn socket(&self) -> &KernelSocket<'_> {
        self.socket
    }
}

impl Drop for Control<'_, '_> {
    fn drop(&mut self) {
        let rt = self.socket.rt();
        rt.heap_free(self.rate_at);
        rt.heap_free(self.ack_at);
    }
}
