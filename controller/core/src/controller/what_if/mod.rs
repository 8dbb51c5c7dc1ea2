//! A what-if: the real controller in memory, without a store and without agents.
//!
//! *In:* objects as a cluster has them, and manifests. *Out:* a [`Forecast`]: where the pods of the manifests land, and why.
//! *Must never know:* files, networks; whether there is such a cluster.
//! *Tested:* tables in `tests.rs`; on the command line end to end.
//!
//! What is given is admitted, reconciled and scheduled by the code that does it in a cluster. Pods that preemption asks to
//! go are gone at once, and time moves on until nobody can be placed any more; no container ever starts.

mod forecast;
mod given;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_model::ClusterId;
use serde_json::{Value, json};

use super::{Controller, Identity, requests};
use crate::clock::Now;
use crate::error::ApiError;
use crate::kind::Kind;
use crate::manifest;
use crate::object::{Key, Object, Uid};
use crate::request::{DeleteOptions, FieldValidation, Outcome, Request, Verb};
use crate::schedule::config::Configuration;
use crate::schedule::{Detail, Placement};
use crate::view::View;

use given::Given;

pub use forecast::{Forecast, Landing, Preempted, Refused};
pub use given::GivenError;

/// Time that passes between two looks, in milliseconds, whatever the back-off of pods that wait is.
const LEAST_ROUND_MS: u64 = 10_000;
/// The same, at most.
const MOST_ROUND_MS: u64 = 30_000;
/// Looks, at most: far below the time after which a deployment counts as stuck.
const MAX_ROUNDS: usize = 16;
/// Batches of one look.
const MAX_BATCHES: usize = 50;

/// A controller to try manifests on.
#[derive(Debug)]
pub struct WhatIf {
    controller: Controller,
    now: Now,
    /// Time that passes between two looks: more than the longest back-off of a pod that waits.
    round_ms: u64,
    detail: Detail,
    /// What the manifests name.
    applied: BTreeSet<Uid>,
    /// The pods that were there before.
    before: BTreeSet<Uid>,
    /// Why each pod went where it went, as of its last turn.
    told: BTreeMap<Key, Placement>,
    preempted: Vec<Preempted>,
}

impl WhatIf {
    /// A cluster of these objects. One with a uid was read from a cluster and is taken as it is; one without was written by
    /// hand and is admitted as any other. A node that says nothing of its conditions is taken as ready. The same seed
    /// gives the same forecast. `detail` says how much is told of each pod.
    ///
    /// # Errors
    /// When an object is none, with its place in the list.
    pub fn new(cluster: Vec<Value>, scheduler: &Configuration, detail: Detail, seed: u64) -> Result<Self, GivenError> {
        let given = Given::read(cluster)?;
        let now = given.now();
        let identity = Identity { cluster: ClusterId(0), artifact_key: [0; 32], entropy: seed };
        let view = View::new(given.revision(), given.stored);
        let controller = Controller::configured(view, identity, scheduler, now);
        let round_ms = scheduler.most_back_off_ms.clamp(LEAST_ROUND_MS, MOST_ROUND_MS) + 2_000;
        let (applied, before) = (BTreeSet::new(), BTreeSet::new());
        let (told, preempted) = (BTreeMap::new(), Vec::new());
        let mut what_if = Self { controller, now, round_ms, detail, applied, before, told, preempted };
        for namespace in &given.namespaces {
            what_if.assume_namespace(namespace);
        }
        for (index, value) in given.written {
            let created = what_if.create(value, FieldValidation::Ignore);
            created.map_err(|error| GivenError { index, error })?;
        }
        what_if.settle();
        let pods = what_if.controller.view.list(Kind::POD, None);
        what_if.before = pods.map(|pod| pod.uid).collect();
        what_if.controller.scheduler.keep_chronicle(what_if.detail.clone());
        Ok(what_if)
    }

    /// Makes a namespace if it is not there: for a cluster of which nothing but its nodes is known.
    pub fn assume_namespace(&mut self, name: &str) {
        if !name.is_empty() && !self.controller.view.has_namespace(name) {
            let value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            // A name that is none is refused with the object that uses it.
            let _: Result<_, ApiError> = self.create(value, FieldValidation::Strict);
        }
    }

