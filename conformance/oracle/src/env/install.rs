//! Which kernel functions are replaced, and by what.

use super::hooks;
use crate::error::{Error, Result};
use crate::gate;
use crate::runtime::{Detour, Runtime};

/// Callbacks: (our function, kernel names over all versions).
fn callbacks() -> Vec<(u64, &'static [&'static str])> {
    macro_rules! at {
        ($f:ident) => {
            hooks::$f as *const () as u64
        };
    }
    vec![
        (
            at!(clock),
            &["ktime_get", "ktime_get_real", "ktime_get_mono_fast_ns", "ktime_get_coarse", "ktime_get_with_offset"],
        ),
        (at!(random_u8), &["get_random_u8"]),
        (at!(random_u16), &["get_random_u16"]),
        (at!(random_u32), &["get_random_u32"]),
        (at!(random_u64), &["get_random_u64", "get_random_long"]),
        (at!(random_below), &["__get_random_u32_below"]),
        (at!(random_bytes), &["get_random_bytes"]),
        (
            at!(kmalloc),
            &[
                "kvmalloc_node",
                "kvmalloc_node_noprof",
                "__kvmalloc_node_noprof",
                "__kmalloc",
                "__kmalloc_noprof",
                "__kmalloc_node",
                "__kmalloc_node_noprof",
                "__kmalloc_node_track_caller",
                "__kmalloc_node_track_caller_noprof",
                "__kmalloc_large_noprof",
                "kmalloc_large",
                "vmalloc",
                "vmalloc_noprof",
                "vzalloc",
                "vzalloc_noprof",
            ],
        ),
        (at!(kmalloc_array), &["kvcalloc_node_noprof", "kvmalloc_array_node_noprof"]),
        (
            at!(kmalloc_cache),
            &["kmalloc_trace", "__kmalloc_cache_noprof", "kmalloc_node_trace", "__kmalloc_cache_node_noprof"],
        ),
        (at!(krealloc), &["krealloc", "krealloc_noprof", "krealloc_node_align_noprof"]),
        (at!(kfree), &["kfree", "kvfree", "vfree", "kfree_sensitive", "kvfree_sensitive"]),
        (at!(ksize), &["ksize", "__ksize"]),
        (at!(same), &["kmalloc_size_roundup"]),
        (at!(cache_create), &["kmem_cache_create", "kmem_cache_create_usercopy", "__kmem_cache_create_args"]),
        (
            at!(cache_alloc),
            &["kmem_cache_alloc", "kmem_cache_alloc_noprof", "kmem_cache_alloc_node", "kmem_cache_alloc_node_noprof"],
        ),
        (at!(cache_free), &["kmem_cache_free"]),
        (at!(percpu_alloc), &["__alloc_percpu", "__alloc_percpu_gfp", "pcpu_alloc_noprof"]),
        (at!(percpu_free), &["free_percpu"]),
        (at!(kfree_rcu), &["kvfree_call_rcu"]),
        (at!(call_rcu), &["call_rcu", "call_rcu_hurry"]),
        (at!(kfree_skb_reason), &["kfree_skb_reason", "dev_kfree_skb_any_reason", "dev_kfree_skb_irq_reason"]),
        (at!(sk_skb_reason_drop), &["sk_skb_reason_drop"]),
        (at!(kfree_skb), &["kfree_skb", "__kfree_skb"]),
        (at!(consume_skb), &["consume_skb", "__consume_skb"]),
        (at!(kfree_skb_list), &["kfree_skb_list_reason", "kfree_skb_list"]),
        (at!(rtnl_kfree_skbs), &["rtnl_kfree_skbs"]),
        (at!(register_qdisc), &["register_qdisc"]),
        (at!(register_control), &["tcp_register_congestion_control"]),
        (at!(tree_reduce), &[TREE_REDUCE]),
        (at!(watchdog_schedule), &["qdisc_watchdog_schedule_range_ns", "hrtimer_start_range_ns"]),
        (at!(watchdog_cancel), &["qdisc_watchdog_cancel", "hrtimer_cancel", "hrtimer_try_to_cancel"]),
        (at!(timer_init), &["init_timer_key", "timer_init_key"]),
        (at!(timer_arm), &["mod_timer", "mod_timer_pending"]),
        (
            at!(timer_stop),
            &[
                "del_timer",
                "timer_delete",
                "del_timer_sync",
                "timer_delete_sync",
                "timer_shutdown_sync",
                "timer_shutdown",
            ],
        ),
        (at!(schedule_root), &["__netif_schedule", "netif_schedule_queue"]),
        (at!(queue_work), &["queue_work_on", "queue_delayed_work_on"]),
        (at!(classify), &["tcf_classify"]),
        (at!(gso_segment), &[GSO_SEGMENT]),
        (at!(send_ack), &["__tcp_send_ack"]),
        (at!(printk), &["_printk"]),
        (at!(warn_message), &["__warn_printk"]),
        (at!(warn_slowpath), &["warn_slowpath_fmt"]),
        (at!(warn_trap), &["__SCT__WARN_trap"]),
        (at!(once_start), &["__do_once_start", "__do_once_sleepable_start"]),
        (at!(once_done), &["__do_once_done", "__do_once_sleepable_done"]),
        (at!(stack_canary), &["__stack_chk_fail"]),
    ]
}

