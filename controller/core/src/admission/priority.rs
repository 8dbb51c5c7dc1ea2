//! What a pod's priority class means (PRI-02).

use serde_json::{Value, json};

use super::at::{default, text};
use super::priority_class::{self, Class};
use crate::error::ApiError;
use crate::kind::Kind;
use crate::view::View;

/// Resolves `priorityClassName` of a new pod into `priority` and `preemptionPolicy`. A pod that names no class gets the
/// cluster's default class; without one its priority is 0.
///
/// # Errors
/// When there is no such class, or the pod states other values than its class.
pub(super) fn resolve(view: &View, pod: &mut Value) -> Result<(), ApiError> {
    let name = text(&pod["metadata"], "name").to_owned();
    let refuse = |detail: &str| Err(ApiError::forbidden(Kind::POD, &name, detail));
    let spec = &mut pod["spec"];
    let stated = text(spec, "priorityClassName");
    let found = if stated.is_empty() { priority_class::default_of(view) } else { priority_class::find(view, stated) };
    let class = match found {
        Some(class) => class,
        None if stated.is_empty() => Class::none(),
        None => return refuse(&format!("no PriorityClass with name {stated} was found")),
    };
    let Class { name: class, value: priority, preemption_policy } = class;
    if let Some(stated) = spec["priority"].as_i64().filter(|stated| *stated != priority) {
        return refuse(&format!(
            "the integer value of priority ({stated}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(stated) = spec["preemptionPolicy"].as_str().filter(|stated| *stated != preemption_policy) {
        return refuse(&format!(
            "the string value of PreemptionPolicy ({stated}) must not be provided in pod spec; priority admission \
             controller computed {preemption_policy} from the given PriorityClass name"
        ));
    }
    if !class.is_empty() {
        spec["priorityClassName"] = json!(class);
    }
    default(spec, "priority", || json!(priority));
    default(spec, "preemptionPolicy", || json!(preemption_policy));
    Ok(())
}
