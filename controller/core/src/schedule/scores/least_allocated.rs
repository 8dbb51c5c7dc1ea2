//! `NodeResourcesFit` by `LeastAllocated`: the more cpu and memory is left, the better. A profile may score other
//! resources, and weigh them.

use super::{MAX_POINTS, Normalise, Score};
use crate::schedule::nodes::NodeId;
use crate::schedule::overlay::Cluster;
use crate::schedule::question::Question;
use crate::schedule::symbols::Resource;

pub(super) const SCORE: Score = Score {
    name: "NodeResourcesFit",
    weight: 1,
    applies: |_| true,
    points: |cluster, node, question| mean(cluster, node, question, share_left),
    normalise: Normalise::AsTheyAre,
};

/// The mean of what is said of each resource that the node has, from what would be used of it and what there is.
pub(super) fn mean(cluster: Cluster<'_>, node: NodeId, question: &Question, says: impl Fn(u64, u64) -> i64) -> i64 {
    if let Some(weighed) = &question.weighed {
        let (mut sum, mut weights) = (0, 0);
        for scored in weighed {
            let most = cluster.nodes.allocatable(node, scored.resource);
            if most > 0 {
                let used = used(cluster, node, scored.resource).saturating_add(scored.amount);
                sum += scored.weight * says(used, most);
                weights += scored.weight;
            }
        }
        return if weights == 0 { 0 } else { sum / weights };
    }
    let (mut sum, mut resources) = (0, 0);
    for resource in [Resource::CPU, Resource::MEMORY] {
        let most = cluster.nodes.allocatable(node, resource);
        if most == 0 {
            continue;
        }
        let used = cluster.nodes.scored(node, resource).saturating_add(question.scored[resource.index()]);
        sum += says(used, most);
        resources += 1;
    }
    if resources == 0 { 0 } else { sum / resources }
}

/// Cpu and memory as scores count them, everything else as it is asked for.
fn used(cluster: Cluster<'_>, node: NodeId, resource: Resource) -> u64 {
    if resource == Resource::CPU || resource == Resource::MEMORY {
        cluster.nodes.scored(node, resource)
    } else {
        cluster.nodes.used(node, resource)
    }
}

fn share_left(used: u64, most: u64) -> i64 {
    share(most.saturating_sub(used), most)
}

/// The share in percent, rounded down.
pub(super) fn share(part: u64, most: u64) -> i64 {
    let share = if part < 1 << 56 {
        // Nearly always: the product fits, and a 64-bit division is several times cheaper.
        part * MAX_POINTS.unsigned_abs() / most
    } else {
        let part = u128::from(part) * u128::from(MAX_POINTS.unsigned_abs());
        u64::try_from(part / u128::from(most)).unwrap_or_default()
    };
    i64::try_from(share).unwrap_or(MAX_POINTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_rounded_down() {
        for (used, most, points) in [(0, 4000, 100), (1000, 4000, 75), (1, 3, 66), (5, 4, 0), (0, u64::MAX, 100)] {
            assert_eq!(share_left(used, most), points, "{used} of {most}");
        }
    }
}
