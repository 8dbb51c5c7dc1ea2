//! Pods that no agent will ever speak of again (GC-01, GC-02, SAF-03): their node is gone for good, they never had one,
//! or they came to their end long ago.
//!
//! Its keys are pods, and one that is no pod: [`sweep_key`], under which ended pods are counted.

use std::sync::Arc;

use serde_json::json;

use crate::kind::Kind;
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::store::{Action, Change};
use crate::view::View;

use super::{Context, conditions, pods};

/// Ended pods that are kept (Kubernetes: `terminated-pod-gc-threshold`).
const KEPT_TERMINATED_PODS: usize = 12_500;
/// How often they are counted, in milliseconds.
const SWEEP_MS: u64 = 20_000;
/// A pod younger than this may name a node that is about to join, in milliseconds.
const QUARANTINE_MS: u64 = 40_000;

/// The taint by which somebody states that a node is off (SAF-03).
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Under this key ended pods are counted.
fn sweep_key() -> Key {
    Key::new(Kind::POD, "", "")
}

/// Pods are woken by themselves and by the end of their node.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    let object = &change.object;
    match object.key.kind {
        Kind::POD if change.action != Action::Deleted => {
            let node = object.row.pod().and_then(|row| row.node.as_deref());
            let lost = match node {
                None => object.is_deleting(),
                Some(node) => view.get(&node_key(node)).is_none_or(|node| object.is_deleting() && is_off(node)),
            };
            if lost {
                wake(object.key.clone());
            }
        }
        Kind::NODE if change.action == Action::Deleted || is_off(object) => {
            view.pods_on(object.name()).for_each(|pod| wake(pod.key.clone()));
        }
        Kind::NAMESPACE if change.action == Action::Added => wake(sweep_key()),
        _ => {}
    }
}

/// Removes the pod if it is lost; under [`sweep_key`], the oldest of too many ended ones.
pub(super) fn plan(context: &Context<'_>, key: &Key, _names: &mut Names) -> Plan {
    if *key == sweep_key() {
        return sweep(context);
    }
    let Some(pod) = context.view.get(key) else { return Plan::default() };
    let Some(row) = pod.row.pod() else { return Plan::default() };
    // Its finalizers are all that holds it; there is nothing more to say.
    if pod.finalizers && pod.is_deleting() && row.deletion_grace_ms == Some(0) {
        return Plan::default();
    }
    let Some(node) = row.node.as_deref() else {
        let writes = if pod.is_deleting() { vec![remove(pod)] } else { Vec::new() };
        return Plan { writes, ..Plan::default() };
    };
    match context.view.get(&node_key(node)) {
        None => {
            let due_ms = pod.created_ms.saturating_add(QUARANTINE_MS);
            if due_ms > context.now.wall_ms && !pod.is_deleting() {
                return Plan { wake_at: Some(context.steady(due_ms)), ..Plan::default() };
            }
            Plan { writes: fail_and_remove(context, pod, "PodGC: node no longer exists"), ..Plan::default() }
        }
        Some(node) if pod.is_deleting() && is_off(node) => {
            Plan { writes: fail_and_remove(context, pod, "PodGC: node is out of service"), ..Plan::default() }
        }
        Some(_) => Plan::default(),
    }
}

fn node_key(name: &str) -> Key {
    Key::new(Kind::NODE, "", name)
}

/// Not ready, and stated to be out of service.
fn is_off(node: &Object) -> bool {
    node.row.node().is_some_and(|row| !row.ready && row.taints.iter().any(|taint| &*taint.key == OUT_OF_SERVICE))
}

fn remove(pod: &Object) -> Write {
    Write::Remove { key: pod.key.clone(), uid: pod.uid }
}

fn fail_and_remove(context: &Context<'_>, pod: &Object, message: &str) -> Vec<Write> {
    let mut writes = Vec::new();
    if !pods::is_terminal(pod) {
        let mut status = pod.value()["status"].take();
        conditions::put(
            &mut status,
            json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": context.now.stamp(), "reason": "DeletionByPodGC", "message": message,
            }),
        );
        status["phase"] = json!("Failed");
        writes.push(Write::Status { key: pod.key.clone(), expected: pod.revision, status });
    }
    writes.push(remove(pod));
    writes
}

fn sweep(context: &Context<'_>) -> Plan {
    let mut plan = Plan { wake_at: Some(context.now.mono + SWEEP_MS), ..Plan::default() };
    // Fewer pods than that, ended or not: nothing to count.
    if context.view.list(Kind::POD, None).nth(KEPT_TERMINATED_PODS).is_none() {
        return plan;
    }
    let ended = context.view.list(Kind::POD, None).filter(|pod| pods::is_terminal(pod) && !pod.is_deleting());
    let mut ended: Vec<&Arc<Object>> = ended.collect();
    if let Some(surplus) = ended.len().checked_sub(KEPT_TERMINATED_PODS).filter(|surplus| *surplus > 0) {
        ended.sort_by(|one, two| (one.created_ms, &one.key).cmp(&(two.created_ms, &two.key)));
        plan.writes.extend(ended[..surplus].iter().map(|pod| pods::delete(pod)));
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Now;
    use crate::nodes::leases::Leases;

    // GC-01
    #[test]
    fn the_oldest_of_too_many_ended_pods_go() {
        let pod = |index: usize, phase: &str| {
            let value = json!({
                "metadata": {
                    "name": format!("p{index}"), "namespace": "default",
                    "uid": coracle_model::PodUid(index as u128 + 1).to_string(),
                    "creationTimestamp": crate::clock::stamp(1_000 * (20_000 - index as u64)),
                },
                "status": {"phase": phase},
            });
            Arc::new(Object::from_value(Kind::POD, 1, value).expect("a pod"))
        };
        let ended = (0..KEPT_TERMINATED_PODS + 2).map(|index| pod(index, "Succeeded"));
        let view = View::new(1, ended.chain([pod(15_000, "Running")]));
        let leases = Leases::default();
        let context = Context { view: &view, now: Now::default(), leases: &leases };
        let plan = plan(&context, &sweep_key(), &mut Names::new(1));
        let names: Vec<&str> = plan
            .writes
            .iter()
            .map(|write| match write {
                Write::Delete { key, .. } => &*key.name,
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(names, ["p12501", "p12500"]);
        assert_eq!(plan.wake_at, Some(context.now.mono + SWEEP_MS));
    }
}
