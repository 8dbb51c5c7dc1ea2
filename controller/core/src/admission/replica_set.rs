//! apps/v1 `ReplicaSet` (RS-04).

use serde_json::{Value, json};

use super::at::{At, Causes, at_least, default};
use super::{Rules, nothing_to_admit, nothing_to_keep, syntax, workload};

/// The rules for replica sets.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update: workload::immutable_selector,
    validate_status,
};

fn defaults(set: &mut Value) {
    workload::default_template(set);
    default(&mut set["spec"], "replicas", || json!(1));
}

fn validate(set: &Value, causes: &mut Causes) {
    let (at, spec) = (At::Root.field("spec"), &set["spec"]);
    at_least(spec, "replicas", 0, &at, causes);
    at_least(spec, "minReadySeconds", 0, &at, causes);
    workload::validate_template(spec, "ReplicaSet", "replicaset", causes);
}

fn validate_status(_old: &Value, new: &Value, causes: &mut Causes) {
    let counts = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    let parts = [
        ("fullyLabeledReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ];
    workload::validate_counts(&new["status"], &counts, &parts, causes);
}
