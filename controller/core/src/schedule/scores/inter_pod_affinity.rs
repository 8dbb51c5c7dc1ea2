//! `InterPodAffinity`: the weights of preferred terms, by the pods that they mean; the pod's own, and those that bound
//! pods hold for or against it.

use super::{MAX_POINTS, PodScore, normalise};
use crate::schedule::census::{ClassId, CounterId, Counting, Domain};
use crate::schedule::nodes::NodeId;
use crate::schedule::overlay::Cluster;
use crate::schedule::rules::Asked;

pub(super) const SCORE: PodScore = PodScore { name: "InterPodAffinity", weight: 2, points };

fn points(cluster: Cluster<'_>, left: &[NodeId], asked: &Asked, class: ClassId, points: &mut Vec<i64>) -> bool {
    if asked.rulebook.ignores_preferences_of_others && asked.preferred.is_empty() {
        return false;
    }
    let own = asked.preferred.iter().zip(&asked.question.preferred_pods);
    let own = own.map(|(counter, (weight, _))| (*counter, *weight));
    let weight = |counter: CounterId| match cluster.census.counting_of(counter) {
        Counting::Preferring => 1,
        Counting::Requiring => asked.rulebook.hard_affinity_weight,
        Counting::Matching | Counting::Spread(_) | Counting::Refusing => 0,
    };
    let others = cluster.census.holders_against(class).map(|counter| (counter, weight(counter)));
    let others = others.filter(|(_, weight)| *weight != 0);
    let terms: Vec<(&[Domain], &[i64], i64)> = own
        .chain(others)
        .map(|(counter, weight)| {
            let domains = cluster.census.domains(cluster.census.topology_of(counter));
            (domains, cluster.census.counts(counter), weight)
        })
        .collect();
    if terms.is_empty() {
        return false;
    }
    points.clear();
    points.resize(left.len(), 0);
    for (domains, counts, weight) in terms {
        for (sum, node) in points.iter_mut().zip(left) {
            let domain = domains.get(node.index()).copied().unwrap_or(Domain::NONE);
            *sum += weight * counts.get(domain.index()).copied().unwrap_or_default();
        }
    }
    normalise(points);
    true
}

/// The fewest become 0, the most 100. Kubernetes computes the share with floats; the operations are exact everywhere.
fn normalise(points: &mut [i64]) {
    let (fewest, most) = (points.iter().copied().min(), points.iter().copied().max());
    let (Some(fewest), Some(most)) = (fewest, most) else { return };
    let range = (most - fewest) as f64;
    normalise::all(points, fewest, most, |points| {
        let share = if most > fewest { (points - fewest) as f64 / range } else { 0.0 };
        (MAX_POINTS as f64 * share) as i64
    });
}
