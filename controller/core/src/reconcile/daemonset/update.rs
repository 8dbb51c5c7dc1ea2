//! From one template to the next (DS-02): `RollingUpdate` within `maxUnavailable` or `maxSurge`; `OnDelete` does
//! nothing by itself.

use std::sync::Arc;

use crate::object::Object;
use crate::plan::Plan;
use crate::reconcile::Context;
use crate::reconcile::deployment::resolve;

use super::eligible::Eligibility;
use super::{Daemons, Moves};

/// How many nodes an update may touch at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Nodes that may be without an available pod.
    pub(super) max_unavailable: i64,
    /// Nodes that may have an old and a new pod.
    pub(super) max_surge: i64,
}

/// The bounds of this set; shares are of the nodes that should have a pod.
pub(super) fn bounds(daemons: &Daemons) -> Bounds {
    let strategy = &daemons.value["spec"]["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return Bounds { max_unavailable: 0, max_surge: 0 };
    }
    let desired = daemons.nodes.iter().filter(|(_, eligibility)| *eligibility == Eligibility::Run).count();
    let desired = i64::try_from(desired).unwrap_or(i64::MAX);
    let given = &strategy["rollingUpdate"];
    let max_surge = resolve(&given["maxSurge"], desired, true);
    let max_unavailable = match &given["maxUnavailable"] {
        bound if bound.is_null() => 1,
        bound => resolve(bound, desired, true),
    };
    let max_unavailable = if max_surge == 0 && max_unavailable == 0 { 1 } else { max_unavailable };
    Bounds { max_unavailable, max_surge }
}

/// One step, when every node has what it should have.
pub(super) fn step(context: &Context<'_>, daemons: &Daemons, plan: &mut Plan) -> Moves {
    if daemons.value["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Moves::default();
    }
    let bounds = bounds(daemons);
    if bounds.max_surge > 0 { surge(context, daemons, bounds, plan) } else { replace(context, daemons, bounds, plan) }
}

/// The pods of a node that are not on their way out: at most one new and one old.
#[derive(Clone, Copy, Default)]
struct Pair<'a> {
    new: Option<&'a Arc<Object>>,
    old: Option<&'a Arc<Object>>,
}

/// The pods of a node; `None` if it has more of a sort, which is mended first.
fn on_node<'a>(daemons: &Daemons, here: &'a [Arc<Object>]) -> Option<Pair<'a>> {
    let mut pair = Pair::default();
    for pod in here.iter().filter(|pod| !pod.is_deleting()) {
        let place = if daemons.is_updated(pod) { &mut pair.new } else { &mut pair.old };
        if place.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

/// Old pods are ended, and new ones made in their places.
fn replace(context: &Context<'_>, daemons: &Daemons, bounds: Bounds, plan: &mut Plan) -> Moves {
    let (mut unavailable, mut moves, mut candidates) = (0, Moves::default(), Vec::new());
    for (node, _) in daemons.nodes.iter().filter(|(_, eligibility)| *eligibility == Eligibility::Run) {
        match on_node(daemons, daemons.on(node.name())) {
            None | Some(Pair { new: None, old: None } | Pair { new: Some(_), old: Some(_) }) => unavailable += 1,
            Some(Pair { new: Some(new), old: None }) => {
                unavailable += i64::from(!daemons.is_available(context, new, plan))
            }
            Some(Pair { new: None, old: Some(old) }) if daemons.is_available(context, old, plan) => {
                candidates.push(Arc::clone(old))
            }
            Some(Pair { new: None, old: Some(old) }) => {
                // Nobody misses a pod that is not available.
                unavailable += 1;
                moves.delete.push(Arc::clone(old));
            }
        }
    }
    let allowed = usize::try_from(bounds.max_unavailable - unavailable).unwrap_or_default();
    moves.delete.extend(candidates.into_iter().take(allowed));
    moves
}

/// New pods are made beside the old ones, which go when the new ones are available.
fn surge(context: &Context<'_>, daemons: &Daemons, bounds: Bounds, plan: &mut Plan) -> Moves {
    let (mut surging, mut moves, mut candidates) = (0, Moves::default(), Vec::new());
    for (node, _) in daemons.nodes.iter().filter(|(_, eligibility)| *eligibility == Eligibility::Run) {
        match on_node(daemons, daemons.on(node.name())) {
            None => surging += 1,
            Some(Pair { old: None, .. }) => {}
            Some(Pair { new: None, old: Some(old) }) if daemons.is_available(context, old, plan) => {
                candidates.push(Arc::clone(&node.key.name));
            }
            Some(Pair { new: None, old: Some(_) }) => moves.create_on.push(Arc::clone(&node.key.name)),
            Some(Pair { new: Some(new), old: Some(old) }) if daemons.is_available(context, new, plan) => {
                moves.delete.push(Arc::clone(old))
            }
            Some(Pair { new: Some(_), old: Some(_) }) => surging += 1,
        }
    }
    let allowed = usize::try_from(bounds.max_surge - surging).unwrap_or_default();
    moves.create_on.extend(candidates.into_iter().take(allowed));
    moves
}
