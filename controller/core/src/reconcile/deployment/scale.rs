//! `spec.replicas` changed (DEP-06): in mid-rollout every set gets its share, so that the risk of the new template
//! stays what it was.

use super::sets::{Set, Sets};
use super::spec::{Deployment, Strategy};

/// Whether a set was last sized for another `replicas`.
pub(super) fn is_needed(deployment: &Deployment, sets: &Sets) -> bool {
    let mut active = sets.all().filter(|set| set.size > 0);
    active.any(|set| set.desired_replicas().is_some_and(|desired| desired != deployment.replicas))
}

/// Sizes the sets for the `replicas` of now.
pub(super) fn scale(deployment: &Deployment, sets: &mut Sets) {
    if let Some(only) = only_one(sets) {
        only.resize(deployment.replicas);
        return;
    }
    if sets.new.as_ref().is_some_and(|new| is_saturated(deployment, new)) {
        for old in sets.old.iter_mut().filter(|old| old.size > 0) {
            old.resize(0);
        }
        return;
    }
    if let Strategy::RollingUpdate { max_surge, .. } = deployment.strategy {
        let most = if deployment.replicas > 0 { deployment.replicas.saturating_add(max_surge) } else { 0 };
        share_out(deployment, sets, most);
    }
}

/// The one set that wants pods, or, if none does, the latest; `None` while several do.
fn only_one(sets: &mut Sets) -> Option<&mut Set> {
    match sets.all().filter(|set| set.size > 0).count() {
        0 if sets.new.is_some() => sets.new.as_mut(),
        0 => sets.old.last_mut(),
        1 => sets.active_mut().next(),
        _ => None,
    }
}

/// Whether the new set has all pods that are wanted, and they are available.
fn is_saturated(deployment: &Deployment, new: &Set) -> bool {
    let wanted = deployment.replicas;
    new.size == wanted && new.desired_replicas() == Some(wanted) && new.available == wanted
}

fn share_out(deployment: &Deployment, sets: &mut Sets, most: i64) {
    let to_add = most - sets.total_size();
    let status_replicas = deployment.value["status"]["replicas"].as_i64().unwrap_or_default();
    let mut active: Vec<&mut Set> = sets.active_mut().collect();
    // The largest gets the leftovers; of two alike the newer one when there is more to have, else the older one.
    active.sort_by(|one, two| {
        let age = |set: &Set| (set.object.created_ms, set.object.key.name.clone());
        let by_age = if to_add > 0 { age(two).cmp(&age(one)) } else { age(one).cmp(&age(two)) };
        two.size.cmp(&one.size).then(by_age)
    });
    let mut added = 0;
    for set in &mut active {
        let share = share(deployment, set, status_replicas, to_add - added, to_add);
        set.resize(set.size + share);
        added += share;
    }
    if let Some(largest) = active.first_mut().filter(|_| to_add != 0) {
        largest.resize((largest.size + to_add - added).max(0));
    }
}

/// What one set gets of `to_add` pods, of which `left` are not given away yet.
fn share(deployment: &Deployment, set: &Set, status_replicas: i64, left: i64, to_add: i64) -> i64 {
    if set.size == 0 || left == 0 {
        return 0;
    }
    let fraction = fraction(deployment, set, status_replicas);
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

/// What this set would grow by if every set kept its proportion.
fn fraction(deployment: &Deployment, set: &Set, status_replicas: i64) -> i64 {
    if deployment.replicas == 0 {
        return -set.size;
    }
    let most = deployment.replicas.saturating_add(deployment.max_surge());
    let most_before = set.max_replicas().filter(|most| *most > 0).unwrap_or(status_replicas);
    if most_before <= 0 {
        return 0;
    }
    // Rounded to the nearest, halves up.
    let doubled = set.size.saturating_mul(most).saturating_mul(2).saturating_add(most_before);
    doubled / most_before.saturating_mul(2) - set.size
}
