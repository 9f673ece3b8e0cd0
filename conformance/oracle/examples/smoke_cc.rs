//! Attaches each congestion control and runs it for a moment.
use debloat_oracle::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let kernel = find(&args.next().unwrap_or("newest".into())).unwrap();
    let world = World::load(&kernel, WorldOptions::default()).unwrap();
    for kind in args {
        if let Err(e) = run(&world, &kind) {
            println!("{kind}: ERROR {e}");
        }
        println!("printed {:?}", world.env().take_printed());
    }
}
fn run(world: &World, kind: &str) -> Result<()> {
    world.env().seed_draws(1);
    let s = world.create_socket()?;
    for f in [
        "snd_cwnd",
        "snd_ssthresh",
        "snd_cwnd_clamp",
        "srtt_us",
        "mdev_us",
        "icsk_rto",
        "app_limited",
        "reordering",
        "sk_pacing_rate",
        "sk_pacing_status",
        "rtt_min.s[0].v",
        "delivered",
        "mss_cache",
        "ecn_flags",
        "rate_app_limited",
    ] {
        print!("{f}={} ", s.get(f).map_or("?".into(), |v| v.to_string()));
    }
    println!(
        "pacing {} {} reord {}",
        world.sysctl("tcp_pacing_ss_ratio")?,
        world.sysctl("tcp_pacing_ca_ratio")?,
        world.sysctl("tcp_reordering")?
    );
    let c = s.attach(kind)?;
    println!(
        "{kind} hooks {:?} private {:?}",
        Hook::ALL.iter().filter(|h| c.has(**h)).collect::<Vec<_>>(),
        c.private_size()
    );
    let mut now = 1_000_000_000u64;
    world.set_time(now);
    s.set_clock(now);
    s.set("srtt_us", 20_000 << 3)?;
    s.set("rtt_min.s[0].v", 20_000)?;
    s.set("ecn_flags", 1)?;
    s.set("delivered_mstamp", now / 1000)?;
    c.init()?;
    println!("attached {}", c.attached()?);
    let cwnd = s.field("snd_cwnd")?;
    for i in 0..2000u32 {
        now += 1_000_000;
        world.set_time(now);
        s.set_clock(now);
        let d = s.get("delivered")? + 2;
        s.set("delivered", d)?;
        s.set("delivered_mstamp", now / 1000)?;
        s.set("packets_out", s.read(&cwnd))?;
        s.set("max_packets_out", s.read(&cwnd))?;
        s.set("is_cwnd_limited", 1)?;
        let una = s.get("snd_una")? + 2896;
        s.set("snd_una", una)?;
        s.set("snd_nxt", una + 14480)?;
        if c.has(Hook::InAckEvent) {
            c.in_ack_event(if i % 50 == 0 { 5 } else { 1 })?;
        }
        if c.has(Hook::PktsAcked) {
            c.pkts_acked(&AckSample { pkts_acked: 2, rtt_us: 20_000 + (i % 400) as i32 * 20, in_flight: 10 })?;
        }
        if c.has(Hook::CongControl) {
            c.cong_control(
                una as u32,
                0,
                &RateSample {
                    prior_mstamp: now / 1000 - 20_000,
                    prior_delivered: (d as u32).saturating_sub(20),
                    delivered: 20,
                    interval_us: 20_000,
                    rtt_us: 20_000,
                    acked_sacked: 2,
                    prior_in_flight: 10,
                    ..Default::default()
                },
            )?;
        } else {
            c.cong_avoid(una as u32, 2)?;
            s.update_pacing_rate()?;
        }
        if i == 1000 {
            s.set("snd_ssthresh", c.ssthresh()?.into())?;
            s.set_ca_state(3)?;
            s.set_ca_state(0)?;
        }
    }
    c.tx_start()?;
    println!(
        "cwnd {} ssthresh {} pacing {} undo {} info {:?}",
        s.read(&cwnd),
        s.get("snd_ssthresh")?,
        s.get("sk_pacing_rate")?,
        c.undo_cwnd()?,
        if c.has(Hook::GetInfo) { c.get_info(u32::MAX)? } else { None }
    );
    if kind == "cubic" {
        for p in ["cnt", "last_max_cwnd", "epoch_start", "delay_min", "found", "curr_rtt"] {
            print!("{p}={:?} ", c.private(p));
        }
        println!("param {} {}", world.parameter("tcp_cubic", "beta")?, world.parameter("tcp_cubic", "hystart_detect")?);
        world.set_parameter("tcp_cubic", "beta", "700")?;
        println!(
            "{} {:?} mib {:?}",
            world.parameter("tcp_cubic", "beta")?,
            world.set_parameter("tcp_cubic", "beta", "x").map_err(|e| e.to_string()),
            world.mib("LINUX_MIB_TCPHYSTARTTRAINDETECT")
        );
        world.set_parameter("tcp_cubic", "beta", "717")?;
        world.register_again("cubic")?;
    }
    if kind == "reno" {
        s.set("prior_cwnd", 100)?;
        s.set("snd_cwnd", 100)?;
        s.set("snd_ssthresh", 50)?;
        s.set("packets_out", 90)?;
        for _ in 0..5 {
            s.cwnd_reduction(2, 0, 0)?;
            print!("{} ", s.read(&cwnd));
        }
        println!("slow start {} {}", s.slow_start(3)?, s.tso_segs(1448).unwrap_or(0));
        println!(
            "rate_gen {:?}",
            s.rate_gen(
                5,
                1,
                false,
                &RateSample {
                    prior_mstamp: 1_000_000,
                    prior_delivered: 10,
                    snd_interval_us: 900,
                    ..Default::default()
                }
            )
        );
        let f = world.windowed_filter()?;
        println!("{} {} {:?}", f.running_max(10, 1, 5)?, f.running_max(10, 2, 3)?, f.samples());
        s.enter_cwr()?;
        println!("cwr {} {} {}", s.get("icsk_ca_state")?, s.get("snd_ssthresh")?, s.read(&cwnd));
    }
    drop(c);
    Ok(())
}
