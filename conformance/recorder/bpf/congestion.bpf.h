/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The congestion-control hooks and the core's steps around them: the connection before and after each. Every hook is
 * attached twice (see inputs.bpf.h); both record, and the host keeps one of each pair. */
#pragma once

struct minmax_sample { u32 t, v; } KERNEL;
struct minmax { struct minmax_sample s[3]; } KERNEL;
struct tcp_rack { u64 mstamp; u32 rtt_us, end_seq; u8 reo_wnd_steps, reo_wnd_persist : 5; } KERNEL;
struct tcp_options_received { u32 rcv_tsecr; u16 sack_ok : 3; } KERNEL;
struct tcp_congestion_ops { char name[16]; } KERNEL;
struct inet_connection_sock {
    u32 icsk_rto;
    struct tcp_congestion_ops *icsk_ca_ops;
    u8 icsk_ca_state : 5, icsk_retransmits, icsk_backoff;
    u64 icsk_ca_priv[13];
} KERNEL;
struct tcp_sock {
    u32 snd_cwnd, snd_ssthresh, snd_cwnd_cnt, snd_cwnd_clamp, snd_cwnd_used, prior_ssthresh, prior_cwnd, srtt_us, mdev_us,
        rttvar_us, mss_cache, delivered, delivered_ce, packets_out, retrans_out, sacked_out, lost_out, lost, app_limited,
        snd_una, snd_nxt, max_packets_out, cwnd_usage_seq, total_retrans, high_seq, prr_out, prr_delivered, undo_marker,
        reordering, reord_seen, snd_cwnd_stamp, tlp_high_seq, mdev_max_us, rtt_seq, write_seq, snd_wnd, retrans_stamp,
        lsndtime, dsack_dups;
    s32 undo_retrans;
    u64 tcp_mstamp, tcp_clock_cache, tcp_wstamp_ns, delivered_mstamp, first_tx_mstamp, bytes_acked;
    u8 is_cwnd_limited : 1, is_sack_reneg : 1, repair : 1, tlp_retrans : 1, nonagle : 4, ecn_flags;
    struct minmax rtt_min;
    struct tcp_rack rack;
    struct tcp_options_received rx_opt;
} KERNEL;

