//! The only door to the staged view: every create, update, delete and binding goes through here, a user's and a
//! reconciler's alike, with the same defaults and the same validation.
//!
//! *In:* the staged view and a wish. *Out:* a staged [`Change`] with the next revision, or an [`ApiError`].
//! *Must never know:* who asked.
//! *Tested:* tables here; through the API end to end.

mod delete;
mod scale;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::admission;
use crate::clock::Now;
use crate::error::{ApiError, FieldError};
use crate::kind::{Kind, Subresource};
use crate::names::Names;
use crate::object::{Key, Object, Uid};
use crate::plan::Write;
use crate::store::{Action, Change};
use crate::view::View;

pub use delete::FOREGROUND_FINALIZER;
pub use delete::ORPHAN_FINALIZER;
pub(crate) use delete::check_preconditions;
pub use scale::{scale_of, scaled};

/// Writes into the staged view.
pub struct Writer<'a> {
    /// What is staged so far.
    pub view: &'a mut View,
    /// Uids and generated names.
    pub names: &'a mut Names,
    /// The time of the writes.
    pub now: Now,
    /// Check everything, stage nothing.
    pub dry_run: bool,
    /// Where staged changes go.
    pub changes: &'a mut Vec<Change>,
}

/// What a write did.
#[derive(Clone, Debug)]
pub enum Written {
    /// The object is as the write wants it; `true` if that changed it.
    Object(Arc<Object>, bool),
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
}

impl Written {
    /// The object, or its last state.
    #[must_use]
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Object(object, _) | Self::Gone(object) => object,
        }
    }
}

