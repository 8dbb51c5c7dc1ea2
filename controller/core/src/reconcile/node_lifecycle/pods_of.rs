//! What the API says of the pods of a node that is not ready: not ready, and, when they are to go and nobody answers,
//! that the node is lost (SAF-02, SAF-09). Their phase is the agent's to change.

use serde_json::{Value, json};

use crate::object::Object;
use crate::plan::{Plan, Write};
use crate::reconcile::{Context, conditions, note, pods};

use super::{COMPONENT, Reach};

/// `status.reason` of a pod that is to go, on a node that does not answer.
const NODE_LOST: &str = "NodeLost";

/// Brings the statuses of the node's pods up to date.
pub(super) fn plan(context: &Context<'_>, node: &Object, reach: Reach) -> Plan {
    let mut plan = Plan::default();
    for pod in context.view.pods_on(node.name()) {
        let loses_ready = reach != Reach::Ready && pods::is_ready(pod);
        if !loses_ready && !pods::is_terminating(pod) {
            continue;
        }
        let before = pod.value()["status"].take();
        let mut status = before.clone();
        if loses_ready {
            lose_ready(context, &mut status);
            plan.notes.push(note(pod, COMPONENT, true, "NodeNotReady", "Node is not ready".to_owned()));
        }
        if pods::is_terminating(pod) {
            mark_lost(&mut status, node, pod, reach == Reach::Unknown);
        }
        if status != before {
            plan.writes.push(Write::Status { key: pod.key.clone(), expected: pod.revision, status });
        }
    }
    plan
}

fn lose_ready(context: &Context<'_>, status: &mut Value) {
    let Some(mut ready) = conditions::get(status, "Ready").cloned() else { return };
    ready["status"] = json!("False");
    ready["reason"] = json!("NodeNotReady");
    ready["message"] = json!("Node is not ready");
    ready["lastTransitionTime"] = json!(context.now.stamp());
    conditions::put(status, ready);
}

fn mark_lost(status: &mut Value, node: &Object, pod: &Object, lost: bool) {
    if lost && status["reason"] != NODE_LOST {
        status["reason"] = json!(NODE_LOST);
        let message = format!("Node {} which was running pod {} is unresponsive", node.name(), pod.name());
        status["message"] = json!(message);
    } else if !lost
        && status["reason"] == NODE_LOST
        && let Some(fields) = status.as_object_mut()
    {
        fields.remove("reason");
        fields.remove("message");
    }
}
