/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The raw record stream: what the kernel part writes, the loader stores and the host decodes.
 * Little endian, natural alignment. Every record starts with struct rhdr; len counts the whole record, so a
 * reader skips types that it does not know and ignores bytes beyond those that it knows.
 * Types 1 to 19 begin as in the first recordings of the project; later fields were added at the end. */
#ifndef RECORD_H
#define RECORD_H

#define RECORD_VERSION 2
#define HEADER_BYTES 96   /* first part of a packet's linear bytes */
#define HEADER_MORE 64    /* second part */
#define FREED_SHORT 8
#define FREED_LONG 512
#define OPTION_BYTES 512

struct rhdr {
    u16 type, len;
    u32 seq; /* counts every record; a gap is a loss */
    u64 ts;  /* ns, monotonic */
};

enum record_type {
    T_ENQ = 1, T_ENQR, T_DEQ, T_DEQR, T_KTIME, T_RND, T_RNDBYTES, T_FLOWHASH, T_SKBHASH, T_DROP, T_REDUCE,
    T_WATCHDOG, T_CAKEHASH, T_SNAP, T_TIMER, T_TIMERR, T_CC, T_CCR, T_EARLY,
    T_HEAD,   /* first record: text, one "key value" a line */
    T_END,    /* last record: text, the counters that show whether anything was lost */
    T_CONF,   /* a qdisc's init, change, reset or destroy begins */
    T_CONFR,  /* and ends */
    T_STATS,  /* the statistics are read (dump_stats begins) */
    T_STATSR, /* and were read */
    T_FREED,  /* the whole list of packets to be freed, when it is longer than FREED_SHORT */
    T_STATE,  /* private state, as named numbers */
    T_PEEK,   /* a parent peeks */
    T_TUPLE,  /* connection tracking's original addresses of a packet */
    T_SEGS,   /* a packet was split: its segments in order */
};

/* A packet enters. */
struct r_enq {
    struct rhdr h;
    u64 skb, sch;
    u32 len, data_len, truesize, prio, mark, hash;
    u16 proto, nhoff, thoff, gso_size, gso_segs, tc_index;
    u32 gso_type;
    u32 qlen, backlog;
    u64 tstamp;
    u8 cb[48];
    u8 flags[8];
    u8 data[HEADER_BYTES];
    /* version 2 */
    u8 more[HEADER_MORE];
    u32 linear;                    /* how many of the bytes above are the packet's */
    u16 vlan_proto, vlan_tci;      /* tag kept outside the bytes; proto 0: none */
    u8 l4_hash, sw_hash, encapsulation, tstamp_type;
    u16 inner_nhoff, inner_thoff;
    u64 sk, jiffies, pacing_rate;
    u32 sk_hash, parked;           /* parked: packets in the qdisc's side slot */
    u8 sk_state, sk_protocol, sk_pacing, pad8;
    u32 sk_max_pacing_set;
    u64 destructor;
};

struct r_enqr {
    struct rhdr h;
    u64 skb, sch;
    s32 ret;
    u32 hash, qlen, backlog;
    u8 cb[48];
    u32 nfree, pad;
    u64 tofree[FREED_SHORT];
    /* version 2 */
    u32 drops, overlimits;
    u64 bytes, packets;
};

struct r_deq {
    struct rhdr h;
    u64 sch;
    u32 qlen, backlog;
    /* version 2 */
    u64 jiffies;
    u32 parked, pad;
};

struct r_deqr {
    struct rhdr h;
    u64 sch, skb;
    u32 qlen, backlog, len, hash;
    u8 cb[48];
    u8 data[64];
    /* version 2 */
    u32 drops, overlimits;
    u64 bytes, packets;
    u32 nfree, linear;             /* nfree: dropped in this call and waiting on the qdisc's own list (7.2) */
    u64 tofree[FREED_SHORT];
    u64 sk, pacing_rate, tstamp;
    u32 sk_state, gso_segs;
};

struct r_u64 { struct rhdr h; u64 v, w, x; };
struct r_bytes { struct rhdr h; u64 n; u8 b[64]; };
struct r_fh { struct rhdr h; u64 ret; u8 keys[96]; };
struct r_snap { struct rhdr h; u32 what, n; u8 b[]; };
struct r_freed { struct rhdr h; u64 sch; u32 n, pad; u64 skb[FREED_LONG]; };
struct r_text { struct rhdr h; u8 b[]; };

enum conf_what { CONF_INIT = 1, CONF_CHANGE, CONF_RESET, CONF_DESTROY };

struct r_conf {
    struct rhdr h;
    u64 sch;
    u32 what, ret, handle, parent, mtu, hard_header_len, optlen, ifindex;
    u64 jiffies;
    u8 opt[OPTION_BYTES];          /* the netlink options, as the kernel got them */
};

#define SEGMENTS_MAX 128
struct segment { u64 skb; u32 len, truesize; };
struct r_segs { struct rhdr h; u64 skb; u32 n, pad; struct segment segment[SEGMENTS_MAX]; };

