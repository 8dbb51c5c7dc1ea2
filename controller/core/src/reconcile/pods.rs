//! What reconcilers ask of pods: whether they count, and since when they are available.

use std::collections::BTreeSet;

use crate::kind::Kind;
use crate::names::Names;
use crate::object::{Key, Object};
use crate::plan::{Plan, Write};
use crate::store::{Action, Change};

use super::Context;

/// Neither at its end nor on its way there: a pod that counts.
pub(super) fn is_active(pod: &Object) -> bool {
    !pod.is_deleting() && !is_terminal(pod)
}

/// On its way to its end, and not there yet.
pub(super) fn is_terminating(pod: &Object) -> bool {
    pod.is_deleting() && !is_terminal(pod)
}

/// Succeeded or Failed.
pub(super) fn is_terminal(pod: &Object) -> bool {
    pod.row.pod().is_some_and(|row| row.phase.is_terminal())
}

/// Whether the condition `Ready` is `True`.
pub(super) fn is_ready(pod: &Object) -> bool {
    pod.row.pod().is_some_and(|row| row.is_ready())
}

/// Whether a change of a pod means anything to who counts it. A binding does not, nor do addresses and containers'
/// states: a set of ten thousand pods need not look at all of them for each.
pub(super) fn counts_otherwise(change: &Change) -> bool {
    let Some(previous) = change.previous.as_deref().filter(|_| change.action == Action::Modified) else { return true };
    let pod = &*change.object;
    let facts = |pod: &Object| {
        let ready_since_ms = pod.row.pod().and_then(|row| row.ready_since_ms);
        (pod.is_deleting(), is_terminal(pod), ready_since_ms)
    };
    facts(pod) != facts(previous) || pod.labels != previous.labels || pod.owners != previous.owners
}

/// When a pod is available, in milliseconds since 1970: once it has been ready for `minReadySeconds`. `None` while it
/// is not ready.
pub(super) fn available_at_ms(pod: &Object, min_ready_seconds: u64) -> Option<u64> {
    let since = pod.row.pod()?.ready_since_ms?;
    Some(since.saturating_add(min_ready_seconds.saturating_mul(1000)))
}

/// Whether a pod is available now; if it will be, asks to be woken then.
pub(super) fn is_available(context: &Context<'_>, pod: &Object, min_ready_seconds: u64, plan: &mut Plan) -> bool {
    match available_at_ms(pod, min_ready_seconds) {
        Some(at) if min_ready_seconds == 0 || at <= context.now.wall_ms => true,
        Some(at) => {
            plan.wake(context.steady(at));
            false
        }
        None => false,
    }
}

/// Ends a pod as a user would.
pub(super) fn delete(pod: &Object) -> Write {
    Write::Delete { key: pod.key.clone(), uid: pod.uid, grace_seconds: None, propagation: None }
}

/// A name that is free, made of `generateName` and five letters.
pub(super) fn free_name(
    context: &Context<'_>,
    namespace: &str,
    generate_name: &str,
    taken: &mut BTreeSet<String>,
    names: &mut Names,
) -> String {
    // Kubernetes cuts the prefix so that prefix and suffix fit a DNS label.
    let prefix: String = generate_name.chars().take(58).collect();
    loop {
        let name = format!("{prefix}{}", names.suffix());
        if context.view.get(&Key::new(Kind::POD, namespace, &name)).is_none() && taken.insert(name.clone()) {
            return name;
        }
    }
}
