//! Labels, taints and terms, read from the objects each time.

use serde_json::{Value, json};

use super::objects::{Cluster, label, list, name, namespace, text};

/// Whether a selector's expression holds of an object's labels.
fn holds(expression: &Value, labels: &Value) -> bool {
    let found = labels[text(expression, "key")].as_str();
    let values: Vec<&str> = list(&expression["values"]).filter_map(Value::as_str).collect();
    let numbers = || Some((found?.parse::<i64>().ok()?, values[0].parse::<i64>().ok()?));
    match text(expression, "operator") {
        "In" => found.is_some_and(|found| values.contains(&found)),
        "NotIn" => !found.is_some_and(|found| values.contains(&found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => numbers().is_some_and(|(found, bound)| found > bound),
        "Lt" => numbers().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

/// A label selector: none matches nothing, an empty one everything.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    !selector.is_null() && equal && list(&selector["matchExpressions"]).all(|expression| holds(expression, labels))
}

pub(super) fn tolerates(pod: &Value, taint: &Value) -> bool {
    list(&pod["spec"]["tolerations"]).any(|toleration| {
        let same = |field| text(toleration, field) == text(taint, field);
        let key = text(toleration, "key").is_empty() || same("key");
        let effect = text(toleration, "effect").is_empty() || same("effect");
        key && effect && (text(toleration, "operator") == "Exists" || same("value"))
    })
}

pub(super) fn taints(node: &Value, is_soft: bool) -> impl Iterator<Item = &Value> {
    list(&node["spec"]["taints"]).filter(move |taint| (text(taint, "effect") == "PreferNoSchedule") == is_soft)
}

pub(super) fn tolerates_hard_taints(pod: &Value, node: &Value) -> bool {
    taints(node, false).all(|taint| tolerates(pod, taint))
}

/// A node selector's term; an empty one matches nothing.
pub(super) fn term_selects(term: &Value, node: &Value) -> bool {
    let fields = json!({"metadata.name": name(node)});
    let mut expressions = list(&term["matchExpressions"]).map(|expression| (expression, &node["metadata"]["labels"]));
    let mut on_fields = list(&term["matchFields"]).map(|expression| (expression, &fields));
    let is_empty = list(&term["matchExpressions"]).next().is_none() && list(&term["matchFields"]).next().is_none();
    !is_empty && expressions.all(|(e, labels)| holds(e, labels)) && on_fields.all(|(e, labels)| holds(e, labels))
}

/// The pod's `nodeSelector` and required node affinity.
pub(super) fn wants_node(pod: &Value, node: &Value) -> bool {
    let spec = &pod["spec"];
    let selected = spec["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| node["metadata"]["labels"][key] == *value);
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    selected && (required.is_null() || list(&required["nodeSelectorTerms"]).any(|term| term_selects(term, node)))
}

pub(super) fn required<'a>(pod: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    list(&pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])
}

pub(super) fn preferred<'a>(pod: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    list(&pod["spec"]["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"])
}

/// Whether a pod is one of those that a term of its owner's affinity is about.
pub(super) fn term_is_about(cluster: &Cluster, term: &Value, owner: &Value, pod: &Value) -> bool {
    let stated: Vec<&str> = list(&term["namespaces"]).filter_map(Value::as_str).collect();
    let selector = &term["namespaceSelector"];
    let by_labels = || selects(selector, &cluster.namespaces[namespace(pod)]["metadata"]["labels"]);
    let near = stated.contains(&namespace(pod))
        || by_labels()
        || (stated.is_empty() && selector.is_null() && namespace(owner) == namespace(pod));
    let same = |key: &Value| Some((label(owner, key.as_str()?)?, label(pod, key.as_str()?)));
    near && selects(&term["labelSelector"], &pod["metadata"]["labels"])
        && list(&term["matchLabelKeys"]).filter_map(same).all(|(own, other)| other == Some(own))
        && list(&term["mismatchLabelKeys"]).filter_map(same).all(|(own, other)| other != Some(own))
}