impl Writer<'_> {
    /// Carries out one wish of a plan.
    ///
    /// # Errors
    /// As the API would refuse it.
    pub fn write(&mut self, write: Write) -> Result<Written, ApiError> {
        match write {
            Write::Create { kind, namespace, value } => self.create(kind, &namespace, value),
            Write::Update { key, expected, value } => self.update(&key, Some(expected), value),
            Write::Status { key, expected, status } => self.put_status(&key, expected, &status),
            Write::Bind { key, uid, node } => self.bind(&key, Some(uid), &node),
            Write::Delete { key, uid, grace_seconds, propagation } => {
                let options = crate::request::DeleteOptions {
                    grace_seconds,
                    propagation,
                    uid: Some(uid),
                    resource_version: None,
                };
                self.delete(&key, &options)
            }
            Write::Remove { key, uid } => self.remove(&key, uid),
        }
    }

    /// The object, or `NotFound`.
    ///
    /// # Errors
    /// `NotFound`
    pub fn current(&self, key: &Key) -> Result<Arc<Object>, ApiError> {
        self.view.get(key).cloned().ok_or_else(|| ApiError::not_found(key.kind, &key.name))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// When the name is missing or taken, or admission refuses it.
    pub fn create(&mut self, kind: Kind, namespace: &str, mut value: Value) -> Result<Written, ApiError> {
        let info = kind.info();
        let root = value.as_object_mut().ok_or_else(|| ApiError::bad_request("the body is not an object"))?;
        root.insert("apiVersion".to_owned(), json!(kind.api_version()));
        root.insert("kind".to_owned(), json!(info.kind));
        if info.subresources.contains(&Subresource::Status) && kind != Kind::NODE {
            root.remove("status");
        }
        let metadata = root.entry("metadata").or_insert_with(|| json!({}));
        let metadata = metadata.as_object_mut().ok_or_else(|| ApiError::bad_request("metadata is not an object"))?;
        self.fill_metadata(kind, namespace, metadata)?;
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let key = Key::new(kind, namespace, &name);
        if self.view.get(&key).is_some() {
            return Err(ApiError::already_exists(kind, &name));
        }
        admission::create(self.view, kind, &mut value)?;
        let object = self.make(kind, &value)?;
        self.stage(Action::Added, Arc::clone(&object), None);
        Ok(Written::Object(object, true))
    }

    /// Name, uid, stamps: what the server says and a user may not.
    fn fill_metadata(
        &mut self,
        kind: Kind,
        namespace: &str,
        metadata: &mut Map<String, Value>,
    ) -> Result<(), ApiError> {
        let given = |metadata: &Map<String, Value>, field: &str| {
            metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (name, prefix) = (given(metadata, "name"), given(metadata, "generateName"));
        if name.is_empty() && prefix.is_empty() {
            let cause = FieldError::required("metadata.name", "name or generateName is required");
            return Err(ApiError::invalid(kind, "", vec![cause]));
        }
        if name.is_empty() {
            // Kubernetes cuts the prefix so that prefix and suffix fit a DNS label.
            let prefix: String = prefix.chars().take(58).collect();
            metadata.insert("name".to_owned(), json!(format!("{prefix}{}", self.names.suffix())));
        }
        let stated = given(metadata, "namespace");
        if !stated.is_empty() && stated != namespace {
            return Err(ApiError::bad_request(format!(
                "the namespace of the provided object does not match the namespace sent on the request ({stated}, {namespace})"
            )));
        }
        for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"]
        {
            metadata.remove(field);
        }
        if kind.info().namespaced {
            metadata.insert("namespace".to_owned(), json!(namespace));
        } else {
            metadata.remove("namespace");
        }
        metadata.insert("uid".to_owned(), json!(Uid::to_string(&coracle_model::PodUid(self.names.uid()))));
        metadata.insert("creationTimestamp".to_owned(), json!(self.now.stamp()));
        if kind.info().generation {
            metadata.insert("generation".to_owned(), json!(1));
        } else {
            metadata.remove("generation");
        }
        Ok(())
    }

    /// Replaces an object, all but its status (where that is a subresource).
    ///
    /// # Errors
    /// When it is not there, not at the expected revision, or admission refuses it.
    pub fn update(&mut self, key: &Key, expected: Option<u64>, mut value: Value) -> Result<Written, ApiError> {
        let old = self.expect(key, expected, &value)?;
        let old_value = old.value();
        if key.kind.info().subresources.contains(&Subresource::Status) {
            keep(&mut value, &old_value, "status");
        }
        keep_metadata(key.kind, &mut value, &old_value)?;
        admission::update(self.view, key.kind, &old_value, &mut value)?;
        if key.kind.info().generation && !same_but(&value, &old_value, &["metadata", "status"]) {
            let generation = old_value["metadata"]["generation"].as_u64().unwrap_or_default();
            value["metadata"]["generation"] = json!(generation.saturating_add(1));
        }
        self.replace(&old, &old_value, value)
    }

    /// Replaces the status alone.
    ///
    /// # Errors
    /// As for an update.
    pub fn status(&mut self, key: &Key, expected: Option<u64>, value: &Value) -> Result<Written, ApiError> {
        let old = self.expect(key, expected, value)?;
        let old_value = old.value();
        let mut new = old_value.clone();
        if let Some(status) = value.get("status") {
            new["status"] = status.clone();
        }
        admission::status(self.view, key.kind, &old_value, &new)?;
        self.replace(&old, &old_value, new)
    }

    /// Replaces the status alone, by a reconciler or an agent: this is what most writes are.
    pub(crate) fn put_status(&mut self, key: &Key, expected: u64, status: &Value) -> Result<Written, ApiError> {
        let old = self.expect(key, Some(expected), &Value::Null)?;
        let Some(object) = old.with_status(self.next_revision(), status) else {
            return Ok(Written::Object(old, false));
        };
        let object = Arc::new(object);
        self.stage(Action::Modified, Arc::clone(&object), Some(old));
        Ok(Written::Object(object, true))
    }

    /// Binds a pod (POD-02: once).
    ///
    /// # Errors
    /// When it is not there, is another pod, is bound already or is on its way out.
    pub fn bind(&mut self, key: &Key, uid: Option<Uid>, node: &str) -> Result<Written, ApiError> {
        let old = self.current(key)?;
        if uid.is_some_and(|uid| uid != old.uid) {
            return Err(ApiError::conflict(key.kind, &key.name, "the pod was replaced by another one of that name"));
        }
        if let Some(bound) = old.row.pod().and_then(|row| row.node.as_ref()) {
            let detail = format!("pod {} is already assigned to node \"{bound}\"", key.name);
            return Err(ApiError::conflict(key.kind, &key.name, &detail));
        }
        if old.is_deleting() {
            let detail = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
            return Err(ApiError::conflict(key.kind, &key.name, &detail));
        }
        let mut status = old.status();
        let condition = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": self.now.stamp(),
        });
        put_condition(&mut status, condition);
        let object = match old.bound(self.next_revision(), self.view.templates().name(node), &status) {
            Some(bound) => Arc::new(bound),
            None => {
                let mut value = old.value();
                value["spec"]["nodeName"] = json!(node);
                value["status"] = status;
                self.make_next(&old, &value)?
            }
        };
        self.stage(Action::Modified, Arc::clone(&object), Some(old));
        Ok(Written::Object(object, true))
    }

    fn expect(&self, key: &Key, expected: Option<u64>, value: &Value) -> Result<Arc<Object>, ApiError> {
        let old = self.current(key)?;
        let metadata = &value["metadata"];
        let stated = metadata["resourceVersion"].as_str().filter(|text| !text.is_empty());
        let stated = stated.map(|text| {
            let invalid = FieldError::invalid("metadata.resourceVersion", &json!(text), "must be a decimal number");
            text.parse::<u64>().map_err(|_| ApiError::invalid(key.kind, &key.name, vec![invalid]))
        });
        let wanted = match (expected, stated) {
            (Some(expected), _) => Some(expected),
            (None, Some(stated)) => Some(stated?),
            (None, None) => None,
        };
        // As in Kubernetes, 0 means whatever is there.
        if wanted.filter(|revision| *revision != 0).is_some_and(|revision| revision != old.revision) {
            return Err(ApiError::modified(key.kind, &key.name));
        }
        if let Some(uid) = metadata["uid"].as_str().filter(|uid| *uid != old.uid.to_string()) {
            let detail = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid);
            return Err(ApiError::conflict(key.kind, &key.name, &detail));
        }
        Ok(old)
    }

    /// Stages the new form of an object, unless it is the old one. One whose last finalizer went goes too.
    fn replace(&mut self, old: &Arc<Object>, old_value: &Value, value: Value) -> Result<Written, ApiError> {
        if same_but_version(&value, old_value) {
            return Ok(Written::Object(Arc::clone(old), false));
        }
        let object = self.make_next(old, &value)?;
        if old.finalizers && delete::may_go(&object) {
            return Ok(self.gone(old, object));
        }
        self.stage(Action::Modified, Arc::clone(&object), Some(Arc::clone(old)));
        Ok(Written::Object(object, true))
    }

    fn gone(&mut self, old: &Arc<Object>, last: Arc<Object>) -> Written {
        self.stage(Action::Deleted, Arc::clone(&last), Some(Arc::clone(old)));
        Written::Gone(last)
    }

    const fn next_revision(&self) -> u64 {
        self.view.revision().saturating_add(1)
    }

    fn make(&mut self, kind: Kind, value: &Value) -> Result<Arc<Object>, ApiError> {
        let object = Object::new(kind, self.next_revision(), value, self.view.templates());
        object.map(Arc::new).map_err(|error| ApiError::internal(error.to_string()))
    }

    fn make_next(&self, old: &Object, value: &Value) -> Result<Arc<Object>, ApiError> {
        let object = old.next(self.next_revision(), value);
        object.map(Arc::new).map_err(|error| ApiError::internal(error.to_string()))
    }

    fn stage(&mut self, action: Action, object: Arc<Object>, previous: Option<Arc<Object>>) {
        if self.dry_run {
            return;
        }
        let change = Change { revision: object.revision, action, object, previous };
        self.view.apply(&change);
        self.changes.push(change);
    }
}

