//! The defaults of a pod's spec, in a pod and in a template. What is stored is explicit.

use serde_json::{Value, json};

use super::at::{default, items_mut};
use super::{quantities, volumes};

/// Fills in what Kubernetes fills in for every pod spec, a template's too.
pub(super) fn spec(spec: &mut Value) {
    default(spec, "restartPolicy", || json!("Always"));
    default(spec, "dnsPolicy", || json!("ClusterFirst"));
    default(spec, "terminationGracePeriodSeconds", || json!(30));
    default(spec, "schedulerName", || json!("default-scheduler"));
    default(spec, "securityContext", || json!({}));
    volumes::defaults(spec);
    for list in ["containers", "initContainers"] {
        items_mut(spec, list).for_each(container);
    }
}

fn container(container: &mut Value) {
    default(container, "terminationMessagePath", || json!("/dev/termination-log"));
    default(container, "terminationMessagePolicy", || json!("File"));
    default(container, "resources", || json!({}));
    let image = container["image"].as_str().unwrap_or_default();
    let policy = pull_policy(image);
    default(container, "imagePullPolicy", || json!(policy));
    for port in items_mut(container, "ports") {
        default(port, "protocol", || json!("TCP"));
    }
    for variable in items_mut(container, "env") {
        let Some(from) = variable.get_mut("valueFrom") else { continue };
        volumes::downward_default(from);
    }
}

/// `imagePullPolicy` by tag: `Always` for `latest` and for no tag at all (POD-09).
fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    // A colon before the last slash belongs to the registry's port.
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

/// What Kubernetes fills in for a pod alone, not for a template: requests from limits, service links.
pub(super) fn pod(spec: &mut Value) {
    default(spec, "enableServiceLinks", || json!(true));
    for container in items_mut(spec, "containers") {
        let Some(limits) = container["resources"]["limits"].as_object().cloned().filter(|limits| !limits.is_empty())
        else {
            continue;
        };
        let resources = &mut container["resources"];
        default(resources, "requests", || json!({}));
        for (name, limit) in limits.into_iter().filter(|(_, limit)| quantities::milli(limit) >= Some(0)) {
            default(&mut resources["requests"], &name, || limit);
        }
    }
}

/// How long a pod stays on a node that is not ready or out of reach, in seconds (SAF-02).
const TOLERATION_SECONDS: i64 = 300;

/// Adds the tolerations that every pod has: 300 seconds of a node that is not ready or out of reach.
pub(super) fn tolerations(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let has = spec["tolerations"].as_array().is_some_and(|list| {
            list.iter().any(|toleration| {
                let field = |name: &str| toleration[name].as_str().unwrap_or_default();
                (field("key") == key || field("key").is_empty()) && matches!(field("effect"), "NoExecute" | "")
            })
        });
        if has {
            continue;
        }
        default(spec, "tolerations", || json!([]));
        if let Some(list) = spec["tolerations"].as_array_mut() {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_decides_when_an_image_is_asked_for_again() {
        // POD-09
        for (image, policy) in [
            ("a", "Always"),
            ("a:latest", "Always"),
            ("host:5000/a", "Always"),
            ("host:5000/a:1", "IfNotPresent"),
            ("a:1", "IfNotPresent"),
            ("a@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
