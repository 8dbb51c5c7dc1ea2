//! `NodeAffinity`: the weights of the preferred terms that match.

use super::{Normalise, Score};

pub(super) const SCORE: Score = Score {
    name: "NodeAffinity",
    weight: 2,
    applies: |question| !question.preferred.is_empty(),
    points: |cluster, node, question| {
        let Some(facts) = cluster.nodes.facts(node) else { return 0 };
        let matching = question.preferred.iter().filter(|(_, term)| term.matches(facts, cluster.symbols));
        matching.map(|(weight, _)| *weight).sum()
    },
    normalise: Normalise::ByShare,
};
