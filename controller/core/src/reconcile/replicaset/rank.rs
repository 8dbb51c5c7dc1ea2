//! Who goes first when there are too many (RS-01).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_model::Phase;
use serde::Deserialize;

use crate::kind::Kind;
use crate::object::{Object, Uid};
use crate::reconcile::{Context, claim, pods};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Smaller goes earlier. The order of the fields is Kubernetes' order of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    assigned: bool,
    phase: u8,
    ready: bool,
    deletion_cost: i32,
    siblings: Reverse<usize>,
    ready_for: i32,
    restarts: Reverse<u32>,
    age: i32,
    uid: Uid,
}

/// The pods of `active` that go first.
pub(super) fn first_to_go(
    context: &Context<'_>,
    set: &Object,
    mut active: Vec<Arc<Object>>,
    count: usize,
) -> Vec<Arc<Object>> {
    let siblings = siblings_by_node(context, set);
    active.sort_by_cached_key(|pod| rank(pod, context.now.wall_ms, &siblings));
    active.truncate(count);
    active
}

fn rank(pod: &Object, now_ms: u64, siblings: &BTreeMap<Arc<str>, usize>) -> Option<Rank> {
    let row = pod.row.pod()?;
    let on_its_node = row.node.as_ref().and_then(|node| siblings.get(node)).copied().unwrap_or_default();
    Some(Rank {
        assigned: row.node.is_some(),
        phase: match row.phase {
            Phase::Pending => 0,
            Phase::Running | Phase::Succeeded | Phase::Failed => 1,
        },
        ready: row.is_ready(),
        deletion_cost: deletion_cost(pod),
        siblings: Reverse(on_its_node),
        ready_for: row.ready_since_ms.map_or(-1, |since| log_age(since, now_ms)),
        restarts: Reverse(row.restarts),
        age: log_age(pod.created_ms, now_ms),
        uid: pod.uid,
    })
}

/// How old, on a scale on which twice as old is one more. Among pods of about the same age the uid decides, so that
/// rollouts do not always end the pods of the same failure domain.
fn log_age(since_ms: u64, now_ms: u64) -> i32 {
    // Kubernetes counts nanoseconds.
    let age_ns = now_ms.saturating_sub(since_ms).saturating_mul(1_000_000);
    age_ns.checked_ilog2().and_then(|log| i32::try_from(log).ok()).unwrap_or(-1)
}

/// The annotation `controller.kubernetes.io/pod-deletion-cost`; 0 when it is missing or no number.
fn deletion_cost(pod: &Object) -> i32 {
    #[derive(Deserialize)]
    struct Pod {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    // Few pods have it, and looking for the bytes costs much less than reading the JSON.
    if !pod.body().contains(DELETION_COST) {
        return 0;
    }
    let annotations = pod.decode::<Pod>().map(|pod| pod.metadata.annotations).unwrap_or_default();
    annotations.get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or_default()
}

/// Active pods on each node that belong to this set or to another one of the same owner: in a rollout the old and the
/// new pods of one deployment are siblings.
fn siblings_by_node(context: &Context<'_>, set: &Object) -> BTreeMap<Arc<str>, usize> {
    let view = context.view;
    let owner = set.controller().map(|owner| owner.uid);
    let others = owner.into_iter().flat_map(|owner| view.owned_by(owner)).filter(|other| {
        other.key.kind == Kind::REPLICA_SET
            && other.uid != set.uid
            && other.controller().map(|reference| reference.uid) == owner
    });
    let mut counts = BTreeMap::new();
    for sibling_set in others.map(|other| &**other).chain([set]) {
        for pod in view.owned_by(sibling_set.uid).filter(|pod| claim::controls(sibling_set, pod)) {
            if let Some(node) = pod.row.pod().and_then(|row| row.node.as_ref()).filter(|_| pods::is_active(pod)) {
                *counts.entry(Arc::clone(node)).or_default() += 1;
            }
        }
    }
    counts
}
