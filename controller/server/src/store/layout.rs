//! How keys and values are written. A change here raises [`SCHEMA`].

use std::sync::Arc;

use coracle_controller_core::object::{Key, Object, Templates};
use coracle_controller_core::store::{Action, Change, StoreError};
use coracle_controller_core::{Kind, store};
use redb::TableDefinition;

/// The layout that this build reads and writes; a newer one is refused.
pub(super) const SCHEMA: u64 = 1;

/// Numbers: `schema`, `revision` (of the last change), `floor` (the log has everything after it).
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Revision -> [action, kind (2 bytes), JSON of what was deleted]. Of any other change the object is found by its
/// revision among the objects; if it is not, a later change has overtaken it, and tells a reader more.
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// [kind (2 bytes), namespace, 0, name] -> [revision (8 bytes), JSON].
pub(super) const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");

/// The key of an object. Keys sort by kind, namespace and name; neither of the last two can contain a zero byte.
pub(super) fn object_key(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + key.namespace.len() + key.name.len());
    bytes.extend_from_slice(&key.kind.number().to_be_bytes());
    bytes.extend_from_slice(key.namespace.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(key.name.as_bytes());
    bytes
}

/// Writes the value of an object, whose JSON is `body`, into a buffer that is used again and again.
pub(super) fn object_value(object: &Object, body: &str, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&object.revision.to_le_bytes());
    buffer.extend_from_slice(body.as_bytes());
}

/// Reads an object.
pub(super) fn read_object(key: &[u8], value: &[u8], templates: &mut Templates) -> Result<Object, StoreError> {
    let shown = || format!("object {:?}", String::from_utf8_lossy(key));
    let kind = key.first_chunk().and_then(|number| Kind::of_number(u16::from_be_bytes(*number)));
    let split =
        value.split_first_chunk().and_then(|(revision, body)| Some((revision, std::str::from_utf8(body).ok()?)));
    let (Some(kind), Some((revision, body))) = (kind, split) else {
        return Err(damaged(shown(), "its kind, its revision or its text is not readable"));
    };
    let object = Object::from_json(kind, u64::from_le_bytes(*revision), body, templates);
    let object = object.map_err(|error| damaged(shown(), &error.to_string()))?;
    if object_key(&object.key) != key {
        return Err(damaged(shown(), "another object is stored under its key"));
    }
    Ok(object)
}

/// Writes the log's entry for a change of an object whose JSON is `body`.
pub(super) fn log_value(change: &Change, body: &str, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.push(change.action.number());
    buffer.extend_from_slice(&change.object.key.kind.number().to_be_bytes());
    if change.action == Action::Deleted {
        buffer.extend_from_slice(body.as_bytes());
    }
}

/// Reads an entry of the log. `current` gives the object that is still as this change left it; without one, the change
/// was overtaken.
pub(super) fn read_log(
    revision: u64,
    value: &[u8],
    templates: &mut Templates,
    current: impl FnOnce(u64) -> Option<Arc<Object>>,
) -> Result<Option<Change>, StoreError> {
    let shown = || format!("log at revision {revision}");
    let (head, body) = value.split_first_chunk::<3>().ok_or_else(|| damaged(shown(), "it is too short"))?;
    let [action, kind @ ..] = *head;
    let action = Action::of_number(action).ok_or_else(|| damaged(shown(), "its action is not known"))?;
    let kind = Kind::of_number(u16::from_be_bytes(kind)).ok_or_else(|| damaged(shown(), "its kind is not known"))?;
    let object = if action == Action::Deleted {
        let body = std::str::from_utf8(body).map_err(|error| damaged(shown(), &error.to_string()))?;
        let object = Object::from_json(kind, revision, body, templates);
        Some(Arc::new(object.map_err(|error| damaged(shown(), &error.to_string()))?))
    } else {
        current(revision)
    };
    Ok(object.map(|object| Change { revision, action, object, previous: None }))
}

pub(super) fn damaged(place: String, what: &str) -> StoreError {
    store::StoreError::Damaged { what: format!("{place}: {what}") }
}
