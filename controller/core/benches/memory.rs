//! What a pod, a node and an event cost in memory, and what a pod costs on its way: `cargo bench -p
//! coracle-controller-core --bench memory`.
//!
//! Bytes that are alive are counted at the allocator, with the staged and the committed view as the controller has them.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod cluster;

use std::alloc::System;

use cluster::Cluster;
use coracle_controller_core::Kind;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Does something, and gives the bytes that are alive because of it, the allocations, and the processor's time in
/// nanoseconds.
fn measure(act: impl FnOnce()) -> (isize, usize, u128) {
    let region = Region::new(ALLOCATOR);
    let start = cpu_ns();
    act();
    let took = cpu_ns() - start;
    let stats = region.change();
    let alive = stats.bytes_allocated.cast_signed() - stats.bytes_deallocated.cast_signed();
    (alive, stats.allocations + stats.reallocations, took)
}

/// Time that this thread has run, in nanoseconds: a busy machine does not count.
fn cpu_ns() -> u128 {
    let found = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    found.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

fn show(what: &str, count: usize, (alive, allocations, took): (isize, usize, u128)) {
    let divisor = count.max(1);
    println!(
        "{what:<34} {count:>6} x {:>8} B alive {:>7} allocations {:>9} ns of CPU",
        alive / divisor.cast_signed(),
        allocations / divisor,
        took / divisor as u128,
    );
}

fn main() {
    let nodes = 1_000;
    for pods in [1_000, 10_000] {
        let mut cluster = Cluster::new();
        show("node joins", nodes, measure(|| cluster.join(nodes)));
        let before = cluster.changes;
        let mut downs = Vec::new();
        let create = measure(|| {
            cluster.deploy("web", pods);
            downs = cluster.settle();
        });
        show("pod created, bound, dispatched", pods, create);
        let sent: isize = measure(|| drop(downs.clone())).0;
        assert_eq!(sent, 0);
        show("pod reported", pods, measure(|| cluster.report_running(&downs)));
        show("and settled", pods, measure(|| drop(cluster.settle())));
        drop(downs);
        assert_eq!(cluster.running(), pods);
        let count = |kind: Kind| cluster.view().list(kind, None).count();
        let bytes: usize = cluster.view().list(Kind::POD, None).map(|pod| pod.body().len()).sum();
        println!(
            "  durable writes a pod {:.2}; events {}; JSON of a pod {} B",
            (cluster.changes - before) as f64 / pods as f64,
            count(Kind::EVENT),
            bytes / pods
        );
        let events = count(Kind::EVENT);
        show("its events, forgotten", events, measure(|| cluster.forget_events()));
        show("lease", nodes, measure(|| cluster.renew_leases()));
        show("settling after leases", 1, measure(|| drop(cluster.settle())));
        show("settling once more", 1, measure(|| drop(cluster.settle())));
    }
}
