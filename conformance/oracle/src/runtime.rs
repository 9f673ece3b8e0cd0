//! The state behind a [`crate::World`]: one per process, reached by the callbacks through one pointer.

use crate::env::Environment;
use crate::error::{Error, Fault, Result};
use crate::gate;
use crate::image::{Bugs, Image, LoadedModule, Section};
use crate::memory::{Arena, Freed, Mapping, Memory};
use crate::packet::Layout;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The runtime whose kernel code may be running. Set while a world exists.
static CURRENT: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// What a signal handler or callback can note without allocating.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RawFault {
    /// `text` is the number (from 1) of its message in the environment, 0 for none.
    Warn {
        at: u64,
        entry: u64,
        text: usize,
    },
    Bug {
        at: u64,
        entry: u64,
    },
    Unresolved {
        index: u64,
    },
    Trap {
        signal: i32,
        rip: u64,
        address: u64,
    },
    Canary {
        at: u64,
    },
    Hang {
        at: u64,
    },
}

/// More trouble than this in one call is not told apart.
const NOTES: usize = 8;
const STACK: usize = 12;

/// Trouble noted during a call, turned into [`Fault`]s after it.
#[derive(Debug)]
pub(crate) struct Notes {
    count: Cell<usize>,
    list: [Cell<Option<RawFault>>; NOTES],
    stack: [Cell<u64>; STACK],
}

impl Notes {
    pub(crate) fn new() -> Self {
        Self { count: Cell::new(0), list: Default::default(), stack: Default::default() }
    }
}

/// A replaced function: its first bytes are a jump to our callback. To run the original, they are put back
/// for the length of the call (one thread runs kernel code, so nobody else sees it).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detour {
    pub(crate) entry: u64,
    pub(crate) original: [u8; 5],
    pub(crate) jump: [u8; 5],
}

pub(crate) struct Runtime {
    pub(crate) mem: Memory,
    pub(crate) arena: Arena,
    pub(crate) env: Environment,
    pub(crate) layout: Layout,
    pub(crate) image: Image,
    pub(crate) release: String,
    pub(crate) bugs: Bugs,
    pub(crate) gs_base: u64,
    pub(crate) modules: RefCell<Vec<LoadedModule>>,
    /// Replaced functions by name: address of the trampoline or code stub.
    pub(crate) stubs: RefCell<HashMap<String, u64>>,
    /// Names of symbols bound to a trap.
    pub(crate) traps: RefCell<Vec<String>>,
    pub(crate) qdiscs: RefCell<Vec<u64>>,
    pub(crate) controls: RefCell<Vec<u64>>,
    pub(crate) notes: Notes,
    pub(crate) retired: RefCell<Vec<u64>>,
    pub(crate) generation: Cell<u32>,
    /// Replaced functions whose original can be run.
    pub(crate) detours: RefCell<HashMap<String, Detour>>,
    /// Offset of `timer_list.function`.
    pub(crate) timer_function: u64,
    /// Offsets of `Qdisc.handle`, `.parent`, `.dev_queue` and of `netdev_queue.qdisc`.
    pub(crate) qdisc_handle: u64,
    pub(crate) qdisc_parent: u64,
    pub(crate) qdisc_queue: u64,
    pub(crate) queue_root: u64,
    /// The thread that loaded it.
    pub(crate) thread: libc::pthread_t,
    /// Limit for one call, ms of processor time; 0 none.
    pub(crate) call_timeout_ms: u64,
    pub(crate) depth: Cell<u32>,
    pub(crate) calls: Cell<u64>,
    pub(crate) poisoned: RefCell<Option<String>>,
    /// Last: everything above lives in it.
    pub(crate) arena_map: Mapping,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("release", &self.release).field("env", &self.env).finish_non_exhaustive()
    }
}

/// The runtime that callbacks and the signal handler work for.
#[inline]
pub(crate) fn current() -> Option<&'static Runtime> {
    // SAFETY: the pointer is null or comes from the boxed runtime of the one living world, which clears it
    // before dropping. Kernel code, callbacks and handlers run only inside that world's calls, on its
    // thread, so no reference obtained here survives it. Everything inside is shared-mutable by cells.
    unsafe { CURRENT.load(Ordering::Relaxed).as_ref() }
}

/// Makes a runtime the current one.
pub(crate) fn set_current(runtime: &Runtime) {
    CURRENT.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Relaxed);
}

/// No runtime from here on.
pub(crate) fn clear_current() {
    CURRENT.store(std::ptr::null_mut(), Ordering::Relaxed);
}

