use super::super::config::Law;
use super::super::probability::{Class, Decision};
use super::super::*;
use crate::{Descriptor, Fixed, Host, Scripted, SplitMix64, time::ms};

fn law(config: Config) -> Law {
    let mut law = Law::new(&Host::default());
    law.apply(&config);
    law
}

/// spec/dualpi2.md §9.1: a constant delay, and the cut to 32 bits before the test for overflow.
#[test]
fn probability_under_constant_delay_and_its_truncation() {
    let law = law(Config::default());
    let mut base = BaseProbability::default();
    let expected = [
        (1, 350234375),
        (2, 357109375),
        (10, 412109375),
        (50, 687109375),
        (100, 1030859375),
        (200, 1718359375),
        (300, 2405859375u32),
    ];
    let mut checked = 0;
    for update in 1..=300 {
        base.update(&law, ms(25));
        if let Some((_, probability)) = expected.iter().find(|row| row.0 == update) {
            assert_eq!(base.probability, *probability, "update {update}");
            checked += 1;
        }
    }
    assert_eq!(checked, expected.len());

    let trap = Law { alpha: 4000, beta: 0, ..law };
    let mut base = BaseProbability::default();
    base.update(&trap, law.target_ns + 68_819_476);
    assert_eq!(base.probability, 6_249_954, "4301217250 is cut, not saturated");
    let mut base = BaseProbability { probability: u32::MAX, last_delay_ns: 0 };
    base.update(&Law { alpha: 0, ..law }, 100_000);
    assert_eq!(base.probability, u32::MAX, "a small sum that wraps saturates");
}

/// the coupling law, counted over many draws: p_C = p'², p_CL = min(k · p', 1).
#[test]
fn coupling_law() {
    let full = u64::from(u32::MAX);
    for (percent, k) in [(1, 2), (5, 2), (10, 2), (20, 2), (45, 2), (10, 3), (50, 1)] {
        let law = law(Config { coupling_factor: Some(k), ..Config::default() });
        let base = BaseProbability { probability: (full * percent / 100) as u32, last_delay_ns: 0 };
        let mut random = SplitMix64(percent);
        let mut marked = [0u64; 2];
        const PACKETS: u64 = 400_000;
        for _ in 0..PACKETS {
            for (count, class) in marked.iter_mut().zip([Class::Classic, Class::L4s]) {
                let decision = base.decide(&law, class, true, || random.next_u64() as u32);
                *count += u64::from(decision != Decision::Pass);
            }
        }
        let wanted = [PACKETS * percent * percent / 10_000, PACKETS * percent * u64::from(k) / 100];
        for (count, wanted) in marked.into_iter().zip(wanted) {
            let off = count.abs_diff(wanted);
            assert!(off * off <= 25 * wanted, "{percent} % × {k}: {count} of {wanted}: beyond five deviations");
        }
    }
    // Exactly, at the edges of the draws: r ≤ x.
    let law = law(Config::default());
    let base = BaseProbability { probability: 1 << 30, last_delay_ns: 0 };
    let decide = |class, draws: &[u32]| {
        let mut draws = draws.iter();
        let decision = base.decide(&law, class, true, || *draws.next().unwrap());
        (decision, draws.len())
    };
    assert_eq!(decide(Class::L4s, &[1 << 31, 0]), (Decision::Mark, 1));
    assert_eq!(decide(Class::L4s, &[(1 << 31) + 1, 0]), (Decision::Pass, 1));
    assert_eq!(decide(Class::Classic, &[1 << 30, 1 << 30]), (Decision::Mark, 0));
    assert_eq!(decide(Class::Classic, &[1 << 30, (1 << 30) + 1]), (Decision::Pass, 0));
    assert_eq!(decide(Class::Classic, &[(1 << 30) + 1, 0]), (Decision::Pass, 1));
    assert_eq!(decide(Class::LowLatency, &[0]), (Decision::Pass, 1));
}

/// spec/dualpi2.md §4: what overload does, in both modes.
#[test]
fn overload() {
    let base = BaseProbability { probability: 1 << 31, last_delay_ns: 0 };
    let decide = |drop_on_overload, class, ecn, draw: u32| {
        let law = law(Config { drop_on_overload: Some(drop_on_overload), ..Config::default() });
        let mut draws = 0;
        let decision = base.decide(&law, class, ecn, || {
            draws += 1;
            draw
        });
        (decision, draws)
    };
    assert_eq!(decide(true, Class::L4s, true, 0), (Decision::DropOverloaded, 2));
    assert_eq!(decide(true, Class::L4s, true, u32::MAX), (Decision::Mark, 1));
    assert_eq!(decide(false, Class::L4s, false, 0), (Decision::Mark, 0), "tried, and fails for Not-ECT");
    assert_eq!(decide(true, Class::Classic, true, 0), (Decision::DropOverloaded, 2));
    assert_eq!(decide(false, Class::Classic, true, 0), (Decision::DropOverloaded, 2));
    assert_eq!(decide(false, Class::Classic, true, u32::MAX), (Decision::Pass, 1));
    let below = BaseProbability { probability: (1 << 31) - 1, last_delay_ns: 0 };
    assert_eq!(below.decide(&law(Config::default()), Class::L4s, false, || 0), Decision::Drop);
}

