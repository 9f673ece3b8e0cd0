//! The callbacks that stand in for kernel functions.
//!
//! Each runs on the world's thread, inside a gate, with integer arguments as the kernel passes them. None
//! may panic: a panic across the kernel's frames would abort the process.

use super::install::TREE_REDUCE;
use super::{DropPath, Event, Width, record};
use crate::error::Fault;
use crate::gate;
use crate::memory::Freed;
use crate::runtime::{self, RawFault, Runtime};

#[inline]
fn rt() -> &'static Runtime {
    match runtime::current() {
        Some(rt) => rt,
        // Callbacks only run while a world exists.
        None => std::process::abort(),
    }
}

pub(super) extern "C" fn clock() -> u64 {
    rt().env.read_clock()
}

pub(super) extern "C" fn random_u8() -> u64 {
    rt().env.draw(Width::U8)
}

pub(super) extern "C" fn random_u16() -> u64 {
    rt().env.draw(Width::U16)
}

pub(super) extern "C" fn random_u32() -> u64 {
    rt().env.draw(Width::U32)
}

pub(super) extern "C" fn random_u64() -> u64 {
    rt().env.draw(Width::U64)
}

pub(super) extern "C" fn random_below(limit: u32) -> u64 {
    rt().env.draw(Width::Below(limit))
}

pub(super) extern "C" fn random_bytes(at: u64, len: u64) {
    let rt = rt();
    let mut done = 0;
    while done < len {
        let n = (len - done).min(8);
        let value = rt.env.draw(Width::Bytes(n as u8)).to_le_bytes();
        rt.mem.write_bytes(at + done, &value[..n as usize]);
        done += n;
    }
}

fn allocate(len: u64) -> u64 {
    let rt = rt();
    let env = &rt.env;
    env.allocations.set(env.allocations.get() + 1);
    let failing = env.fail_allocations.get();
    if failing > 0 {
        env.fail_allocations.set(failing - 1);
        return 0;
    }
    rt.arena.alloc(&rt.mem, len)
}

pub(super) extern "C" fn kmalloc(len: u64) -> u64 {
    allocate(len)
}

pub(super) extern "C" fn kmalloc_array(n: u64, size: u64) -> u64 {
    n.checked_mul(size).map_or(0, allocate)
}

/// (cache, flags, size): the fixed-size caches behind `kmalloc` of constant sizes.
pub(super) extern "C" fn kmalloc_cache(_cache: u64, _flags: u64, len: u64) -> u64 {
    allocate(len)
}

pub(super) extern "C" fn krealloc(old: u64, len: u64) -> u64 {
    let rt = rt();
    let new = allocate(len);
    if old > 16 && new != 0 {
        let keep = rt.arena.usable(&rt.mem, old).min(len);
        let bytes = rt.mem.bytes(old, keep).to_vec();
        rt.mem.write_bytes(new, &bytes);
        kfree(old);
    }
    new
}

pub(super) extern "C" fn kfree(at: u64) {
    // 0 and ZERO_SIZE_PTR (16) free nothing.
    if at > 16 {
        let rt = rt();
        rt.note_free(at, rt.arena.free(&rt.mem, at));
    }
}

pub(super) extern "C" fn ksize(at: u64) -> u64 {
    let rt = rt();
    rt.arena.usable(&rt.mem, at)
}

pub(super) extern "C" fn same(value: u64) -> u64 {
    value
}

const CACHE_MAGIC: u64 = 0x0cac_4e0b_1ec7_5000;
/// Large enough for the objects of the image's own caches, which were never created.
const CACHE_DEFAULT: u64 = 1024;

/// (name, size, …): both old and new ways to create a cache have the size second.
pub(super) extern "C" fn cache_create(_name: u64, size: u32) -> u64 {
    let rt = rt();
    let cache = rt.arena.alloc(&rt.mem, 16);
    if cache != 0 {
        rt.mem.write(cache, CACHE_MAGIC);
        rt.mem.write(cache + 8, u64::from(size));
    }
    cache
}

pub(super) extern "C" fn cache_alloc(cache: u64) -> u64 {
    let rt = rt();
    let known = rt.arena.is_live(&rt.mem, cache) && rt.mem.read::<u64>(cache) == CACHE_MAGIC;
    allocate(if known { rt.mem.read(cache + 8) } else { CACHE_DEFAULT })
}

