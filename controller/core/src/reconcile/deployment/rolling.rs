//! `RollingUpdate` (DEP-02, DEP-04): as many new pods as the surge allows, as few old ones as availability allows.

use super::sets::Sets;
use super::spec::{Deployment, Strategy};

/// One step: up if possible, else down.
pub(super) fn step(deployment: &Deployment, sets: &mut Sets) {
    if !grow_new(deployment, sets) {
        shrink_old(deployment, sets);
    }
}

/// The size of the new set after one step up, when all sets together have `total` pods.
pub(super) fn grown(deployment: &Deployment, new_size: i64, total: i64) -> i64 {
    match deployment.strategy {
        Strategy::Recreate => deployment.replicas,
        Strategy::RollingUpdate { max_surge, .. } => {
            let room = deployment.replicas.saturating_add(max_surge).saturating_sub(total).max(0);
            new_size + room.min(deployment.replicas - new_size).max(0)
        }
    }
}

fn grow_new(deployment: &Deployment, sets: &mut Sets) -> bool {
    let total = sets.total_size();
    let Some(new) = &mut sets.new else { return false };
    let size = if new.size > deployment.replicas { deployment.replicas } else { grown(deployment, new.size, total) };
    if size == new.size {
        return false;
    }
    new.resize(size);
    true
}

/// First old pods that are not available, since nobody misses them; then available ones, for as long as enough remain.
fn shrink_old(deployment: &Deployment, sets: &mut Sets) {
    let least_available = deployment.replicas - deployment.max_unavailable();
    let new_unavailable = sets.new.as_ref().map_or(0, |new| new.size - new.available);
    let mut surplus = sets.total_size() - least_available - new_unavailable;
    if surplus <= 0 {
        return;
    }
    for set in &mut sets.old {
        let unhealthy = (set.size - set.available).clamp(0, surplus);
        if unhealthy > 0 {
            set.resize(set.size - unhealthy);
            surplus -= unhealthy;
        }
    }
    let mut spare = sets.total_available() - least_available;
    for set in &mut sets.old {
        let healthy = spare.min(set.size);
        if healthy > 0 {
            set.resize(set.size - healthy);
            spare -= healthy;
        }
    }
}
