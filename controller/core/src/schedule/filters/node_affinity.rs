//! `NodeAffinity`: `nodeSelector`, and one of the terms of required node affinity; before those, what the profile adds.

use super::{Cluster, Filter, Refusal};
use crate::schedule::hints::Hints;
use crate::schedule::nodes::NodeId;
use crate::schedule::question::Question;

pub(super) const FILTER: Filter = Filter {
    name: "NodeAffinity",
    check: |cluster, node, question, refusals| {
        if !is_enforced(cluster, node, question) {
            refusals.push(Refusal::EnforcedAffinity);
        } else if !matches(cluster, node, question) {
            refusals.push(Refusal::Affinity);
        }
    },
    helped_by: Hints::NODE_ADDED.and(Hints::LABELS),
};

/// Whether a node is one to which the pod's profile sends all its pods.
fn is_enforced(cluster: Cluster<'_>, node: NodeId, question: &Question) -> bool {
    let Some(terms) = &question.enforced else { return true };
    let Some(facts) = cluster.nodes.facts(node) else { return false };
    terms.iter().any(|term| term.matches(facts, cluster.symbols))
}

/// Whether a node is one that the pod selects.
fn matches(cluster: Cluster<'_>, node: NodeId, question: &Question) -> bool {
    if question.node_selector.is_empty() && question.required.is_none() {
        return true;
    }
    let Some(facts) = cluster.nodes.facts(node) else { return false };
    question.node_selector.iter().all(|(key, value)| facts.label(*key) == Some(*value))
        && question.required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(facts, cluster.symbols)))
}
