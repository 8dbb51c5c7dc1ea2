//! Whole objects through the door of admission.

mod affinity;
mod hostile;
mod others;
mod placement;
mod pods;
mod priority;
mod storage;
mod volumes;
mod workloads;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{create, decode, update};
use crate::error::ApiError;
use crate::kind::Kind;
use crate::object::Object;
use crate::request::FieldValidation;
use crate::view::View;

const UID: &str = "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b11";

fn view() -> View {
    let namespace = |name: &str, uid: &str, deleted: Value| {
        let value = json!({"metadata": {"name": name, "uid": uid, "deletionTimestamp": deleted}});
        Arc::new(Object::from_value(Kind::NAMESPACE, 1, value).unwrap())
    };
    View::new(
        1,
        [
            namespace("default", UID, Value::Null),
            namespace("going", "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b12", json!("2026-11-21T03:40:30Z")),
        ],
    )
}

/// The view, with these objects in it too.
fn view_with(objects: &[(Kind, Value)]) -> View {
    let mut all: Vec<_> = Kind::all().flat_map(|kind| view().list(kind, None).cloned().collect::<Vec<_>>()).collect();
    for (number, (kind, value)) in objects.iter().enumerate() {
        let mut value = value.clone();
        value["metadata"]["uid"] = json!(format!("6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e5{number:03}"));
        all.push(Arc::new(Object::from_value(*kind, 1, value).unwrap()));
    }
    View::new(1, all)
}

fn pod(spec: Value) -> Value {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "samples/hello:1"}]);
    }
    json!({"metadata": {"name": "p", "namespace": "default", "creationTimestamp": "2026-11-21T03:40:30Z"}, "spec": spec})
}

fn container(fields: Value) -> Value {
    let mut container = json!({"name": "c", "image": "samples/hello:1"});
    for (name, value) in fields.as_object().unwrap() {
        container[name] = value.clone();
    }
    pod(json!({"containers": [container]}))
}

fn workload(spec: Value) -> Value {
    let mut all = json!({
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    });
    for (name, value) in spec.as_object().unwrap() {
        all[name] = value.clone();
    }
    json!({"metadata": {"name": "w", "namespace": "default"}, "spec": all})
}

/// As a user's object goes in: decoded, then created.
fn admitted(kind: Kind, value: Value) -> Result<Value, ApiError> {
    admitted_in(&view(), kind, value)
}

fn admitted_in(view: &View, kind: Kind, value: Value) -> Result<Value, ApiError> {
    let mut value = value;
    decode(kind, &mut value, FieldValidation::Strict)?;
    create(view, kind, &mut value)?;
    // What is stored is still one of Kubernetes' objects, with no field that is null.
    let stored = value.clone();
    assert_eq!(decode(kind, &mut value, FieldValidation::Strict), Ok(Vec::new()));
    assert_eq!(value, stored);
    Ok(value)
}

fn changed(kind: Kind, old: &Value, change: impl FnOnce(&mut Value)) -> Result<Value, ApiError> {
    let mut new = old.clone();
    change(&mut new);
    update(&view(), kind, old, &mut new).map(|()| new)
}

/// Each refused with exactly one cause, in which these words stand.
fn refused(kind: Kind, table: &[(Value, &str)]) {
    for (value, words) in table {
        let error = admitted(kind, value.clone()).unwrap_err();
        assert_eq!((error.code, error.reason), (422, "Invalid"), "{error}");
        assert_eq!(error.details.causes.len(), 1, "{error}");
        let cause = &error.details.causes[0];
        let shown = format!("{}: {}", cause.field, cause.message);
        assert!(shown.contains(words), "{shown}\nwant: {words}");
    }
}
