//! Where a pod had better go: one file a score, one table with weights (SCH-02). Points are 64-bit integers, rounded as
//! Kubernetes rounds.

mod balanced_allocation;
mod least_allocated;
mod node_affinity;
mod taint_toleration;

use super::filters::Cluster;
use super::nodes::NodeId;
use super::question::Question;

/// The most points that a score gives, before its weight.
pub(super) const MAX_POINTS: i64 = 100;

/// One score.
pub(super) struct Score {
    /// Kubernetes' name of the plugin.
    pub(super) name: &'static str,
    /// How much it counts.
    pub(super) weight: i64,
    /// Whether it has anything to say of this pod; otherwise every node gets 0.
    pub(super) applies: fn(&Question) -> bool,
    /// The points of one node.
    pub(super) points: fn(Cluster<'_>, NodeId, &Question) -> i64,
    /// What is done with the points of all nodes together.
    pub(super) normalise: fn(&mut [i64]),
}

/// Every score.
pub(super) const SCORES: &[Score] =
    &[taint_toleration::SCORE, node_affinity::SCORE, least_allocated::SCORE, balanced_allocation::SCORE];

/// The points are within 0 and 100 as they are.
fn as_they_are(_: &mut [i64]) {}

/// The most points become 100, the others their share.
fn by_share(points: &mut [i64]) {
    let most = points.iter().copied().max().unwrap_or_default();
    if most > 0 {
        points.iter_mut().for_each(|points| *points = MAX_POINTS * *points / most);
    }
}

/// The fewest points are the best: none become 100, the most 0.
fn by_share_reversed(points: &mut [i64]) {
    by_share(points);
    points.iter_mut().for_each(|points| *points = MAX_POINTS - *points);
}
