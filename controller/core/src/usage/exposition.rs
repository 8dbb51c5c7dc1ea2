//! The kubelet's metrics, as Prometheus reads them: one table a path.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use coracle_model::{ContainerUsage, NodeUsage};

use super::Shown;
use crate::object::Object;

/// One metric of containers: name, type, help, value.
type Metric = (&'static str, &'static str, &'static str, fn(&ContainerUsage) -> Number);

/// A value: a count, or nanoseconds that are shown as seconds.
enum Number {
    Count(u64),
    Nanos(u64),
}

use Number::{Count, Nanos};

/// `/metrics/cadvisor`
const CADVISOR: &[Metric] = &[
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Processor time of the container's current run, in seconds.",
        |usage| Nanos(usage.cpu_ns),
    ),
    (
        "container_cpu_cfs_periods_total",
        "counter",
        "Periods of 100 ms in which the container wanted to run.",
        |usage| Count(usage.periods),
    ),
    (
        "container_cpu_cfs_throttled_periods_total",
        "counter",
        "Periods in which its limit held the container back.",
        |usage| Count(usage.throttled_periods),
    ),
    (
        "container_cpu_cfs_throttled_seconds_total",
        "counter",
        "How long its limit has held the container back, in seconds.",
        |usage| Nanos(usage.throttled_ns),
    ),
    (
        "container_memory_working_set_bytes",
        "gauge",
        "What counts against the container's memory limit, in bytes.",
        |usage| Count(usage.memory_bytes),
    ),
    (
        "container_memory_max_usage_bytes",
        "gauge",
        "The most that ever counted against the container's memory limit, in bytes.",
        |usage| Count(usage.memory_peak_bytes),
    ),
    (
        "container_fs_usage_bytes",
        "gauge",
        "What the pod's volumes on disk hold by the container's writing, in bytes.",
        |usage| Count(usage.storage_bytes),
    ),
    ("container_file_descriptors", "gauge", "Files, directories and sockets that the container has open.", |usage| {
        Count(u64::from(usage.descriptors))
    }),
];

/// `/metrics/resource`
const RESOURCE: &[Metric] = &[
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Processor time of the container's current run, in seconds.",
        |usage| Nanos(usage.cpu_ns),
    ),
    (
        "container_memory_working_set_bytes",
        "gauge",
        "What counts against the container's memory limit, in bytes.",
        |usage| Count(usage.memory_bytes),
    ),
];

/// `/metrics/cadvisor` of a node: counters of every container that runs.
#[must_use]
pub fn cadvisor<'a>(pods: impl Iterator<Item = &'a Object>, usage: &NodeUsage, now_wall_ms: u64) -> String {
    let rows = rows(pods, usage, true);
    let mut text = String::new();
    metrics(&mut text, CADVISOR, &rows);
    started(&mut text, &rows, usage, now_wall_ms);
    text
}

/// `/metrics/resource` of a node: what an autoscaler reads.
#[must_use]
pub fn resource<'a>(pods: impl Iterator<Item = &'a Object>, usage: &NodeUsage, now_wall_ms: u64) -> String {
    let rows = rows(pods, usage, false);
    let mut text = String::new();
    metrics(&mut text, RESOURCE, &rows);
    started(&mut text, &rows, usage, now_wall_ms);
    let node = [
        ("node_cpu_usage_seconds_total", "counter", "Processor time of the agent and its guests.", Nanos(usage.cpu_ns)),
        ("node_memory_working_set_bytes", "gauge", "Memory of the agent and its guests.", Count(usage.memory_bytes)),
        ("resource_scrape_error", "gauge", "1 when the node did not answer, 0 otherwise.", Count(0)),
    ];
    for (name, kind, help, number) in node {
        head(&mut text, name, kind, help);
        line(&mut text, name, "", &number);
    }
    text
}

/// The labels of every container that runs, and its counters.
fn rows<'a, 'u>(
    pods: impl Iterator<Item = &'a Object>,
    usage: &'u NodeUsage,
    with_image: bool,
) -> Vec<(String, &'u ContainerUsage)> {
    let found: BTreeMap<_, _> =
        usage.containers.iter().map(|container| ((container.uid, container.container.as_str()), container)).collect();
    let mut rows = Vec::new();
    for pod in pods.map(Shown::of) {
        for running in &pod.running {
            let Some(container) = found.get(&(pod.uid, running.name.as_str())) else { continue };
            let mut labels = vec![
                ("container", running.name.as_str()),
                ("namespace", pod.text("metadata", "namespace")),
                ("pod", pod.text("metadata", "name")),
            ];
            if with_image {
                labels.insert(1, ("image", running.image.as_str()));
            }
            let labels: Vec<String> =
                labels.into_iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            rows.push((format!("{{{}}}", labels.join(",")), *container));
        }
    }
    rows
}

fn metrics(text: &mut String, metrics: &[Metric], rows: &[(String, &ContainerUsage)]) {
    for (name, kind, help, value) in metrics {
        head(text, name, kind, help);
        for (labels, usage) in rows {
            line(text, name, labels, &value(usage));
        }
    }
}

fn started(text: &mut String, rows: &[(String, &ContainerUsage)], usage: &NodeUsage, now_wall_ms: u64) {
    let name = "container_start_time_seconds";
    head(text, name, "gauge", "When the container's current run began, in seconds since 1970.");
    for (labels, container) in rows {
        let began_ms = now_wall_ms.saturating_sub(usage.at.since(container.started_at));
        line(text, name, labels, &Nanos(began_ms.saturating_mul(1_000_000)));
    }
}

// Writing to a string does not fail.

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _: std::fmt::Result = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, number: &Number) {
    let _: std::fmt::Result = match number {
        Count(count) => writeln!(text, "{name}{labels} {count}"),
        Nanos(nanos) => writeln!(text, "{name}{labels} {}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000),
    };
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
