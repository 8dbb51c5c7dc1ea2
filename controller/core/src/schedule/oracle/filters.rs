//! Where a pod can go (SCH-01, TSC-03).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::{Cluster, Placed, label, list, name, priority, text};
use super::requests::{amount, host_ports, request};
use super::selectors::{
    required, spread_counts, spread_includes, spread_matches, term_is_about, tolerates, tolerates_hard_taints,
    wants_node,
};

/// Why a pod cannot go to a node: whether the going of pods that are there could help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `UnschedulableAndUnresolvable`
    ForGood,
    /// `Unschedulable`
    ForNow,
}

type Checked = Result<(), Refusal>;

fn or(refusal: Refusal, passes: bool) -> Checked {
    if passes { Ok(()) } else { Err(refusal) }
}

/// Whether a pod fits on a node beside the pods that are there and those of no lower priority that room is held for.
pub(super) fn fits(cluster: &Cluster, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Checked {
    let held = cluster.nominees(node, pod).filter(|nominee| priority(nominee) >= priority(pod));
    let held: Vec<Placed<'_>> = held.map(|nominee| (nominee, node)).collect();
    if !held.is_empty() {
        check(cluster, pod, node, &[placed, &held].concat())?;
    }
    check(cluster, pod, node, placed)
}

/// Every filter in Kubernetes' order.
pub(super) fn check(cluster: &Cluster, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Checked {
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"});
    or(Refusal::ForGood, node["spec"]["unschedulable"] != true || tolerates(pod, &cordon))?;
    or(Refusal::ForGood, matches!(text(&pod["spec"], "nodeName"), "") || text(&pod["spec"], "nodeName") == name(node))?;
    or(Refusal::ForGood, tolerates_hard_taints(pod, node))?;
    or(Refusal::ForGood, wants_node(pod, node))?;
    let there: Vec<&Value> = placed.iter().filter(|(_, on)| name(on) == name(node)).map(|(pod, _)| *pod).collect();
    let taken: Vec<_> = there.iter().flat_map(|pod| host_ports(pod)).collect();
    let free = host_ports(pod).iter().all(|port| !taken.contains(port));
    or(Refusal::ForNow, free)?;
    has_room(pod, node, &there)?;
    spreads(cluster, pod, node, placed)?;
    likes(cluster, pod, node, placed)
}

fn has_room(pod: &Value, node: &Value, there: &[&Value]) -> Checked {
    let allocatable = &node["status"]["allocatable"];
    let mut verdict = or(Refusal::ForNow, (there.len() as i64) < amount("pods", &allocatable["pods"]));
    for resource in ["cpu", "memory", "ephemeral-storage", "example.com/gpio"] {
        let wanted = request(pod, resource);
        let whole = amount(resource, &allocatable[resource]);
        let used: i64 = there.iter().map(|pod| request(pod, resource)).sum();
        if wanted > 0 && wanted > whole {
            return Err(Refusal::ForGood);
        }
        if wanted > 0 && wanted > whole - used {
            verdict = Err(Refusal::ForNow);
        }
    }
    verdict
}

fn spreads(cluster: &Cluster, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Checked {
    let constraints = list(&pod["spec"]["topologySpreadConstraints"]);
    let hard: Vec<&Value> = constraints.filter(|c| text(c, "whenUnsatisfiable") == "DoNotSchedule").collect();
    for constraint in &hard {
        let key = text(constraint, "topologyKey");
        let domain = label(node, key).ok_or(Refusal::ForGood)?;
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for other in &cluster.nodes {
            let has_all = hard.iter().all(|constraint| label(other, text(constraint, "topologyKey")).is_some());
            if !has_all || !spread_includes(constraint, pod, other) {
                continue;
            }
            let there = placed.iter().filter(|(_, on)| name(on) == name(other));
            let matching = there.filter(|(there, _)| spread_counts(constraint, pod, there)).count();
            *counts.entry(label(other, key).unwrap()).or_default() += matching as i64;
        }
        let wanted_domains = constraint["minDomains"].as_u64().unwrap_or(1) as usize;
        let least = if counts.len() < wanted_domains { 0 } else { *counts.values().min().unwrap() };
        let own = i64::from(spread_matches(constraint, pod, pod));
        let skew = counts.get(domain).unwrap_or(&0) + own - least;
        or(Refusal::ForNow, skew <= constraint["maxSkew"].as_i64().unwrap())?;
    }
    Ok(())
}

/// Whether two nodes carry the same value of a label.
fn together(key: &str, one: &Value, two: &Value) -> bool {
    label(one, key).is_some() && label(one, key) == label(two, key)
}

fn likes(cluster: &Cluster, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Checked {
    let terms: Vec<&Value> = required(pod, "podAffinity").collect();
    let key = |term: &Value| text(term, "topologyKey").to_owned();
    or(Refusal::ForGood, terms.iter().all(|term| label(node, &key(term)).is_some()))?;
    let matches_all = |other: &Value| terms.iter().all(|term| term_is_about(cluster, term, pod, other));
    let friends: Vec<&Placed<'_>> = placed.iter().filter(|(other, _)| matches_all(other)).collect();
    let near = terms.iter().all(|term| friends.iter().any(|(_, on)| together(&key(term), node, on)));
    // The first of a group may go anywhere; a friend in no domain of any term does not count.
    let counted = friends.iter().any(|(_, on)| terms.iter().any(|term| label(on, &key(term)).is_some()));
    or(Refusal::ForGood, near || (!counted && matches_all(pod)))?;
    let avoids = |term: &Value| {
        placed.iter().any(|(other, on)| together(&key(term), node, on) && term_is_about(cluster, term, pod, other))
    };
    or(Refusal::ForNow, !required(pod, "podAntiAffinity").any(avoids))?;
    let is_avoided = placed.iter().any(|(other, on)| {
        required(other, "podAntiAffinity")
            .any(|term| together(&key(term), node, on) && term_is_about(cluster, term, other, pod))
    });
    or(Refusal::ForNow, !is_avoided)
}
