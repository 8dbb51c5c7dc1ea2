//! Volumes and mounts at the door (VOL-01).

use serde_json::{Value, json};

use super::{admitted, container, pod, refused};
use crate::kind::Kind;

fn volume(source: Value) -> Value {
    let mut volume = json!({"name": "v"});
    for (kind, value) in source.as_object().unwrap() {
        volume[kind] = value.clone();
    }
    pod(json!({"volumes": [volume]}))
}

fn mount(fields: Value) -> Value {
    let mut mount = json!({"name": "v", "mountPath": "/v"});
    for (name, value) in fields.as_object().unwrap() {
        mount[name] = value.clone();
    }
    let mut pod = container(json!({"volumeMounts": [mount]}));
    pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    pod
}

#[test]
fn volumes_get_kubernetes_defaults_and_no_other_field() {
    let field = json!({"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}});
    let resource = json!({"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}});
    let found = admitted(
        Kind::POD,
        pod(json!({"volumes": [
            {"name": "a"},
            {"name": "b", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "c", "configMap": {"name": "m"}},
            {"name": "d", "secret": {"secretName": "s", "defaultMode": 256, "optional": true}},
            {"name": "e", "downwardAPI": {"items": [field]}},
            {"name": "f", "projected": {"sources": [{"downwardAPI": {"items": [resource]}}, {"secret": {"name": "s"}}]}},
        ]})),
    )
    .unwrap();
    let field = json!({"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}});
    let resource =
        json!({"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "0"}});
    let sources = json!([{"downwardAPI": {"items": [resource]}}, {"secret": {"name": "s"}}]);
    let want = json!([
        {"name": "a", "emptyDir": {}},
        {"name": "b", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "c", "configMap": {"name": "m", "defaultMode": 420}},
        {"name": "d", "secret": {"secretName": "s", "defaultMode": 256, "optional": true}},
        {"name": "e", "downwardAPI": {"items": [field], "defaultMode": 420}},
        {"name": "f", "projected": {"sources": sources, "defaultMode": 420}},
    ]);
    assert_eq!(found["spec"]["volumes"], want);
}

#[test]
fn a_bad_volume_is_refused_with_kubernetes_words() {
    let config = |fields: Value| {
        let mut source = json!({"name": "m"});
        for (name, value) in fields.as_object().unwrap() {
            source[name] = value.clone();
        }
        volume(json!({"configMap": source}))
    };
    let item = |item: Value| config(json!({"items": [item]}));
    let downward = |item: Value| volume(json!({"downwardAPI": {"items": [item]}}));
    let mode = "must be a number between 0 and 0777 (octal), both inclusive";
    let table: Vec<(Value, String)> = [
        (pod(json!({"volumes": [{"emptyDir": {}}]})), "[0].name: Required value"),
        (
            pod(json!({"volumes": [{"name": "A", "emptyDir": {}}]})),
            "[0].name: Invalid value: \"A\": a lowercase RFC 1123 label",
        ),
        (
            pod(json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]})),
            "[1].name: Duplicate value: \"v\"",
        ),
        (
            volume(json!({"emptyDir": {}, "configMap": {"name": "m"}})),
            "[0].configMap: Forbidden: may not specify more than 1 volume type",
        ),
        (volume(json!({"emptyDir": {"medium": "HugePages"}})), "[0].emptyDir.medium: Unsupported value: \"HugePages\""),
        (
            volume(json!({"emptyDir": {"sizeLimit": "-1"}})),
            "[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
        ),
        (volume(json!({"configMap": {}})), "[0].configMap.name: Required value"),
        (volume(json!({"secret": {}})), "[0].secret.secretName: Required value"),
        (item(json!({"path": "p"})), "[0].configMap.items[0].key: Required value"),
        (item(json!({"key": "k"})), "[0].configMap.items[0].path: Required value"),
        (item(json!({"key": "k", "path": "/p"})), "items[0].path: Invalid value: \"/p\": must be a relative path"),
        (
            item(json!({"key": "k", "path": "a/../b"})),
            "items[0].path: Invalid value: \"a/../b\": must not contain '..'",
        ),
        (item(json!({"key": "k", "path": "..p"})), "items[0].path: Invalid value: \"..p\": must not start with '..'"),
        (
            downward(json!({"path": "p"})),
            "[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
        ),
        (
            downward(json!({"path": "p", "fieldRef": {"fieldPath": "spec.nodeName"}})),
            "[0].downwardAPI.fieldRef.fieldPath: Unsupported value: \"spec.nodeName\"",
        ),
        (
            downward(json!({"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}})),
            "[0].downwardAPI.resourceFieldRef.containerName: Required value",
        ),
        (
            volume(json!({"projected": {"sources": [{"configMap": {"name": "m"}, "secret": {"name": "s"}}]}})),
            "[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type",
        ),
        (
            volume(json!({"projected": {"sources": [{"configMap": {"name": "m", "items": [
                {"key": "a", "path": "p"}, {"key": "b", "path": "p"}]}}]}})),
            "[0].projected: Invalid value: \"m\": conflicting duplicate paths",
        ),
        (
            volume(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}})),
            "[0].projected.sources[0].serviceAccountToken: Forbidden: tokens of service accounts are not in this build",
        ),
        (volume(json!({"hostPath": {"path": "/"}})), "[0].hostPath: Forbidden: hostPath volumes are not in this build"),
        (
            volume(json!({"persistentVolumeClaim": {"claimName": ""}})),
            "[0].persistentVolumeClaim.claimName: Required value",
        ),
        (volume(json!({"persistentVolumeClaim": {}})), "[0].persistentVolumeClaim.claimName: Required value"),
        (
            volume(json!({"secret": {"secretName": "s"}, "persistentVolumeClaim": {"claimName": "c"}})),
            "[0].persistentVolumeClaim: Forbidden: may not specify more than 1 volume type",
        ),
    ]
    .into_iter()
    .map(|(pod, words)| (pod, format!("spec.volumes{words}")))
    .map(|(pod, words)| (pod, words.replace("spec.volumesitems", "items")))
    .chain([
        (
            config(json!({"defaultMode": 512})),
            format!("spec.volumes[0].configMap.defaultMode: Invalid value: 512: {mode}"),
        ),
        (item(json!({"key": "k", "path": "p", "mode": -1})), format!("items[0].mode: Invalid value: -1: {mode}")),
    ])
    .collect();
    let table: Vec<(Value, &str)> = table.iter().map(|(pod, words)| (pod.clone(), words.as_str())).collect();
    refused(Kind::POD, &table);
}

#[test]
fn a_bad_mount_is_refused_with_kubernetes_words() {
    let at = "spec.containers[0].volumeMounts";
    let mut twice = mount(json!({}));
    twice["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]);
    let table: Vec<(Value, String)> = [
        (mount(json!({"name": "w"})), "[0].name: Not found: \"w\""),
        (mount(json!({"mountPath": ""})), "[0].mountPath: Required value"),
        (twice, "[1].mountPath: Invalid value: \"/v\": must be unique"),
        (mount(json!({"subPath": "/a"})), ".subPath: Invalid value: \"/a\": must be a relative path"),
        (mount(json!({"subPath": "a/.."})), ".subPath: Invalid value: \"a/..\": must not contain '..'"),
        (
            mount(json!({"subPath": "a", "subPathExpr": "$(B)"})),
            "[0].subPathExpr: Invalid value: \"$(B)\": subPathExpr and subPath are mutually exclusive",
        ),
        (
            mount(json!({"mountPropagation": "Bidirectional"})),
            ".mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
        ),
        (mount(json!({"mountPropagation": "HostToContainer"})), ".mountPropagation: Forbidden"),
        (mount(json!({"mountPropagation": "Some"})), ".mountPropagation: Unsupported value: \"Some\""),
        (
            mount(json!({"recursiveReadOnly": "Enabled"})),
            ".recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
        ),
    ]
    .into_iter()
    .map(|(pod, words)| (pod, format!("{at}{words}")))
    .collect();
    let table: Vec<(Value, &str)> = table.iter().map(|(pod, words)| (pod.clone(), words.as_str())).collect();
    refused(Kind::POD, &table);
    let fine = json!({"subPathExpr": "$(POD)/a", "readOnly": true, "recursiveReadOnly": "Enabled", "mountPropagation": "None"});
    assert!(admitted(Kind::POD, mount(fine)).is_ok());
}

#[test]
fn divisors_and_fields_of_the_downward_api_are_kubernetes_own() {
    // POD-08
    let variable = |from: Value| container(json!({"env": [{"name": "A", "valueFrom": from}]}));
    let resource = |resource: &str, divisor: &str| {
        variable(json!({"resourceFieldRef": {"resource": resource, "divisor": divisor}}))
    };
    let field = |path: &str| variable(json!({"fieldRef": {"fieldPath": path}}));
    for (resource_name, divisor) in
        [("limits.cpu", "1m"), ("requests.memory", "1Mi"), ("limits.ephemeral-storage", "1k"), ("limits.cpu", "0")]
    {
        assert!(admitted(Kind::POD, resource(resource_name, divisor)).is_ok(), "{resource_name} {divisor}");
    }
    for path in ["metadata.labels['app']", "metadata.annotations['example.com/A']", "status.podIPs", "status.hostIPs"] {
        assert!(admitted(Kind::POD, field(path)).is_ok(), "{path}");
    }
    refused(
        Kind::POD,
        &[
            (
                resource("limits.cpu", "2"),
                "resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with \
                 the cpu resource",
            ),
            (
                resource("limits.memory", "3"),
                "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory \
                 resource",
            ),
            (resource("limits.disk", "0"), "resourceFieldRef.resource: Unsupported value: \"limits.disk\""),
            (field("metadata.labels"), "fieldRef.fieldPath: Unsupported value: \"metadata.labels\""),
            (
                field("spec.x"),
                "fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x",
            ),
            (field("metadata.labels['a b']"), "fieldRef: Invalid value: \"a b\": name part must consist of"),
            (field("metadata.name['a']"), "error converting fieldPath: field label does not support subscript"),
        ],
    );
}

#[test]
fn a_pod_is_guaranteed_only_if_every_container_is() {
    // PRI-09: what a pod may write to its node's disk counts for nothing here.
    let class = |containers: Value| admitted(Kind::POD, pod(json!({"containers": containers}))).unwrap();
    let container = |name: &str, resources: Value| json!({"name": name, "image": "i:1", "resources": resources});
    let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let disk = json!({"limits": {"ephemeral-storage": "1Gi"}});
    let with_disk = json!({"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"},
        "requests": {"ephemeral-storage": "1Mi"}});
    for (containers, want) in [
        (json!([container("a", full.clone()), container("b", full.clone())]), "Guaranteed"),
        (json!([container("a", full.clone()), container("b", with_disk)]), "Guaranteed"),
        (json!([container("a", full.clone()), container("b", json!({}))]), "Burstable"),
        (json!([container("a", json!({"limits": {"cpu": "1"}}))]), "Burstable"),
        (json!([container("a", json!({"requests": {"memory": "1Mi"}, "limits": {"memory": "2Mi"}}))]), "Burstable"),
        (json!([container("a", disk)]), "BestEffort"),
        (json!([container("a", json!({"limits": {"cpu": "0"}}))]), "BestEffort"),
    ] {
        assert_eq!(class(containers.clone())["status"]["qosClass"], want, "{containers}");
    }
}
