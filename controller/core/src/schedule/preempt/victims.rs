//! One node: who is on it, and who would have to go.

use std::cmp::Reverse;
use std::sync::Arc;

use super::super::census::ClassId;
use super::super::decide::check;
use super::super::nodes::NodeId;
use super::super::overlay::{Cluster, Overlay, Seen};
use super::super::rules::Asked;
use super::budgets::Budgets;
use crate::object::Key;

/// A pod that is bound to a node.
#[derive(Clone, Debug)]
pub(in super::super) struct Resident {
    pub(in super::super) key: Key,
    pub(in super::super) priority: i32,
    /// `status.startTime` in milliseconds since 1970; later than any other before the node has started it.
    pub(in super::super) started_ms: u64,
    /// Whether it ends because preemption has asked it to.
    pub(in super::super) is_preempted: bool,
    pub(in super::super) seen: Seen,
}

impl Resident {
    /// Kubernetes' order of importance: by priority, and of the same the one that runs for longer. Of the same age the
    /// name decides, so that the order in which they came plays no part.
    const fn importance(&self) -> (Reverse<i32>, u64, &Key) {
        (Reverse(self.priority), self.started_ms, &self.key)
    }
}

/// The pods of every node, by row.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Residents {
    by_node: Vec<Vec<Arc<Resident>>>,
}

impl Residents {
    pub(in super::super) fn on(&self, node: NodeId) -> &[Arc<Resident>] {
        self.by_node.get(node.index()).map_or(&[], |residents| residents)
    }

    /// A pod that is on a node may have started, or have been asked to go; whether it has.
    pub(in super::super) fn update(&mut self, node: NodeId, resident: Resident) -> bool {
        let before = self.on(node).iter().find(|before| before.key == resident.key);
        let state = |resident: &Resident| (resident.started_ms, resident.is_preempted);
        let changed = before.is_none_or(|before| state(before) != state(&resident));
        if changed {
            self.set(node, resident);
        }
        changed
    }

    /// A pod is on a node, or has changed there.
    pub(in super::super) fn set(&mut self, node: NodeId, resident: Resident) {
        if self.by_node.len() <= node.index() {
            self.by_node.resize_with(node.index() + 1, Vec::new);
        }
        self.unset(node, &resident.key);
        let residents = &mut self.by_node[node.index()];
        // In order of importance, so that nobody has to sort.
        let place = residents.partition_point(|other| other.importance() <= resident.importance());
        residents.insert(place, Arc::new(resident));
    }

    pub(in super::super) fn unset(&mut self, node: NodeId, key: &Key) {
        if let Some(residents) = self.by_node.get_mut(node.index()) {
            residents.retain(|resident| resident.key != *key);
        }
    }
}

/// Who has to go from a node, the most important first.
#[derive(Clone, Debug)]
pub(in super::super) struct Victims {
    pub(in super::super) pods: Vec<Arc<Resident>>,
    /// How many of them break a budget.
    pub(in super::super) violations: usize,
}

/// How much harm preemption on a node does: the greater, the better (PRI-05).
pub(super) type Harmlessness = (Reverse<usize>, Reverse<i32>, Reverse<i64>, Reverse<usize>, u64, u64);

impl Victims {
    /// Fewest violations, then the lowest of the highest priorities, the smallest sum, the fewest victims, the latest
    /// start of the most important; then the lot.
    pub(super) fn harmlessness(&self, lot: u64) -> Harmlessness {
        let highest = self.pods.first().map_or(i32::MIN, |victim| victim.priority);
        // As Kubernetes does: shifted to be positive, so that more victims never make a smaller sum.
        let sum = self.pods.iter().map(|victim| i64::from(victim.priority) + i64::from(i32::MAX) + 1).sum();
        let most_important = self.pods.iter().filter(|victim| victim.priority == highest);
        let earliest = most_important.map(|victim| victim.started_ms).min().unwrap_or_default();
        (Reverse(self.violations), Reverse(highest), Reverse(sum), Reverse(self.pods.len()), earliest, lot)
    }
}

/// The pod that wants to be on a node.
#[derive(Clone, Copy)]
pub(in super::super) struct Preemptor<'a> {
    pub(in super::super) asked: &'a Asked,
    pub(in super::super) class: ClassId,
    pub(in super::super) priority: i32,
}

/// Who would have to go from this node so that the pod fits; `None` when it would not fit all the same, or when nobody
/// on it is of lower priority.
pub(super) fn on_node(
    cluster: Cluster<'_>,
    residents: &[Arc<Resident>],
    budgets: &Budgets,
    preemptor: Preemptor<'_>,
    node: NodeId,
) -> Option<Victims> {
    let lower: Vec<&Arc<Resident>> =
        residents.iter().filter(|resident| resident.priority < preemptor.priority).collect();
    if lower.is_empty() {
        return None;
    }
    let with = cluster.nominations.held_against(node, preemptor.priority).map_or_else(Vec::new, |held| held.with);
    let without = lower.iter().map(|resident| resident.seen.clone()).collect();
    let mut overlay = Overlay { node, without, with: Vec::new() };
    // With those for which room is held, and also if they never come.
    let fits = |overlay: &mut Overlay| {
        let fits = |overlay: &Overlay| {
            let cluster = Cluster { overlay: Some(overlay), ..cluster };
            check(cluster, preemptor.asked, preemptor.class, node).is_ok()
        };
        if !fits(overlay) {
            return false;
        }
        overlay.with.clone_from(&with);
        let fits = with.is_empty() || fits(overlay);
        overlay.with.clear();
        fits
    };
    if !fits(&mut overlay) {
        return None;
    }
    let breaks = budgets.violated(cluster.census, lower.iter().map(|resident| resident.seen.class));
    let mut order: Vec<(bool, &Arc<Resident>)> = breaks.into_iter().zip(lower).collect();
    // Those that break a budget are put back first; among both, the most important.
    order.sort_by_key(|(breaks, _)| !breaks);
    overlay.without = order.iter().map(|(_, resident)| resident.seen.clone()).collect();
    let mut victims = Victims { pods: Vec::new(), violations: 0 };
    // The front of `without` is the next to be put back; those that cannot be stay behind the others.
    for (breaks, resident) in order {
        let seen = overlay.without.remove(0);
        if !fits(&mut overlay) {
            overlay.without.push(seen);
            victims.violations += usize::from(breaks);
            victims.pods.push(Arc::clone(resident));
        }
    }
    victims.pods.sort_by(|one, two| one.importance().cmp(&two.importance()));
    Some(victims)
}
