//! `OpenAPI` documents, from which clients learn fields (`kubectl explain`) and what they may ask for.
//!
//! *In:* the table of kinds and the schemas that Kubernetes' types carry. *Out:* version 3 documents as JSON, one a group
//! and version, and a version 2 document for old clients that want one in protobuf.
//! *Must never know:* any object.
//! *Tested:* here for what clients look for; real `kubectl` end to end.

mod gnostic;
mod paths;

use k8s_openapi::api::{
    apps::v1 as apps, autoscaling::v1 as autoscaling, coordination::v1 as coordination, core::v1 as core,
    policy::v1 as policy, scheduling::v1 as scheduling, storage::v1 as storage,
};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::discovery::{self, GIT_VERSION};
use crate::kind::{Kind, Subresource};

pub use gnostic::document as v2_protobuf;

/// The content type of [`v2_protobuf`].
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The same as older clients ask for it. They cannot read it in an answer: `@` has no place in a media type.
pub const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// One version 3 document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its path below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
    pub path: String,
    /// The JSON.
    pub body: String,
    /// Changes whenever the body does.
    pub hash: String,
}

/// All version 3 documents. They are some megabytes and do not change while a program runs: make them once.
#[must_use]
pub fn v3_documents() -> Vec<Document> {
    let made = discovery::group_versions().into_iter().map(|(group, version)| {
        let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let body = v3_document(group, version).to_string();
        let hash = format!("{:016X}", fingerprint(body.as_bytes()));
        Document { path, body, hash }
    });
    made.collect()
}

/// `GET /openapi/v3`: where the documents are.
#[must_use]
pub fn v3_index(documents: &[Document]) -> Value {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|document| {
            let url = format!("/openapi/v3/{}?hash={}", document.path, document.hash);
            (document.path.clone(), json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// A version 2 document without paths and definitions, for who reads JSON.
#[must_use]
pub fn v2_json() -> Value {
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": GIT_VERSION}, "paths": {}, "definitions": {}})
}

fn v3_document(group: &str, version: &str) -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let mut roots = Vec::new();
    for kind in discovery::kinds(group, version) {
        roots.push((schema_name(&mut generator, kind), kind));
        if kind.info().subresources.contains(&Subresource::Scale) {
            generator.subschema_for::<autoscaling::Scale>();
        }
    }
    let mut schemas = generator.take_definitions(true);
    for (name, kind) in roots {
        let info = kind.info();
        if let Some(schema) = schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": info.group, "version": info.version, "kind": info.kind}]);
        }
    }
    spell_out(&mut schemas);
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths::of(group, version), "components": {"schemas": schemas},
    })
}

/// Adds a kind's schema and all that it refers to; gives its name.
fn schema_name(generator: &mut SchemaGenerator, kind: Kind) -> String {
    let schema = match kind {
        Kind::NAMESPACE => generator.subschema_for::<core::Namespace>(),
        Kind::NODE => generator.subschema_for::<core::Node>(),
        Kind::POD => generator.subschema_for::<core::Pod>(),
        Kind::CONFIG_MAP => generator.subschema_for::<core::ConfigMap>(),
        Kind::SECRET => generator.subschema_for::<core::Secret>(),
        Kind::EVENT => generator.subschema_for::<core::Event>(),
        Kind::REPLICA_SET => generator.subschema_for::<apps::ReplicaSet>(),
        Kind::DEPLOYMENT => generator.subschema_for::<apps::Deployment>(),
        Kind::DAEMON_SET => generator.subschema_for::<apps::DaemonSet>(),
        Kind::LEASE => generator.subschema_for::<coordination::Lease>(),
        Kind::PRIORITY_CLASS => generator.subschema_for::<scheduling::PriorityClass>(),
        Kind::POD_DISRUPTION_BUDGET => generator.subschema_for::<policy::PodDisruptionBudget>(),
        Kind::SERVICE => generator.subschema_for::<core::Service>(),
        Kind::PERSISTENT_VOLUME => generator.subschema_for::<core::PersistentVolume>(),
        Kind::PERSISTENT_VOLUME_CLAIM => generator.subschema_for::<core::PersistentVolumeClaim>(),
        Kind::STORAGE_CLASS => generator.subschema_for::<storage::StorageClass>(),
        _ => return String::new(),
    };
    let reference = schema.get("$ref").and_then(Value::as_str).unwrap_or_default();
    reference.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Quantities and int-or-strings say their types only by an extension; clients want to see a type.
fn spell_out(schemas: &mut Map<String, Value>) {
    for (name, types) in [("Quantity", ["string", "number"]), ("IntOrString", ["integer", "string"])] {
        let found = schemas.iter_mut().find(|(full, _)| full.rsplit('.').next() == Some(name));
        if let Some(schema) = found.and_then(|(_, schema)| schema.as_object_mut()) {
            schema.remove("x-kubernetes-int-or-string");
            schema.insert("oneOf".to_owned(), json!(types.map(|name| json!({"type": name}))));
        }
    }
}

/// FNV-1a: enough to see that a document has changed.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_schema_and_its_paths() {
        let documents = v3_documents();
        for kind in Kind::all() {
            let info = kind.info();
            let path = if info.group.is_empty() {
                "api/v1".to_owned()
            } else {
                format!("apis/{}/{}", info.group, info.version)
            };
            let document = documents.iter().find(|document| document.path == path).expect("a document");
            let document: Value = serde_json::from_str(&document.body).expect("JSON");
            let schemas = document["components"]["schemas"].as_object().expect("schemas");
            let wanted = json!([{"group": info.group, "version": info.version, "kind": info.kind}]);
            assert!(schemas.values().any(|schema| schema["x-kubernetes-group-version-kind"] == wanted), "{kind:?}");
            let item = if info.namespaced { format!("/{path}/namespaces/{{namespace}}") } else { format!("/{path}") };
            let item = &document["paths"][format!("{item}/{}/{{name}}", info.plural)];
            assert_eq!(item["get"]["x-kubernetes-group-version-kind"], wanted[0], "{kind:?}");
            if info.stored {
                let parameters = item["patch"]["parameters"].as_array().expect("parameters");
                assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"), "{kind:?}");
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|field| references(field, found));
                }
                _ => {}
            }
        }
        for document in v3_documents() {
            let document: Value = serde_json::from_str(&document.body).expect("JSON");
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for reference in found {
                let pointer = reference.strip_prefix('#').expect("local");
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn the_index_names_all_documents_and_their_hashes() {
        let documents = v3_documents();
        let index = v3_index(&documents);
        let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
        assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
        assert_eq!(index["paths"].as_object().map(Map::len), Some(documents.len()));
    }
}
