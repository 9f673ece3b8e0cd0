//! What random operations seldom meet, against each kernel that is there: the wrap of pie's probability, and when
//! the timers of pie and fq_pie are armed for.

use debloat_aqm::{Descriptor, Host, Qdisc, TimerModel, fq_pie, pie};
use debloat_conformance::diff::campaign::{CampaignReport, CaseEnd, run_case};
use debloat_conformance::diff::case::Device;
use debloat_conformance::diff::kernel::Session;
use debloat_conformance::diff::{Case, Draft, Op, OptionSet, Step, targets};
use debloat_harness::trace::Event;
use debloat_oracle::{QdiscSetup, World, WorldOptions, find, nla, worker};

const SERIES: [&str; 3] = ["6.1", "6.12", "7.2"];

/// Runs a check on each kernel, in a process of its own, and says which are missing.
fn on_each_kernel(test: &str, check: impl Fn(&World)) {
    for series in SERIES {
        let Ok(kernel) = find(series) else {
            println!("SKIPPED {test} on {series}: `debloat oracle fetch` gets the kernel");
            continue;
        };
        let run = worker::isolate(|| {
            let world = World::load(&kernel, WorldOptions::default()).map_err(|error| error.to_string());
            check(&world.unwrap_or_else(|error| panic!("{error}")));
        });
        assert!(run.is_ok(), "{test} on {series}: {run:?}");
    }
}

fn packet() -> Op {
    let mut bytes = vec![0; 34];
    bytes[12] = 8;
    bytes[14] = 0x45;
    Op::Enqueue(Box::new(Draft {
        bytes,
        buffer_bytes: 1514,
        len_bytes: 1514,
        truesize_bytes: 2304,
        protocol: 0x0800,
        network_offset: 14,
        ..Draft::default()
    }))
}

fn step(advance_ns: u64, op: Op) -> Step {
    Step { advance_ns, clock_step_ns: 0, op }
}

fn case(steps: Vec<Step>) -> Case {
    let device = Device { mtu_bytes: 1500, link_header_bytes: 14, tx_queue_len: 1000, handle: 0x1_0000, is_root: true };
    let (options, start_ns) = (OptionSet::default(), 3_600_000_000_000);
    Case { device, options, start_ns, draw_seed: 1, high_draws: false, steps }
}

/// spec/pie.md §9.1: a delay of 300 ms, update after update, until 64 bits wrap.
#[test]
fn probability_wraps_as_in_the_kernel() {
    on_each_kernel("probability_wraps_as_in_the_kernel", |world| {
        let mut steps = vec![step(0, packet()), step(0, packet()), step(300_000_000, Op::Dequeue)];
        steps.extend((0..6_500).map(|_| step(20_000_000, Op::Timer)));
        let case = case(steps);
        let target = targets::find("pie").expect("pie can be compared");
        let mut session = Session::new(world, target).unwrap_or_else(|error| panic!("{error}"));
        let mut events = Some(Vec::new());
        match run_case(&mut session, &case, &mut CampaignReport::default(), &mut events) {
            Ok(CaseEnd::Same) => {}
            Ok(CaseEnd::Differs(at, divergence)) => panic!("step {at}: {divergence}"),
            Ok(CaseEnd::Refused) => panic!("no options to refuse"),
            Err(error) => panic!("{error}"),
        }
        let at = session.schemas[0].schema.index_of("probability").expect("it is compared");
        let probabilities = events.iter().flatten().filter_map(|event| match event {
            Event::Call(call) => call.snapshots.first().map(|snapshot| snapshot.values[at]),
            _ => None,
        });
        let after_update: Vec<u64> = probabilities.skip(3).collect();
        assert_eq!(after_update[6_399], 18_444_844_491_440_726_918);
        assert_eq!(after_update[6_400], pie::MAX_PROBABILITY);
    });
}

/// The jiffies after the present one for which the kernel's timer is armed.
fn armed(world: &World, qdisc: &debloat_oracle::KernelQdisc<'_>) -> Vec<u64> {
    qdisc.timers().iter().map(|(_, expires)| expires.wrapping_sub(world.jiffies())).collect()
}

/// And the same of a port whose timers are nominal.
fn due(queue: &impl Qdisc<Descriptor>, now_ns: u64) -> Vec<u64> {
    queue.next_event().map(|event| (event.at_ns - now_ns) / 4_000_000).into_iter().collect()
}

#[test]
fn timers_are_armed_as_in_the_kernel() {
    on_each_kernel("timers_are_armed_as_in_the_kernel", |world| {
        let mut now = 3_600_000_000_000;
        world.set_time(now);
        let host = Host { timers: TimerModel::Nominal, created_ns: now, ..Host::default() };
        let setup = |flows| debloat_aqm::Setup {
            config: fq_pie::Config { flows: Some(flows), ..Default::default() },
            host,
            ..Default::default()
        };
        for flows in [2048, 2049, 5000] {
            let options = nla::Builder::new().u32(2, flows).finish();
            let kernel = world.create_qdisc("fq_pie", QdiscSetup::default(), Some(&options));
            let kernel = kernel.unwrap_or_else(|error| panic!("{error}"));
            let mut port = fq_pie::FqPie::<Descriptor>::new(debloat_aqm::Setup {
                host: Host { created_ns: now, ..host },
                ..setup(flows)
            })
            .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((armed(world, &kernel), due(&port, now)), (vec![125], vec![125]), "{flows} flows");
            for _ in 0..6 {
                now += 700_000_000;
                world.set_time(now);
                kernel.fire_timer().unwrap_or_else(|error| panic!("{error}"));
                port.on_timer(&mut debloat_aqm::Context::at(now));
                assert_eq!(armed(world, &kernel), due(&port, now), "{flows} flows");
            }
        }

        // pie, and a period of 0, which tc cannot say: the timer stops at its next expiry.
        let kernel = world.create_qdisc("pie", QdiscSetup::default(), None).unwrap_or_else(|error| panic!("{error}"));
        let setup = debloat_aqm::Setup { host: Host { created_ns: now, ..host }, ..Default::default() };
        let mut port = pie::Pie::<Descriptor>::new(setup).unwrap_or_else(|error| panic!("{error}"));
        for tupdate_us in [15_000, 15_000, 100_001, 1, 0, 15_000] {
            let options = nla::Builder::new().u32(3, tupdate_us).finish();
            kernel.change(&options).unwrap_or_else(|error| panic!("{error}"));
            let config = pie::Config { tupdate_us: Some(tupdate_us), ..Default::default() };
            let mut cx = debloat_aqm::Context::at(now);
            port.change(&config, &mut cx).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(armed(world, &kernel), due(&port, now), "before, period {tupdate_us}");
            if !kernel.fire_timer().unwrap_or_else(|error| panic!("{error}")) {
                assert_eq!(port.next_event(), None);
                continue;
            }
            port.on_timer(&mut cx);
            assert_eq!(armed(world, &kernel), due(&port, now), "after, period {tupdate_us}");
        }
        assert_eq!(armed(world, &kernel), Vec::<u64>::new(), "stopped for good");
    });
}
