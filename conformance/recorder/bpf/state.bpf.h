/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each qdisc's private state after each call, as named numbers, so that a reader needs no offsets. */
#pragma once

#define COUNT_ONE(name, path) +1
#define STORE_ONE(name, path) record_->v[at_++] = NUMBER(from_, path);
/* One state record: the numbers of LIST, read from `pointer`, after `lead` (for example an index). */
#define STATE(what, LIST, type, sch_, pointer, lead) \
    do { \
        type *from_ = (void *)(pointer); \
        enum { numbers_ = 1 LIST(COUNT_ONE) }; \
        struct r_state *record_ = RESERVE(T_STATE, sizeof(struct r_state) + 8 * numbers_); \
        if (record_) { \
            int at_ = 0; \
            record_->sch = (u64)(sch_); \
            record_->kind = (what); \
            record_->n = numbers_; \
            record_->v[at_++] = (lead); \
            LIST(STORE_ONE) \
            SUBMIT(record_); \
        } \
    } while (0)

struct codel_vars {
    u32 count, lastcount;
    u8 dropping;
    u16 rec_inv_sqrt;
    u32 first_above_time, drop_next, ldelay;
} KERNEL;
struct codel_stats { u32 maxpacket, drop_count, drop_len, ecn_mark, ce_mark; } KERNEL;
struct codel_sched_data { struct codel_vars vars; struct codel_stats stats; u32 drop_overlimit; } KERNEL;
struct fq_codel_flow { struct list_head flowchain; s32 deficit; struct codel_vars cvars; } KERNEL;
struct fq_codel_sched_data {
    struct fq_codel_flow *flows;
    u32 flows_cnt;
    struct codel_stats cstats;
    u32 memory_usage, drop_overmemory, drop_overlimit, new_flow_count;
    struct list_head new_flows, old_flows;
} KERNEL;
struct pie_vars {
    u64 qdelay, qdelay_old, burst_time, dq_tstamp, prob, accu_prob, dq_count;
    u32 avg_dq_rate, backlog_old;
} KERNEL;
struct pie_stats { u32 packets_in, dropped, overlimit, ecn_mark, maxq; } KERNEL;
struct pie_sched_data { struct pie_vars vars; struct pie_stats stats; struct Qdisc *sch; } KERNEL;
struct fq_pie_flow {
    struct pie_vars vars;
    s32 deficit;
    u32 backlog, qlen;
    struct list_head flowchain;
} KERNEL;
struct timer_list { void *function; } KERNEL;
struct fq_pie_sched_data {
    struct fq_pie_flow *flows;
    struct Qdisc *sch;
    struct list_head old_flows, new_flows;
    u32 flows_cnt, flows_cursor, new_flow_count, memory_usage, overmemory;
    struct pie_stats stats;
    struct timer_list adapt_timer;
} KERNEL;
struct cobalt_params { u64 interval, target, mtu_time; } KERNEL;
struct cobalt_vars {
    u32 count, rec_inv_sqrt;
    s64 drop_next, blue_timer;
    u32 p_drop;
    u8 dropping, ecn_marked;
} KERNEL;
struct cake_flow { s32 deficit; u32 dropped; struct cobalt_vars cvars; u16 srchost, dsthost; u8 set; } KERNEL;
struct cake_tin_data {
    struct cake_flow flows[1024];
    u16 flow_quantum;
    struct cobalt_params cparams;
    u32 drop_overlimit;
    u16 bulk_flow_count, sparse_flow_count, decaying_flow_count, unresponsive_flow_count;
    u32 max_skblen;
    s64 time_next_packet;
    u64 tin_rate_bps;
    s32 tin_deficit;
    u32 tin_backlog, tin_dropped, tin_ecn_mark, packets;
    u64 bytes;
    u32 ack_drops;
    u64 avge_delay, peak_delay, base_delay;
    u32 way_directs, way_hits, way_misses, way_collisions;
} KERNEL;
struct cake_sched_data {
    struct cake_tin_data *tins;
    u16 overflow_timeout, rate_shft;
    s64 time_next_packet, failsafe_next_packet;
    u64 rate_ns;
    u32 buffer_used, buffer_max_used, buffer_limit;
    u16 cur_tin, cur_flow;
    s64 last_packet_time, avg_window_begin;
    u64 avg_packet_interval, avg_window_bytes, avg_peak_bandwidth;
    s64 last_reconfig_time;
    u32 avg_netoff;
    u16 max_netlen, max_adjlen, min_netlen, min_adjlen;
} KERNEL;
struct red_vars { s32 qcount; u32 qR; u64 qavg; s64 qidlestart; } KERNEL;
struct red_parms { u32 max_P; } KERNEL;
struct red_stats { u32 prob_drop, prob_mark, forced_drop, forced_mark, pdrop; } KERNEL;
struct red_sched_data { struct Qdisc *sch; struct red_parms parms; struct red_vars vars; struct red_stats stats; } KERNEL;
struct tc_sfqred_stats { u32 prob_drop, forced_drop, prob_mark, forced_mark, prob_mark_head, forced_mark_head; } KERNEL;
struct sfq_slot { u16 qlen, next, hash; s32 allot; u32 backlog; struct red_vars vars; } KERNEL;
struct sfq_sched_data {
    u8 cur_depth;
    struct sfq_slot *slots, *tail;
    struct tc_sfqred_stats stats;
    struct timer_list perturb_timer;
    struct Qdisc *sch;
} KERNEL;
struct fq_flow { u32 socket_hash; s32 qlen, credit; u64 time_next_packet; } KERNEL;
struct fq_sched_data {
    u64 time_next_delayed_flow, unthrottle_latency_ns;
    struct fq_flow internal;
    u32 flows, inactive_flows, throttled_flows;
    u64 stat_throttled, stat_gc_flows, stat_ce_mark, stat_horizon_drops, stat_horizon_caps, stat_flows_plimit,
        stat_pkts_too_long, stat_allocation_errors;
} KERNEL;

