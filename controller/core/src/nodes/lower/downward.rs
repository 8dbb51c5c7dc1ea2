//! The downward API: fields of the pod, and resources of its containers, as text.

use coracle_model::ResourceAmounts;
use serde_json::Value;

use super::{Scene, amounts};
use crate::kind::Kind;
use crate::object::Key;
use crate::rows::{cpu_millis, units};

/// A `fieldRef`; `None` for a field that is not shown, which admission has excluded.
pub(super) fn field(scene: Scene<'_>, path: &str) -> Option<String> {
    let (pod, annotations) = (scene.pod, &scene.metadata.annotations);
    let text = |found: &Value| found.as_str().unwrap_or_default().to_owned();
    if let Some((field, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return match field {
            "metadata.labels" => Some(pod.labels.get(key).map(ToString::to_string).unwrap_or_default()),
            "metadata.annotations" => Some(text(&annotations[key])),
            _ => None,
        };
    }
    Some(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid.to_string(),
        "metadata.labels" => map(pod.labels.iter().map(|(key, value)| (&**key, &**value))),
        "metadata.annotations" => {
            let all = annotations.as_object().into_iter().flatten();
            map(all.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())))
        }
        "spec.nodeName" => scene.node().to_owned(),
        "spec.serviceAccountName" => scene.spec["serviceAccountName"].as_str().unwrap_or("default").to_owned(),
        "status.hostIP" => text(&pod.status()["hostIP"]),
        "status.hostIPs" => addresses(&pod.status(), "hostIP"),
        "status.podIP" => text(&pod.status()["podIP"]),
        "status.podIPs" => addresses(&pod.status(), "podIP"),
        _ => return None,
    })
}

/// Addresses of every family, with commas; the one address where there is no list.
fn addresses(status: &Value, one: &str) -> String {
    let list = status[format!("{one}s")].as_array().into_iter().flatten();
    let found: Vec<&str> = list.filter_map(|address| address["ip"].as_str()).collect();
    if found.is_empty() { status[one].as_str().unwrap_or_default().to_owned() } else { found.join(",") }
}

/// A map as a file shows it: one `key="value"` a line, in the order of the keys.
fn map<'a>(found: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut lines: Vec<String> = found.map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.sort();
    lines.join("\n")
}

/// A text as Go quotes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            other if other.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(other))),
            other if other.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A `resourceFieldRef` of this container: the amount in units of the divisor, rounded up. A limit that is not set is
/// what the node has to give.
pub(super) fn resource(scene: Scene<'_>, container: &Value, reference: &Value) -> String {
    let resource = reference["resource"].as_str().unwrap_or_default();
    let (side, name) = resource.split_once('.').unwrap_or_default();
    let listed = &container["resources"][side];
    let mut found = amounts(listed);
    if side == "limits" {
        let node = allocatable(scene);
        found.cpu_millis = or(found.cpu_millis, node.cpu_millis);
        found.memory_bytes = or(found.memory_bytes, node.memory_bytes);
        found.storage_bytes = or(found.storage_bytes, node.storage_bytes);
    }
    let divisor = &reference["divisor"];
    let (amount, unit) = match name {
        "cpu" => (found.cpu_millis, or(cpu_millis(divisor), 1000)),
        "memory" => (found.memory_bytes, or(units(divisor), 1)),
        _ => (found.storage_bytes, or(units(divisor), 1)),
    };
    amount.div_ceil(unit).to_string()
}

const fn or(amount: u64, unstated: u64) -> u64 {
    if amount == 0 { unstated } else { amount }
}

/// What the pod's node has to give.
fn allocatable(scene: Scene<'_>) -> ResourceAmounts {
    let node = scene.view.get(&Key::new(Kind::NODE, "", scene.node()));
    node.and_then(|node| node.row.node()).map(|row| row.allocatable).unwrap_or_default()
}
