/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a qdisc reads from the world while it runs: clock, random draws, hashes; and what it does to others.
 * Global functions are hooked twice. A program that is interrupted inside itself is not run again for the nested
 * call, so one attachment alone loses events; of two, whichever runs first records and the other sees that it did. */
#pragma once

static __always_inline u64 in_text(u64 address)
{
    for (int i = 0; i < 3; i++)
        if (address >= config.text_low[i] && address < config.text_high[i])
            return address;
    return 0;
}

/* The return address of the hooked call, from the frame above the program's arguments: after the return value come
 * the saved frame pointer, on some kernels the address inside the hooked function, then its caller. */
static __always_inline u64 caller(void *ctx, int args)
{
    u64 frame[3] = {};
    bpf_probe_read_kernel(frame, sizeof frame, ctx + 8 * (args + 1));
    u64 found = in_text(frame[1]);
    return found ? found : in_text(frame[2]);
}

#define ONLY_FROM_QDISC(here, args, from) \
    struct local *here = local(); \
    if (!here || !here->inside) \
        return 0; \
    u64 from = caller(ctx, args); \
    if (!from) { \
        __sync_fetch_and_add(&outcome.foreign, 1); \
        return 0; \
    }

/* True when the other attachment has already recorded this value. */
static __always_inline bool recorded(struct local *here, int second, int slot, u64 value)
{
    if (here->last_by[slot] == (second ? 1 : 2) && here->last[slot] == value) {
        here->last_by[slot] = 0;
        return true;
    }
    here->last_by[slot] = second ? 2 : 1;
    here->last[slot] = value;
    if (second)
        __sync_fetch_and_add(&outcome.second, 1);
    return false;
}

