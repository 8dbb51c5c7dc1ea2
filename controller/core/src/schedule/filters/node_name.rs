//! `NodeName`: `spec.nodeName`, for a pod that states it.

use super::{Filter, Refusal};
use crate::schedule::hints::Hints;

pub(super) const FILTER: Filter = Filter {
    name: "NodeName",
    check: |cluster, node, question, refusals| {
        let Some(wanted) = question.node_name else { return };
        if cluster.nodes.facts(node).is_none_or(|facts| facts.name != wanted) {
            refusals.push(Refusal::OtherName);
        }
    },
    helped_by: Hints::NODE_ADDED,
};
