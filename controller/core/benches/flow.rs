//! What a pod costs the core, by stage: `cargo bench -p coracle-controller-core --bench flow`.

mod cluster;

use cluster::Cluster;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const NODES: usize = 1_000;
const PODS: usize = 1_000;

/// Elements are pods: a deployment of a thousand pods on a thousand nodes.
fn pods(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pod");
    group.sample_size(10).throughput(Throughput::Elements(PODS as u64));
    group.bench_function("created, bound and dispatched", |bencher| {
        bencher.iter_batched_ref(
            || Cluster::of(NODES),
            |cluster| {
                cluster.deploy("web", PODS);
                cluster.settle()
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("reported Running", |bencher| {
        let deployed = || {
            let mut cluster = Cluster::of(NODES);
            cluster.deploy("web", PODS);
            let downs = cluster.settle();
            (cluster, downs)
        };
        bencher.iter_batched_ref(
            deployed,
            |(cluster, downs)| {
                cluster.report_running(downs);
                cluster.settle()
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Elements are nodes: every one renews its lease once.
fn leases(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lease");
    group.throughput(Throughput::Elements(5_000));
    let mut cluster = Cluster::of(5_000);
    group.bench_function("renewed by 5,000 nodes", |bencher| {
        bencher.iter(|| {
            cluster.renew_leases();
            cluster.settle()
        });
    });
    group.finish();
}

criterion_group!(benches, pods, leases);
criterion_main!(benches);
