/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What every qdisc's enqueue, dequeue and configuration record. */
#pragma once

static __always_inline void queue_now(struct Qdisc *sch, u32 *qlen, u32 *backlog)
{
    *qlen = BPF_CORE_READ(sch, q.qlen);
    *backlog = BPF_CORE_READ(sch, qstats.backlog);
}

static __always_inline int enqueue_begins(struct sk_buff *skb, struct Qdisc *sch)
{
    struct local *here = local();
    if (!here)
        return 0;
    enter(here, sch);
    here->flow = 0;
    struct r_enq *r = RESERVE(T_ENQ, sizeof *r);
    if (!r)
        return 0;
    r->skb = (u64)skb;
    r->sch = (u64)sch;
    r->len = BPF_CORE_READ(skb, len);
    r->data_len = BPF_CORE_READ(skb, data_len);
    r->truesize = BPF_CORE_READ(skb, truesize);
    r->prio = BPF_CORE_READ(skb, priority);
    r->mark = BPF_CORE_READ(skb, mark);
    r->hash = BPF_CORE_READ(skb, hash);
    r->proto = BPF_CORE_READ(skb, protocol);
    r->tc_index = BPF_CORE_READ(skb, tc_index);
    r->tstamp = BPF_CORE_READ(skb, tstamp);
    unsigned char *head = BPF_CORE_READ(skb, head), *data = BPF_CORE_READ(skb, data);
    r->nhoff = head + BPF_CORE_READ(skb, network_header) - data;
    r->thoff = head + BPF_CORE_READ(skb, transport_header) - data;
    r->inner_nhoff = head + BPF_CORE_READ(skb, inner_network_header) - data;
    r->inner_thoff = head + BPF_CORE_READ(skb, inner_transport_header) - data;
    struct skb_shared_info *shared = (void *)(head + BPF_CORE_READ(skb, end));
    r->gso_size = BPF_CORE_READ(shared, gso_size);
    r->gso_segs = BPF_CORE_READ(shared, gso_segs);
    r->gso_type = BPF_CORE_READ(shared, gso_type);
    bpf_probe_read_kernel(r->cb, sizeof r->cb, (void *)skb + bpf_core_field_offset(struct sk_buff, cb));
    __builtin_memset(r->flags, 0, sizeof r->flags);
    __builtin_memset(r->data, 0, sizeof r->data);
    __builtin_memset(r->more, 0, sizeof r->more);
    u32 linear = r->len - r->data_len;
    if (linear > HEADER_BYTES + HEADER_MORE)
        linear = HEADER_BYTES + HEADER_MORE;
    r->linear = linear;
    bpf_probe_read_kernel(r->data, linear < HEADER_BYTES ? linear : HEADER_BYTES, data);
    if (linear > HEADER_BYTES)
        bpf_probe_read_kernel(r->more, (linear - HEADER_BYTES) & 0x7f, data + HEADER_BYTES);
    bool tagged = bpf_core_field_exists(skb->vlan_present) ? NUMBER(skb, vlan_present) : NUMBER(skb, vlan_all) != 0;
    r->vlan_proto = tagged ? BPF_CORE_READ(skb, vlan_proto) : 0;
    r->vlan_tci = tagged ? BPF_CORE_READ(skb, vlan_tci) : 0;
    r->l4_hash = NUMBER(skb, l4_hash);
    r->sw_hash = NUMBER(skb, sw_hash);
    r->encapsulation = NUMBER(skb, encapsulation);
    r->tstamp_type = 0;
    if (bpf_core_field_exists(skb->tstamp_type))
        r->tstamp_type = NUMBER(skb, tstamp_type);
    else if (bpf_core_field_exists(skb->mono_delivery_time))
        r->tstamp_type = NUMBER(skb, mono_delivery_time);
    struct sock *sk = BPF_CORE_READ(skb, sk);
    r->sk = (u64)sk;
    r->destructor = (u64)BPF_CORE_READ(skb, destructor);
    r->pacing_rate = sk ? BPF_CORE_READ(sk, sk_pacing_rate) : 0;
    r->sk_hash = sk ? BPF_CORE_READ(sk, __sk_common.skc_hash) : 0;
    r->sk_state = sk ? BPF_CORE_READ(sk, __sk_common.skc_state) : 0;
    r->sk_protocol = sk ? NUMBER(sk, sk_protocol) : 0;
    r->sk_pacing = sk ? BPF_CORE_READ(sk, sk_pacing_status) : 0;
    r->sk_max_pacing_set = sk ? BPF_CORE_READ(sk, sk_max_pacing_rate) != ~0ul : 0;
    r->pad8 = 0;
    r->jiffies = jiffies_now();
    r->parked = BPF_CORE_READ(sch, gso_skb.qlen);
    queue_now(sch, &r->qlen, &r->backlog);
    SUBMIT(r);
    return 0;
}

