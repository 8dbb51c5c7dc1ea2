//! `TaintToleration`: the fewer taints `PreferNoSchedule` that the pod does not tolerate, the better.

use super::{Normalise, Score};
use crate::schedule::symbols::Effect;

pub(super) const SCORE: Score = Score {
    name: "TaintToleration",
    weight: 3,
    applies: |_| true,
    points: |cluster, node, question| {
        let taints = cluster.nodes.taints(node).iter();
        let against =
            taints.filter(|taint| taint.effect == Effect::PreferNoSchedule && !question.tolerates_softly(**taint));
        i64::try_from(against.count()).unwrap_or(i64::MAX)
    },
    normalise: Normalise::ByShareReversed,
};