/// Takes a field from the old object, or takes it out if that had none.
fn keep(value: &mut Value, old: &Value, field: &str) {
    let Some(root) = value.as_object_mut() else { return };
    match old.get(field) {
        Some(kept) => root.insert(field.to_owned(), kept.clone()),
        None => root.remove(field),
    };
}

/// What only the server may say stays as it was.
fn keep_metadata(kind: Kind, value: &mut Value, old: &Value) -> Result<(), ApiError> {
    let root = value.as_object_mut().ok_or_else(|| ApiError::bad_request("the body is not an object"))?;
    root.insert("apiVersion".to_owned(), json!(kind.api_version()));
    root.insert("kind".to_owned(), json!(kind.info().kind));
    let metadata = root.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        return Err(ApiError::bad_request("metadata is not an object"));
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "generateName",
    ] {
        keep(metadata, &old["metadata"], field);
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("selfLink");
    }
    Ok(())
}

/// Whether two objects are the same but for these of their fields.
fn same_but(one: &Value, two: &Value, fields: &[&str]) -> bool {
    let within = |one: &Value, two: &Value| {
        let mut rest = one.as_object().into_iter().flatten().filter(|(name, _)| !fields.contains(&name.as_str()));
        rest.all(|(name, value)| two.get(name) == Some(value))
    };
    within(one, two) && within(two, one)
}

fn same_but_version(one: &Value, two: &Value) -> bool {
    same_but(one, two, &["metadata"]) && same_but(&one["metadata"], &two["metadata"], &["resourceVersion"])
}

/// Puts a condition into `status.conditions`, in the place of one of the same type.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    put_condition(&mut object["status"], condition);
}

/// Puts a condition into the `conditions` of a status, in the place of one of the same type.
pub(crate) fn put_condition(status: &mut Value, condition: Value) {
    if !status.is_object() {
        *status = json!({});
    }
    let conditions = &mut status["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    match list.iter_mut().find(|existing| existing["type"] == condition["type"]) {
        Some(existing) => *existing = condition,
        None => list.push(condition),
    }
}
