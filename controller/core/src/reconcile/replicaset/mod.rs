//! `ReplicaSet`: as many pods as `spec.replicas` says (RS-01 to RS-06).

mod rank;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::kind::Kind;
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::selector::LabelSelector;
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, MAX_BURST, RETRY_MS, claim, conditions, note, pods, retry_in_ms, template};

const COMPONENT: &str = "replicaset-controller";
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// How long a failed pod counts against making more at once, in milliseconds.
const FAILURES_COUNT_MS: u64 = 600_000;

/// A set is woken by itself and by its pods.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    match change.object.key.kind {
        Kind::REPLICA_SET if change.action != Action::Deleted => wake(change.object.key.clone()),
        Kind::POD if pods::counts_otherwise(change) => claim::wake_owners(view, change, Kind::REPLICA_SET, wake),
        _ => {}
    }
}

/// Claims, then creates or deletes, then says how it stands.
pub(super) fn plan(context: &Context<'_>, key: &Key, names: &mut Names) -> Plan {
    let Some(set) = context.view.get(key) else { return Plan::default() };
    let value = set.value();
    let Ok(selector) = LabelSelector::of_json(&value["spec"]["selector"]) else { return Plan::default() };
    let claimed = claim::claim(context, set, &selector, Kind::POD);
    if !claimed.writes.is_empty() {
        return Plan { writes: claimed.writes, ..Plan::default() };
    }
    let replicas = wanted(&value);
    let active: Vec<_> = claimed.objects.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let mut plan = Plan::default();
    if set.is_deleting() || active.len() == replicas {
        // Nothing to make or to end.
    } else if active.len() > replicas {
        let surplus = active.len() - replicas;
        delete(context, set, active.clone(), surplus, &mut plan);
    } else if let Some(at_ms) = not_before_ms(context, set, &value["status"], &claimed.objects, replicas) {
        plan.wake(context.steady(at_ms));
    } else {
        create(context, set, &value["spec"]["template"], replicas - active.len(), names, &mut plan);
    }
    if plan.writes.is_empty() {
        let mut status = status(context, &value, &claimed.objects, &mut plan);
        if set.is_deleting() || active.len() >= replicas {
            conditions::remove(&mut status, REPLICA_FAILURE);
        }
        write_status(set, &value["status"], status, &mut plan);
    }
    plan
}

/// The condition `ReplicaFailure` and the event `FailedCreate` (RS-05, RS-06).
pub(super) fn create_failed(context: &Context<'_>, set: &Object, error: &ApiError) -> Plan {
    let mut plan = Plan::default();
    let value = set.value();
    let Ok(selector) = LabelSelector::of_json(&value["spec"]["selector"]) else { return plan };
    let claimed = claim::claim(context, set, &selector, Kind::POD);
    let mut status = status(context, &value, &claimed.objects, &mut plan);
    let mut since_ms = context.now.wall_ms;
    match conditions::get(&status, REPLICA_FAILURE).filter(|known| known["reason"] == "FailedCreate") {
        // It keeps its words and its stamp for as long as the reason is the same.
        Some(known) => since_ms = conditions::stamp_ms(known, "lastTransitionTime").unwrap_or(since_ms),
        None => conditions::put(
            &mut status,
            json!({
                "type": REPLICA_FAILURE, "status": "True", "lastTransitionTime": context.now.stamp(),
                "reason": "FailedCreate", "message": error.message,
            }),
        ),
    }
    write_status(set, &value["status"], status, &mut plan);
    plan.notes.push(note(set, COMPONENT, true, "FailedCreate", format!("Error creating: {}", error.message)));
    plan.wake(context.now.mono + retry_in_ms(context, since_ms));
    plan
}