impl Runtime {
    /// Runs kernel code. Trouble of any kind is the result, not the end of the process.
    pub(crate) fn call(&self, function: u64, args: &[u64]) -> Result<u64> {
        if let Some(why) = self.poisoned.borrow().as_ref() {
            return Err(Error::Poisoned(why.clone()));
        }
        let mut words = [0; 6];
        words[..args.len()].copy_from_slice(args);
        let depth = self.depth.get();
        if depth == 0 {
            self.free_retired();
        }
        self.depth.set(depth + 1);
        self.calls.set(self.calls.get() + 1);
        // SAFETY: `function` is an address from the kernel's own tables or symbols, the environment was
        // installed when the world was made, and the world's thread is the only one that gets here.
        let out = unsafe { gate::enter(function, &raw const words) };
        if depth == 0 && !self.env.deferred.borrow().is_empty() {
            self.run_deferred();
        }
        self.depth.set(depth);
        if out.thrown != 0 || self.in_trouble() {
            return Err(self.explain(out.thrown != 0));
        }
        Ok(out.value)
    }

    /// True for a qdisc that hangs below another one of this world.
    pub(crate) fn has_real_parent(&self, qdisc: u64) -> bool {
        let mem = &self.mem;
        if mem.read::<u32>(qdisc + self.qdisc_parent) == crate::qdisc::ROOT {
            return false;
        }
        let queue: u64 = mem.read(qdisc + self.qdisc_queue);
        let root: u64 = mem.read(queue + self.queue_root);
        mem.read::<u32>(root + self.qdisc_handle) != crate::qdisc::STRANGER
    }

    /// Runs the original of a replaced function from inside its callback.
    pub(crate) fn original(&self, name: &str, args: [u64; 3]) -> u64 {
        let detour = self.detours.borrow().get(name).copied();
        let Some(d) = detour else { return 0 };
        self.mem.write_bytes(d.entry, &d.original);
        // SAFETY: the entry is the kernel's function with its original code in place; all such functions
        // take up to three integer arguments. We are inside a gate, so a trap in it leaves through that.
        let value = unsafe {
            let f: extern "C" fn(u64, u64, u64) -> u64 = std::mem::transmute(d.entry as usize);
            f(args[0], args[1], args[2])
        };
        self.mem.write_bytes(d.entry, &d.jump);
        value
    }

    /// Runs what was put off until no reader is left.
    fn run_deferred(&self) {
        let list = std::mem::take(&mut *self.env.deferred.borrow_mut());
        for (head, function) in list {
            let words = [head, 0, 0, 0, 0, 0];
            // SAFETY: a callback that kernel code registered, run as it would be after a grace period.
            let out = unsafe { gate::enter(function, &raw const words) };
            if out.thrown != 0 {
                return;
            }
        }
    }

    #[inline]
    fn in_trouble(&self) -> bool {
        self.notes.count.get() != 0 || self.mem.has_wild() || !self.env.trouble.borrow().is_empty()
    }

    #[cold]
    fn explain(&self, thrown: bool) -> Error {
        let n = self.notes.count.replace(0).min(NOTES);
        self.env.warn_pending.set(0);
        let noted: Vec<Fault> =
            self.notes.list[..n].iter().filter_map(|c| c.take()).map(|raw| self.name_fault(raw)).collect();
        self.env.warn_texts.borrow_mut().clear();
        let mut others = std::mem::take(&mut *self.env.trouble.borrow_mut());
        if let Some(address) = self.mem.take_wild() {
            others.push(Fault::WildPointer { address });
        }
        // What threw the call out is noted last and matters most.
        let fault = if thrown { noted.into_iter().next_back() } else { noted.into_iter().next() };
        let fault = fault.or_else(|| others.into_iter().next()).unwrap_or(Fault::WildPointer { address: 0 });
        if thrown {
            *self.poisoned.borrow_mut() = Some(fault.to_string());
        }
        fault.into()
    }

    /// Notes trouble; safe in a signal handler.
    pub(crate) fn note(&self, fault: RawFault) {
        let n = self.notes.count.get();
        self.notes.count.set(n + 1);
        // When the list is full the last entry is overwritten: that is the one that threw the call out.
        self.notes.list[n.min(NOTES - 1)].set(Some(fault));
    }

    /// Remembers return addresses between two stack positions, innermost first.
    pub(crate) fn note_stack(&self, from: u64, to: u64) {
        let mut found = 0;
        let mut at = from & !7;
        while at < to && found < STACK {
            // SAFETY: between the trapped stack pointer and the gate lies this thread's own live stack.
            let word = unsafe { (at as *const u64).read() };
            if self.mem.image().contains(&word) || self.mem.arena().contains(&word) {
                self.notes.stack[found].set(word);
                found += 1;
            }
            at += 8;
        }
        for rest in &self.notes.stack[found..] {
            rest.set(0);
        }
    }