/// Case DP-07: in overflow mode the coupled probability stays within 1.
#[test]
fn overflow_mode_caps_the_base_probability() {
    for (k, cap) in [(2, 2147483647), (3, 1431655765), (255, 16843009)] {
        let config = Config { coupling_factor: Some(k), drop_on_overload: Some(false), ..Config::default() };
        let law = law(config);
        let mut base = BaseProbability::default();
        for _ in 0..100 {
            base.update(&law, ms(1_000));
        }
        assert_eq!(base.probability, cap);
    }
}

/// Case DP-05: defaults, what is refused, and how gains read back.
#[test]
fn parameters_and_refusals() {
    let defaults = Parameters {
        limit: 10_000,
        memlimit_bytes: 30_280_000,
        target_us: 15_000,
        tupdate_us: 16_000,
        alpha_hz_256: 40,
        beta_hz_256: 818,
        step_thresh: StepThreshold::Time(1_000),
        min_qlen_step: 0,
        coupling_factor: 2,
        drop_on_overload: true,
        drop_early: false,
        classic_protection_percent: 10,
        ecn_mask: 1,
        split_gso: true,
    };
    let mut queue = DualPi2::<Descriptor>::new(Config::default()).unwrap();
    let mut cx = Scripted::at(ms(1_000));
    assert_eq!(queue.parameters(), defaults);
    assert_eq!((queue.law.alpha, queue.law.beta), (44, 879));
    let gains = law(Config { alpha_hz_256: Some(256), beta_hz_256: Some(2560), ..Config::default() });
    assert_eq!((gains.alpha, gains.beta), (274, 2748));
    assert_eq!((gains.parameters().alpha_hz_256, gains.parameters().beta_hz_256), (255, 2559));

    let all = Config {
        limit: Some(5),
        memlimit_bytes: Some(20_000_000),
        target_us: Some(u32::MAX),
        tupdate_us: Some(u32::MAX),
        alpha_hz_256: Some(1),
        beta_hz_256: Some(i32::MAX as u32),
        step_thresh: Some(StepThreshold::Packets(3)),
        min_qlen_step: Some(1),
        coupling_factor: Some(1),
        drop_on_overload: Some(false),
        drop_early: Some(true),
        classic_protection_percent: Some(0),
        ecn_mask: Some(3),
        split_gso: Some(false),
    };
    queue.change(&all, &mut cx).unwrap();
    let parameters = queue.parameters();
    assert_eq!((parameters.memlimit_bytes, parameters.target_us), (20_000_000, u32::MAX));
    assert_eq!(parameters.tupdate_us, u32::MAX / 1000);
    assert_eq!(parameters.step_thresh, StepThreshold::Packets(3));
    assert_eq!((parameters.drop_early, parameters.ecn_mask, parameters.split_gso), (true, 3, false));
    assert_eq!(queue.credit, -151_400, "the protection sets the credit");
    queue.change(&Config { limit: Some(7), ..Config::default() }, &mut cx).unwrap();
    assert_eq!(queue.parameters().memlimit_bytes, 7 * 2 * 1514, "the limit sets the memory limit");
    assert_eq!(law(Config { limit: Some(u32::MAX), ..Config::default() }).memory_limit, u32::MAX);

    let none = Config::default();
    let refused = [
        ("limit", Config { limit: Some(0), ..none }),
        ("memlimit", Config { memlimit_bytes: Some(0), ..none }),
        ("tupdate", Config { tupdate_us: Some(0), ..none }),
        ("alpha", Config { alpha_hz_256: Some(0), ..none }),
        ("beta", Config { beta_hz_256: Some(1 << 31), ..none }),
        ("coupling_factor", Config { coupling_factor: Some(0), ..none }),
        ("classic_protection", Config { classic_protection_percent: Some(101), ..none }),
        ("l4s_ect", Config { ecn_mask: Some(0), ..none }),
        ("l4s_ect", Config { ecn_mask: Some(4), ..none }),
    ];
    for (option, config) in refused {
        assert_eq!(DualPi2::<Descriptor>::new(config).map(|_| ()).map_err(|error| error.option), Err(option));
        assert_eq!(queue.change(&config, &mut cx).map_err(|error| error.option), Err(option));
    }
    assert!(queue.change(&none, &mut cx).is_err(), "an empty list");
    assert_eq!(DualPi2::<Descriptor, Fixed<0, 4>>::in_storage(all).map(|_| ()).map_err(|e| e.option), Err("limit"));
}
