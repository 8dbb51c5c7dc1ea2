//! `InterPodAffinity`: required affinity and anti-affinity to other pods, and what bound pods hold against this one.

use std::ops::RangeInclusive;

use super::{Cluster, DomainRule, PodFilter, Refusal};
use crate::schedule::census::{ClassId, CounterId, Counting};
use crate::schedule::hints::Hints;
use crate::schedule::nodes::NodeId;
use crate::schedule::rules::Asked;

pub(super) const FILTER: PodFilter = PodFilter {
    name: "InterPodAffinity",
    rules,
    check,
    helped_by: Hints::NODE_ADDED.and(Hints::LABELS).and(Hints::POD_ADDED).and(Hints::POD_GONE),
};

/// Whether the pod may be the first of its kind: no pod is what it wants to be with, and it is so itself.
fn may_be_first(cluster: Cluster<'_>, asked: &Asked, class: ClassId) -> bool {
    let nobody = asked.affinity.iter().all(|counter| {
        let counts = cluster.census.counts(*counter).iter().sum::<i64>();
        let changed = cluster.overlay.map_or(0, |overlay| cluster.difference(overlay, *counter));
        counts + changed <= 0
    });
    nobody && asked.affinity.iter().all(|counter| cluster.census.is_meant(class, cluster.census.matcher_of(*counter)))
}

/// Counters of bound pods that refuse to be with pods of this class.
fn against(cluster: Cluster<'_>, class: ClassId) -> impl Iterator<Item = CounterId> + '_ {
    let refuses = move |counter: &CounterId| cluster.census.counting_of(*counter) == Counting::Refusing;
    cluster.census.holders_against(class).filter(refuses)
}

fn rules<'a>(cluster: Cluster<'a>, asked: &Asked, class: ClassId, rules: &mut Vec<DomainRule<'a>>) {
    let mut push = |counter: CounterId, fits: RangeInclusive<i64>, refusal: Refusal, needs_key: bool| {
        rules.push(DomainRule {
            domains: cluster.census.domains(cluster.census.topology_of(counter)),
            counts: cluster.census.counts(counter),
            fits,
            refusal,
            without_key: needs_key.then_some(refusal),
        });
    };
    let fewest = if !asked.affinity.is_empty() && may_be_first(cluster, asked, class) { i64::MIN } else { 1 };
    for counter in &asked.affinity {
        push(*counter, fewest..=i64::MAX, Refusal::AffinityRules, true);
    }
    for counter in &asked.anti_affinity {
        push(*counter, i64::MIN..=0, Refusal::AntiAffinityRules, false);
    }
    for counter in against(cluster, class) {
        push(counter, i64::MIN..=0, Refusal::ExistingAntiAffinity, false);
    }
}

fn check(cluster: Cluster<'_>, node: NodeId, asked: &Asked, class: ClassId) -> Option<Refusal> {
    let has_key = |counter: CounterId| {
        let domains = cluster.census.domains(cluster.census.topology_of(counter));
        domains.get(node.index()).is_some_and(|domain| !domain.is_none())
    };
    let near = asked.affinity.iter().all(|counter| cluster.count(*counter, node) > 0);
    let keys = asked.affinity.iter().all(|counter| has_key(*counter));
    if !keys || (!near && !may_be_first(cluster, asked, class)) {
        return Some(Refusal::AffinityRules);
    }
    if asked.anti_affinity.iter().any(|counter| cluster.count(*counter, node) > 0) {
        return Some(Refusal::AntiAffinityRules);
    }
    let refused = against(cluster, class).any(|counter| cluster.count(counter, node) > 0);
    // A pod that only the overlay puts there holds counters that nobody else may hold.
    let added = cluster
        .overlay
        .filter(|overlay| overlay.node == node)
        .is_some_and(|overlay| overlay.with.iter().any(|pod| pod.asked.refuses(class, node, cluster)));
    (refused || added).then_some(Refusal::ExistingAntiAffinity)
}
