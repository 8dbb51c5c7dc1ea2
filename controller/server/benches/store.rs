//! Durable writes: `cargo bench -p coracle-controller --bench store`. Elements are object writes, every batch is synced to
//! the disk that holds the target directory.

use std::sync::Arc;

use coracle_controller::store::EmbeddedStore;
use coracle_controller_core::object::{Object, Templates};
use coracle_controller_core::store::{Action, Store as _};
use coracle_controller_core::{Change, Kind};
use coracle_model::PodUid;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

/// Pods that the store holds; batches write some of them anew.
const PODS: u64 = 10_000;

/// A pod as it is once it runs: about 2 KB.
fn pod(number: u64) -> Value {
    let uid = PodUid(u128::from(number) << 64 | 7).to_string();
    let stamp = "2026-11-21T03:40:30Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": stamp});
    let toleration =
        |key: &str| json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-5d4f5c6b7-{:05x}", number.wrapping_mul(2_654_435_769) & 0xf_ffff), "namespace": "default",
            "uid": uid, "creationTimestamp": stamp, "generateName": "web-5d4f5c6b7-", "generation": 1,
            "labels": {"app": "web", "pod-template-hash": "5d4f5c6b7"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f5c6b7", "controller": true,
                "blockOwnerDeletion": true, "uid": "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11",
            }],
        },
        "spec": {
            "containers": [{
                "name": "main", "image": "samples/hello:1", "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                "env": [{"name": "GREETING", "value": "hello"}],
                "resources": {"limits": {"memory": "16Mi"}, "requests": {"cpu": "10m", "memory": "8Mi"}},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "nodeName": format!("node-{:05}", number % 1000), "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority", "priority": 0, "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "tolerations": (["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(toleration)),
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": stamp,
            "conditions": (["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"].map(condition)),
            "containerStatuses": [{
                "name": "main", "containerID": format!("coracle://{uid}/main/1.1"), "image": "samples/hello:1",
                "imageID": format!("sha256:{}", "5a".repeat(32)), "lastState": {}, "ready": true, "restartCount": 0,
                "started": true, "state": {"running": {"startedAt": stamp}},
            }],
        },
    })
}

fn batch(revision: u64, size: u64, templates: &mut Templates) -> Vec<Change> {
    let write = |number: u64| {
        let at = revision + number + 1;
        let object = Object::new(Kind::POD, at, &pod(at % PODS), templates).expect("a pod");
        Change { revision: at, action: Action::Modified, object: Arc::new(object), previous: None }
    };
    (0..size).map(write).collect()
}

fn commits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("commit");
    for size in [1, 256, 1024, 4096] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut store = EmbeddedStore::open(&folder.path().join("store.redb")).expect("a store");
        store.load().expect("an empty store");
        let mut templates = Templates::default();
        store.commit(&batch(0, PODS, &mut templates)).expect("a commit");
        let mut revision = PODS;
        group.sample_size(10).throughput(Throughput::Elements(size));
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_batched(
                || {
                    let changes = batch(revision, size, &mut templates);
                    revision += size;
                    changes
                },
                |changes| store.commit(&changes).expect("a commit"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, commits);
criterion_main!(benches);
