//! How a deployment stands: counts, and the conditions Available, Progressing and `ReplicaFailure` (DEP-08, DEP-09).

use coracle_model::Millis;
use serde_json::{Value, json};

use crate::plan::Plan;
use crate::reconcile::{Context, conditions, retry_in_ms};

use super::sets::{Set, Sets};
use super::spec::Deployment;
use super::write_status;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
/// The reason when the new set was refused.
pub(super) const SET_CREATE_ERROR: &str = "ReplicaSetCreateError";

/// Writes the status if it is another one, and asks to be woken at the deadline.
pub(super) fn report(context: &Context<'_>, deployment: &Deployment, sets: &Sets) -> Plan {
    let mut plan = Plan::default();
    let mut status = counts(context, deployment, sets);
    if !deployment.paused && !deployment.object.is_deleting() {
        progress(context, deployment, sets, &mut status, &mut plan);
    }
    match sets.new.iter().chain(&sets.old).find_map(failure) {
        Some(failure) => put(context, &mut status, REPLICA_FAILURE, failure),
        None => conditions::remove(&mut status, REPLICA_FAILURE),
    }
    write_status(deployment, status, &mut plan);
    plan
}

/// Whether every pod that is wanted is of the new template and available, and no other is left.
pub(super) fn is_complete(deployment: &Deployment, sets: &Sets) -> bool {
    let wanted = deployment.replicas;
    let total: i64 = sets.all().map(|set| set.replicas).sum();
    sets.new.as_ref().is_some_and(|new| new.replicas == wanted) && total == wanted && sets.total_available() == wanted
}

/// A deployment that has just been paused or resumed says so, and its deadline starts anew (DEP-07).
pub(super) fn note_pause(context: &Context<'_>, deployment: &Deployment) -> Option<Plan> {
    deployment.progress_deadline_ms?;
    let before = &deployment.value["status"];
    let reason = conditions::reason(before, PROGRESSING);
    let said = match (deployment.paused, reason) {
        (_, TIMED_OUT) | (true, PAUSED) => return None,
        (true, _) => Said::unknown(PAUSED, "Deployment is paused"),
        (false, PAUSED) => Said::unknown("DeploymentResumed", "Deployment is resumed"),
        (false, _) => return None,
    };
    let mut plan = Plan::default();
    let mut status = before.clone();
    put(context, &mut status, PROGRESSING, said);
    write_status(deployment, status, &mut plan);
    Some(plan)
}

/// A set that was there before the deployment (adopted) counts as progress.
pub(super) fn note_found(context: &Context<'_>, deployment: &Deployment, new: &Set) -> Option<Plan> {
    deployment.progress_deadline_ms?;
    let before = &deployment.value["status"];
    if deployment.paused || conditions::get(before, PROGRESSING).is_some() {
        return None;
    }
    let mut plan = Plan::default();
    let mut status = before.clone();
    let message = format!("Found new replica set \"{}\"", new.object.name());
    put(context, &mut status, PROGRESSING, Said { status: "True", reason: "FoundNewReplicaSet".into(), message });
    write_status(deployment, status, &mut plan);
    Some(plan)
}

/// The status once the new set has been made.
pub(super) fn with_created(context: &Context<'_>, deployment: &Deployment, name: &str) -> Value {
    let mut status = deployment.value["status"].clone();
    if deployment.progress_deadline_ms.is_some() {
        let message = format!("Created new replica set \"{name}\"");
        put(context, &mut status, PROGRESSING, Said { status: "True", reason: "NewReplicaSetCreated".into(), message });
    }
    status
}

/// The new set was refused.
pub(super) fn set_refused(context: &Context<'_>, deployment: &Deployment, message: &str) -> Plan {
    let mut plan = Plan::default();
    let mut status = deployment.value["status"].clone();
    let said = Said { status: "False", reason: SET_CREATE_ERROR.into(), message: message.to_owned() };
    put(context, &mut status, PROGRESSING, said);
    let since = conditions::get(&status, PROGRESSING);
    let since = since.and_then(|known| conditions::stamp_ms(known, "lastUpdateTime")).unwrap_or(context.now.wall_ms);
    plan.wake(context.now.mono + retry_in_ms(context, since));
    write_status(deployment, status, &mut plan);
    plan
}

/// When to try again, if the new set has just been refused.
pub(super) fn retry_at(context: &Context<'_>, deployment: &Deployment) -> Option<Millis> {
    let known = conditions::get(&deployment.value["status"], PROGRESSING)?;
    let since = conditions::stamp_ms(known, "lastUpdateTime").filter(|_| known["reason"] == SET_CREATE_ERROR)?;
    let at = since.saturating_add(crate::reconcile::RETRY_MS);
    // A stamp of the future was made before the clock was set back, and says nothing.
    (since <= context.now.wall_ms && at > context.now.wall_ms).then(|| context.steady(at))
}

/// What a condition says.
struct Said {
    status: &'static str,
    reason: String,
    message: String,
}

