//! The congestion controls: attached, driven, repeatable.

mod common;

use common::{Digest, Rng, kernels, with_world};
use debloat_oracle::{AckSample, Hook, RateSample, World, WorldOptions};

const NAMES: [&str; 4] = ["reno", "cubic", "bbr", "dctcp"];

/// Digest, largest window, losses.
type Seen = (u64, u64, u64);

/// A crude ACK clock with queueing above 100 packets, marks above 120, losses above 300.
fn drive(w: &World, name: &str, acks: u64) -> debloat_oracle::Result<Seen> {
    w.env().seed_draws(5);
    let s = w.create_socket()?;
    let [cwnd, ssthresh, delivered, delivered_ce, mstamp, una, nxt, out, peak, limited, srtt, lost] = [
        "snd_cwnd",
        "snd_ssthresh",
        "delivered",
        "delivered_ce",
        "delivered_mstamp",
        "snd_una",
        "snd_nxt",
        "packets_out",
        "max_packets_out",
        "is_cwnd_limited",
        "srtt_us",
        "lost",
    ]
    .map(|f| s.field(f));
    let (cwnd, ssthresh, delivered, delivered_ce) = (cwnd?, ssthresh?, delivered?, delivered_ce?);
    let (mstamp, una, nxt, out, peak, limited, srtt, lost) = (mstamp?, una?, nxt?, out?, peak?, limited?, srtt?, lost?);
    s.set("ecn_flags", 1)?;
    s.set("rtt_min.s[0].v", 20_000)?;
    let mut now_us = 1_000_000u64;
    w.set_time(now_us * 1000);
    s.set_clock(now_us * 1000);
    let c = s.attach(name)?;
    c.init()?;
    assert_eq!(c.attached()?, name);
    let (mut rng, mut d, mut losses, mut highest) = (Rng(11), Digest::new(), 0, 0);
    let mut recovery = 0;
    for _ in 0..acks {
        let (acked, window) = (1 + rng.below(4), s.read(&cwnd));
        let rtt = 20_000 + window.saturating_sub(100).min(400) * 120 + rng.below(300);
        now_us += (rtt * acked / window.max(1)).max(1);
        w.set_time(now_us * 1000);
        s.set_clock(now_us * 1000);
        let before = s.read(&delivered);
        for (field, value) in [
            (&delivered, before + acked),
            (&mstamp, now_us),
            (&una, s.read(&una) + 1448 * acked),
            (&nxt, s.read(&una) + 1448 * (acked + window)),
            (&out, window),
            (&peak, window),
            (&limited, 1),
            (&srtt, rtt << 3),
        ] {
            s.write(field, value);
        }
        let marked = window > 120 && rng.below(8) == 0;
        if marked {
            s.write(&delivered_ce, s.read(&delivered_ce) + acked);
        }
        let loss = window > 300 && recovery == 0 && rng.below(200) == 0;
        if c.has(Hook::InAckEvent) {
            c.in_ack_event(if marked { 5 } else { 1 })?;
        }
        if c.has(Hook::PktsAcked) {
            c.pkts_acked(&AckSample { pkts_acked: acked as u32, rtt_us: rtt as i32, in_flight: window as u32 })?;
        }
        if loss {
            (losses, recovery) = (losses + 1, 30);
            s.write(&lost, s.read(&lost) + 1);
            s.set("prior_cwnd", window)?;
            let threshold = c.ssthresh()?;
            s.write(&ssthresh, threshold.into());
            s.set_ca_state(3)?;
            if !c.has(Hook::CongControl) {
                s.write(&cwnd, u64::from(threshold.max(2)));
            }
        } else if recovery > 0 {
            recovery -= 1;
            if recovery == 0 {
                s.set_ca_state(0)?;
                d.add(c.undo_cwnd()?.into());
                c.tx_start()?;
            }
        }
        if c.has(Hook::CongControl) {
            let flight = window.min(before);
            c.cong_control(
                s.read(&una) as u32,
                0,
                &RateSample {
                    prior_mstamp: now_us - rtt,
                    prior_delivered: (before - flight) as u32,
                    delivered: acked.max(flight) as i32,
                    interval_us: rtt as i64,
                    rtt_us: rtt as i64,
                    losses: loss.into(),
                    acked_sacked: acked as u32,
                    prior_in_flight: window as u32,
                    ..RateSample::default()
                },
            )?;
        } else if recovery == 0 {
            c.cong_avoid(s.read(&una) as u32, acked as u32)?;
            s.update_pacing_rate()?;
        }
        highest = highest.max(s.read(&cwnd));
        for path in [&cwnd, &ssthresh] {
            d.add(s.read(path));
        }
        d.add(s.get("sk_pacing_rate")?);
    }
    let mut private = Vec::new();
    c.private_bytes(&mut private);
    if name != "bbr" {
        // 7.x moved fields of dctcp; the window says enough.
        d.add(private.len() as u64);
    }
    Ok((d.0, highest, losses))
}

