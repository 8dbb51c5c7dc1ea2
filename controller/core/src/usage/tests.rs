//! Samples in, what Kubernetes' clients read out.

use std::sync::Arc;

use coracle_model::{ContainerUsage, Millis, NodeUsage};
use serde_json::json;

use super::*;
use crate::Kind;

const POD: u128 = 0x0123_4567_89ab_4cde_8f01_2345_6789_abcd;
const NOW: u64 = 1_795_232_430_000;

fn used(started_at: u64, cpu_ms: u64) -> ContainerUsage {
    ContainerUsage {
        uid: PodUid(POD),
        container: "c".to_owned(),
        started_at: Millis(started_at),
        cpu_ns: cpu_ms * 1_000_000,
        periods: 40,
        throttled_periods: 7,
        throttled_ns: 1_500_000_000,
        memory_bytes: 2048,
        memory_peak_bytes: 4096,
        storage_bytes: 512,
        descriptors: 3,
        log_bytes: 99,
    }
}

/// The agent's clock, its processor time and its containers.
fn sample(at: u64, cpu_ms: u64, containers: Vec<ContainerUsage>) -> NodeUsage {
    NodeUsage { at: Millis(at), cpu_ns: cpu_ms * 1_000_000, memory_bytes: 5_000_001, containers }
}

fn pod() -> Arc<Object> {
    let status = |name: &str, state: &str| json!({"name": name, "image": "a\"b:1", "state": {state: {}}});
    let value = json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": PodUid(POD).to_string(), "labels": {"app": "web"},
            "creationTimestamp": "2026-11-21T03:00:00Z",
        },
        "spec": {"nodeName": "n"},
        "status": {
            "startTime": "2026-11-21T03:00:01Z",
            "containerStatuses": [status("c", "running"), status("done", "terminated")],
        },
    });
    Arc::new(Object::from_value(Kind::POD, 1, value).expect("a pod"))
}

fn node() -> Arc<Object> {
    let uid = PodUid(1).to_string();
    let value = json!({"metadata": {"name": "n", "uid": uid, "labels": {"zone": "a"}}});
    Arc::new(Object::from_value(Kind::NODE, 1, value).expect("a node"))
}

fn measured() -> Measured {
    let mut samples = Samples::default();
    assert_eq!(samples.take("n", sample(10_000, 100, vec![used(9_000, 50)])), None);
    // The moment of its start wavers a little, and it is the same run.
    samples.take("n", sample(12_500, 1_100, vec![used(9_001, 800)])).expect("two samples")
}

// API-01
#[test]
fn a_rate_is_what_was_used_between_two_samples() {
    let measured = measured();
    assert_eq!((measured.window_ms, measured.nano_cores), (2_500, 400_000_000));
    let rate = measured.container(PodUid(POD), "c").expect("measured");
    assert_eq!((rate.window_ms, rate.nano_cores, rate.usage.log_bytes), (2_500, 300_000_000, 99));
    assert_eq!(measured.container(PodUid(POD), "other"), None);
    assert_eq!(measured.container(PodUid(1), "c"), None);
}

#[test]
fn a_run_that_began_between_the_samples_is_measured_since_then() {
    let mut samples = Samples::default();
    let _first = samples.take("n", sample(10_000, 100, vec![used(9_000, 50)]));
    let measured = samples.take("n", sample(12_000, 900, vec![used(11_000, 20)])).expect("two samples");
    let rate = measured.container(PodUid(POD), "c").expect("measured");
    assert_eq!((rate.window_ms, rate.nano_cores), (1_000, 20_000_000));
    let measured = samples.take("n", sample(14_000, 900, vec![used(14_000, 0)])).expect("two samples");
    assert_eq!(measured.container(PodUid(POD), "c"), None, "it began this very moment");
}

#[test]
fn samples_are_compared_that_are_neither_too_near_nor_too_far() {
    let mut samples = Samples::default();
    let mut window = |at, cpu_ms| samples.take("n", sample(at, cpu_ms, Vec::new())).map(|measured| measured.window_ms);
    for (at, cpu_ms, expected, why) in [
        (10_000, 1, None, "the first"),
        (10_100, 1, None, "too near"),
        (11_000, 2, Some(1_000), "the first is far enough away"),
        (11_200, 2, Some(1_200), "the newest is too near, and the one before is there"),
        (12_000, 3, Some(1_000), "the newest"),
        (72_001, 4, None, "a minute ago"),
        (73_001, 5, Some(1_000), "again"),
        (74_001, 4, None, "an agent that has started anew and is quicker"),
        (2_000, 1, None, "an agent that has started anew"),
        (3_000, 2, Some(1_000), "and goes on"),
    ] {
        assert_eq!(window(at, cpu_ms), expected, "{why}");
    }
    assert_eq!(samples.take("other", sample(4_000, 2, Vec::new())), None, "another node");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut samples = Samples::default();
    let many = |seed: u128| {
        (0..MAX_HALF).map(|number| ContainerUsage { uid: PodUid(seed + number as u128), ..used(0, 0) }).collect()
    };
    const MAX_HALF: usize = rates::MAX_CONTAINERS / 2 - 10;
    for node in ["a", "b", "c"] {
        assert_eq!(samples.take(node, sample(1_000, 1, many(1))), None);
    }
    assert_eq!(samples.take("a", sample(2_000, 1, Vec::new())), None, "the first to be asked has gone");
    assert!(samples.take("c", sample(2_000, 1, Vec::new())).is_some());
}