static __always_inline int congestion(struct sock *sk, u32 type, u32 func, u64 a1, u64 a2, u64 a3, u64 ret,
                                      const void *sample)
{
    struct tcp_sock *tp = (void *)sk;
    struct inet_connection_sock *ic = (void *)sk;
    struct r_cc *r = RESERVE(type, sizeof *r);
    if (!r)
        return 0;
    r->func = func;
    r->nargs = 0;
    r->arg[0] = (u64)sk;
    r->arg[1] = a1;
    r->arg[2] = a2;
    r->arg[3] = a3;
    r->ret = ret;
    r->sk = (u64)sk;
    r->jiffies = jiffies_now();
#define FIELD(x) r->x = NUMBER(tp, x);
#define IF_THERE(x) r->x = bpf_core_field_exists(tp->x) ? NUMBER(tp, x) : 0;
    FIELD(snd_cwnd) FIELD(snd_ssthresh) FIELD(snd_cwnd_cnt) FIELD(snd_cwnd_clamp) FIELD(snd_cwnd_used)
    FIELD(prior_ssthresh) FIELD(prior_cwnd) FIELD(srtt_us) FIELD(mdev_us) FIELD(rttvar_us) FIELD(mss_cache)
    FIELD(delivered) FIELD(delivered_ce) FIELD(packets_out) FIELD(retrans_out) FIELD(sacked_out) FIELD(lost_out)
    FIELD(lost) FIELD(app_limited) FIELD(snd_una) FIELD(snd_nxt) FIELD(max_packets_out) FIELD(cwnd_usage_seq)
    FIELD(total_retrans) FIELD(high_seq) FIELD(prr_out) FIELD(tcp_mstamp) FIELD(tcp_clock_cache) FIELD(tcp_wstamp_ns)
    FIELD(delivered_mstamp) FIELD(first_tx_mstamp) FIELD(bytes_acked) FIELD(is_cwnd_limited) FIELD(ecn_flags)
    FIELD(prr_delivered) FIELD(undo_marker) FIELD(undo_retrans) FIELD(reordering) FIELD(reord_seen)
    FIELD(snd_cwnd_stamp) FIELD(tlp_high_seq) FIELD(mdev_max_us) FIELD(rtt_seq) FIELD(write_seq) FIELD(snd_wnd)
    FIELD(lsndtime) FIELD(dsack_dups) FIELD(repair) FIELD(nonagle) FIELD(is_sack_reneg)
    r->bytes_lo = 0;
    r->rtt_min = NUMBER(tp, rtt_min.s[0].v);
    r->pacing_rate = NUMBER(sk, sk_pacing_rate);
    r->max_pacing_rate = NUMBER(sk, sk_max_pacing_rate);
    r->pacing_status = NUMBER(sk, sk_pacing_status);
    r->ca_state = NUMBER(ic, icsk_ca_state);
    r->sport = BPF_CORE_READ(sk, __sk_common.skc_num);
    r->dport = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
    r->tlp = bpf_core_field_exists(tp->tlp_retrans) ? NUMBER(tp, tlp_retrans) : 0;
    r->cav = 0;
    r->first_rexmit = NUMBER(tp, retrans_stamp);
    r->rcv_tsecr = NUMBER(tp, rx_opt.rcv_tsecr);
    r->sack_ok = NUMBER(tp, rx_opt.sack_ok);
    r->rto = NUMBER(ic, icsk_rto);
    r->retransmits = NUMBER(ic, icsk_retransmits);
    r->backoff = NUMBER(ic, icsk_backoff);
    r->rack_steps = bpf_core_field_exists(tp->rack.reo_wnd_steps) ? NUMBER(tp, rack.reo_wnd_steps) : 0;
    r->rack_persist = bpf_core_field_exists(tp->rack.reo_wnd_persist) ? NUMBER(tp, rack.reo_wnd_persist) : 0;
    r->rack_mstamp = NUMBER(tp, rack.mstamp);
    r->rack_rtt_us = NUMBER(tp, rack.rtt_us);
    r->rack_end_seq = NUMBER(tp, rack.end_seq);
    struct tcp_congestion_ops *ops = BPF_CORE_READ(ic, icsk_ca_ops);
    __builtin_memset(r->ca_name, 0, sizeof r->ca_name);
    bpf_probe_read_kernel(r->ca_name, sizeof r->ca_name, (void *)ops + bpf_core_field_offset(struct tcp_congestion_ops, name));
    __builtin_memset(r->rs, 0, sizeof r->rs);
    r->rs_n = sample ? sizeof r->rs : 0;
    if (sample)
        bpf_probe_read_kernel(r->rs, sizeof r->rs, sample);
    bpf_probe_read_kernel(r->ca, sizeof r->ca, (void *)sk + bpf_core_field_offset(struct inet_connection_sock, icsk_ca_priv));
    SUBMIT(r);
    return 0;
}