struct r_tuple { struct rhdr h; u64 skb; u32 found, pad; u8 tuple[40]; };

#define STATE_MAX 64
struct r_state { struct rhdr h; u64 sch; u32 kind, n; u64 v[]; };

/* Before and after a congestion-control hook or a function of the ACK path. */
struct r_cc {
    struct rhdr h;
    u32 func;                      /* enum cc_func; bit 16: the second of the two attachments */
    s32 nargs;
    u64 arg[4];
    u64 ret, sk, jiffies;
    u32 snd_cwnd, snd_ssthresh, snd_cwnd_cnt, snd_cwnd_clamp, snd_cwnd_used, prior_ssthresh, prior_cwnd, srtt_us,
        mdev_us, rttvar_us, mss_cache, delivered, delivered_ce, packets_out, retrans_out, sacked_out, lost_out, lost,
        app_limited, snd_una, snd_nxt, max_packets_out, cwnd_usage_seq, total_retrans, bytes_lo, rtt_min, high_seq,
        prr_out;
    u64 tcp_mstamp, tcp_clock_cache, tcp_wstamp_ns, delivered_mstamp, first_tx_mstamp, bytes_acked;
    u64 pacing_rate, max_pacing_rate;
    u32 pacing_status, ca_state;
    u16 sport, dport;
    u8 is_cwnd_limited, ecn_flags, tlp, cav;
    u32 rs_n;
    u8 rs[80];
    u8 ca[104];
    /* version 2 */
    u32 prr_delivered, undo_marker, undo_retrans, reordering, reord_seen, snd_cwnd_stamp, tlp_high_seq, mdev_max_us,
        rtt_seq, rcv_tsecr, write_seq, rto, snd_wnd, first_rexmit, lsndtime, dsack_dups;
    u8 repair, nonagle, sack_ok, retransmits, backoff, is_sack_reneg, rack_steps, rack_persist;
    u64 rack_mstamp;
    u32 rack_rtt_us, rack_end_seq;
    char ca_name[16];
};

enum cc_func {
    F_CONG_AVOID = 1, F_SSTHRESH, F_STATE, F_ACKED, F_EVENT, F_INIT, F_MAIN, F_INACK, F_UNDO, F_MINTSO,
    /* version 2: the core's own steps */
    F_ACK, F_CWND_REDUCTION, F_RATE_GEN, F_PACING_RATE, F_ENTER_CWR, F_ENTER_RECOVERY, F_ENTER_LOSS, F_CWND_RESTART,
    F_SET_STATE, F_UNDO_REDUCTION, F_FASTRETRANS,
};

/* Private state by kind: X(name, path). The loader writes these names into the head of every recording. */
enum state_kind {
    S_CODEL = 1, S_FQ_CODEL, S_FQ_CODEL_FLOW, S_PIE, S_FQ_PIE, S_FQ_PIE_FLOW, S_CAKE, S_CAKE_TIN, S_CAKE_FLOW, S_RED,
    S_SFQ, S_SFQ_SLOT, S_FQ, S_FQ_FLOW,
};

#define CODEL_STATE(X) \
    X(count, vars.count) X(lastcount, vars.lastcount) X(dropping, vars.dropping) X(rec_inv_sqrt, vars.rec_inv_sqrt) \
    X(first_above_time, vars.first_above_time) X(drop_next, vars.drop_next) X(ldelay, vars.ldelay) \
    X(maxpacket, stats.maxpacket) X(drop_count, stats.drop_count) X(drop_len, stats.drop_len) \
    X(ecn_mark, stats.ecn_mark) X(ce_mark, stats.ce_mark) X(drop_overlimit, drop_overlimit)
#define FQ_CODEL_STATE(X) \
    X(maxpacket, cstats.maxpacket) X(ecn_mark, cstats.ecn_mark) X(ce_mark, cstats.ce_mark) \
    X(memory_usage, memory_usage) X(drop_overmemory, drop_overmemory) X(drop_overlimit, drop_overlimit) \
    X(new_flow_count, new_flow_count)
#define FQ_CODEL_FLOW_STATE(X) \
    X(deficit, deficit) X(count, cvars.count) X(lastcount, cvars.lastcount) X(dropping, cvars.dropping) \
    X(rec_inv_sqrt, cvars.rec_inv_sqrt) X(first_above_time, cvars.first_above_time) X(drop_next, cvars.drop_next) \
    X(ldelay, cvars.ldelay)
#define PIE_VARS(X) \
    X(qdelay, vars.qdelay) X(qdelay_old, vars.qdelay_old) X(burst_time, vars.burst_time) \
    X(dq_tstamp, vars.dq_tstamp) X(prob, vars.prob) X(accu_prob, vars.accu_prob) X(dq_count, vars.dq_count) \
    X(avg_dq_rate, vars.avg_dq_rate) X(backlog_old, vars.backlog_old)
#define PIE_STATE(X) \
    PIE_VARS(X) X(packets_in, stats.packets_in) X(dropped, stats.dropped) X(overlimit, stats.overlimit) \
    X(ecn_mark, stats.ecn_mark) X(maxq, stats.maxq)
