//! Tables of references, and what a node is told of them.

use std::sync::Arc;

use coracle_model::{Pod, VolumeFile, VolumeSource};
use serde_json::{Value, json};

use super::{MAX_POD_CONTENT_BYTES, Specs};
use crate::kind::Kind;
use crate::object::Object;
use crate::view::View;

const UID: &str = "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b1";

fn object(kind: Kind, number: usize, mut value: Value) -> Arc<Object> {
    value["metadata"]["uid"] = json!(format!("{UID}{number}"));
    if kind != Kind::NODE {
        value["metadata"]["namespace"] = json!("default");
    }
    Arc::new(Object::from_value(kind, 1, value).unwrap())
}

/// A cluster with a node, a config map and a secret.
fn view() -> View {
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable":
        {"cpu": "3950m", "memory": "1000Mi", "ephemeral-storage": "8Gi"}}});
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "1", "b": "two"}, "binaryData": {"c": "AAE="}});
    let secret = json!({"metadata": {"name": "s"}, "data": {"user": "bWU=", "key": "AP8="}});
    let claim = |name: &str, volume: Value, phase: &str| json!({"metadata": {"name": name}, "spec": {"volumeName": volume}, "status": {"phase": phase}});
    let objects = [
        object(Kind::NODE, 1, node),
        object(Kind::CONFIG_MAP, 2, map),
        object(Kind::SECRET, 3, secret),
        object(Kind::PERSISTENT_VOLUME_CLAIM, 5, claim("bound", json!("disk"), "Bound")),
        object(Kind::PERSISTENT_VOLUME_CLAIM, 6, claim("waiting", json!(null), "Pending")),
    ];
    View::new(1, objects)
}

fn pod_object(spec: Value) -> Arc<Object> {
    let mut spec = spec;
    spec["nodeName"] = json!("n");
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "i:1"}]);
    }
    let metadata = json!({"name": "p", "labels": {"app": "a", "b": "x\"y"}, "annotations": {"n": "1\n2"}});
    let status = json!({"hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]});
    object(Kind::POD, 4, json!({"metadata": metadata, "spec": spec, "status": status}))
}

fn lowered(spec: Value) -> Pod {
    super::pod(&view(), &pod_object(spec), &mut Specs::new()).unwrap()
}

fn container(fields: Value) -> Pod {
    let mut container = json!({"name": "c", "image": "i:1"});
    for (name, value) in fields.as_object().unwrap() {
        container[name] = value.clone();
    }
    lowered(json!({"containers": [container]}))
}

fn volume(source: Value) -> VolumeSource {
    let mut volume = json!({"name": "v"});
    for (kind, value) in source.as_object().unwrap() {
        volume[kind] = value.clone();
    }
    lowered(json!({"volumes": [volume]})).volumes.remove(0).source
}

fn files(list: &[(&str, &[u8], u32)]) -> VolumeSource {
    let files = list.iter().map(|(path, bytes, mode)| VolumeFile {
        path: (*path).to_owned(),
        bytes: bytes.to_vec(),
        mode: *mode,
    });
    VolumeSource::Files(files.collect())
}

#[test]
fn variables_are_resolved_from_everything_that_kubernetes_has() {
    // POD-08
    let from = |from: Value| json!({"name": "X", "valueFrom": from});
    let field = |path: &str| from(json!({"fieldRef": {"fieldPath": path}}));
    let resource =
        |name: &str, divisor: &str| from(json!({"resourceFieldRef": {"resource": name, "divisor": divisor}}));
    for (variable, want) in [
        (json!({"name": "X", "value": "$(A)/$$(A)/$(Z)"}), "1/$(A)/$(Z)"),
        (json!({"name": "X"}), ""),
        (field("metadata.name"), "p"),
        (field("metadata.namespace"), "default"),
        (field("metadata.uid"), "6f1c1a3e-8a5b-4b06-9a53-2f0d1c7e4b14"),
        (field("metadata.labels['app']"), "a"),
        (field("metadata.labels['none']"), ""),
        (field("metadata.annotations['n']"), "1\n2"),
        (field("spec.nodeName"), "n"),
        (field("spec.serviceAccountName"), "default"),
        (field("status.hostIP"), "10.0.0.1"),
        (field("status.hostIPs"), "10.0.0.1"),
        (field("status.podIP"), "10.1.0.1"),
        (field("status.podIPs"), "10.1.0.1,fd00::1"),
        (resource("limits.cpu", "0"), "2"),
        (resource("limits.cpu", "1m"), "1500"),
        (resource("requests.cpu", "0"), "1"),
        (resource("requests.memory", "0"), "0"),
        // What is not limited is limited by the node.
        (resource("limits.memory", "1Mi"), "1000"),
        (resource("limits.ephemeral-storage", "1Gi"), "8"),
        (from(json!({"configMapKeyRef": {"name": "m", "key": "b"}})), "two"),
        (from(json!({"secretKeyRef": {"name": "s", "key": "user"}})), "me"),
    ] {
        let resources = json!({"limits": {"cpu": "1500m"}, "requests": {"cpu": "500m"}});
        let pod = container(json!({"resources": resources, "env": [{"name": "A", "value": "1"}, variable.clone()]}));
        let found = &pod.containers[0];
        assert_eq!(found.config_error, None, "{variable}");
        assert_eq!(found.env[1].value, want, "{variable}");
    }
}

#[test]
fn what_a_variable_is_read_from_and_is_missing_is_said_in_a_kubelets_words() {
    // POD-09
    let key = |side: &str, name: &str, key: &str, optional: bool| json!({"env": [{"name": "X", "valueFrom": {side: {"name": name, "key": key, "optional": optional}}}]});
    let all =
        |side: &str, name: &str, optional: bool| json!({"envFrom": [{side: {"name": name, "optional": optional}}]});
    for (fields, want) in [
        (key("configMapKeyRef", "none", "a", false), Some("configmap \"none\" not found")),
        (key("secretKeyRef", "none", "a", false), Some("secret \"none\" not found")),
        (key("configMapKeyRef", "m", "z", false), Some("couldn't find key z in ConfigMap default/m")),
        (key("secretKeyRef", "s", "z", false), Some("couldn't find key z in Secret default/s")),
        (all("configMapRef", "none", false), Some("configmap \"none\" not found")),
        (all("secretRef", "none", false), Some("secret \"none\" not found")),
        (key("configMapKeyRef", "none", "a", true), None),
        (key("secretKeyRef", "s", "z", true), None),
        (all("configMapRef", "none", true), None),
    ] {
        let pod = container(fields.clone());
        assert_eq!(pod.containers[0].config_error.as_deref(), want, "{fields}");
        assert!(pod.containers[0].env.is_empty(), "{fields}");
    }
    let pod =
        container(json!({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}],
        "env": [{"name": "P_a", "value": "mine"}], "args": ["$(P_b)"]}));
    let found: Vec<(&str, &str)> =
        pod.containers[0].env.iter().map(|variable| (variable.name.as_str(), variable.value.as_str())).collect();
    assert_eq!(found, [("P_a", "mine"), ("P_b", "two"), ("key", "\0\u{fffd}"), ("user", "me")]);
    assert_eq!(pod.containers[0].argv, ["c", "two"]);
}

