//! Where a pod had better go: one file a score, one table with weights (SCH-02). Points are 64-bit integers, rounded as
//! Kubernetes rounds.

mod balanced_allocation;
mod image_locality;
mod inter_pod_affinity;
mod least_allocated;
mod logarithm;
mod most_allocated;
mod node_affinity;
mod normalise;
mod pod_topology_spread;
mod taint_toleration;

use super::census::ClassId;
use super::nodes::NodeId;
use super::overlay::Cluster;
use super::question::Question;
use super::rules::Asked;

/// The most points that a score gives, before its weight.
pub(super) const MAX_POINTS: i64 = 100;

/// One score about the node alone.
#[derive(Debug)]
pub(super) struct Score {
    /// Kubernetes' name of the plugin.
    pub(super) name: &'static str,
    /// How much it counts where the profile does not say.
    pub(super) weight: i64,
    /// Whether it has anything to say of this pod; otherwise every node gets 0.
    pub(super) applies: fn(&Question) -> bool,
    /// The points of one node.
    pub(super) points: fn(Cluster<'_>, NodeId, &Question) -> i64,
    /// What is done with the points of all nodes together.
    pub(super) normalise: Normalise,
}

/// How points become 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Normalise {
    /// They are so already, so no other node has a say.
    AsTheyAre,
    /// The most points of any node that is left become 100, the others their share.
    ByShare,
    /// The fewest points are the best: none become 100, the most 0.
    ByShareReversed,
}

impl Normalise {
    /// The points of one node, when the most that any has is `most`.
    pub(super) const fn apply(self, points: i64, most: i64) -> i64 {
        let share = if most > 0 { MAX_POINTS * points / most } else { points };
        match self {
            Self::AsTheyAre => points,
            Self::ByShare => share,
            Self::ByShareReversed => MAX_POINTS - share,
        }
    }
}

/// One score about other pods.
#[derive(Debug)]
pub(super) struct PodScore {
    /// Kubernetes' name of the plugin.
    pub(super) name: &'static str,
    /// How much it counts where the profile does not say.
    pub(super) weight: i64,
    /// Writes 0 to 100 points for each of the nodes that are left; says `false` if it has nothing to say of this pod.
    pub(super) points: fn(Cluster<'_>, &[NodeId], &Asked, ClassId, &mut Vec<i64>) -> bool,
}

/// Every score about the node alone.
pub(super) const SCORES: &[Score] = &[
    taint_toleration::SCORE,
    node_affinity::SCORE,
    least_allocated::SCORE,
    balanced_allocation::SCORE,
    image_locality::SCORE,
];

/// Takes the place of the score of the same name in profiles that want nodes to be used well.
pub(super) const MOST_ALLOCATED: &Score = &most_allocated::SCORE;

/// Every score about other pods.
pub(super) const POD_SCORES: &[PodScore] = &[pod_topology_spread::SCORE, inter_pod_affinity::SCORE];
