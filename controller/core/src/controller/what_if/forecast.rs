//! Where the pods of a what-if are in the end.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::WhatIf;
use crate::kind::Kind;
use crate::object::{Object, Uid};
use crate::schedule::{Placement, PlacementState};

/// Owners of owners, at most.
const MAX_OWNERS: usize = 8;

/// What would happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The pods that are new, and those that the manifests name; by namespace and name.
    pub pods: Vec<Landing>,
    /// The pods that would be made to go.
    pub preempted: Vec<Preempted>,
    /// The pods that could not even be made.
    pub refused: Vec<Refused>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Its namespace.
    pub namespace: String,
    /// Its name; the end of it is generated for a pod of a controller.
    pub name: String,
    /// Whether it comes of a manifest; else it is made in the place of one that had to go.
    pub of_manifest: bool,
    /// Whether it was there before.
    pub is_old: bool,
    /// Where it is; `None` for one that stays pending.
    pub node: Option<String>,
    /// Why it is there, as of the moment of the decision; why it is nowhere, as of the end. `None` for a pod for which
    /// nothing was decided.
    pub placement: Option<Placement>,
    /// Why, in one line.
    pub message: String,
}

/// A pod that would be made to go (PRI-04).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preempted {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i32,
    /// Where it is.
    pub node: String,
    /// The pod that takes its room: `NAMESPACE/NAME`.
    pub by: String,
}

/// A pod that its controller would not be allowed to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The controller: `ReplicaSet NAMESPACE/NAME`.
    pub owner: String,
    /// Why, as its event says it.
    pub message: String,
}

impl Forecast {
    /// Whether every pod of the manifests has a node.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.refused.is_empty() && self.pods.iter().all(|pod| !pod.of_manifest || pod.node.is_some())
    }

    /// The whole of it as one object: a `PlacementForecast`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let pods: Vec<Value> = self.pods.iter().map(Landing::to_json).collect();
        json!({
            "kind": "PlacementForecast", "apiVersion": "coracle.dev/v1", "complete": self.is_complete(), "pods": pods,
            "preempted": self.preempted, "refused": self.refused,
        })
    }
}

impl Landing {
    fn to_json(&self) -> Value {
        let mut value = json!({
            "namespace": self.namespace, "name": self.name, "ofManifest": self.of_manifest, "isOld": self.is_old,
            "message": self.message,
        });
        if let Some(node) = &self.node {
            value["node"] = json!(node);
        }
        if let Some(placement) = &self.placement {
            value["placement"] = serde_json::to_value(placement).unwrap_or_default();
        }
        value
    }
}

impl WhatIf {
    pub(super) fn forecast(mut self) -> Forecast {
        let shown = |pod: &Object| !self.before.contains(&pod.uid) || self.applied.contains(&pod.uid);
        let all = self.controller.view.list(Kind::POD, None);
        let pods: Vec<_> = all.filter(|pod| shown(pod) && !pod.is_deleting()).cloned().collect();
        let pods = pods.iter().map(|pod| self.landing(pod)).collect();
        let refused = self.refused();
        Forecast { pods, preempted: self.preempted, refused }
    }

    fn landing(&mut self, pod: &Object) -> Landing {
        let node = pod.row.pod().and_then(|row| row.node.as_ref()).map(ToString::to_string);
        let is_old = self.before.contains(&pod.uid);
        let placement = if node.is_some() {
            self.told.remove(&pod.key)
        } else {
            Some(self.controller.scheduler.placement(&self.controller.view, pod, &self.detail))
        };
        let message = match (&placement, is_old) {
            (Some(placement), _) => message(placement, pod),
            (None, true) => "it is there already".to_owned(),
            (None, false) => "spec.nodeName names the node".to_owned(),
        };
        let of_manifest = self.is_of_manifest(pod);
        let (namespace, name) = (pod.namespace().to_owned(), pod.name().to_owned());
        Landing { namespace, name, of_manifest, is_old, node, placement, message }
    }

    /// Whether a manifest names the object, or its owner, or the owner of that.
    fn is_of_manifest(&self, object: &Object) -> bool {
        let mut uid = object.uid;
        for _ in 0..MAX_OWNERS {
            if self.applied.contains(&uid) {
                return true;
            }
            let owner = self.owner(uid);
            let Some(owner) = owner else { return false };
            uid = owner;
        }
        false
    }

    fn owner(&self, uid: Uid) -> Option<Uid> {
        Some(self.controller.view.by_uid(uid)?.controller()?.uid)
    }

    /// What the controllers of the manifests' pods were refused; each says one thing, however often it has tried.
    fn refused(&self) -> Vec<Refused> {
        let events = self.controller.view.list(Kind::EVENT, None).map(|event| event.value());
        let failed = events.filter(|event| event["reason"] == "FailedCreate");
        let failed: BTreeMap<String, String> = failed
            .filter_map(|event| {
                let about = &event["involvedObject"];
                let uid: Uid = about["uid"].as_str()?.parse().ok()?;
                let owner = self.controller.view.by_uid(uid).filter(|owner| self.is_of_manifest(owner))?;
                let owner = format!("{} {}/{}", owner.key.kind.info().kind, owner.namespace(), owner.name());
                Some((owner, event["message"].as_str()?.to_owned()))
            })
            .collect();
        failed.into_iter().map(|(owner, message)| Refused { owner, message }).collect()
    }
}

/// The line about a pod for which something was decided.
fn message(placement: &Placement, pod: &Object) -> String {
    match placement.state {
        PlacementState::Gated => "Scheduling is blocked due to non-empty scheduling gates".to_owned(),
        PlacementState::Elsewhere => {
            let name = pod.row.pod().map_or("", |row| row.scheduler());
            format!("no scheduler here is called \"{name}\"")
        }
        PlacementState::Waiting | PlacementState::Bound | PlacementState::Ended => placement.message.clone(),
    }
}
