//! What a pod asks for (INI-03), and its host ports.

use serde_json::Value;

use super::objects::{list, text};

/// Millicores for cpu, else units.
pub(super) fn amount(resource: &str, quantity: &Value) -> i64 {
    let stated = quantity.as_str().unwrap_or("0");
    let number = |digits: &str| digits.parse::<i64>().unwrap();
    match resource {
        "cpu" => stated.strip_suffix('m').map_or_else(|| number(stated) * 1000, number),
        _ => stated.strip_suffix("Mi").map_or_else(
            || stated.strip_suffix("Gi").map_or_else(|| number(stated), |digits| number(digits) << 30),
            |digits| number(digits) << 20,
        ),
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// The most that the pod uses at any time of its life, with its overhead. Containers that do not say ask for `unsaid`.
fn effective(pod: &Value, resource: &str, unsaid: i64) -> i64 {
    let spec = &pod["spec"];
    let asked = |container: &Value| {
        let stated = &container["resources"]["requests"][resource];
        if stated.is_null() { unsaid } else { amount(resource, stated) }
    };
    let sidecars: i64 = list(&spec["initContainers"]).filter(|container| is_sidecar(container)).map(asked).sum();
    let mut most = sidecars + list(&spec["containers"]).map(asked).sum::<i64>();
    let mut before = 0;
    for container in list(&spec["initContainers"]) {
        most = most.max(before + asked(container));
        if is_sidecar(container) {
            before += asked(container);
        }
    }
    most + amount(resource, &spec["overhead"][resource])
}

pub(super) fn request(pod: &Value, resource: &str) -> i64 {
    effective(pod, resource, 0)
}

/// As [`request`], where a container that does not say is taken to use a little: for the score of the least allocated.
pub(super) fn nonzero_request(pod: &Value, resource: &str) -> i64 {
    effective(pod, resource, if resource == "cpu" { 100 } else { 200 << 20 })
}

/// Protocol and port of what the pod takes of its host.
pub(super) fn host_ports(pod: &Value) -> Vec<(&str, u64)> {
    let sidecars = list(&pod["spec"]["initContainers"]).filter(|container| is_sidecar(container));
    sidecars
        .chain(list(&pod["spec"]["containers"]))
        .flat_map(|container| list(&container["ports"]))
        .filter_map(|port| Some((text(port, "protocol"), port["hostPort"].as_u64().filter(|port| *port > 0)?)))
        .collect()
}
