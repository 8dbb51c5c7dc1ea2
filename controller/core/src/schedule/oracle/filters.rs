//! Where a pod can go (SCH-01, TSC-03).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::{Cluster, Placed, label, list, name, priority, text};
use super::requests::{amount, host_ports, request};
use super::selectors::{required, term_is_about, term_selects, tolerates, tolerates_hard_taints, wants_node};
use super::spread::{constraints, counts as spread_counts, includes as spread_includes, matches as spread_matches};
use super::volumes;

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

/// What a filter looks at: a pod, a node, and the pods that are on nodes.
struct Look<'a> {
    cluster: &'a Cluster,
    pod: &'a Value,
    node: &'a Value,
    placed: &'a [Placed<'a>],
}

type Filter = fn(&Look<'_>) -> Checked;

/// Every filter in Kubernetes' order; the claims come before any node is looked at.
const FILTERS: [(&str, Filter); 12] = [
    ("VolumeBinding", |look| or(Refusal::ForGood, volumes::claims_are_ready(look.cluster, look.pod))),
    ("NodeUnschedulable", is_open),
    ("NodeName", |look| {
        let wanted = text(&look.pod["spec"], "nodeName");
        or(Refusal::ForGood, wanted.is_empty() || wanted == name(look.node))
    }),
    ("TaintToleration", |look| or(Refusal::ForGood, tolerates_hard_taints(look.pod, look.node))),
    ("NodeAffinity", |look| or(Refusal::ForGood, is_sent_there(look) && wants_node(look.pod, look.node))),
    ("NodePorts", ports_are_free),
    ("NodeResourcesFit", has_room),
    ("VolumeRestrictions", may_use_volumes),
    ("VolumeBinding", |look| or(Refusal::ForGood, volumes::reaches(look.cluster, look.pod, look.node))),
    ("VolumeZone", |look| or(Refusal::ForGood, volumes::are_in_zone(look.cluster, look.pod, look.node))),
    ("PodTopologySpread", spreads),
    ("InterPodAffinity", likes),
];

/// Every filter that the pod's profile has.
pub(super) fn check(cluster: &Cluster, pod: &Value, node: &Value, placed: &[Placed<'_>]) -> Checked {
    let profile = cluster.profile(pod);
    let look = Look { cluster, pod, node, placed };
    FILTERS.iter().filter(|(plugin, _)| profile.filters(plugin)).try_for_each(|(_, filter)| filter(&look))
}

impl Look<'_> {
    /// The pods that are on the node.
    fn there(&self) -> impl Iterator<Item = &Value> {
        self.placed.iter().filter(|(_, on)| name(on) == name(self.node)).map(|(pod, _)| *pod)
    }
}

fn is_open(look: &Look<'_>) -> Checked {
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"});
    or(Refusal::ForGood, look.node["spec"]["unschedulable"] != true || tolerates(look.pod, &cordon))
}

/// Whether it is a node to which the profile sends all its pods.
fn is_sent_there(look: &Look<'_>) -> bool {
    let added = &look.cluster.profile(look.pod).args("NodeAffinity")["addedAffinity"];
    let required = &added["requiredDuringSchedulingIgnoredDuringExecution"];
    required.is_null() || list(&required["nodeSelectorTerms"]).any(|term| term_selects(term, look.node))
}

fn ports_are_free(look: &Look<'_>) -> Checked {
    let taken: Vec<_> = look.there().flat_map(host_ports).collect();
    or(Refusal::ForNow, host_ports(look.pod).iter().all(|port| !taken.contains(port)))
}

fn has_room(look: &Look<'_>) -> Checked {
    let allocatable = &look.node["status"]["allocatable"];
    let mut verdict = or(Refusal::ForNow, (look.there().count() as i64) < amount("pods", &allocatable["pods"]));
    for resource in ["cpu", "memory", "ephemeral-storage", "example.com/gpio"] {
        let wanted = request(look.pod, resource);
        let whole = amount(resource, &allocatable[resource]);
        let used: i64 = look.there().map(|pod| request(pod, resource)).sum();
        if wanted > 0 && wanted > whole {
            return Err(Refusal::ForGood);
        }
        if wanted > 0 && wanted > whole - used {
            verdict = Err(Refusal::ForNow);
        }
    }
    verdict
}

fn may_use_volumes(look: &Look<'_>) -> Checked {
    let Look { cluster, pod, node, placed } = look;
    or(Refusal::ForNow, !volumes::claim_is_taken(cluster, pod, placed))?;
    or(Refusal::ForGood, !volumes::is_attached_elsewhere(cluster, pod, node, placed))
}

fn spreads(look: &Look<'_>) -> Checked {
    let Look { cluster, pod, node, placed } = look;
    let hard = constraints(cluster, pod, "DoNotSchedule");
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

fn likes(look: &Look<'_>) -> Checked {
    let Look { cluster, pod, node, placed } = look;
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