    /// A `ud2` was hit: true when the code may go on behind it.
    pub(crate) fn note_ud2(&self, at: u64) -> bool {
        let (entry, warning) = self.bug_entry(at).unwrap_or((0, false));
        let text = self.env.warn_pending.replace(0);
        self.note(if warning { RawFault::Warn { at, entry, text } } else { RawFault::Bug { at, entry } });
        warning
    }

    fn bug_entry(&self, at: u64) -> Option<(u64, bool)> {
        let modules = self.modules.try_borrow().ok();
        let tables = modules.iter().flat_map(|m| m.iter().filter_map(|m| m.bugs)).chain(self.image.bugs);
        tables.into_iter().find_map(|table: Section| self.bugs.find(&self.mem, &table, at))
    }

    /// Symbol+offset for an address, as far as known.
    pub(crate) fn describe(&self, address: u64) -> String {
        self.image
            .named
            .describe(address)
            .or_else(|| self.modules.try_borrow().ok()?.iter().find_map(|m| m.named.describe(address)))
            .unwrap_or_else(|| format!("{address:#x}"))
    }

    fn place(&self, at: u64, entry: u64) -> String {
        let symbol = self.describe(at);
        let place = (entry != 0).then(|| self.bugs.place(&self.mem, entry)).flatten();
        match place {
            Some(place) => format!("{symbol} ({place})"),
            None => symbol,
        }
    }

    fn stack_text(&self) -> String {
        let names = self.notes.stack.iter().map(Cell::get).take_while(|a| *a != 0).map(|a| self.describe(a));
        // Only code has names here; data pointers into the world look like bare numbers or data symbols.
        let text: Vec<String> = names.filter(|n| n.contains('+')).take(6).collect();
        if text.is_empty() { "an unknown caller".into() } else { text.join(" < ") }
    }

    fn name_fault(&self, raw: RawFault) -> Fault {
        match raw {
            RawFault::Warn { at, entry, text } => {
                let printed = text.checked_sub(1).and_then(|i| self.env.warn_texts.borrow().get(i).cloned());
                let message = printed.or_else(|| self.bugs.message(&self.mem, entry));
                Fault::Warn { at: self.place(at, entry), message }
            }
            RawFault::Bug { at, entry } => Fault::Bug { at: self.place(at, entry) },
            RawFault::Unresolved { index } => Fault::Unresolved {
                symbol: self.traps.borrow().get(index as usize).cloned().unwrap_or_default(),
                caller: self.stack_text(),
            },
            RawFault::Trap { signal, rip, address } => Fault::Trap {
                signal: match signal {
                    libc::SIGSEGV => "SIGSEGV",
                    libc::SIGBUS => "SIGBUS",
                    libc::SIGILL => "SIGILL",
                    libc::SIGFPE => "SIGFPE",
                    _ => "SIGTRAP",
                },
                at: self.describe(rip),
                address,
                backtrace: self.stack_text(),
            },
            RawFault::Canary { at } => Fault::StackCanary { at: self.describe(at) },
            RawFault::Hang { at } => Fault::Hang { millis: self.call_timeout_ms, at: self.describe(at) },
        }
    }

    pub(crate) fn arena_full(&self) -> Error {
        Error::ArenaFull { size: self.arena_map.end() - self.arena_map.start() }
    }

    pub(crate) fn next_generation(&self) -> u32 {
        let g = self.generation.get().wrapping_add(1).max(1);
        self.generation.set(g);
        g
    }

    /// A wrong free is trouble of the running call.
    #[inline]
    pub(crate) fn note_free(&self, address: u64, freed: Freed) {
        let what = match freed {
            Freed::Block | Freed::Inner => return,
            Freed::Twice => "already free",
            Freed::Unknown => "never allocated",
        };
        self.env.trouble.borrow_mut().push(Fault::BadFree { address, what });
    }

    /// A zeroed block of the kernel's heap.
    pub(crate) fn heap(&self, len: usize) -> Result<u64> {
        match self.arena.alloc(&self.mem, len as u64) {
            0 => Err(self.arena_full()),
            at => Ok(at),
        }
    }

    pub(crate) fn heap_free(&self, at: u64) {
        if at != 0 {
            self.note_free(at, self.arena.free(&self.mem, at));
        }
    }

    /// A symbol of the image, or the error that names it.
    pub(crate) fn symbol(&self, name: &str) -> Result<u64> {
        self.image.symbol(name).ok_or_else(|| Error::NoSymbol(name.into()))
    }

    /// The function that socket-charged packets carry as their destructor.
    pub(crate) fn write_free(&self) -> u64 {
        ["tcp_wfree", "sock_wfree"].iter().find_map(|n| self.image.symbol(n)).unwrap_or(0)
    }
}
