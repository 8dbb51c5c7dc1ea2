//! Old sets beyond `spec.revisionHistoryLimit` go, the lowest revisions first (DEP-05).

use crate::plan::{Plan, Write};

use super::sets::{Set, Sets};
use super::spec::Deployment;

/// Deletes what the history has no room for. A set that has or wants pods stays.
pub(super) fn plan(deployment: &Deployment, sets: &Sets) -> Plan {
    let mut plan = Plan::default();
    let Some(limit) = deployment.history_limit else { return plan };
    let mut alive: Vec<&Set> = sets.old.iter().filter(|set| !set.object.is_deleting()).collect();
    let Some(surplus) = alive.len().checked_sub(limit) else { return plan };
    alive.sort_by_key(|set| set.revision());
    for set in alive.into_iter().take(surplus) {
        let generation = |value: &serde_json::Value| value.as_i64().unwrap_or_default();
        let seen =
            generation(&set.value["status"]["observedGeneration"]) >= generation(&set.value["metadata"]["generation"]);
        if set.size == 0 && set.replicas == 0 && seen {
            let (key, uid) = (set.object.key.clone(), set.object.uid);
            plan.writes.push(Write::Delete { key, uid, grace_seconds: None, propagation: None });
        }
    }
    plan
}