#define SCALE(hash, n) ((u32)(((u64)(hash) * (n)) >> 32))
#define OFFSET(type, member) bpf_core_field_offset(type, member)

/* The bucket at the head of NEW, else of OLD: the one that the dequeue has just served. */
#define HEAD_BUCKET(q, sched, flow) \
    ({ \
        void *new_ = (void *)(q) + OFFSET(struct sched, new_flows), *old_ = (void *)(q) + OFFSET(struct sched, old_flows); \
        void *node_ = BPF_CORE_READ(q, new_flows.next); \
        if (node_ == new_) \
            node_ = BPF_CORE_READ(q, old_flows.next); \
        node_ == old_ ? (void *)0 : node_ - OFFSET(struct flow, flowchain); \
    })
#define BUCKET_INDEX(q, flow, bucket) \
    (u64)((void *)(bucket) - (void *)BPF_CORE_READ(q, flows)) / bpf_core_type_size(struct flow)

static __always_inline void codel_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    STATE(S_CODEL, CODEL_STATE, struct codel_sched_data, sch, PRIVATE(sch), 0);
}

static __always_inline void fq_codel_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    struct fq_codel_sched_data *q = PRIVATE(sch);
    void *bucket = 0;
    if (dequeued)
        bucket = HEAD_BUCKET(q, fq_codel_sched_data, fq_codel_flow);
    else if (skb)
        bucket = (void *)BPF_CORE_READ(q, flows) + (u64)SCALE(BPF_CORE_READ(skb, hash), BPF_CORE_READ(q, flows_cnt)) *
                                                       bpf_core_type_size(struct fq_codel_flow);
    if (bucket)
        STATE(S_FQ_CODEL_FLOW, FQ_CODEL_FLOW_STATE, struct fq_codel_flow, sch, bucket,
              BUCKET_INDEX(q, fq_codel_flow, bucket));
    STATE(S_FQ_CODEL, FQ_CODEL_STATE, struct fq_codel_sched_data, sch, q, 0);
}

static __always_inline void pie_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    STATE(S_PIE, PIE_STATE, struct pie_sched_data, sch, PRIVATE(sch), 0);
}

static __always_inline void fq_pie_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    struct fq_pie_sched_data *q = PRIVATE(sch);
    void *bucket = 0;
    if (dequeued)
        bucket = HEAD_BUCKET(q, fq_pie_sched_data, fq_pie_flow);
    else if (skb)
        bucket = (void *)BPF_CORE_READ(q, flows) + (u64)SCALE(BPF_CORE_READ(skb, hash), BPF_CORE_READ(q, flows_cnt)) *
                                                       bpf_core_type_size(struct fq_pie_flow);
    if (bucket)
        STATE(S_FQ_PIE_FLOW, FQ_PIE_FLOW_STATE, struct fq_pie_flow, sch, bucket, BUCKET_INDEX(q, fq_pie_flow, bucket));
    STATE(S_FQ_PIE, FQ_PIE_STATE, struct fq_pie_sched_data, sch, q, 0);
}

static __always_inline void cake_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    struct local *here = local();
    struct cake_sched_data *q = PRIVATE(sch);
    void *tins = BPF_CORE_READ(q, tins);
    u64 size = bpf_core_type_size(struct cake_tin_data);
    u64 tin, flow;
    if (dequeued) {
        tin = BPF_CORE_READ(q, cur_tin);
        flow = BPF_CORE_READ(q, cur_flow);
    } else {
        if (!here || !here->flow)
            goto whole; /* a filter swallowed the packet before it was hashed */
        tin = (here->tin - (u64)tins) / size;
        flow = here->flow - 1;
    }
    if (tin < 8 && flow < 1024) {
        void *at = tins + tin * size;
        STATE(S_CAKE_FLOW, CAKE_FLOW_STATE, struct cake_flow, sch,
              at + OFFSET(struct cake_tin_data, flows) + flow * bpf_core_type_size(struct cake_flow), tin << 16 | flow);
        STATE(S_CAKE_TIN, CAKE_TIN_STATE, struct cake_tin_data, sch, at, tin);
    }
whole:
    STATE(S_CAKE, CAKE_STATE, struct cake_sched_data, sch, q, 0);
}

static __always_inline void red_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    STATE(S_RED, RED_STATE, struct red_sched_data, sch, PRIVATE(sch), 0);
}

static __always_inline void sfq_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    struct sfq_sched_data *q = PRIVATE(sch);
    struct sfq_slot *tail = BPF_CORE_READ(q, tail);
    if (tail)
        STATE(S_SFQ_SLOT, SFQ_SLOT_STATE, struct sfq_slot, sch, tail,
              (u64)((void *)tail - (void *)BPF_CORE_READ(q, slots)) / bpf_core_type_size(struct sfq_slot));
    STATE(S_SFQ, SFQ_STATE, struct sfq_sched_data, sch, q, 0);
}

static __always_inline void fq_state(struct Qdisc *sch, struct sk_buff *skb, bool dequeued)
{
    STATE(S_FQ, FQ_STATE, struct fq_sched_data, sch, PRIVATE(sch), 0);
}
