//! Real transfers over loopback, one per algorithm.

#[path = "../examples/transfer.rs"]
#[allow(dead_code, unreachable_pub, reason = "the example's main and fields")]
mod example;

#[tokio::test]
async fn every_algorithm_carries_a_transfer() {
    for name in ["cubic", "bbr", "dctcp", "reno"] {
        let bytes = 3_000_000;
        let outcome = example::transfer(example::factory(name).unwrap(), bytes).await.unwrap();
        assert_eq!(outcome.bytes, bytes, "{name}");
        assert!(outcome.window >= 2400, "{name}: {outcome:?}");
    }
    assert!(example::factory("vegas").is_none());
}
