//! Worker processes: one world per process, so parallel runs and tests fork.
//!
//! Results do not depend on the number of workers: each shard gets its own process and a seed derived from
//! its index alone. A crash is a named failure with its shard and step; the other shards run on.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How one shard failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WorkerError {
    /// The closure panicked.
    #[error("shard {shard} panicked at step {step}: {message}")]
    Panicked {
        /// Shard index.
        shard: u64,
        /// Last step it reported.
        step: u64,
        /// Panic message.
        message: String,
    },
    /// A signal ended the process.
    #[error("shard {shard} was ended by signal {signal} at step {step}")]
    Signal {
        /// Shard index.
        shard: u64,
        /// Last step it reported.
        step: u64,
        /// Signal number.
        signal: i32,
    },
    /// It did not finish in time and was stopped.
    #[error("shard {shard} did not finish within {seconds} s; it was at step {step}")]
    TimedOut {
        /// Shard index.
        shard: u64,
        /// Last step it reported.
        step: u64,
        /// The limit.
        seconds: u64,
    },
    /// It exited without a result.
    #[error("shard {shard} exited with code {code} and no result at step {step}")]
    NoResult {
        /// Shard index.
        shard: u64,
        /// Last step it reported.
        step: u64,
        /// Exit code.
        code: i32,
    },
    /// The system could not start or read a worker.
    #[error("shard {shard}: {what}: {reason}")]
    System {
        /// Shard index.
        shard: u64,
        /// Which operation.
        what: String,
        /// The system's answer.
        reason: String,
    },
}

/// What a shard knows of itself.
#[derive(Clone, Copy, Debug)]
pub struct Shard<'a> {
    /// Its index, from 0.
    pub index: u64,
    /// Its seed: a function of the run's seed and the index.
    pub seed: u64,
    progress: &'a AtomicU64,
}

impl Shard<'_> {
    /// Reports how far it is; named when the process dies.
    #[inline]
    pub fn step(&self, step: u64) {
        self.progress.store(step, Ordering::Relaxed);
    }
}

/// How to run shards.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of shards.
    pub shards: u64,
    /// Processes at a time; 0 means one per processor.
    pub workers: usize,
    /// Seed of the run.
    pub seed: u64,
    /// A shard that takes longer is stopped.
    pub timeout: Option<Duration>,
    /// Start no further shards after a failure (shards already running finish).
    pub stop_on_failure: bool,
}

impl Plan {
    /// All processors, no time limit, all shards.
    #[must_use]
    pub fn new(shards: u64, seed: u64) -> Self {
        Self { shards, workers: 0, seed, timeout: None, stop_on_failure: false }
    }
}

