use super::super::config::Law;
use super::super::{Controller, MAX_PROBABILITY, UNSET};
use crate::{Host, time, time::ms};
use std::{format, vec::Vec};

const MP: u64 = MAX_PROBABILITY;

fn law() -> Law {
    Law::new(&Host::default())
}

fn show(c: &Controller) -> std::string::String {
    format!(
        "{} {} {} {} {} {} {} {}",
        c.delay, c.old_delay, c.burst, c.last_dequeue, c.probability, c.accumulated, c.cycle_bytes, c.drain_rate
    )
}

/// spec/vectors/pie.txt: the controller alone.
#[test]
fn vector_file() {
    let (mut law, mut controller, mut steps) = (law(), Controller::INITIAL, 0);
    for (number, line) in include_str!("../../../tests/vectors/pie.txt").lines().enumerate() {
        let (call, expected) = line.split_once(" => ").unwrap_or((line, ""));
        let mut words = call.split(' ');
        let kind = words.next().unwrap_or_default();
        if kind == "#" {
            continue;
        }
        let n: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        let (mut hit, mut draws) = (None, 0);
        match kind {
            "P" => {
                (law.target, law.alpha, law.beta) = (n[0], n[1] as u32, n[2] as u32);
                (law.bytemode, law.dq_rate_estimator) = (n[3] != 0, n[4] != 0);
                controller = Controller::INITIAL;
                continue;
            }
            "E" => {
                let draw = || {
                    draws += 1;
                    n[2]
                };
                hit = Some(controller.hits(&law, n[0] as u32, n[1] as u32, draw));
            }
            "A" => controller.accumulated = 0,
            "D" => controller.departed(&law, n[1], n[2] as u32, n[3] as u32, || time::psched_ticks(n[0])),
            "T" => controller.update(&law, n[0] as u32),
            other => panic!("line {}: unknown operation {other}", number + 1),
        }
        let hit = hit.map_or_else(Default::default, |hit| format!("{} {draws} ", u8::from(hit)));
        assert_eq!(format!("{hit}| {}", show(&controller)), expected, "line {}", number + 1);
        steps += 1;
    }
    assert_eq!(steps, 300 + 404 + 336);
}

/// spec/pie.md §9.1.
#[test]
fn probability_after_a_sequence_of_delays() {
    let rows: [(u64, u64); 17] = [
        (20, 901599218750),
        (20, 1253442890625),
        (30, 9345848281250),
        (40, 44530220156250),
        (40, 51567094375000),
        (40, 58603968593750),
        (60, 127565337500000),
        (80, 425928812656250),
        (80, 499112306562500),
        (80, 572295800468750),
        (100, 893177273750000),
        (100, 1275983241875000),
        (300, 13007860268883558),
        (300, 15890164030400674),
        (300, 18772467791917790),
        (100, 1523681221917790),
        (20, 0),
    ];
    let mut controller = Controller::INITIAL;
    for (row, (delay_ms, probability)) in rows.into_iter().enumerate() {
        controller.delay = time::psched_ticks(ms(delay_ms));
        controller.update(&law(), 100_000);
        assert_eq!(controller.probability, probability, "update {}", row + 1);
    }
}

/// spec/pie.md §9.1, constant delays: beyond the probability 1, to the wrap of 64 bits.
#[test]
fn probability_is_not_clamped_but_the_wrap_is_caught() {
    let constant = |delay_ms, expected: &[(u32, u64)]| {
        let mut controller = Controller::INITIAL;
        let mut checked = 0;
        for update in 1..=expected.last().map_or(0, |row| row.0) {
            controller.delay = time::psched_ticks(ms(delay_ms));
            controller.update(&law(), 100_000);
            if let Some((_, probability)) = expected.iter().find(|row| row.0 == update) {
                assert_eq!(controller.probability, *probability, "update {update}");
                checked += 1;
            }
        }
        assert_eq!(checked, expected.len());
    };
    constant(
        40,
        &[
            (1, 1869168906250),
            (2, 3628387265625),
            (3, 5387605625000),
            (5, 8906042343750),
            (10, 44090413437500),
            (20, 241122896250000),
            (50, 2098857741562500),
            (100, 8178717235312500),
            (200, 30696715360312500),
            (300, 53214713485312500),
            (400, 75732711610312500),
        ],
    );
    constant(
        300,
        &[
            (1, 1455599455602308),
            (2, 4180277229485866),
            (5, 12511936538770098),
            (10, 26923455346355678),
            (100, 286330793882896118),
            (6400, 18444844491440726918),
            (6401, MP),
        ],
    );
}