/// `spec.replicas`; 1 when it is not said.
fn wanted(set: &Value) -> usize {
    set["spec"]["replicas"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
}

/// Until when no pod is to be made, in milliseconds since 1970; `None` when one may be made now.
///
/// Pods that fail as soon as they are made (a node refuses them) would otherwise be replaced as fast as messages
/// travel. The first replacement of each is made at once; from then on the pause doubles with every failure.
fn not_before_ms(
    context: &Context<'_>,
    set: &Object,
    status: &Value,
    owned: &[Arc<Object>],
    replicas: usize,
) -> Option<u64> {
    let now = context.now.wall_ms;
    if !context.is_open(set.namespace()) {
        return Some(now.saturating_add(RETRY_MS));
    }
    let refused = conditions::get(status, REPLICA_FAILURE);
    // A stamp of the future was made before the clock was set back, and says nothing.
    let refused = refused.and_then(|condition| conditions::stamp_ms(condition, "lastTransitionTime"));
    let refused = refused.filter(|since| *since <= now);
    let failed = owned.iter().filter(|pod| pods::is_terminal(pod) && !pod.is_deleting());
    let failed = failed.filter(|pod| pod.created_ms <= now);
    let recent = failed.filter(|pod| pod.created_ms.saturating_add(FAILURES_COUNT_MS) > now);
    let (count, newest) = recent.fold((0, 0), |(count, newest), pod| (count + 1, pod.created_ms.max(newest)));
    let excess = u32::try_from(count / replicas.max(1)).unwrap_or(u32::MAX);
    let pause = if excess < 2 { 0 } else { RETRY_MS << excess.min(8) };
    let failing = (pause > 0).then(|| newest.saturating_add(pause));
    let until = refused.map(|since| since.saturating_add(RETRY_MS)).max(failing)?;
    (until > now).then_some(until)
}

fn create(context: &Context<'_>, set: &Object, template: &Value, missing: usize, names: &mut Names, plan: &mut Plan) {
    let mut taken = BTreeSet::new();
    let prefix = format!("{}-", set.name());
    for _ in 0..missing.min(MAX_BURST) {
        let name = pods::free_name(context, set.namespace(), &prefix, &mut taken, names);
        let value = template::pod(set, template, &name);
        plan.writes.push(Write::Create { kind: Kind::POD, namespace: set.namespace().to_owned(), value });
        plan.notes.push(note(set, COMPONENT, false, "SuccessfulCreate", format!("Created pod: {name}")));
    }
}

fn delete(context: &Context<'_>, set: &Object, active: Vec<Arc<Object>>, surplus: usize, plan: &mut Plan) {
    for pod in rank::first_to_go(context, set, active, surplus.min(MAX_BURST)) {
        plan.writes.push(pods::delete(&pod));
        let message = format!("Deleted pod: {}", pod.name());
        plan.notes.push(note(set, COMPONENT, false, "SuccessfulDelete", message));
    }
}

/// `status`, with the conditions as they are (RS-05).
fn status(context: &Context<'_>, set: &Value, owned: &[Arc<Object>], plan: &mut Plan) -> Value {
    let spec = &set["spec"];
    let min_ready_seconds = spec["minReadySeconds"].as_u64().unwrap_or_default();
    let labels = spec["template"]["metadata"]["labels"].as_object();
    let (mut replicas, mut labelled, mut ready, mut available, mut terminating) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    for pod in owned {
        terminating += u64::from(pods::is_terminating(pod));
        if !pods::is_active(pod) {
            continue;
        }
        replicas += 1;
        let has =
            |(name, value): (&String, &Value)| pod.labels.get(name.as_str()).map(|label| &**label) == value.as_str();
        labelled += u64::from(labels.into_iter().flatten().all(has));
        ready += u64::from(pods::is_ready(pod));
        available += u64::from(pods::is_available(context, pod, min_ready_seconds, plan));
    }
    let mut status = json!({"replicas": replicas});
    for (field, count) in
        [("fullyLabeledReplicas", labelled), ("readyReplicas", ready), ("availableReplicas", available)]
    {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    status["terminatingReplicas"] = json!(terminating);
    if let Some(generation) = set["metadata"]["generation"].as_u64() {
        status["observedGeneration"] = json!(generation);
    }
    if let Some(known) = set["status"]["conditions"].as_array().filter(|list| !list.is_empty()) {
        status["conditions"] = json!(known);
    }
    status
}

fn write_status(set: &Object, before: &Value, status: Value, plan: &mut Plan) {
    if *before != status {
        plan.writes.push(Write::Status { key: set.key.clone(), expected: set.revision, status });
    }
}
