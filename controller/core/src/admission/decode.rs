//! Reads an object as its Kubernetes type: wrong types are refused with their path, unknown fields found.
//!
//! The user's JSON stays the truth: only what no type knows is taken out of it, and only what Kubernetes reads
//! differently (`null`, `1e3` for an integer, a bare number for a quantity) is changed.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::kind::Kind;
use crate::manifest::type_name;
use crate::request::FieldValidation;

/// How many values of one object are put right before it is given up.
const MAX_REPAIRS: usize = 1024;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

type Path = Vec<Step>;

/// A value that does not fit its field.
struct Misfit {
    path: Path,
    message: String,
}

type Reader = fn(&Value) -> Result<Vec<Path>, Misfit>;

/// The Kubernetes type of a kind.
fn reader(kind: Kind) -> Reader {
    match kind {
        Kind::NAMESPACE => read::<Namespace>,
        Kind::NODE => read::<Node>,
        Kind::POD => read::<Pod>,
        Kind::CONFIG_MAP => read::<ConfigMap>,
        Kind::SECRET => read::<Secret>,
        Kind::EVENT => read::<Event>,
        Kind::REPLICA_SET => read::<ReplicaSet>,
        Kind::DEPLOYMENT => read::<Deployment>,
        Kind::DAEMON_SET => read::<DaemonSet>,
        Kind::LEASE => read::<Lease>,
        Kind::PRIORITY_CLASS => read::<PriorityClass>,
        Kind::POD_DISRUPTION_BUDGET => read::<PodDisruptionBudget>,
        Kind::SERVICE => read::<Service>,
        Kind::PERSISTENT_VOLUME => read::<PersistentVolume>,
        Kind::PERSISTENT_VOLUME_CLAIM => read::<PersistentVolumeClaim>,
        Kind::STORAGE_CLASS => read::<StorageClass>,
        _ => |_| Ok(Vec::new()),
    }
}

pub(super) fn decode(kind: Kind, value: &mut Value, validation: FieldValidation) -> Result<Vec<String>, ApiError> {
    if !value.is_object() {
        return Err(ApiError::bad_request(format!("the body is {}, want an object", type_name(value))));
    }
    check_kind(kind, value)?;
    let unknown = read_repairing(kind, value)?;
    for path in &unknown {
        remove(value, path);
    }
    normalise(value, "", "");
    let mut shown: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{}\"", show(path))).collect();
    shown.sort();
    shown.dedup();
    match validation {
        FieldValidation::Strict if !shown.is_empty() => {
            Err(ApiError::bad_request(format!("{}strict decoding error: {}", preface(kind), shown.join(", "))))
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(shown),
    }
}

fn preface(kind: Kind) -> String {
    let info = kind.info();
    format!("{} in version \"{}\" cannot be handled as a {}: ", info.kind, info.version, info.kind)
}

/// A body may leave out apiVersion and kind, since the path says them, but may not say others.
fn check_kind(kind: Kind, value: &Value) -> Result<(), ApiError> {
    let api_version = kind.api_version();
    for (field, wanted, words) in
        [("apiVersion", api_version.as_str(), "API version"), ("kind", kind.info().kind, "kind")]
    {
        let found = value[field].as_str().unwrap_or_default();
        if !found.is_empty() && found != wanted {
            return Err(ApiError::bad_request(format!(
                "{field}: the {words} in the data ({found}) does not match the expected {words} ({wanted})"
            )));
        }
    }
    Ok(())
}

