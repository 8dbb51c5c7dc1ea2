//! Nodes that are not heard any more, and what becomes of their pods (SAF-02, SAF-09, DS-03).
//!
//! *In:* leases, nodes, the pods on them. *Out:* the node's conditions and taints, the pods' `Ready`, evictions.
//! *Must never know:* sessions. Whether a node is heard, it reads off its lease.
//! *Tested:* transcripts on a clock that is passed in.
//!
//! The steps of one plan, each only when the one before wants nothing written: [`silence`] (the lease is over: `Ready`
//! becomes `Unknown`), [`taints`] (what the conditions and `spec.unschedulable` mean for scheduling), [`pods_of`] (pods
//! of a node that is not ready are not ready), [`eviction`] (pods whose patience with a `NoExecute` taint is over).

mod eviction;
mod pods_of;
mod silence;
mod taints;
#[cfg(test)]
mod tests;

use crate::kind::Kind;
use crate::names::Names;
use crate::object::Key;
use crate::plan::Plan;
use crate::store::{Action, Change};
use crate::view::View;

use super::Context;

const COMPONENT: &str = "node-controller";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// A node is woken by itself, and, while something is wrong with it, by its pods.
pub(super) fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(Key)) {
    let object = &change.object;
    match object.key.kind {
        Kind::NODE if change.action != Action::Deleted => wake(object.key.clone()),
        Kind::POD if change.action != Action::Deleted => {
            let Some(node) = object.row.pod().and_then(|row| row.node.as_ref()) else { return };
            let key = Key::new(Kind::NODE, "", node);
            let row = view.get(&key).and_then(|node| node.row.node());
            if row.is_some_and(|row| !row.ready || row.taints.iter().any(|taint| &*taint.effect == "NoExecute")) {
                wake(key);
            }
        }
        _ => {}
    }
}

/// The first step that wants something written.
pub(super) fn plan(context: &Context<'_>, key: &Key, _names: &mut Names) -> Plan {
    let Some(node) = context.view.get(key) else { return Plan::default() };
    let (mut plan, reach) = silence::plan(context, node);
    if !plan.writes.is_empty() {
        return plan;
    }
    for step in [taints::plan(context, node, reach), pods_of::plan(context, node, reach)] {
        plan.merge(step);
        if !plan.writes.is_empty() {
            return plan;
        }
    }
    plan.merge(eviction::plan(context, node, reach));
    plan
}

/// The condition `Ready` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// `True`
    Ready,
    /// `False`: it says so itself.
    NotReady,
    /// `Unknown`: it says nothing any more.
    Unknown,
    /// It has not said anything yet, and still has time to.
    Unheard,
}