#define ARG(n) ({ u64 value_ = 0; bpf_get_func_arg(ctx, (n), &value_); value_; })
#define RET() ({ u64 value_ = 0; bpf_get_func_ret(ctx, &value_); value_; })
/* n: how many arguments the function has; s: which of them is a sample to copy (0: none). */
#define HOOK_(group, fn, id, n, s, suffix, bit) \
    SEC("fentry/" #fn) int group##__##fn##_in##suffix(u64 *ctx) \
    { \
        return congestion((void *)ARG(0), T_CC, (id) | bit << 16, n > 1 ? ARG(1) : 0, n > 2 ? ARG(2) : 0, \
                          n > 3 ? ARG(3) : 0, 0, s ? (void *)ARG(s) : 0); \
    } \
    SEC("fexit/" #fn) int group##__##fn##_out##suffix(u64 *ctx) \
    { \
        return congestion((void *)ARG(0), T_CCR, (id) | bit << 16, n > 1 ? ARG(1) : 0, n > 2 ? ARG(2) : 0, \
                          n > 3 ? ARG(3) : 0, RET(), s ? (void *)ARG(s) : 0); \
    }
#define HOOK(group, fn, id, n, s) HOOK_(group, fn, id, n, s, _a, 0) HOOK_(group, fn, id, n, s, _b, 1)

HOOK(reno, tcp_reno_cong_avoid, F_CONG_AVOID, 3, 0)
HOOK(reno, tcp_reno_ssthresh, F_SSTHRESH, 1, 0)
HOOK(reno, tcp_reno_undo_cwnd, F_UNDO, 1, 0)
HOOK(cubic, cubictcp_cong_avoid, F_CONG_AVOID, 3, 0)
HOOK(cubic, cubictcp_recalc_ssthresh, F_SSTHRESH, 1, 0)
HOOK(cubic, cubictcp_state, F_STATE, 2, 0)
HOOK(cubic, cubictcp_acked, F_ACKED, 2, 1)
HOOK(cubic, cubictcp_cwnd_event, F_EVENT, 2, 0)
HOOK(cubic, cubictcp_cwnd_event_tx_start, F_EVENT, 1, 0)
HOOK(cubic, cubictcp_init, F_INIT, 1, 0)
HOOK(bbr, bbr_main, F_MAIN, 2, config.bbr_sample_arg)
HOOK(bbr, bbr_init, F_INIT, 1, 0)
HOOK(bbr, bbr_set_state, F_STATE, 2, 0)
HOOK(bbr, bbr_ssthresh, F_SSTHRESH, 1, 0)
HOOK(bbr, bbr_undo_cwnd, F_UNDO, 1, 0)
HOOK(bbr, bbr_cwnd_event, F_EVENT, 2, 0)
HOOK(bbr, bbr_cwnd_event_tx_start, F_EVENT, 1, 0)
HOOK(bbr, bbr_min_tso_segs, F_MINTSO, 1, 0)
HOOK(dctcp, dctcp_update_alpha, F_INACK, 2, 0)
HOOK(dctcp, dctcp_state, F_STATE, 2, 0)
HOOK(dctcp, dctcp_ssthresh, F_SSTHRESH, 1, 0)
HOOK(dctcp, dctcp_cwnd_event, F_EVENT, 2, 0)
HOOK(dctcp, dctcp_cwnd_event_tx_start, F_EVENT, 1, 0)
HOOK(dctcp, dctcp_init, F_INIT, 1, 0)
HOOK(dctcp, dctcp_cwnd_undo, F_UNDO, 1, 0)
HOOK(core, tcp_ack, F_ACK, 3, 0)
HOOK(core, tcp_cwnd_reduction, F_CWND_REDUCTION, 4, 0)
HOOK(core, tcp_rate_gen, F_RATE_GEN, 4, 4)
HOOK(core, tcp_update_pacing_rate, F_PACING_RATE, 1, 0)
HOOK(core, tcp_enter_cwr, F_ENTER_CWR, 1, 0)
HOOK(core, tcp_enter_recovery, F_ENTER_RECOVERY, 2, 0)
HOOK(core, tcp_enter_loss, F_ENTER_LOSS, 1, 0)
HOOK(core, tcp_cwnd_restart, F_CWND_RESTART, 2, 0)
HOOK(core, tcp_set_ca_state, F_SET_STATE, 2, 0)
HOOK(core, tcp_undo_cwnd_reduction, F_UNDO_REDUCTION, 2, 0)

/* bbr_init and PROBE_BW draw their phase. */
SEC("fexit/get_random_u8") int bbr__draw_8(u64 *ctx) { return three(T_RND, (u8)ctx[0], 8, 0); }
SEC("fexit/get_random_u32") int bbr__draw_32(u64 *ctx) { return three(T_RND, (u32)ctx[0], 32, 0); }
SEC("fexit/__get_random_u32_below") int bbr__draw_below(u64 *ctx) { return three(T_RND, (u32)ctx[1], 32, ctx[0]); }
