//! What a pod's priority class means (PRI-02). The two classes of the system are known; others are not in this build.

use serde_json::{Value, json};

use super::at::{default, text};
use crate::error::ApiError;
use crate::kind::Kind;

/// The classes that every cluster has, with their values (PRI-01).
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// What a pod preempts when nothing else is said.
const PREEMPTION_POLICY: &str = "PreemptLowerPriority";

/// Resolves `priorityClassName` of a new pod into `priority` and `preemptionPolicy`.
///
/// # Errors
/// When there is no such class, or the pod states other values than its class.
pub(super) fn resolve(pod: &mut Value) -> Result<(), ApiError> {
    let name = text(&pod["metadata"], "name").to_owned();
    let refuse = |detail: &str| Err(ApiError::forbidden(Kind::POD, &name, detail));
    let spec = &mut pod["spec"];
    let class = text(spec, "priorityClassName");
    let priority = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == class) {
        Some((_, value)) => *value,
        None if class.is_empty() => 0,
        None => return refuse(&format!("no PriorityClass with name {class} was found")),
    };
    if let Some(stated) = spec["priority"].as_i64().filter(|stated| *stated != priority) {
        return refuse(&format!(
            "the integer value of priority ({stated}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(stated) = spec["preemptionPolicy"].as_str().filter(|stated| *stated != PREEMPTION_POLICY) {
        return refuse(&format!(
            "the string value of PreemptionPolicy ({stated}) must not be provided in pod spec; priority admission \
             controller computed {PREEMPTION_POLICY} from the given PriorityClass name"
        ));
    }
    default(spec, "priority", || json!(priority));
    default(spec, "preemptionPolicy", || json!(PREEMPTION_POLICY));
    Ok(())
}
