//! `PodTopologySpread`: constraints with `ScheduleAnyway` (TSC-04). A node has as many points against it as its domains
//! count pods, each weighted by the logarithm of how many domains there are.

use std::borrow::Cow;

use super::{MAX_POINTS, PodScore, logarithm, normalise};
use crate::schedule::census::{ClassId, CounterId, Domain};
use crate::schedule::nodes::NodeId;
use crate::schedule::overlay::Cluster;
use crate::schedule::question::SpreadConstraint;
use crate::schedule::rules::Asked;

pub(super) const SCORE: PodScore = PodScore { name: "PodTopologySpread", weight: 2, points };

/// In the place of points against a node that is left out; no sum is negative.
const IGNORED: i64 = -1;

/// One constraint, weighed against the nodes that are left.
struct Weighed<'a> {
    domains: &'a [Domain],
    /// Points against a node, by its domain.
    against: Vec<f64>,
    otherwise: f64,
}

/// Kubernetes rounds halves away from zero; there are no negative sums.
fn round(sum: f64) -> i64 {
    (sum + 0.5) as i64
}

fn domain(domains: &[Domain], node: NodeId) -> Option<usize> {
    #[cfg(test)]
    crate::schedule::work::note();
    domains.get(node.index()).filter(|domain| !domain.is_none()).map(|domain| domain.index())
}

fn points(cluster: Cluster<'_>, left: &[NodeId], asked: &Asked, _class: ClassId, points: &mut Vec<i64>) -> bool {
    let constraints = asked.question.spread.iter().zip(asked.spread.iter().copied());
    let soft: Vec<_> = constraints.filter(|(constraint, _)| !constraint.hard).collect();
    if soft.is_empty() {
        return false;
    }
    let topologies: Vec<&[Domain]> =
        soft.iter().map(|(_, counter)| cluster.census.domains(cluster.census.topology_of(*counter))).collect();
    let needs_all = !asked.question.spread_is_default;
    // Found once, since there may be thousands of constraints; nearly always all nodes have all keys.
    let has_all = |node: &NodeId| !needs_all || topologies.iter().all(|domains| domain(domains, *node).is_some());
    let counted: Cow<'_, [NodeId]> =
        if left.iter().all(has_all) { left.into() } else { left.iter().copied().filter(has_all).collect() };
    let weighed: Vec<Weighed<'_>> = soft
        .iter()
        .zip(&topologies)
        .map(|((constraint, counter), domains)| {
            let is_by_node = constraint.key == cluster.symbols.hostname;
            let size = if is_by_node { counted.len() } else { count_domains(domains, &counted) };
            weigh(cluster, constraint, *counter, domains, size)
        })
        .collect();
    let against = |node: NodeId| {
        let sum = weighed.iter().fold(0.0, |sum, constraint| {
            let found = domain(constraint.domains, node);
            sum + found.map_or(0.0, |found| constraint.against.get(found).copied().unwrap_or(constraint.otherwise))
        });
        round(sum)
    };
    points.clear();
    match &weighed[..] {
        // As most are: what is against a node is then the same in all of its domain.
        [only] if counted.len() == left.len() => {
            let by_domain: Vec<i64> = only.against.iter().map(|sum| round(*sum)).collect();
            let (otherwise, without) = (round(only.otherwise), 0);
            points.extend(left.iter().map(|node| match domain(only.domains, *node) {
                Some(domain) => by_domain.get(domain).copied().unwrap_or(otherwise),
                None => without,
            }));
        }
        _ => {
            // Both in the same order.
            let mut counted = counted.iter().peekable();
            points.extend(left.iter().map(|node| match counted.next_if_eq(&node) {
                Some(node) => against(*node),
                None => IGNORED,
            }));
        }
    }
    to_points(points);
    true
}

fn weigh<'a>(
    cluster: Cluster<'_>,
    constraint: &SpreadConstraint,
    counter: CounterId,
    domains: &'a [Domain],
    size: usize,
) -> Weighed<'a> {
    let weight = logarithm::of(size + 2);
    let extra = (constraint.max_skew - 1) as f64;
    let counts = cluster.census.counts(counter);
    let against = counts.iter().map(|count| *count as f64 * weight + extra).collect();
    Weighed { domains, against, otherwise: extra }
}

/// How many domains nodes are in; those without the key are one.
fn count_domains(domains: &[Domain], nodes: &[NodeId]) -> usize {
    let mut seen: Vec<bool> = Vec::new();
    let (mut count, mut without_key) = (0, 0);
    for node in nodes {
        let Some(domain) = domain(domains, *node) else {
            without_key = 1;
            continue;
        };
        if seen.len() <= domain {
            seen.resize(domain + 1, false);
        }
        count += usize::from(!std::mem::replace(&mut seen[domain], true));
    }
    count + without_key
}

/// The fewest points against become the most for: 100 x (most + fewest - own) / most.
fn to_points(against: &mut [i64]) {
    let counted = || against.iter().copied().filter(|own| *own != IGNORED);
    let (fewest, most) = (counted().min().unwrap_or_default(), counted().max().unwrap_or_default());
    let lowest = if counted().count() < against.len() { IGNORED } else { fewest };
    normalise::all(against, lowest, most, |own| match own {
        IGNORED => 0,
        _ if most == 0 => MAX_POINTS,
        own => MAX_POINTS * (most + fewest - own) / most,
    });
}
