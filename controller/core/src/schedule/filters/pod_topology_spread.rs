//! `PodTopologySpread`: constraints with `DoNotSchedule` (TSC-03). The skew is what the domain would count with the pod,
//! less the fewest of any eligible domain.

use super::{Cluster, DomainRule, PodFilter, Refusal};
use crate::schedule::census::{ClassId, CounterId, Domain};
use crate::schedule::hints::Hints;
use crate::schedule::nodes::NodeId;
use crate::schedule::question::SpreadConstraint;
use crate::schedule::rules::Asked;

pub(super) const FILTER: PodFilter = PodFilter {
    name: "PodTopologySpread",
    rules,
    check,
    helped_by: Hints::NODE_ADDED.and(Hints::LABELS).and(Hints::TAINTS).and(Hints::POD_ADDED).and(Hints::POD_GONE),
};

/// What decides on every domain of one constraint.
struct Skew {
    /// 1 if the pod counts itself.
    own: i64,
    fewest: i64,
    most: i64,
}

impl Skew {
    /// With the count of one domain as it would be.
    fn of(
        cluster: Cluster<'_>,
        constraint: &SpreadConstraint,
        counter: CounterId,
        class: ClassId,
        changed: Option<(Domain, i64)>,
    ) -> Self {
        let counts = cluster.census.counts(counter);
        let eligible = cluster.census.eligible_nodes(counter).iter().enumerate().filter(|(_, nodes)| **nodes > 0);
        let (mut domains, mut fewest) = (0, i64::MAX);
        for (domain, _) in eligible {
            domains += 1;
            let count = match changed {
                Some((changed, count)) if changed.index() == domain => count,
                _ => counts.get(domain).copied().unwrap_or_default(),
            };
            fewest = fewest.min(count);
        }
        if domains < constraint.min_domains || domains == 0 {
            fewest = 0;
        }
        let own = i64::from(cluster.census.is_meant(class, cluster.census.matcher_of(counter)));
        Self { own, fewest, most: constraint.max_skew }
    }

    /// What a domain may count before the pod comes.
    const fn most_in_a_domain(&self) -> i64 {
        self.most.saturating_add(self.fewest - self.own)
    }
}

fn hard(asked: &Asked) -> impl Iterator<Item = (&SpreadConstraint, CounterId)> {
    asked.question.spread.iter().zip(asked.spread.iter().copied()).filter(|(constraint, _)| constraint.hard)
}

fn rules<'a>(cluster: Cluster<'a>, asked: &Asked, class: ClassId, rules: &mut Vec<DomainRule<'a>>) {
    for (constraint, counter) in hard(asked) {
        let skew = Skew::of(cluster, constraint, counter, class, None);
        rules.push(DomainRule {
            domains: cluster.census.domains(cluster.census.topology_of(counter)),
            counts: cluster.census.counts(counter),
            fits: i64::MIN..=skew.most_in_a_domain(),
            refusal: Refusal::Skew,
            without_key: Some(Refusal::NoSpreadLabel),
        });
    }
}

fn check(cluster: Cluster<'_>, node: NodeId, asked: &Asked, class: ClassId) -> Option<Refusal> {
    hard(asked).find_map(|(constraint, counter)| {
        let domains = cluster.census.domains(cluster.census.topology_of(counter));
        let Some(domain) = domains.get(node.index()).copied().filter(|domain| !domain.is_none()) else {
            return Some(Refusal::NoSpreadLabel);
        };
        let count = cluster.count(counter, node);
        let skew = Skew::of(cluster, constraint, counter, class, Some((domain, count)));
        (count > skew.most_in_a_domain()).then_some(Refusal::Skew)
    })
}
