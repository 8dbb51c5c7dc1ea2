//! What a pod, a node and an event cost in memory, and what a pod costs on its way: `cargo bench -p
//! coracle-controller-core --bench memory`.
//!
//! Bytes that are alive are counted at the allocator, with the staged and the committed view as the controller has them.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod cluster;

use std::alloc::System;
use std::sync::Arc;

use cluster::Cluster;
use coracle_controller_core::object::{Object, Templates};
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
    // Words that nobody uses any more, so many that the scheduler begins anew.
    let words: serde_json::Map<String, Value> = (0..70_000).map(|word| (format!("word-{word}"), json!("v"))).collect();
    let odd = [Value::Object(words), json!({})]
        .map(|labels| changes(1, Kind::NODE, &|_| json!({"metadata": {"name": "odd", "labels": labels}})));
    let mut observe = |changes: &[Change]| changes.iter().for_each(|change| scheduler.observe(&view, change, now));
    show("scheduler alone: node", nodes, measure(|| observe(&joined)));
    show("scheduler alone: bound pod", pods, measure(|| observe(&placed)));
    odd.iter().for_each(|change| observe(change));
    let mut longest = 0;
    let anew = measure(|| {
        for _ in 0..300 {
            let start = cpu_ns();
            drop(scheduler.step(&view, now));
            longest = longest.max(cpu_ns() - start);
        }
    });
    show("scheduler alone: begins anew", 1, anew);
    println!("  the longest step of it {longest} ns of CPU");
}

/// What the pods of a cluster come to by the structures that hold them. What the sum lacks of the whole is what sessions
/// remember of having sent.
fn parts(cluster: &Cluster) {
    let view = cluster.view();
    let now = Now { wall_ms: 1_795_219_200_000, mono: Millis(0) };
    let texts: Vec<(u64, String)> = view.list(Kind::POD, None).map(|pod| (pod.revision, pod.body())).collect();
    let (mut templates, mut pods) = (Templates::default(), Vec::with_capacity(texts.len()));
    let objects = measure(|| {
        let read = |(revision, text): &(u64, String)| Object::from_json(Kind::POD, *revision, text, &mut templates);
        pods.extend(texts.iter().map(read).map(|pod| Arc::new(pod.expect("a pod"))));
    });
    show("  of it: objects", pods.len(), objects);
    let mut indexed = View::default();
    show("  of it: one of the two views", pods.len(), measure(|| indexed = View::new(1, pods.iter().cloned())));
    let mut scheduler = Scheduler::new(1);
    let mut observe = |kind: Kind| {
        for object in view.list(kind, None) {
            let change = Change { revision: 1, action: Action::Added, object: Arc::clone(object), previous: None };
            scheduler.observe(view, &change, now);
        }
    };
    observe(Kind::NODE);
    show("  of it: the scheduler", pods.len(), measure(|| observe(Kind::POD)));
}

/// Pods that nobody controls, as `bench fleet` makes them.
fn bare(nodes: usize, pods: usize) {
    let mut cluster = Cluster::new();
    cluster.join(nodes);
    let whole = measure(|| {
        cluster.create_pods(pods);
        let downs = cluster.settle();
        cluster.report_running(&downs);
        cluster.settle();
        drop(downs);
        cluster.forget_events();
    });
    assert_eq!(cluster.running(), pods);
    show("bare pod, running, events apart", pods, whole);
    parts(&cluster);
}

fn main() {
    scheduler(5_000, 50_000);
    bare(5_000, 50_000);
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
        parts(&cluster);
        show("lease", nodes, measure(|| cluster.renew_leases()));
        show("settling after leases", 1, measure(|| drop(cluster.settle())));
        show("settling once more", 1, measure(|| drop(cluster.settle())));
    }
}
