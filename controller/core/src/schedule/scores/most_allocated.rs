//! `NodeResourcesFit` by `MostAllocated`: the more of cpu and memory is used, the better.

use super::least_allocated::{mean, share};
use super::{Normalise, Score};

pub(super) const SCORE: Score = Score {
    name: "NodeResourcesFit",
    weight: 1,
    applies: |_| true,
    points: |cluster, node, question| mean(cluster, node, question, |used, most| share(used.min(most), most)),
    normalise: Normalise::AsTheyAre,
};
