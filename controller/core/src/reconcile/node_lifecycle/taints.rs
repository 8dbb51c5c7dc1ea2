//! What a node's conditions and `spec.unschedulable` mean for pods, as taints.

use serde_json::{Value, json};

use crate::object::Object;
use crate::plan::{Plan, Write};
use crate::reconcile::{Context, conditions};

use super::{NOT_READY, Reach, UNREACHABLE};

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// A condition that is `True`, and the taint that says so.
const BY_CONDITION: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// Puts the taints that should be there, and takes out those that should not. Other people's taints stay; one with
/// `NoExecute` that does not say since when is given the time, from which tolerations count.
pub(super) fn plan(context: &Context<'_>, node: &Object, reach: Reach) -> Plan {
    let mut value = node.value();
    let wanted = wanted(&value, node, reach);
    let before = value["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let is = |taint: &Value, key: &str, effect: &str| taint["key"] == key && taint["effect"] == effect;
    let mut taints: Vec<Value> = before.clone();
    taints.retain(|taint| {
        let ours = OURS.iter().any(|(key, effect)| is(taint, key, effect));
        !ours || wanted.iter().any(|(key, effect)| is(taint, key, effect))
    });
    for taint in &mut taints {
        if taint["effect"] == NO_EXECUTE && taint["timeAdded"].is_null() {
            taint["timeAdded"] = json!(context.now.stamp());
        }
    }
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| is(taint, key, effect)) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": context.now.stamp()}));
        }
    }
    let mut plan = Plan::default();
    if taints != before {
        if let (true, Some(spec)) = (taints.is_empty(), value["spec"].as_object_mut()) {
            spec.remove("taints");
        } else {
            value["spec"]["taints"] = Value::Array(taints);
        }
        plan.writes.push(Write::Update { key: node.key.clone(), expected: node.revision, value });
    }
    plan
}

/// The taints that are put and taken out here.
const OURS: [(&str, &str); 9] = [
    (NOT_READY, NO_SCHEDULE),
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_SCHEDULE),
    (UNREACHABLE, NO_EXECUTE),
    (UNSCHEDULABLE, NO_SCHEDULE),
    (BY_CONDITION[0].1, NO_SCHEDULE),
    (BY_CONDITION[1].1, NO_SCHEDULE),
    (BY_CONDITION[2].1, NO_SCHEDULE),
    (BY_CONDITION[3].1, NO_SCHEDULE),
];

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

fn wanted(value: &Value, node: &Object, reach: Reach) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    match reach {
        Reach::Ready => {}
        Reach::NotReady => wanted.extend([(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)]),
        // Nothing is sent there, but what somebody has put there stays.
        Reach::Unheard => wanted.push((NOT_READY, NO_SCHEDULE)),
        Reach::Unknown => wanted.extend([(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)]),
    }
    for (condition, taint) in BY_CONDITION {
        if conditions::get(&value["status"], condition).is_some_and(|found| found["status"] == "True") {
            wanted.push((taint, NO_SCHEDULE));
        }
    }
    if node.row.node().is_some_and(|row| row.unschedulable) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    wanted
}
