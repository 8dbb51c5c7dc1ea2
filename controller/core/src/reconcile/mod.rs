//! Reconcilers: each looks at one object and what belongs to it, and says what is to be written so that what is comes
//! nearer to what should be.
//!
//! *In:* a [`Context`] (the staged view, the time, the leases) and a key. *Out:* a [`Plan`].
//! *Must never know:* why it was woken, what it planned before, that there is a store, a scheduler or a network.
//! *Tested:* transcripts of whole rollouts through [`TABLE`], tables beside the arithmetic, properties for the
//! invariants.
//!
//! # How a reconciler is written
//! **It is level-triggered** (DESIGN, decision 4). It is never told what changed; everything it wants to remember is in
//! the view: annotations, conditions, owner references. Hence it can be woken too often, too late, or after a restart
//! of the controller, and the outcome is the same.
//!
//! **It comes to rest.** A plan whose wishes are met is empty. That is what ends the loop in [`crate::controller`], so
//! a status is compared before it is written, and a condition keeps its stamps while it says the same.
//!
//! **One write an object a plan.** Writes name the revision that they were decided on; a second write of one object in
//! one plan would be stale. A plan does the first thing that is to be done and trusts that the change wakes it again.
//!
//! **Nothing here waits.** What depends on time asks for it with `wake_at`: pods that become available, deadlines,
//! leases, tolerations, the pause before a refused create is tried again.
//!
//! # Who runs when
//! The loop takes the first woken row of [`TABLE`]. Those that only end things stand first, so that the end of ten
//! thousand pods is one look of their set and not ten thousand. Those that make pods stand before those that read their
//! status: a deployment sees only sets whose status is true, which is why its bounds (DEP-02) hold at every instant.
//!
//! A new reconciler is one file and one row.

mod claim;
mod conditions;
mod pods;
mod template;
mod tolerations;

mod daemonset;
mod deployment;
pub mod disruption;
mod garbage;
mod namespace;
mod node_lifecycle;
mod pod_gc;
mod priority_classes;
mod replicaset;
mod volume_binding;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod harness;

use coracle_model::Millis;
use serde_json::{Value, json};

use crate::clock::Now;
use crate::error::ApiError;
use crate::kind::Kind;
use crate::names::Names;
use crate::nodes::leases::Leases;
use crate::object::{Key, Object};
use crate::plan::{Note, Plan};
use crate::store::Change;
use crate::view::View;

/// What every reconciler sees.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The staged view.
    pub view: &'a View,
    /// The time.
    pub now: Now,
    /// When each node was last heard.
    pub leases: &'a Leases,
}

/// One reconciler.
#[derive(Debug)]
pub struct Row {
    /// Its name, for logs and metrics.
    pub name: &'static str,
    /// What it wants for one key. Empty when nothing is to be done, also when the object is gone.
    pub plan: fn(&Context<'_>, &Key, &mut Names) -> Plan,
    /// Which of its keys a change concerns.
    pub woken_by: fn(&View, &Change, &mut dyn FnMut(Key)),
}

/// Every reconciler. The order is the order in which woken ones run.
pub static TABLE: &[Row] = &[
    Row { name: "node-lifecycle", plan: node_lifecycle::plan, woken_by: node_lifecycle::woken_by },
    Row { name: "pod-gc", plan: pod_gc::plan, woken_by: pod_gc::woken_by },
    Row { name: "garbage", plan: garbage::plan, woken_by: garbage::woken_by },
    Row { name: "namespace", plan: namespace::plan, woken_by: namespace::woken_by },
    Row { name: "replicaset", plan: replicaset::plan, woken_by: replicaset::woken_by },
    Row { name: "daemonset", plan: daemonset::plan, woken_by: daemonset::woken_by },
    Row { name: "deployment", plan: deployment::plan, woken_by: deployment::woken_by },
    Row { name: "disruption", plan: disruption::plan, woken_by: disruption::woken_by },
    Row { name: "volume-binding", plan: volume_binding::plan, woken_by: volume_binding::woken_by },
];

/// What a controller writes at its start: what every cluster has, as far as it is missing.
#[must_use]
pub fn initial_writes(view: &View) -> Plan {
    let mut plan = namespace::initial_writes(view);
    plan.merge(priority_classes::initial_writes(view));
    plan
}

/// Which (row, key) a change wakes. Called for every change, also for the whole view at start (as Added changes).
pub fn woken_by(view: &View, change: &Change, wake: &mut dyn FnMut(usize, Key)) {
    for (index, row) in TABLE.iter().enumerate() {
        (row.woken_by)(view, change, &mut |key| wake(index, key));
    }
}

/// What an owner says when something that it wanted to create was refused: a condition, an event, and when it tries
/// again. A refusal because the name is taken is no failure: the next plan makes up another one.
pub fn create_failed(context: &Context<'_>, owner: &Object, error: &ApiError) -> Plan {
    if error.reason == "AlreadyExists" || !context.is_open(owner.namespace()) {
        return Plan { wake_at: Some(context.now.mono + RETRY_MS), ..Plan::default() };
    }
    match owner.key.kind {
        Kind::REPLICA_SET => replicaset::create_failed(context, owner, error),
        Kind::DEPLOYMENT => deployment::create_failed(context, owner, error),
        Kind::DAEMON_SET => daemonset::create_failed(context, owner, error),
        _ => Plan::default(),
    }
}

/// The shortest pause after a refused create, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// The longest one.
const MAX_RETRY_MS: u64 = 300_000;
/// Pods that one plan creates or deletes at most; their changes wake it for the rest.
const MAX_BURST: usize = 500;

/// The pause before a create is tried again that has been refused since `since_ms`: as long as it has failed already,
/// so that pauses double.
fn retry_in_ms(context: &Context<'_>, since_ms: u64) -> u64 {
    context.now.wall_ms.saturating_sub(since_ms).clamp(RETRY_MS, MAX_RETRY_MS)
}

impl Context<'_> {
    /// Whether things may be created in this namespace: it exists and is not on its way out.
    fn is_open(&self, namespace: &str) -> bool {
        self.view.get(&Key::new(Kind::NAMESPACE, "", namespace)).is_some_and(|object| !object.is_deleting())
    }

    /// The steady clock's time at a moment of the wall clock; for the past, how long ago it was.
    fn steady(&self, wall_ms: u64) -> Millis {
        if wall_ms >= self.now.wall_ms {
            self.now.mono + (wall_ms - self.now.wall_ms)
        } else {
            self.now.mono - (self.now.wall_ms - wall_ms)
        }
    }
}

/// The entry in `metadata.ownerReferences` of what `owner` controls.
fn controller_reference(owner: &Object) -> Value {
    json!({
        "apiVersion": owner.key.kind.api_version(), "kind": owner.key.kind.info().kind, "name": owner.name(),
        "uid": owner.uid.to_string(), "controller": true, "blockOwnerDeletion": true,
    })
}

/// An event about an object as a whole.
fn note(about: &Object, component: &'static str, warning: bool, reason: &str, message: String) -> Note {
    Note {
        about: about.key.clone(),
        uid: about.uid,
        field_path: String::new(),
        warning,
        reason: reason.to_owned(),
        message,
        component: component.into(),
        host: String::new(),
    }
}