pub(super) extern "C" fn cache_free(_cache: u64, at: u64) {
    kfree(at);
}

/// Per-cpu memory: one processor, addressed relative to `%gs`.
pub(super) extern "C" fn percpu_alloc(len: u64) -> u64 {
    match allocate(len) {
        0 => 0,
        at => at.wrapping_sub(rt().gs_base),
    }
}

pub(super) extern "C" fn percpu_free(at: u64) {
    if at != 0 {
        kfree(at.wrapping_add(rt().gs_base));
    }
}

/// (head, pointer): memory to be freed later is freed now; nobody else can be reading it.
pub(super) extern "C" fn kfree_rcu(head: u64, pointer: u64) {
    kfree(if pointer != 0 { pointer } else { head });
}

/// (head, function): runs when the outermost call is over.
pub(super) extern "C" fn call_rcu(head: u64, function: u64) {
    rt().env.deferred.borrow_mut().push((head, function));
}

fn end_packet(skb: u64, reason: u32, path: DropPath) {
    let rt = rt();
    if skb == 0 {
        return;
    }
    if !rt.arena.is_live(&rt.mem, skb) {
        rt.note_free(skb, Freed::Unknown);
        return;
    }
    let users = skb + rt.layout.at.users;
    let n = rt.mem.read::<u32>(users);
    if n > 1 {
        rt.mem.write(users, n - 1);
        return;
    }
    let packet = rt.packet_ref(skb);
    rt.env.log(record::ACTIONS, Event::Drop { packet, reason, path });
    rt.retire_packet(skb);
}

/// (skb, reason)
pub(super) extern "C" fn kfree_skb_reason(skb: u64, reason: u32) {
    end_packet(skb, reason, DropPath::Direct);
}

/// (sk, skb, reason)
pub(super) extern "C" fn sk_skb_reason_drop(_sk: u64, skb: u64, reason: u32) {
    end_packet(skb, reason, DropPath::Direct);
}

/// (skb) without a reason.
pub(super) extern "C" fn kfree_skb(skb: u64) {
    end_packet(skb, 0, DropPath::Direct);
}

pub(super) extern "C" fn consume_skb(skb: u64) {
    end_packet(skb, 0, DropPath::Consumed);
}

/// (list, reason)
pub(super) extern "C" fn kfree_skb_list(mut skb: u64, reason: u32) {
    let rt = rt();
    while skb != 0 {
        let next = rt.mem.read(skb + rt.layout.at.next);
        end_packet(skb, reason, DropPath::Direct);
        skb = next;
    }
}

/// (head, tail): freed by the kernel after the lock is dropped.
pub(super) extern "C" fn rtnl_kfree_skbs(skb: u64, _tail: u64) {
    kfree_skb_list(skb, 0);
}

pub(super) extern "C" fn register_qdisc(ops: u64) -> u64 {
    rt().qdiscs.borrow_mut().push(ops);
    0
}

pub(super) extern "C" fn register_control(ops: u64) -> u64 {
    rt().controls.borrow_mut().push(ops);
    0
}

/// (qdisc, packets, bytes): noted, and carried out where there is a real tree.
pub(super) extern "C" fn tree_reduce(qdisc: u64, packets: i32, bytes: i32) {
    let rt = rt();
    let handle = rt.mem.read(qdisc + rt.qdisc_handle);
    rt.env.log(record::ACTIONS, Event::TreeReduce { handle, packets, bytes });
    if rt.has_real_parent(qdisc) {
        let word = |v: i32| u64::from(v as u32);
        rt.original(TREE_REDUCE, [qdisc, word(packets), word(bytes)]);
    }
}

/// (watchdog, expires, slack)
pub(super) extern "C" fn watchdog_schedule(watchdog: u64, expires_ns: u64, slack_ns: u64) {
    rt().env.log(record::ACTIONS, Event::Watchdog { watchdog, expires_ns, slack_ns });
}

pub(super) extern "C" fn watchdog_cancel(watchdog: u64) {
    rt().env.log(record::ACTIONS, Event::WatchdogCancel { watchdog });
}

/// (timer, function, flags, …)
pub(super) extern "C" fn timer_init(timer: u64, function: u64) {
    let rt = rt();
    rt.mem.write(timer + rt.timer_function, function);
}

