//! Pods that do not tolerate a `NoExecute` taint, or not for so long (SAF-02). Daemon pods tolerate the node's own
//! taints for ever (DS-03).

use serde::Deserialize;
use serde_json::json;

use crate::object::Object;
use crate::plan::{Plan, Write};
use crate::reconcile::tolerations::{Stay, Toleration, stay};
use crate::reconcile::{Context, conditions, note, pods};
use crate::rows::Taint;

use super::{NOT_READY, Reach, UNREACHABLE};

const COMPONENT: &str = "taint-eviction-controller";

/// Ends the pods whose time is up, and asks to be woken for the others.
pub(super) fn plan(context: &Context<'_>, node: &Object, reach: Reach) -> Plan {
    let mut plan = Plan::default();
    let taints = node.row.node().map(|row| row.taints.as_slice()).unwrap_or_default();
    let taints: Vec<&Taint> = taints.iter().filter(|taint| &*taint.effect == "NoExecute").collect();
    if taints.is_empty() {
        return plan;
    }
    for pod in context.view.pods_on(node.name()).filter(|pod| pods::is_active(pod)) {
        match evicted_at_ms(context, node, reach, pod, &taints) {
            Some(at) if at <= context.now.wall_ms => evict(context, pod, &mut plan),
            Some(at) => plan.wake(context.steady(at)),
            None => {}
        }
    }
    plan
}

/// When a pod goes, in milliseconds since 1970; `None` if it stays.
fn evicted_at_ms(context: &Context<'_>, node: &Object, reach: Reach, pod: &Object, taints: &[&Taint]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Pod {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        #[serde(default)]
        tolerations: Vec<Toleration>,
    }
    let tolerations = pod.decode::<Pod>().map(|pod| pod.spec.tolerations).unwrap_or_default();
    let limits = taints.iter().filter_map(|taint| match stay(&tolerations, taint) {
        Stay::Always => None,
        Stay::No => Some(0),
        Stay::Seconds(seconds) => Some(since_ms(context, node, reach, pod, taint).saturating_add(seconds * 1000)),
    });
    limits.min()
}

/// From when a toleration counts: from the taint, from the pod, and, for a silent node, from when it was last heard.
/// The last one is what gives every node its full time after a restart of the controller, and what keeps a wall clock that
/// jumps forward from evicting anybody. For such a node, stamps of the future, which one that jumps back leaves behind,
/// do not count.
fn since_ms(context: &Context<'_>, node: &Object, reach: Reach, pod: &Object, taint: &Taint) -> u64 {
    let since = taint.added_ms.unwrap_or(context.now.wall_ms).max(pod.created_ms);
    if reach == Reach::Ready || ![NOT_READY, UNREACHABLE].contains(&&*taint.key) {
        return since;
    }
    let silent_ms = context.now.mono.since(context.leases.renewed_at(node.name()));
    let heard_ms = context.now.wall_ms.saturating_sub(silent_ms);
    if since > context.now.wall_ms { heard_ms } else { since.max(heard_ms) }
}

fn evict(context: &Context<'_>, pod: &Object, plan: &mut Plan) {
    let mut status = pod.value()["status"].take();
    conditions::put(
        &mut status,
        json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": context.now.stamp(), "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }),
    );
    plan.writes.push(Write::Status { key: pod.key.clone(), expected: pod.revision, status });
    plan.writes.push(pods::delete(pod));
    let message = format!("Marking for deletion Pod {}/{}", pod.namespace(), pod.name());
    plan.notes.push(note(pod, COMPONENT, false, "TaintManagerEviction", message));
}
