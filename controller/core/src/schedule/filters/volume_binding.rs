//! `VolumeBinding`: the volumes of the pod's claims can be reached, and claims that wait for their first pod find volumes
//! (VOL-02).

use super::{Filter, Refusal};
use crate::schedule::hints::Hints;

const NAME: &str = "VolumeBinding";

/// What keeps the pod from every node alike; Kubernetes looks at this before it looks at any node, so it stands first.
pub(super) const CLAIMS: Filter = Filter {
    name: NAME,
    check: |cluster, _, question, refusals| {
        if !question.claims.is_empty() {
            refusals.extend(cluster.storage.obstacle(&question.claims));
        }
    },
    // A change of a claim wakes the pods that name it.
    helped_by: Hints::CLASS,
};

pub(super) const FILTER: Filter = Filter {
    name: NAME,
    check: |cluster, node, question, refusals| {
        if question.claims.is_empty() {
            return;
        }
        match cluster.nodes.facts(node) {
            Some(facts) => cluster.storage.refuse(&question.claims, facts, cluster.symbols, refusals),
            None => refusals.push(Refusal::NoVolume),
        }
    },
    helped_by: Hints::NODE_ADDED.and(Hints::LABELS).and(Hints::VOLUME).and(Hints::CLASS),
};