/// (timer, expires)
pub(super) extern "C" fn timer_arm(timer: u64, expires: u64) -> u64 {
    let env = &rt().env;
    let mut timers = env.timers.borrow_mut();
    let before = timers.len();
    timers.retain(|t| t.0 != timer);
    let was_armed = before != timers.len();
    timers.push((timer, expires));
    env.log(record::ACTIONS, Event::Timer { timer, expires });
    u64::from(was_armed)
}

pub(super) extern "C" fn timer_stop(timer: u64) -> u64 {
    let env = &rt().env;
    let mut timers = env.timers.borrow_mut();
    let before = timers.len();
    timers.retain(|t| t.0 != timer);
    env.log(record::ACTIONS, Event::TimerCancel { timer });
    u64::from(before != timers.len())
}

pub(super) extern "C" fn schedule_root() {
    rt().env.log(record::ACTIONS, Event::Schedule);
}

pub(super) extern "C" fn queue_work() -> u64 {
    rt().env.log(record::ACTIONS, Event::Work);
    1
}

/// (skb, block, filter, result, compat): the filters are a script.
pub(super) extern "C" fn classify(skb: u64, _block: u64, _filter: u64, result: u64) -> i64 {
    let rt = rt();
    let answer = match rt.env.classifier.borrow_mut().as_mut() {
        Some(script) => script(rt.packet_ref(skb)),
        None => return -1,
    };
    // struct tcf_result: an unsigned long class, then the u32 class id.
    rt.mem.write(result, 0u64);
    rt.mem.write(result + 8, answer.classid);
    i64::from(answer.action)
}

/// (skb, features, tx_path)
pub(super) extern "C" fn gso_segment(skb: u64, features: u64, tx_path: u64) -> u64 {
    rt().split(skb, features, tx_path)
}

pub(super) extern "C" fn send_ack() {
    let env = &rt().env;
    env.acks_sent.set(env.acks_sent.get() + 1);
}

/// Messages kept; more are only counted by their absence.
const PRINTED: usize = 64;

fn keep_message(format: u64) {
    let rt = rt();
    let mut printed = rt.env.printed.borrow_mut();
    if printed.len() < PRINTED {
        // The level marker (SOH and a digit) is not part of the text.
        let text = rt.mem.c_str(format);
        let text = text.trim_start_matches('\u{1}').trim().to_owned();
        printed.push(text);
    }
}

pub(super) extern "C" fn printk(format: u64) -> u64 {
    keep_message(format);
    0
}

/// Prints the message of a WARN whose trap follows.
pub(super) extern "C" fn warn_message(format: u64) {
    let rt = rt();
    let mut texts = rt.env.warn_texts.borrow_mut();
    if texts.len() < PRINTED {
        texts.push(rt.mem.c_str(format).trim().to_owned());
    }
    rt.env.warn_pending.set(texts.len());
}

/// (file, line, taint, format)
pub(super) extern "C" fn warn_slowpath(file: u64, line: u64, _taint: u64, format: u64) {
    let rt = rt();
    let message = (format != 0).then(|| rt.mem.c_str(format).trim().to_owned());
    let at = format!("{}:{line}", rt.mem.c_str(file));
    rt.env.trouble.borrow_mut().push(Fault::Warn { at, message });
}

/// (bug entry, …): 7.x warns through a static call instead of a trap.
pub(super) extern "C" fn warn_trap(entry: u64) {
    let rt = rt();
    let at = rt.bugs.site(&rt.mem, entry);
    rt.note(RawFault::Warn { at, entry, text: 0 });
}

/// (done) → may this caller initialise?
pub(super) extern "C" fn once_start(done: u64) -> u64 {
    u64::from(rt().mem.read::<u8>(done) == 0)
}

pub(super) extern "C" fn once_done(done: u64) {
    rt().mem.write(done, 1u8);
}

fn leave(fault: RawFault) -> ! {
    let rt = rt();
    rt.note(fault);
    let here = 0u64;
    let gate = gate::gate();
    rt.note_stack(&raw const here as u64, gate);
    if gate == 0 {
        std::process::abort();
    }
    // SAFETY: inside a gate; this frame and the callback's own nothing.
    unsafe { gate::escape() }
}

/// (index of the name): an import that nobody provides was called.
pub(crate) extern "C" fn unresolved(index: u64) {
    leave(RawFault::Unresolved { index });
}

pub(super) extern "C" fn stack_canary() {
    leave(RawFault::Canary { at: 0 });
}