/// The seed of a shard (SplitMix64's finaliser over seed and index).
#[must_use]
pub fn shard_seed(seed: u64, index: u64) -> u64 {
    let z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Runs a closure in a forked process and brings its result back: for tests, since a process holds one world
/// at a time.
///
/// # Errors
/// The process panicked, crashed, or could not be started.
pub fn isolate<R: Serialize + DeserializeOwned>(f: impl FnOnce() -> R) -> Result<R, WorkerError> {
    let mut f = Some(f);
    let mut result = None;
    let plan = Plan { workers: 1, ..Plan::new(1, 0) };
    run(&plan, |_| f.take().map(|f| f()), |_, r| result = Some(r));
    match result {
        Some(Ok(Some(value))) => Ok(value),
        Some(Err(e)) => Err(e),
        Some(Ok(None)) | None => Err(system(0, "run", "no result")),
    }
}

/// Runs all shards, each in a process forked from this one (so with this process's loaded world), and returns
/// their results by index. Shards not started after a failure are missing at the end.
pub fn map<R: Serialize + DeserializeOwned>(
    plan: &Plan,
    f: impl FnMut(Shard<'_>) -> R,
) -> Vec<(u64, Result<R, WorkerError>)> {
    let mut out = Vec::new();
    run(plan, f, |index, result| out.push((index, result)));
    out.sort_by_key(|(index, _)| *index);
    out
}

/// As [`map`], handing each result over as soon as it is there, in order of completion.
pub fn run<R: Serialize + DeserializeOwned>(
    plan: &Plan,
    mut f: impl FnMut(Shard<'_>) -> R,
    mut done: impl FnMut(u64, Result<R, WorkerError>),
) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = if plan.workers == 0 { processors } else { plan.workers };
    let mut running: Vec<Child> = Vec::new();
    let (mut next, mut failed) = (0, false);
    loop {
        while running.len() < workers && next < plan.shards && !(failed && plan.stop_on_failure) {
            match Child::start(plan, next, &mut f) {
                Ok(child) => running.push(child),
                Err(e) => {
                    failed = true;
                    done(next, Err(e));
                }
            }
            next += 1;
        }
        if running.is_empty() {
            return;
        }
        wait_readable(&running);
        let mut i = 0;
        while i < running.len() {
            if running[i].read(plan.timeout) {
                let child = running.swap_remove(i);
                let (index, result) = (child.index, child.finish());
                failed |= result.is_err();
                done(index, result);
            } else {
                i += 1;
            }
        }
    }
}

fn system(shard: u64, what: &str, reason: impl ToString) -> WorkerError {
    WorkerError::System { shard, what: what.into(), reason: reason.to_string() }
}

/// A counter in memory shared with the child.
struct SharedCounter(*mut AtomicU64);

impl SharedCounter {
    fn new() -> io::Result<Self> {
        // SAFETY: a fresh shared anonymous page; zero bytes are a valid AtomicU64.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(page.cast())) }
    }

    fn get(&self) -> &AtomicU64 {
        // SAFETY: the page stays mapped while `self` lives and is only used atomically.
        unsafe { &*self.0 }
    }
}

impl Drop for SharedCounter {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, no reference outlives `self`.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

struct Child {
    index: u64,
    pid: i32,
    pipe: i32,
    bytes: Vec<u8>,
    started: Instant,
    progress: SharedCounter,
    timed_out: Option<u64>,
}

impl Child {
    fn start<R: Serialize>(plan: &Plan, index: u64, f: &mut impl FnMut(Shard<'_>) -> R) -> Result<Self, WorkerError> {
        let progress = SharedCounter::new().map_err(|e| system(index, "shared memory", e))?;
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(system(index, "pipe", io::Error::last_os_error()));
        }
        // SAFETY: the child runs the closure on a copy of this thread and leaves by `_exit`, so it neither
        // returns into the parent's frames nor runs its destructors. glibc keeps malloc usable after fork.
        match unsafe { libc::fork() } {
            -1 => {
                let e = io::Error::last_os_error();
                close(ends[0]);
                close(ends[1]);
                Err(system(index, "fork", e))
            }
            0 => {
                close(ends[0]);
                // SAFETY: no pointers; the child ends with the parent thread that waits for it.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                // Interval timers are not inherited.
                if let Some(rt) = crate::runtime::current() {
                    crate::signal::watch(rt.call_timeout_ms);
                }
                let shard = Shard { index, seed: shard_seed(plan.seed, index), progress: progress.get() };
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(shard)));
                let message: Result<R, String> = outcome.map_err(|p| panic_text(&*p));
                let code = match postcard::to_stdvec(&message) {
                    Ok(bytes) if write_all(ends[1], &bytes) => 0,
                    _ => 1,
                };
                // SAFETY: ends this process without running the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            pid => {
                close(ends[1]);
                let started = Instant::now();
                Ok(Self { index, pid, pipe: ends[0], bytes: Vec::new(), started, progress, timed_out: None })
            }
        }
    }

    /// Reads what is there; true at the end of the stream.
    fn read(&mut self, limit: Option<Duration>) -> bool {
        if let Some(limit) = limit.filter(|l| self.started.elapsed() > *l && self.timed_out.is_none()) {
            self.timed_out = Some(limit.as_secs());
            // SAFETY: our own child, not waited for yet, so the id is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        let mut poll = libc::pollfd { fd: self.pipe, events: libc::POLLIN, revents: 0 };
        let mut buffer = [0; 65536];
        loop {
            // SAFETY: one valid pollfd.
            if unsafe { libc::poll(&raw mut poll, 1, 0) } <= 0 {
                return false;
            }
            // SAFETY: the buffer has the length given.
            let n = unsafe { libc::read(self.pipe, buffer.as_mut_ptr().cast(), buffer.len()) };
            match n {
                0 => return true,
                n if n > 0 => self.bytes.extend_from_slice(&buffer[..n as usize]),
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return true,
            }
        }
    }

    fn finish<R: DeserializeOwned>(self) -> Result<R, WorkerError> {
        close(self.pipe);
        let mut status = 0;
        // SAFETY: waits for our own child, once.
        while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        let (shard, step) = (self.index, self.progress.get().load(Ordering::Relaxed));
        if let Some(seconds) = self.timed_out {
            return Err(WorkerError::TimedOut { shard, step, seconds });
        }
        if libc::WIFSIGNALED(status) {
            return Err(WorkerError::Signal { shard, step, signal: libc::WTERMSIG(status) });
        }
        match postcard::from_bytes::<Result<R, String>>(&self.bytes) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(message)) => Err(WorkerError::Panicked { shard, step, message }),
            Err(_) => Err(WorkerError::NoResult { shard, step, code: libc::WEXITSTATUS(status) }),
        }
    }
}

