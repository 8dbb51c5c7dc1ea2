//! v1 Pod: defaults, validation, and what of a live pod may change (POD-05, POD-10).

use serde_json::{Value, json};

use super::at::{At, Causes, at_least, default, given, items, one_of, restore, text};
use super::{Rules, label_keys, pod_defaults, pod_spec, quantities, syntax};
use crate::error::ApiError;

/// The rules for pods.
pub(super) const RULES: Rules =
    Rules { name: syntax::subdomain, defaults, admit, keep, validate, validate_update, validate_status };

fn defaults(pod: &mut Value) {
    default(pod, "spec", || json!({}));
    pod_defaults::spec(&mut pod["spec"]);
    pod_defaults::pod(&mut pod["spec"]);
    pod_defaults::tolerations(&mut pod["spec"]);
}

/// What a new pod gets from the server: what its label keys mean, and the status with which it begins.
fn admit(pod: &mut Value) -> Result<(), ApiError> {
    label_keys::merge(pod);
    let spec = &pod["spec"];
    let stamp = pod["metadata"]["creationTimestamp"].clone();
    let condition = if given(&spec["schedulingGates"]) {
        // SCH-03
        Some(json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates", "lastTransitionTime": stamp,
        }))
    } else if given(&spec["nodeName"]) {
        Some(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}))
    } else {
        None
    };
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    if let Some(condition) = condition {
        status["conditions"] = json!([condition]);
    }
    pod["status"] = status;
    Ok(())
}

/// What an update leaves out and the server has put in stays.
fn keep(old: &Value, new: &mut Value) {
    for field in ["priority", "preemptionPolicy"] {
        if new["spec"][field].is_null()
            && let Some(spec) = new.get_mut("spec")
        {
            restore(&old["spec"], spec, field);
        }
    }
}

fn validate(pod: &Value, causes: &mut Causes) {
    let at = At::Root.field("spec");
    pod_spec::validate(&pod["spec"], &at, causes);
}

/// `status.qosClass` (PRI-09).
fn qos_class(spec: &Value) -> &'static str {
    let amount = |list: &Value, name: &str| quantities::milli(&list[name]).filter(|amount| *amount > 0);
    let mut guaranteed = true;
    let mut anything = false;
    let containers = items(&spec["containers"]).chain(items(&spec["initContainers"]));
    for (_, container) in containers {
        let (limits, requests) = (&container["resources"]["limits"], &container["resources"]["requests"]);
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount(limits, name), amount(requests, name));
            anything |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.or(limit) == limit;
        }
    }
    match (anything, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// POD-10
fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    let (old, new) = (&old["spec"], &new["spec"]);
    if old == new {
        return;
    }
    let at = At::Root.field("spec");
    let mut same = new.clone();
    deadline(old, new, &mut same, &at, causes);
    tolerations(old, new, &mut same, &at, causes);
    gates(old, new, &mut same, &at, causes);
    let count = |spec: &Value| spec["containers"].as_array().map_or(0, Vec::len);
    if count(old) != count(new) {
        causes.push(at.field("containers").forbidden("pod updates may not add or remove containers"));
        return;
    }
    for (index, container) in items(&old["containers"]) {
        same["containers"][index]["image"] = container["image"].clone();
    }
    if same != *old {
        let changed = changed_field(old, &same, "spec");
        causes.push(at.forbidden(&format!("{MUTABLE}; {changed} differs")));
    }
}

/// A deadline may be set or brought nearer.
fn deadline(old: &Value, new: &Value, same: &mut Value, at: &At<'_>, causes: &mut Causes) {
    let field = "activeDeadlineSeconds";
    match (old[field].as_i64(), new[field].as_i64()) {
        (Some(before), Some(after)) if after > before => {
            let detail = format!("must be less than or equal to previous value {before}");
            causes.push(at.field(field).invalid(&new[field], &detail));
        }
        (Some(_), None) => causes.push(at.field(field).invalid(&new[field], "must not be removed once it is set")),
        _ => {}
    }
    restore(old, same, field);
}

/// Tolerations may be added; one that is there may change how long it tolerates.
fn tolerations(old: &Value, new: &Value, same: &mut Value, at: &At<'_>, causes: &mut Causes) {
    let but_seconds = |toleration: &Value| {
        let field = |name: &str| text(toleration, name).to_owned();
        let operator = if field("operator").is_empty() { "Equal".to_owned() } else { field("operator") };
        (field("key"), operator, field("value"), field("effect"))
    };
    let after: Vec<_> = items(&new["tolerations"]).map(|(_, toleration)| but_seconds(toleration)).collect();
    if items(&old["tolerations"]).any(|(_, toleration)| !after.contains(&but_seconds(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(at.field("tolerations").forbidden(detail));
    }
    restore(old, same, "tolerations");
}

/// Gates may be removed, never added (SCH-03).
fn gates(old: &Value, new: &Value, same: &mut Value, at: &At<'_>, causes: &mut Causes) {
    let before = old["schedulingGates"].as_array();
    for (index, gate) in items(&new["schedulingGates"]) {
        if !before.is_some_and(|before| before.contains(gate)) {
            let at = at.field("schedulingGates");
            let detail = "only deletion is allowed, but found new scheduling gate";
            causes.push(at.item(index).forbidden(&format!("{detail} '{}'", text(gate, "name"))));
        }
    }
    restore(old, same, "schedulingGates");
}

/// The first place in which two values differ.
fn changed_field(old: &Value, new: &Value, path: &str) -> String {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let names = before.keys().chain(after.keys());
            let differs = |name: &&String| before.get(*name) != after.get(*name);
            names.into_iter().find(differs).map_or_else(
                || path.to_owned(),
                |name| changed_field(&old[name], &new[name], &format!("{path}.{name}")),
            )
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            before.iter().zip(after).enumerate().find(|(_, (before, after))| before != after).map_or_else(
                || path.to_owned(),
                |(index, (before, after))| changed_field(before, after, &format!("{path}[{index}]")),
            )
        }
        _ => path.to_owned(),
    }
}

fn validate_status(_old: &Value, new: &Value, causes: &mut Causes) {
    let at = At::Root.field("status");
    let status = &new["status"];
    one_of(status, "phase", &["Pending", "Running", "Succeeded", "Failed", "Unknown"], &at, causes);
    let conditions = at.field("conditions");
    for (index, condition) in items(&status["conditions"]) {
        let at = conditions.item(index);
        syntax::check(text(condition, "type"), syntax::qualified_name, &at.field("type"), causes);
        if !matches!(text(condition, "status"), "True" | "False" | "Unknown") {
            causes.push(at.field("status").not_supported(&condition["status"], &["True", "False", "Unknown"]));
        }
    }
    let statuses = at.field("containerStatuses");
    for (index, status) in items(&status["containerStatuses"]) {
        at_least(status, "restartCount", 0, &statuses.item(index), causes);
    }
}
