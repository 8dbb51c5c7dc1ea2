//! The kubelet's `stats/summary`, as far as a node of ours has something to say.

use coracle_model::{ContainerUsage, Millis};
use serde_json::{Value, json};

use super::Shown;
use super::rates::{ContainerRate, Measured};
use crate::clock::stamp;
use crate::object::Object;

/// `Summary` of a node and the pods on it.
#[must_use]
pub fn summary<'a>(node: &str, pods: impl Iterator<Item = &'a Object>, measured: &Measured, now_wall_ms: u64) -> Value {
    let moment = Moment { at: measured.usage.at, wall_ms: now_wall_ms };
    let time = stamp(now_wall_ms);
    let pods: Vec<Value> = pods.filter_map(|pod| of_pod(&Shown::of(pod), measured, moment)).collect();
    json!({
        "node": {
            "nodeName": node, "startTime": moment.stamp_of(Millis::ZERO),
            "cpu": {
                "time": time, "usageNanoCores": measured.nano_cores, "usageCoreNanoSeconds": measured.usage.cpu_ns,
            },
            "memory": {
                "time": time, "usageBytes": measured.usage.memory_bytes,
                "workingSetBytes": measured.usage.memory_bytes, "rssBytes": measured.usage.memory_bytes,
            },
        },
        "pods": pods,
    })
}

/// When the sample was taken, on both clocks.
#[derive(Clone, Copy)]
struct Moment {
    at: Millis,
    wall_ms: u64,
}

impl Moment {
    /// A moment on the agent's clock as the wall shows it here.
    fn stamp_of(self, then: Millis) -> String {
        stamp(self.wall_ms.saturating_sub(self.at.since(then)))
    }
}

fn of_pod(pod: &Shown, measured: &Measured, moment: Moment) -> Option<Value> {
    let rates: Vec<ContainerRate<'_>> =
        pod.running.iter().filter_map(|running| measured.container(pod.uid, &running.name)).collect();
    if rates.is_empty() {
        return None;
    }
    let time = stamp(moment.wall_ms);
    let sum =
        |of: &dyn Fn(&ContainerUsage) -> u64| rates.iter().map(|rate| of(rate.usage)).fold(0, u64::saturating_add);
    let nano_cores = rates.iter().map(|rate| rate.nano_cores).fold(0, u64::saturating_add);
    let memory_bytes = sum(&|usage| usage.memory_bytes);
    // A pod's volumes are one, whichever of its containers writes.
    let storage_bytes = rates.iter().map(|rate| rate.usage.storage_bytes).max().unwrap_or_default();
    let containers: Vec<Value> = rates.iter().map(|rate| of_container(rate, moment)).collect();
    Some(json!({
        "podRef": {
            "name": pod.text("metadata", "name"), "namespace": pod.text("metadata", "namespace"),
            "uid": pod.uid.to_string(),
        },
        "startTime": pod.text("status", "startTime"),
        "containers": containers,
        "cpu": {"time": time, "usageNanoCores": nano_cores, "usageCoreNanoSeconds": sum(&|usage| usage.cpu_ns)},
        "memory": {"time": time, "usageBytes": memory_bytes, "workingSetBytes": memory_bytes},
        "ephemeral-storage": {"time": time, "usedBytes": storage_bytes},
    }))
}

fn of_container(rate: &ContainerRate<'_>, moment: Moment) -> Value {
    let (usage, time) = (rate.usage, stamp(moment.wall_ms));
    json!({
        "name": usage.container, "startTime": moment.stamp_of(usage.started_at),
        "cpu": {"time": time, "usageNanoCores": rate.nano_cores, "usageCoreNanoSeconds": usage.cpu_ns},
        "memory": {"time": time, "usageBytes": usage.memory_bytes, "workingSetBytes": usage.memory_bytes},
        "logs": {"time": time, "usedBytes": usage.log_bytes},
    })
}
