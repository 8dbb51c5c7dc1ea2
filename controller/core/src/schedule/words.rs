//! What the scheduler writes: bindings, conditions, nominations and events, in Kubernetes' words.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Preemption, SCHEDULER_NAME};
use crate::clock::Now;
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::plan::{Note, Plan, Write};
use crate::rows::PodRow;
use crate::view::View;

/// The reason of the condition `DisruptionTarget` of a pod that preemption has asked to go.
const PREEMPTED: &str = "PreemptionByScheduler";

/// The profile by which a pod is placed: it is the author of what is written about it.
fn scheduler(pod: &Object) -> Cow<'static, str> {
    match pod.row.pod().map(PodRow::scheduler) {
        None | Some(SCHEDULER_NAME) => SCHEDULER_NAME.into(),
        Some(other) => other.to_owned().into(),
    }
}

/// A pod goes to a node.
pub(super) fn bind(pod: &Object, node: &Arc<str>) -> Plan {
    let message = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.name());
    let write = Write::Bind { key: pod.key.clone(), uid: pod.uid, node: node.to_string() };
    Plan { writes: vec![write], notes: vec![note(pod, scheduler(pod), false, "Scheduled", message)], wake_at: None }
}

/// A pod goes nowhere for now.
pub(super) fn unschedulable(view: &View, pod: &Object, message: String, preemption: Preemption, now: Now) -> Plan {
    let mut plan = Plan::default();
    let message = told(message, &preemption);
    let nominated = match preemption {
        Preemption::Waits => None,
        Preemption::None(_) => Some(None),
        Preemption::Victims { node, victims, losers } => {
            for victim in &victims.pods {
                preempt(view, &mut plan, &victim.key, pod, &node, now);
            }
            for loser in losers {
                clear_nomination(view, &mut plan, &loser);
            }
            Some(Some(node))
        }
    };
    if let Some(status) = status_with(pod, &message, nominated, now) {
        plan.writes.push(Write::Status { key: pod.key.clone(), expected: pod.revision, status });
    }
    plan.notes.push(note(pod, scheduler(pod), true, "FailedScheduling", message));
    plan
}

/// The whole line: why no node fits, and why preemption does not help. Of preemption that helps nothing is said.
pub(super) fn told(message: String, preemption: &Preemption) -> String {
    match about_preemption(preemption) {
        Some(words) => format!("{message} preemption: {words}"),
        None => message,
    }
}

/// Why preemption does not help; `None` if it does, or if there is nothing to say.
pub(super) fn about_preemption(preemption: &Preemption) -> Option<String> {
    match preemption {
        Preemption::Waits => Some("not eligible due to a terminating pod on the nominated node.".to_owned()),
        Preemption::None(words) => Some(words.clone()).filter(|words| !words.is_empty()),
        Preemption::Victims { .. } => None,
    }
}

/// Nobody here places a pod with this `schedulerName`, and perhaps nobody at all: one event says so, and no condition is
/// written. `None` if it was said already, by an earlier run of the controller.
pub(super) fn unknown_scheduler(view: &View, pod: &Object, known: &str) -> Option<Plan> {
    let name = pod.row.pod()?.scheduler();
    let message = format!("no profile of this scheduler is named \"{name}\", want one of {known}");
    let first = Key::new(Kind::EVENT, pod.namespace(), &format!("{}.", pod.name()));
    let mut events = view.list_from(&first).take_while(|event| event.name().starts_with(&*first.name));
    // A message is cut where it is too long for an event.
    let begins = |event: &Value| event["message"].as_str().is_some_and(|said| message.starts_with(said));
    let says_so = |event: &Value| {
        event["involvedObject"]["uid"] == pod.uid.to_string() && event["reason"] == "FailedScheduling" && begins(event)
    };
    if events.any(|event| says_so(&event.value())) {
        return None;
    }
    Some(Plan { notes: vec![note(pod, SCHEDULER_NAME.into(), true, "FailedScheduling", message)], ..Plan::default() })
}

/// Whether a pod's status says that preemption has asked it to go.
pub(super) fn is_preempted(status: &Value) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let target = conditions.find(|condition| condition["type"] == "DisruptionTarget");
    target.is_some_and(|target| target["status"] == "True" && target["reason"] == PREEMPTED)
}

/// One victim is asked to go.
fn preempt(view: &View, plan: &mut Plan, victim: &Key, pod: &Object, node: &str, now: Now) {
    let Some(victim) = view.get(victim).filter(|victim| !victim.is_deleting()) else { return };
    let mut status = victim.status();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": PREEMPTED,
        "message": format!("{}: preempting to accommodate a higher priority pod", scheduler(pod)),
        "lastProbeTime": null, "lastTransitionTime": now.stamp(),
    });
    crate::write::put_condition(&mut status, condition);
    let (key, uid) = (victim.key.clone(), victim.uid);
    plan.writes.push(Write::Status { key: key.clone(), expected: victim.revision, status });
    plan.writes.push(Write::Delete { key, uid, grace_seconds: None, propagation: None });
    plan.notes.push(note(
        victim,
        scheduler(pod),
        false,
        "Preempted",
        format!("Preempted by pod {} on node {node}", pod.uid),
    ));
}

/// A pod of lower priority loses the room that was held for it (PRI-08).
fn clear_nomination(view: &View, plan: &mut Plan, loser: &Key) {
    let Some(loser) = view.get(loser) else { return };
    let mut status = loser.status();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("nominatedNodeName");
    }
    let (key, expected) = (loser.key.clone(), loser.revision);
    plan.writes.push(Write::Status { key, expected, status });
}

/// The pod's status with the condition that says why it waits, and the node on which room is held for it (`None` to leave
/// that as it is); `None` if it says all this already.
fn status_with(pod: &Object, message: &str, nominated: Option<Option<Arc<str>>>, now: Now) -> Option<Value> {
    let mut status = pod.status();
    let conditions = status["conditions"].as_array();
    let old = conditions.and_then(|list| list.iter().find(|condition| condition["type"] == "PodScheduled"));
    let old = old.filter(|old| old["status"] == "False");
    let known = old.is_some_and(|old| old["reason"] == "Unschedulable" && old["message"] == message);
    // It moves only when the status does.
    let since = old.map_or_else(|| json!(now.stamp()), |old| old["lastTransitionTime"].clone());
    let before = status["nominatedNodeName"].as_str().map(ToOwned::to_owned);
    let held = match nominated {
        Some(nominated) => nominated.map(|node| node.to_string()),
        None => before.clone(),
    };
    if known && held == before {
        return None;
    }
    match held {
        Some(node) => status["nominatedNodeName"] = json!(node),
        None => {
            if let Some(fields) = status.as_object_mut() {
                fields.remove("nominatedNodeName");
            }
        }
    }
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "lastTransitionTime": since,
    });
    crate::write::put_condition(&mut status, condition);
    Some(status)
}

/// What the scheduler `by` says of a pod.
fn note(pod: &Object, by: Cow<'static, str>, warning: bool, reason: &str, message: String) -> Note {
    Note {
        about: pod.key.clone(),
        uid: pod.uid,
        field_path: String::new(),
        warning,
        reason: reason.to_owned(),
        message,
        component: by,
        host: String::new(),
    }
}