/* A long to-free list is gathered here: a loop over it inside one program would take the verifier minutes. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct r_freed);
} gathered SEC(".maps");

struct walk { struct sk_buff *next; };

static long gather_one(u32 index, void *context)
{
    struct walk *walk = context;
    u32 zero = 0;
    struct r_freed *r = bpf_map_lookup_elem(&gathered, &zero);
    struct sk_buff *p = walk->next;
    if (!r || !p)
        return 1;
    r->skb[index & (FREED_LONG - 1)] = (u64)p;
    r->n = index + 1;
    walk->next = BPF_CORE_READ(p, next);
    return 0;
}

/* The packets of a to-free list: the first few into `some`, all of them as a record of their own if there are more. */
static __always_inline u32 to_be_freed(struct Qdisc *sch, struct sk_buff *first, u64 *some)
{
    struct sk_buff *p = first;
    u32 n = 0, zero = 0;
    for (int i = 0; i < FREED_SHORT; i++) {
        some[i] = (u64)p;
        if (p) {
            n++;
            p = BPF_CORE_READ(p, next);
        }
    }
    if (!p)
        return n;
    struct r_freed *r = bpf_map_lookup_elem(&gathered, &zero);
    if (!r)
        return n;
    struct walk walk = {first};
    r->n = 0;
    bpf_loop(FREED_LONG, gather_one, &walk, 0);
    if (walk.next)
        __sync_fetch_and_add(&outcome.lost, 1); /* longer than any call's list was thought to be */
    r->sch = (u64)sch;
    r->pad = 0;
    u32 size = sizeof *r - sizeof r->skb + r->n * sizeof(u64);
    if (size > sizeof *r)
        return n;
    stamp(&r->h, T_FREED, size);
    if (bpf_ringbuf_output(&ring, r, size, 0))
        __sync_fetch_and_add(&outcome.lost, 1);
    return r->n;
}

#define COUNTERS(r, sch) \
    do { \
        (r)->drops = BPF_CORE_READ(sch, qstats.drops); \
        (r)->overlimits = BPF_CORE_READ(sch, qstats.overlimits); \
        BPF_CORE_READ_INTO(&(r)->bytes, sch, bstats.bytes); \
        BPF_CORE_READ_INTO(&(r)->packets, sch, bstats.packets); \
        queue_now(sch, &(r)->qlen, &(r)->backlog); \
    } while (0)

static __always_inline int enqueue_ended(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **list, int ret)
{
    struct local *here = local();
    if (!here)
        return 0;
    struct sk_buff *first = 0;
    bpf_probe_read_kernel(&first, sizeof first, list);
    u64 some[FREED_SHORT];
    u32 nfree = to_be_freed(sch, first, some);
    struct r_enqr *r = RESERVE(T_ENQR, sizeof *r);
    if (r) {
        r->skb = (u64)skb;
        r->sch = (u64)sch;
        r->ret = ret;
        r->hash = BPF_CORE_READ(skb, hash);
        bpf_probe_read_kernel(r->cb, sizeof r->cb, (void *)skb + bpf_core_field_offset(struct sk_buff, cb));
        r->nfree = nfree;
        r->pad = 0;
        __builtin_memcpy(r->tofree, some, sizeof some);
        COUNTERS(r, sch);
        SUBMIT(r);
    }
    leave(here);
    return 0;
}

static __always_inline int dequeue_begins(struct Qdisc *sch)
{
    struct local *here = local();
    if (!here)
        return 0;
    enter(here, sch);
    struct r_deq *r = RESERVE(T_DEQ, sizeof *r);
    if (!r)
        return 0;
    r->sch = (u64)sch;
    queue_now(sch, &r->qlen, &r->backlog);
    r->jiffies = jiffies_now();
    r->parked = BPF_CORE_READ(sch, gso_skb.qlen);
    r->pad = 0;
    SUBMIT(r);
    return 0;
}

