//! The subresource `/scale` (autoscaling/v1 Scale) of the kinds that have replicas.

use serde_json::{Value, json};

use crate::error::{ApiError, FieldError};
use crate::object::Object;
use crate::selector::LabelSelector;

/// An object as a Scale.
#[must_use]
pub fn scale_of(object: &Object) -> Value {
    let value = object.value();
    let selector = LabelSelector::of_json(&value["spec"]["selector"]).map(|selector| selector.to_string());
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": object.name(), "namespace": object.namespace(), "uid": object.uid.to_string(),
            "resourceVersion": object.revision.to_string(),
            "creationTimestamp": value["metadata"]["creationTimestamp"],
        },
        "spec": {"replicas": value["spec"]["replicas"].as_u64().unwrap_or(1)},
        "status": {
            "replicas": value["status"]["replicas"].as_u64().unwrap_or_default(),
            "selector": selector.unwrap_or_default(),
        },
    })
}

/// The object as a Scale wants it.
///
/// # Errors
/// When `spec.replicas` is not a number of replicas.
pub fn scaled(object: &Object, scale: &Value) -> Result<Value, ApiError> {
    let replicas = match &scale["spec"]["replicas"] {
        Value::Null => 0,
        found => found.as_u64().and_then(|count| i32::try_from(count).ok()).ok_or_else(|| {
            let cause = FieldError::invalid("spec.replicas", found, "must be greater than or equal to 0");
            ApiError::invalid(object.key.kind, object.name(), vec![cause])
        })?,
    };
    let mut value = object.value();
    value["spec"]["replicas"] = json!(replicas);
    if let Some(revision) = scale["metadata"]["resourceVersion"].as_str() {
        value["metadata"]["resourceVersion"] = json!(revision);
    }
    Ok(value)
}
