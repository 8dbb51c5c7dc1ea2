//! A deployment's replica sets: the new one, whose template is the deployment's, and the old ones. Steps change the
//! sizes here; [`Sets::plan`] says what is to be written for that.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::Object;
use crate::plan::{Plan, Write};
use crate::reconcile::{note, template};

use super::COMPONENT;
use super::spec::Deployment;

/// On a set: `spec.replicas` of its deployment when the set was last sized (DEP-06).
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// On a set: the pods that its deployment could have had then.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// On sets and deployments: the number of the rollout (DEP-05).
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";

/// A replica set, read once a plan.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// The object.
    pub(super) object: Arc<Object>,
    /// Its JSON.
    pub(super) value: Value,
    /// What `spec.replicas` is to be; steps change it.
    pub(super) size: i64,
    /// `status.replicas`
    pub(super) replicas: i64,
    /// `status.readyReplicas`
    pub(super) ready: i64,
    /// `status.availableReplicas`
    pub(super) available: i64,
    /// `status.terminatingReplicas`
    pub(super) terminating: i64,
    /// Whether the annotations about the deployment's size are to be brought up to date.
    pub(super) annotate: bool,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    /// The one that is to be filled.
    pub(super) new: Option<Set>,
    /// The others, oldest first.
    pub(super) old: Vec<Set>,
}

impl Set {
    fn of(object: &Arc<Object>) -> Self {
        let value = object.value();
        let count = |field: &str| value["status"][field].as_i64().unwrap_or_default();
        Self {
            object: Arc::clone(object),
            size: value["spec"]["replicas"].as_i64().unwrap_or(1),
            replicas: count("replicas"),
            ready: count("readyReplicas"),
            available: count("availableReplicas"),
            terminating: count("terminatingReplicas"),
            annotate: false,
            value,
        }
    }

    /// `spec.replicas` as it is.
    pub(super) fn size_before(&self) -> i64 {
        self.value["spec"]["replicas"].as_i64().unwrap_or(1)
    }

    /// The deployment's size when this set was last sized.
    pub(super) fn desired_replicas(&self) -> Option<i64> {
        self.annotation(DESIRED_REPLICAS)
    }

    /// The pods that the deployment could have had when this set was last sized.
    pub(super) fn max_replicas(&self) -> Option<i64> {
        self.annotation(MAX_REPLICAS)
    }

    /// The number of the rollout; 0 when it has none.
    pub(super) fn revision(&self) -> i64 {
        self.annotation(REVISION).unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<i64> {
        self.value["metadata"]["annotations"][name].as_str()?.parse().ok()
    }

    /// Sets the size, and has the annotations follow the deployment.
    pub(super) const fn resize(&mut self, size: i64) {
        self.size = size;
        self.annotate = true;
    }

    fn write(&self, deployment: &Deployment) -> Option<Write> {
        let mut value = self.value.clone();
        if self.annotate {
            annotate(&mut value, deployment);
        }
        if self.size != self.size_before() {
            value["spec"]["replicas"] = json!(self.size);
        }
        let object = &self.object;
        (value != self.value).then(|| Write::Update { key: object.key.clone(), expected: object.revision, value })
    }
}

/// Notes the deployment's size on a set, from which proportions are taken later.
pub(super) fn annotate(set: &mut Value, deployment: &Deployment) {
    put_annotation(set, DESIRED_REPLICAS, &deployment.replicas.to_string());
    let most = deployment.replicas.saturating_add(deployment.max_surge());
    put_annotation(set, MAX_REPLICAS, &most.to_string());
}

/// Sets one annotation.
pub(super) fn put_annotation(object: &mut Value, name: &str, text: &str) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[name] = json!(text);
}

impl Sets {
    /// Sorts out which is the new one: the oldest whose template is the deployment's (DEP-01).
    pub(super) fn of(deployment: &Deployment, objects: &[Arc<Object>]) -> Self {
        let mut sets: Vec<Set> = objects.iter().map(Set::of).collect();
        sets.sort_by(|one, two| {
            (one.object.created_ms, one.object.name()).cmp(&(two.object.created_ms, two.object.name()))
        });
        let wanted = &deployment.value["spec"]["template"];
        let new = sets.iter().position(|set| template::same(&set.value["spec"]["template"], wanted));
        let new = new.map(|index| sets.remove(index));
        Self { new, old: sets }
    }

    /// The old ones and the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    /// Those that want pods.
    pub(super) fn active_mut(&mut self) -> impl Iterator<Item = &mut Set> {
        self.old.iter_mut().chain(&mut self.new).filter(|set| set.size > 0)
    }

    /// The sum of their sizes.
    pub(super) fn total_size(&self) -> i64 {
        self.all().map(|set| set.size).sum()
    }

    /// The sum of `status.availableReplicas`.
    pub(super) fn total_available(&self) -> i64 {
        self.all().map(|set| set.available).sum()
    }

    /// What is to be written so that sets have their sizes, with an event for each that grows or shrinks (DEP-12).
    pub(super) fn plan(&self, deployment: &Deployment) -> Plan {
        let mut plan = Plan::default();
        for set in self.all() {
            let Some(write) = set.write(deployment) else { continue };
            plan.writes.push(write);
            let (before, after) = (set.size_before(), set.size);
            if before != after {
                let direction = if after > before { "up" } else { "down" };
                let message = format!("Scaled {direction} replica set {} from {before} to {after}", set.object.name());
                plan.notes.push(note(&deployment.object, COMPONENT, false, "ScalingReplicaSet", message));
            }
        }
        plan
    }
}
