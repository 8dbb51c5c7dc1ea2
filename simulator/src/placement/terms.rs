//! Labels, taints, selectors and terms, as Kubernetes words them.

use coracle_controller_core::{Key, Kind};
use serde_json::{Value, json};

use super::{Placement, label, name, namespace};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The elements of a list; none if there is no list.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Whether both nodes have the label, with the same value.
pub(super) fn same_label(key: &str, one: &Value, two: &Value) -> bool {
    !label(one, key).is_null() && label(one, key) == label(two, key)
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let found = &labels[text(expression, "key")];
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<i64>().ok());
    let both = || Some((number(found)?, number(&expression["values"][0])?));
    match text(expression, "operator") {
        "In" => list(&expression["values"]).any(|value| value == found),
        "NotIn" => list(&expression["values"]).all(|value| value != found),
        "Exists" => !found.is_null(),
        "DoesNotExist" => found.is_null(),
        "Gt" => both().is_some_and(|(found, bound)| found > bound),
        "Lt" => both().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

/// A label selector: none selects nothing, an empty one everything.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    !selector.is_null()
        && equal.all(|(key, value)| labels[key] == *value)
        && list(&selector["matchExpressions"]).all(|expression| holds(expression, labels))
}

/// The taints that keep pods away.
pub(super) fn hard_taints(node: &Value) -> impl Iterator<Item = &Value> {
    list(&node["spec"]["taints"]).filter(|taint| taint["effect"] != "PreferNoSchedule")
}

pub(super) fn tolerates(pod: &Value, taint: &Value) -> bool {
    list(&pod["spec"]["tolerations"]).any(|toleration| {
        let same = |field: &str| text(toleration, field) == text(taint, field);
        let unsaid = |field: &str| text(toleration, field).is_empty();
        (unsaid("key") || same("key"))
            && (unsaid("effect") || same("effect"))
            && (toleration["operator"] == "Exists" || same("value"))
    })
}

/// `nodeSelector`, and one of the terms of required node affinity.
pub(super) fn wants_node(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let fields = json!({"metadata.name": name(node)});
    let required = &pod["spec"]["affinity"]["nodeAffinity"][REQUIRED];
    let term_selects = |term: &Value| {
        let (on_labels, on_fields) = (&term["matchExpressions"], &term["matchFields"]);
        list(on_labels).chain(list(on_fields)).next().is_some()
            && list(on_labels).all(|expression| holds(expression, labels))
            && list(on_fields).all(|expression| holds(expression, &fields))
    };
    let mut selector = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    selector.all(|(key, value)| labels[key] == *value)
        && (required.is_null() || list(&required["nodeSelectorTerms"]).any(term_selects))
}

/// The required terms of an affinity to pods, or against them.
pub(super) fn required<'a>(pod: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    list(&pod["spec"]["affinity"][kind][REQUIRED])
}

/// Whether a pod is one of those that a term of its owner's is about. What `matchLabelKeys` says has gone into the selector
/// when the owner was made.
pub(super) fn is_about(placement: &Placement, term: &Value, owner: &Value, pod: &Value) -> bool {
    let selector = &term["namespaceSelector"];
    let labels =
        placement.get(&Key::new(Kind::NAMESPACE, "", namespace(pod))).map(|found| &found["metadata"]["labels"]);
    let is_own = list(&term["namespaces"]).next().is_none() && selector.is_null() && namespace(owner) == namespace(pod);
    let is_near = is_own
        || list(&term["namespaces"]).any(|stated| stated == namespace(pod))
        || selects(selector, labels.unwrap_or(&Value::Null));
    is_near && selects(&term["labelSelector"], &pod["metadata"]["labels"])
}
