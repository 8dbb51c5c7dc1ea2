//! What a user asks of the API, over HTTP or MQTT, with everything about the transport taken off.

use std::sync::Arc;

use serde_json::Value;

use crate::kind::{Kind, Subresource};
use crate::object::{Object, Uid};
use crate::plan::Propagation;

/// A request that changes something. Reads are answered from the committed view without the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty for a cluster-scoped kind.
    pub namespace: String,
    /// The object; empty for a create, whose body carries the name.
    pub name: String,
    /// The path below the object, if any.
    pub subresource: Option<Subresource>,
    /// What to do.
    pub verb: Verb,
    /// `dryRun=All`: check everything, change nothing.
    pub dry_run: bool,
    /// `fieldValidation`
    pub field_validation: FieldValidation,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// `POST`; with the subresource `binding`, bind a pod; with `eviction`, evict it.
    Create(Value),
    /// `PUT`
    Replace(Value),
    /// `PATCH`
    Patch(PatchType, Value),
    /// Create, or update if it exists: what a manifest over MQTT means. The fields given are merged over what is
    /// there with the strategic merge patch of the last applied configuration, as `kubectl apply` does.
    Apply(Value),
    /// `DELETE`
    Delete(DeleteOptions),
}

/// The content type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json` (RFC 6902)
    Json,
    /// `application/merge-patch+json` (RFC 7396)
    Merge,
    /// `application/strategic-merge-patch+json`
    StrategicMerge,
}

/// `fieldValidation`: what unknown and duplicate fields mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Refused.
    Strict,
    /// Dropped, with a warning; the default.
    #[default]
    Warn,
    /// Dropped.
    Ignore,
}

/// `metav1.DeleteOptions`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`
    pub grace_seconds: Option<u64>,
    /// `propagationPolicy`, or what `orphanDependents` means.
    pub propagation: Option<Propagation>,
    /// `preconditions.uid`
    pub uid: Option<Uid>,
    /// `preconditions.resourceVersion`
    pub resource_version: Option<u64>,
}

/// How a request that was carried out ended.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What happened.
    pub outcome: Outcome,
    /// Sentences for the header `Warning`.
    pub warnings: Vec<String>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// 201
    Created(Arc<Object>),
    /// 200, changed
    Updated(Arc<Object>),
    /// 200, it was like that already.
    Unchanged(Arc<Object>),
    /// 200: on its way out, but still there (grace period, finalizers).
    Deleting(Arc<Object>),
    /// 200: gone.
    Deleted(Arc<Object>),
    /// 201: the pod is bound.
    Bound,
    /// 201: the pod is on its way out, or gone.
    Evicted,
    /// 200: an autoscaling/v1 Scale.
    Scaled(Value),
}
