//! Traps in kernel code become errors of the call.

use crate::error::{Error, Result};
use crate::gate;
use crate::runtime::{self, RawFault};
use std::sync::Once;

const SIGNALS: [i32; 5] = [
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGTRAP,
    libc::SIGFPE,
];

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

/// Sets this thread's `%gs` base: the kernel's per-cpu area.
pub(crate) fn set_gs(base: u64) -> Result<()> {
    const ARCH_SET_GS: i32 = 0x1001;
    // SAFETY: user space on x86-64 Linux does not use %gs (thread-local storage is in %fs).
    let r = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, base) };
    if r == 0 {
        Ok(())
    } else {
        Err(Error::Unsupported("the system refuses to set the %gs base"))
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers to a SA_SIGINFO handler, and the context may be edited.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let regs = &mut context.uc_mcontext.gregs;
    let (rip, rsp) = (
        regs[libc::REG_RIP as usize] as u64,
        regs[libc::REG_RSP as usize] as u64,
    );
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
                rt.note(RawFault::Trap {
                    signal,
                    rip,
                    address,
                });
            }
        }
    } else {
        // A callback of ours was handed something unusable.
        // SAFETY: as above.
        let address = unsafe { info.si_addr() } as u64;
        rt.note(RawFault::Trap {
            signal,
            rip,
            address,
        });
    }
    rt.note_stack(rsp, gate);
    regs[libc::REG_RIP as usize] = gate::recover as unsafe extern "C" fn() -> ! as usize as i64;
    regs[libc::REG_RSP as usize] = gate as i64;
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
