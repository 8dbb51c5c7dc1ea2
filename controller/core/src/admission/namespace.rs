//! v1 Namespace: its finalizer, phase and label.

use serde_json::{Value, json};

use super::at::{At, Causes, default, items, one_of, restore};
use super::{Rules, syntax};
use crate::error::ApiError;

/// The rules for namespaces.
pub(super) const RULES: Rules = Rules {
    name: syntax::label,
    defaults,
    admit,
    keep,
    validate,
    validate_update: |_, _, _| {},
    validate_status: |_, new, causes| {
        one_of(&new["status"], "phase", &["Active", "Terminating"], &At::Root.field("status"), causes);
    },
};

/// The label by which a namespace can be selected by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn defaults(namespace: &mut Value) {
    default(namespace, "spec", || json!({}));
    let name = namespace["metadata"]["name"].clone();
    default(namespace, "metadata", || json!({}));
    default(&mut namespace["metadata"], "labels", || json!({}));
    if let Some(labels) = namespace["metadata"]["labels"].as_object_mut() {
        labels.insert(NAME_LABEL.to_owned(), name);
    }
}

/// A new namespace is held by the finalizer that empties it (SAF-10).
fn admit(namespace: &mut Value) -> Result<(), ApiError> {
    default(&mut namespace["spec"], "finalizers", || json!([]));
    if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut()
        && !finalizers.iter().any(|finalizer| finalizer == "kubernetes")
    {
        finalizers.push(json!("kubernetes"));
    }
    namespace["status"] = json!({"phase": "Active"});
    Ok(())
}

/// The finalizers of the spec go only while the namespace is on its way out.
fn keep(old: &Value, new: &mut Value) {
    if old["metadata"]["deletionTimestamp"].is_null() {
        default(new, "spec", || json!({}));
        restore(&old["spec"], &mut new["spec"], "finalizers");
    }
}

fn validate(namespace: &Value, causes: &mut Causes) {
    let at = At::Root.field("spec");
    let at = at.field("finalizers");
    for (index, finalizer) in items(&namespace["spec"]["finalizers"]) {
        syntax::check(finalizer.as_str().unwrap_or_default(), syntax::qualified_name, &at.item(index), causes);
    }
}
