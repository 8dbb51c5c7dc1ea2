//! A user's request, carried out on the staged view.

use serde_json::{Value, json};

use crate::admission;
use crate::error::{ApiError, FieldError};
use crate::kind::{Kind, Subresource};
use crate::object::Key;
use crate::patch;
use crate::request::{Answer, FieldValidation, Outcome, PatchType, Request, Verb};
use crate::write::{Writer, Written, scale_of, scaled};

use super::evict;

/// The annotation that `kubectl apply` keeps its last manifest in.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Carries out one request.
pub(super) fn execute(writer: &mut Writer<'_>, request: Request) -> Result<Answer, ApiError> {
    if !request.kind.info().stored {
        return Err(ApiError::method_not_allowed());
    }
    writer.dry_run = request.dry_run;
    let key = Key::new(request.kind, &request.namespace, &request.name);
    match request.verb {
        Verb::Create(value) => match request.subresource {
            None => create(writer, &key, value, request.field_validation),
            Some(Subresource::Binding) => bind(writer, &key, &value),
            Some(Subresource::Eviction) => evict::evict(writer, &key, &value),
            Some(_) => Err(ApiError::method_not_allowed()),
        },
        Verb::Replace(value) => replace(writer, &key, request.subresource, value, request.field_validation),
        Verb::Patch(patch_type, body) => {
            let target = (request.subresource, patch_type);
            patched(writer, &key, target, &body, request.field_validation)
        }
        Verb::Apply(value) => apply(writer, &key, value, request.field_validation),
        Verb::Delete(options) => {
            let outcome = match writer.delete(&key, &options)? {
                Written::Object(object, _) => Outcome::Deleting(object),
                Written::Gone(object) => Outcome::Deleted(object),
            };
            Ok(Answer { outcome, warnings: Vec::new() })
        }
    }
}

fn create(
    writer: &mut Writer<'_>,
    key: &Key,
    mut value: Value,
    validation: FieldValidation,
) -> Result<Answer, ApiError> {
    let warnings = decode(key.kind, &mut value, validation)?;
    let written = writer.create(key.kind, &key.namespace, value)?;
    Ok(Answer { outcome: Outcome::Created(written.object().clone()), warnings })
}

/// Reads an object; the warnings are of what is unknown in it, and of what this build does not do with it.
fn decode(kind: Kind, value: &mut Value, validation: FieldValidation) -> Result<Vec<String>, ApiError> {
    let mut warnings = admission::decode(kind, value, validation)?;
    warnings.extend(admission::warnings(kind, value));
    Ok(warnings)
}

fn bind(writer: &mut Writer<'_>, key: &Key, binding: &Value) -> Result<Answer, ApiError> {
    let node = binding["target"]["name"].as_str().filter(|name| !name.is_empty()).ok_or_else(|| {
        let cause = FieldError::required("target.name", "the node to bind to");
        ApiError::invalid(Kind::POD, &key.name, vec![cause])
    })?;
    if writer.view.get(&Key::new(Kind::NODE, "", node)).is_none() {
        return Err(ApiError::not_found(Kind::NODE, node));
    }
    let uid = binding["metadata"]["uid"].as_str().and_then(|uid| uid.parse().ok());
    writer.bind(key, uid, node)?;
    Ok(Answer { outcome: Outcome::Bound, warnings: Vec::new() })
}

fn replace(
    writer: &mut Writer<'_>,
    key: &Key,
    subresource: Option<Subresource>,
    mut value: Value,
    validation: FieldValidation,
) -> Result<Answer, ApiError> {
    let stated = value["metadata"]["name"].as_str().unwrap_or_default();
    if !stated.is_empty() && stated != &*key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({stated}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if subresource == Some(Subresource::Scale) {
        return scale(writer, key, &value);
    }
    let warnings = decode(key.kind, &mut value, validation)?;
    let written = match subresource {
        None => writer.update(key, None, value)?,
        Some(Subresource::Status) => writer.status(key, None, &value)?,
        Some(Subresource::Finalize) => writer.update(key, None, value)?,
        Some(_) => return Err(ApiError::method_not_allowed()),
    };
    Ok(updated(written, warnings))
}

fn scale(writer: &mut Writer<'_>, key: &Key, scale: &Value) -> Result<Answer, ApiError> {
    let object = writer.current(key)?;
    let value = scaled(&object, scale)?;
    let written = writer.update(key, None, value)?;
    Ok(Answer { outcome: Outcome::Scaled(scale_of(written.object())), warnings: Vec::new() })
}

fn patched(
    writer: &mut Writer<'_>,
    key: &Key,
    (subresource, patch_type): (Option<Subresource>, PatchType),
    body: &Value,
    validation: FieldValidation,
) -> Result<Answer, ApiError> {
    let object = writer.current(key)?;
    if subresource == Some(Subresource::Scale) {
        let mut value = scale_of(&object);
        patch::apply(key.kind, patch_type, &mut value, body)?;
        return scale(writer, key, &value);
    }
    let mut value = object.value();
    patch::apply(key.kind, patch_type, &mut value, body)?;
    for field in ["name", "namespace"] {
        let (old, new) = (object.value()["metadata"][field].clone(), &value["metadata"][field]);
        if *new != old {
            let cause = FieldError::invalid(format!("metadata.{field}"), new, "field is immutable");
            return Err(ApiError::invalid(key.kind, &key.name, vec![cause]));
        }
    }
    let warnings = decode(key.kind, &mut value, validation)?;
    let written = match subresource {
        None | Some(Subresource::Finalize) => writer.update(key, None, value)?,
        Some(Subresource::Status) => writer.status(key, None, &value)?,
        Some(_) => return Err(ApiError::method_not_allowed()),
    };
    Ok(updated(written, warnings))
}

/// What `kubectl apply` does on its side, for a manifest that came over MQTT: create, or merge three ways.
fn apply(
    writer: &mut Writer<'_>,
    key: &Key,
    mut value: Value,
    validation: FieldValidation,
) -> Result<Answer, ApiError> {
    let warnings = decode(key.kind, &mut value, validation)?;
    if let Some(annotations) = value["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    let manifest = format!("{value}\n");
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    if !value["metadata"]["annotations"].is_object() {
        value["metadata"]["annotations"] = json!({});
    }
    value["metadata"]["annotations"][LAST_APPLIED] = json!(manifest);
    let Some(current) = writer.view.get(key).cloned() else {
        let written = writer.create(key.kind, &key.namespace, value)?;
        return Ok(Answer { outcome: Outcome::Created(written.object().clone()), warnings });
    };
    let mut target = current.value();
    let original = target["metadata"]["annotations"][LAST_APPLIED].as_str();
    let original = original.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| json!({}));
    let merge = patch::three_way(key.kind, &original, &value, &target);
    patch::apply(key.kind, PatchType::StrategicMerge, &mut target, &merge)?;
    let written = writer.update(key, None, target)?;
    Ok(updated(written, warnings))
}

fn updated(written: Written, warnings: Vec<String>) -> Answer {
    let outcome = match written {
        Written::Object(object, true) => Outcome::Updated(object),
        Written::Object(object, false) => Outcome::Unchanged(object),
        Written::Gone(object) => Outcome::Deleted(object),
    };
    Answer { outcome, warnings }
}