/// Functions whose original our callback may run.
pub(crate) const GSO_SEGMENT: &str = "__skb_gso_segment";
pub(crate) const TREE_REDUCE: &str = "qdisc_tree_reduce_backlog";

/// Functions that have nothing to do here and answer a constant.
const CONSTANTS: [(&[u8], &[&str]); 3] =
    [(&[0x31, 0xc0, 0xc3], ZERO), (&[0xb8, 1, 0, 0, 0, 0xc3], ONE), (&[0xc3], NOTHING)];

/// Answer 0.
const ZERO: &[&str] = &[
    "tcf_block_get",
    "unregister_qdisc",
    "tcp_unregister_congestion_control",
    "register_btf_kfunc_id_set",
    "gen_new_estimator",
    "gen_replace_estimator",
    "qdisc_watchdog_init",
    "qdisc_watchdog_init_clockid",
    "hrtimer_init",
    "hrtimer_setup",
    "cancel_work_sync",
    "___ratelimit",
    "_raw_spin_lock_irqsave",
    "_raw_read_lock_irqsave",
    "_raw_write_lock_irqsave",
    "__cond_resched",
    "mutex_lock_interruptible",
];

/// Answer 1.
const ONE: &[&str] = &["rtnl_is_locked", "lockdep_rtnl_is_held", "try_module_get", "mutex_trylock"];

/// Answer nothing. The return value register keeps what it held, as for a C function without result.
const NOTHING: &[&str] = &[
    "qdisc_put_stab",
    "tcf_block_put",
    "gen_kill_estimator",
    "module_put",
    "__module_get",
    "do_trace_netlink_extack",
    "sock_wfree",
    "__sock_wfree",
    "tcp_wfree",
    "__rcu_read_lock",
    "__rcu_read_unlock",
    "rcu_barrier",
    "synchronize_rcu",
    "synchronize_rcu_expedited",
    "synchronize_net",
    "rtnl_lock",
    "rtnl_unlock",
    "mutex_lock",
    "mutex_unlock",
    "__local_bh_enable_ip",
    "__local_bh_disable_ip",
    "preempt_schedule",
    "preempt_schedule_notrace",
    "_raw_spin_lock",
    "_raw_spin_unlock",
    "_raw_spin_lock_bh",
    "_raw_spin_unlock_bh",
    "_raw_spin_lock_irq",
    "_raw_spin_unlock_irq",
    "_raw_spin_unlock_irqrestore",
    "_raw_read_lock",
    "_raw_read_unlock",
    "_raw_read_lock_bh",
    "_raw_read_unlock_bh",
    "_raw_read_unlock_irqrestore",
    "_raw_write_lock",
    "_raw_write_unlock",
    "_raw_write_lock_bh",
    "_raw_write_unlock_bh",
    "_raw_write_unlock_irqrestore",
    "__x86_return_thunk",
    "__fentry__",
];

