//! `PodDisruptionBudget`: how many of its pods may be evicted now (PDB-01).
//!
//! The status is what others read: people, and preemption. An eviction counts anew ([`Standing::of`]), so that two of
//! them never spend one allowance, and no list of pods whose end is not seen yet has to be kept.

mod standing;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::kind::{Kind, Subresource};
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::selector::LabelSelector;
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, conditions, note, pods};

pub use standing::{Standing, budgets_of};

const COMPONENT: &str = "controllermanager";
const ALLOWED: &str = "DisruptionAllowed";

/// A budget is woken by itself, by pods that it means or has meant, and by the size of who controls pods.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    let object = &change.object;
    let kind = object.key.kind;
    if kind == Kind::POD_DISRUPTION_BUDGET {
        if change.action != Action::Deleted {
            wake(object.key.clone());
        }
    } else if kind == Kind::POD && pods::counts_otherwise(change) {
        for budget in view.list(Kind::POD_DISRUPTION_BUDGET, Some(object.namespace())) {
            let meant = selector(&budget.value());
            let before = change.previous.as_ref().is_some_and(|before| meant.matches(&before.labels));
            if before || meant.matches(&object.labels) {
                wake(budget.key.clone());
            }
        }
    } else if kind.info().subresources.contains(&Subresource::Scale) {
        let mut budgets = view.list(Kind::POD_DISRUPTION_BUDGET, Some(object.namespace())).peekable();
        if budgets.peek().is_some() && has_another_size(change) {
            budgets.for_each(|budget| wake(budget.key.clone()));
        }
    }
}

fn has_another_size(change: &Change) -> bool {
    let size = |object: &Object| object.value()["spec"]["replicas"].take();
    change.previous.as_ref().is_none_or(|before| size(before) != size(&change.object))
}

/// The pods that a budget means; a selector that cannot be read means none.
fn selector(budget: &Value) -> LabelSelector {
    LabelSelector::of_json(&budget["spec"]["selector"]).unwrap_or_else(|_| LabelSelector::nothing())
}

/// Counts, and says so in the status.
pub(super) fn plan(context: &Context<'_>, key: &Key, _names: &mut Names) -> Plan {
    let mut plan = Plan::default();
    let Some(budget) = context.view.get(key) else { return plan };
    let value = budget.value();
    let standing = Standing::of(context.view, budget);
    let status = match &standing {
        Ok(standing) => counted(context, &value, standing),
        Err(message) => failed(context, &value, message),
    };
    if status == value["status"] {
        return plan;
    }
    plan.writes.push(Write::Status { key: key.clone(), expected: budget.revision, status });
    match standing {
        Err(message) => {
            let message = format!("Failed to calculate the number of expected pods: {message}");
            plan.notes.push(note(budget, COMPONENT, true, "CalculateExpectedPodCountFailed", message));
        }
        Ok(Standing { pods: 0, .. }) => {
            plan.notes.push(note(budget, COMPONENT, false, "NoPods", "No matching pods found".to_owned()));
        }
        Ok(Standing { unmanaged: 1.., .. }) => {
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the \
                 status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
                 these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
                selector(&value)
            );
            plan.notes.push(note(budget, COMPONENT, true, "UnmanagedPods", message));
        }
        Ok(_) => {}
    }
    plan
}

fn counted(context: &Context<'_>, budget: &Value, standing: &Standing) -> Value {
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    let mut status = json!({
        "currentHealthy": standing.healthy, "desiredHealthy": standing.desired, "expectedPods": standing.expected,
        "disruptionsAllowed": standing.allowed(), "observedGeneration": generation,
        "conditions": budget["status"]["conditions"].as_array().cloned().unwrap_or_default(),
    });
    let said = if standing.allowed() > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    put(context, &mut status, said, "", generation);
    status
}

/// Nobody may be evicted while it is not known how many there should be.
fn failed(context: &Context<'_>, budget: &Value, message: &str) -> Value {
    let mut status = budget["status"].clone();
    let observed = status["observedGeneration"].as_i64().unwrap_or_default();
    for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        status[field] = json!(status[field].as_i64().unwrap_or_default());
    }
    status["disruptionsAllowed"] = json!(0);
    put(context, &mut status, ("False", "SyncFailed"), message, observed);
    status
}

/// Puts the condition; it keeps the time of its last transition while its status is the same.
fn put(context: &Context<'_>, status: &mut Value, (is, reason): (&str, &str), message: &str, generation: i64) {
    let known = conditions::get(status, ALLOWED).filter(|known| known["status"] == is);
    let since = known.map_or_else(|| json!(context.now.stamp()), |known| known["lastTransitionTime"].clone());
    let condition = json!({
        "type": ALLOWED, "status": is, "observedGeneration": generation, "lastTransitionTime": since,
        "reason": reason, "message": message,
    });
    conditions::put(status, condition);
}