static __always_inline int dequeue_ended(struct Qdisc *sch, struct sk_buff *skb)
{
    struct local *here = local();
    if (!here)
        return 0;
    u64 some[FREED_SHORT] = {};
    u32 nfree = 0;
    if (bpf_core_field_exists(sch->to_free))
        nfree = to_be_freed(sch, BPF_CORE_READ(sch, to_free), some);
    struct r_deqr *r = RESERVE(T_DEQR, sizeof *r);
    if (r) {
        r->sch = (u64)sch;
        r->skb = (u64)skb;
        r->len = r->hash = r->linear = r->sk_state = r->gso_segs = 0;
        r->sk = r->pacing_rate = r->tstamp = 0;
        __builtin_memset(r->cb, 0, sizeof r->cb);
        __builtin_memset(r->data, 0, sizeof r->data);
        if (skb) {
            r->len = BPF_CORE_READ(skb, len);
            r->hash = BPF_CORE_READ(skb, hash);
            r->tstamp = BPF_CORE_READ(skb, tstamp);
            u32 linear = r->len - BPF_CORE_READ(skb, data_len);
            if (linear > sizeof r->data)
                linear = sizeof r->data;
            r->linear = linear;
            bpf_probe_read_kernel(r->cb, sizeof r->cb, (void *)skb + bpf_core_field_offset(struct sk_buff, cb));
            bpf_probe_read_kernel(r->data, linear, BPF_CORE_READ(skb, data));
            unsigned char *head = BPF_CORE_READ(skb, head);
            struct skb_shared_info *shared = (void *)(head + BPF_CORE_READ(skb, end));
            r->gso_segs = BPF_CORE_READ(shared, gso_segs);
            struct sock *sk = BPF_CORE_READ(skb, sk);
            r->sk = (u64)sk;
            if (sk) {
                r->pacing_rate = BPF_CORE_READ(sk, sk_pacing_rate);
                r->sk_state = BPF_CORE_READ(sk, __sk_common.skc_state);
            }
        }
        r->nfree = nfree;
        __builtin_memcpy(r->tofree, some, sizeof some);
        COUNTERS(r, sch);
        SUBMIT(r);
    }
    leave(here);
    return 0;
}

static __always_inline int configure_begins(struct Qdisc *sch, u32 what, void *opt)
{
    struct local *here = local();
    if (!here)
        return 0;
    enter(here, sch);
    struct r_conf *r = RESERVE(T_CONF, sizeof *r);
    if (!r)
        return 0;
    struct net_device *dev = BPF_CORE_READ(sch, dev_queue, dev);
    r->sch = (u64)sch;
    r->what = what;
    r->ret = 0;
    r->handle = BPF_CORE_READ(sch, handle);
    r->parent = BPF_CORE_READ(sch, parent);
    r->mtu = BPF_CORE_READ(dev, mtu);
    r->hard_header_len = BPF_CORE_READ(dev, hard_header_len);
    r->ifindex = BPF_CORE_READ(dev, ifindex);
    r->jiffies = jiffies_now();
    __builtin_memset(r->opt, 0, sizeof r->opt);
    u16 len = 0; /* struct nlattr: length with its own four bytes, type, payload */
    if (opt)
        bpf_probe_read_kernel(&len, sizeof len, opt);
    r->optlen = len;
    u32 n = len > OPTION_BYTES ? OPTION_BYTES : len;
    if (n)
        bpf_probe_read_kernel(r->opt, n, opt);
    SUBMIT(r);
    return 0;
}

static __always_inline int configure_ended(struct Qdisc *sch, u32 what, int ret)
{
    struct local *here = local();
    if (!here)
        return 0;
    three(T_CONFR, (u64)sch, what, (s64)ret);
    leave(here);
    return 0;
}

static __always_inline int inside_begins(u32 type, const void *sch, u64 w, u64 x)
{
    struct local *here = local();
    if (!here)
        return 0;
    enter(here, sch);
    return three(type, (u64)sch, w, x);
}

static __always_inline int inside_ended(u32 type, const void *sch, u64 w)
{
    struct local *here = local();
    if (!here)
        return 0;
    three(type, (u64)sch, w, 0);
    leave(here);
    return 0;
}
