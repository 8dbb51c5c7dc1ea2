//! Validation of a pod's spec, in a pod and in a template.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Causes, at_least, given, items, one_of, text};
use super::{container, not_in_this_build, scheduling, syntax, volumes};

/// Checks a pod's spec, with its defaults in place.
pub(super) fn validate(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    containers(spec, at, causes);
    volumes::validate(spec, at, causes);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], at, causes);
    one_of(spec, "dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"], at, causes);
    at_least(spec, "terminationGracePeriodSeconds", 0, at, causes);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.push(at.field("activeDeadlineSeconds").invalid(&spec["activeDeadlineSeconds"], detail));
    }
    for field in ["nodeName", "schedulerName", "priorityClassName", "serviceAccountName"] {
        if given(&spec[field]) {
            syntax::check(text(spec, field), syntax::subdomain, &at.field(field), causes);
        }
    }
    one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], at, causes);
    for (index, reference) in items(&spec["imagePullSecrets"]) {
        if text(reference, "name").is_empty() {
            causes.push(at.field("imagePullSecrets").item(index).field("name").required(""));
        }
    }
    scheduling::validate(spec, at, causes);
    gates(spec, at, causes);
    not_in_this_build::refuse_pod(spec, at, causes);
}

fn containers(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    let most = coracle_model::Limits::LINUX.containers;
    let at = at.field("containers");
    let list = spec["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        causes.push(at.required("a pod has at least one container"));
    }
    if list.len() > most {
        causes.push(at.too_many(list.len(), most));
    }
    for (index, found) in list.iter().enumerate() {
        let at = at.item(index);
        let name = text(found, "name");
        if !name.is_empty() && list[..index].iter().any(|other| text(other, "name") == name) {
            causes.push(at.field("name").duplicate(&found["name"]));
        }
        container::validate(found, &at, causes);
    }
    container::validate_host_ports(list, &at, causes);
}

/// `schedulingGates` (SCH-03).
fn gates(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    let gates = at.field("schedulingGates");
    let list = spec["schedulingGates"].as_array().map_or(&[][..], Vec::as_slice);
    let mut seen = BTreeSet::new();
    for (index, gate) in list.iter().enumerate() {
        let at = gates.item(index);
        syntax::check(text(gate, "name"), syntax::qualified_name, &at.field("name"), causes);
        if !seen.insert(text(gate, "name")) {
            causes.push(at.duplicate(&json!(text(gate, "name"))));
        }
    }
    if !list.is_empty() && given(&spec["nodeName"]) {
        causes.push(at.field("nodeName").forbidden("cannot be set until all schedulingGates have been cleared"));
    }
}
