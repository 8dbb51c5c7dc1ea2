//! `metadata` of every kind: name, labels, annotations, owners, finalizers.

use serde_json::{Value, json};

use super::at::{At, Causes, entries, items, text};
use super::syntax::{self, Rule};

/// The annotations of one object, keys and values together (256 KiB).
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// Finalizers without a domain that Kubernetes itself uses.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Checks the metadata of an object, whose name follows `rule`.
pub(super) fn validate(object: &Value, rule: Rule, namespaced: bool, causes: &mut Causes) {
    let at = At::Root.field("metadata");
    let metadata = &object["metadata"];
    syntax::check(text(metadata, "name"), rule, &at.field("name"), causes);
    if namespaced {
        syntax::check(text(metadata, "namespace"), syntax::label, &at.field("namespace"), causes);
    }
    validate_maps(metadata, &at, causes);
    owners(metadata, &at, causes);
    for (index, finalizer) in items(&metadata["finalizers"]) {
        let (at, name) = (at.field("finalizers"), finalizer.as_str().unwrap_or_default());
        let at = at.item(index);
        syntax::check(name, syntax::qualified_name, &at, causes);
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            causes.push(at.invalid(finalizer, "name is neither a standard finalizer name nor is it fully qualified"));
        }
    }
}

/// Labels and annotations, of an object or of a template.
pub(super) fn validate_maps(metadata: &Value, at: &At<'_>, causes: &mut Causes) {
    syntax::check_labels(&metadata["labels"], &at.field("labels"), causes);
    let at = at.field("annotations");
    let mut bytes = 0;
    for (key, value) in entries(&metadata["annotations"]) {
        // Kubernetes has always read the keys of annotations in lower case.
        let lower = key.to_ascii_lowercase();
        causes.extend(syntax::qualified_name(&lower).iter().map(|detail| at.invalid(&json!(key), detail)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_ANNOTATION_BYTES {
        causes.push(at.too_long(MAX_ANNOTATION_BYTES));
    }
}

fn owners(metadata: &Value, at: &At<'_>, causes: &mut Causes) {
    let at = at.field("ownerReferences");
    let mut controllers: Vec<&str> = Vec::new();
    for (index, owner) in items(&metadata["ownerReferences"]) {
        let at = at.item(index);
        for (field, words) in [("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")] {
            if text(owner, field).is_empty() {
                causes.push(at.field(field).invalid(&json!(text(owner, field)), &format!("{words} must not be empty")));
            }
        }
        if owner["controller"] == true {
            controllers.push(text(owner, "name"));
        }
    }
    if let [first, second, ..] = controllers[..] {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(at.invalid(&metadata["ownerReferences"], &detail));
    }
}

/// A deleted object may lose finalizers, not get new ones.
pub(super) fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    if old["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let before = old["metadata"]["finalizers"].as_array();
    let added: Vec<&str> = items(&new["metadata"]["finalizers"])
        .filter(|(_, name)| !before.is_some_and(|before| before.contains(name)))
        .filter_map(|(_, name)| name.as_str())
        .collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {}",
            json!(added)
        );
        causes.push(At::Root.field("metadata").field("finalizers").forbidden(&detail));
    }
}