    /// Applies one manifest as `kubectl apply` does; gives the warnings.
    ///
    /// # Errors
    /// As the API refuses it.
    pub fn apply(&mut self, value: Value) -> Result<Vec<String>, ApiError> {
        let (kind, namespace, name) = manifest::identify(&value)?;
        let verb = if name.is_empty() { Verb::Create(value) } else { Verb::Apply(value) };
        let (object, warnings) = self.execute(kind, namespace, name, verb, FieldValidation::Strict)?;
        self.applied.insert(object.uid);
        Ok(warnings)
    }

    /// Lets the cluster come to rest, and says where the pods are.
    #[must_use]
    pub fn finish(mut self) -> Forecast {
        let _first = self.settle();
        for _ in 0..MAX_ROUNDS {
            let removed = self.remove_victims();
            self.now = Now { wall_ms: self.now.wall_ms + self.round_ms, mono: self.now.mono + self.round_ms };
            // Nobody speaks for the nodes here; they are as they were given.
            self.controller.nodes.forgive_silence(self.now.mono);
            let bound = self.settle();
            if !removed && !bound {
                break;
            }
        }
        self.forecast()
    }

    fn create(&mut self, value: Value, validation: FieldValidation) -> Result<Uid, ApiError> {
        let (kind, namespace, name) = manifest::identify(&value)?;
        self.execute(kind, namespace, name, Verb::Create(value), validation).map(|(object, _)| object.uid)
    }

    fn execute(
        &mut self,
        kind: Kind,
        namespace: String,
        name: String,
        verb: Verb,
        field_validation: FieldValidation,
    ) -> Result<(Arc<Object>, Vec<String>), ApiError> {
        let request = Request { kind, namespace, name, subresource: None, verb, dry_run: false, field_validation };
        let answer = requests::execute(&mut self.controller.writer(self.now), request)?;
        match answer.outcome {
            Outcome::Created(object)
            | Outcome::Updated(object)
            | Outcome::Unchanged(object)
            | Outcome::Deleting(object)
            | Outcome::Deleted(object) => Ok((object, answer.warnings)),
            Outcome::Bound | Outcome::Evicted | Outcome::Scaled(_) => Err(ApiError::method_not_allowed()),
        }
    }

    /// Lets everything follow from what was done; whether a pod was bound.
    fn settle(&mut self) -> bool {
        let mut bound = false;
        for _ in 0..MAX_BATCHES {
            let stage = self.controller.settle(self.now);
            if stage.changes.is_empty() {
                break;
            }
            let node = |object: &Object| object.row.pod().and_then(|row| row.node.clone());
            bound |= stage.changes.iter().any(|change| {
                node(&change.object).is_some() && change.previous.as_ref().is_some_and(|before| node(before).is_none())
            });
        }
        self.listen();
        bound
    }

    /// Takes over why the pods went where they went, and whom they made go.
    fn listen(&mut self) {
        for (key, placement) in self.controller.scheduler.take_chronicle() {
            if let Some(outlook) = placement.preemption.as_ref().filter(|outlook| outlook.helps) {
                let node = outlook.node.clone().unwrap_or_default();
                self.preempted.extend(outlook.victims.iter().map(|victim| Preempted {
                    namespace: victim.namespace.clone(),
                    name: victim.name.clone(),
                    priority: victim.priority,
                    node: node.clone(),
                    by: format!("{}/{}", key.namespace, key.name),
                }));
            }
            self.told.insert(key, placement);
        }
    }

    /// Pods that were asked to go are gone; whether there were any.
    fn remove_victims(&mut self) -> bool {
        let victims: Vec<Key> =
            self.preempted.iter().map(|victim| Key::new(Kind::POD, &victim.namespace, &victim.name)).collect();
        let mut removed = false;
        for key in victims {
            if !self.controller.view.get(&key).is_some_and(|pod| pod.is_deleting()) {
                continue;
            }
            let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
            let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
            removed |= self.execute(Kind::POD, namespace, name, Verb::Delete(options), FieldValidation::Ignore).is_ok();
        }
        removed
    }
}
