//! Topology spread constraints: those of a pod, or the defaults that take their place, and what they count (TSC-03,
//! TSC-05).

use serde_json::{Value, json};

use super::objects::{Cluster, is_ending, label, list, namespace, text};
use super::selectors::{selects, tolerates_hard_taints, wants_node};

const HOSTNAME: &str = "kubernetes.io/hostname";

fn has_own(pod: &Value) -> bool {
    list(&pod["spec"]["topologySpreadConstraints"]).next().is_some()
}

/// Whether a node needs the keys of all constraints; not for the system's own defaults.
pub(super) fn needs_all_keys(cluster: &Cluster, pod: &Value) -> bool {
    has_own(pod) || !cluster.profile(pod).spreads_by_system()
}

/// The pod's own constraints of one sort; else the defaults, if it belongs to a controller or a service.
pub(super) fn constraints(cluster: &Cluster, pod: &Value, when: &str) -> Vec<Value> {
    let mut all: Vec<Value> = list(&pod["spec"]["topologySpreadConstraints"]).cloned().collect();
    if !has_own(pod) {
        all = defaults(cluster, pod);
    }
    all.retain(|constraint| text(constraint, "whenUnsatisfiable") == when);
    all
}

fn defaults(cluster: &Cluster, pod: &Value) -> Vec<Value> {
    let Some(selector) = selector_of_owners(cluster, pod) else { return Vec::new() };
    let profile = cluster.profile(pod);
    let mut all: Vec<Value> = if profile.spreads_by_system() {
        let system = [(3, HOSTNAME), (5, "topology.kubernetes.io/zone")];
        let constraint =
            |(skew, key)| json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"});
        system.into_iter().map(constraint).collect()
    } else {
        list(&profile.args("PodTopologySpread")["defaultConstraints"]).cloned().collect()
    };
    for constraint in &mut all {
        constraint["labelSelector"] = selector.clone();
    }
    all
}

/// What the controller and the services of a pod select, all together; `None` if there are none.
fn selector_of_owners(cluster: &Cluster, pod: &Value) -> Option<Value> {
    let controller = list(&pod["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
    let sets =
        cluster.replica_sets.iter().filter(|set| controller.is_some_and(|by| set["metadata"]["uid"] == by["uid"]));
    let services = cluster.services.iter().filter(|service| namespace(service) == namespace(pod));
    let selectors = sets.map(|set| &set["spec"]["selector"]["matchLabels"]).chain(
        services
            .map(|service| &service["spec"]["selector"])
            .filter(|labels| selects(&json!({"matchLabels": labels}), &pod["metadata"]["labels"])),
    );
    let all = selectors.flat_map(|labels| labels.as_object().into_iter().flatten());
    let all: Vec<Value> = all.map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]})).collect();
    (!all.is_empty()).then(|| json!({"matchExpressions": all}))
}

/// Whether a constraint counts a pod: in the same namespace, matching, and not on its way out.
pub(super) fn counts(constraint: &Value, owner: &Value, pod: &Value) -> bool {
    !is_ending(pod) && namespace(pod) == namespace(owner) && matches(constraint, owner, pod)
}

/// Whether a constraint's selector matches a pod.
pub(super) fn matches(constraint: &Value, owner: &Value, pod: &Value) -> bool {
    let same = |key: &Value| Some((label(owner, key.as_str()?)?, label(pod, key.as_str()?)));
    selects(&constraint["labelSelector"], &pod["metadata"]["labels"])
        && list(&constraint["matchLabelKeys"]).filter_map(same).all(|(own, other)| other == Some(own))
}

/// Whether a constraint's policies let a node count.
pub(super) fn includes(constraint: &Value, pod: &Value, node: &Value) -> bool {
    let affinity = text(constraint, "nodeAffinityPolicy") == "Ignore" || wants_node(pod, node);
    affinity && (text(constraint, "nodeTaintsPolicy") != "Honor" || tolerates_hard_taints(pod, node))
}
