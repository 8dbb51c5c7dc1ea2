//! apps/v1 `DaemonSet` (DS-02).

use serde_json::{Value, json};

use super::at::{At, Causes, at_least, default, text};
use super::{Rules, nothing_to_admit, nothing_to_keep, syntax, workload};

/// The rules for daemon sets.
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
    let spec = &mut set["spec"];
    default(spec, "revisionHistoryLimit", || json!(10));
    default(spec, "updateStrategy", || json!({}));
    let strategy = &mut spec["updateStrategy"];
    default(strategy, "type", || json!("RollingUpdate"));
    if strategy["type"] == "RollingUpdate" {
        default(strategy, "rollingUpdate", || json!({}));
        default(&mut strategy["rollingUpdate"], "maxUnavailable", || json!(1));
        default(&mut strategy["rollingUpdate"], "maxSurge", || json!(0));
    }
}

fn validate(set: &Value, causes: &mut Causes) {
    let (at, spec) = (At::Root.field("spec"), &set["spec"]);
    for field in ["minReadySeconds", "revisionHistoryLimit"] {
        at_least(spec, field, 0, &at, causes);
    }
    let strategy = &spec["updateStrategy"];
    let at = at.field("updateStrategy");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => rolling(&strategy["rollingUpdate"], &at.field("rollingUpdate"), causes),
        _ => causes.push(at.field("type").not_supported(&strategy["type"], &["RollingUpdate", "OnDelete"])),
    }
    workload::validate_template(spec, "DaemonSet", "daemonset", causes);
}

/// Exactly one of surge and unavailable says how an update goes on.
fn rolling(rolling: &Value, at: &At<'_>, causes: &mut Causes) {
    let (surge, unavailable) = (at.field("maxSurge"), at.field("maxUnavailable"));
    let most = workload::amount(&rolling["maxSurge"], &surge, causes);
    let fewest = workload::amount(&rolling["maxUnavailable"], &unavailable, causes);
    workload::at_most_all(most, &rolling["maxSurge"], &surge, causes);
    workload::at_most_all(fewest, &rolling["maxUnavailable"], &unavailable, causes);
    let (Some(most), Some(fewest)) = (most, fewest) else { return };
    match (most.is_zero(), fewest.is_zero()) {
        (true, true) => causes.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        (false, false) => {
            causes.push(surge.invalid(&rolling["maxSurge"], "may not be set when maxUnavailable is non-zero"));
        }
        _ => {}
    }
}

fn validate_status(_old: &Value, new: &Value, causes: &mut Causes) {
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    workload::validate_counts(&new["status"], &counts, &[], causes);
}
