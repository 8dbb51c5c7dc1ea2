//! What the downward API can show of a pod, to a variable or in a file: `fieldRef` and `resourceFieldRef`.

use coracle_model::quantity;
use serde_json::Value;

use super::at::{At, Causes, given, text};
use super::{quantities, syntax};

/// The fields of the pod that a variable can show.
pub(super) const OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of the pod that a file can show: those that may change as it runs, and those that name it.
pub(super) const OF_FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Further fields that Kubernetes knows, and shows nowhere.
const OTHERS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks a `fieldRef`, which may show one of `shown`, a label or an annotation.
pub(super) fn field_ref(reference: &Value, shown: &[&str], at: &At<'_>, causes: &mut Causes) {
    let path = text(reference, "fieldPath");
    let version = text(reference, "apiVersion");
    if version.is_empty() {
        return causes.push(at.field("apiVersion").required(""));
    }
    let at_path = at.field("fieldPath");
    if path.is_empty() {
        return causes.push(at_path.required(""));
    }
    let mut refuse = |why: &str| {
        causes.push(
            at.field("fieldPath").invalid(&reference["fieldPath"], &format!("error converting fieldPath: {why}")),
        );
    };
    if version != "v1" {
        return refuse(&format!("unsupported pod version: {version}"));
    }
    if let Some((field, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return match field {
            "metadata.annotations" => syntax::check(&key.to_lowercase(), syntax::qualified_name, at, causes),
            "metadata.labels" => syntax::check(key, syntax::qualified_name, at, causes),
            _ => refuse(&format!("field label does not support subscript: {path}")),
        };
    }
    let known = OF_VARIABLES.contains(&path) || OF_FILES.contains(&path) || OTHERS.contains(&path);
    if !known {
        refuse(&format!("field label not supported: {path}"));
    } else if !shown.contains(&path) {
        causes.push(at_path.not_supported(&reference["fieldPath"], shown));
    }
}

/// Checks a `resourceFieldRef`; `in_file`: it has to name its container.
pub(super) fn resource_field_ref(reference: &Value, in_file: bool, at: &At<'_>, causes: &mut Causes) {
    let resource = text(reference, "resource");
    if in_file && text(reference, "containerName").is_empty() {
        causes.push(at.field("containerName").required(""));
    } else if resource.is_empty() {
        causes.push(at.field("resource").required(""));
    } else if !RESOURCES.contains(&resource) {
        causes.push(at.field("resource").not_supported(&reference["resource"], &RESOURCES));
    }
    if given(&reference["divisor"])
        && let Some(divisor) = quantities::check(&reference["divisor"], &at.field("divisor"), causes)
        && divisor != 0
        && let Some(detail) = wrong_divisor(resource, text(reference, "divisor"))
    {
        causes.push(at.field("divisor").invalid(&reference["resource"], &detail));
    }
}

fn wrong_divisor(resource: &str, divisor: &str) -> Option<String> {
    let (_, name) = resource.split_once('.')?;
    let (supported, words, shown): (&[&str], _, _) = match name {
        "cpu" => (&["1m", "1"], "1m and 1", "cpu"),
        "memory" => (&BYTES, "", "memory"),
        "ephemeral-storage" => (&BYTES, "", "local ephemeral storage"),
        _ => return None,
    };
    let found = quantity::milli_value(divisor);
    if supported.iter().any(|supported| quantity::milli_value(supported) == found) {
        return None;
    }
    let words = if words.is_empty() { BYTES.join(", ") } else { words.to_owned() };
    Some(format!("only divisor's values {words} are supported with the {shown} resource"))
}

const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
