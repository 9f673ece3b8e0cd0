//! The core's callable functions: PRR, pacing rate, rate samples (6.1, 6.12), growth arithmetic, filters, burst size.

use debloat_cc::algorithm::Algorithm;
use debloat_cc::minmax::WindowedFilter;
use debloat_cc::prr::{self, Form};
use debloat_cc::rate::RateSample;
use debloat_cc::window::{additive_increase, slow_start};
use debloat_cc::{CaState, Conn, Hz, Sysctl, pacing};
use debloat_oracle::{Error, KernelSocket, World};

use super::CcReport;
use super::draw::{self, Clock, Random};
use super::hooks::kernel_sample;
use super::mirror::Mirror;

const STEPS: usize = 300;

/// `FLAG_SND_UNA_ADVANCED`: the ACK moved SND.UNA.
const UNA_ADVANCED: i32 = 0x400;

pub(super) const BRANCHES: &[&str] = &[
    "PRR: proportional part",
    "PRR: slow-start part",
    "PRR: limited by the gap",
    "PRR: first packet forced",
    "PRR: nothing delivered",
    "pacing: slow start",
    "pacing: avoidance",
    "pacing: no RTT",
    "pacing: capped",
    "slow start",
    "additive increase: stale credit",
    "additive increase: several packets",
    "burst",
    "windowed maximum",
    "windowed minimum",
];

pub(super) fn case(world: &World, r: &mut Random, report: &mut CcReport) -> Result<(), Error> {
    let socket = world.create_socket()?;
    socket.attach("reno")?;
    let mut clock = Clock::draw(r);
    world.set_time(clock.ns);
    let mut mirror = Mirror::new(world, &socket)?;
    report.absent = std::mem::take(&mut mirror.absent);
    let mut c = mirror.conn(Hz::new(world.env().hz() as u32).unwrap_or_default());
    let mut sysctl = Sysctl::default();
    if r.one_in(3) {
        sysctl.pacing_ss_ratio = r.pick(&[100, 200, 400]);
        sysctl.pacing_ca_ratio = r.pick(&[100, 120, 200]);
    }
    world.set_sysctl("tcp_pacing_ss_ratio", sysctl.pacing_ss_ratio.into())?;
    world.set_sysctl("tcp_pacing_ca_ratio", sysctl.pacing_ca_ratio.into())?;
    let has_rate_gen = world.symbol("tcp_rate_gen").is_some();
    filters(world, r, report)?;
    for _ in 0..STEPS {
        if r.one_in(8) {
            draw::connection(r, &mut c);
        }
        let acked = draw::delivered(r);
        draw::ack(r, &mut c, &mut clock, acked);
        world.set_time(clock.ns);
        let before = c;
        mirror.store(&c);
        let what = step(&socket, r, &mut c, &sysctl, has_rate_gen, report)?;
        report.calls += 1;
        let difference = what.1.or_else(|| {
            let found = mirror.compare(&c, &mut report.values);
            found.map(|(name, kernel, port)| format!("{name}: kernel {kernel}, port {port}"))
        });
        if let Some(difference) = difference {
            report.divergence = Some(format!("call {}: {}: {difference}\nbefore: {before:?}", report.calls, what.0));
            return Ok(());
        }
    }
    Ok(())
}

