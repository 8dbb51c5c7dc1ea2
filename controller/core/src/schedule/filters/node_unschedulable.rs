//! `NodeUnschedulable`: `spec.unschedulable`, unless the pod tolerates the taint that stands for it.

use super::{Filter, Refusal};
use crate::schedule::hints::Hints;

pub(super) const FILTER: Filter = Filter {
    name: "NodeUnschedulable",
    check: |cluster, node, question, refusals| {
        if cluster.nodes.is_unschedulable(node) && !question.tolerates(cluster.symbols.unschedulable_taint) {
            refusals.push(Refusal::Unschedulable);
        }
    },
    helped_by: Hints::NODE_ADDED.and(Hints::UNSCHEDULABLE),
};