/// spec/pie.md §9.1, decay; case PI-07.
#[test]
fn decay_without_delay() {
    let mut controller = Controller { probability: MP / 100, ..Controller::INITIAL };
    for expected in [642818478097963, 616149823574460, 589897866777887, 564056096806260, 538618104490440] {
        controller.update(&law(), 0);
        assert_eq!(controller.probability, expected);
    }

    // 0.64: the controller's own step at delay 0, and then 63/64 of the rest.
    let start = MP / 100 * 64;
    let mut controller = Controller { probability: start, ..Controller::INITIAL };
    let step = ((2 * (MP / 15_625_000)) >> 4) * 234_375;
    controller.update(&law(), 0);
    let rest = start - step;
    assert_eq!(controller.probability, rest - rest / 64);
    // With a backlog the delay of 0 is not believed, but only the decay is left out.
    controller.update(&law(), 1);
    assert_eq!(controller.probability, rest - rest / 64 - step);
    for _ in 0..1_000 {
        controller.update(&law(), 0);
    }
    assert_eq!(controller.probability, 0, "never wraps below 0");
}

/// spec/pie.md §6, 12: what a restart keeps.
#[test]
fn restart_keeps_probability_and_delays() {
    let law = law();
    let worn =
        Controller { burst: 5, last_dequeue: 7, cycle_bytes: 9, drain_rate: 3, accumulated: 1, ..Controller::INITIAL };
    let mut controller = Controller { delay: law.target / 2 - 1, old_delay: law.target / 2 - 1, ..worn };
    controller.update(&law, 100_000);
    assert_eq!(
        controller,
        Controller { delay: law.target / 2 - 1, old_delay: law.target / 2 - 1, ..Controller::INITIAL }
    );
    let mut controller = Controller { delay: law.target / 2, old_delay: law.target / 2, ..worn };
    controller.update(&law, 100_000);
    assert_eq!((controller.burst, controller.probability), (5, 0), "half the target is not below it");
    // In estimator mode only with a measured rate.
    let estimator = Law { dq_rate_estimator: true, ..law };
    let mut controller = Controller { drain_rate: 0, ..worn };
    controller.update(&estimator, 0);
    assert_eq!(controller.burst, 5);
    let mut controller = worn;
    controller.update(&estimator, 0);
    assert_eq!(controller, Controller::INITIAL);
}

/// spec/pie.md §9.2.
#[test]
fn accumulated_probability() {
    let law = law();
    let ready = Controller { burst: 0, delay: 312_500, probability: MP / 50, ..Controller::INITIAL };
    let mut controller = ready;
    let (mut first_draw, mut first_hit) = (None, None);
    for packet in 1..=426 {
        let mut drew = false;
        let hit = controller.hits(&law, 100_000, 1514, || {
            drew = true;
            u64::MAX
        });
        if drew {
            first_draw.get_or_insert((packet, controller.accumulated));
        }
        if hit {
            first_hit.get_or_insert((packet, controller.accumulated));
        }
    }
    assert_eq!(first_draw, Some((43, 61969530872617994)));
    assert_eq!(first_hit, Some((426, 613930701203145708)), "the accumulator is not reset");

    let bytemode = Law { bytemode: true, ..law };
    for (size, added) in [(100, 95188367289200), (1514, 1441151880758488), (1515, 1441151880758558)] {
        let mut controller = ready;
        assert!(!controller.hits(&bytemode, 100_000, size, || panic!("no draw")));
        assert_eq!(controller.accumulated, added, "{size} bytes");
    }
    let mut controller = Controller { probability: 1513, accumulated: 7, ..ready };
    assert!(!controller.hits(&bytemode, 100_000, 1514, || panic!("no draw")));
    assert_eq!(controller.accumulated, 0, "a local probability of 0 clears the sum");
}

