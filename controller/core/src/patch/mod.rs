//! Patches: JSON patch, JSON merge patch, and Kubernetes' strategic merge patch, both ways.
//!
//! *In:* an object and a patch, or three versions of an object. *Out:* the patched object, or the patch between them.
//! *Must never know:* what may be changed and by whom: that is admission's.
//! *Tested:* tables of our own vectors, and real `kubectl` end to end.

mod json;
mod shape;
mod strategic;
mod three_way;

use serde_json::Value;

use crate::error::ApiError;
use crate::kind::Kind;
use crate::request::PatchType;

/// How deep an object may be nested after a patch; what is stored must be readable again.
const MAX_DEPTH: usize = 100;

/// Patches `target`, which is an object of `kind` or its Scale.
///
/// # Errors
/// When the patch is malformed (400), or does not fit the object (422). `target` is then of no use any more.
pub fn apply(kind: Kind, patch_type: PatchType, target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    match patch_type {
        PatchType::Json => {
            let name = target["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            json::apply(kind, &name, target, patch)?;
        }
        PatchType::Merge => {
            let patch = object(patch).map(|_| patch)?;
            json_patch::merge(target, patch);
        }
        PatchType::StrategicMerge => {
            let patch = object(patch)?;
            let fields = target.as_object_mut().ok_or_else(|| ApiError::internal("a stored object is no object"))?;
            strategic::merge(fields, patch, shape::of(kind))?;
        }
    }
    if !target.is_object() {
        return Err(ApiError::bad_request("the patch leaves no object"));
    }
    if deeper_than(target, MAX_DEPTH) {
        return Err(ApiError::bad_request(format!("the patched object is nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(())
}

/// The strategic merge patch that takes `current` to `modified`, as `kubectl apply` makes it: what `original`, the last
/// applied manifest, had and `modified` has not is deleted; what only others have set stays.
#[must_use]
pub fn three_way(kind: Kind, original: &Value, modified: &Value, current: &Value) -> Value {
    let (Some(modified), Some(current)) = (modified.as_object(), current.as_object()) else { return modified.clone() };
    Value::Object(three_way::between(original.as_object(), modified, current, shape::of(kind)))
}

fn object(patch: &Value) -> Result<&serde_json::Map<String, Value>, ApiError> {
    patch.as_object().ok_or_else(|| ApiError::bad_request("the patch is not an object"))
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| deeper_than(item, below)),
        Value::Object(fields) => fields.values().any(|field| deeper_than(field, below)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
