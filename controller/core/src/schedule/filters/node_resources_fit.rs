//! `NodeResourcesFit`: the number of pods, and every resource that the pod asks for. All that is lacking is named.

use super::{Cluster, Filter, Refusal};
use crate::schedule::hints::Hints;
use crate::schedule::nodes::NodeId;
use crate::schedule::question::Question;

pub(super) const FILTER: Filter = Filter {
    name: "NodeResourcesFit",
    check,
    helped_by: Hints::NODE_ADDED.and(Hints::ALLOCATABLE).and(Hints::POD_GONE),
};

fn check(cluster: Cluster<'_>, node: NodeId, question: &Question, refusals: &mut Vec<Refusal>) {
    if !cluster.has_room_for_pod(node) {
        refusals.push(Refusal::TooManyPods);
    }
    for (resource, amount) in &question.requests {
        let most = cluster.nodes.allocatable(node, *resource);
        if *amount > most {
            refusals.push(Refusal::Exceeds(*resource));
        } else if *amount > most.saturating_sub(cluster.used(node, *resource)) {
            refusals.push(Refusal::Insufficient(*resource));
        }
    }
}
