//! An object as the store holds it: compact JSON, plus the few facts that indexes and reconcilers ask for all the time.
//!
//! The JSON is the truth (DESIGN, decision 1). Everything beside it is derived here, once, when the object is made, and
//! shared by the staged and the committed view.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coracle_model::PodUid;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clock;
use crate::kind::Kind;
use crate::rows::Row;

/// Where an object lives.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for a cluster-scoped kind.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// A key; `namespace` is empty for a cluster-scoped kind.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// `metadata.uid`, of any kind.
pub type Uid = PodUid;

/// One of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `uid`
    pub uid: Uid,
    /// The owner's key, when its kind is one that is served; in the object's own namespace for namespaced kinds.
    pub key: Option<Key>,
    /// `controller: true`
    pub controller: bool,
    /// `blockOwnerDeletion: true`
    pub blocks: bool,
}

/// A stored object; immutable, shared.
#[derive(Debug)]
pub struct Object {
    /// Where it lives.
    pub key: Key,
    /// `metadata.uid`
    pub uid: Uid,
    /// The revision of its last write, which is also in the JSON as `metadata.resourceVersion`.
    pub revision: u64,
    /// `metadata.labels`
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// `metadata.ownerReferences`
    pub owners: Vec<Owner>,
    /// `metadata.finalizers`, whether there are any.
    pub finalizers: bool,
    /// `metadata.deletionTimestamp`, in milliseconds since 1970.
    pub deletion_ms: Option<u64>,
    /// `metadata.creationTimestamp`, in milliseconds since 1970.
    pub created_ms: u64,
    /// What reconcilers, scheduler and dispatch read of this kind.
    pub row: Row,
    body: Box<str>,
}

/// Stored bytes, or a value about to be stored, that are no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a stored object: {what}")]
pub struct ObjectError {
    what: String,
}

impl Object {
    /// Reads a stored object.
    ///
    /// # Errors
    /// When the bytes are not JSON of an object with a kind that is served, a name and a uid.
    pub fn from_json(kind: Kind, revision: u64, body: &str) -> Result<Self, ObjectError> {
        let value: Value = serde_json::from_str(body).map_err(|error| ObjectError { what: error.to_string() })?;
        Self::build(kind, revision, &value, body.into())
    }

    /// Makes an object of a value, whose `metadata.resourceVersion` is set here.
    ///
    /// # Errors
    /// When name or uid are missing.
    pub fn from_value(kind: Kind, revision: u64, mut value: Value) -> Result<Self, ObjectError> {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
        }
        let body = value.to_string().into_boxed_str();
        Self::build(kind, revision, &value, body)
    }

    fn build(kind: Kind, revision: u64, value: &Value, body: Box<str>) -> Result<Self, ObjectError> {
        let metadata = &value["metadata"];
        let text = |field: &str| metadata[field].as_str();
        let missing = |field: &str| ObjectError { what: format!("metadata.{field} is missing") };
        let name = text("name").ok_or_else(|| missing("name"))?;
        let namespace = text("namespace").unwrap_or_default();
        let uid = text("uid").and_then(|uid| uid.parse().ok()).ok_or_else(|| missing("uid"))?;
        let key = Key::new(kind, namespace, name);
        Ok(Self {
            uid,
            revision,
            labels: labels(&metadata["labels"]),
            owners: owners(metadata, namespace),
            finalizers: metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty()),
            deletion_ms: text("deletionTimestamp").and_then(clock::parse_stamp),
            created_ms: text("creationTimestamp").and_then(clock::parse_stamp).unwrap_or_default(),
            row: Row::of(kind, value),
            key,
            body,
        })
    }

    /// The compact JSON.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The JSON, read anew.
    #[must_use]
    pub fn value(&self) -> Value {
        // It was JSON when the object was made.
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The object as one of Kubernetes' types; `None` if it does not fit, which admission has excluded.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.body).ok()
    }

    /// The owner that controls this object.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// Whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub const fn is_deleting(&self) -> bool {
        self.deletion_ms.is_some()
    }

    /// `metadata.name`
    #[must_use]
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// `metadata.namespace`
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.key.namespace
    }
}

fn labels(value: &Value) -> BTreeMap<Box<str>, Box<str>> {
    let map = value.as_object().into_iter().flatten();
    map.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into()))).collect()
}

fn owners(metadata: &Value, namespace: &str) -> Vec<Owner> {
    let references = metadata["ownerReferences"].as_array().into_iter().flatten();
    references
        .filter_map(|reference| {
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let kind = Kind::of_manifest(text("apiVersion"), text("kind"));
            Some(Owner {
                uid: text("uid").parse().ok()?,
                key: kind.map(|kind| {
                    let namespace = if kind.info().namespaced { namespace } else { "" };
                    Key::new(kind, namespace, text("name"))
                }),
                controller: reference["controller"].as_bool().unwrap_or_default(),
                blocks: reference["blockOwnerDeletion"].as_bool().unwrap_or_default(),
            })
        })
        .collect()
}