#define CLOCK(name, second) \
    SEC("fexit/ktime_get") int BPF_PROG(input__##name, u64 ret) \
    { \
        ONLY_FROM_QDISC(here, 0, from) \
        if (recorded(here, second, 0, ret)) \
            return 0; \
        return three(T_KTIME, ret, from, preempt_count_now()); \
    }
CLOCK(clock_a, 0)
CLOCK(clock_b, 1)

#define DRAW(function, bits, slot, args, suffix, second) \
    SEC("fexit/" #function) int input__##function##suffix(u64 *ctx) \
    { \
        ONLY_FROM_QDISC(here, args, from) \
        u64 value = ctx[args] & (~0ull >> (64 - bits)); \
        if (recorded(here, second, slot, value)) \
            return 0; \
        return three(T_RND, value, bits, from); \
    }
#define DRAWS(function, bits, slot, args) DRAW(function, bits, slot, args, _a, 0) DRAW(function, bits, slot, args, _b, 1)
DRAWS(get_random_u8, 8, 1, 0)
DRAWS(get_random_u16, 16, 2, 0)
DRAWS(get_random_u32, 32, 3, 0)
DRAWS(get_random_u64, 64, 4, 0)
DRAWS(__get_random_u32_below, 32, 5, 1)

#define BYTES(name, second) \
    SEC("fexit/get_random_bytes") int BPF_PROG(input__##name, void *buffer, u64 n) \
    { \
        ONLY_FROM_QDISC(here, 2, from) \
        u64 first = 0; \
        bpf_probe_read_kernel(&first, sizeof first, buffer); \
        if (recorded(here, second, 6, first)) \
            return 0; \
        struct r_bytes *r = RESERVE(T_RNDBYTES, sizeof *r); \
        if (!r) \
            return 0; \
        r->n = n; \
        __builtin_memset(r->b, 0, sizeof r->b); \
        u64 take = n; \
        barrier_var(take); /* the verifier must see this very comparison */ \
        if (take > sizeof r->b) \
            take = sizeof r->b; \
        bpf_probe_read_kernel(r->b, take, buffer); \
        SUBMIT(r); \
        return 0; \
    }
BYTES(bytes_a, 0)
BYTES(bytes_b, 1)

static __always_inline bool qdisc_runs(void)
{
    struct local *here = local();
    return here && here->inside && !in_interrupt();
}

SEC("fexit/flow_hash_from_keys") int BPF_PROG(input__flow_hash, void *keys, u32 ret)
{
    if (!qdisc_runs())
        return 0;
    struct r_fh *r = RESERVE(T_FLOWHASH, sizeof *r);
    if (!r)
        return 0;
    r->ret = ret;
    bpf_probe_read_kernel(r->keys, sizeof r->keys, keys);
    SUBMIT(r);
    return 0;
}

SEC("fexit/__skb_get_hash_net") int BPF_PROG(input__skb_hash, void *net, struct sk_buff *skb)
{
    return qdisc_runs() ? three(T_SKBHASH, BPF_CORE_READ(skb, hash), (u64)skb, 0) : 0;
}

SEC("fexit/nf_ct_get_tuple_skb") int BPF_PROG(input__tuple, void *tuple, struct sk_buff *skb, bool ret)
{
    if (!qdisc_runs())
        return 0;
    struct r_tuple *r = RESERVE(T_TUPLE, sizeof *r);
    if (!r)
        return 0;
    r->skb = (u64)skb;
    r->found = ret;
    r->pad = 0;
    bpf_probe_read_kernel(r->tuple, sizeof r->tuple, tuple);
    SUBMIT(r);
    return 0;
}

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct r_segs);
} segments SEC(".maps");

static long segment_one(u32 index, void *context)
{
    struct walk *walk = context;
    u32 zero = 0;
    struct r_segs *r = bpf_map_lookup_elem(&segments, &zero);
    struct sk_buff *p = walk->next;
    if (!r || !p)
        return 1;
    struct segment *s = &r->segment[index & (SEGMENTS_MAX - 1)];
    s->skb = (u64)p;
    s->len = BPF_CORE_READ(p, len);
    s->truesize = BPF_CORE_READ(p, truesize);
    r->n = index + 1;
    walk->next = BPF_CORE_READ(p, next);
    return 0;
}

SEC("fexit/__skb_gso_segment") int BPF_PROG(input__segments, struct sk_buff *skb, u64 features, bool tx_path, struct sk_buff *ret)
{
    u32 zero = 0;
    struct r_segs *r = bpf_map_lookup_elem(&segments, &zero);
    if (!qdisc_runs() || !r || !ret || (u64)ret >= (u64)-4095)
        return 0;
    struct walk walk = {ret};
    r->n = r->pad = 0;
    r->skb = (u64)skb;
    bpf_loop(SEGMENTS_MAX, segment_one, &walk, 0);
    if (walk.next)
        __sync_fetch_and_add(&outcome.lost, 1);
    u32 size = sizeof *r - sizeof r->segment + r->n * sizeof(struct segment);
    if (size > sizeof *r)
        return 0;
    stamp(&r->h, T_SEGS, size);
    if (bpf_ringbuf_output(&ring, r, size, 0))
        __sync_fetch_and_add(&outcome.lost, 1);
    return 0;
}

/* A buffer freed while the qdisc runs. Reason 0x10000: consumed (an acknowledgement filtered away, a burst that
 * was split), not dropped. */
static __always_inline int freed(struct sk_buff *skb, u32 reason)
{
    struct local *here = local();
    return qdisc_runs() && here ? three(T_DROP, (u64)skb, reason, here->inside) : 0;
}
SEC("fentry/kfree_skb_reason") int BPF_PROG(input__drop_61, struct sk_buff *skb, int reason) { return freed(skb, reason); }
SEC("fentry/sk_skb_reason_drop") int BPF_PROG(input__drop, void *sk, struct sk_buff *skb, int reason) { return freed(skb, reason); }
SEC("fentry/consume_skb") int BPF_PROG(input__consume, struct sk_buff *skb) { return freed(skb, 0x10000); }

/* Freed by a change of the configuration, after the lock is gone (reason 0x20000); a list of several is a reset's. */
SEC("fentry/rtnl_kfree_skbs") int BPF_PROG(input__change_free, struct sk_buff *head, struct sk_buff *tail)
{
    return head && head == tail ? freed(head, 0x20000) : 0;
}

SEC("fentry/qdisc_tree_reduce_backlog") int BPF_PROG(input__reduce, struct Qdisc *sch, int n, int len)
{
    struct local *here = local();
    return here && here->inside ? three(T_REDUCE, (u64)sch, (s64)n, (s64)len) : 0;
}

SEC("fentry/qdisc_watchdog_schedule_range_ns") int BPF_PROG(input__watchdog, void *wd, u64 expires, u64 slack)
{
    struct local *here = local();
    return here && here->inside ? three(T_WATCHDOG, expires, slack, 0) : 0;
}
