//! The way into kernel code and the two ways out: returning, and being thrown out by a trap.
//!
//! [`enter`] saves the callee-saved registers and the stack pointer before calling. When the called code
//! traps, the signal handler (or [`escape`]) restores them, so a trap becomes an error of the call instead
//! of the end of the process. The frames skipped that way are kernel frames and callback frames of this
//! crate, none of which owns anything that needs dropping at the points where that can happen.

use std::arch::naked_asm;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stack pointer of the innermost gate; 0 outside kernel code. One world per process and thread makes one
/// cell enough.
static GATE_SP: AtomicU64 = AtomicU64::new(0);

/// How a call ended: `rax`, and whether it was thrown out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) value: u64,
    pub(crate) thrown: u64,
}

/// Calls `function` with up to six integer arguments.
///
/// # Safety
/// `function` must be code of the loaded world with the System V calling convention, `args` six words, and
/// the world's environment (replaced functions, `%gs`) must be in place.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn enter(function: u64, args: *const [u64; 6]) -> Outcome {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        // Seventh word: keeps the stack aligned for the call, and gates nest.
        "push qword ptr [rip + {sp}]",
        "mov [rip + {sp}], rsp",
        "mov rax, rdi",
        "mov r10, rsi",
        "mov rdi, [r10]",
        "mov rsi, [r10 + 8]",
        "mov rdx, [r10 + 16]",
        "mov rcx, [r10 + 24]",
        "mov r8, [r10 + 32]",
        "mov r9, [r10 + 40]",
        "call rax",
        "xor edx, edx",
        "jmp {leave}",
        sp = sym GATE_SP,
        leave = sym leave,
    )
}

/// Restores what `enter` saved; expects the stack pointer at the gate.
#[unsafe(naked)]
unsafe extern "C" fn leave() -> Outcome {
    naked_asm!(
        "pop qword ptr [rip + {sp}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        sp = sym GATE_SP,
    )
}

/// Where a signal handler sends a trapped thread, with its stack pointer set to [`gate`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn recover() -> ! {
    naked_asm!("mov edx, 1", "xor eax, eax", "cld", "jmp {leave}", leave = sym leave)
}

/// Leaves the innermost gate at once, as if the kernel code had trapped.
///
/// # Safety
/// Only inside a gate ([`gate`] is not 0), from a frame that owns nothing.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn escape() -> ! {
    naked_asm!("mov rsp, [rip + {sp}]", "jmp {recover}", sp = sym GATE_SP, recover = sym recover)
}

/// Stack pointer of the innermost gate, 0 when no kernel code is running.
pub(crate) fn gate() -> u64 {
    GATE_SP.load(Ordering::Relaxed)
}

/// Machine code that calls `callback` with a properly aligned stack.
///
/// Kernel code keeps its stack aligned to 8 only. The four words above the return address are copied, so
/// that callbacks with up to ten arguments find them.
pub(crate) fn trampoline(callback: u64) -> Vec<u8> {
    let mut code = vec![
        0x55, // push rbp
        0x48, 0x89, 0xe5, // mov rbp, rsp
        0x48, 0x83, 0xe4, 0xf0, // and rsp, -16
        0xff, 0x75, 0x28, // push [rbp + 40]
        0xff, 0x75, 0x20, // push [rbp + 32]
        0xff, 0x75, 0x18, // push [rbp + 24]
        0xff, 0x75, 0x10, // push [rbp + 16]
        0x49, 0xbb, // mov r11, callback
    ];
    code.extend_from_slice(&callback.to_le_bytes());
    code.extend_from_slice(&[
        0x41, 0xff, 0xd3, // call r11
        0xc9, // leave
        0xc3, // ret
    ]);
    code
}
