//! Validation of what a pod says to the scheduler: node selector, affinity, tolerations, topology spread.

use serde_json::{Value, json};

use super::at::{At, Causes, given, items, one_of, text};
use super::{pod_affinity, spread, syntax};

/// Checks the scheduling fields of a pod's spec.
pub(super) fn validate(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    syntax::check_labels(&spec["nodeSelector"], &at.field("nodeSelector"), causes);
    let affinity = at.field("affinity");
    node_affinity(&spec["affinity"]["nodeAffinity"], &affinity.field("nodeAffinity"), causes);
    pod_affinity::validate(&spec["affinity"], &affinity, causes);
    tolerations(spec, at, causes);
    spread::validate(spec, at, causes);
}

/// A `NodeAffinity`.
pub(super) fn node_affinity(affinity: &Value, at: &At<'_>, causes: &mut Causes) {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    if !required.is_null() {
        node_selector(required, &at.field("requiredDuringSchedulingIgnoredDuringExecution"), causes);
    }
    let at = at.field("preferredDuringSchedulingIgnoredDuringExecution");
    for (index, preferred) in items(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]) {
        let at = at.item(index);
        if !preferred["weight"].as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
            causes.push(at.field("weight").invalid(&preferred["weight"], "must be in the range 1-100"));
        }
        term(&preferred["preference"], &at.field("preference"), causes);
    }
}

/// A `NodeSelector`.
pub(super) fn node_selector(selector: &Value, at: &At<'_>, causes: &mut Causes) {
    let at = at.field("nodeSelectorTerms");
    if !given(&selector["nodeSelectorTerms"]) {
        causes.push(at.required("must have at least one node selector term"));
    }
    for (index, found) in items(&selector["nodeSelectorTerms"]) {
        term(found, &at.item(index), causes);
    }
}

/// A `NodeSelectorTerm`.
fn term(term: &Value, at: &At<'_>, causes: &mut Causes) {
    let expressions = at.field("matchExpressions");
    for (index, expression) in items(&term["matchExpressions"]) {
        requirement(expression, &expressions.item(index), causes);
    }
    let fields = at.field("matchFields");
    for (index, field) in items(&term["matchFields"]) {
        let at = fields.item(index);
        if text(field, "key") != "metadata.name" {
            causes.push(at.field("key").invalid(&field["key"], "not a valid field selector key, want metadata.name"));
        }
        match text(field, "operator") {
            "In" | "NotIn" if field["values"].as_array().is_none_or(|values| values.len() != 1) => {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                causes.push(at.field("values").required(detail));
            }
            "In" | "NotIn" => {}
            _ => causes.push(at.field("operator").invalid(
                &field["operator"],
                "not a valid selector operator, want In or NotIn for a node field selector",
            )),
        }
    }
}

/// A `NodeSelectorRequirement` on a label.
fn requirement(expression: &Value, at: &At<'_>, causes: &mut Causes) {
    syntax::check(text(expression, "key"), syntax::qualified_name, &at.field("key"), causes);
    let values = &expression["values"];
    let at_values = at.field("values");
    match text(expression, "operator") {
        "In" | "NotIn" => {
            if !given(values) {
                causes.push(at_values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
        }
        "Exists" | "DoesNotExist" => {
            if given(values) {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(at_values.forbidden(detail));
            }
        }
        "Gt" | "Lt" => match values.as_array().map(Vec::as_slice) {
            Some([number]) if number.as_str().is_some_and(|text| text.parse::<i64>().is_ok()) => {}
            Some([other]) => {
                let detail = "must be a whole number when `operator` is 'Lt' or 'Gt'";
                causes.push(at_values.item(0).invalid(other, detail));
            }
            _ => causes.push(at_values.required("must be specified single value when `operator` is 'Lt' or 'Gt'")),
        },
        _ => causes.push(at.field("operator").invalid(
            &expression["operator"],
            "not a valid selector operator, want In, NotIn, Exists, DoesNotExist, Gt or Lt",
        )),
    }
}

fn tolerations(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    let at = at.field("tolerations");
    for (index, toleration) in items(&spec["tolerations"]) {
        let at = at.item(index);
        let (key, operator, effect) =
            (text(toleration, "key"), text(toleration, "operator"), text(toleration, "effect"));
        if !key.is_empty() {
            syntax::check(key, syntax::qualified_name, &at.field("key"), causes);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(at.field("operator").invalid(&json!(operator), detail));
        }
        match operator {
            "Equal" | "" => syntax::check(text(toleration, "value"), syntax::label_value, &at.field("value"), causes),
            "Exists" if given(&toleration["value"]) => {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.push(at.field("value").invalid(&toleration["value"], detail));
            }
            "Exists" => {}
            _ => causes.push(at.field("operator").not_supported(&toleration["operator"], &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &at, causes);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(at.field("effect").invalid(&json!(effect), detail));
        }
    }
}
