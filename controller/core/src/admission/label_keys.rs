//! `matchLabelKeys` and `mismatchLabelKeys` of spread constraints and of affinity between pods: what they say of a new pod
//! goes into its selectors, as Kubernetes stores it, and what may stand in them (TSC-01).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::at::{At, Causes, entries, given, items, items_mut};
use super::syntax;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Adds to the selectors of a new pod what the keys say of its labels.
pub(super) fn merge(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    items_mut(spec, "topologySpreadConstraints").for_each(|constraint| merge_into(constraint, &labels));
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        items_mut(affinity, REQUIRED).for_each(|term| merge_into(term, &labels));
        let weighted = items_mut(affinity, PREFERRED);
        weighted.filter_map(|term| term.get_mut("podAffinityTerm")).for_each(|term| merge_into(term, &labels));
    }
}

fn merge_into(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for (_, key) in items(&term[field]) {
            if let Some(value) = key.as_str().and_then(|key| labels[key].as_str()) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut).filter(|_| !added.is_empty())
    else {
        return;
    };
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(list) = expressions.as_array_mut() {
        list.extend(added);
    }
}

/// Checks the keys of a term. Those of a pod are in its selector already, so that a key is there twice when its author
/// has named it in both.
pub(super) fn validate(term: &Value, at: &At<'_>, causes: &mut Causes) {
    let selector = &term["labelSelector"];
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let at = at.field(field);
        if given(&term[field]) && selector.is_null() {
            causes.push(at.forbidden("must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in items(&term[field]) {
            syntax::check(key.as_str().unwrap_or_default(), syntax::qualified_name, &at.item(index), causes);
        }
    }
    let at = at.field("matchLabelKeys");
    let keys = |field: &str| items(&term[field]).filter_map(|(index, key)| Some((key.as_str()?, (index, key))));
    let mut first = BTreeMap::new();
    for (key, place) in keys("matchLabelKeys") {
        first.entry(key).or_insert(place);
    }
    let mut seen: BTreeSet<&str> = entries(&selector["matchLabels"]).map(|(key, _)| key).collect();
    for (_, expression) in items(&selector["matchExpressions"]) {
        let key = expression["key"].as_str().unwrap_or_default();
        if let Some((index, found)) = first.get(key).filter(|_| seen.contains(key)) {
            causes.push(at.item(*index).invalid(found, "exists in both matchLabelKeys and labelSelector"));
        }
        seen.insert(key);
    }
    let others: BTreeSet<&str> = keys("mismatchLabelKeys").map(|(key, _)| key).collect();
    for (key, (index, found)) in keys("matchLabelKeys") {
        if others.contains(key) {
            causes.push(at.item(index).invalid(found, "exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}
