//! Pod templates: the pod that one makes, its hash, and when two are the same.

use serde_json::{Map, Value, json};

use crate::object::Object;

use super::controller_reference;

/// The label that tells the sets of one deployment apart (DEP-01).
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// The letters of hashes: those of generated names.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The pod that a template makes for `owner`, under this name.
pub(super) fn pod(owner: &Object, template: &Value, name: &str) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("generateName".to_owned(), json!(format!("{}-", owner.name())));
    metadata.insert("namespace".to_owned(), json!(owner.namespace()));
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(given) = template["metadata"].get(field).filter(|given| !given.is_null()) {
            metadata.insert(field.to_owned(), given.clone());
        }
    }
    metadata.insert("ownerReferences".to_owned(), json!([controller_reference(owner)]));
    // Not with `json!`, which would copy what it is given once more.
    let fields = [("metadata", Value::Object(metadata)), ("spec", template["spec"].clone())];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// The hash of a template: FNV-1a of 32 bits over its canonical JSON and the number of collisions so far, in letters
/// that make no words.
pub(super) fn hash(template: &Value, collision_count: Option<u64>) -> String {
    let mut fnv = Fnv::default();
    fnv.value(template);
    if let Some(count) = collision_count {
        fnv.bytes(&count.to_le_bytes());
    }
    fnv.0.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// Whether two templates make the same pods: all but the hash label is equal.
pub(super) fn same(one: &Value, two: &Value) -> bool {
    let bare = |template: &Value| {
        let mut metadata = template["metadata"].clone();
        if let Some(fields) = metadata.as_object_mut() {
            fields.retain(|field, value| field != "creationTimestamp" && !value.is_null());
        }
        if let Some(labels) = metadata["labels"].as_object_mut() {
            labels.remove(HASH_LABEL);
        }
        metadata
    };
    one["spec"] == two["spec"] && bare(one) == bare(two)
}

/// FNV-1a of 32 bits. Fields of objects are taken in the order of their names, whatever order they were read in.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let mut sorted: Vec<(&String, &Value)> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
                sorted.sort_by_key(|(name, _)| *name);
                self.bytes(b"{");
                for (name, value) in sorted {
                    self.bytes(name.as_bytes());
                    self.bytes(b":");
                    self.value(value);
                    self.bytes(b",");
                }
                self.bytes(b"}");
            }
            Value::Array(list) => {
                self.bytes(b"[");
                for value in list {
                    self.value(value);
                    self.bytes(b",");
                }
                self.bytes(b"]");
            }
            scalar => self.bytes(scalar.to_string().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // DEP-01
    #[test]
    fn a_hash_depends_on_what_is_said_and_not_on_how() {
        let one = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"containers": []}});
        let two = json!({"spec": {"containers": []}, "metadata": {"labels": {"b": "2", "a": "1"}, "name": null}});
        assert_eq!(hash(&one, None), hash(&two, None));
        assert_ne!(hash(&one, None), hash(&one, Some(1)));
        assert!(hash(&one, None).bytes().all(|letter| LETTERS.contains(&letter)));
    }

    #[test]
    fn the_hash_label_does_not_make_another_template() {
        let one = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": []}});
        let two = json!({"metadata": {"labels": {"a": "1", "pod-template-hash": "x"}}, "spec": {"containers": []}});
        let three = json!({"metadata": {"labels": {"a": "2"}}, "spec": {"containers": []}});
        assert!(same(&one, &two));
        assert!(!same(&one, &three));
    }
}