impl Said {
    fn unknown(reason: &str, message: &str) -> Self {
        Self { status: "Unknown", reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// Puts a condition. One with the same status and reason stays as it is; with the same status it keeps the time of its
/// last transition.
fn put(context: &Context<'_>, status: &mut Value, kind: &str, said: Said) {
    let known = conditions::get(status, kind);
    if known.is_some_and(|known| known["status"] == said.status && known["reason"] == *said.reason) {
        return;
    }
    put_anew(context, status, kind, said);
}

/// Puts a condition, with the time of its last update in any case.
fn put_anew(context: &Context<'_>, status: &mut Value, kind: &str, said: Said) {
    let now = context.now.stamp();
    let known = conditions::get(status, kind).filter(|known| known["status"] == said.status);
    let since = known.map_or_else(|| json!(now), |known| known["lastTransitionTime"].clone());
    let condition = json!({
        "type": kind, "status": said.status, "lastUpdateTime": now, "lastTransitionTime": since,
        "reason": said.reason, "message": said.message,
    });
    conditions::put(status, condition);
}

fn counts(context: &Context<'_>, deployment: &Deployment, sets: &Sets) -> Value {
    let before = &deployment.value["status"];
    let sum = |count: fn(&Set) -> i64| sets.all().map(count).sum::<i64>();
    let available = sum(|set| set.available);
    let mut status = json!({});
    if let Some(generation) = deployment.value["metadata"]["generation"].as_i64() {
        status["observedGeneration"] = json!(generation);
    }
    for (field, count) in [
        ("replicas", sum(|set| set.replicas)),
        ("updatedReplicas", sets.new.as_ref().map_or(0, |new| new.replicas)),
        ("readyReplicas", sum(|set| set.ready)),
        ("availableReplicas", available),
        ("unavailableReplicas", (sum(|set| set.size) - available).max(0)),
    ] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    status["terminatingReplicas"] = json!(sum(|set| set.terminating));
    for field in ["collisionCount", "conditions"] {
        if let Some(kept) = before.get(field).filter(|kept| !kept.is_null()) {
            status[field] = kept.clone();
        }
    }
    let said = if available >= deployment.replicas - deployment.max_unavailable() {
        Said {
            status: "True",
            reason: "MinimumReplicasAvailable".into(),
            message: "Deployment has minimum availability.".into(),
        }
    } else {
        Said {
            status: "False",
            reason: "MinimumReplicasUnavailable".into(),
            message: "Deployment does not have minimum availability.".into(),
        }
    };
    put(context, &mut status, AVAILABLE, said);
    status
}

fn progress(context: &Context<'_>, deployment: &Deployment, sets: &Sets, status: &mut Value, plan: &mut Plan) {
    let Some(deadline_ms) = deployment.progress_deadline_ms else {
        conditions::remove(status, PROGRESSING);
        return;
    };
    let count = |status: &Value, field: &str| status[field].as_i64().unwrap_or_default();
    let reason = conditions::reason(status, PROGRESSING).to_owned();
    if reason == COMPLETE && count(status, "replicas") == count(status, "updatedReplicas") {
        return;
    }
    let subject = sets.new.as_ref().map_or_else(
        || format!("Deployment \"{}\"", deployment.object.name()),
        |new| format!("ReplicaSet \"{}\"", new.object.name()),
    );
    let before = &deployment.value["status"];
    let old = |status: &Value| count(status, "replicas") - count(status, "updatedReplicas");
    let moves = count(status, "updatedReplicas") != count(before, "updatedReplicas")
        || old(status) < old(before)
        || count(status, "readyReplicas") > count(before, "readyReplicas")
        || count(status, "availableReplicas") > count(before, "availableReplicas");
    if is_complete(deployment, sets) {
        let message = format!("{subject} has successfully progressed.");
        put(context, status, PROGRESSING, Said { status: "True", reason: COMPLETE.into(), message });
    } else if moves {
        let message = format!("{subject} is progressing.");
        put_anew(context, status, PROGRESSING, Said { status: "True", reason: "ReplicaSetUpdated".into(), message });
    } else if reason == TIMED_OUT || reason == COMPLETE {
        return;
    }
    let Some(known) = conditions::get(status, PROGRESSING).filter(|known| known["reason"] != COMPLETE) else { return };
    let since = conditions::stamp_ms(known, "lastUpdateTime").unwrap_or(context.now.wall_ms);
    let at = since.saturating_add(deadline_ms);
    if at < context.now.wall_ms {
        let message = format!("{subject} has timed out progressing.");
        put(context, status, PROGRESSING, Said { status: "False", reason: TIMED_OUT.into(), message });
    } else {
        // Stamps have whole seconds; a second later it is certain.
        plan.wake(context.steady(at.saturating_add(1000)));
    }
}

/// A set's `ReplicaFailure`.
fn failure(set: &Set) -> Option<Said> {
    let known = conditions::get(&set.value["status"], REPLICA_FAILURE)?;
    let text = |field: &str| known[field].as_str().unwrap_or_default().to_owned();
    let status = if known["status"] == "True" { "True" } else { "False" };
    Some(Said { status, reason: text("reason"), message: text("message") })
}
