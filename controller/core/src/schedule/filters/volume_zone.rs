//! `VolumeZone`: the volumes of the pod's claims lie in the node's zone and region, where volumes say so by their labels
//! (SCH-01). Volumes that say so by their node affinity are [`super::volume_binding`]'s.

use super::{Filter, Refusal};
use crate::schedule::hints::Hints;

pub(super) const FILTER: Filter = Filter {
    name: "VolumeZone",
    check: |cluster, node, question, refusals| {
        let Some(facts) = cluster.nodes.facts(node).filter(|_| !question.claims.is_empty()) else { return };
        if !cluster.storage.are_in_zone(&question.claims, facts, cluster.symbols) {
            refusals.push(Refusal::VolumeZone);
        }
    },
    helped_by: Hints::NODE_ADDED.and(Hints::LABELS).and(Hints::VOLUME),
};