/// Reads until nothing is left that can be put right; gives the unknown fields.
fn read_repairing(kind: Kind, value: &mut Value) -> Result<Vec<Path>, ApiError> {
    let read = reader(kind);
    for _ in 0..MAX_REPAIRS {
        let misfit = match read(value) {
            Ok(unknown) => return Ok(unknown),
            Err(misfit) => misfit,
        };
        if !repair(value, &misfit.path) {
            let found = find(value, &misfit.path).map_or("nothing", type_name);
            let message = format!("{}{}: found {found}: {}", preface(kind), show(&misfit.path), misfit.message);
            return Err(ApiError::bad_request(message));
        }
    }
    Err(ApiError::bad_request(format!("{}more than {MAX_REPAIRS} values are null or have another type", preface(kind))))
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<Vec<Path>, Misfit> {
    let mut unknown = Vec::new();
    let result: Result<T, _> = serde_ignored::deserialize(value, |path| unknown.push(ignored(&path)));
    match result {
        Ok(_) => Ok(unknown),
        Err(_) => Err(misfit::<T>(value)),
    }
}

/// What of a value does not fit, and where. To know where one is while one reads is dear, so this is only asked of what has
/// not been read.
fn misfit<T: DeserializeOwned>(value: &Value) -> Misfit {
    let read: Result<T, _> = serde_path_to_error::deserialize(value);
    match read {
        Ok(_) => Misfit { path: Path::new(), message: "it cannot be read".to_owned() },
        Err(error) => Misfit { path: steps(error.path()), message: error.inner().to_string() },
    }
}

/// What of a part of an object does not fit its type, or is not known to it: paths and words.
pub(super) fn misfits<T: DeserializeOwned>(value: &Value) -> Vec<(String, String)> {
    match read::<T>(value) {
        Ok(unknown) => unknown.iter().map(|path| (show(path), "unknown field".to_owned())).collect(),
        Err(misfit) => {
            let found = find(value, &misfit.path).map_or("nothing", type_name);
            vec![(show(&misfit.path), format!("found {found}: {}", misfit.message))]
        }
    }
}

fn ignored(path: &serde_ignored::Path<'_>) -> Path {
    use serde_ignored::Path as Ignored;
    let (parent, step) = match path {
        Ignored::Root => return Vec::new(),
        Ignored::Seq { parent, index } => (parent, Some(Step::Item(*index))),
        Ignored::Map { parent, key } => (parent, Some(Step::Field(key.clone()))),
        Ignored::Some { parent } | Ignored::NewtypeStruct { parent } | Ignored::NewtypeVariant { parent } => {
            (parent, None)
        }
    };
    let mut steps = ignored(parent);
    steps.extend(step);
    steps
}

fn steps(path: &serde_path_to_error::Path) -> Path {
    use serde_path_to_error::Segment;
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(Step::Item(*index)),
        Segment::Map { key } => Some(Step::Field(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    steps.collect()
}

/// `spec.containers[0].image`
fn show(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Item(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn find<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Item(index) => value.get(index),
    })
}

fn find_mut<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Item(index) => value.get_mut(index),
    })
}

fn remove(value: &mut Value, path: &[Step]) {
    if let Some((Step::Field(name), parent)) = path.split_last()
        && let Some(Value::Object(fields)) = find_mut(value, parent)
    {
        fields.remove(name);
    }
}

/// Puts right what Kubernetes reads although the type says otherwise; `false` when the value is simply wrong.
fn repair(value: &mut Value, path: &[Step]) -> bool {
    let Some(found) = find_mut(value, path) else { return false };
    match found {
        Value::Null if matches!(path.last(), Some(Step::Field(_))) => {
            remove(value, path);
            true
        }
        Value::Number(number) if number.is_f64() => match integral(number) {
            Some(integer) => {
                *found = json!(integer);
                true
            }
            None => false,
        },
        _ => false,
    }
}

/// The whole number that a float stands for, as far as floats hold whole numbers exactly.
fn integral(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    if float.fract() != 0.0 || float.abs() > EXACT {
        return None;
    }
    // Below 2^53 the text of a whole float without its fraction is the whole number.
    format!("{float:.0}").parse().ok()
}

/// Whether a field holds a `resource.Quantity`, which may be written as a bare number.
fn is_quantity(parent: &str, field: &str) -> bool {
    matches!(field, "divisor" | "sizeLimit")
        || matches!(parent, "requests" | "limits" | "capacity" | "allocatable" | "overhead" | "allocatedResources")
}