/// Lays the stubs into the arena.
pub(crate) fn install(rt: &Runtime) -> Result<()> {
    for (callback, names) in callbacks() {
        let stub = place(rt, &gate::trampoline(callback))?;
        for name in names {
            rt.stubs.borrow_mut().insert((*name).into(), stub);
        }
    }
    for (code, names) in CONSTANTS {
        for name in names {
            let stub = place(rt, code)?;
            rt.stubs.borrow_mut().insert((*name).into(), stub);
        }
    }
    // jmp *%reg
    for (i, reg) in ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"].iter().enumerate() {
        let stub = place(rt, &[0xff, 0xe0 + i as u8])?;
        rt.stubs.borrow_mut().insert(format!("__x86_indirect_thunk_{reg}"), stub);
    }
    for i in 8..16u8 {
        let stub = place(rt, &[0x41, 0xff, 0xe0 + (i - 8)])?;
        rt.stubs.borrow_mut().insert(format!("__x86_indirect_thunk_r{i}"), stub);
    }
    Ok(())
}

fn place(rt: &Runtime, code: &[u8]) -> Result<u64> {
    match rt.arena.carve(code.len() as u64, 16) {
        0 => Err(rt.arena_full()),
        at => {
            rt.mem.write_bytes(at, code);
            Ok(at)
        }
    }
}

/// `jmp rel32` from `from` to `to`; everything is below 2 GiB, so it always fits.
fn jump(from: u64, to: u64) -> [u8; 5] {
    let offset = (to.wrapping_sub(from + 5)) as u32;
    let o = offset.to_le_bytes();
    [0xe9, o[0], o[1], o[2], o[3]]
}

/// Diverts the image's own copies of the replaced functions, so that built-in callers get ours too.
/// Returns how many there were.
pub(crate) fn patch_image(rt: &Runtime) -> Result<usize> {
    let mut n = 0;
    for (name, stub) in rt.stubs.borrow().iter() {
        let Some(entry) = rt.image.symbol(name) else {
            continue;
        };
        if !rt.mem.image().contains(&entry) {
            return Err(Error::NoSymbol(format!("{name} (at {entry:#x}, outside the image)")));
        }
        let code = jump(entry, *stub);
        if name == GSO_SEGMENT || name == TREE_REDUCE {
            let mut original = [0; 5];
            original.copy_from_slice(rt.mem.bytes(entry, 5));
            let detour = Detour { entry, original, jump: code };
            rt.detours.borrow_mut().insert(name.clone(), detour);
        }
        rt.mem.write_bytes(entry, &code);
        n += 1;
    }
    Ok(n)
}

/// The address that calls of an import are bound to: ours, the image's, another module's, or a trap that
/// knows the name.
pub(crate) fn resolve(rt: &Runtime, name: &str) -> u64 {
    if let Some(stub) = rt.stubs.borrow().get(name) {
        // These are compared by address, so everybody must see the image's.
        let identity = name.ends_with("wfree");
        return rt.image.exports.get(name).filter(|_| identity).copied().unwrap_or(*stub);
    }
    if let Some(at) = rt.image.exports.get(name) {
        return *at;
    }
    if let Some(at) = rt.modules.borrow().iter().find_map(|m| m.exports.get(name).copied()) {
        return at;
    }
    let index = rt.traps.borrow().len();
    rt.traps.borrow_mut().push(name.into());
    let callback = gate::trampoline(hooks::unresolved as *const () as u64);
    // mov edi, index
    let mut code = vec![0xbf];
    code.extend_from_slice(&(index as u32).to_le_bytes());
    code.extend_from_slice(&callback);
    place(rt, &code).unwrap_or(0)
}
