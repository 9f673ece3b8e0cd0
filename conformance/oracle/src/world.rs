//! A loaded kernel.

use crate::catalog::Kernel;
use crate::env::{self, Environment};
use crate::error::{Error, Result};
use crate::image::{self, Btf, Bugs, Image};
use crate::memory::{Arena, Mapping, Memory};
use crate::packet::{Layout, PacketRef};
use crate::runtime::{self, Notes, Runtime};
use crate::signal;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where things lie and what the boot-time secrets are.
#[derive(Clone, Copy, Debug)]
pub struct WorldOptions {
    /// Address of the image's text; a multiple of 2 MiB below 2 GiB.
    pub image_base: u64,
    /// Address of the arena (heap, modules, stubs); page-aligned, below 2 GiB.
    pub arena_base: u64,
    /// Address space of the arena, bytes; only touched pages cost memory.
    pub arena_size: u64,
    /// The 128-bit SipHash secret of the flow hash, as two little-endian words.
    pub hash_secret: [u64; 2],
    /// Seed of the built-in generator that answers draws.
    pub seed: u64,
    /// The clock at the start, ns.
    pub now_ns: u64,
    /// A call that uses more processor time is given up as [`crate::Fault::Hang`]; ms, 0 for no limit. Uses
    /// the process's virtual interval timer.
    pub call_timeout_ms: u64,
    /// Leave out the kernel's own boot-time initialisation (flow dissectors, hash secret). Only for tests
    /// that show what happens without it.
    pub skip_boot: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            image_base: 0x1000_0000,
            arena_base: 0x2000_0000,
            arena_size: 0x2000_0000,
            // The key of SipHash's published vectors and of spec/common.md §8.4.
            hash_secret: [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908],
            seed: 1,
            now_ns: 1_000_000_000,
            call_timeout_ms: 10_000,
            skip_boot: false,
        }
    }
}

/// Jiffies at clock 0: five minutes before the 32-bit counter wraps, as at boot.
const INITIAL_JIFFIES: u64 = (-300i32 as u32) as u64;

static LOADED: AtomicBool = AtomicBool::new(false);

/// A kernel in this process. One at a time; not to be sent to another thread.
#[derive(Debug)]
pub struct World {
    pub(crate) rt: Box<Runtime>,
    kernel: Kernel,
    jiffies: u64,
    _thread: PhantomData<*const ()>,
}

/// Resets the "one at a time" flag unless loading succeeded.
struct Claim;

impl Claim {
    fn take() -> Result<Self> {
        if LOADED.swap(true, Ordering::Acquire) { Err(Error::AlreadyLoaded) } else { Ok(Self) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        LOADED.store(false, Ordering::Release);
    }
}

impl World {
    /// Loads a kernel: unpack, map, relocate, replace the outside world, run what boot would have run.
    ///
    /// # Errors
    /// Each way a kernel may be absent, unknown or different is its own [`Error`].
    pub fn load(kernel: &Kernel, options: WorldOptions) -> Result<Self> {
        let claim = Claim::take()?;
        let payload = image::read(kernel.image_path())?;
        let image = Image::load(&payload, options.image_base)?;
        drop(payload);
        let arena_map = Mapping::fixed(options.arena_base, options.arena_size)?;
        let image_range = image.mapping.start()..image.mapping.end();
        // SAFETY: both mappings move into the runtime beside the memory and live as long.
        let mem = unsafe { Memory::new(image_range, arena_map.start()..arena_map.end()) };
        // The first page stays unused, so that small offsets from 0 never look like arena pointers.
        let arena = Arena::new(arena_map.start() + 4096, arena_map.end());
        let btf = image.btf.clone();
        let layout = Layout::new(&btf)?;
        let gs_base = place_percpu(&image, &arena, &mem)?;
        let jiffies = image.symbol("jiffies").ok_or_else(|| Error::NoSymbol("jiffies".into()))?;
        let rt = Box::new(Runtime {
            bugs: Bugs::new(&btf)?,
            timer_function: btf.offset("timer_list", "function")?,
            qdisc_handle: btf.offset("Qdisc", "handle")?,
            qdisc_parent: btf.offset("Qdisc", "parent")?,
            qdisc_queue: btf.offset("Qdisc", "dev_queue")?,
            queue_root: btf.offset("netdev_queue", "qdisc")?,
            mem,
            arena,
            env: Environment::default(),
            layout,
            release: kernel.release().into(),
            gs_base,
            modules: RefCell::default(),
            stubs: RefCell::new(HashMap::new()),
            traps: RefCell::default(),
            qdiscs: RefCell::default(),
            controls: RefCell::default(),
            notes: Notes::new(),
            retired: RefCell::default(),
            generation: Cell::new(0),
            detours: RefCell::default(),
            // SAFETY: no preconditions.
            thread: unsafe { libc::pthread_self() },
            call_timeout_ms: options.call_timeout_ms,
            depth: Cell::new(0),
            calls: Cell::new(0),
            poisoned: RefCell::default(),
            image,
            arena_map,
        });
        let world = Self { rt, kernel: kernel.clone(), jiffies, _thread: PhantomData };
        // From here on the world's own drop releases the claim.
        std::mem::forget(claim);
        world.start(&options)?;
        Ok(world)
    }

