//! Validation of affinity and anti-affinity between pods (SCH-01, SCH-02).

use serde_json::{Value, json};

use super::at::{At, Causes, items, text};
use super::{label_keys, label_selector, syntax};

/// Checks `affinity.podAffinity` and `affinity.podAntiAffinity`.
pub(super) fn validate(affinity: &Value, at: &At<'_>, causes: &mut Causes) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = at.field(kind);
        let required = at.field("requiredDuringSchedulingIgnoredDuringExecution");
        for (index, found) in items(&affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"]) {
            term(found, &required.item(index), causes);
        }
        let preferred = at.field("preferredDuringSchedulingIgnoredDuringExecution");
        for (index, weighted) in items(&affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"]) {
            let at = preferred.item(index);
            if !weighted["weight"].as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
                causes.push(at.field("weight").invalid(&weighted["weight"], "must be in the range 1-100"));
            }
            term(&weighted["podAffinityTerm"], &at.field("podAffinityTerm"), causes);
        }
    }
}

/// A `PodAffinityTerm`.
fn term(term: &Value, at: &At<'_>, causes: &mut Causes) {
    for field in ["labelSelector", "namespaceSelector"] {
        label_selector::validate(&term[field], &at.field(field), causes);
    }
    let namespaces = at.field("namespaces");
    for (index, name) in items(&term["namespaces"]) {
        syntax::check(name.as_str().unwrap_or_default(), syntax::label, &namespaces.item(index), causes);
    }
    label_keys::validate(term, at, causes);
    topology_key(term, at, causes);
}

/// `topologyKey` is there, and is the key of a label.
pub(super) fn topology_key(term: &Value, at: &At<'_>, causes: &mut Causes) {
    let at = at.field("topologyKey");
    let key = text(term, "topologyKey");
    if key.is_empty() {
        causes.push(at.required("can not be empty"));
    } else {
        let wrong = syntax::qualified_name(key);
        causes.extend(wrong.iter().map(|detail| at.invalid(&json!(key), detail)));
    }
}