// API-01
#[test]
fn metrics_are_what_kubectl_top_reads() {
    let measured = measured();
    assert_eq!(
        metrics::node(&node(), &measured, NOW),
        json!({
            "kind": "NodeMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "n", "labels": {"zone": "a"}, "creationTimestamp": "2026-11-21T03:40:30Z"},
            "timestamp": "2026-11-21T03:40:30Z", "window": "2.5s", "usage": {"cpu": "400000000n", "memory": "5000001"},
        })
    );
    assert_eq!(
        metrics::pod(&pod(), &measured, NOW),
        Some(json!({
            "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {
                "name": "web", "namespace": "default", "labels": {"app": "web"},
                "creationTimestamp": "2026-11-21T03:40:30Z",
            },
            "timestamp": "2026-11-21T03:40:30Z", "window": "2.5s",
            "containers": [{"name": "c", "usage": {"cpu": "300000000n", "memory": "2Ki"}}],
        }))
    );
    let list = metrics::list("PodMetrics", vec![json!({})]);
    assert_eq!((&list["kind"], &list["items"]), (&json!("PodMetricsList"), &json!([{}])));
}

#[test]
fn a_pod_of_which_a_container_was_not_measured_is_left_out() {
    let mut samples = Samples::default();
    let _first = samples.take("n", sample(10_000, 100, Vec::new()));
    let measured = samples.take("n", sample(11_000, 100, Vec::new())).expect("two samples");
    assert_eq!(metrics::pod(&pod(), &measured, NOW), None);
    let summary = summary::summary("n", std::iter::once(&*pod()), &measured, NOW);
    assert_eq!(summary["pods"], json!([]));
}

#[test]
fn the_summary_is_the_kubelets() {
    let summary = summary::summary("n", std::iter::once(&*pod()), &measured(), NOW);
    let time = "2026-11-21T03:40:30Z";
    assert_eq!(summary["node"]["startTime"], "2026-11-21T03:40:17Z");
    let cpu = json!({"time": time, "usageNanoCores": 400_000_000, "usageCoreNanoSeconds": 1_100_000_000});
    assert_eq!(summary["node"]["cpu"], cpu);
    let cpu = json!({"time": time, "usageNanoCores": 300_000_000, "usageCoreNanoSeconds": 800_000_000});
    let memory = json!({"time": time, "usageBytes": 2048, "workingSetBytes": 2048});
    assert_eq!(
        summary["pods"],
        json!([{
            "podRef": {"name": "web", "namespace": "default", "uid": PodUid(POD).to_string()},
            "startTime": "2026-11-21T03:00:01Z", "cpu": cpu, "memory": memory,
            "ephemeral-storage": {"time": time, "usedBytes": 512},
            "containers": [{
                "name": "c", "startTime": "2026-11-21T03:40:26Z", "cpu": cpu, "memory": memory,
                "logs": {"time": time, "usedBytes": 99},
            }],
        }])
    );
}

#[test]
fn prometheus_reads_counters_of_what_runs() {
    let usage = sample(12_500, 1_100, vec![used(9_000, 800)]);
    let text = exposition::cadvisor(std::iter::once(&*pod()), &usage, NOW);
    let labels = r#"{container="c",image="a\"b:1",namespace="default",pod="web"}"#;
    for (name, value) in [
        ("container_cpu_usage_seconds_total", "0.800000000"),
        ("container_cpu_cfs_periods_total", "40"),
        ("container_cpu_cfs_throttled_periods_total", "7"),
        ("container_cpu_cfs_throttled_seconds_total", "1.500000000"),
        ("container_memory_working_set_bytes", "2048"),
        ("container_memory_max_usage_bytes", "4096"),
        ("container_fs_usage_bytes", "512"),
        ("container_file_descriptors", "3"),
        ("container_start_time_seconds", "1795232426.500000000"),
    ] {
        let line = format!("{name}{labels} {value}");
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
    let text = exposition::resource(std::iter::once(&*pod()), &usage, NOW);
    for line in [
        r#"container_cpu_usage_seconds_total{container="c",namespace="default",pod="web"} 0.800000000"#,
        "node_cpu_usage_seconds_total 1.100000000",
        "node_memory_working_set_bytes 5000001",
        "resource_scrape_error 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
    let nothing = exposition::cadvisor(std::iter::empty(), &usage, NOW);
    assert!(nothing.lines().all(|line| line.starts_with('#')), "{nothing}");
}
