//! `NodeResourcesFit` by `LeastAllocated`: the more cpu and memory is left, the better.

use super::{MAX_POINTS, Normalise, Score};
use crate::schedule::symbols::Resource;

pub(super) const SCORE: Score = Score {
    name: "NodeResourcesFit",
    weight: 1,
    applies: |_| true,
    points: |cluster, node, question| {
        let (mut sum, mut resources) = (0, 0);
        for resource in [Resource::CPU, Resource::MEMORY] {
            let most = cluster.nodes.allocatable(node, resource);
            if most == 0 {
                continue;
            }
            let used = cluster.nodes.scored(node, resource).saturating_add(question.scored[resource.index()]);
            sum += share_left(used, most);
            resources += 1;
        }
        if resources == 0 { 0 } else { sum / resources }
    },
    normalise: Normalise::AsTheyAre,
};

fn share_left(used: u64, most: u64) -> i64 {
    let left = u128::from(most.saturating_sub(used));
    let share = match u64::try_from(left) {
        // Nearly always: the product fits, and a 64-bit division is several times cheaper.
        Ok(left) if left < 1 << 56 => left * MAX_POINTS.unsigned_abs() / most,
        _ => u64::try_from(left * u128::from(MAX_POINTS.unsigned_abs()) / u128::from(most)).unwrap_or_default(),
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