    fn start(&self, options: &WorldOptions) -> Result<()> {
        let rt = &*self.rt;
        runtime::set_current(rt);
        signal::install();
        signal::watch(options.call_timeout_ms);
        env::install(rt)?;
        env::patch_image(rt)?;
        self.enter_thread()?;
        rt.env.record.set(0);
        rt.env.hz.set(rt.call(rt.symbol("__msecs_to_jiffies")?, &[1000])?.max(1));
        self.set_time(options.now_ns);
        if !options.skip_boot {
            self.boot(options)?;
        }
        rt.env.seed_draws(options.seed);
        rt.env.record.set(env::record::ALL);
        rt.env.clear_events();
        rt.env.take_printed();
        rt.env.clock_reads.set(0);
        rt.env.draw_count.set(0);
        Ok(())
    }

    /// What the kernel does once at boot and these algorithms depend on. Left out, it fails silently.
    fn boot(&self, options: &WorldOptions) -> Result<()> {
        let rt = &*self.rt;
        let run = |name: &str| -> Result<()> {
            let code = rt.call(rt.symbol(name)?, &[])? as i32;
            if code == 0 { Ok(()) } else { Err(Error::Request(format!("{name} returned {code}"))) }
        };
        run("init_default_flow_dissectors")?;
        for offload in ["eth_offload_init", "ipv4_offload_init", "ipv6_offload_init"] {
            // Folded into inet_init by some versions; then GSO packets of that family are refused.
            if rt.image.symbol(offload).is_some() {
                run(offload)?;
            }
        }
        // The secret is drawn on first use (16 bytes): use it now.
        rt.env.queue_draws(options.hash_secret);
        let keys = rt.heap(rt.image.btf.size_of("flow_keys")?)?;
        rt.call(rt.symbol("flow_hash_from_keys")?, &[keys])?;
        rt.heap_free(keys);
        if !rt.env.drain_draws().is_empty() {
            return Err(Error::Request("the flow hash did not draw its secret".into()));
        }
        Ok(())
    }

    /// Makes the calling thread able to run kernel code. Done by [`World::load`]; needed again only in a
    /// process or thread that got the world by other means than `fork` on the loading thread.
    pub(crate) fn enter_thread(&self) -> Result<()> {
        signal::set_gs(self.rt.gs_base)
    }

    /// Which kernel this is.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The scripted environment: clock, draws, events.
    #[inline]
    pub fn env(&self) -> &Environment {
        &self.rt.env
    }

    /// The image's type information.
    pub fn btf(&self) -> &Btf {
        &self.rt.image.btf
    }

    /// Type information of a loaded module, or the image's when the name is not a loaded module.
    pub fn btf_of(&self, module: &str) -> Rc<Btf> {
        let modules = self.rt.modules.borrow();
        let own = modules.iter().find(|m| m.name == module).and_then(|m| m.btf.clone());
        own.unwrap_or_else(|| self.rt.image.btf.clone())
    }

    /// Sets clock and jiffies to match: the kernel booted at clock 0, five minutes before its 32-bit jiffies
    /// wrap.
    #[inline]
    pub fn set_time(&self, ns: u64) {
        self.rt.env.now.set(ns);
        self.set_jiffies(INITIAL_JIFFIES.wrapping_add(ns / self.rt.env.jiffy_ns()));
    }

    /// Sets jiffies alone.
    #[inline]
    pub fn set_jiffies(&self, jiffies: u64) {
        self.rt.mem.write(self.jiffies, jiffies);
    }

    /// The current jiffies.
    #[inline]
    pub fn jiffies(&self) -> u64 {
        self.rt.mem.read(self.jiffies)
    }

    /// Address of a symbol: a loaded module's, else the image's (exported or not).
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let modules = self.rt.modules.borrow();
        modules.iter().find_map(|m| m.symbols.get(name).copied()).or_else(|| self.rt.image.symbol(name))
    }

    /// Calls any kernel function with up to six integer or address arguments.
    ///
    /// # Errors
    /// Trouble inside, or no such function. The caller must know the signature: wrong arguments make the
    /// kernel code trap (an error) or corrupt this world's memory.
    pub fn call(&self, function: &str, args: &[u64]) -> Result<u64> {
        if args.len() > 6 {
            return Err(Error::Request(format!("{function}: more than six arguments")));
        }
        let at = self.symbol(function).ok_or_else(|| Error::NoSymbol(function.into()))?;
        self.rt.call(at, args)
    }

    /// The address that a module's import of this name is bound to: our replacement, an export, or a trap that
    /// knows the name.
    pub fn import(&self, name: &str) -> u64 {
        env::resolve(&self.rt, name)
    }