/// One call on both sides; its name, and a difference of results.
fn step(
    socket: &KernelSocket<'_>,
    r: &mut Random,
    c: &mut Conn,
    sysctl: &Sysctl,
    has_rate_gen: bool,
    report: &mut CcReport,
) -> Result<(String, Option<String>), Error> {
    let mut hit = |branch: &str, reached: bool| report.coverage.hit_if(branch, reached);
    let same = |kernel: u64, port: u64| (kernel != port).then(|| format!("result: kernel {kernel}, port {port}"));
    Ok(match r.below(if has_rate_gen { 7 } else { 6 }) {
        0 | 1 => {
            // PRR wants a reduction that has begun; the kernel warns where there is none.
            let (d, lost) = (if r.one_in(8) { 0 } else { 1 + r.below(9) as i32 }, r.pick(&[0, 0, 1, 5]));
            let advanced = r.one_in(2);
            c.cwnd_before = c.cwnd_before.max(1);
            c.state = CaState::Recovery;
            if r.one_in(4) {
                (c.prr_delivered, c.prr_out) = (r.below(200) as u32, r.below(200) as u32);
            }
            socket.set("prior_cwnd", c.cwnd_before.into())?;
            socket.set("prr_delivered", c.prr_delivered.into())?;
            socket.set("prr_out", c.prr_out.into())?;
            socket.set("icsk_ca_state", 3)?;
            socket.cwnd_reduction(d, lost, if advanced { UNA_ADVANCED } else { 0 })?;
            let gap = c.ssthresh.wrapping_sub(c.in_flight()) as i32;
            prr::reduce(c, Form::Linux, d, lost as u32, advanced);
            hit("PRR: nothing delivered", d == 0);
            hit("PRR: proportional part", d > 0 && gap < 0);
            hit("PRR: slow-start part", d > 0 && gap >= 0);
            hit("PRR: limited by the gap", d > 0 && gap >= 0 && c.cwnd == c.ssthresh);
            hit("PRR: first packet forced", d > 0 && c.prr_out == 0 && c.cwnd == c.in_flight().wrapping_add(1));
            (format!("tcp_cwnd_reduction({d}, {lost}, {advanced})"), None)
        }
        2 => {
            socket.update_pacing_rate()?;
            pacing::update_rate(c, sysctl);
            hit("pacing: slow start", c.cwnd < c.ssthresh / 2);
            hit("pacing: avoidance", c.cwnd >= c.ssthresh / 2);
            hit("pacing: no RTT", c.srtt8 == 0);
            hit("pacing: capped", c.pace_rate == c.max_pace);
            ("tcp_update_pacing_rate".into(), None)
        }
        3 => {
            let acked = draw::delivered(r);
            if c.cwnd < c.ssthresh {
                hit("slow start", true);
                let kernel = socket.slow_start(acked)?;
                let port = slow_start(c, acked);
                (format!("tcp_slow_start({acked})"), same(kernel.into(), port.into()))
            } else {
                let w = r.pick(&[c.cwnd, 2, c.ai_credit.max(1), 20]);
                hit("additive increase: stale credit", c.ai_credit >= w);
                socket.cong_avoid_ai(w, acked)?;
                let was = c.cwnd;
                additive_increase(c, w, acked);
                hit("additive increase: several packets", c.cwnd > was.wrapping_add(1));
                (format!("tcp_cong_avoid_ai({w}, {acked})"), None)
            }
        }
        4 => {
            hit("burst", true);
            let kernel = socket.tso_segs(c.mss)?;
            let port = pacing::burst_segments(c, sysctl, debloat_cc::Reno.min_tso_segs(c));
            (format!("tcp_tso_segs({})", c.mss), same(kernel.into(), port.into()))
        }
        5 => {
            let kernel = socket.call("tcp_reno_undo_cwnd", &[])? as u32;
            ("tcp_reno_undo_cwnd".into(), same(kernel.into(), debloat_cc::reno::undo_cwnd(c).into()))
        }
        _ => rate_gen(socket, r, c)?,
    })
}

fn rate_gen(socket: &KernelSocket<'_>, r: &mut Random, c: &mut Conn) -> Result<(String, Option<String>), Error> {
    let (d, lost, reneging) = (draw::delivered(r), r.below(5) as u32, r.one_in(10));
    let mut rs = RateSample {
        prior_us: if r.one_in(6) { 0 } else { c.now_us.saturating_sub(r.magnitude(20)) },
        prior_delivered: c.delivered.wrapping_sub(r.magnitude(12) as u32),
        prior_delivered_ce: c.delivered_ce.wrapping_sub(r.magnitude(6) as u32) & 0xf_ffff,
        send_us: r.magnitude(20) as u32,
        rtt_us: r.magnitude(20) as i64,
        prior_in_flight: c.in_flight(),
        is_app_limited: r.one_in(3),
        ..RateSample::default()
    };
    c.app_lim = if r.one_in(2) { 0 } else { c.delivered.wrapping_add(r.below(9) as u32).wrapping_sub(4) };
    socket.set("app_limited", c.app_lim.into())?;
    // The kernel takes the length of the send phase from the interval's field.
    let given = debloat_oracle::RateSample { interval_us: rs.send_us.into(), snd_interval_us: 0, ..kernel_sample(&rs) };
    let answer = socket.rate_gen(d, lost, reneging, &given)?;
    let name = format!("tcp_rate_gen({d}, {lost}, {reneging}) of {rs:?}");
    rs.generate(c, d, lost, reneging);
    let mut port = kernel_sample(&rs);
    if rs.delivered == -1 && rs.interval_us == -1 && (rs.prior_us == 0 || reneging) {
        port.snd_interval_us = 0;
    }
    Ok((name, (answer != port).then(|| format!("sample: kernel {answer:?}, port {port:?}"))))
}

/// The windowed filter over a run of readings.
fn filters(world: &World, r: &mut Random, report: &mut CcReport) -> Result<(), Error> {
    let kernel = world.windowed_filter()?;
    let (mut t, v) = (r.bits() as u32, r.magnitude(20) as u32);
    let window = r.pick(&[10, 10, 75_000, 300_000, 4]);
    kernel.reset(t, v);
    let mut port = WindowedFilter::new(t, v);
    let maximum = r.one_in(2);
    for _ in 0..40 {
        t = t.wrapping_add(if r.one_in(8) {
            r.magnitude(20) as u32
        } else {
            r.below(u64::from(window) / 2 + 2) as u32
        });
        let v = r.magnitude(20) as u32;
        let (a, b) = if maximum {
            (kernel.running_max(window, t, v)?, port.running_max(window, t, v))
        } else {
            (kernel.running_min(window, t, v)?, port.running_min(window, t, v))
        };
        report.calls += 1;
        report.values += 7;
        report.coverage.hit(if maximum { "windowed maximum" } else { "windowed minimum" });
        if a != b || kernel.samples() != port.e.map(|e| (e.t, e.v)) {
            report.divergence = Some(format!("filter at {t}, {v}: kernel {:?}, port {port:?}", kernel.samples()));
            return Ok(());
        }
    }
    Ok(())
}
