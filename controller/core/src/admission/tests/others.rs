//! Metadata, namespaces, nodes, events, config maps, secrets, and statuses.

use serde_json::{Value, json};

use super::{UID, admitted, changed, pod, refused, view, workload};
use crate::admission::{create, status};
use crate::kind::Kind;

#[test]
fn metadata_follows_kubernetes_rules() {
    let with = |field: &str, value: Value| {
        let mut pod = pod(json!({}));
        pod["metadata"][field] = value;
        pod
    };
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": UID, "controller": true});
    refused(
        Kind::POD,
        &[
            (with("labels", json!({"a": "x y"})), "metadata.labels: Invalid value: \"x y\": a valid label must be"),
            (
                with("labels", json!({"/a": ""})),
                "metadata.labels: Invalid value: \"/a\": prefix part must be non-empty",
            ),
            (with("annotations", json!({"a b": ""})), "metadata.annotations: Invalid value: \"a b\""),
            (
                with("annotations", json!({"a": "x".repeat(262_144)})),
                "metadata.annotations: Too long: may not be more than 262144",
            ),
            (with("finalizers", json!(["mine"])), "metadata.finalizers[0]: Invalid value: \"mine\""),
            (
                with("ownerReferences", json!([{"apiVersion": "v1", "kind": "Node", "name": "n"}])),
                "ownerReferences[0].uid",
            ),
            (
                with("ownerReferences", json!([owner("a"), owner("b")])),
                "Only one reference can have Controller set to true",
            ),
        ],
    );
    let old = with("deletionTimestamp", json!("2026-11-21T03:40:30Z"));
    let added = changed(Kind::POD, &old, |pod| pod["metadata"]["finalizers"] = json!(["example.com/f"]));
    assert!(added.unwrap_err().message.contains("metadata.finalizers: Forbidden: no new finalizers"));
}

#[test]
fn a_namespace_must_be_there_and_stay() {
    let mut lost = pod(json!({}));
    lost["metadata"]["namespace"] = json!("nowhere");
    let error = admitted(Kind::POD, lost.clone()).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (404, "namespaces \"nowhere\" not found"));
    lost["metadata"]["namespace"] = json!("going");
    let error = admitted(Kind::POD, lost).unwrap_err();
    assert_eq!(error.code, 403);
    assert!(error.message.ends_with("unable to create new content in namespace going because it is being terminated"));
    let space = admitted(Kind::NAMESPACE, json!({"metadata": {"name": "a"}})).unwrap();
    assert_eq!(space["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(space["status"]["phase"], "Active");
    assert_eq!(space["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
    let kept = changed(Kind::NAMESPACE, &space, |space| space["spec"] = json!({"finalizers": []})).unwrap();
    assert_eq!(kept, space);
    refused(Kind::NAMESPACE, &[(json!({"metadata": {"name": "a.b"}}), "metadata.name: Invalid value: \"a.b\"")]);
}

#[test]
fn config_maps_and_secrets_keep_their_rules() {
    let map = |fields: Value| {
        let mut map = json!({"metadata": {"name": "m", "namespace": "default"}});
        map.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        map
    };
    refused(
        Kind::CONFIG_MAP,
        &[
            (map(json!({"data": {"a/b": ""}})), "data[a/b]: Invalid value: \"a/b\": a valid config key"),
            (map(json!({"data": {"..": ""}})), "data[..]: Invalid value"),
            (
                map(json!({"data": {"a": ""}, "binaryData": {"a": "AA=="}})),
                "data[a]: Invalid value: \"a\": duplicate of key",
            ),
            (map(json!({"data": {"a": "x".repeat(1_048_577)}})), "data: Too long: may not be more than 1048576 bytes"),
        ],
    );
    let frozen = admitted(Kind::CONFIG_MAP, map(json!({"data": {"a": "1"}, "immutable": true}))).unwrap();
    let error = changed(Kind::CONFIG_MAP, &frozen, |map| map["data"]["a"] = json!("2")).unwrap_err();
    assert!(error.message.contains("data: Forbidden: field is immutable when `immutable` is set"));
    let secret = admitted(Kind::SECRET, map(json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}))).unwrap();
    assert_eq!(secret["data"], json!({"a": "Yg==", "c": "ZA=="}));
    assert_eq!((&secret["type"], secret.get("stringData")), (&json!("Opaque"), None));
    let error = changed(Kind::SECRET, &secret, |secret| secret["type"] = json!("other")).unwrap_err();
    assert!(error.message.contains("type: Invalid value: \"other\": field is immutable"));
    refused(
        Kind::SECRET,
        &[
            (map(json!({"type": "kubernetes.io/ssh-auth"})), "data[ssh-privatekey]: Required value"),
            (
                map(
                    json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "top secret"}}),
                ),
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\"",
            ),
        ],
    );
}

#[test]
fn nodes_and_events_keep_their_rules() {
    let tainted = |taints: Value| json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
    refused(
        Kind::NODE,
        &[
            (tainted(json!([{"key": "a"}])), "spec.taints[0].effect: Required value"),
            (tainted(json!([{"key": "a", "effect": "Never"}])), "spec.taints[0].effect: Unsupported value: \"Never\""),
        ],
    );
    let twice =
        json!([{"key": "a", "value": "1", "effect": "NoExecute"}, {"key": "a", "value": "2", "effect": "NoExecute"}]);
    refused(Kind::NODE, &[(tainted(twice), "taints must be unique by key and effect pair")]);
    let event = json!({"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "other"}});
    refused(
        Kind::EVENT,
        &[(event, "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace")],
    );
    assert_eq!(create(&view(), Kind::LEASE, &mut json!({})).unwrap_err().code, 405);
}

#[test]
fn a_status_is_checked() {
    let old = admitted(Kind::POD, pod(json!({}))).unwrap();
    let mut new = old.clone();
    new["status"]["phase"] = json!("Waiting");
    assert!(status(&view(), Kind::POD, &old, &new).unwrap_err().message.contains("status.phase: Unsupported value"));
    let old = admitted(Kind::REPLICA_SET, workload(json!({}))).unwrap();
    let mut new = old.clone();
    new["status"] = json!({"replicas": 1, "readyReplicas": 2});
    let error = status(&view(), Kind::REPLICA_SET, &old, &new).unwrap_err();
    assert!(error.message.contains("status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"));
}
