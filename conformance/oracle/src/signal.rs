//! Traps in kernel code become errors of the call.

use crate::error::{Error, Result};
use crate::gate;
use crate::runtime::{self, RawFault};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

const SIGNALS: [i32; 5] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGFPE];

/// The dispositions found before ours, for traps that are none of our business.
static mut PREVIOUS: [Option<libc::sigaction>; 5] = [None; 5];

fn handler() -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(_, _, _) as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    action
}

/// Installs the handlers once per process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (i, signal) in SIGNALS.into_iter().enumerate() {
            let action = handler();
            // SAFETY: a valid handler with the SA_SIGINFO signature; `PREVIOUS` is written only here,
            // before the handler that reads it exists.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, &raw mut old);
                PREVIOUS[i] = Some(old);
            }
        }
    });
}

/// Looks per time limit: a call is given up at the end of the last.
const LOOKS: u64 = 4;
/// Number of the call that was running at the last look, and how often it was seen.
static SEEN_CALL: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Starts looking for calls that use more processor time than the limit (0: never). The timer counts this
/// process's own time in user mode, so a busy machine does not matter; a forked process needs its own.
pub(crate) fn watch(limit_ms: u64) {
    // SAFETY: all-zero is a valid `sigaction` and `itimerval`; the handler has the SA_SIGINFO signature.
    unsafe {
        let mut timer: libc::itimerval = std::mem::zeroed();
        if limit_ms != 0 {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_tick as extern "C" fn(_, _, _) as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(libc::SIGVTALRM, &raw const action, std::ptr::null_mut());
            let us = (limit_ms * 1000 / LOOKS).max(1000);
            timer.it_interval.tv_sec = (us / 1_000_000) as libc::time_t;
            timer.it_interval.tv_usec = (us % 1_000_000) as libc::suseconds_t;
            timer.it_value = timer.it_interval;
        }
        libc::setitimer(libc::ITIMER_VIRTUAL, &raw const timer, std::ptr::null_mut());
    }
}

extern "C" fn on_tick(signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (gate, rt) = (gate::gate(), runtime::current());
    let Some(rt) = rt.filter(|_| gate != 0) else {
        SEEN.store(0, Ordering::Relaxed);
        return;
    };
    // SAFETY: asks for this thread's own id; the world's thread is alive while its code runs.
    unsafe {
        if libc::pthread_equal(libc::pthread_self(), rt.thread) == 0 {
            libc::pthread_kill(rt.thread, signal);
            return;
        }
    }
    if SEEN_CALL.swap(rt.calls.get(), Ordering::Relaxed) != rt.calls.get() {
        SEEN.store(1, Ordering::Relaxed);
        return;
    }
    // SAFETY: the kernel passes a valid context to a SA_SIGINFO handler.
    let regs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = regs[libc::REG_RIP as usize] as u64;
    // Callbacks are left to finish: they may own something.
    if SEEN.fetch_add(1, Ordering::Relaxed) >= LOOKS && rt.mem.covers(rip, 1) {
        rt.note(RawFault::Hang { at: rip });
        rt.note_stack(regs[libc::REG_RSP as usize] as u64, gate);
        leave(regs, gate);
    }
}

/// Sends the interrupted thread out of the gate.
fn leave(regs: &mut [libc::greg_t], gate: u64) {
    regs[libc::REG_RIP as usize] = gate::recover as unsafe extern "C" fn() -> ! as usize as i64;
    regs[libc::REG_RSP as usize] = gate as i64;
}

/// Sets this thread's `%gs` base: the kernel's per-cpu area.
pub(crate) fn set_gs(base: u64) -> Result<()> {
    const ARCH_SET_GS: i32 = 0x1001;
    // SAFETY: user space on x86-64 Linux does not use %gs (thread-local storage is in %fs).
    let r = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, base) };
    if r == 0 { Ok(()) } else { Err(Error::Unsupported("the system refuses to set the %gs base")) }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers to a SA_SIGINFO handler, and the context may be edited.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let regs = &mut context.uc_mcontext.gregs;
    let (rip, rsp) = (regs[libc::REG_RIP as usize] as u64, regs[libc::REG_RSP as usize] as u64);
    let gate = gate::gate();
    let Some(rt) = runtime::current().filter(|_| gate != 0) else {
        return chain(signal);
    };
    if rt.mem.covers(rip, 8) {
        let code: u16 = rt.mem.read(rip);
        match (signal, code.to_le_bytes()) {
            // ud2: WARN goes on behind it, BUG does not.
            (libc::SIGILL, [0x0f, 0x0b]) => {
                if rt.note_ud2(rip) {
                    regs[libc::REG_RIP as usize] += 2;
                    return;
                }
            }
            // cli, sti: there are no interrupts here.
            (libc::SIGSEGV, [0xfa | 0xfb, _]) => {
                regs[libc::REG_RIP as usize] += 1;
                return;
            }
            _ => {
                // SAFETY: `si_addr` is defined for memory faults and harmless to read for the others.
                let address = unsafe { info.si_addr() } as u64;
                rt.note(RawFault::Trap { signal, rip, address });
            }
        }
    } else {
        // A callback of ours was handed something unusable.
        // SAFETY: as above.
        let address = unsafe { info.si_addr() } as u64;
        rt.note(RawFault::Trap { signal, rip, address });
    }
    rt.note_stack(rsp, gate);
    leave(regs, gate);
}

/// Not ours: put back what was there and let the instruction trap again.
fn chain(signal: i32) {
    let i = SIGNALS.iter().position(|s| *s == signal).unwrap_or(0);
    // SAFETY: `PREVIOUS` was filled before this handler could run; restoring a disposition is always
    // allowed, and returning repeats the trap under it.
    unsafe {
        match PREVIOUS[i] {
            Some(old) => libc::sigaction(signal, &raw const old, std::ptr::null_mut()),
            None => libc::signal(signal, libc::SIG_DFL) as i32,
        };
    }
}
