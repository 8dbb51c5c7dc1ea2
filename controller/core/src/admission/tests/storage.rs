//! Volumes, claims and storage classes.

use serde_json::{Value, json};

use super::{admitted, admitted_in, changed, refused, view_with};
use crate::kind::Kind;

fn with(base: &Value, field: &str, value: Value) -> Value {
    let mut object = base.clone();
    object["spec"][field] = value;
    object
}

fn volume() -> Value {
    let here = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]});
    json!({"metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}, "storageClassName": "disk",
    }})
}

fn claim() -> Value {
    json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }})
}

// VOL-02
#[test]
fn volumes_are_checked_and_stay_where_they_are() {
    let found = admitted(Kind::PERSISTENT_VOLUME, volume()).unwrap();
    assert_eq!(found["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!((&found["spec"]["volumeMode"], &found["status"]["phase"]), (&json!("Filesystem"), &json!("Pending")));
    let base = volume();
    refused(
        Kind::PERSISTENT_VOLUME,
        &[
            (with(&base, "accessModes", json!([])), "spec.accessModes: Required value"),
            (with(&base, "accessModes", json!(["Sometimes"])), "spec.accessModes: Unsupported value: \"Sometimes\""),
            (
                with(&base, "accessModes", json!(["ReadWriteOnce", "ReadWriteOncePod"])),
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            ),
            (with(&base, "capacity", json!({})), "spec.capacity: Required value"),
            (with(&base, "capacity", json!({"cpu": "1"})), "spec.capacity: Unsupported value"),
            (
                with(&base, "capacity", json!({"storage": "0"})),
                "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
            ),
            (
                with(&base, "persistentVolumeReclaimPolicy", json!("Burn")),
                "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Burn\"",
            ),
            (with(&base, "volumeMode", json!("Tape")), "spec.volumeMode: Unsupported value: \"Tape\""),
            (with(&base, "local", json!({"path": ""})), "spec.local.path: Required value"),
            (with(&base, "local", json!({"path": "/a/../b"})), "spec.local.path: Invalid value: \"/a/../b\": must not"),
            (with(&base, "hostPath", json!({"path": "/a"})), "may not specify more than 1 volume type"),
            (with(&base, "local", json!(null)), "spec: Required value: must specify a volume type"),
            (with(&base, "nfs", json!({"server": "s", "path": "/"})), "spec.nfs: Forbidden: no node can mount"),
            (
                with(&base, "nodeAffinity", json!(null)),
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ),
            (
                with(&base, "nodeAffinity", json!({})),
                "spec.nodeAffinity.required: Required value: must specify required node constraints",
            ),
        ],
    );
    let moved = changed(Kind::PERSISTENT_VOLUME, &found, |volume| volume["spec"]["local"]["path"] = json!("/other"));
    assert!(moved.unwrap_err().message.contains("spec.persistentvolumesource is immutable after creation"));
    let moved = changed(Kind::PERSISTENT_VOLUME, &found, |volume| {
        volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] =
            json!(["m"]);
    });
    assert!(moved.unwrap_err().message.contains("spec.nodeAffinity: Invalid value"));
}

// VOL-02
#[test]
fn claims_are_checked_and_get_the_default_class() {
    let base = claim();
    refused(
        Kind::PERSISTENT_VOLUME_CLAIM,
        &[
            (
                with(&base, "accessModes", json!([])),
                "spec.accessModes: Required value: at least 1 access mode is required",
            ),
            (with(&base, "resources", json!({})), "spec.resources[storage]: Required value"),
            (
                with(&base, "resources", json!({"requests": {"storage": "0"}})),
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            ),
            (with(&base, "storageClassName", json!("A")), "spec.storageClassName: Invalid value: \"A\""),
            (with(&base, "dataSource", json!({"kind": "X", "name": "y"})), "spec.dataSource: Forbidden"),
        ],
    );
    let class = |name: &str, created: &str| {
        let metadata = json!({"name": name, "creationTimestamp": created,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}});
        (Kind::STORAGE_CLASS, json!({"metadata": metadata, "provisioner": "p"}))
    };
    let view = view_with(&[class("old", "2026-01-01T00:00:00Z"), class("new", "2026-02-01T00:00:00Z")]);
    for (stated, expected) in [(json!(null), json!("new")), (json!("own"), json!("own")), (json!(""), json!(""))] {
        let mut value = base.clone();
        if !stated.is_null() {
            value["spec"]["storageClassName"] = stated;
        }
        let found = admitted_in(&view, Kind::PERSISTENT_VOLUME_CLAIM, value).unwrap();
        assert_eq!((&found["spec"]["storageClassName"], &found["status"]["phase"]), (&expected, &json!("Pending")));
    }
    let found = admitted(Kind::PERSISTENT_VOLUME_CLAIM, claim()).unwrap();
    let bound =
        changed(Kind::PERSISTENT_VOLUME_CLAIM, &found, |claim| claim["spec"]["volumeName"] = json!("v")).unwrap();
    for field in ["volumeName", "accessModes", "volumeMode"] {
        let other = if field == "accessModes" { json!(["ReadOnlyMany"]) } else { json!("Block") };
        let changed = changed(Kind::PERSISTENT_VOLUME_CLAIM, &bound, |claim| claim["spec"][field] = other);
        assert!(
            changed.unwrap_err().message.contains("spec: Forbidden: spec is immutable after creation except"),
            "{field}"
        );
    }
}

// VOL-02
#[test]
fn storage_classes_are_checked_and_stay_what_they_are() {
    let class = |fields: Value| {
        let mut class = json!({"metadata": {"name": "s"}, "provisioner": "kubernetes.io/no-provisioner"});
        for (name, value) in fields.as_object().unwrap() {
            class[name] = value.clone();
        }
        class
    };
    let found = admitted(Kind::STORAGE_CLASS, class(json!({"parameters": {"a": "b"}}))).unwrap();
    assert_eq!((&found["reclaimPolicy"], &found["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
    refused(
        Kind::STORAGE_CLASS,
        &[
            (class(json!({"provisioner": ""})), "provisioner: Required value"),
            (class(json!({"provisioner": "a b"})), "provisioner: Invalid value: \"a b\""),
            (class(json!({"reclaimPolicy": "Recycle"})), "reclaimPolicy: Unsupported value: \"Recycle\""),
            (class(json!({"volumeBindingMode": "Later"})), "volumeBindingMode: Unsupported value: \"Later\""),
            (class(json!({"parameters": {"": "x"}})), "parameters: Invalid value: \"\": field can not be empty."),
            (
                class(json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": []}]}]})),
                "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            ),
        ],
    );
    for (field, value, words) in [
        ("provisioner", json!("other"), "provisioner: Forbidden: updates to provisioner are forbidden."),
        ("parameters", json!({}), "parameters: Forbidden: updates to parameters are forbidden."),
        ("reclaimPolicy", json!("Retain"), "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden."),
        ("volumeBindingMode", json!("WaitForFirstConsumer"), "volumeBindingMode: Invalid value"),
    ] {
        let error = changed(Kind::STORAGE_CLASS, &found, |class| class[field] = value).unwrap_err();
        assert!(error.message.contains(words), "{error}");
    }
}