fn wait_readable(children: &[Child]) {
    let mut polls: Vec<libc::pollfd> =
        children.iter().map(|c| libc::pollfd { fd: c.pipe, events: libc::POLLIN, revents: 0 }).collect();
    // Wakes up now and then to look at time limits.
    // SAFETY: the array has the length given.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 200) };
}

fn close(fd: i32) {
    // SAFETY: a descriptor of ours that is not used again.
    unsafe { libc::close(fd) };
}

fn write_all(fd: i32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: the slice is valid for its length.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if n > 0 {
            bytes = &bytes[n as usize..];
        } else if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
    true
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_back_in_order_whatever_the_workers() {
        let with = |workers| {
            let plan = Plan { workers, ..Plan::new(7, 42) };
            map(&plan, |s| s.seed ^ s.index)
        };
        let one = with(1);
        assert_eq!(one.len(), 7);
        assert_eq!(one, with(3));
    }

    #[test]
    fn a_crash_names_its_shard_and_step() {
        let plan = Plan { workers: 2, ..Plan::new(3, 1) };
        let results = map(&plan, |s| {
            s.step(100 + s.index);
            match s.index {
                0 => panic!("planted"),
                1 => std::process::abort(),
                _ => 5u8,
            }
        });
        let panicked = WorkerError::Panicked { shard: 0, step: 100, message: "planted".into() };
        assert_eq!(results[0].1, Err(panicked));
        let aborted = WorkerError::Signal { shard: 1, step: 101, signal: libc::SIGABRT };
        assert_eq!(results[1].1, Err(aborted));
        assert_eq!(results[2].1, Ok(5));
    }

    #[test]
    fn a_hang_is_stopped() {
        let plan = Plan { timeout: Some(Duration::from_millis(50)), ..Plan::new(1, 1) };
        let results = map(&plan, |s| {
            s.step(9);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
            #[allow(unreachable_code)]
            0u8
        });
        assert_eq!(results[0].1, Err(WorkerError::TimedOut { shard: 0, step: 9, seconds: 0 }));
    }

    #[test]
    fn isolation_returns_the_value() {
        assert_eq!(isolate(|| vec![1, 2, 3]), Ok(vec![1, 2, 3]));
    }
}
