use super::*;
use crate::clock::Hz;

fn conn() -> Conn {
    let mut c = Conn::new(1448, Hz::H250, 0);
    c.min_rtt.reset(0, 10_000);
    c.app_lim = 0;
    c
}

#[test]
fn sample_over_one_round_trip() {
    let mut c = conn();
    c.set_now(1_000_000_000);
    let mut a = Snapshot::on_sent(&mut c, 1_000_000);
    c.unacked = 1;
    let mut b = Snapshot::on_sent(&mut c, 1_002_000);
    c.unacked = 2;
    c.set_now(1_042_000_000);
    let mut rs = RateSample { prior_in_flight: 2, ..RateSample::default() };
    rs.on_delivered(&mut c, &mut a, 100, false);
    rs.on_delivered(&mut c, &mut b, 200, true);
    c.delivered += 2;
    rs.generate(&mut c, 2, 0, false);
    assert_eq!((rs.delivered, rs.interval_us, rs.send_us, rs.ack_us), (2, 42_000, 2000, 42_000));
    assert!(rs.is_retrans && !rs.is_app_limited);
    assert_eq!((c.delivered_us, c.first_us), (1_042_000, 1_002_000));
    assert_eq!(delivery_rate(&c), 2 * 1448 * 1_000_000 / 42_000);
    // Consumed: a second delivery contributes nothing.
    let mut again = RateSample::default();
    again.on_delivered(&mut c, &mut a, 100, false);
    again.generate(&mut c, 0, 0, false);
    assert_eq!((again.delivered, again.interval_us), (-1, -1));
}

#[test]
fn unusable_samples_are_marked_not_zeroed() {
    // BB-04: no contributor, reneging, interval below the minimum RTT.
    let mut c = conn();
    let mut s = Snapshot { xmit_us: 5, first_us: 5, delivered_us: 5, ..Snapshot::default() };
    c.set_now(9_000_000);
    let mut rs = RateSample::default();
    rs.on_delivered(&mut c, &mut s, 1, false);
    c.delivered += 1;
    rs.generate(&mut c, 1, 0, false);
    assert_eq!((rs.delivered, rs.interval_us), (2, -1));
    assert_eq!(c.saved_interval, 0);
    let mut rs = RateSample { prior_us: 5, ..RateSample::default() };
    rs.generate(&mut c, 1, 3, true);
    assert_eq!((rs.delivered, rs.interval_us, rs.losses), (-1, -1, 3));
}

#[test]
fn the_latest_sent_segment_drives_the_sample() {
    // BB-21: packet 5 sent application-limited, packet 6 not.
    let mut c = conn();
    c.delivered = 10;
    let mut five = Snapshot {
        xmit_us: 100,
        first_us: 90,
        delivered_us: 80,
        delivered: 6,
        app_limited: true,
        ..Snapshot::default()
    };
    let mut six = Snapshot { xmit_us: 200, first_us: 100, delivered_us: 80, delivered: 1, ..Snapshot::default() };
    c.app_lim = 50;
    c.set_now(50_000_000);
    let mut rs = RateSample::default();
    rs.on_delivered(&mut c, &mut five, 5, false);
    rs.on_delivered(&mut c, &mut six, 6, false);
    rs.generate(&mut c, 2, 0, false);
    assert!(!rs.is_app_limited);
    assert_eq!(rs.delivered, 9);
}

#[test]
fn application_limit_clears_when_passed() {
    let mut c = conn();
    (c.unacked, c.delivered) = (4, 20);
    mark_app_limited(&mut c);
    assert_eq!(c.app_lim, 24);
    let mut rs = RateSample::default();
    c.delivered = 24;
    rs.generate(&mut c, 4, 0, false);
    assert_eq!(c.app_lim, 24);
    c.delivered = 25;
    rs.generate(&mut c, 1, 0, false);
    assert_eq!(c.app_lim, 0);
    // Not while lost packets wait, nor with a full window.
    (c.lost, c.retrans) = (2, 1);
    mark_app_limited(&mut c);
    assert_eq!(c.app_lim, 0);
    (c.lost, c.unacked) = (0, 30);
    mark_app_limited(&mut c);
    assert_eq!(c.app_lim, 0);
    // The all-ones mark of a new connection clears at the first sample.
    c.app_lim = u32::MAX;
    rs.generate(&mut c, 1, 0, false);
    assert_eq!(c.app_lim, 0);
}