fn all(w: &World) -> debloat_oracle::Result<Vec<(String, Seen)>> {
    NAMES.iter().map(|n| Ok((n.to_string(), drive(w, n, 20_000)?))).collect()
}

#[test]
fn controls_run_alike_in_every_world_and_series() {
    let mut results: Vec<(String, Vec<_>)> = Vec::new();
    for kernel in kernels("controls_run_alike_in_every_world_and_series") {
        let (one, two) = with_world(&kernel, WorldOptions::default(), |w| Ok((all(w)?, all(w)?)));
        assert_eq!(one, two, "{}", kernel.release());
        let moved = WorldOptions { image_base: 0x3000_0000, arena_base: 0x5800_0000, ..WorldOptions::default() };
        assert_eq!(one, with_world(&kernel, moved, all), "{}", kernel.release());
        for (name, (_, highest, losses)) in &one {
            assert!(*highest > 100, "{name} never grew: {highest}");
            assert!(*losses > 0 || name == "bbr" || name == "dctcp", "{name} never lost");
        }
        results.push((kernel.release().into(), one));
    }
    for pair in results.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
}

#[test]
fn registration_has_computed_cubic_s_constants() {
    for kernel in kernels("registration_has_computed_cubic_s_constants") {
        with_world(&kernel, WorldOptions::default(), |w| {
            let s = w.create_socket()?;
            s.attach("cubic")?;
            let constant = |name: &str, size| w.symbol(name).map(|at| w.peek(at, size));
            // spec/cubic.md: beta 717, bic_scale 41.
            assert_eq!(constant("beta_scale", 4), Some(15));
            assert_eq!(constant("cube_rtt_scale", 4), Some(410));
            assert_eq!(constant("cube_factor", 8), Some((1u64 << 40) / 410));
            assert_eq!(w.parameter("tcp_cubic", "beta")?, "717");
            w.set_parameter("tcp_cubic", "beta", "819")?;
            w.register_again("cubic")?;
            assert_eq!(w.parameter("tcp_cubic", "beta")?, "819");
            assert_eq!(constant("beta_scale", 4), Some(8 * (1024 + 819) / 3 / (1024 - 819)));
            assert!(w.set_parameter("tcp_cubic", "beta", "many").is_err());
            Ok(())
        });
    }
}

#[test]
fn core_functions_answer_as_the_specification_says() {
    for kernel in kernels("core_functions_answer_as_the_specification_says") {
        with_world(&kernel, WorldOptions::default(), |w| {
            let s = w.create_socket()?;
            s.attach("reno")?;
            // spec/cc-interface.md §5.1, §5.2.
            for (cwnd, ssthresh, acked, left, after) in [(10, 100, 2, 0, 12), (98, 100, 5, 3, 100)] {
                s.set("snd_cwnd", cwnd)?;
                s.set("snd_ssthresh", ssthresh)?;
                assert_eq!((s.slow_start(acked)?, s.get("snd_cwnd")?), (left, after));
            }
            for (cwnd, credit, divisor, acked, after, credit_after) in
                [(100, 99, 100, 1, 101, 0), (100, 0, 100, 250, 102, 50), (100, 120, 50, 10, 101, 10)]
            {
                s.set("snd_cwnd", cwnd)?;
                s.set("snd_cwnd_cnt", credit)?;
                s.cong_avoid_ai(divisor, acked)?;
                assert_eq!((s.get("snd_cwnd")?, s.get("snd_cwnd_cnt")?), (after, credit_after));
            }
            // §8.1.
            for (mss, cwnd, ssthresh, out, srtt, rate) in [
                (1448, 10, 0x7fff_ffff, 10, 320_000, 724_000),
                (1448, 100, 70, 100, 320_000, 4_344_000),
                (1448, 35, 70, 35, 320_000, 1_520_400),
                (536, 2, 2, 2, 12_000_000, 857u64),
            ] {
                for (f, v) in [
                    ("mss_cache", mss),
                    ("snd_cwnd", cwnd),
                    ("snd_ssthresh", ssthresh),
                    ("packets_out", out),
                    ("srtt_us", srtt),
                ] {
                    s.set(f, v)?;
                }
                s.update_pacing_rate()?;
                assert_eq!(s.get("sk_pacing_rate")?, rate);
            }
            let filter = w.windowed_filter()?;
            assert_eq!(
                (filter.running_max(10, 1, 5)?, filter.running_max(10, 2, 3)?, filter.running_max(10, 12, 1)?),
                (5, 5, 1)
            );
            Ok(())
        });
    }
}