    /// Calls code at an address in the world with up to six integer or address arguments.
    ///
    /// # Errors
    /// Trouble inside, or an address outside the world. See [`World::call`].
    pub fn call_address(&self, address: u64, args: &[u64]) -> Result<u64> {
        if args.len() > 6 || !self.rt.mem.covers(address, 1) {
            return Err(Error::Request(format!("no call of {address:#x} with {} arguments", args.len())));
        }
        self.rt.call(address, args)
    }

    /// Reads an integer of 1, 2, 4 or 8 bytes at a symbol or address in the world (0 outside of it).
    pub fn peek(&self, address: u64, size: usize) -> u64 {
        let mem = &self.rt.mem;
        if !mem.covers(address, size as u64) {
            return 0;
        }
        match size {
            1 => mem.read::<u8>(address).into(),
            2 => mem.read::<u16>(address).into(),
            4 => mem.read::<u32>(address).into(),
            _ => mem.read(address),
        }
    }

    /// Writes an integer of 1, 2, 4 or 8 bytes in the world. Returns false outside of it.
    pub fn poke(&self, address: u64, size: usize, value: u64) -> bool {
        let mem = &self.rt.mem;
        if !mem.covers(address, size as u64) {
            return false;
        }
        match size {
            1 => mem.write(address, value as u8),
            2 => mem.write(address, value as u16),
            4 => mem.write(address, value as u32),
            _ => mem.write(address, value),
        }
        true
    }

    /// Symbol and offset for an address.
    pub fn describe(&self, address: u64) -> String {
        self.rt.describe(address)
    }

    /// Loads a module by name with everything it depends on, and runs its initialisation. Modules that are
    /// built into the image, and those loaded before, are fine.
    pub fn load_module(&self, name: &str) -> Result<()> {
        let name = name.replace('-', "_");
        if self.rt.modules.borrow().iter().any(|m| m.name == name) {
            return Ok(());
        }
        let Some(path) = self.kernel.module_path(&name) else {
            if self.kernel.is_builtin(&name) {
                return Ok(());
            }
            return Err(Error::NoModule { module: name, release: self.kernel.release().into() });
        };
        let file = std::fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        let file = image::unpack_module(file)?;
        for dependency in image::module_depends(&file, &name)? {
            self.load_module(&dependency)?;
        }
        let rt = &*self.rt;
        let mut resolve = |symbol: &str| env::resolve(rt, symbol);
        let module = image::load_module(&file, &name, &rt.arena, &rt.mem, &rt.image.btf, &mut resolve)?;
        if rt.arena.is_full() {
            return Err(rt.arena_full());
        }
        let init = module.symbols.get("init_module").copied();
        rt.modules.borrow_mut().push(module);
        if let Some(init) = init {
            let code = rt.call(init, &[])? as i32;
            if code != 0 {
                return Err(Error::ModuleInit { module: name, code });
            }
        }
        Ok(())
    }

    /// The frame bytes of a packet that is queued, or was dequeued or dropped by the last call.
    pub fn frame(&self, packet: PacketRef) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.frame_into(packet, &mut bytes).then_some(bytes)
    }

    /// As [`World::frame`], into a buffer that is cleared first. Only the linear bytes are there.
    pub fn frame_into(&self, packet: PacketRef, into: &mut Vec<u8>) -> bool {
        into.clear();
        let Some(skb) = self.rt.packet_at(packet) else {
            return false;
        };
        let (mem, at) = (&self.rt.mem, &self.rt.layout.at);
        let (head, data): (u64, u64) = (mem.read(skb + at.head), mem.read(skb + at.data));
        let end = head + u64::from(mem.read::<u32>(skb + at.tail));
        into.extend_from_slice(mem.bytes(data, end.saturating_sub(data)));
        true
    }

    /// Memory the kernel code holds: blocks alive, and bytes ever taken from the arena.
    pub fn memory_in_use(&self) -> (u64, u64) {
        (self.rt.arena.live(), self.rt.arena.used() - self.rt.arena_map.start())
    }
}

/// Zero-based per-cpu data (6.x) is copied to its own place and reached through `%gs`; on 7.x the image's
/// own copy is reached with base 0.
fn place_percpu(image: &Image, arena: &Arena, mem: &Memory) -> Result<u64> {
    let Some((initial, size)) = &image.percpu else {
        return Ok(0);
    };
    let at = arena.carve(size + 4096, 4096);
    if at == 0 {
        return Err(Error::ArenaFull { size: mem.arena().end - mem.arena().start });
    }
    mem.write_bytes(at, initial);
    // One processor whose per-cpu pointers are relative to %gs.
    for (symbol, relative) in [("this_cpu_off", true), ("__per_cpu_offset", false)] {
        if let Some(address) = image.symbol(symbol) {
            mem.write(if relative { at + address } else { address }, at);
        }
    }
    Ok(at)
}

impl Drop for World {
    fn drop(&mut self) {
        signal::watch(0);
        runtime::clear_current();
        LOADED.store(false, Ordering::Release);
    }
}
