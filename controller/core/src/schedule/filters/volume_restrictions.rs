//! `VolumeRestrictions`: a claim for one pod has no other, and a volume for one node is in use on no other (SCH-01).

use super::{Filter, Refusal};
use crate::schedule::hints::Hints;

pub(super) const FILTER: Filter = Filter {
    name: "VolumeRestrictions",
    check: |cluster, node, question, refusals| {
        for claim in &question.claims {
            if cluster.users_of_exclusive(*claim, node) > 0 {
                refusals.push(Refusal::ClaimOfAnotherPod);
                return;
            }
        }
        let is_elsewhere = |claim| cluster.storage.is_attached_elsewhere(claim, node, cluster.nodes);
        if question.claims.iter().any(|claim| is_elsewhere(*claim)) {
            refusals.push(Refusal::AttachedElsewhere);
        }
    },
    helped_by: Hints::NODE_ADDED.and(Hints::POD_GONE),
};
