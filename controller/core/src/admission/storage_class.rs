//! storage.k8s.io/v1 `StorageClass` (VOL-02).

use serde_json::{Value, json};

use super::at::{At, Causes, default, entries, given, immutable, items, one_of, text};
use super::{Rules, nothing_to_admit, nothing_to_keep, syntax};

/// The rules for storage classes.
pub(super) const RULES: Rules = Rules {
    name: syntax::subdomain,
    defaults,
    admit: nothing_to_admit,
    keep: nothing_to_keep,
    validate,
    validate_update,
    validate_status: |_, _, _| {},
};

/// The parameters of one class, keys and values together (256 KiB).
const MAX_PARAMETER_BYTES: usize = 256 * 1024;
/// How many parameters a class may have.
const MAX_PARAMETERS: usize = 512;

fn defaults(class: &mut Value) {
    default(class, "reclaimPolicy", || json!("Delete"));
    default(class, "volumeBindingMode", || json!("Immediate"));
}

fn validate(class: &Value, causes: &mut Causes) {
    let provisioner = text(class, "provisioner");
    let at = At::Root.field("provisioner");
    if provisioner.is_empty() {
        causes.push(at.required("who makes the volumes of this class; kubernetes.io/no-provisioner for nobody"));
    } else {
        syntax::check(&provisioner.to_ascii_lowercase(), syntax::qualified_name, &at, causes);
    }
    parameters(&class["parameters"], &At::Root.field("parameters"), causes);
    one_of(class, "reclaimPolicy", &["Delete", "Retain"], &At::Root, causes);
    one_of(class, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &At::Root, causes);
    let topologies = At::Root.field("allowedTopologies");
    for (index, topology) in items(&class["allowedTopologies"]) {
        let at = topologies.item(index);
        let at = at.field("matchLabelExpressions");
        for (index, expression) in items(&topology["matchLabelExpressions"]) {
            let at = at.item(index);
            syntax::check(text(expression, "key"), syntax::qualified_name, &at.field("key"), causes);
            if !given(&expression["values"]) {
                causes.push(at.field("values").required(""));
            }
        }
    }
}

fn parameters(parameters: &Value, at: &At<'_>, causes: &mut Causes) {
    let count = entries(parameters).count();
    if count > MAX_PARAMETERS {
        causes.push(at.too_many(count, MAX_PARAMETERS));
        return;
    }
    if entries(parameters).any(|(key, _)| key.is_empty()) {
        causes.push(at.invalid(&json!(""), "field can not be empty."));
    }
    let bytes: usize = entries(parameters).map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > MAX_PARAMETER_BYTES {
        causes.push(at.too_long(MAX_PARAMETER_BYTES));
    }
}

fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if old[field] != new[field] {
            causes.push(At::Root.field(field).forbidden(&format!("updates to {field} are forbidden.")));
        }
    }
    immutable(old, new, "volumeBindingMode", &At::Root, causes);
}
