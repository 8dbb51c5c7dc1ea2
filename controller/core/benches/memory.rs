//! What a pod, a node and an event cost in memory, and what a pod costs on its way: `cargo bench -p
//! coracle-controller-core --bench memory`.
//!
//! Bytes that are alive are counted at the allocator, with the staged and the committed view as the controller has them.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod cluster;

use std::alloc::System;
use std::sync::Arc;

use cluster::Cluster;
use coracle_controller_core::object::Object;
use coracle_controller_core::schedule::Scheduler;
use coracle_controller_core::store::{Action, Change};
use coracle_controller_core::{Kind, Now, View};
use coracle_model::{Millis, PodUid};
use serde_json::{Value, json};
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

/// What the scheduler keeps of its own, beside the objects.
fn scheduler(nodes: usize, pods: usize) {
    let now = Now { wall_ms: 1_795_219_200_000, mono: Millis(0) };
    let (mut view, mut scheduler) = (View::default(), Scheduler::new(1));
    let mut changes = |count: usize, kind: Kind, value: &dyn Fn(usize) -> Value| -> Vec<Change> {
        let change = |number| {
            let revision = view.revision() + 1;
            let mut value = value(number);
            value["metadata"]["uid"] = json!(PodUid(u128::from(revision)).to_string());
            let object = Arc::new(Object::from_value(kind, revision, value).expect("an object"));
            let change = Change { revision, action: Action::Added, object, previous: None };
            view.apply(&change);
            change
        };
        (0..count).map(change).collect()
    };
    let joined = changes(nodes, Kind::NODE, &|number| {
        let name = format!("node-{number}");
        let labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": format!("zone-{}", number % 10), "topology.kubernetes.io/region": "one"});
        let amounts = json!({"cpu": "4", "memory": "8Gi", "ephemeral-storage": "32Gi", "pods": "110"});
        json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}})
    });
    let placed = changes(pods, Kind::POD, &|number| {
        let requests = json!({"cpu": "10m", "memory": "16Mi"});
        let containers = json!([{"name": "c", "image": "i:1", "resources": {"requests": requests}}]);
        let labels = json!({"app": format!("app-{}", number % 100)});
        let spec = json!({"nodeName": format!("node-{}", number % nodes), "containers": containers, "priority": 0});
        let metadata = json!({"name": format!("pod-{number}"), "namespace": "default", "labels": labels});
        json!({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    });
    let mut observe = |changes: &[Change]| changes.iter().for_each(|change| scheduler.observe(&view, change, now));
    show("scheduler alone: node", nodes, measure(|| observe(&joined)));
    show("scheduler alone: bound pod", pods, measure(|| observe(&placed)));
}

fn main() {
    scheduler(5_000, 50_000);
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
