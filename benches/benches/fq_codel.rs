//! What one enqueue and dequeue of codel and fq_codel cost: `cargo bench --bench fq_codel`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use debloat_aqm::{Context, Descriptor, Qdisc, codel, fq_codel};
use std::hint::black_box;

fn pair<Q: Qdisc<Descriptor>>(queue: &mut Q, depth: u32, flows: u32, ns: u64) -> impl FnMut() + '_ {
    let mut cx = Context::at(3_600_000_000_000).on_drop(|packet: Descriptor, _| {
        black_box(packet);
    });
    let hash = move |n: u32| (n % flows).wrapping_mul(0x9e37_79b9);
    for n in 0..depth.saturating_sub(1) {
        let _ = queue.enqueue(Descriptor::new(1000).with_flow_hash(hash(n)), &mut cx);
    }
    let mut n = 0u32;
    move || {
        n = n.wrapping_add(1);
        cx.advance_ns(ns);
        let verdict = queue.enqueue(Descriptor::new(1000).with_flow_hash(hash(n)).with_ds_field(2), &mut cx);
        black_box((verdict, queue.dequeue(&mut cx)));
    }
}

fn pairs(c: &mut Criterion) {
    let mut group = c.benchmark_group("fq_codel pair");
    for depth in [1, 100, 10_000] {
        for flows in [1, 32, 1024] {
            let mut queue = fq_codel::FqCodel::new(fq_codel::Config::default()).unwrap();
            let id = BenchmarkId::new(format!("depth {depth}"), format!("{flows} flows"));
            let mut run = pair(&mut queue, depth, flows, 10);
            group.bench_function(id, |b| b.iter(&mut run));
        }
    }
    group.finish();
    let queue: fq_codel::FqCodel<Descriptor> = fq_codel::FqCodel::new(fq_codel::Config::default()).unwrap();
    println!("fq_codel: {} bytes for 1024 flows without packets", queue.memory_bytes());
    let mut group = c.benchmark_group("codel pair");
    for depth in [1, 100] {
        let mut queue = codel::Codel::new(codel::Config::default()).unwrap();
        let mut run = pair(&mut queue, depth, 1, 10);
        group.bench_function(BenchmarkId::from_parameter(format!("depth {depth}")), |b| b.iter(&mut run));
    }
    group.finish();
}

/// Delay above target all the time: drops without ECN, marks with it.
fn overload(c: &mut Criterion) {
    let mut group = c.benchmark_group("fq_codel overloaded");
    for ecn in [false, true] {
        let config = fq_codel::Config { ecn: Some(ecn), ..fq_codel::Config::default() };
        let mut queue = fq_codel::FqCodel::new(config).unwrap();
        let mut run = pair(&mut queue, 1000, 32, 1_000_000);
        group.bench_function(if ecn { "marks" } else { "drops" }, |b| b.iter(&mut run));
    }
    group.finish();
}

criterion_group!(benches, pairs, overload);
criterion_main!(benches);
