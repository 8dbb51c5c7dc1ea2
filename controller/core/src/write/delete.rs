//! Deletion: grace periods (TRM-01, TRM-08), finalizers and propagation (GC-03).

use serde_json::{Value, json};

use super::{Writer, Written};
use crate::clock;
use crate::error::ApiError;
use crate::kind::Kind;
use crate::object::{Key, Object, Uid};
use crate::plan::Propagation;
use crate::request::DeleteOptions;

/// Holds an owner until what blocks its deletion is gone.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// Holds an owner until what it owns has been freed.
pub const ORPHAN_FINALIZER: &str = "orphan";

impl Writer<'_> {
    /// Deletes an object: at once, or by marking it when a grace period or finalizers hold it.
    ///
    /// # Errors
    /// When it is not there or a precondition fails.
    pub fn delete(&mut self, key: &Key, options: &DeleteOptions) -> Result<Written, ApiError> {
        let old = self.current(key)?;
        check_preconditions(&old, options)?;
        let old_value = old.value();
        let mut value = old_value.clone();
        add_finalizer(&mut value, options.propagation);
        let grace = grace_seconds(&old, &old_value, options);
        let held = value["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
            || holds_namespace(key.kind, &value);
        if grace == 0 && !held {
            let last = self.make_next(&old, &value)?;
            return Ok(self.gone(&old, last));
        }
        self.mark(&old, &mut value, grace);
        self.replace(&old, &old_value, value)
    }

    /// Takes an object out: its end was confirmed. One with finalizers stays until they are gone.
    ///
    /// # Errors
    /// When it is not there any more, or is another one of that name.
    pub fn remove(&mut self, key: &Key, uid: Uid) -> Result<Written, ApiError> {
        let old = self.current(key)?;
        if old.uid != uid {
            return Err(ApiError::not_found(key.kind, &key.name));
        }
        let old_value = old.value();
        let mut value = old_value.clone();
        if old.finalizers {
            self.mark(&old, &mut value, 0);
            return self.replace(&old, &old_value, value);
        }
        let last = self.make_next(&old, &value)?;
        Ok(self.gone(&old, last))
    }

    /// Sets deletionTimestamp and grace period; a later delete may shorten, never lengthen.
    fn mark(&self, old: &Object, value: &mut Value, grace_seconds: u64) {
        let metadata = &mut value["metadata"];
        if metadata["deletionTimestamp"].is_null() && old.key.kind.info().generation {
            metadata["generation"] = json!(metadata["generation"].as_u64().unwrap_or_default().saturating_add(1));
        }
        if old.is_deleting()
            && metadata["deletionGracePeriodSeconds"].as_u64().is_some_and(|earlier| earlier <= grace_seconds)
        {
            return;
        }
        let at = self.now.wall_ms.saturating_add(grace_seconds.saturating_mul(1000));
        metadata["deletionTimestamp"] = json!(clock::stamp(at));
        metadata["deletionGracePeriodSeconds"] = json!(grace_seconds);
        if old.key.kind == Kind::NAMESPACE {
            value["status"]["phase"] = json!("Terminating");
        }
    }
}

/// Refuses a deletion of another object than the one that is meant, or of another revision.
pub(crate) fn check_preconditions(old: &Object, options: &DeleteOptions) -> Result<(), ApiError> {
    if let Some(uid) = options.uid.filter(|uid| *uid != old.uid) {
        let detail = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid);
        return Err(ApiError::conflict(old.key.kind, old.name(), &detail));
    }
    if let Some(revision) = options.resource_version.filter(|revision| *revision != old.revision) {
        let detail = format!(
            "Precondition failed: ResourceVersion in precondition: {revision}, ResourceVersion in object meta: {}",
            old.revision
        );
        return Err(ApiError::conflict(old.key.kind, old.name(), &detail));
    }
    Ok(())
}

/// The grace period that holds a pod: none while it is not bound, and none once it has come to its end.
fn grace_seconds(old: &Object, value: &Value, options: &DeleteOptions) -> u64 {
    let Some(row) = old.row.pod() else { return 0 };
    if row.node.is_none() || row.phase.is_terminal() {
        return 0;
    }
    let own = value["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    let wanted = options.grace_seconds.unwrap_or(own);
    row.deletion_grace_ms.map_or(wanted, |earlier_ms| wanted.min(earlier_ms / 1000))
}

fn add_finalizer(value: &mut Value, propagation: Option<Propagation>) {
    let finalizer = match propagation {
        None | Some(Propagation::Background) => return,
        Some(Propagation::Foreground) => FOREGROUND_FINALIZER,
        Some(Propagation::Orphan) => ORPHAN_FINALIZER,
    };
    let finalizers = &mut value["metadata"]["finalizers"];
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|existing| existing == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// A namespace is held by `spec.finalizers` (SAF-10).
fn holds_namespace(kind: Kind, value: &Value) -> bool {
    kind == Kind::NAMESPACE && value["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Whether an object that has lost its last finalizer goes: a bound pod still waits for its node's word.
pub(super) fn may_go(object: &Object) -> bool {
    let waits = object.row.pod().is_some_and(|row| {
        row.node.is_some() && !row.phase.is_terminal() && row.deletion_grace_ms.is_none_or(|grace| grace > 0)
    });
    object.is_deleting() && !object.finalizers && !waits && object.key.kind != Kind::NAMESPACE
}