#[test]
fn volumes_hold_what_kubernetes_puts_into_them() {
    // VOL-01
    let empty = |in_memory, size_limit_bytes| VolumeSource::EmptyDir { in_memory, size_limit_bytes };
    let label = json!({"path": "meta/labels", "fieldRef": {"fieldPath": "metadata.labels"}});
    let note = json!({"path": "n", "fieldRef": {"fieldPath": "metadata.annotations"}, "mode": 256});
    let cpu = json!({"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}});
    for (source, want) in [
        (json!({"emptyDir": {}}), empty(false, 0)),
        (json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}), empty(true, 1 << 20)),
        (
            json!({"configMap": {"name": "m", "defaultMode": 420}}),
            files(&[("a", b"1", 0o644), ("b", b"two", 0o644), ("c", &[0, 1], 0o644)]),
        ),
        (
            json!({"configMap": {"name": "m", "items": [{"key": "a", "path": "x/./y", "mode": 256}, {"key": "c", "path": "z"}]}}),
            files(&[("x/y", b"1", 0o400), ("z", &[0, 1], 0o644)]),
        ),
        (
            json!({"secret": {"secretName": "s", "defaultMode": 256}}),
            files(&[("key", &[0, 255], 0o400), ("user", b"me", 0o400)]),
        ),
        (json!({"configMap": {"name": "none", "optional": true}}), files(&[])),
        (json!({"secret": {"secretName": "s", "optional": true, "items": [{"key": "z", "path": "z"}]}}), files(&[])),
        (
            json!({"downwardAPI": {"items": [label, note, cpu]}}),
            files(&[
                ("cpu", b"4", 0o644),
                ("meta/labels", b"app=\"a\"\nb=\"x\\\"y\"", 0o644),
                ("n", b"n=\"1\\n2\"", 0o400),
            ]),
        ),
        (
            json!({"projected": {"defaultMode": 288, "sources": [
                {"configMap": {"name": "m", "items": [{"key": "a", "path": "a"}]}},
                {"secret": {"name": "s", "items": [{"key": "user", "path": "a"}]}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}),
            files(&[("a", b"me", 0o440), ("name", b"p", 0o440)]),
        ),
    ] {
        assert_eq!(volume(source.clone()), want, "{source}");
    }
}

#[test]
fn a_volume_that_lacks_something_says_what_in_a_kubelets_words() {
    // VOL-01, VOL-02
    let item = json!([{"key": "z", "path": "z"}]);
    let claim = |name: &str| json!({"persistentVolumeClaim": {"claimName": name}});
    for (source, want) in [
        (json!({"configMap": {"name": "none"}}), "configmap \"none\" not found"),
        (json!({"secret": {"secretName": "none"}}), "secret \"none\" not found"),
        (json!({"configMap": {"name": "m", "items": item}}), "configmap references non-existent config key: z"),
        (json!({"secret": {"secretName": "s", "items": item}}), "references non-existent secret key: z"),
        (json!({"projected": {"sources": [{"secret": {"name": "none"}}]}}), "secret \"none\" not found"),
        (claim("none"), "error processing PVC default/none: PVC not found"),
        (claim("waiting"), "error processing PVC default/waiting: PVC is not bound"),
        (claim("bound"), "no node mounts persistent volumes in this build: disk, of claim bound"),
    ] {
        assert_eq!(volume(source.clone()), VolumeSource::Unavailable(want.to_owned()), "{source}");
    }
}

#[test]
fn mounts_are_in_their_shortest_form_and_expressions_are_expanded() {
    let mount = |fields: Value| {
        let mut mount = json!({"name": "v", "mountPath": "/v"});
        for (name, value) in fields.as_object().unwrap() {
            mount[name] = value.clone();
        }
        let env =
            json!([{"name": "POD", "value": "p"}, {"name": "UP", "value": "../x"}, {"name": "ROOT", "value": "/"}]);
        container(json!({"env": env, "volumeMounts": [mount]})).containers.remove(0)
    };
    for (fields, path, sub_path) in [
        (json!({}), "/v", ""),
        (json!({"mountPath": "data//x/../y/"}), "/data/y", ""),
        (json!({"mountPath": "/"}), "/", ""),
        (json!({"subPath": "a/./b/"}), "/v", "a/b"),
        (json!({"subPathExpr": "$(POD)/$$(POD)"}), "/v", "p/$(POD)"),
    ] {
        let found = mount(fields.clone());
        assert_eq!((&*found.mounts[0].path, &*found.mounts[0].sub_path), (path, sub_path), "{fields}");
        assert_eq!(found.config_error, None);
    }
    for (expression, want) in [
        ("$(NONE)", "missing value for NONE"),
        ("$(UP)", "unable to provision SubPath `../x`: must not contain '..'"),
        ("$(ROOT)a", "error SubPath `/a` must not be an absolute path"),
    ] {
        let found = mount(json!({"subPathExpr": expression}));
        assert_eq!(found.config_error.as_deref(), Some(want));
    }
}

#[test]
fn a_node_hears_how_important_its_pods_are() {
    // PRI-09: it ends the least important one first when it is short of something.
    for (priority, want) in [(json!(null), 0), (json!(7), 7), (json!(-10), -10), (json!(2_000_001_000), 2_000_001_000)]
    {
        assert_eq!(lowered(json!({"priority": priority})).priority, want);
    }
}

#[test]
fn a_pod_with_more_content_than_a_message_carries_says_so() {
    let big = "x".repeat(MAX_POD_CONTENT_BYTES - 100);
    let map = object(Kind::CONFIG_MAP, 5, json!({"metadata": {"name": "big"}, "data": {"k": big}}));
    let mut objects = vec![map];
    objects.extend(view().list(Kind::CONFIG_MAP, None).cloned());
    let view = View::new(1, objects);
    let volumes = json!([{"name": "a", "configMap": {"name": "big"}}, {"name": "b", "configMap": {"name": "big"}},
        {"name": "c", "configMap": {"name": "m"}}]);
    let pod = super::pod(&view, &pod_object(json!({"volumes": volumes})), &mut Specs::new()).unwrap();
    assert!(matches!(&pod.volumes[0].source, VolumeSource::Files(_)));
    let VolumeSource::Unavailable(why) = &pod.volumes[1].source else { panic!("{pod:?}") };
    assert!(why.ends_with("come to 1048379; at most 524288 reach a node"), "{why}");
    assert!(matches!(&pod.volumes[2].source, VolumeSource::Files(_)));
    let env = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "big", "key": "k"}}}]);
    let containers = json!([{"name": "a", "env": env}, {"name": "b", "env": env}]);
    let pod = super::pod(&view, &pod_object(json!({"containers": containers})), &mut Specs::new()).unwrap();
    assert_eq!(pod.containers[0].config_error, None);
    let why = pod.containers[1].config_error.as_deref().unwrap_or_default();
    assert!(why.ends_with("at most 524288 reach a node"), "{why}");
    assert!(pod.containers[1].env.is_empty());
}
