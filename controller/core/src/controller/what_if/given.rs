//! The cluster that a what-if begins with, from the objects that are given.

use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_model::Millis;
use serde_json::{Value, json};

use crate::admission;
use crate::clock::Now;
use crate::error::ApiError;
use crate::kind::Kind;
use crate::manifest;
use crate::object::Object;
use crate::request::FieldValidation;

/// When a cluster whose objects have no stamps is looked at: 2026-01-01T00:00:00Z, in milliseconds since 1970.
const OTHERWISE_MS: u64 = 1_767_225_600_000;

/// What is wrong with an object of the cluster that is given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("object {}: {error}", index + 1)]
pub struct GivenError {
    /// Its place in the list, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub error: ApiError,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Read from a cluster.
    pub(super) stored: Vec<Arc<Object>>,
    /// Written by hand, with their places in the list; nodes first, pods last.
    pub(super) written: Vec<(usize, Value)>,
    /// Every namespace that an object is in.
    pub(super) namespaces: BTreeSet<String>,
    latest_ms: u64,
}

impl Given {
    /// Sorts the objects; events and what is not stored are left out.
    pub(super) fn read(objects: Vec<Value>) -> Result<Self, GivenError> {
        let uids: BTreeSet<String> =
            objects.iter().filter_map(|object| object["metadata"]["uid"].as_str()).map(str::to_owned).collect();
        let mut given = Self::default();
        for (index, value) in objects.into_iter().enumerate() {
            given.take(index, value, &uids).map_err(|error| GivenError { index, error })?;
        }
        given.written.sort_by_key(|(_, value)| match value["kind"].as_str() {
            Some("Namespace") => 0,
            Some("Node" | "PriorityClass") => 1,
            Some("Pod") => 3,
            _ => 2,
        });
        Ok(given)
    }

    fn take(&mut self, index: usize, mut value: Value, uids: &BTreeSet<String>) -> Result<(), ApiError> {
        let (kind, namespace, name) = manifest::identify(&value)?;
        if kind == Kind::EVENT || !kind.info().stored {
            return Ok(());
        }
        if kind == Kind::NODE {
            complete(&mut value);
        }
        if !namespace.is_empty() {
            self.namespaces.insert(namespace.clone());
        }
        if value["metadata"]["uid"].is_null() {
            self.written.push((index, value));
            return Ok(());
        }
        // Fields that this version does not know were known where it was read.
        let _warnings = admission::decode(kind, &mut value, FieldValidation::Ignore)?;
        if name.is_empty() {
            return Err(ApiError::bad_request("metadata.name: Required value: an object that has a uid has a name"));
        }
        if kind.info().namespaced {
            value["metadata"]["namespace"] = json!(namespace);
        }
        keep_owners(&mut value, uids);
        let revision = u64::try_from(index + 1).unwrap_or(u64::MAX);
        let object =
            Object::from_value(kind, revision, value).map_err(|error| ApiError::bad_request(error.to_string()))?;
        self.latest_ms = self.latest_ms.max(object.created_ms);
        self.stored.push(Arc::new(object));
        Ok(())
    }

    /// The revision of the cluster.
    pub(super) fn revision(&self) -> u64 {
        self.stored.iter().map(|object| object.revision).max().unwrap_or_default()
    }

    /// The moment at which the what-if begins: just after the youngest object was made.
    pub(super) fn now(&self) -> Now {
        let wall_ms = if self.latest_ms == 0 { OTHERWISE_MS } else { self.latest_ms + 1_000 };
        Now { wall_ms, mono: Millis(1_000) }
    }
}

/// Owners that are not given cannot be asked, and what they own would count as left behind.
fn keep_owners(value: &mut Value, uids: &BTreeSet<String>) {
    if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|owner| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
        if owners.is_empty()
            && let Some(metadata) = value["metadata"].as_object_mut()
        {
            metadata.remove("ownerReferences");
        }
    }
}

/// What somebody who writes a node by hand leaves out: that it is ready, and that all it has can be used.
fn complete(node: &mut Value) {
    if node["status"]["allocatable"].is_null() && node["status"]["capacity"].is_object() {
        node["status"]["allocatable"] = node["status"]["capacity"].clone();
    }
    let speaks = node["status"]["conditions"]
        .as_array()
        .is_some_and(|conditions| conditions.iter().any(|condition| condition["type"] == "Ready"));
    if !speaks && node["status"].is_object() {
        if !node["status"]["conditions"].is_array() {
            node["status"]["conditions"] = json!([]);
        }
        if let Some(conditions) = node["status"]["conditions"].as_array_mut() {
            conditions.push(json!({"type": "Ready", "status": "True", "reason": "Given"}));
        }
    }
}
