//! A node whose lease is over: what it said last is not known to be true any more.

use coracle_model::limits::LEASE_MS;
use serde_json::{Value, json};

use crate::object::Object;
use crate::plan::{Plan, Write};
use crate::reconcile::{Context, conditions, note};

use super::{COMPONENT, Reach};

/// The conditions that a node speaks of.
const SPOKEN_OF: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Sets `Ready` to `Unknown` once the lease is over, and asks to be woken when it will be.
pub(super) fn plan(context: &Context<'_>, node: &Object) -> (Plan, Reach) {
    let mut plan = Plan::default();
    let value = node.value();
    let status = &value["status"];
    let ready = conditions::get(status, "Ready").and_then(|condition| condition["status"].as_str());
    let reach = match ready {
        Some("True") => Reach::Ready,
        Some("False") => Reach::NotReady,
        Some(_) => Reach::Unknown,
        None => Reach::Unheard,
    };
    // A node that has never been heard gets its time from when it was made; not from a stamp of the future, which a wall
    // clock that was set back leaves behind.
    let made = Some(context.steady(node.created_ms))
        .filter(|made| *made <= context.now.mono && !context.leases.has_heard(node.name()));
    let heard = context.leases.renewed_at(node.name()).max(made.unwrap_or_default());
    let over_at = heard + LEASE_MS;
    if context.now.mono < over_at {
        plan.wake(over_at);
        return (plan, reach);
    }
    if ready == Some("Unknown") {
        return (plan, reach);
    }
    let mut silenced = status.clone();
    for kind in SPOKEN_OF {
        silence(context, &mut silenced, kind);
    }
    plan.writes.push(Write::Status { key: node.key.clone(), expected: node.revision, status: silenced });
    if reach == Reach::Ready {
        let message = format!("Node {} status is now: NodeNotReady", node.name());
        plan.notes.push(note(node, COMPONENT, false, "NodeNotReady", message));
    }
    (plan, Reach::Unknown)
}

fn silence(context: &Context<'_>, status: &mut Value, kind: &str) {
    let now = context.now.stamp();
    let Some(known) = conditions::get(status, kind) else {
        if kind == "Ready" {
            let condition = json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            });
            conditions::put(status, condition);
        }
        return;
    };
    if known["status"] == "Unknown" {
        return;
    }
    let mut condition = known.clone();
    condition["status"] = json!("Unknown");
    condition["reason"] = json!("NodeStatusUnknown");
    condition["message"] = json!("Kubelet stopped posting node status.");
    condition["lastTransitionTime"] = json!(now);
    conditions::put(status, condition);
}