/// Case PI-03: the guards, the accumulator's two thresholds, and its reset.
#[test]
fn guards_and_accumulated_probability() {
    let law = law();
    let p = MP / 10 * 3;
    let ready = Controller { burst: 0, delay: 312_500, probability: p, ..Controller::INITIAL };
    let miss = || u64::MAX;
    let mut controller = ready;
    for packet in 1..=28 {
        let mut draws = 0;
        let hit = controller.hits(&law, 15_140, 1514, || {
            draws += 1;
            u64::MAX
        });
        assert_eq!((hit, draws), (false, u32::from(packet >= 3)), "packet {packet}");
    }
    assert!(controller.hits(&law, 15_140, 1514, || panic!("forced")), "packet 29: 8.7");
    let mut controller = Controller { accumulated: p * 2, ..ready };
    assert!(controller.hits(&law, 15_140, 1514, || (p - 1) << 8 | 0xff), "a draw just below");
    assert_eq!(controller.accumulated, 0);
    let mut controller = Controller { accumulated: p * 2, ..ready };
    assert!(!controller.hits(&law, 15_140, 1514, || p << 8), "a draw equal to p misses");
    // Each guard alone, at its edge.
    let guarded = |controller: Controller, backlog| {
        let mut tried = controller;
        assert!(!tried.hits(&law, backlog, 1514, miss));
        tried == controller
    };
    assert!(guarded(Controller { burst: 1, ..ready }, 15_140));
    let calm = Controller { delay: law.target / 2 - 1, probability: MP / 5 - 1, ..ready };
    assert!(guarded(calm, 15_140));
    assert!(!guarded(Controller { probability: MP / 5, ..calm }, 15_140));
    assert!(!guarded(Controller { delay: law.target / 2, ..calm }, 15_140));
    assert!(guarded(ready, 3027));
    assert!(!guarded(ready, 3028));
}

/// spec/pie.md §9.3.
#[test]
fn drain_rate_estimator() {
    let law = Law { dq_rate_estimator: true, ..law() };
    let mut controller = Controller::INITIAL;
    let mut now = ms(1_000);
    let mut rates = Vec::new();
    for dequeue in 1..=33 {
        now += 1_200_000;
        controller.departed(&law, 0, 1514, 30_000, || time::psched_ticks(now));
        if controller.cycle_bytes == 0 {
            rates.push((dequeue, controller.drain_rate, controller.burst));
        }
    }
    assert_eq!(rates[0], (11, 22, 2_156_250));
    assert_eq!(rates.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(11, 22), (22, 22), (33, 22)]);
    controller.update(&law, 30_000);
    assert_eq!(controller.delay, 349_090);
    assert_eq!(controller.drain_rate_bytes(), 22 * 15_625_000 / 256);
}

/// The clock is read once for the time of departure, and again when a cycle starts.
#[test]
fn estimator_reads_the_clock_afresh() {
    let law = Law { dq_rate_estimator: true, ..law() };
    let mut controller = Controller::INITIAL;
    let mut reads = 0;
    let mut depart = |controller: &mut Controller, backlog| {
        reads = 0;
        controller.departed(&law, 0, 9000, backlog, || {
            reads += 1;
            1_000 + 10 * reads
        });
        reads
    };
    assert_eq!(depart(&mut controller, 16_383), 1, "too short to measure");
    assert_eq!(controller.cycle_bytes, UNSET);
    assert_eq!((depart(&mut controller, 16_384), controller.last_dequeue), (2, 1_020));
    // 1010 − 1020 wraps; the rate of the cycle is 0 and the burst allowance gone.
    assert_eq!((depart(&mut controller, 16_384), controller.last_dequeue), (2, 1_020));
    assert_eq!((controller.cycle_bytes, controller.drain_rate, controller.burst), (0, 0, 0));
    controller.last_dequeue = 1_009;
    assert_eq!(depart(&mut controller, 100), 1);
    assert_eq!(depart(&mut controller, 100), 1);
    assert_eq!((controller.cycle_bytes, controller.drain_rate), (UNSET, 18_000 << 8));
    // A cycle of no duration goes on.
    controller = Controller { cycle_bytes: 16_384, last_dequeue: 1_010, ..controller };
    assert_eq!((depart(&mut controller, 100), controller.cycle_bytes), (1, 25_384));
}
