//! policy/v1 `PodDisruptionBudget` (PDB-01).

use serde_json::Value;

use super::at::{At, Causes, items, one_of, text};
use super::{Rules, label_selector, no_defaults, nothing_to_admit, nothing_to_keep, syntax, workload};

/// The rules for disruption budgets.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults: no_defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update: |_, _, _| {},
    validate_status,
};

fn validate(budget: &Value, causes: &mut Causes) {
    let (at, spec) = (At::Root.field("spec"), &budget["spec"]);
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        causes.push(at.invalid(spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let at = at.field(field);
        let amount = workload::amount(&spec[field], &at, causes);
        workload::at_most_all(amount, &spec[field], &at, causes);
    }
    label_selector::validate(&spec["selector"], &at.field("selector"), causes);
    one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &at, causes);
}

fn validate_status(_old: &Value, new: &Value, causes: &mut Causes) {
    let status = &new["status"];
    let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    workload::validate_counts(status, &counts, &[], causes);
    let at = At::Root.field("status");
    let conditions = at.field("conditions");
    for (index, condition) in items(&status["conditions"]) {
        let at = conditions.item(index);
        for field in ["type", "reason"] {
            if text(condition, field).is_empty() {
                causes.push(at.field(field).required("must be set"));
            }
        }
        if !matches!(text(condition, "status"), "True" | "False" | "Unknown") {
            causes.push(at.field("status").not_supported(&condition["status"], &["True", "False", "Unknown"]));
        }
    }
}
