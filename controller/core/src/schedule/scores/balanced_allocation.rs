//! `NodeResourcesBalancedAllocation`: cpu and memory are used to the same share. Pods that ask for neither are left
//! out, or all of them would go to the one node that is in balance.

use super::{Normalise, Score};
use crate::schedule::symbols::Resource;

pub(super) const SCORE: Score = Score {
    name: "NodeResourcesBalancedAllocation",
    weight: 1,
    applies: |question| question.request(Resource::CPU) > 0 || question.request(Resource::MEMORY) > 0,
    points: |cluster, node, question| {
        let share = |resource| {
            let most = cluster.nodes.allocatable(node, resource);
            let used = cluster.used(node, resource).saturating_add(question.request(resource));
            (used, most)
        };
        balance(share(Resource::CPU), share(Resource::MEMORY))
    },
    normalise: Normalise::AsTheyAre,
};

/// 100 less the standard deviation of the two shares in percent. Kubernetes computes it with floats, and so does this:
/// the four operations are exact to the last bit on every machine, so the same points come out everywhere.
fn balance(cpu: (u64, u64), memory: (u64, u64)) -> i64 {
    if cpu.1 == 0 || memory.1 == 0 {
        return super::MAX_POINTS;
    }
    let share = |(used, most): (u64, u64)| (used as f64 / most as f64).min(1.0);
    let deviation = ((share(cpu) - share(memory)) / 2.0).abs();
    ((1.0 - deviation) * super::MAX_POINTS as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_are_equal_get_all_the_points() {
        for (cpu, memory, points) in [
            ((1, 2), (2, 4), 100),
            ((3000, 4000), (0, 10), 62),
            ((1, 1), (0, 1), 50),
            ((9, 3), (1, 1), 100),
            ((1, 0), (1, 2), 100),
        ] {
            assert_eq!(balance(cpu, memory), points);
        }
    }
}
