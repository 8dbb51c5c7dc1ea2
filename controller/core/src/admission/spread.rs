//! Validation of `topologySpreadConstraints` (TSC-01).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::at::{At, Causes, one_of, text};
use super::{label_keys, label_selector, pod_affinity};

/// Checks the constraints of a pod's spec.
pub(super) fn validate(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    let list = spec["topologySpreadConstraints"].as_array().map_or(&[][..], Vec::as_slice);
    constraints(list, &at.field("topologySpreadConstraints"), causes);
}

/// Checks a list of constraints.
pub(super) fn constraints(list: &[Value], at: &At<'_>, causes: &mut Causes) {
    let pair = |of| (text(of, "topologyKey"), text(of, "whenUnsatisfiable"));
    // Kubernetes names the first of two.
    let last: BTreeMap<_, usize> = list.iter().map(pair).zip(0..).collect();
    for (index, constraint) in list.iter().enumerate() {
        let at = at.item(index);
        if constraint["maxSkew"].as_i64().unwrap_or_default() <= 0 {
            causes.push(at.field("maxSkew").invalid(&constraint["maxSkew"], "must be greater than zero"));
        }
        pod_affinity::topology_key(constraint, &at, causes);
        let action = text(constraint, "whenUnsatisfiable");
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            causes.push(at.field("whenUnsatisfiable").not_supported(&json!(action), &supported));
        }
        if last[&pair(constraint)] > index {
            let found = json!(format!("{{{}, {action}}}", text(constraint, "topologyKey")));
            causes.push(at.field("{topologyKey, whenUnsatisfiable}").duplicate(&found));
        }
        min_domains(constraint, action, &at.field("minDomains"), causes);
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(constraint, field, &["Honor", "Ignore"], &at, causes);
        }
        label_keys::validate(constraint, &at, causes);
        label_selector::validate(&constraint["labelSelector"], &at.field("labelSelector"), causes);
    }
}

fn min_domains(constraint: &Value, action: &str, at: &At<'_>, causes: &mut Causes) {
    let found = &constraint["minDomains"];
    if found.as_i64().is_some_and(|domains| domains <= 0) {
        causes.push(at.invalid(found, "must be greater than zero"));
    }
    if !found.is_null() && action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        causes.push(at.invalid(found, &detail));
    }
}