/// What fits its type, in the form in which it is stored: a field that is `null` is a field that is not given, and a
/// quantity is a text.
fn normalise(value: &mut Value, parent: &str, field: &str) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for (name, value) in fields.iter_mut() {
                normalise(value, field, name);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, parent, field)),
        Value::Number(number) if is_quantity(parent, field) => {
            let text = integral(number).map_or_else(|| number.to_string(), |integer| integer.to_string());
            *value = Value::String(text);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(kind: Kind, value: Value) -> Result<Value, String> {
        let mut value = value;
        decode(kind, &mut value, FieldValidation::Strict).map(|_| value).map_err(|error| {
            assert_eq!((error.code, error.reason), (400, "BadRequest"));
            error.message
        })
    }

    #[test]
    fn unknown_fields_are_refused_warned_of_or_dropped() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "lables": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "imag": "x"}, {"name": "d", "none": null}], "foo": {"bar": 1}}});
        let message = strict(Kind::POD, pod.clone()).unwrap_err();
        assert_eq!(
            message,
            "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"metadata.lables\", \
             unknown field \"spec.containers[0].imag\", unknown field \"spec.containers[1].none\", unknown field \"spec.foo\""
        );
        let clean = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c"}, {"name": "d"}]}});
        let mut warned = pod.clone();
        assert_eq!(decode(Kind::POD, &mut warned, FieldValidation::Warn).unwrap().len(), 4);
        assert_eq!(warned, clean);
        let mut ignored = pod;
        assert_eq!(decode(Kind::POD, &mut ignored, FieldValidation::Ignore), Ok(Vec::new()));
        assert_eq!(ignored, clean);
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        for (kind, value, words) in [
            (Kind::DEPLOYMENT, json!({"spec": {"replicas": "three"}}), ["spec.replicas: found a string", "i32"]),
            (Kind::DEPLOYMENT, json!({"spec": {"replicas": 1.5}}), ["spec.replicas: found a number", "i32"]),
            (Kind::DEPLOYMENT, json!({"spec": {"replicas": 1e12}}), ["spec.replicas: found a number", "i32"]),
            (
                Kind::POD,
                json!({"spec": {"containers": {"name": "c"}}}),
                ["spec.containers: found an object", "sequence"],
            ),
            (Kind::POD, json!({"spec": {"containers": [null]}}), ["spec.containers[0]: found null", "Container"]),
            (
                Kind::POD,
                json!({"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}),
                ["spec.containers[0].env[0].value: found a number", "string"],
            ),
            (Kind::POD, json!({"metadata": {"labels": {"a": true}}}), ["metadata.labels.a: found a boolean", "string"]),
            (Kind::POD, json!({"metadata": {"creationTimestamp": "now"}}), ["metadata.creationTimestamp", ""]),
            (Kind::SECRET, json!({"data": {"a": "%%"}}), ["data.a: found a string", ""]),
            (Kind::POD, json!("text"), ["the body is a string", "object"]),
            (Kind::POD, json!({"kind": "Node"}), ["(Node) does not match", "(Pod)"]),
            (Kind::DEPLOYMENT, json!({"apiVersion": "v1"}), ["apiVersion", "(apps/v1)"]),
        ] {
            let message = strict(kind, value).unwrap_err();
            for word in words {
                assert!(message.contains(word), "{message}");
            }
        }
    }

    #[test]
    fn what_kubernetes_reads_is_put_right_and_nothing_else_is_touched() {
        let value = json!({"metadata": {"creationTimestamp": null, "labels": {"a": null, "b": ""}, "annotations": {}},
            "spec": {"replicas": 1e3, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
                "template": {"spec": {"containers": [{"name": "c", "args": [],
                    "resources": {"limits": {"cpu": 1, "memory": "64Mi"}, "requests": {"cpu": 0.5, "memory": 1e6}}}]}}}});
        let want = json!({"metadata": {"labels": {"b": ""}, "annotations": {}},
            "spec": {"replicas": 1000, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
                "template": {"spec": {"containers": [{"name": "c", "args": [],
                    "resources": {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "0.5", "memory": "1000000"}}}]}}}});
        assert_eq!(strict(Kind::DEPLOYMENT, value), Ok(want));
    }
}