#define FQ_PIE_STATE(X) \
    X(flows_cursor, flows_cursor) X(new_flow_count, new_flow_count) X(memory_usage, memory_usage) \
    X(overmemory, overmemory) X(packets_in, stats.packets_in) X(dropped, stats.dropped) \
    X(overlimit, stats.overlimit) X(ecn_mark, stats.ecn_mark)
#define FQ_PIE_FLOW_STATE(X) PIE_VARS(X) X(deficit, deficit) X(backlog, backlog) X(qlen, qlen)
#define CAKE_STATE(X) \
    X(time_next_packet, time_next_packet) X(failsafe_next_packet, failsafe_next_packet) \
    X(buffer_used, buffer_used) X(buffer_max_used, buffer_max_used) X(buffer_limit, buffer_limit) \
    X(overflow_timeout, overflow_timeout) X(rate_ns, rate_ns) X(rate_shft, rate_shft) \
    X(last_packet_time, last_packet_time) X(avg_window_begin, avg_window_begin) \
    X(avg_packet_interval, avg_packet_interval) X(avg_window_bytes, avg_window_bytes) \
    X(avg_peak_bandwidth, avg_peak_bandwidth) X(last_reconfig_time, last_reconfig_time) X(avg_netoff, avg_netoff) \
    X(max_netlen, max_netlen) X(max_adjlen, max_adjlen) X(min_netlen, min_netlen) X(min_adjlen, min_adjlen)
#define CAKE_TIN_STATE(X) \
    X(flow_quantum, flow_quantum) X(interval, cparams.interval) X(target, cparams.target) \
    X(mtu_time, cparams.mtu_time) X(drop_overlimit, drop_overlimit) X(bulk_flow_count, bulk_flow_count) \
    X(sparse_flow_count, sparse_flow_count) X(decaying_flow_count, decaying_flow_count) \
    X(unresponsive_flow_count, unresponsive_flow_count) X(max_skblen, max_skblen) \
    X(time_next_packet, time_next_packet) X(tin_rate_bps, tin_rate_bps) X(tin_deficit, tin_deficit) \
    X(tin_backlog, tin_backlog) X(tin_dropped, tin_dropped) X(tin_ecn_mark, tin_ecn_mark) X(packets, packets) \
    X(bytes, bytes) X(ack_drops, ack_drops) X(avge_delay, avge_delay) X(peak_delay, peak_delay) \
    X(base_delay, base_delay) X(way_directs, way_directs) X(way_hits, way_hits) X(way_misses, way_misses) \
    X(way_collisions, way_collisions)
#define CAKE_FLOW_STATE(X) \
    X(deficit, deficit) X(dropped, dropped) X(count, cvars.count) X(rec_inv_sqrt, cvars.rec_inv_sqrt) \
    X(drop_next, cvars.drop_next) X(blue_timer, cvars.blue_timer) X(p_drop, cvars.p_drop) \
    X(dropping, cvars.dropping) X(ecn_marked, cvars.ecn_marked) X(srchost, srchost) X(dsthost, dsthost) X(set, set)
#define RED_STATE(X) \
    X(qcount, vars.qcount) X(qR, vars.qR) X(qavg, vars.qavg) X(qidlestart, vars.qidlestart) \
    X(max_P, parms.max_P) X(prob_drop, stats.prob_drop) X(prob_mark, stats.prob_mark) \
    X(forced_drop, stats.forced_drop) X(forced_mark, stats.forced_mark) X(pdrop, stats.pdrop)
#define SFQ_STATE(X) \
    X(cur_depth, cur_depth) X(prob_drop, stats.prob_drop) X(prob_mark, stats.prob_mark) \
    X(prob_mark_head, stats.prob_mark_head) X(forced_drop, stats.forced_drop) X(forced_mark, stats.forced_mark) \
    X(forced_mark_head, stats.forced_mark_head)
#define SFQ_SLOT_STATE(X) \
    X(qlen, qlen) X(next, next) X(hash, hash) X(allot, allot) X(backlog, backlog) X(qcount, vars.qcount) \
    X(qR, vars.qR) X(qavg, vars.qavg)
#define FQ_STATE(X) \
    X(time_next_delayed_flow, time_next_delayed_flow) X(unthrottle_latency_ns, unthrottle_latency_ns) \
    X(flows, flows) X(inactive_flows, inactive_flows) X(throttled_flows, throttled_flows) \
    X(stat_throttled, stat_throttled) X(stat_gc_flows, stat_gc_flows) X(stat_ce_mark, stat_ce_mark) \
    X(stat_horizon_drops, stat_horizon_drops) X(stat_horizon_caps, stat_horizon_caps) \
    X(stat_flows_plimit, stat_flows_plimit) X(stat_pkts_too_long, stat_pkts_too_long) \
    X(stat_allocation_errors, stat_allocation_errors) X(internal_qlen, internal.qlen)
#define FQ_FLOW_STATE(X) \
    X(qlen, qlen) X(credit, credit) X(time_next_packet, time_next_packet) X(socket_hash, socket_hash)

#endif
