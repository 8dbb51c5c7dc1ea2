//! metrics.k8s.io/v1beta1: `NodeMetrics` and `PodMetrics`.

use serde_json::{Map, Value, json};

use super::Shown;
use super::rates::Measured;
use crate::clock::stamp;
use crate::object::Object;

/// `apiVersion`
pub const API_VERSION: &str = "metrics.k8s.io/v1beta1";

/// `NodeMetrics`: what the agent and everything in it use.
#[must_use]
pub fn node(node: &Object, measured: &Measured, now_wall_ms: u64) -> Value {
    json!({
        "kind": "NodeMetrics", "apiVersion": API_VERSION, "metadata": metadata(&node.value(), now_wall_ms),
        "timestamp": stamp(now_wall_ms), "window": window(measured.window_ms),
        "usage": usage(measured.nano_cores, measured.usage.memory_bytes),
    })
}

/// `PodMetrics`; `None` when not every container that runs was measured, or none runs.
#[must_use]
pub fn pod(pod: &Object, measured: &Measured, now_wall_ms: u64) -> Option<Value> {
    let shown = Shown::of(pod);
    let mut window_ms = measured.window_ms;
    let mut containers = Vec::new();
    for running in &shown.running {
        let rate = measured.container(shown.uid, &running.name)?;
        window_ms = window_ms.min(rate.window_ms);
        containers.push(json!({"name": running.name, "usage": usage(rate.nano_cores, rate.usage.memory_bytes)}));
    }
    (!containers.is_empty()).then(|| {
        json!({
            "kind": "PodMetrics", "apiVersion": API_VERSION, "metadata": metadata(&shown.value, now_wall_ms),
            "timestamp": stamp(now_wall_ms), "window": window(window_ms), "containers": containers,
        })
    })
}

/// `NodeMetricsList` or `PodMetricsList`; `kind` is that of an item.
#[must_use]
pub fn list(kind: &str, items: Vec<Value>) -> Value {
    json!({"kind": format!("{kind}List"), "apiVersion": API_VERSION, "metadata": {}, "items": items})
}

fn metadata(value: &Value, now_wall_ms: u64) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "labels"] {
        let found = &value["metadata"][field];
        if !found.is_null() {
            metadata.insert(field.to_owned(), found.clone());
        }
    }
    metadata.insert("creationTimestamp".to_owned(), stamp(now_wall_ms).into());
    Value::Object(metadata)
}

fn usage(nano_cores: u64, memory_bytes: u64) -> Value {
    let memory = if memory_bytes.is_multiple_of(1024) && memory_bytes > 0 {
        format!("{}Ki", memory_bytes / 1024)
    } else {
        memory_bytes.to_string()
    };
    json!({"cpu": if nano_cores == 0 { "0".to_owned() } else { format!("{nano_cores}n") }, "memory": memory})
}

/// As Go writes a duration.
fn window(window_ms: u64) -> String {
    let (minutes, seconds, millis) = (window_ms / 60_000, window_ms / 1000 % 60, window_ms % 1000);
    let fraction = format!("{millis:03}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    if minutes == 0 { format!("{seconds}{point}{fraction}s") } else { format!("{minutes}m{seconds}{point}{fraction}s") }
}
