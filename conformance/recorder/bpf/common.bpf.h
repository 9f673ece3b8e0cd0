/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What every part shares: the kernel's types as far as they are read, the ring, the per-processor state.
 * Only names are given here. Offsets and widths come from the running kernel's own type information when the
 * object is loaded, so one object serves every kernel that has BTF. */
#pragma once

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#include "record.h"

#define KERNEL __attribute__((preserve_access_index))

struct list_head { struct list_head *next, *prev; } KERNEL;
struct sk_buff_head { u32 qlen; } KERNEL;

struct sock_common {
    u32 skc_hash;
    u16 skc_dport, skc_num;
    u8 skc_state;
} KERNEL;
struct sock {
    struct sock_common __sk_common;
    u64 sk_pacing_rate, sk_max_pacing_rate;
    u32 sk_pacing_status;
    u16 sk_protocol;
} KERNEL;

struct sk_buff {
    struct sk_buff *next;
    struct sock *sk;
    u64 tstamp;
    char cb[48];
    void *destructor;
    u32 len, data_len;
    u8 pkt_type : 3, l4_hash : 1, sw_hash : 1, encapsulation : 1, vlan_present : 1, tstamp_type : 2,
        mono_delivery_time : 1;
    u16 tc_index;
    u32 priority, hash, vlan_all, mark;
    u16 vlan_proto, vlan_tci, inner_transport_header, inner_network_header, protocol, transport_header,
        network_header;
    u32 end;
    unsigned char *head, *data;
    u32 truesize;
} KERNEL;
struct skb_shared_info { u16 gso_size, gso_segs; u32 gso_type; } KERNEL;

struct counter64 { u64 raw; };
struct gnet_stats_basic_sync { struct counter64 bytes, packets; } KERNEL;
struct gnet_stats_queue { u32 qlen, backlog, drops, requeues, overlimits; } KERNEL;
struct qdisc_skb_head { u32 qlen; } KERNEL;
struct net_device { u32 mtu; u16 hard_header_len; int ifindex; } KERNEL;
struct netdev_queue { struct net_device *dev; } KERNEL;
struct Qdisc {
    u32 handle, parent;
    struct netdev_queue *dev_queue;
    struct sk_buff_head gso_skb;
    struct qdisc_skb_head q;
    struct gnet_stats_basic_sync bstats;
    struct gnet_stats_queue qstats;
    struct sk_buff *to_free; /* 7.x: drops made inside dequeue */
} KERNEL;
struct pcpu_hot { int preempt_count; } KERNEL;

/* Set by the loader before loading. */
struct config {
    u64 text_low[3], text_high[3]; /* the code of the qdisc under test */
    u64 hash_secret;               /* address of the boot's flow-hash secret */
    u32 bbr_sample_arg;            /* which argument of bbr_main is the rate sample */
    u32 fq_pie;                    /* the subject is fq_pie: its core's timer function is not recorded alone */
};
const volatile struct config config = {};

/* Read by the loader at the end. */
struct outcome {
    u64 lost, foreign, second;
    u8 secret[16];
    u32 sequence;
};
struct outcome outcome = {};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 64 << 20);
} ring SEC(".maps");

struct local {
    u64 inside;      /* the qdisc whose code runs on this processor; 0: none */
    u32 depth;
    u32 last_by[8];  /* for each twin hook: which of the two recorded last */
    u64 last[8];     /* and what */
    u64 tin, flow;   /* cake: where the packet being enqueued went */
};
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct local);
} locals SEC(".maps");

extern const void jiffies __ksym;
extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

static __always_inline struct local *local(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&locals, &zero);
}

static __always_inline int preempt_count_now(void)
{
    if (&__preempt_count)
        return *(const int *)bpf_this_cpu_ptr(&__preempt_count);
    if (&pcpu_hot) {
        const struct pcpu_hot *hot = bpf_this_cpu_ptr(&pcpu_hot);
        return BPF_CORE_READ(hot, preempt_count);
    }
    return 0;
}

/* Hard interrupt or NMI: whatever it does is not the qdisc's doing. */
static __always_inline bool in_interrupt(void) { return preempt_count_now() & 0x00ff0000; }

static __always_inline u64 jiffies_now(void)
{
    u64 now = 0;
    bpf_probe_read_kernel(&now, sizeof now, &jiffies);
    return now;
}

static __always_inline void stamp(struct rhdr *h, u16 type, u16 len)
{
    h->type = type;
    h->len = len;
    h->seq = __sync_fetch_and_add(&outcome.sequence, 1);
    h->ts = bpf_ktime_get_ns();
}

/* Room for one record, or a counted loss. */
#define RESERVE(kind, size) \
    ({ \
        void *room_ = bpf_ringbuf_reserve(&ring, (size), 0); \
        if (room_) \
            stamp(room_, (kind), (size)); \
        else \
            __sync_fetch_and_add(&outcome.lost, 1); \
        room_; \
    })
#define SUBMIT(record) bpf_ringbuf_submit((record), 0)

static __always_inline int three(u32 type, u64 v, u64 w, u64 x)
{
    struct r_u64 *r = RESERVE(type, sizeof *r);
    if (!r)
        return 0;
    r->v = v;
    r->w = w;
    r->x = x;
    SUBMIT(r);
    return 0;
}

static __always_inline void enter(struct local *here, const void *sch)
{
    here->inside = (u64)sch;
    here->depth++;
    for (int i = 0; i < 8; i++)
        here->last_by[i] = 0;
}

static __always_inline void leave(struct local *here)
{
    if (here->depth)
        here->depth--;
    if (!here->depth)
        here->inside = 0;
}

#define NUMBER(pointer, path) BPF_CORE_READ_BITFIELD_PROBED(pointer, path)
#define PRIVATE(sch) ((void *)(sch) + bpf_core_type_size(struct Qdisc))
