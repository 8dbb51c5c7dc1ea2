//! `TaintToleration`: taints `NoSchedule` and `NoExecute`, unless the pod tolerates them. A node that is not ready or
//! out of reach is left out through the taints that its lifecycle puts on it.

use super::{Filter, Refusal};
use crate::schedule::hints::Hints;
use crate::schedule::symbols::Effect;

pub(super) const FILTER: Filter = Filter {
    name: "TaintToleration",
    check: |cluster, node, question, refusals| {
        let mut taints = cluster.nodes.taints(node).iter().copied();
        let untolerated = taints.find(|taint| taint.effect != Effect::PreferNoSchedule && !question.tolerates(*taint));
        refusals.extend(untolerated.map(Refusal::Untolerated));
    },
    helped_by: Hints::NODE_ADDED.and(Hints::TAINTS),
};
