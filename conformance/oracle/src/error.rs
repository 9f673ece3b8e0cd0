//! Every way in which a kernel may be absent, unknown, different, or in trouble.

use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong between "there is a kernel somewhere" and "its code answered".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The oracle runs on x86-64 Linux only.
    #[error("the kernel oracle is not available here: {0}")]
    Unsupported(&'static str),

    /// One world per process: jiffies and module data exist once per image.
    #[error("a kernel world is already loaded in this process (one at a time; use worker::isolate)")]
    AlreadyLoaded,

    /// No kernel matched the request.
    #[error("no kernel found for `{wanted}` (looked in {looked}); enable with: cargo run --release -- oracle fetch")]
    NoKernel {
        /// What was asked for ("6.12", a release, …).
        wanted: String,
        /// The places searched.
        looked: String,
    },

    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },

    /// The kernel image is of a shape this loader does not know.
    #[error("kernel image: {0}")]
    Image(#[from] ImageError),

    /// A module is of a shape this loader does not know.
    #[error("module {module}: {reason}")]
    Module {
        /// Module name without extension.
        module: String,
        /// What was unexpected.
        reason: String,
    },

    /// The kernel ships no such module (and does not have it built in).
    #[error("kernel {release} has no module `{module}`")]
    NoModule {
        /// Module name without extension.
        module: String,
        /// Kernel release.
        release: String,
    },

    /// A module's `init_module` refused.
    #[error("module {module}: init_module returned {code}")]
    ModuleInit {
        /// Module name.
        module: String,
        /// The negative errno it returned.
        code: i32,
    },

    /// The kernel knows no queue discipline or congestion control of this name.
    #[error("kernel {release} offers no {what} named `{name}`")]
    NoAlgorithm {
        /// "queue discipline" or "congestion control".
        what: &'static str,
        /// The name asked for.
        name: String,
        /// Kernel release.
        release: String,
    },

    /// A symbol the harness itself needs is not in this kernel.
    #[error("kernel has no symbol `{0}`")]
    NoSymbol(String),

    /// The type information lacks a structure, field or enumerator.
    #[error("type information: {0}")]
    Type(#[from] TypeError),

    /// Memory below 2 GiB could not be had.
    #[error("cannot map {len:#x} writable-executable bytes at {at:#x}: {source}")]
    Map {
        /// Address asked for.
        at: u64,
        /// Length in bytes.
        len: u64,
        /// The system's answer (EPERM/EACCES: W+X memory is forbidden; EEXIST: taken).
        source: std::io::Error,
    },

    /// The arena below 2 GiB is full.
    #[error("the arena is full ({size:#x} bytes)")]
    ArenaFull {
        /// Arena size in bytes.
        size: u64,
    },

    /// The kernel's code ran into trouble during a call; the call's result is void.
    #[error("kernel code: {0}")]
    Fault(#[from] Fault),

    /// The kernel refused a configuration.
    #[error(transparent)]
    Refused(#[from] crate::qdisc::Refusal),

    /// An earlier trap left the kernel's state undefined; load a new world.
    #[error("the world is unusable after an earlier trap: {0}")]
    Poisoned(String),

    /// The algorithm has no such hook, or the kernel no such function.
    #[error("{owner} has no `{hook}`")]
    NoHook {
        /// Algorithm or kernel.
        owner: String,
        /// Hook or function name.
        hook: String,
    },

    /// A packet description that cannot exist.
    #[error("packet: {0}")]
    Packet(String),

    /// A worker process failed.
    #[error(transparent)]
    Worker(#[from] crate::worker::WorkerError),

    /// Something else about the request is wrong.
    #[error("{0}")]
    Request(String),
}

/// The image is damaged, or of a layout not seen before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No boot header.
    #[error("not a bzImage (no HdrS header)")]
    NotBzImage,
    /// Shorter than its own header says.
    #[error("truncated: {0}")]
    Truncated(&'static str),
    /// None of gzip, XZ, LZ4, zstd.
    #[error("unknown compression (first bytes {0:02x?})")]
    Compression([u8; 6]),
    /// The decompressor's complaint.
    #[error("cannot decompress the payload: {0}")]
    Decompress(String),
    /// The payload is not the ELF file it should be.
    #[error("payload is not a 64-bit x86 ELF file: {0}")]
    Elf(String),
    /// Relocation lists have a layout not known.
    #[error("relocation table: {0}")]
    Relocation(String),
    /// The compressed symbol table has a layout not known.
    #[error("kallsyms: {0}")]
    Kallsyms(String),
    /// No type information.
    #[error("no .BTF section (kernel built without type information)")]
    NoBtf,
}

/// A question to the type information without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The section itself is unreadable.
    #[error("malformed BTF: {0}")]
    Malformed(String),
    /// No structure or typedef of this name.
    #[error("no type `{0}`")]
    NoType(String),
    /// The structure has no such member.
    #[error("no field `{field}` in `{path}`")]
    NoField {
        /// Whole path as given.
        path: String,
        /// The step that failed.
        field: String,
    },
    /// An index or dereference on something that is neither array nor pointer, or an unreadable path.
    #[error("`{path}`: {reason}")]
    Path {
        /// Whole path as given.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The structure's size differs from what the kernel itself allocates.
    #[error("`{name}` is {btf} bytes by BTF but {kernel} by the kernel")]
    Size {
        /// Structure name.
        name: String,
        /// Bytes by BTF.
        btf: usize,
        /// Bytes by the kernel's own table.
        kernel: usize,
    },
}

/// Trouble inside the kernel's code, named. All are hard failures of the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// `WARN`: the code went on, but its own assumption was broken.
    #[error("WARN at {at}{}", message.as_deref().map(|m| format!(": {m}")).unwrap_or_default())]
    Warn {
        /// Symbol+offset and, when the bug table has it, file:line.
        at: String,
        /// The message, when one was printed.
        message: Option<String>,
    },
    /// `BUG`: the code does not go on.
    #[error("BUG at {at}")]
    Bug {
        /// Symbol+offset and file:line.
        at: String,
    },
    /// A call to a kernel function that this harness neither has nor replaces.
    #[error("call of unresolved symbol `{symbol}` from {caller}")]
    Unresolved {
        /// The function's name.
        symbol: String,
        /// Who called.
        caller: String,
    },
    /// A processor trap.
    #[error("{signal} at {at}, address {address:#x}; called from {backtrace}")]
    Trap {
        /// "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP".
        signal: &'static str,
        /// Symbol+offset.
        at: String,
        /// Data address for memory traps.
        address: u64,
        /// Return addresses found on the stack, innermost first.
        backtrace: String,
    },
    /// The call did not come back in time (see `WorldOptions::call_timeout`).
    #[error("no answer within {millis} ms, stopped at {at}")]
    Hang {
        /// The limit, ms.
        millis: u64,
        /// Where it was interrupted.
        at: String,
    },
    /// The allocator was handed a pointer it never gave out, or one already freed.
    #[error("bad free of {address:#x} ({what})")]
    BadFree {
        /// The pointer.
        address: u64,
        /// What the header said.
        what: &'static str,
    },
    /// A pointer in kernel data left the mapped world.
    #[error("pointer {address:#x} leads outside the world")]
    WildPointer {
        /// The pointer.
        address: u64,
    },
    /// More clock values or draws were read than the script holds.
    #[error("the script ran out of {0}")]
    ScriptEmpty(&'static str),
    /// The kernel's stack canary was overwritten.
    #[error("stack canary mismatch in {at}")]
    StackCanary {
        /// Who noticed.
        at: String,
    },
}
