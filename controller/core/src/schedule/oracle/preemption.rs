//! Whom preemption asks to go (PRI-04 to PRI-08).

use std::cmp::Reverse;

use serde_json::Value;

use super::filters::{Refusal, fits};
use super::objects::{Cluster, Placed, is_ending, list, name, namespace, priority, text};
use super::selectors::selects;

/// What comes of a pod that fits nowhere.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// Nobody goes, and no room is held.
    Nobody,
    /// Those that were asked to go are still going; the room stays held.
    Waits,
    /// These go from this node (by uid), and its room is held; so many of them break a budget.
    Victims { node: String, victims: Vec<String>, violations: usize },
}

/// Without a start, a pod is about to start.
fn started(pod: &Value) -> String {
    pod["status"]["startTime"].as_str().unwrap_or("9999").to_owned()
}

/// Which of these pods, if all of them went in this order, would break a budget.
fn breaks_budget(cluster: &Cluster, pods: &[Placed<'_>]) -> Vec<bool> {
    let mut allowed: Vec<i64> =
        cluster.budgets.iter().map(|budget| budget["status"]["disruptionsAllowed"].as_i64().unwrap()).collect();
    let mut breaks = Vec::new();
    for (pod, _) in pods {
        let mut any = false;
        for (budget, allowed) in cluster.budgets.iter().zip(&mut allowed) {
            let (labels, selector) = (&pod["metadata"]["labels"], &budget["spec"]["selector"]);
            // An empty selector protects nobody, and none protects a pod without labels.
            let counts =
                has_any(labels) && (has_any(&selector["matchLabels"]) || has_any(&selector["matchExpressions"]));
            if counts && namespace(budget) == namespace(pod) && selects(selector, labels) {
                *allowed -= 1;
                any |= *allowed < 0;
            }
        }
        breaks.push(any);
    }
    breaks
}

fn has_any(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| !fields.is_empty()) || list(value).next().is_some()
}

struct Victims<'a> {
    /// The most important first.
    pods: Vec<&'a Value>,
    violations: usize,
}

/// Who would go from one node; `None` if that would not help.
fn victims<'a>(cluster: &'a Cluster, pod: &Value, node: &'a Value, placed: &[Placed<'a>]) -> Option<Victims<'a>> {
    let is_lower = |(other, on): &Placed<'a>| name(on) == name(node) && priority(other) < priority(pod);
    let (mut lower, mut kept): (Vec<Placed<'a>>, Vec<Placed<'a>>) = placed.iter().copied().partition(is_lower);
    if lower.is_empty() || fits(cluster, pod, node, &kept).is_err() {
        return None;
    }
    let importance = |pod: &Value| (Reverse(priority(pod)), started(pod));
    lower.sort_by_key(|(other, _)| importance(other));
    let breaks = breaks_budget(cluster, &lower);
    let (mut pods, mut violations) = (Vec::new(), 0);
    // Those that would break a budget are the first to be spared.
    for round in [true, false] {
        for (spared, breaks) in lower.iter().zip(&breaks).filter(|(_, breaks)| **breaks == round) {
            kept.push(*spared);
            if fits(cluster, pod, node, &kept).is_err() {
                kept.pop();
                pods.push(spared.0);
                violations += usize::from(*breaks);
            }
        }
    }
    pods.sort_by_key(|victim| importance(victim));
    Some(Victims { pods, violations })
}

fn is_preempted(pod: &Value) -> bool {
    let mut conditions = list(&pod["status"]["conditions"]);
    let target = conditions.find(|condition| condition["type"] == "DisruptionTarget");
    is_ending(pod) && target.is_some_and(|target| target["reason"] == "PreemptionByScheduler")
}

/// What should come of a pod that fits nowhere.
pub(super) fn outcome(cluster: &Cluster, pod: &Value) -> Outcome {
    if pod["spec"]["preemptionPolicy"] == "Never" || !cluster.profile(pod).preempts() {
        return Outcome::Nobody;
    }
    let placed = cluster.placed();
    if let Some(node) = cluster.node(text(&pod["status"], "nominatedNodeName")) {
        let is_going =
            |(other, on): &Placed<'_>| name(on) == name(node) && priority(other) < priority(pod) && is_preempted(other);
        if fits(cluster, pod, node, &placed) != Err(Refusal::ForGood) && placed.iter().any(is_going) {
            return Outcome::Waits;
        }
    }
    let candidates = cluster.nodes.iter().filter_map(|node| Some((node, victims(cluster, pod, node, &placed)?)));
    let best = candidates.min_by_key(|(_, Victims { pods, violations })| {
        let highest = priority(pods[0]);
        let sum: i64 = pods.iter().map(|victim| priority(victim) + (1 << 31)).sum();
        let most_important = pods.iter().filter(|victim| priority(victim) == highest);
        let start = most_important.map(|victim| started(victim)).min();
        (*violations, highest, sum, pods.len(), Reverse(start))
    });
    best.map_or(Outcome::Nobody, |(node, victims)| {
        let uids = victims.pods.iter().map(|victim| text(&victim["metadata"], "uid").to_owned()).collect();
        Outcome::Victims { node: name(node).to_owned(), victims: uids, violations: victims.violations }
    })
}
