//! Priority classes, and what they mean for pods.

use serde_json::{Value, json};

use super::{admitted, admitted_in, changed, pod, refused, view_with};
use crate::admission::update;
use crate::kind::Kind;
use crate::view::View;

fn class(name: &str, fields: Value) -> Value {
    let mut class = json!({"metadata": {"name": name}, "value": 1000});
    for (name, value) in fields.as_object().unwrap() {
        class[name] = value.clone();
    }
    class
}

// PRI-01
#[test]
fn a_priority_class_has_kubernetes_defaults_and_bounds() {
    let found = admitted(Kind::PRIORITY_CLASS, class("high", json!({"description": "d"}))).unwrap();
    assert_eq!(found["preemptionPolicy"], "PreemptLowerPriority");
    for value in [-2_147_483_648_i64, 0, 1_000_000_000] {
        assert!(admitted(Kind::PRIORITY_CLASS, class("c", json!({"value": value}))).is_ok(), "{value}");
    }
    let node = json!({"value": 2_000_001_000});
    assert!(admitted(Kind::PRIORITY_CLASS, class("system-node-critical", node.clone())).is_ok());
    let reserved = "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use \
        only. error: ";
    refused(
        Kind::PRIORITY_CLASS,
        &[
            (json!({"metadata": {"name": "c"}}), "value: Required value"),
            (
                class("c", json!({"value": 1_000_000_001})),
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            ),
            (
                class("c", json!({"preemptionPolicy": "Often"})),
                "preemptionPolicy: Unsupported value: \"Often\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ),
            (class("Big", json!({})), "metadata.name: Invalid value: \"Big\""),
            (class("system-x", json!({})), &format!("{reserved}system-x is not a known system priority class")),
            (
                class("system-node-critical", json!({})),
                &format!("{reserved}value of system-node-critical PriorityClass must be 2000001000"),
            ),
            (
                class("system-node-critical", json!({"value": 2_000_001_000, "globalDefault": true})),
                &format!("{reserved}globalDefault of system-node-critical PriorityClass must be false"),
            ),
        ],
    );
    // More than 32 bits is no priority at all.
    assert_eq!(admitted(Kind::PRIORITY_CLASS, class("c", json!({"value": 3_000_000_000_i64}))).unwrap_err().code, 400);
}

// PRI-01
#[test]
fn a_priority_class_stays_what_it_is() {
    let old = admitted(Kind::PRIORITY_CLASS, class("c", json!({}))).unwrap();
    type Change = fn(&mut Value);
    let table: [(Change, &str); 3] = [
        (|class| class["value"] = json!(7), "value: Forbidden: may not be changed in an update."),
        (
            |class| class["preemptionPolicy"] = json!("Never"),
            "preemptionPolicy: Invalid value: \"Never\": field is immutable",
        ),
        (|class| class["description"] = json!("other"), ""),
    ];
    for (change, words) in table {
        match changed(Kind::PRIORITY_CLASS, &old, change) {
            Ok(_) => assert_eq!(words, ""),
            Err(error) => assert!(!words.is_empty() && error.message.contains(words), "{error}"),
        }
    }
}

fn defaults() -> View {
    view_with(&[
        (Kind::PRIORITY_CLASS, class("usual", json!({"value": 5, "globalDefault": true, "preemptionPolicy": "Never"}))),
        (Kind::PRIORITY_CLASS, class("low", json!({"value": -10, "preemptionPolicy": "PreemptLowerPriority"}))),
    ])
}

// PRI-01
#[test]
fn there_is_one_default_at_most() {
    let second = class("other", json!({"globalDefault": true}));
    let error = admitted_in(&defaults(), Kind::PRIORITY_CLASS, second).unwrap_err();
    let words = "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass usual is already marked as \
        default. Only one default can exist";
    assert_eq!((error.code, error.message.as_str()), (403, words));
    let old = admitted(Kind::PRIORITY_CLASS, class("other", json!({}))).unwrap();
    let mut new = old.clone();
    new["globalDefault"] = json!(true);
    assert_eq!(update(&defaults(), Kind::PRIORITY_CLASS, &old, &mut new).unwrap_err().code, 403);
    let old = admitted(Kind::PRIORITY_CLASS, class("usual", json!({"globalDefault": true}))).unwrap();
    let mut new = old.clone();
    new["description"] = json!("the usual one");
    assert_eq!(update(&defaults(), Kind::PRIORITY_CLASS, &old, &mut new), Ok(()));
}

// PRI-02
#[test]
fn a_pod_gets_the_priority_of_its_class() {
    let critical = json!({"priorityClassName": "system-cluster-critical"});
    for (spec, class, priority, policy) in [
        (json!({}), json!("usual"), 5, "Never"),
        (json!({"priorityClassName": "low"}), json!("low"), -10, "PreemptLowerPriority"),
        (json!({"priorityClassName": "low", "priority": -10}), json!("low"), -10, "PreemptLowerPriority"),
        // As in Kubernetes since 1.17, in any namespace.
        (critical, json!("system-cluster-critical"), 2_000_000_000, "PreemptLowerPriority"),
    ] {
        let found = admitted_in(&defaults(), Kind::POD, pod(spec)).unwrap();
        let spec = &found["spec"];
        assert_eq!((&spec["priorityClassName"], &spec["priority"]), (&class, &json!(priority)));
        assert_eq!(spec["preemptionPolicy"], policy);
    }
    let plain = admitted(Kind::POD, pod(json!({}))).unwrap();
    assert_eq!((&plain["spec"]["priority"], plain["spec"].get("priorityClassName")), (&json!(0), None));
    for (spec, words) in [
        (json!({"priorityClassName": "high"}), "pods \"p\" is forbidden: no PriorityClass with name high was found"),
        (
            json!({"priorityClassName": "low", "priority": 3}),
            "the integer value of priority (3) must not be provided in pod spec; priority admission controller computed \
             -10 from the given PriorityClass name",
        ),
        (
            json!({"priorityClassName": "low", "preemptionPolicy": "Never"}),
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller \
             computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ] {
        let error = admitted_in(&defaults(), Kind::POD, pod(spec)).unwrap_err();
        assert!(error.code == 403 && error.message.contains(words), "{error}");
    }
}
