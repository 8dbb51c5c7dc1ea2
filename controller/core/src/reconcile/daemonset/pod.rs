//! A daemon pod: the template's, with a node to be on and the patience to stay there (DS-02, DS-03).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::object::Object;
use crate::reconcile::template;

/// The label with the hash of the template that a pod was made from.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// What every daemon pod tolerates, whatever its template says: (key, effect).
pub(super) fn automatic_tolerations(pod_spec: &Value) -> Vec<(&'static str, &'static str)> {
    let mut tolerations = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if pod_spec["hostNetwork"] == true {
        tolerations.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    tolerations
}

/// The pod for one node.
pub(super) fn for_node(set: &Object, value: &Value, hash: &str, node: &str, name: &str) -> Value {
    let mut pod = template::pod(set, &value["spec"]["template"], name);
    let generation = value["metadata"]["annotations"][GENERATION_ANNOTATION].as_str().map(str::to_owned);
    let generation = generation.unwrap_or_else(|| value["metadata"]["generation"].as_u64().unwrap_or(1).to_string());
    pod["metadata"]["labels"][HASH_LABEL] = json!(hash);
    pod["metadata"]["labels"][GENERATION_LABEL] = json!(generation);
    let spec = &mut pod["spec"];
    // In the place of the template's own terms: that they fit this node has been found already.
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
    });
    let automatic = automatic_tolerations(spec);
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in automatic {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec["tolerations"] = Value::Array(tolerations);
    pod
}

/// The node that a daemon pod is on or meant for.
pub(super) fn target(pod: &Object) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct Pod {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        #[serde(default)]
        affinity: Value,
    }
    if let Some(node) = pod.row.pod()?.node.as_ref() {
        return Some(Arc::clone(node));
    }
    let spec = pod.decode::<Pod>()?.spec;
    let terms = &spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let mut fields = terms.as_array()?.iter().filter_map(|term| term["matchFields"].as_array()).flatten();
    let field = fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
    field["values"][0].as_str().map(Into::into)
}
