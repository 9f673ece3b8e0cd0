/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The recorder's kernel part. A program's group is the part of its name before the two underscores; the loader
 * attaches the groups of the subject. */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "common.bpf.h"
#include "qdisc.bpf.h"
#include "state.bpf.h"
#include "inputs.bpf.h"
#include "congestion.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The calls of one qdisc. `state` runs before the end record, so that it belongs to the call. */
#define ENQUEUE(group, function, state) \
    SEC("fentry/" #function) int BPF_PROG(group##__enqueue_in, struct sk_buff *skb, struct Qdisc *sch) \
    { \
        return enqueue_begins(skb, sch); \
    } \
    SEC("fexit/" #function) int BPF_PROG(group##__enqueue_out, struct sk_buff *skb, struct Qdisc *sch, void *list, int ret) \
    { \
        u64 to_free = 0; \
        bpf_get_func_arg(ctx, 2, &to_free); \
        state(sch, skb, false); \
        return enqueue_ended(skb, sch, (void *)to_free, ret); \
    }
#define DEQUEUE(group, function, state) \
    SEC("fentry/" #function) int BPF_PROG(group##__dequeue_in, struct Qdisc *sch) { return dequeue_begins(sch); } \
    SEC("fexit/" #function) int BPF_PROG(group##__dequeue_out, struct Qdisc *sch, struct sk_buff *skb) \
    { \
        state(sch, skb, true); \
        return dequeue_ended(sch, skb); \
    }
#define CONFIGURE(group, function, name, what) \
    SEC("fentry/" #function) int BPF_PROG(group##__##name##_in, struct Qdisc *sch, void *opt) \
    { \
        return configure_begins(sch, what, opt); \
    } \
    SEC("fexit/" #function) int BPF_PROG(group##__##name##_out, struct Qdisc *sch, void *opt, void *ack, int ret) \
    { \
        return configure_ended(sch, what, ret); \
    }
#define RESET(group, function) \
    SEC("fentry/" #function) int BPF_PROG(group##__reset_in, struct Qdisc *sch) { return configure_begins(sch, CONF_RESET, 0); } \
    SEC("fexit/" #function) int BPF_PROG(group##__reset_out, struct Qdisc *sch) { return configure_ended(sch, CONF_RESET, 0); }
#define DUMP(group, function) \
    SEC("fentry/" #function) int BPF_PROG(group##__stats_in, struct Qdisc *sch) { return inside_begins(T_STATS, sch, 0, 0); } \
    SEC("fexit/" #function) int BPF_PROG(group##__stats_out, struct Qdisc *sch) { return inside_ended(T_STATSR, sch, 0); }
#define QDISC(group, enqueue, dequeue, init, reset, dump, state) \
    ENQUEUE(group, enqueue, state) \
    DEQUEUE(group, dequeue, state) \
    CONFIGURE(group, init, init, CONF_INIT) \
    RESET(group, reset) \
    DUMP(group, dump)

QDISC(codel, codel_qdisc_enqueue, codel_qdisc_dequeue, codel_init, codel_reset, codel_dump_stats, codel_state)
CONFIGURE(codel, codel_change, change, CONF_CHANGE)
QDISC(fq_codel, fq_codel_enqueue, fq_codel_dequeue, fq_codel_init, fq_codel_reset, fq_codel_dump_stats, fq_codel_state)
CONFIGURE(fq_codel, fq_codel_change, change, CONF_CHANGE)
QDISC(pie, pie_qdisc_enqueue, pie_qdisc_dequeue, pie_init, pie_reset, pie_dump_stats, pie_state)
CONFIGURE(pie, pie_change, change, CONF_CHANGE)
QDISC(fq_pie, fq_pie_qdisc_enqueue, fq_pie_qdisc_dequeue, fq_pie_init, fq_pie_reset, fq_pie_dump_stats, fq_pie_state)
CONFIGURE(fq_pie, fq_pie_change, change, CONF_CHANGE)
QDISC(cake, cake_enqueue, cake_dequeue, cake_init, cake_reset, cake_dump_stats, cake_state)
CONFIGURE(cake, cake_change, change, CONF_CHANGE)
QDISC(red, red_enqueue, red_dequeue, red_init, red_reset, red_dump_stats, red_state)
CONFIGURE(red, red_change, change, CONF_CHANGE)
QDISC(sfq, sfq_enqueue, sfq_dequeue, sfq_init, sfq_reset, sfq_dump, sfq_state)
QDISC(fq, fq_enqueue, fq_dequeue, fq_init, fq_reset, fq_dump_stats, fq_state)
CONFIGURE(fq, fq_change, change, CONF_CHANGE)

SEC("fentry/codel_peek") int BPF_PROG(codel__peek, struct Qdisc *sch) { return three(T_PEEK, (u64)sch, 0, 0); }
SEC("fentry/fq_codel_peek") int BPF_PROG(fq_codel__peek, struct Qdisc *sch) { return three(T_PEEK, (u64)sch, 0, 0); }

/* cake: the queue that the packet was put into, for the state after the call. */
SEC("fexit/cake_hash") int BPF_PROG(cake__hash, void *tin, struct sk_buff *skb, int mode, u16 flow_override, u16 host_override, u32 ret)
{
    struct local *here = local();
    if (here) {
        here->tin = (u64)tin;
        here->flow = (u64)ret + 1;
    }
    return three(T_CAKEHASH, ret, mode, (u64)flow_override << 16 | host_override);
}

/* pie: the probability's update. Not for fq_pie, whose timer calls it for every bucket. */
SEC("fentry/pie_calculate_probability") int BPF_PROG(pie__update_in, void *params, void *vars, u32 backlog)
{
    struct pie_sched_data *q = vars - bpf_core_field_offset(struct pie_sched_data, vars);
    struct local *here = local();
    if (!here)
        return 0;
    enter(here, BPF_CORE_READ(q, sch));
    return three(T_TIMER, backlog, (u64)vars, jiffies_now());
}
SEC("fexit/pie_calculate_probability") int BPF_PROG(pie__update_out, void *params, void *vars, u32 backlog)
{
    struct pie_sched_data *q = vars - bpf_core_field_offset(struct pie_sched_data, vars);
    pie_state(BPF_CORE_READ(q, sch), 0, false);
    return inside_ended(T_TIMERR, BPF_CORE_READ(q, sch), 0);
}
SEC("fexit/pie_drop_early") int BPF_PROG(pie_core__early, struct Qdisc *sch, void *params, void *vars, u32 qlen, u32 size, bool ret)
{
    return three(T_EARLY, ret, qlen, size);
}

SEC("fentry/fq_pie_timer") int BPF_PROG(fq_pie__timer_in, void *timer)
{
    struct fq_pie_sched_data *q = timer - bpf_core_field_offset(struct fq_pie_sched_data, adapt_timer);
    struct local *here = local();
    if (!here)
        return 0;
    enter(here, BPF_CORE_READ(q, sch));
    return three(T_TIMER, 0, (u64)timer, jiffies_now());
}
SEC("fexit/fq_pie_timer") int BPF_PROG(fq_pie__timer_out, void *timer)
{
    struct fq_pie_sched_data *q = timer - bpf_core_field_offset(struct fq_pie_sched_data, adapt_timer);
    struct Qdisc *sch = BPF_CORE_READ(q, sch);
    fq_pie_state(sch, 0, false);
    return inside_ended(T_TIMERR, sch, 0);
}

SEC("fentry/sfq_perturbation") int BPF_PROG(sfq__perturb_in, void *timer)
{
    struct sfq_sched_data *q = timer - bpf_core_field_offset(struct sfq_sched_data, perturb_timer);
    struct local *here = local();
    if (!here)
        return 0;
    enter(here, BPF_CORE_READ(q, sch));
    return three(T_TIMER, 0, (u64)timer, jiffies_now());
}
SEC("fexit/sfq_perturbation") int BPF_PROG(sfq__perturb_out, void *timer)
{
    struct sfq_sched_data *q = timer - bpf_core_field_offset(struct sfq_sched_data, perturb_timer);
    struct Qdisc *sch = BPF_CORE_READ(q, sch);
    sfq_state(sch, 0, false);
    return inside_ended(T_TIMERR, sch, 0);
}

/* Run once by the loader, after the traffic: the secret is drawn when the first hash is computed. */
SEC("syscall") int always__secret(void *ctx)
{
    bpf_probe_read_kernel(outcome.secret, sizeof outcome.secret, (void *)config.hash_secret);
    return 0;
}
