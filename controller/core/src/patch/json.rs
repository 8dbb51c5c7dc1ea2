//! JSON patch (RFC 6902), within bounds: a few short operations must not make a huge object.

use coracle_model::limits::MAX_MANIFEST_BYTES;
use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use super::MAX_DEPTH;
use crate::error::{ApiError, FieldError};
use crate::kind::Kind;

/// Operations in one patch (Kubernetes' own bound).
const MAX_OPERATIONS: usize = 10_000;

pub(super) fn apply(kind: Kind, name: &str, target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let patch: Patch = serde_json::from_value(patch.clone())
        .map_err(|error| ApiError::bad_request(format!("the body is no JSON patch: {error}")))?;
    if patch.0.len() > MAX_OPERATIONS {
        let found = patch.0.len();
        return Err(ApiError::bad_request(format!(
            "a JSON patch has at most {MAX_OPERATIONS} operations, found {found}"
        )));
    }
    let mut copied = 0_usize;
    for operation in &patch.0 {
        let depth = operation.path().count();
        if depth > MAX_DEPTH {
            return Err(ApiError::bad_request(format!("a path has at most {MAX_DEPTH} parts, found {depth}")));
        }
        if let PatchOperation::Copy(copy) = operation {
            let source = copy.from.resolve(target).map(|source| source.to_string().len());
            copied = copied.saturating_add(source.unwrap_or_default());
            if copied > MAX_MANIFEST_BYTES || super::deeper_than(target, MAX_DEPTH) {
                return Err(ApiError::bad_request("the patch copies too much"));
            }
        }
        // One by one, so that each sees the bound; the object is thrown away when one fails.
        json_patch::patch_unsafe(target, std::slice::from_ref(operation)).map_err(|error| {
            let cause = FieldError::invalid("patch", &json!(operation), &error.kind.to_string());
            ApiError::invalid(kind, name, vec![cause])
        })?;
    }
    Ok(())
}
