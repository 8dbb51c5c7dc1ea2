//! apps/v1 Deployment (DEP-01, DEP-02, DEP-08, DEP-10).

use serde_json::{Value, json};

use super::at::{At, Causes, at_least, default, given, text};
use super::{Rules, nothing_to_admit, nothing_to_keep, syntax, workload};

/// The rules for deployments.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update: workload::immutable_selector,
    validate_status,
};

fn defaults(deployment: &mut Value) {
    workload::default_template(deployment);
    let spec = &mut deployment["spec"];
    default(spec, "replicas", || json!(1));
    default(spec, "revisionHistoryLimit", || json!(10));
    default(spec, "progressDeadlineSeconds", || json!(600));
    default(spec, "strategy", || json!({}));
    let strategy = &mut spec["strategy"];
    default(strategy, "type", || json!("RollingUpdate"));
    if strategy["type"] == "RollingUpdate" {
        default(strategy, "rollingUpdate", || json!({}));
        default(&mut strategy["rollingUpdate"], "maxSurge", || json!("25%"));
        default(&mut strategy["rollingUpdate"], "maxUnavailable", || json!("25%"));
    }
}

fn validate(deployment: &Value, causes: &mut Causes) {
    let (at, spec) = (At::Root.field("spec"), &deployment["spec"]);
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        at_least(spec, field, 0, &at, causes);
    }
    let number = |field: &str| spec[field].as_i64().unwrap_or_default();
    if number("progressDeadlineSeconds") <= number("minReadySeconds") {
        let detail = "must be greater than minReadySeconds";
        causes.push(at.field("progressDeadlineSeconds").invalid(&spec["progressDeadlineSeconds"], detail));
    }
    strategy(&spec["strategy"], &at.field("strategy"), causes);
    workload::validate_template(spec, "Deployment", "deployment", causes);
}

fn strategy(strategy: &Value, at: &At<'_>, causes: &mut Causes) {
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" => {
            if given(rolling) {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                causes.push(at.field("rollingUpdate").forbidden(detail));
            }
        }
        "RollingUpdate" => {
            let at = at.field("rollingUpdate");
            let (surge, unavailable) = (at.field("maxSurge"), at.field("maxUnavailable"));
            let most = workload::amount(&rolling["maxSurge"], &surge, causes);
            let fewest = workload::amount(&rolling["maxUnavailable"], &unavailable, causes);
            workload::at_most_all(fewest, &rolling["maxUnavailable"], &unavailable, causes);
            if let (Some(most), Some(fewest)) = (most, fewest)
                && most.is_zero()
                && fewest.is_zero()
            {
                causes.push(unavailable.invalid(&rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0"));
            }
        }
        _ => causes.push(at.field("type").not_supported(&strategy["type"], &["Recreate", "RollingUpdate"])),
    }
}

fn validate_status(_old: &Value, new: &Value, causes: &mut Causes) {
    let counts =
        ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "collisionCount"];
    let parts = [
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ];
    workload::validate_counts(&new["status"], &counts, &parts, causes);
}
